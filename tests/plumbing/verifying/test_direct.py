"""Turns are held against their digests as the engine gives them, and what is wrong is named as by the long look."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyoxigraph as ox
import pytest

from tests.support.everything import everything
from tests.support.machines import Size
from trails import Repository
from trails.errors import TrailsError
from trails.integrity.digests import GENESIS, content_digest
from trails.model.lineage import Segment
from trails.model.values import NO_FACTS, Call, Facts, ModelCall, ToolCall, ToolResult
from trails.plumbing.packs.block import Block, encode
from trails.plumbing.verifying import checking, direct
from trails.rdf import vocab
from trails.store import EmbeddedStore
from trails.store.commitlog import Leaves

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


@pytest.fixture
def long(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sessions that took a long look."""
    looked: list[str] = []
    look = checking._Checking._any_turns

    def noted(self: Any, record: Any, *more: Any) -> tuple[int, int]:
        looked.append(record.id)
        return look(self, record, *more)

    monkeypatch.setattr(checking._Checking, "_any_turns", noted)
    return looked


def engine_of(store: Repository) -> ox.Store:
    assert isinstance(store.store, EmbeddedStore)
    return store.store._engine()


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


def test_plain_turns_take_no_long_look_and_all_are_counted(store: Repository, long: list[str]) -> None:
    report = store.verify()
    assert (report.ok, report.sessions, report.turns) == (True, 2, 5), report.findings
    assert store.verify("fork").ok
    assert long == []


def test_nor_do_turns_with_what_most_have(store: Repository, long: list[str]) -> None:
    for name, more in (
        ("model", {"model": "m"}),
        ("no-model", {"usage": {"input_tokens": 7, "cost": 0.25}}),
        ("reason", {"model": "m", "stop_reason": "end"}),
        ("meta", {"meta": {"a": "\\ \t"}}),
        ("two", {"tool_calls": [call("c1"), call("c2")], "meta": {"a": 1}}),
    ):
        session = store.create(id=name, agent="planner")
        session.append("assistant", "hi", **more)
        session.append("user", "well")
        session.append("assistant", "ho", **more)
        session.persist()
    store.redact("fork", 2)
    store.redact("two", 2)
    report = store.verify()
    assert (report.ok, report.turns) == (True, 20), report.findings
    assert long == []


def test_what_is_rare_is_looked_at_for_long(store: Repository, long: list[str]) -> None:
    session = store.create(id="told")
    session.append("assistant", "hi", model="m", call=Call(provider="p"))
    session.persist()
    assert store.verify().ok
    assert long == ["told"]


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


def test_calls_and_answers_take_no_long_look_also_where_a_fork_answers_what_it_inherits(
    agents: Repository, long: list[str]
) -> None:
    report = agents.verify()
    assert (report.ok, report.turns) == (True, 7), report.findings
    assert agents.verify("fork").ok
    assert long == []


def test_turns_that_were_redacted_take_none_and_one_whose_redaction_was_not_logged_is_found(
    agents: Repository, long: list[str]
) -> None:
    agents.redact("plan", 1)
    assert agents.verify().ok
    assert long == []
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
def test_whatever_quad_is_gone_or_another_or_one_too_many_is_found_and_named_as_by_the_long_look(
    agents: Repository, monkeypatch: pytest.MonkeyPatch, session: str, size: Size
) -> None:
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
        found = sorted(map(str, agents.verify().findings))
        with monkeypatch.context() as patch:
            patch.setattr(direct, "look", lambda *_: None)
            if not found or found != sorted(map(str, agents.verify().findings)):
                wrong.append((gone, new))
        for quad in new:
            engine.remove(quad)
        for quad in gone:
            engine.add(quad)
    assert wrong == []
    assert agents.verify().ok
    assert len(changes) > 120


def test_most_sessions_of_a_store_with_something_of_everything_take_no_long_look(
    memory: Repository, long: list[str]
) -> None:
    everything(memory)
    report = memory.verify()
    assert report.ok, report.findings
    assert 0 < len(long) < report.sessions / 2


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


@pytest.mark.parametrize(
    ("lexical", "wanted"),
    [
        ("1970-01-01T00:00:01Z", 1_000_000),
        ("1970-01-01T00:00:01.5Z", 1_500_000),
        ("1970-01-01T00:00:01.000005Z", 1_000_005),
        ("1969-12-31T23:59:59.25Z", -750_000),
    ],
)
def test_times_are_read_to_the_microsecond(lexical: str, wanted: int) -> None:
    seconds: dict[str, int] = {}
    for _ in range(2):
        assert direct._micros(f'"{lexical}"^^{vocab.DATE_TIME}', seconds) == wanted


@pytest.mark.parametrize(
    "lexical",
    [
        "1970-01-01T00:00:01",
        "1970-01-01T00:00:01+00:00",
        "1970-01-01T00:00:01.0000005Z",
        "1970-01-01T00:00:01 5Z",
        "x",
        "Z",
    ],
)
def test_times_that_are_never_written_so_are_refused(lexical: str) -> None:
    with pytest.raises((ValueError, TrailsError)):
        direct._micros(f'"{lexical}"^^{vocab.DATE_TIME}', {})


def around(store: Repository, session: str, named: Sequence[str] = ()) -> direct.Around:
    reader = store.workspace.reader
    return direct.Around(named, (), lambda _: True, lambda: reader.table("beyond_turns", session=session), list)


def packed(store: Repository) -> tuple[direct.Direct, Callable[..., Block]]:
    """The turns of plan as `verify` sees them, and what makes a block of them with some fields changed in one."""
    reader, record = store.workspace.reader, store.workspace.reader.record("plan")
    turns = reader.own_turns(Segment(record, 0, None))
    seen = direct.look(record, reader.table("sealed_turns", session="plan"), GENESIS, around(store, "plan"))
    assert seen is not None

    def block(start: int = 0, end: int = 4, **other: object) -> Block:
        chosen: Sequence[Any] = [*turns[start : end - 1], turns[end - 1].model_copy(update=other)]
        return Block(encode("plan", 0, chosen, Leaves(0, 0, "")))

    return seen, block


OTHERS: Sequence[dict[str, Any]] = (
    {"text": "no"},
    {"role": "user"},
    {"branch": "b"},
    {"author_iri": "urn:trails:agent:b"},
    {"time": None},
    {"structured": True},
    {"redacted": True},
    {"digest": "0" * 64},
    {"facts": Facts(meta_json="{}")},
    {"facts": Facts(model_call=ModelCall(model="n"))},
    {"facts": Facts(tool_calls=(ToolCall(id="c1", name="ls", arguments="{}"),))},
    {"facts": Facts(tool_results=(ToolResult(call_id="c9"),))},
    {"facts": Facts(source_ids=("a",))},
    {"facts": Facts(withheld="0")},
)


def test_a_pack_that_says_the_same_is_told_from_one_that_says_anything_else(store: Repository) -> None:
    seen, block = packed(store)
    assert seen.is_said_by([])
    assert seen.is_said_by([block(0, 2), block(2, 4)])
    assert not seen.is_said_by([block(0, 2), block(0, 2)])
    for other in OTHERS:
        assert not seen.is_said_by([block(**other)]), other


def test_so_is_one_of_calls_and_answers(agents: Repository) -> None:
    seen, block = packed(agents)
    assert seen.is_said_by([block(0, 2), block(2, 5)])
    for end in range(1, 6):
        for other in (*OTHERS, {"facts": NO_FACTS}):
            if not (end == 1 and other == {"role": "user"}):
                assert not seen.is_said_by([block(0, end, **other)]), (end, other)


def test_what_is_to_be_looked_at_anyway_is_not_passed_over(store: Repository) -> None:
    reader = store.workspace.reader
    record, before = reader.record("fork"), store.load("plan").turns[1].digest
    digest = store.load("fork").turns[2].digest

    def seen(record: Any = record, named: Sequence[str] = ()) -> direct.Direct | None:
        table = reader.table("sealed_turns", session="fork")
        return direct.look(record, table, before, around(store, "fork", named))

    assert seen() is not None
    assert seen(named=[digest]) is None
    assert seen(record.model_copy(update={"branch": "other"})) is None
    assert seen(record.model_copy(update={"forked_at_index": 1})) is None


def test_a_turn_without_a_time_has_nine_quads_and_any_other_ten_beside_what_is_recorded_with_it() -> None:
    who = ("user", "main", "urn:trails:principal:alice")
    said: list[direct.Said] = [("0", who, 0, "hi", False, False, 0), ("1", who, None, "hi", False, False, 0)]
    assert direct.Direct([], said).quads == 19
    assert direct.Direct([], said, [["<urn:x>", "2", '"{}"']]).quads == 20
