"""The queries for auditors on integrity: answers counted by hand, and held against a count of another kind."""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pyoxigraph as ox
import pytest

import trails
from tests.support.busy_agents import BusyAgents, seeds
from tests.support.engines import ENGINES, Answer, Engines, answered
from tests.support.nine_sessions import fill
from tests.support.plain_quads import SESSION, TRAILS, PlainQuads
from trails import Repository
from trails.history import turn_builder
from trails.model import iris
from trails.rdf import query_files, vocab
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
    parent = ox.Quad(ox.NamedNode(twin.iri), vocab.PARENT_SESSION, ox.NamedNode(SESSION + "gone"), vocab.CATALOG)
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


@pytest.fixture(scope="module")
def stores() -> Iterator[dict[str, Engines]]:
    with contextlib.ExitStack() as opened:
        made = {}
        for name, build in (("nine", fill), ("damaged", damaged), ("timed", timed)):
            store = opened.enter_context(trails.open(":memory:"))
            build(store)
            made[name] = Engines(store)
        yield made


CASES = [
    *(("nine", answer) for answer in NINE),
    *(("damaged", answer) for answer in DAMAGED),
    *(("timed", answer) for answer in TIMED),
]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("place", "answer"), CASES, ids=lambda case: case if isinstance(case, str) else str(case[:2]))
def test_a_query_on_integrity_answers_what_was_counted_by_hand(
    stores: dict[str, Engines], engine: str, place: str, answer: Answer
) -> None:
    found, expected = answered(stores[place], engine, answer)
    if answer[0] == "orphans":  # the ids of notes and scores are drawn by lot
        found = [(row[0], None if row[0] in ("note", "score") else row[1], *row[2:]) for row in found]
    assert found == expected


def test_a_store_that_nobody_changed_has_nothing_wrong(stores: dict[str, Engines]) -> None:
    for name in ("index-gaps", "orphans", "fork-heads", "altered-copies"):
        assert stores["nine"].rows("pyoxigraph", name) == []


def test_an_orphan_says_when_what_is_missing_was_deleted(stores: dict[str, Engines]) -> None:
    rows = stores["damaged"].store.query("orphans").to_dicts()  # type: ignore[union-attr] # a SELECT
    assert [row["missing"] for row in rows if row["deleted"] is not None] == [SESSION + "gone"]


def test_every_query_on_integrity_has_a_hand_counted_answer() -> None:
    assert {name for _, (name, _, _, expected) in CASES if expected} == set(query_files.by_theme("integrity"))


# --- held against counts by plain loops


class Tampered:
    """A store drawn by lot, some of whose quads were taken out, doubled or altered."""

    def __init__(self, store: Repository, seed: int) -> None:
        made = BusyAgents(store, seed)
        chance = random.Random(seed)
        owned = [turn for record in store.list(limit=1000) for turn in self._own(store, record)]
        parts = chance.sample(owned, 16)
        inherited = [
            store.load(fork.id).turns[at - 1] for fork in made.forks if (at := store.record(fork.id).forked_at_index)
        ]
        originals = {
            value for quad in store.store.quads((None, vocab.ALTERNATE_OF, None, None)) if (value := quad.object)
        }
        for turn in parts[:6]:
            _drop(store, _about(store, turn.iri))
        for turn in parts[6:10]:
            node = ox.NamedNode(turn.iri[:-16] + "0" * 16)
            graph = ox.NamedNode(iris.session(turn.session_id))
            _drop(store, [], (ox.Quad(node, vocab.INDEX, vocab.integer(turn.index), graph),))
        altered = {turn.iri: turn for turn in (*parts[10:], *chance.sample(inherited, 2))}
        altered |= {turn.iri: turn for turn in owned if ox.NamedNode(turn.iri) in originals and chance.random() < 0.3}
        for turn in altered.values():
            with contextlib.suppress(ValueError):  # it was taken out before
                _alter(store, turn)
        for number in range(2):
            _drop(store, _about(store, iris.session(f"root-{number}"), vocab.CATALOG))

    def _own(self, store: Repository, record: Any) -> list[trails.Turn]:
        return [turn for turn in store.load(record.id).turns if turn.session_id == record.id]


@pytest.fixture(scope="module")
def tampered(request: pytest.FixtureRequest) -> Iterator[list[PlainQuads]]:
    with contextlib.ExitStack() as open_stores:
        found = []
        for seed in seeds(request.config):
            store = open_stores.enter_context(trails.open(":memory:"))
            Tampered(store, seed)
            found.append(PlainQuads(store))
        yield found


@pytest.fixture(scope="module")
def whole(request: pytest.FixtureRequest) -> Iterator[list[PlainQuads]]:
    with contextlib.ExitStack() as open_stores:
        found = []
        for seed in seeds(request.config):
            store = open_stores.enter_context(trails.open(":memory:"))
            _at_odd_times(store, BusyAgents(store, seed))
            found.append(PlainQuads(store))
        yield found


def _at_odd_times(store: Repository, made: BusyAgents) -> None:
    """Add to some sessions turns whose times were drawn by lot, or are not known, and forks of them."""
    for session in [store.load(each.id) for each in (*made.roots, *made.forks)]:
        for _ in range(3):
            if made.chance.random() < 0.3:
                session.worktree.append(turn_builder.make_draft("user", "Some time", timed=False))
            else:
                session.append("user", "Then", time=made.now() + timedelta(hours=made.chance.randint(-9, 9)))
        session.persist()
        fork = session.fork(created=made.now())
        fork.append("user", "Now", time=made.now())
        fork.persist()


def indices(plain: PlainQuads) -> dict[str, Counter[int]]:
    """Return how often each index stands in the graph of each session that is there."""
    found: dict[str, Counter[int]] = {session: Counter() for session in plain.of_class("Session")}
    for _, predicate, value, graph in plain.quads:
        if predicate == "trails:index" and graph in found:
            found[graph][int(value)] += 1
    return found


def test_gaps_and_doubled_places_are_those_that_counting_up_meets(tampered: list[PlainQuads]) -> None:
    seen = set()
    for plain in tampered:
        expected = set()
        for session, places in indices(plain).items():
            expected |= {(session, "doubled", index, index, count) for index, count in places.items() if count > 1}
            start = int(plain.value(session, "trails:forkedAtIndex") or 0)
            missing: list[int] = []
            for index in range(start, max(places, default=start - 1) + 1):
                if index not in places:
                    missing.append(index)
                elif missing:
                    expected.add((session, "gap", missing[0], missing[-1], len(missing)))
                    missing = []
        rows = plain.asked("index-gaps")
        assert {tuple(row.values()) for row in rows} == expected
        assert len(rows) == len(expected)
        seen |= {row["what"] for row in rows}
    assert seen == {"gap", "doubled"}


def test_orphans_are_what_names_a_session_that_has_no_row(tampered: list[PlainQuads]) -> None:
    for plain in tampered:
        there = set(plain.of_class("Session"))
        expected = set()
        names = {
            "trails:parentSession": "fork",
            "trails:spawnedBy": "spawned",
            "trails:promptOf": "prompt",
            "trails:noteOn": "note",
            "trails:tagOf": "tag",
            "trails:scored": "score",
            "trails:currentSession": "conversation",
            "trails:ledgerOf": "ledger",
        }
        for subject, predicate, value, graph in plain.quads:
            if predicate in names and value not in there:
                expected.add((names[predicate], subject, value))
            if predicate == "rdf:type" and value == TRAILS + "Turn" and graph not in there:
                expected.add(("turns", graph, graph))
        rows = plain.asked("orphans")
        assert {(row["what"], row["subject"], row["missing"]) for row in rows} == expected
        assert len(rows) == len(expected)
        assert {row["what"] for row in rows} >= {"fork", "prompt", "turns"}


def owner_of(plain: PlainQuads, session: str, index: int) -> str | None:
    """Return whose turn stands at a place that a session inherits, walking up fork by fork."""
    while (at := plain.value(session, "trails:forkedAtIndex")) is not None and index < int(at):
        above = plain.value(session, "trails:parentSession")
        if above is None:
            return None
        session = above
    return session


def test_fork_heads_are_held_against_the_turn_before_the_fork(tampered: list[PlainQuads]) -> None:
    found_wrong = missing = 0
    for plain in tampered:
        at_place: dict[tuple[str, int], list[str]] = {}
        for subject, predicate, value, graph in plain.quads:
            if predicate == "trails:index":
                at_place.setdefault((graph, int(value)), []).append(subject)
        expected = set()
        for session, _ in plain.pairs("trails:parentSession"):
            at_index = int(plain.value(session, "trails:forkedAtIndex") or 0)
            if at_index == 0:
                continue
            noted = plain.value(session, "trails:forkHead")
            owner = owner_of(plain, session, at_index - 1)
            turns = [t for t in at_place.get((owner or "", at_index - 1), []) if plain.value(t, "trails:digest")]
            expected |= {
                (session, plain.value(t, "trails:digest")) for t in turns if plain.value(t, "trails:digest") != noted
            }
            if not turns:
                expected.add((session, None))
        rows = plain.asked("fork-heads")
        assert {(row["session"], row["found"]) for row in rows} == expected
        found_wrong += sum(row["found"] is not None for row in rows)
        missing += sum(row["found"] is None for row in rows)
    assert found_wrong > 0
    assert missing >= 0


def test_altered_copies_are_those_whose_original_has_another_digest(tampered: list[PlainQuads]) -> None:
    kinds = set()
    for plain in tampered:
        expected = set()
        for kind, link, noted in (
            ("copy", "prov:alternateOf", "trails:digest"),
            ("quotation", "prov:wasQuotedFrom", "trails:quotedDigest"),
        ):
            for turn, original in plain.pairs(link):
                now = plain.value(original, "trails:digest")
                if now is not None and now != plain.value(turn, noted):
                    expected.add((kind, turn, now))
        rows = plain.asked("altered-copies")
        assert {(row["kind"], row["turn"], row["found"]) for row in rows} == expected
        assert len(rows) == len(expected)
        kinds |= {row["kind"] for row in rows}
    assert "copy" in kinds


def test_times_run_backwards_where_a_turn_is_earlier_than_the_one_before(whole: list[PlainQuads]) -> None:
    seen = set()
    for plain in whole:
        expected = set()
        for record, turns in plain.transcripts():
            for before, turn in pairwise(turns):
                if turn.session_id == record.id and before.time and turn.time and turn.time < before.time:
                    expected.add(("turn", turn.iri))
            at_index = record.forked_at_index
            if at_index and record.created and turns[at_index - 1].time and record.created < turns[at_index - 1].time:
                expected.add(("fork", record.iri))
        rows = plain.asked("times-backwards")
        assert {(row["what"], row["subject"]) for row in rows} == expected
        assert len(rows) == len(expected)
        seen |= {row["what"] for row in rows}
    assert seen == {"turn", "fork"}


@pytest.mark.parametrize("gap", [60, 600, 1800])
def test_a_sitting_ends_where_no_turn_follows_within_the_gap(whole: list[PlainQuads], gap: int) -> None:
    for plain in whole:
        used: dict[str, list[datetime | None]] = {}
        for record, turns in plain.transcripts():
            for turn in turns:
                if turn.session_id == record.id and plain.value(turn.iri, "prov:alternateOf") is None:
                    person = turn.author_iri if ":principal:" in turn.author_iri else iris.principal(record.principal)
                    used.setdefault(person, []).append(turn.time)
        expected: set[tuple[str, datetime | None, datetime | None, int]] = set()
        for person, times in used.items():
            told = sorted(time for time in times if time is not None)
            sitting = told[:1]
            for before, time in pairwise(told):
                if (time - before).total_seconds() > gap:
                    expected.add((person, sitting[0], before, len(sitting)))
                    sitting = []
                sitting.append(time)
            expected |= {(person, sitting[0], sitting[-1], len(sitting))} if sitting else set()
            expected |= {(person, None, None, times.count(None))} if None in times else set()
        rows = plain.asked("periods-of-use", gap=gap)
        assert {(row["principal"], row["first"], row["last"], row["turns"]) for row in rows} == expected
        assert len(rows) == len(expected) >= 3
