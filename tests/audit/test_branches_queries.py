"""The queries for auditors on branches: answers counted by hand, and held against counts by plain loops over random stores."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import trails
from tests.support.busy_agents import BusyAgents, seeds
from tests.support.engines import ENGINES, Answer, Engines, answered
from tests.support.nine_sessions import day, fill
from tests.support.plain_quads import SESSION, PlainQuads
from trails import Repository
from trails.rdf import query_files

pytestmark = pytest.mark.filterwarnings("ignore:Dataset\\..*deprecated:DeprecationWarning")  # rdflib warns of itself

NINE: list[Answer] = [
    # solo left dinner at 2, after a turn that dinner inherits from plan; dinner's answers: the last is a tool's, so 4 is it
    ("forks-after", {}, "session index turn fork principal created place answer content", [
        ("dinner", 1, "plan#1", "solo", "principal:bob", day(3), None, None, None),
        ("pi:01", 0, "pi:01#0", "pi:01~b", "principal:anonymous", day(9), 1, "pi:01~b#1", "good day"),
        ("plan", 2, "plan#2", "dinner", "principal:bob", day(2), 4, "dinner#4", "One moment."),
        ("solo", 3, "solo#3", "tail", "principal:bob", day(4), 4, "tail#4", "A walk, then."),
    ]),
    ("forks-after", {"session": "plan"}, "fork", [("dinner",)]),
    ("forks-after", {"index": 3}, "fork", [("tail",)]),
    ("forks-after", {"session": "plan", "index": 3}, "fork", []),
    ("first-difference", {"session": "plan", "other": "dinner"}, "index session_turn session_owner other_turn other_owner", [
        (3, "plan#3", "plan", "dinner#3", "dinner"),
    ]),
    ("first-difference", {"session": "tail", "other": "plan"}, "index session_turn session_owner other_turn other_owner", [
        (2, "solo#2", "solo", "plan#2", "plan"),
    ]),
    ("first-difference", {"session": "solo", "other": "tail"}, "index session_turn other_turn other_owner", [
        (4, None, "tail#4", "tail"),
    ]),
    # nothing is shared: the first turns differ, and of what has no turns there is none
    ("first-difference", {"session": "recipes", "other": "plan"}, "index session_turn session_owner other_turn other_owner", [
        (0, "recipes#0", "recipes", "plan#0", "plan"),
    ]),
    ("first-difference", {"session": "chat", "other": "dinner"}, "index session_turn session_owner other_turn other_owner", [
        (0, None, None, "plan#0", "plan"),
    ]),
    # both inherit the turns 0 and 1 from plan, and dinner 2 as well
    ("first-difference", {"session": "solo", "other": "dinner"}, "index session_turn session_owner other_turn other_owner", [
        (2, "solo#2", "solo", "plan#2", "plan"),
    ]),
    ("first-difference", {"session": "tail", "other": "tail"}, "index", []),
    # 23 + 7 + 4 characters are plan's first three turns, 7 and 21 solo's own two
    ("shared-turns", {}, "session parent at own shared characters", [
        ("dinner", "plan", 3, 3, 3, 34),
        ("pi:01~b", "pi:01", 1, 1, 1, 5),
        ("solo", "dinner", 2, 2, 2, 30),
        ("tail", "solo", 4, 1, 4, 58),
    ]),
    ("shared-turns", {"session": "tail"}, "shared", [(4,)]),
    ("sessions-by-key", {}, "key time session event other by current", [
        ("agent:main:discord:group:dev", day(22), "annex", "began", None, None, True),
        ("agent:main:main", day(21), "hall", "began", None, None, True),
    ]),
    ("forks-for-others", {}, "session principal parent parent_principal at by created", [
        ("dinner", "principal:bob", "plan", "principal:alice", 3, "agent:unknown", day(2)),
    ]),
    ("forks-for-others", {"session": "tail"}, "session", []),
]  # fmt: skip

MINUTE = timedelta(minutes=1)
NINE_O_CLOCK = datetime(2026, 3, 1, 9, tzinfo=UTC)
LOU, MOVED = "agent:main:dm:lou", "agent:main:lou"
KIM, BOSS, CHIEF = "agent:main:dm:kim", "agent:main:boss", "agent:main:chief"

KEYS: list[Answer] = [
    ("sessions-by-key", {"key": LOU}, "time event other by current", [
        (NINE_O_CLOCK, "began", None, None, True),
        (NINE_O_CLOCK + 4 * MINUTE, "left", MOVED, "principal:dave", True),
        (NINE_O_CLOCK + 5 * MINUTE, "came", MOVED, "principal:erin", True),
    ]),
    ("sessions-by-key", {"key": MOVED}, "time event other by current", [
        (NINE_O_CLOCK + 4 * MINUTE, "came", LOU, "principal:dave", False),
        (NINE_O_CLOCK + 5 * MINUTE, "left", LOU, "principal:erin", False),
    ]),
    ("sessions-by-key", {"key": KIM}, "event current", [
        ("began", False),
        ("began", True),
    ]),
    ("moves-and-aliases", {}, "time what from to by reason current", [
        (NINE_O_CLOCK + 1 * MINUTE, "alias", BOSS, KIM, "principal:dave", "manual", None),
        (NINE_O_CLOCK + 3 * MINUTE, "alias removed", CHIEF, KIM, "principal:erin", "manual", None),
        (NINE_O_CLOCK + 4 * MINUTE, "move", LOU, MOVED, "principal:dave", "promotion", True),
        (NINE_O_CLOCK + 5 * MINUTE, "move", MOVED, LOU, "principal:erin", "undo", True),
    ]),
    ("moves-and-aliases", {"key": CHIEF}, "what", [("alias removed",)]),
    ("moves-and-aliases", {"key": MOVED}, "what", [("move",), ("move",)]),
]  # fmt: skip


def keys(store: Repository) -> None:
    """Kim has two names, one of them taken away, and begins anew; lou's session is promoted, and that is undone."""
    now = [NINE_O_CLOCK]
    router = trails.Router(store, config={"session": {"dmScope": "per-peer"}}, clock=lambda: now[0])
    kim, lou = (router.route(trails.Inbound(channel="chat", peer=peer, content="Hello")) for peer in ("kim", "lou"))
    now[0] += MINUTE
    router.alias("boss", kim.key, by="dave")
    now[0] += MINUTE
    router.alias("chief", kim.key, by="dave")
    now[0] += MINUTE
    router.unalias("chief", by="erin")
    now[0] += MINUTE
    moved = router.promote(lou.key, MOVED, by="dave")
    now[0] += MINUTE
    router.undo(moved.operation or "", by="erin")
    router.reset(kim.key)


@pytest.fixture(scope="module")
def stores() -> Iterator[dict[str, Engines]]:
    with trails.open(":memory:") as nine, trails.open(":memory:") as other:
        fill(nine)
        keys(other)
        yield {"nine": Engines(nine), "keys": Engines(other)}


CASES = [*(("nine", answer) for answer in NINE), *(("keys", answer) for answer in KEYS)]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("place", "answer"), CASES, ids=lambda case: case if isinstance(case, str) else str(case[:2]))
def test_a_query_on_branches_answers_what_was_counted_by_hand(
    stores: dict[str, Engines], engine: str, place: str, answer: Answer
) -> None:
    found, expected = answered(stores[place], engine, answer)
    assert found == expected


def test_every_query_on_branches_has_a_hand_counted_answer() -> None:
    assert {name for _, (name, _, _, expected) in CASES if expected} == set(query_files.by_theme("branches"))


# --- held against counts by plain loops


@pytest.fixture(scope="module")
def drawn(request: pytest.FixtureRequest) -> Iterator[list[PlainQuads]]:
    with contextlib.ExitStack() as open_stores:
        found = []
        for seed in seeds(request.config):
            store = open_stores.enter_context(trails.open(":memory:"))
            made = BusyAgents(store, seed)
            _move(store, made)
            found.append(PlainQuads(store))
        yield found


def _move(store: Repository, made: BusyAgents) -> None:
    router = trails.Router(store, config={"session": {"dmScope": "per-peer"}}, clock=made.now)
    for number in range(6):
        peer = f"peer{number}"
        routed = router.route(trails.Inbound(channel="chat", peer=peer, content="Hello"))
        what = made.chance.randrange(4) if number > 3 else number
        if what == 0:
            router.alias(f"as{number}", routed.key, by="dave")
        elif what == 1:
            router.alias(f"as{number}", routed.key, by="dave")
            router.unalias(f"as{number}", by="erin")
        elif what == 2:
            moved = router.promote(routed.key, f"agent:main:to{number}", by="dave")
            router.undo(moved.operation or "", by="erin")
        else:
            router.promote(routed.key, f"agent:main:to{number}", by="dave")
    router.reset(router.route(trails.Inbound(channel="chat", peer="peer0", content="Again")).key)


def forks(plain: PlainQuads) -> list[Any]:
    return [record for record in plain.sessions() if record.parent_session_id is not None]


def test_forks_after_a_turn_have_it_last_and_their_own_last_answer(drawn: list[PlainQuads]) -> None:
    unanswered = 0
    for plain in drawn:
        expected = set()
        for record in forks(plain):
            turns = plain.store.load(record.id).turns
            last = turns[record.forked_at_index - 1] if record.forked_at_index else None
            answers = [turn for turn in turns if turn.session_id == record.id and turn.role == "assistant"]
            unanswered += not answers
            expected.add(
                (
                    SESSION + record.parent_session_id,
                    last and last.index,
                    last and last.iri,
                    record.iri,
                    answers[-1].index if answers else None,
                    answers[-1].iri if answers else None,
                )
            )
        rows = plain.asked("forks-after")
        names = ("session", "index", "turn", "fork", "place", "answer")
        assert {tuple(row[name] for name in names) for row in rows} == expected
        assert len(rows) == len(expected) >= 3
    assert unanswered > 0


def test_two_branches_first_differ_where_their_digests_do(drawn: list[PlainQuads]) -> None:
    same = 0
    for plain in drawn:
        transcripts = list(plain.transcripts())
        for number, (one, turns) in enumerate(transcripts):
            other, others = transcripts[(number * 7 + 1) % len(transcripts)]
            if number % 3 == 0 and one.parent_session_id is not None:
                other = plain.store.record(one.parent_session_id)
                others = plain.store.load(other.id).turns
            index = next(
                (i for i, (a, b) in enumerate(zip(turns, others, strict=False)) if a.digest != b.digest),
                min(len(turns), len(others)),
            )
            rows = plain.asked("first-difference", session=one.id, other=other.id)
            if len(turns) == len(others) == index:
                assert rows == []
                same += 1
                continue
            (row,) = rows
            assert row["index"] == index
            assert row["session_turn"] == (turns[index].iri if index < len(turns) else None)
            assert row["other_turn"] == (others[index].iri if index < len(others) else None)
    assert same > 0


def test_shared_turns_are_those_that_a_fork_shows_and_others_own(drawn: list[PlainQuads]) -> None:
    for plain in drawn:
        expected = {}
        for record in forks(plain):
            turns = plain.store.load(record.id).turns
            shared = [turn for turn in turns if turn.session_id != record.id]
            expected[record.iri] = (
                len(turns) - len(shared),
                len(shared),
                sum(0 if turn.redacted else len(turn.text) for turn in shared),
            )
        rows = plain.asked("shared-turns")
        assert {row["session"]: (row["own"], row["shared"], row["characters"]) for row in rows} == expected
        assert len(rows) == len(expected) >= 3


def test_sessions_stood_under_their_keys_as_their_rows_and_moves_say(drawn: list[PlainQuads]) -> None:
    events = set()
    for plain in drawn:
        moves = sorted((plain.value(move, "prov:endedAtTime") or "", move) for move in plain.of_class("Move"))
        expected = []
        for _, move in moves:
            session = plain.value(move, "trails:movedSession")
            before, after = (plain.value(move, f"trails:{name}Key") for name in ("from", "to"))
            expected += [(after, session, "came", before), (before, session, "left", after)]
        for record in plain.sessions():
            first = [move for _, move in moves if plain.value(move, "trails:movedSession") == record.iri]
            key = plain.value(first[0], "trails:fromKey") if first else record.key
            expected += [(key, record.iri, "began", None)] if key else []
        rows = plain.asked("sessions-by-key")
        found = [(row["key"], row["session"], row["event"], row["other"]) for row in rows]
        assert sorted(found, key=repr) == sorted(expected, key=repr)
        stands = {session: plain.value(c, "trails:key") for c, session in plain.pairs("trails:currentSession")}
        assert all(row["current"] == (stands.get(row["session"]) == row["key"]) for row in rows)
        events |= {row["event"] for row in rows}
    assert events == {"began", "came", "left"}


def test_moves_and_aliases_are_those_that_are_recorded(drawn: list[PlainQuads]) -> None:
    for plain in drawn:
        removed = {subject for subject, _ in plain.pairs("trails:removedAlias")}
        records = {*plain.of_class("Move"), *plain.of_class("Alias"), *removed}
        rows = plain.asked("moves-and-aliases")
        assert {row["record"] for row in rows} == records
        assert len(rows) == len(records)
        assert {row["what"] for row in rows} == {"move", "alias", "alias removed"}
        key = rows[0]["to"]
        some = plain.asked("moves-and-aliases", key=key)
        assert [row["record"] for row in some] == [row["record"] for row in rows if key in (row["from"], row["to"])]


def test_forks_for_others_are_those_whose_principal_is_another(drawn: list[PlainQuads]) -> None:
    total = 0
    for plain in drawn:
        of = {record.id: record.principal for record in plain.sessions()}
        expected = {record.iri for record in forks(plain) if of[record.id] != of[record.parent_session_id]}
        rows = plain.asked("forks-for-others")
        assert {row["session"] for row in rows} == expected
        assert len(rows) == len(expected)
        total += len(rows)
    assert total > 0
