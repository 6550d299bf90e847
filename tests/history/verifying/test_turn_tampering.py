"""Verify finds every quad of a turn that is missing, altered or added."""

from __future__ import annotations

from typing import Any

import pyoxigraph as ox
import pytest

from tests.support.machines import Size
from trails import Repository
from trails.integrity.digests import content_digest
from trails.model.values import Call
from trails.rdf import vocab
from trails.store import EmbeddedStore

GRAPH = ox.NamedNode("urn:trails:session:plan")


@pytest.fixture
def store(memory: Repository) -> Repository:
    """Session plan of four turns, and its fork at 2 of one turn of its own: all of them plain."""
    plan = memory.create(id="plan", principal="alice", agent="planner")
    plan.append("user", 'a "word"\tand\\ a\nline')
    plan.append("assistant", [{"type": "text", "text": "é"}])
    plan.append("user", "\\")
    plan.append("assistant", "yes")
    plan.persist()
    fork = plan.fork(at=2, id="fork")
    fork.append("user", "no")
    fork.persist()
    return memory


def engine_of(store: Repository) -> ox.Store:
    assert isinstance(store.store, EmbeddedStore)
    return store.store.settled_engine()


def turn(store: Repository, index: int) -> ox.NamedNode:
    return ox.NamedNode(store.load("plan").turns[index].iri)


def the_quad(engine: ox.Store, subject: ox.NamedNode, prop: ox.NamedNode) -> ox.Quad:
    return next(engine.quads_for_pattern(subject, prop, None, None))


def altered(store: Repository, index: int, prop: ox.NamedNode, value: ox.NamedNode | ox.Literal | None) -> None:
    """Give a turn of plan another value of a property, or none, past Trails."""
    engine, subject = engine_of(store), turn(store, index)
    quad = the_quad(engine, subject, prop)
    engine.remove(quad)
    if value is not None:
        engine.add(ox.Quad(subject, prop, value, quad.graph_name))


def codes(store: Repository, session: str | None = None) -> set[tuple[str, str | None, int | None]]:
    return {(each.code, each.session_id, each.index) for each in store.verify(session).findings}


def call(call_id: str) -> dict[str, Any]:
    return {"id": call_id, "name": "ls", "arguments": '{"a": "\\u00e9 \\n"}'}


@pytest.fixture
def agents(memory: Repository) -> Repository:
    """Session plan of five turns: a question, two calls, an answer to each, and its end; and a fork of two turns from 3 on.

    The fork answers a call that it inherits, and then says something.
    """
    plan = memory.create(id="plan", principal="alice", agent="planner")
    plan.append("user", "look", meta={"a": 1})
    usage = {"input_tokens": 7, "output_tokens": 2, "cost": 0.25}
    plan.append("assistant", "so", model="m", usage=usage, stop_reason="tools", tool_calls=[call("c1"), call("c2")])
    plan.append("tool", "é", tool_call_id="c1")
    plan.append("tool", "none", tool_call_id="c2", is_error=True)
    plan.append("assistant", "done", model="m", usage=usage)
    plan.persist()
    fork = plan.fork(at=3, id="fork")
    fork.append("tool", "one", tool_call_id="c2")
    fork.append("assistant", "fine", model="m")
    fork.persist()
    return memory


def test_turns_with_whatever_most_have_verify(agents: Repository) -> None:
    for name, more in (
        ("model", {"model": "m"}),
        ("no-model", {"usage": {"input_tokens": 7, "cost": 0.25}}),
        ("reason", {"model": "m", "stop_reason": "end"}),
        ("meta", {"meta": {"a": "\\ \t"}}),
        ("told", {"model": "m", "call": Call(provider="p")}),
        ("two", {"tool_calls": [call("c1"), call("c2")], "meta": {"a": 1}}),
    ):
        session = agents.create(id=name, agent="planner")
        session.append("assistant", "hi", **more)
        session.append("user", "well")
        session.append("assistant", "ho", **more)
        session.persist()
    agents.redact("two", 2)
    report = agents.verify()
    assert (report.ok, report.turns) == (True, 25), report.findings
    assert agents.verify("fork").ok


def test_only_a_redaction_that_was_not_logged_is_found(agents: Repository) -> None:
    agents.redact("plan", 1)
    assert agents.verify().ok
    engine, subject = engine_of(agents), turn(agents, 3)
    salt, value = (the_quad(engine, subject, each) for each in (vocab.SALT, vocab.VALUE))
    kept = content_digest("none", salt.object.value, structured=False)  # type: ignore[union-attr] # a literal
    altered(agents, 3, vocab.SALT, ox.Literal(kept))
    assert value in engine
    altered(agents, 3, vocab.VALUE, ox.Literal("", datatype=vocab.REDACTED))
    assert codes(agents) == {("unlogged", "plan", 3)}


def others(quad: ox.Quad) -> list[ox.Quad]:
    """What could stand in the place of a quad."""
    subject, prop, value, graph = quad
    if isinstance(value, ox.NamedNode):
        return [ox.Quad(subject, prop, ox.NamedNode(f"{value.value}0"), graph)]
    assert isinstance(value, ox.Literal)
    found = [ox.Literal(f"9{value.value}", datatype=value.datatype), ox.Literal(value.value, datatype=vocab.REDACTED)]
    if value.datatype == vocab.JSON:  # the same text, as plain text
        found.append(ox.Literal(value.value))
    if value.datatype == vocab.BOOLEAN:
        found = [ox.Literal(value.value != "true")]
    return [ox.Quad(subject, prop, each, graph) for each in found]


@pytest.mark.parametrize("session", [pytest.param("plan", marks=pytest.mark.slow), "fork"])
def test_any_quad_that_is_missing_altered_or_added_is_found(agents: Repository, session: str, size: Size) -> None:
    engine = engine_of(agents)
    graph = ox.NamedNode(f"urn:trails:session:{session}")
    quads = list(engine.quads_for_pattern(None, None, None, graph))
    changes: list[tuple[list[ox.Quad], list[ox.Quad]]] = [([quad], []) for quad in quads]
    for quad in quads:
        changes += [([quad], [other]) for other in others(quad)] + [([], [other]) for other in others(quad)]
    wrong: list[tuple[Any, Any]] = []
    for gone, new in changes[::5] if size == "quick" else changes:
        for quad in gone:
            engine.remove(quad)
        for quad in new:
            engine.add(quad)
        if agents.verify().ok:
            wrong.append((gone, new))
        for quad in new:
            engine.remove(quad)
        for quad in gone:
            engine.add(quad)
    assert wrong == []
    assert agents.verify().ok
    assert len(changes) > 120


NAME = ox.Literal("another")
TIME = ox.Literal("1999-01-01T00:00:00.5Z", datatype=vocab.DATE_TIME)


@pytest.mark.parametrize("index", [0, 1, 2, 3])
@pytest.mark.parametrize(
    ("prop", "value"),
    [
        (vocab.VALUE, NAME),
        (vocab.VALUE, ox.Literal("[]", datatype=vocab.JSON)),
        (vocab.SALT, NAME),
        (vocab.ROLE, NAME),
        (vocab.BRANCH, NAME),
        (vocab.ATTRIBUTED_TO, ox.NamedNode("urn:trails:principal:eve")),
        (vocab.TIME, TIME),
        (vocab.TIME, None),
        (vocab.DIGEST, ox.Literal("0" * 64)),
    ],
)
def test_whatever_a_digest_covers_is_found_where_it_was_altered(
    store: Repository, index: int, prop: ox.NamedNode, value: ox.NamedNode | ox.Literal | None
) -> None:
    altered(store, index, prop, value)
    assert ("digest-mismatch", "plan", index) in codes(store)


@pytest.mark.parametrize("session", [None, "plan"])
def test_a_quad_that_belongs_to_nothing_is_found_in_the_store_and_in_the_session_alone(
    store: Repository, session: str | None
) -> None:
    stray = ox.Quad(turn(store, 1), ox.NamedNode("urn:other"), NAME, GRAPH)
    engine_of(store).add(stray)
    assert codes(store, session) == {("stray", "plan", None)}
    engine_of(store).remove(stray)
    assert codes(store, session) == set()


def test_a_quad_that_belongs_to_nothing_is_found_of_a_session_with_more_than_plain_turns(store: Repository) -> None:
    session = store.create(id="model")
    session.append("assistant", "hi", model="m")
    session.persist()
    graph = ox.NamedNode("urn:trails:session:model")
    engine_of(store).add(ox.Quad(ox.NamedNode(session.turns[0].iri), ox.NamedNode("urn:other"), NAME, graph))
    assert codes(store) == {("stray", "model", None)}


def test_a_quad_too_many_is_found_also_where_another_session_lacks_one(store: Repository) -> None:
    engine = engine_of(store)
    engine.add(ox.Quad(turn(store, 1), ox.NamedNode("urn:other"), NAME, GRAPH))
    fork = ox.NamedNode(store.load("fork").turns[2].iri)
    engine.remove(the_quad(engine, fork, vocab.SALT))
    found = codes(store)
    assert ("stray", "plan", None) in found
    assert ("rolled-back", "fork", 2) in found


@pytest.mark.parametrize("prop", [vocab.INDEX, vocab.ROLE, vocab.BRANCH, vocab.VALUE, vocab.SALT, vocab.ATTRIBUTED_TO])
def test_a_turn_that_lacks_something_is_no_turn(store: Repository, prop: ox.NamedNode) -> None:
    altered(store, 3, prop, None)
    assert ("rolled-back", "plan", 3) in codes(store)


def test_a_turn_under_the_name_of_another_is_found(store: Repository) -> None:
    engine, subject = engine_of(store), turn(store, 1)
    quads = list(engine.quads_for_pattern(subject, None, None, None))
    for quad in quads:
        engine.remove(quad)
        engine.add(ox.Quad(ox.NamedNode(f"{subject.value}0"), quad.predicate, quad.object, quad.graph_name))
    assert ("wrong-iri", "plan", 1) in codes(store)


def test_an_author_under_another_spelling_of_the_same_name_is_found(store: Repository) -> None:
    altered(store, 0, vocab.ATTRIBUTED_TO, ox.NamedNode("urn:trails:principal:al%69ce"))
    assert ("wrong-iri", "plan", 0) in codes(store)
