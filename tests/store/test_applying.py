"""While the engine gets one commit, others are read and decided that have nothing to do with it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest

from trails.store import committing, maintenance, reading
from trails.store.applying import Applier
from trails.store.contract import Change, PreconditionFailed
from trails.store.embedded import EmbeddedStore

A, B = ox.NamedNode("urn:a"), ox.NamedNode("urn:b")
OF, NAME = ox.NamedNode("urn:of"), ox.NamedNode("urn:name")


def quad(value: str, graph: ox.NamedNode) -> ox.Quad:
    return ox.Quad(OF, NAME, ox.Literal(value), graph)


@contextmanager
def held_up(store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Let the engine get nothing until the event that this gives is set."""
    free, plain = threading.Event(), EmbeddedStore._write

    def write(self: EmbeddedStore, batch: committing.Batch) -> None:
        free.wait()
        plain(self, batch)

    with monkeypatch.context() as patched:
        patched.setattr(EmbeddedStore, "_write", write)
        try:
            yield free
        finally:
            free.set()
            len(store)  # waits


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EmbeddedStore]:
    opened = EmbeddedStore(tmp_path / "store", create=True, durability="process")
    opened.commit(Change(add=[quad("old", A), quad("old", B)]))
    len(opened)
    yield opened
    opened.close()


@pytest.fixture(params=["a few quads", "as many as the bulk loader takes"])
def added(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[ox.Quad]:
    if request.param != "a few quads":
        monkeypatch.setattr(committing, "BULK_FROM", 1)
    return [quad("new", A)]


def test_what_a_waiting_commit_cannot_change_is_read_at_once(
    store: EmbeddedStore, added: list[ox.Quad], monkeypatch: pytest.MonkeyPatch
) -> None:
    with held_up(store, monkeypatch):
        store.commit(Change(add=added))
        assert store.quads((None, None, None, B)) == [quad("old", B)]
        assert store.quads((A, None, None, B)) == []


def test_a_commit_to_another_graph_is_decided_at_once(
    store: EmbeddedStore, added: list[ox.Quad], monkeypatch: pytest.MonkeyPatch
) -> None:
    with held_up(store, monkeypatch):
        store.commit(Change(add=added))
        assert store.commit(
            Change(add=[quad("more", B)], require=[quad("old", B)], forbid=[(A, None, None, B)])
        ).written
        with pytest.raises(PreconditionFailed):
            store.commit(Change(add=[quad("yet more", B)], forbid=[(OF, NAME, ox.Literal("old"), B)]))


@pytest.mark.parametrize(
    "pattern",
    [(None, None, None, A), (None, None, None, None), (OF, None, None, None), (None, NAME, ox.Literal("new"), A)],
    ids=["its graph", "everything", "its subject", "its value"],
)
def test_what_a_waiting_commit_adds_is_waited_for(
    store: EmbeddedStore, added: list[ox.Quad], monkeypatch: pytest.MonkeyPatch, pattern: tuple[object, ...]
) -> None:
    found: list[ox.Quad] = []
    with held_up(store, monkeypatch) as free:
        store.commit(Change(add=added))
        reading = threading.Thread(target=lambda: found.extend(store.quads(pattern)))  # type: ignore[arg-type] # a pattern
        reading.start()
        reading.join(0.05)
        assert not found
        free.set()
        reading.join()
    assert quad("new", A) in found


def test_what_a_waiting_commit_removes_is_waited_for(store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[list[ox.Quad]] = []
    with held_up(store, monkeypatch) as free:
        store.commit(Change(remove=[quad("old", A)]))
        reading = threading.Thread(target=lambda: found.append(store.quads((OF, NAME, ox.Literal("old"), A))))
        reading.start()
        reading.join(0.05)
        assert not found
        free.set()
        reading.join()
    assert found == [[]]


def test_a_commit_that_requires_what_a_waiting_one_removed_is_refused(
    store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[Exception] = []

    def commit() -> None:
        try:
            store.commit(Change(add=[quad("more", B)], require=[quad("old", A)]))
        except PreconditionFailed as error:
            refused.append(error)

    with held_up(store, monkeypatch) as free:
        store.commit(Change(remove=[quad("old", A)]))
        deciding = threading.Thread(target=commit)
        deciding.start()
        deciding.join(0.05)
        free.set()
        deciding.join()
    assert len(refused) == 1


def test_what_a_bulk_load_that_began_meanwhile_may_have_changed_is_read_again(
    store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, calls = committing.matching, 0

    def halved(engine: ox.Store, pattern: Any) -> Iterator[ox.Quad]:
        nonlocal calls
        calls += 1
        if calls == 1:
            store.commit(Change(add=[quad("one", A), quad("other", A)]))
            return iter([quad("old", A), quad("one", A)])
        return plain(engine, pattern)

    monkeypatch.setattr(committing, "BULK_FROM", 1)
    monkeypatch.setattr(reading, "matching", halved)
    found = store.quads((None, None, None, A))
    assert set(found) == {quad("old", A), quad("one", A), quad("other", A)}
    assert calls == 2


def test_while_the_engine_is_exchanged_a_pattern_is_waited_for(
    store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, exchanging, free = maintenance.swap, threading.Event(), threading.Event()
    found: list[list[ox.Quad]] = []

    def slow(path: Path) -> None:
        exchanging.set()
        free.wait()
        plain(path)

    monkeypatch.setattr(maintenance, "swap", slow)
    vacuum = threading.Thread(target=store.vacuum)
    vacuum.start()
    exchanging.wait()
    reader = threading.Thread(target=lambda: found.append(store.quads((None, None, None, B))))
    reader.start()
    reader.join(0.05)
    free.set()
    reader.join()
    vacuum.join()
    assert found == [[quad("old", B)]]


def test_the_number_tells_of_a_commit_only_once_it_can_be_seen(
    store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, told, put = store.number, [], Applier.put

    def watched(self: Applier, batch: committing.Batch) -> None:
        told.append(store.number)  # it is logged, and nobody who reads waits for it yet
        put(self, batch)

    monkeypatch.setattr(Applier, "put", watched)
    assert store.commit(Change(add=[ox.Quad(ox.NamedNode("urn:s"), ox.NamedNode("urn:p"), ox.Literal("v"))])).written
    assert told == [before]
    assert store.number == before + 1
