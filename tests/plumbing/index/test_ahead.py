"""An index that is made anew of many sessions is read in processes beside this one, and says the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import trails
from tests.support.everything import everything
from trails import workers
from trails.plumbing.index import ahead
from trails.plumbing.index.keeper import index_of
from trails.store.view import ViewStore


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    """Any store has many sessions; the list gets what processes were asked to read."""
    pieces: list[Sequence[str]] = []
    each = workers.each

    def kept(begin: str, given: Any, wanted: Sequence[Any], processes: int, **more: Any) -> Iterator[tuple[Any, Any]]:
        pieces.extend(wanted)
        return each(begin, given, wanted, processes, **more)

    monkeypatch.setattr(ahead, "MANY", 1)
    monkeypatch.setattr(ahead, "_PIECE", 2)
    monkeypatch.setattr(workers, "count", lambda: 2)
    monkeypatch.setattr(workers, "each", kept)
    return pieces


@pytest.fixture(scope="module")
def filled_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("filled") / "store.trails"
    with trails.open(place, create=True, durability="process") as store:
        everything(store)
    return place


def answers(store: Any) -> list[Any]:
    """Return what the two files of an index answer: figures of sessions and days, and where texts stand."""
    sessions = [each.id for each in store.list()]
    return [
        list(store.summaries(limit=500)),
        list(store.query("cost")),
        list(store.query("token-usage-by-session")),
        [(hit.session_id, hit.index, hit.snippet) for hit in store.search("the")],
        sessions,
    ]


def rebuilt(store: Any) -> list[Any]:
    index_of(store.store).rebuild()
    return answers(store)


def alone(place: Path) -> list[Any]:
    with trails.open(place) as store, pytest.MonkeyPatch.context() as patch:
        patch.setattr(ahead, "MANY", 1 << 60)
        return rebuilt(store)


def test_processes_read_what_this_one_reads(place: Path, asked: list[Sequence[str]]) -> None:
    with trails.open(place) as store:
        by_others, ids = rebuilt(store), {each.id for each in store.list()}
    assert by_others == alone(place)
    assert by_others[0]
    assert by_others[3]
    assert {session_id for piece in asked for session_id in piece} >= ids


def test_what_was_committed_just_now_is_read_by_them(place: Path, asked: list[Sequence[str]]) -> None:
    with trails.open(place, durability="process") as store:
        session = store.create(id="late")
        session.append("user", "the latest of all")
        session.persist()
        index_of(store.store).rebuild()
        assert asked
        assert [hit.session_id for hit in store.search("the latest of all")] == ["late"]


def test_a_process_that_sees_an_older_store_is_not_believed(place: Path) -> None:
    with trails.open(place) as store:
        lines = store.store.log.reached.lines
    ahead.begin(ahead._Given(str(place), lines))
    with pytest.raises(trails.TrailsError, match="before the last commits"):
        ahead.begin(ahead._Given(str(place), lines + 1))


@pytest.mark.parametrize("done", [0, 2])
def test_what_processes_did_not_come_to_is_read_here(
    place: Path, asked: list[Sequence[str]], monkeypatch: pytest.MonkeyPatch, done: int
) -> None:
    each = workers.each

    def cut_off(*given: Any, **more: Any) -> Iterator[tuple[Any, Any]]:
        answered = each(*given, **more)
        for _ in range(done):
            yield next(answered)
        raise workers.WorkersFailed("killed")

    monkeypatch.setattr(workers, "each", cut_off)
    with trails.open(place) as store:
        found = rebuilt(store)
    assert found == alone(place)


def test_a_store_in_memory_is_read_here(asked: list[Sequence[str]]) -> None:
    with trails.open(":memory:") as store:
        everything(store)
        assert list(ahead.read(store.store, ["plan"])) == []
    assert asked == []


def test_a_view_of_a_store_is_read_by_processes_too(place: Path, asked: list[Sequence[str]]) -> None:
    store = ViewStore(place)
    try:
        read = dict(ahead.read(store, ["plan", "no such session"]))
    finally:
        store.close()
    assert read["no such session"] == ahead.Said(None, [])
    assert [turn.place for turn in read["plan"].turns][:2] == [0, 1]
    assert asked == [["plan", "no such session"]]
