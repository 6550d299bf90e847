"""The queries for auditors on integrity: answers counted by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyoxigraph as ox
import pytest

import trails
from tests.support.engines import Answer, EnginesOf
from tests.support.nine_sessions import fill
from trails import Repository
from trails.history import turn_builder
from trails.model import iris
from trails.rdf import vocab
from trails.store.contract import Change

pytestmark = pytest.mark.filterwarnings("ignore:Dataset\\..*deprecated:DeprecationWarning")  # rdflib warns of itself

NINE: list[Answer] = [
    # what was imported has no times; of neither its answer nor that with the recipe is a model known
    ("incomplete-turns", {"session": ["pi:01", "recipes"]}, "session index lacks turn", [
        ("pi:01", 0, "time", "pi:01#0"),
        ("pi:01", 1, "model", "pi:01#1"),
        ("pi:01", 1, "time", "pi:01#1"),
        ("recipes", 1, "model", "recipes#1"),
    ]),
    ("incomplete-turns", {"session": "plan"}, "lacks", []),
]  # fmt: skip


DAMAGED: list[Answer] = [
    ("index-gaps", {}, "session what index through turns", [
        ("holes", "gap", 1, 2, 2),
        ("holes", "doubled", 4, 4, 2),
        ("late", "gap", 2, 2, 1),
    ]),
    ("index-gaps", {"session": ["holes", "stem"]}, "what index through turns", [("gap", 1, 2, 2), ("doubled", 4, 4, 2)]),
    ("index-gaps", {"session": "stem"}, "index", []),
    ("orphans", {}, "what subject missing by", [
        ("fork", "leaf", "lost", None),
        ("fork", "twin", "gone", "principal:dave"),
        ("ledger", "lost/ledger", "lost", None),
        ("note", None, "lost", None),
        ("prompt", "lost/system/1", "lost", None),
        ("score", None, "lost", None),
        ("spawned", "minion", "lost", None),
        ("tag", "tag:old", "lost", None),
        ("turns", "lost", "lost", None),
    ]),
    ("fork-heads", {}, "session parent at found turn", [
        ("bough", "bare", 2, None, None),
        ("twig", "stem", 2, "ff" * 32, "stem#1"),
    ]),
    ("fork-heads", {"session": "late"}, "session", []),
    ("altered-copies", {}, "session index kind turn original found", [
        ("flat", 1, "copy", "flat#1", "stem#1", "ff" * 32),
        ("quoting", 0, "quotation", "quoting#0", "stem#1", "ff" * 32),
    ]),
    ("altered-copies", {"session": "quoting"}, "index", [(0,)]),
]  # fmt: skip


def at(hour: int, minute: int = 0) -> datetime:
    return datetime(2026, 2, 28, hour, minute, tzinfo=UTC)


TIMED: list[Answer] = [
    ("times-backwards", {}, "what session index subject time after later", [
        ("run", None, None, "run:r1", at(8), "run:r1", at(9)),
        ("turn", "clock", 1, "clock#1", at(9), "clock#0", at(10)),
        ("fork", "early", 1, "early", at(8), "clock#0", at(10)),
        ("turn", "early", 1, "early#1", at(9, 30), "clock#0", at(10)),
    ]),
    ("times-backwards", {"session": "clock"}, "subject", [("clock#1",)]),
    # alice: from 9:00 with no break over half an hour to 10:19; what the agent answered was for her, what bob wrote was bob's
    ("periods-of-use", {"principal": "alice"}, "principal first last turns", [
        ("principal:alice", at(9), at(10, 19), 4),
        ("principal:alice", at(10, 50), at(10, 50), 1),
        ("principal:alice", at(23, 50), at(23, 50) + timedelta(minutes=20), 2),
    ]),
    ("periods-of-use", {"principal": "alice", "gap": 1740}, "first last turns", [
        (at(9), at(9, 49), 3),
        (at(10, 19), at(10, 19), 1),
        (at(10, 50), at(10, 50), 1),
        (at(23, 50), at(23, 50) + timedelta(minutes=20), 2),
    ]),
    ("periods-of-use", {"principal": "bob"}, "first last turns", [(at(9, 25), at(9, 25), 1)]),
    ("periods-of-use", {"principal": "dana"}, "first last turns", [(None, None, 2)]),
]  # fmt: skip


def _drop(store: Repository, found: list[ox.Quad], add: tuple[ox.Quad, ...] = ()) -> None:
    store.store.commit(Change(remove=found, add=list(add)))


def _about(store: Repository, iri: str, graph: Any = None) -> list[ox.Quad]:
    return list(store.store.quads((ox.NamedNode(iri), None, None, graph)))


def _say(store: Repository, session: str, count: int) -> trails.Session:
    made = store.create(id=session, principal="alice", system="Be brief")
    for number in range(count):
        made.append("user", f"{number}")
    made.persist()
    return made


def _alter(store: Repository, turn: trails.Turn) -> None:
    graph = ox.NamedNode(iris.session(turn.session_id))
    (old,) = store.store.quads((ox.NamedNode(turn.iri), vocab.DIGEST, None, graph))
    _drop(store, [old], (ox.Quad(old.subject, old.predicate, ox.Literal("ff" * 32), graph),))


def damaged(store: Repository) -> None:
    """Fill a store whose quads somebody changed behind its back."""
    holes = _say(store, "holes", 6)
    for turn in holes.turns[1:3]:
        _drop(store, _about(store, turn.iri))
    graph = ox.NamedNode(holes.iri)
    twice = ox.NamedNode(f"{holes.iri}/4-0000000000000000")
    _drop(store, [], (ox.Quad(twice, vocab.INDEX, vocab.integer(4), graph),))
    stem = _say(store, "stem", 3)
    stem.fork(at=2, id="twig").persist()
    stem.flatten(id="flat")
    quoting = store.create(id="quoting")
    quoting.cherry_pick("stem", 1)
    quoting.persist()
    _alter(store, stem.turns[1])
    bare = _say(store, "bare", 2)
    bare.fork(id="bough").persist()
    _drop(store, _about(store, bare.turns[1].iri))
    late = _say(store, "holder", 4).fork(at=2, id="late")
    for text in ("2", "3"):
        late.append("user", text)
    late.persist()
    _drop(store, _about(store, late.turns[2].iri))
    _lose(store)


def _lose(store: Repository) -> None:
    lost = _say(store, "lost", 1)
    lost.fork(id="leaf").persist()
    store.create(id="minion", spawned_by="lost").persist()
    store.tags.add("old", "lost")
    store.notes.add("lost", 0, "Look here")
    store.score("lost", "length", 1)
    trails.Ledger(store).receive("lost", "Hello", author="eve")
    _drop(store, _about(store, lost.iri, vocab.CATALOG))
    _say(store, "gone", 1)
    store.delete("gone", by="dave")
    twin = _say(store, "twin", 1)
    parent = ox.Quad(ox.NamedNode(twin.iri), vocab.PARENT_SESSION, ox.NamedNode(iris.session("gone")), vocab.CATALOG)
    _drop(store, [], (parent,))


def timed(store: Repository) -> None:
    """Fill a store with times that cannot be, and with the sittings of alice, bob and dana on the last of February."""
    clock = store.create(id="clock", principal="zoe", created=at(7))
    for hour in (10, 9, 11):
        clock.append("user", "Tick", time=at(hour))
    clock.persist()
    early = clock.fork(at=1, id="early", created=at(8))
    early.append("user", "Tock", time=at(9, 30))
    early.persist()
    run = ox.NamedNode("urn:trails:run:r1")
    said = ((vocab.TYPE, vocab.RUN), (vocab.STARTED_AT, _time(at(9))), (vocab.ENDED_AT, _time(at(8))))
    _drop(store, [], tuple(ox.Quad(run, name, value, vocab.CATALOG) for name, value in said))
    sitting = store.create(id="sitting", principal="alice", agent="planner", created=at(7))
    sitting.append("user", "Hello", time=at(9))
    sitting.append("assistant", "Hello", time=at(9, 20))
    sitting.append("user", "And I", author="bob", time=at(9, 25))
    sitting.append("user", "Well", time=at(9, 49))
    sitting.append("assistant", "Well", time=at(10, 19))
    sitting.append("user", "Again", time=at(10, 50))
    for minutes in (0, 20):  # over midnight into March
        sitting.append("user", "Late", time=at(23, 50) + timedelta(minutes=minutes))
    sitting.persist()
    sitting.flatten(id="copied")
    dana = store.create(id="untimed", principal="dana")
    for text in ("a", "b"):
        dana.worktree.append(turn_builder.make_draft("user", text, timed=False))
    dana.persist()


def _time(moment: datetime) -> ox.Literal:
    return ox.Literal(moment.isoformat().replace("+00:00", "Z"), datatype=vocab.DATE_TIME)


STORES = {fill: NINE, damaged: DAMAGED, timed: TIMED}


def test_a_store_that_nobody_changed_has_nothing_wrong(engines_of: EnginesOf) -> None:
    for name in ("index-gaps", "orphans", "fork-heads", "altered-copies"):
        assert engines_of(fill).rows("pyoxigraph", name) == []


def test_an_orphan_says_when_what_is_missing_was_deleted(engines_of: EnginesOf) -> None:
    rows = engines_of(damaged).store.query("orphans").to_dicts()  # type: ignore[union-attr] # a SELECT
    assert [row["missing"] for row in rows if row["deleted"] is not None] == [iris.session("gone")]
