"""Plain turns are held against their digests as the engine gives them, and what is wrong is named as of any other turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyoxigraph as ox
import pytest

from trails import Repository, vocab
from trails.errors import TrailsError
from trails.integrity.digests import GENESIS
from trails.lineage import Segment
from trails.plumbing.packs.block import Block, encode
from trails.plumbing.verifying import checking, plain
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


def test_a_session_with_anything_more_takes_it(store: Repository, long: list[str]) -> None:
    for name, more in (("model", {"model": "m"}), ("meta", {"meta": {"a": 1}})):
        session = store.create(id=name)
        session.append("assistant", "hi", **more)
        session.persist()
    store.redact("fork", 2)
    assert store.verify().ok
    assert set(long) == {"model", "meta", "fork"}


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
        assert plain._micros(f'"{lexical}"^^{vocab.DATE_TIME}', seconds) == wanted


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
        plain._micros(f'"{lexical}"^^{vocab.DATE_TIME}', {})


def packed(store: Repository) -> tuple[plain.Plain, Callable[..., Block]]:
    """The turns of plan as `verify` sees them, and what makes a block of them with some fields changed in one."""
    reader, record = store.workspace.reader, store.workspace.reader.record("plan")
    turns = reader.own_turns(Segment(record, 0, None))
    seen = plain.look(record, reader.table("sealed_turns", session="plan"), GENESIS, ())
    assert seen is not None

    def block(start: int = 0, end: int = 4, **other: object) -> Block:
        chosen: Sequence[Any] = [*turns[start : end - 1], turns[end - 1].model_copy(update=other)]
        return Block(encode("plan", 0, chosen, Leaves(0, 0, "")))

    return seen, block


def test_a_pack_that_says_the_same_is_told_from_one_that_says_anything_else(store: Repository) -> None:
    seen, block = packed(store)
    assert seen.is_said_by([])
    assert seen.is_said_by([block(0, 2), block(2, 4)])
    assert not seen.is_said_by([block(0, 2), block(0, 2)])
    for other in (
        {"text": "no"},
        {"role": "user"},
        {"branch": "b"},
        {"author_iri": "urn:trails:agent:b"},
        {"time": None},
        {"structured": True},
        {"redacted": True},
        {"digest": "0" * 64},
    ):
        assert not seen.is_said_by([block(**other)]), other


def test_what_is_to_be_looked_at_anyway_is_not_passed_over(store: Repository) -> None:
    reader = store.workspace.reader
    record, before = reader.record("fork"), store.load("plan").turns[1].digest
    digest = store.load("fork").turns[2].digest

    def seen(record: Any = record, named: Sequence[str] = ()) -> plain.Plain | None:
        return plain.look(record, reader.table("sealed_turns", session="fork"), before, named)

    assert seen() is not None
    assert seen(named=[digest]) is None
    assert seen(record.model_copy(update={"branch": "other"})) is None
    assert seen(record.model_copy(update={"forked_at_index": 1})) is None


def test_a_turn_without_a_time_has_nine_quads_and_any_other_ten() -> None:
    who = ("user", "main", "urn:trails:principal:alice")
    assert plain.Plain([], [("0", who, 0, "hi", False), ("1", who, None, "hi", False)]).quads == 19
