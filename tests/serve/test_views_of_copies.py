"""A view shows every turn that was taken, picked or copied from elsewhere, whatever became of where it came from."""

from __future__ import annotations

import pytest

pytest.importorskip("starlette")

import itertools
from typing import Any

import trails
from trails.serve.scoped_views import ScopedViews

PEOPLE = ("alice", "bob")
TWO = tuple(itertools.product(PEOPLE, repeat=2))
EVERY_QUAD = "SELECT ?g ?s ?p ?o { { ?s ?p ?o BIND('' AS ?g) } UNION { GRAPH ?g { ?s ?p ?o } } }"
ORIGINS = ("quoted_from", "derived_from")


def _without_origin(turn: trails.Turn) -> dict[str, Any]:
    return {name: value for name, value in turn.to_dict().items() if name not in ORIGINS}


def _held_against_the_store(store: trails.Repository, views: ScopedViews) -> int:
    """Hold each session of each view against what an admin reads; return how many turns were held."""
    count = 0
    everything = {record.id for record in store.list()}
    for person in PEOPLE:
        view = views.of(person)
        shown = {record.id for record in view.list()}
        for name in sorted(shown):
            whole, seen = store.load(name).turns[:], view.load(name).turns[:]
            assert [_without_origin(turn) for turn in seen] == [_without_origin(turn) for turn in whole], (person, name)
            for mine, theirs, origin in itertools.product(seen, whole, ORIGINS):
                if mine.index == theirs.index:
                    source = getattr(theirs, origin)
                    is_shown = source is not None and source.session_id in shown
                    if is_shown or source is None or source.session_id in everything:  # else it was deleted
                        assert getattr(mine, origin) == (source if is_shown else None), (person, name, mine.index)
            count += len(seen)
        every: Any = view.store.query(EVERY_QUAD)
        text = "\n".join(str(term) for row in every for term in row) + view.store.log.text()
        assert not [name for name in everything - shown if name in text], person
    return count


def _begin(store: trails.Repository, name: str, principal: str, *texts: str) -> trails.Session:
    session = store.create(id=name, principal=principal)
    for text in texts:
        session.append("assistant", text, model="m-1", usage={"input_tokens": 3, "output_tokens": 2})
    session.persist()
    return session


def _fork(session: trails.Session, name: str, principal: str, text: str, at: int | None = None) -> trails.Session:
    fork = session.fork(id=name, principal=principal, at=at)
    fork.append("user", text)
    fork.persist()
    return fork


@pytest.mark.parametrize("is_there_before", [False, True], ids=["new view", "view that follows"])
@pytest.mark.parametrize(("owner", "forker"), TWO)
@pytest.mark.parametrize("removed", ["none", "fork", "fork's copy"])
def test_an_outcome_that_was_taken_shows_without_a_fork_that_is_hidden_or_gone(
    owner: str, forker: str, removed: str, *, is_there_before: bool
) -> None:
    with trails.open(":memory:") as store:
        views = ScopedViews(store)
        session = _begin(store, "session-plan", owner, "one")
        fork = _fork(session, "session-trial", forker, "an outcome")
        if is_there_before:
            _held_against_the_store(store, views)
        session.take(fork, summary="taken")
        session.persist()
        if removed == "fork's copy":
            store.load("session-trial").detach()
        if removed != "none":
            store.delete("session-trial")
        assert _held_against_the_store(store, views) >= 2
        assert [turn.content for turn in views.of(owner).load("session-plan").turns] == ["one", "taken"]


@pytest.mark.parametrize("copy", ["none", "detach", "flatten", "flatten twice"])
@pytest.mark.parametrize("removed", ["none", "source", "picker", "both"])
@pytest.mark.sample(4)
def test_a_turn_that_was_picked_shows_in_every_copy_without_an_origin_that_is_hidden_or_gone(
    copy: str, removed: str
) -> None:
    for source_is_of, picker_is_of, fork_is_of in itertools.product(PEOPLE, repeat=3):
        with trails.open(":memory:") as store:
            views = ScopedViews(store)
            source = _begin(store, "session-source", source_is_of, "one", "two")
            picker = _begin(store, "session-picker", picker_is_of, "a start")
            picker.cherry_pick(source, 0)
            picker.persist()
            fork = _fork(picker, "session-fork", fork_is_of, "a question", at=2)
            again = _begin(store, "session-again", fork_is_of, "a start")
            again.cherry_pick(fork, 1)  # a quote of a quote
            again.persist()
            _held_against_the_store(store, views)
            if copy == "detach":
                fork.detach()
            elif copy != "none":
                flat = fork.flatten()
                if copy == "flatten twice":
                    flat.flatten()
            if removed in ("source", "both"):
                store.delete("session-source")
            if removed in ("picker", "both"):
                store.delete("session-picker", children="detach")
            assert _held_against_the_store(store, views) > 0
            if copy == "detach" or removed in ("picker", "both"):
                turns = views.of(fork_is_of).load("session-fork").turns
                assert [turn.content for turn in turns] == ["a start", "one", "a question"]
            _held_against_the_store(store, ScopedViews(store))
