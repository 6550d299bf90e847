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
