"""Whoever looks at a store beside its owner has an index to look into, also where the owner never closes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import trails
from tests.support.sessions import introduce, introduced
from trails import Repository
from trails.plumbing.index import keeper, sidefile
from trails.plumbing.index.keeper import PARTS, Index
from trails.store import maintenance


def lines_in(place: Path) -> list[int]:
    return [sidefile.sealed_place(place / maintenance.INDEX / part.name).lines for part in PARTS]


def not_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Index) -> list[str]:
        raise AssertionError(f"all of {self} is read")

    monkeypatch.setattr(Index, "_session_ids", refuse)


def kept_up(store: Repository, *, resting: bool) -> None:
    index = store.workspace.index
    index.keep_up(resting=resting)
    assert index._keeper is not None
    index._keeper.join()


def test_an_owner_that_rests_brings_its_index_up_to_date_for_those_who_read(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(keeper._WAITING, "resting", 4)
    with trails.open(place, create=True, durability="process") as store:
        introduce(store, "a", "b")  # two lines each: it is made, and it grows
        kept_up(store, resting=True)
        assert lines_in(place) == [4, 4]
        with trails.open(place, read_only=True) as view:
            not_anew(monkeypatch)
            assert introduced(view) == (["b", "a"], ["b", "a"])


def test_few_lines_are_left_to_those_who_ask_and_more_while_the_owner_is_busy(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "_WAITING", {"resting": 4, "busy": 6})
    with trails.open(place, create=True, durability="process") as store:
        introduce(store, "a")
        kept_up(store, resting=True)
        assert lines_in(place) == [0, 0]
        introduce(store, "b")
        kept_up(store, resting=False)
        assert lines_in(place) == [0, 0]
        introduce(store, "c")
        kept_up(store, resting=False)
        assert lines_in(place) == [6, 6]


def test_a_view_that_is_older_than_the_index_reads_only_what_differs(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with trails.open(place, create=True, durability="process") as store:
        introduce(store, "a", "b")
        with trails.open(place, read_only=True) as view:
            introduce(store, "c")
            a = store.load("a")
            a.append("assistant", "and I am more")
            a.persist()
            assert introduced(store) == (["c", "b", "a"], ["a", "c", "b", "a"])
            not_anew(monkeypatch)
            assert introduced(view) == (["b", "a"], ["b", "a"])
            view.refresh()
            assert introduced(view) == (["c", "b", "a"], ["a", "c", "b", "a"])


def test_a_view_of_what_was_redacted_since_shows_its_own_moment(place: Path) -> None:
    with trails.open(place, create=True, durability="process") as store:
        introduce(store, "a", "b")
        with trails.open(place, read_only=True) as view:
            store.redact("a", 0)
            assert introduced(store) == (["b", "a"], ["b"])
            assert introduced(view) == (["b", "a"], ["b", "a"])
            view.refresh()
            assert introduced(view) == (["b", "a"], ["b"])


def test_a_reader_waits_for_an_owner_that_is_just_writing_the_index(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with trails.open(place, create=True, durability="process") as store:
        introduce(store, "a")
        introduced(store)
        index = store.workspace.index
        for part in PARTS:
            index._opened(part).break_seal()

        def meanwhile(_: float) -> None:
            for part in PARTS:
                index._opened(part).seal()

        monkeypatch.setattr(sidefile, "sleep", meanwhile)
        with trails.open(place, read_only=True) as view:
            not_anew(monkeypatch)
            assert introduced(view) == (["a"], ["a"])


@pytest.mark.parametrize("writes", [None, lambda store: introduce(store, "b")])
def test_nothing_is_brought_up_once_the_store_is_closed(
    place: Path, writes: Callable[[Repository], Any] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(keeper._WAITING, "resting", 0)
    with trails.open(place, create=True, durability="process") as store:
        introduce(store, "a")
        if writes is not None:
            writes(store)
        index = store.workspace.index
    kept = index._keeper
    index.keep_up(resting=True)
    assert index._keeper is kept
    assert not index._files
