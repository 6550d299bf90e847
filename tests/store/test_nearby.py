"""What can be done only where the engine is in this process is done otherwise at a distance, and comes to the same."""

from __future__ import annotations

import time

import pytest
from pyoxigraph import Literal, NamedNode, Quad

from tests.support.distant import Distant
from trails import StoreFailed
from trails.session.repository import Repository
from trails.store import Change, EmbeddedStore
from trails.store.contract import QuadStore
from trails.store.embedded import at_one_moment, drop_graph, holds

_GRAPH = NamedNode("urn:g")


def _quad(number: int) -> Quad:
    return Quad(NamedNode(f"urn:s{number}"), NamedNode("urn:p"), Literal("v"), _GRAPH)


def test_what_is_found_in_a_distant_store_while_somebody_commits_is_looked_for_again() -> None:
    store, looks = Distant(), [0]

    def look() -> int:
        looks[0] += 1
        if looks[0] < 3:
            store.commit(Change(add=[_quad(looks[0])]))
            return -1
        return len(store)

    assert at_one_moment(store, look) == 2
    assert looks == [3]


def test_a_distant_store_that_never_rests_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    store = Distant()
    numbers = iter(range(100))
    with pytest.raises(StoreFailed, match="far:away is written to without a pause"):
        at_one_moment(store, lambda: store.commit(Change(add=[_quad(next(numbers))])))
    assert len(store) == 7, "it was looked at seven times"


def test_an_embedded_store_is_held_while_it_is_looked_at() -> None:
    store = EmbeddedStore(None)
    store.commit(Change(add=[_quad(1)]))
    numbers = iter(range(2, 9))
    assert at_one_moment(store, lambda: store.commit(Change(add=[_quad(next(numbers))])).number) == 2
    assert len(store) == 2, "it was looked at once"


def test_a_graph_goes_from_a_distant_store_in_one_commit_that_tells_only_its_name() -> None:
    store = Distant()
    store.commit(Change(add=[_quad(1), _quad(2)]))
    assert drop_graph(store, _GRAPH) == 2
    assert (store.changes[-1].drop, store.changes[-1].remove) == ([_GRAPH], ())
    assert len(store) == 0
    assert drop_graph(store, _GRAPH) == 0
    assert len(store.changes) == 2, "nothing is committed where nothing is to go"


def test_sessions_are_kept_forked_compared_deleted_and_verified_in_a_distant_store() -> None:
    with Repository(Distant()) as store:
        session = store.create(id="plan")
        session.append("user", "Plan a trip")
        session.persist()
        for name in ("one", "two"):
            fork = session.fork(id=name)
            fork.append("assistant", name)
            fork.persist()
        assert [row["own_turns"] for row in store.compare("plan", at=1, columns=["own_turns"])] == [1, 1]
        store.load("one").detach()
        store.delete("two")
        assert [turn.content for turn in store.load("one").turns] == ["Plan a trip", "one"]
        report = store.verify()
        assert report.ok, report.findings


@pytest.mark.parametrize("store", [Distant(), EmbeddedStore(None)])
def test_a_store_tells_of_each_of_some_quads_whether_it_is_there(store: QuadStore) -> None:
    store.commit(Change(add=[_quad(1), _quad(3)]))
    elsewhere = Quad(NamedNode("urn:s1"), NamedNode("urn:p"), Literal("v"), NamedNode("urn:h"))
    assert holds(store, [_quad(1), _quad(2), _quad(3), elsewhere]) == [True, False, True, False]
    assert holds(store, []) == []
