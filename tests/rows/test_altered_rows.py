"""Rows that were altered are found by `verify`, and made anew by `vacuum`."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import trails


@pytest.mark.parametrize(
    "change", ["UPDATE turns SET text = 'Hullo' WHERE place = 0", "DELETE FROM turns WHERE place = 1"]
)
def test_altered_rows_are_found_and_made_anew(place: Path, change: str) -> None:
    with trails.open(place, create=True, durability="process") as store:
        with store.session("s") as session:
            session.append("user", "Hello")
            session.append("assistant", "Hi", model="m-1")
        assert store.verify().ok
    with closing(sqlite3.connect(place / "trails.db", isolation_level=None)) as rows:
        rows.execute(change)
    with trails.open(place) as store:
        assert [(found.code, found.session_id) for found in store.verify().findings] == [("rows-differ", "s")]
        store.maintenance.vacuum()
        assert store.verify().ok
        assert [turn.content for turn in store.load("s").turns] == ["Hello", "Hi"]


def test_turns_read_the_same_after_a_vacuum_here_and_in_a_store_that_was_open_meanwhile(tmp_path: Path) -> None:
    place = tmp_path / "a.trails"
    with trails.open(place, create=True) as store, trails.open(place) as other:
        gone = store.create(id="gone", principal="ann")
        gone.append("tool", "gone")
        gone.persist()
        plan = store.create(id="plan", principal="bob", agent="planner")
        plan.append("user", "Where to?")
        plan.append("assistant", "To Oslo")
        plan.persist()
        for _ in range(2):
            for each in (store, other):
                turns = each.load("plan").turns
                assert [(turn.role, turn.author) for turn in turns] == [("user", "bob"), ("assistant", "planner")]
                assert each.verify().ok
            if "gone" in store:
                store.delete("gone")
            store.maintenance.vacuum()
