"""Forty questions that auditors bring: each is answered on one small store, counted by hand and by a plain walk in Python.

The walks read turns, registers and the lines of the log as Python has them, and ask no query. What no walk can see is None.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import trails
from tests.support.auditors_store import IMPORTED, SECRET, day, fill
from tests.support.commands import invoke, ok_json
from tests.support.engines import ENGINES, EnginesOf, answered
from trails import Repository, SessionRecord, Turn
from trails.integrity.leaves import parse_leaf

pytestmark = pytest.mark.filterwarnings("ignore:Dataset\\..*deprecated:DeprecationWarning")  # rdflib warns of itself

ANN, BEN, DANA, EVE, UNKNOWN = "principal:ann", "principal:ben", "principal:dana", "principal:eve", "agent:unknown"
TICKET, FILE = hashlib.sha256(b"ticket").hexdigest(), hashlib.sha256(IMPORTED).hexdigest()
Walk = Callable[[Repository], int]


class Question(NamedTuple):
    """A question, the query that answers it, its parameters, the columns compared, the rows by hand, how many a walk finds."""

    rule: str
    asked: str
    query: str
    parameters: dict[str, Any]
    columns: str
    rows: list[tuple[Any, ...]]
    walk: Walk


# --- walks


def own_turns(store: Repository) -> Iterator[tuple[SessionRecord, Turn]]:
    """Yield every turn with the session that owns it."""
    for record in store.list(limit=1000):
        for turn in store.load(record.id).turns:
            if turn.session_id == record.id:
                yield record, turn


def turns_where(wanted: Callable[[SessionRecord, Turn], object]) -> Walk:
    return lambda store: sum(bool(wanted(record, turn)) for record, turn in own_turns(store))


def leaves(kind: str) -> Walk:
    return lambda store: sum(parse_leaf(line)[0].kind == kind for line in store.store.log.lines())


def in_use(store: Repository) -> int:
    """Count the times of use that lie more than an hour apart, by whom the turn is of, or the session runs for."""
    times: dict[str, list[Any]] = {}
    for record, turn in own_turns(store):
        whom = turn.author if turn.author_iri.startswith("urn:trails:principal:") else record.principal
        times.setdefault(whom, []).append(turn.time)
    return sum(1 + sum(b - a > timedelta(hours=1) for a, b in pairwise(sorted(each))) for each in times.values())


def after(has: Callable[[Turn], object]) -> Walk:
    """Return a walk that counts the answers after a turn, in each transcript that has it: each answer once."""

    def walk(store: Repository) -> int:
        found = set()
        for record in store.list(limit=1000):
            turns = store.load(record.id).turns
            first = next((turn.index for turn in turns if has(turn)), None)
            if first is not None:
                found |= {turn.iri for turn in turns if turn.index > first and turn.role == "assistant"}
        return len(found)

    return walk


def is_fetched(turn: Turn) -> bool:
    return any(result.call_id == "c1" for result in turn.tool_results)


def had_or_quoted(turn: Turn) -> bool:
    return is_fetched(turn) or turn.text == "The page says: book now"


def backwards(store: Repository) -> int:
    return sum(
        later.time < earlier.time  # type: ignore[operator] # all have times
        for record in store.list(limit=1000)
        for earlier, later in pairwise(store.load(record.id).turns)
        if later.session_id == record.id
    )


def models(store: Repository) -> int:
    """Count the models of each session, by their providers; a picked turn is its source's."""
    return len({
        (record.id, turn.model, turn.facts.model_call.call and turn.facts.model_call.call.provider)
        for record, turn in own_turns(store)
        if turn.facts.model_call and turn.model
    })  # fmt: skip


def of_person(store: Repository) -> int:
    """Count Ben's sessions, their turns, and his turns elsewhere."""
    sessions = sum(record.principal == "ben" for record in store.list(limit=1000))
    return sessions + sum(record.principal == "ben" or turn.author == "ben" for record, turn in own_turns(store))


def speakers(store: Repository) -> int:
    """Count the people who speak in each transcript in which several do."""
    rows = 0
    for record in store.list(limit=1000):
        people = {turn.author for turn in store.load(record.id).turns if "principal:" in turn.author_iri}
        rows += len(people) if len(people) > 1 else 0
    return rows


def nothing(store: Repository) -> int:
    """Say that the store was made so that there is none."""
    return 0


QUESTIONS: list[Question] = [
    Question("AI Act 12", "When was the system in use, and by whom?", "periods-of-use", {}, "principal turns", [
        *[(ANN, 1)] * 6, ("principal:anonymous", 2), (BEN, 1), (BEN, 2), (BEN, 1), (BEN, 2), (BEN, 2), (DANA, 1), (EVE, 1),
    ], in_use),
    Question("AI Act 12", "Are events missing from the record?", "index-gaps", {}, "session", [], lambda store: sum(
        b.index - a.index != 1 for each in store.list(limit=1000) for a, b in pairwise(store.load(each.id).turns))),
    Question("AI Act 12", "Which records lack a model or the usage?", "incomplete-turns", {}, "turn lacks", [
        ("desk#1", "model"), ("fork#6", "usage"), ("pi:one#1", "model"), ("picks#0", "model"), ("picks#1", "usage"),
        ("plan#3", "usage"), ("repeat#1", "model"), ("secret#1", "model"),
    ], turns_where(lambda _, turn: turn.role == "assistant" and not (turn.model and turn.usage))),
    Question("AI Act 12", "Do recorded times contradict the order?", "times-backwards", {}, "what subject after", [
        ("turn", "picks#1", "picks#0"),
    ], backwards),
    Question("AI Act 12", "What was the model shown before it answered?", "context-window", {"session": "plan", "index": 3},
        "part source", [("prompt", "plan/system/1"), ("turn", "plan#0"), ("turn", "plan#1"), ("turn", "plan#2")],
        lambda store: len(store.load("plan").turns[:3]) + (store.load("plan").system is not None)),
    Question("AI Act 12", "What was it not shown, as it was summarised?", "context-summarised-away",
        {"session": "fork", "index": 6}, "turn", [("plan#0",), ("plan#1",), ("plan#2",)],
        lambda store: store.load("fork").turns[5].facts.compaction.summarised_through + 1),  # type: ignore[union-attr,operator]
    Question("AI Act 12", "What did a model call cost in tokens, and of how many is that unknown?", "token-usage-by-model", {},
        "model calls calls_without_usage input output", [("big-1", 3, 1, 17, 4), ("big-2", 2, 2, None, None)],
        lambda store: len({turn.model for _, turn in own_turns(store) if turn.model})),
    Question("AI Act 14", "Which person checked a result, with which verdict?", "human-checks", {}, "session name verdict by", [
        ("plan", "checked", True, EVE),
    ], leaves("said")),
    Question("AI Act 14", "Who let a tool run, or refused it?", "tool-approvals", {}, "name decision by", [
        ("fetch", "approved", EVE),
    ], turns_where(lambda _, turn: any(each.approved_by or each.refused_by for each in turn.tool_results))),
    Question("AI Act 19", "Was anything removed before six months were over?", "kept-briefly", {}, "what session by", [
        ("session", "gone", DANA),
    ], leaves("delete")),
    Question("AI Act 26", "Which model and version answered when?", "model-history", {}, "session provider model answers", [
        ("fork", None, "big-1", 2), ("picks", None, "big-2", 1), ("plan", "acme", "big-1", 1), ("plan", None, "big-2", 1),
    ], models),
    Question("AI Act 26", "With which parameters was a model called?", "call-parameters", {}, "answer parameter value", [
        ("plan#1", "gen_ai.request.max_tokens", "100"), ("plan#1", "gen_ai.request.temperature", "0.2"),
    ], lambda store: sum(len(turn.meta.get("attributes", {})) for _, turn in own_turns(store))),
    Question("AI Act 26", "Which policy was in force at a call?", "policies-in-force", {"session": "plan", "at": 3},
        "kind policy", [("permissionMode", "plan"), ("system prompt", "Be brief")], lambda store: sum(
        "permissionMode" in turn.meta for turn in store.load("plan").turns[:4]) + (store.load("plan").system is not None)),
    Question("AI Act 26", "Did another model answer than the one asked for?", "another-model-answered", {}, "turn", [], nothing),
    Question("AI Act 73", "Which incidents are there, and when are they to be reported?", "incidents", {"now": day(20)},
        "session kind aware due past_due", [("plan", "serious", day(15), day(30), False)],
        lambda store: len(store.registers.incidents())),
    Question("AI Act 73", "Which answers rest on a document?", "answers-resting-on", {"sha256": TICKET}, "answer", [
        ("fork#4",), ("fork#6",), ("plan#1",), ("plan#3",),
    ], after(lambda turn: turn.payloads)),
    Question("AI Act 73", "Which answers rest on a turn?", "answers-resting-on", {"turn": ("plan", 2)}, "answer place", [
        ("fork#4", "fork"), ("fork#6", "fork"), ("plan#3", "transcript"),
    ], after(is_fetched)),
    Question("AI Act 73", "Which answers rest on a file that was imported?", "answers-resting-on", {"sha256": FILE},
        "answer path", [
        ("pi:one#1", "imported"),
    ], turns_where(lambda record, turn: record.id == "pi:one" and turn.role == "assistant")),
    Question("AI Act 73", "Which answers rest on a tool's output?", "answers-resting-on", {"tool": "fetch"}, "answer place", [
        ("fork#4", "fork"), ("fork#6", "fork"), ("plan#3", "transcript"),
    ], after(is_fetched)),
    Question("AI Act 73", "How far did an untrusted tool's output spread?", "tool-output-spread", {"tool": "fetch"},
        "answer path", [
        ("fork#4", "itself"), ("fork#6", "itself"), ("picks#1", "quoted"), ("plan#3", "itself"),
    ], after(had_or_quoted)),
    Question("GDPR 6", "For which purpose and on which legal basis are data processed?", "purposes", {},
        "session purpose basis", [
        ("desk", "Booking", "contract"), ("fork", "Booking", "contract"), ("pi:one", None, None),
        ("picks", "Booking", "contract"),
        ("plan", "Booking", "contract"), ("repeat", "Booking", "contract"), ("secret", "Booking", "contract"),
    ], lambda store: len(store.list(limit=1000))),
    Question("GDPR 6", "Which purposes were stated earlier?", "purpose-history", {}, "of purpose by", [
        ("agent:clerk", "Selling", DANA), ("agent:clerk", "Booking", DANA),
    ], lambda store: len(store.registers.purposes(agent="clerk"))),
    Question("GDPR 15", "Which records concern one person?", "personal-data", {"principal": "ben"}, "item how", [
        ("fork", "wasAttributedTo"), ("repeat", "wasAttributedTo"), ("secret", "wasAttributedTo"), ("fork#3", "wasAttributedTo"),
        ("fork#4", "session"), ("fork#5", "session"), ("fork#6", "session"), ("repeat#0", "wasAttributedTo"),
        ("repeat#1", "session"), ("secret#0", "wasAttributedTo"), ("secret#1", "session"),
    ], of_person),
    Question("GDPR 15", "To whom did answers go?", "recipients", {}, "turn channel peer outcome", [
        ("desk#1", "smtp", "eve", "sent"),
    ], leaves("delivered")),
    Question("GDPR 17", "What was erased, by whom and why?", "removals", {}, "what session by reason", [
        ("turn", "secret", DANA, "asked for"), ("session", "gone", DANA, "over"),
    ], lambda store: leaves("redact")(store) + leaves("delete")(store)),
    Question("GDPR 17", "Which backups hold what was erased?", "backups-holding-erased", {}, "place what session", [
        ("tape", "turn", "secret"), ("tape", "session", "gone"),
    ], lambda store: len(store.registers.backups(holding_erased=True)) * (leaves("redact")(store) + leaves("delete")(store))),
    Question("GDPR 30", "Which exports were made, and for whom?", "exports", {}, "format session turns recipient", [
        ("nquads", "plan", 4, "the court"),
    ], lambda store: sum(len(each.recipients) for each in store.registers.exports())),
    Question("GDPR 32", "Whose words stand together in one transcript?", "two-principals", {}, "session principal turns", [
        ("fork", ANN, 1), ("fork", BEN, 1),
    ], speakers),
    Question("SOC 2", "Who read records?", "record-reads", {}, "by through action named times", [
        (UNKNOWN, "python", "load", "plan", 1),
    ], lambda store: len(store.registers.reads())),
    Question("SOC 2", "Which backups were made?", "backups", {}, "place by", [("tape", DANA)],
        lambda store: len(store.registers.backups())),
    Question("SOC 2", "What did model calls cost, and what is not priced?", "cost", {}, "principal model calls unpriced", [
        (ANN, "big-1", 1, 0), (ANN, "big-2", 2, 2), (BEN, "big-1", 2, 2),
    ], lambda store: len({(record.principal, turn.model) for record, turn in own_turns(store) if turn.model})),
    Question("SOC 2", "Was a fork made for another person?", "forks-for-others", {}, "session principal parent_principal", [
        ("fork", BEN, ANN),
    ], lambda store: sum(
        each.parent_session_id is not None and store.load(each.parent_session_id).principal != each.principal
        for each in store.list(limit=1000))),
    Question("ISO 42001", "Which versions of tools answered when?", "tool-versions", {}, "tool server version answers", [
        ("fetch", "web", "1.0", 1),
    ], lambda store: len({(r.server, r.version) for _, turn in own_turns(store) for r in turn.tool_results})),
    Question("ISO 42001", "Which instructions was the assistant given?", "system-prompts", {"session": "plan"}, "version text", [
        (1, "Be brief"),
    ], lambda store: store.load("plan").system == "Be brief"),
    Question("ISO 42001", "Which files did sessions come from?", "imported-files", {}, "sha256 session by refused", [
        (FILE, "pi:one", ANN, 0),
    ], lambda store: sum(each.id.startswith("pi:") for each in store.list(limit=1000))),
    Question("21 CFR 11", "Was a copy or its original altered?", "altered-copies", {}, "turn", [], nothing),
]  # fmt: skip


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("question", QUESTIONS, ids=lambda each: each.asked)
def test_a_question_is_answered_as_counted_by_hand_and_by_a_walk(
    engines_of: EnginesOf, engine: str, question: Question
) -> None:
    engines = engines_of(fill)
    _, _, query, parameters, columns, expected, walk = question
    places = {name: place for name, place in parameters.items() if isinstance(place, tuple)}
    named = {name: engines.store.load(session).turns[index].iri for name, (session, index) in places.items()}
    found, expected = answered(engines, engine, (query, parameters | named, columns, expected))
    assert found == expected
    assert len(found) == walk(engines.store)


# --- what is answered by a command


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("auditors") / "store"
    with trails.open(path, create=True) as store:
        fill(store)
    return path


def whether_it_holds(place: Path, folder: Path) -> object:
    return invoke("verify", store=place).exit_code


def verdicts(place: Path, folder: Path) -> object:
    report = json.loads(invoke("audit", "--all", "--format", "json", store=place).stdout)
    return {each["name"]: sum(len(rows["rows"]) for rows in each["found"]) for each in report["verdicts"]}


def what_changed(place: Path, folder: Path) -> object:
    before, after_ = folder / "before.json", folder / "after.json"
    for report in (before, after_):
        report.write_text(invoke("audit", "--all", "--format", "json", store=place).stdout)
        with trails.open(place) as store:
            session = store.create(id=f"new-{report.stem}")
            session.append("user", "Hello")
            session.persist()
    changes = ok_json(invoke("audit", "diff", before, after_, "--json"))
    return changes["sessions"]["added"]


def what_repeats(place: Path, folder: Path) -> object:
    (folder / "text").write_text(SECRET)
    rows = ok_json(invoke("audit", "near-copies", folder / "text", "--json", store=place))
    return [(row["session_id"], row["index"]) for row in rows]


VERDICTS = {"validity": 0, "completeness": 8, "integrity": 0, "findings": 2}
"""How many rows stand against each: eight records that lack something, a session and a turn that were removed."""
COMMANDS: list[tuple[str, str, Callable[[Path, Path], object], object]] = [
    ("21 CFR 11", "Do digests, log and checkpoint hold?", whether_it_holds, 0),
    ("21 CFR 11", "Is the whole record complete, in one report?", verdicts, VERDICTS),
    ("GDPR 17", "Which texts may restate one that was redacted?", what_repeats, [("repeat", 0)]),
    ("SOC 2", "What changed between two audits?", what_changed, ["new-before"]),
]


@pytest.mark.parametrize(("answer", "expected"), [each[2:] for each in COMMANDS], ids=[each[1] for each in COMMANDS])
def test_a_question_is_answered_by_a_command(
    place: Path, tmp_path: Path, answer: Callable[[Path, Path], object], expected: object
) -> None:
    assert answer(place, tmp_path) == expected


def test_there_are_forty_of_them_and_each_is_asked_once() -> None:
    assert len({each.asked for each in QUESTIONS} | {each[1] for each in COMMANDS}) == 40
