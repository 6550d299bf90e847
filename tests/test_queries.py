"""The catalogue's answers on a small store, counted by hand, on two engines; and the rules for every query file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trails
from tests.support.engines import Answer, Engines, answered
from tests.support.forks_of_forks import fill as fill_forks
from tests.support.nine_sessions import day, fill, later
from tests.support.query_pictures import PAGE, SVG, Arrow, mermaid, pattern, section, svg_is_current
from tests.support.query_rules import lint, read
from trails import InvalidInput, Repository
from trails.rdf import query_files, vocab
from trails.rdf.activity_records import Rerunning, activity_quads
from trails.store.contract import Change

pytestmark = pytest.mark.filterwarnings("ignore:Dataset\\..*deprecated:DeprecationWarning")  # rdflib warns of itself

ALL = query_files.load_all()
CATALOGUE = query_files.catalogue()
FOR_USERS = {name: query for name, query in CATALOGUE.items() if query.folder == "catalogue"}
"""Those for auditors are tested in `tests/audit/`, a file a theme."""

# --- a store to ask


@pytest.fixture(scope="module")
def engines() -> Iterator[Engines]:
    with trails.open(":memory:") as store:
        fill(store)
        rerun = {
            "session_id": "dinner",
            "used": ("plan",),
            "outcome": "stopped",
            "agreed": 3,
            "left_at": 3,
            "played": 2,
        }
        who = {"token": "0123456789abcdef", "by_iri": "urn:trails:principal:bob", "started": day(26), "time": day(27)}
        store.store.commit(Change(add=activity_quads(Rerunning.model_validate({**rerun, **who}))))
        store.refs.set("thread", "tail", by="bob")
        store.refs.set("draft", "plan", by="bob")
        store.refs.set("draft", "plan", 1, by="bob")
        yield Engines(store)


ALICE, BOB, CAROL, PLANNER = "principal:alice", "principal:bob", "principal:carol", "agent:planner"

ANSWERS: list[Answer] = [
    (
        "runs",
        {},
        "id requester child task label started ended outcome announced",
        [
            ("r1", "hall", "annex", "Look around", "look", day(24), day(24) + timedelta(minutes=5), "ok", None),
            ("r2", None, None, "Count the doors", None, day(25), day(26), "error", None),
        ],
    ),
    ("runs", {"session": "hall"}, "id", [("r1",)]),
    ("runs", {"session": "annex"}, "id", [("r1",)]),
    ("runs", {"session": "plan"}, "id", []),
    (
        "unannounced-runs",
        {},
        "id requester task outcome ended",
        [("r2", "agent:ops:main", "Count the doors", "error", day(26))],
    ),
    (
        "transcript",
        {"session": "plan"},
        "index role content author owner turn",
        [
            (0, "user", "Plan a trip to the Alps", ALICE, "plan", "plan#0"),
            (1, "assistant", "I look.", PLANNER, "plan", "plan#1"),
            (2, "tool", "Snow", "tool:weather", "plan", "plan#2"),
            (3, "assistant", "Take the train", PLANNER, "plan", "plan#3"),
            (4, "user", "Thanks", ALICE, "plan", "plan#4"),
        ],
    ),
    (
        "transcript",
        {"session": "dinner"},
        "index content owner",
        [
            (0, "Plan a trip to the Alps", "plan"),
            (1, "I look.", "plan"),
            (2, "Snow", "plan"),
            (3, "Plan a dinner instead", "dinner"),
            (4, "One moment.", "dinner"),
            (5, "no tables left", "dinner"),
        ],
    ),
    # dinner owns 3 to 5, but solo leaves it at 2: dinner contributes nothing, and plan only what lies below 2
    (
        "transcript",
        {"session": "tail"},
        "index content owner",
        [
            (0, "Plan a trip to the Alps", "plan"),
            (1, "I look.", "plan"),
            (2, "Just me", "solo"),
            (3, "A trip was asked for.", "solo"),
            (4, "A walk, then.", "tail"),
        ],
    ),
    ("transcript", {"session": "scout"}, "index", []),
    (
        "influences",
        {"session": "dinner", "index": 5},
        "kind influence path turns first last",
        [
            ("author", PLANNER, "transcript", 2, 1, 4),
            ("author", ALICE, "transcript", 1, 0, 0),
            ("author", BOB, "transcript", 1, 3, 3),
            ("author", "tool:tables", "transcript", 1, 5, 5),
            ("author", "tool:weather", "transcript", 1, 2, 2),
            ("model", "m-1", "transcript", 1, 1, 1),
            ("model", "m-2", "transcript", 1, 4, 4),
            ("prompt", "plan/system/1", "system prompt", 1, 0, 0),
            ("tool", "tables", "transcript", 1, 5, 5),
            ("tool", "weather", "transcript", 1, 2, 2),
        ],
    ),
    (
        "influences",
        {"session": "tail", "index": 3},
        "kind influence path turns first last",
        [
            ("author", PLANNER, "transcript", 2, 1, 3),
            ("author", ALICE, "transcript", 1, 0, 0),
            ("author", CAROL, "transcript", 1, 2, 2),
            ("model", "m-1", "transcript", 1, 1, 1),
            ("prompt", "plan/system/1", "system prompt", 1, 0, 0),
            ("summary", "solo#3", "summary", 1, 3, 3),
        ],
    ),
    (
        "tool-calls",
        {},
        "session index name arguments asked answered error call",
        [
            ("dinner", 4, "tables", '{"for":2}', "dinner#4", "dinner#5", True, "dinner#4/call/0"),
            ("dinner", 4, "taxi", "{}", "dinner#4", None, None, "dinner#4/call/1"),
            ("plan", 1, "weather", '{"place":"Zermatt"}', "plan#1", "plan#2", False, "plan#1/call/0"),
        ],
    ),
    ("tool-calls", {"session": "plan"}, "name", [("weather",)]),
    ("tool-calls", {"session": ["plan", "recipes"]}, "name", [("weather",)]),
    (
        "failed-tool-calls",
        {},
        "session index name arguments answer answered asked",
        [("dinner", 5, "tables", '{"for":2}', "no tables left", "dinner#5", "dinner#4")],
    ),
    ("failed-tool-calls", {"session": "plan"}, "name", []),
    ("unanswered-tool-calls", {}, "session index name arguments asked call", [
        ("dinner", 4, "taxi", "{}", "dinner#4", "dinner#4/call/1"),
    ]),
    ("unanswered-tool-calls", {"session": "plan"}, "name", []),
    (
        "token-usage-by-session",
        {},
        "session calls input output cache_read cache_write cost",
        [
            ("dinner", 1, 30, 9, None, None, Decimal("0.02")),
            ("plan", 2, 30, 12, 4, None, Decimal("0.01")),
            ("tail", 1, 1, 1, None, None, None),
        ],
    ),
    ("token-usage-by-session", {"session": "tail"}, "session calls input", [("tail", 1, 1)]),
    (
        "token-usage-by-model",
        {},
        "model calls input output cache_read cache_write cost",
        [
            ("m-1", 2, 30, 12, 4, None, Decimal("0.01")),
            ("m-2", 2, 31, 10, None, None, Decimal("0.02")),
        ],
    ),
    (
        "cost",
        {},
        "principal agent model calls unpriced cost",
        [
            (ALICE, PLANNER, "m-1", 2, 1, Decimal("0.01")),
            (BOB, PLANNER, "m-2", 2, 1, Decimal("0.02")),
        ],
    ),
    ("cost", {"principal": "bob"}, "principal calls", [(BOB, 2)]),
    (
        "forks-of",
        {"session": "plan"},
        "fork parent at principal created label",
        [
            ("dinner", "plan", 3, BOB, day(2), "evening"),
            ("solo", "dinner", 2, BOB, day(3), None),
            ("tail", "solo", 4, BOB, day(4), None),
        ],
    ),
    ("forks-of", {"session": "tail"}, "fork", []),
    (
        "forest",
        {},
        "root session depth parent at label",
        [
            ("annex", "annex", 0, None, None, None),
            ("beds", "beds", 0, None, None, None),
            ("chat", "chat", 0, None, None, None),
            ("count", "count", 0, None, None, None),
            ("desk", "desk", 0, None, None, None),
            ("hall", "hall", 0, None, None, None),
            ("helper", "helper", 0, None, None, None),
            ("letters", "letters", 0, None, None, None),
            ("mail", "mail", 0, None, None, None),
            ("pi:01", "pi:01", 0, None, None, None),
            ("pi:01", "pi:01~b", 1, "pi:01", 1, None),
            ("picks", "picks", 0, None, None, None),
            ("plan", "plan", 0, None, None, "trip"),
            ("plan", "dinner", 1, "plan", 3, "evening"),
            ("plan", "solo", 2, "dinner", 2, None),
            ("plan", "tail", 3, "solo", 4, None),
            ("recipes", "recipes", 0, None, None, None),
            ("scan", "scan", 0, None, None, None),
            ("scout", "scout", 0, None, None, None),
        ],
    ),
    ("turns-by-author", {"author": "alice"}, "session index role content turn", [
        ("plan", 0, "user", "Plan a trip to the Alps", "plan#0"),
        ("plan", 4, "user", "Thanks", "plan#4"),
    ]),
    ("turns-by-author", {"author": "carol"}, "session index", [("recipes", 0), ("solo", 2)]),
    ("turns-by-author", {"author": "carol", "session": "solo"}, "session index", [("solo", 2)]),
    ("turns-by-author", {"author": "urn:trails:agent:cook"}, "session index", [("recipes", 1)]),
    ("search-text", {"text": "snow"}, "session index role", [("plan", 2, "tool"), ("recipes", 0, "user")]),
    ("search-text", {"text": "soup, THEN"}, "session index author content", [
        ("recipes", 1, "agent:cook", '[{"type":"text","text":"Soup, then."}]'),
    ]),
    ("search-text", {"text": "snow", "session": "plan"}, "turn", [("plan#2",)]),
    ("search-text", {"text": "glacier"}, "turn", []),
    ("summaries", {}, "session index through kept before after trigger content turn", [
        ("solo", 3, 1, 2, 100, 20, "manual", "A trip was asked for.", "solo#3"),
    ]),
    ("summaries", {"session": "plan"}, "turn", []),
    ("compaction-sources", {"session": "tail"}, "0 1 2", [
        ("solo#3", "wasDerivedFrom", "plan#0"),
        ("solo#3", "wasDerivedFrom", "plan#1"),
    ]),
    ("compaction-sources", {"session": "dinner"}, "0 1 2", []),
    ("system-prompts", {"session": "plan"}, "version from text owner", [
        (1, 0, "Be brief", "plan"),
        (2, 5, "Be very brief", "plan"),
    ]),
    ("system-prompts", {"session": "dinner"}, "version text owner", [(1, "Be brief", "plan")]),
    ("system-prompts", {"session": "tail"}, "version from text owner", [
        (1, 0, "Be brief", "plan"),
        (2, 4, "Be kind", "solo"),
    ]),
    ("system-prompts", {"session": "recipes"}, "version", []),
    ("deletions", {}, "session by reason rule sweeping turns head", [
        ("gone", "principal:dave", None, None, False, 0, None),
    ]),
    ("imported-sessions", {}, "session source parent turns records created", [
        ("pi:01", "pi:01", None, 2, 3, day(8)),
        ("pi:01~b", "pi:01", "pi:01", 1, 1, day(9)),
    ]),
    ("sessions-by-meta", {"key": "urn:trails:meta:project"}, "session value principal created", [
        ("plan", "alps", ALICE, day(1)),
        ("solo", "alps", BOB, day(3)),
        ("recipes", "soup", CAROL, day(5)),
    ]),
    ("sessions-by-meta", {"key": "urn:trails:meta:project", "value": "soup"}, "session", [("recipes",)]),
    ("sessions-by-meta", {"key": "urn:trails:meta:people", "value": "1"}, "session value", [("solo", 1)]),
    ("metadata", {}, "session key value parent at", [
        ("plan", "meta:project", "alps", None, None),
        ("recipes", "meta:project", "soup", None, None),
        ("solo", "meta:people", 1, "dinner", 2),
        ("solo", "meta:project", "alps", "dinner", 2),
    ]),
    ("metadata", {"session": ["solo", "plan"], "key": "urn:trails:meta:project"}, "session value", [
        ("plan", "alps"),
        ("solo", "alps"),
    ]),
    ("metadata", {"key": ["urn:trails:meta:people", "urn:trails:meta:project"], "session": "solo"}, "key", [
        ("meta:people",),
        ("meta:project",),
    ]),
    ("spawned", {"session": "plan"}, "spawned by agent kind state created", [
        ("scout", "plan", "agent:scout", "worker", "active", day(6)),
        ("helper", "scout", "agent:scout", None, "active", day(7)),
    ]),
    ("spawned", {"session": "recipes"}, "spawned", []),
    ("answers-to-event", {"id": "m-1"}, "session exchange index role content turn channel outcome", [
        ("desk", "desk/ledger/2", 1, "assistant", "Until six.", "desk#1", "smtp", "failed"),
        ("desk", "desk/ledger/2", 1, "assistant", "Until six.", "desk#1", "smtp", "sent"),
    ]),
    ("answers-to-event", {"id": "m-1", "source": "mail"}, "turn", [("desk#1",), ("desk#1",)]),
    ("answers-to-event", {"id": "m-1", "source": "chat"}, "turn", []),
    ("answers-to-event", {"id": "m-2"}, "turn", []),
    ("open-exchanges", {}, "session exchange state messages queued started", [
        ("desk", "desk/ledger/8", "pending", 1, day(12), None),
    ]),
    ("open-exchanges", {"session": "plan"}, "exchange", []),
    ("exchanges", {}, "session exchange state queued ended error retried", [
        ("desk", "desk/ledger/2", "completed", day(12), day(12), None, None),
        ("desk", "desk/ledger/7", "failed", day(12), day(12), "RuntimeError: no model", None),
        ("desk", "desk/ledger/8", "pending", day(12), None, None, "desk/ledger/7"),
        ("scan", "scan/ledger/5", "completed", day(16), day(16), None, None),
    ]),
    ("exchanges", {"session": "plan"}, "exchange", []),
    ("waiting-messages", {}, "session event mode received source id content", [
        ("desk", "desk/ledger/9", "collect", day(12), "mail", None, "Hello?"),
        ("hall", "hall/ledger/1", "followup", day(23), None, None, "Is anybody here?"),
        ("hall", "hall/ledger/2", "followup", day(23), None, None, "I am."),
        ("hall", "hall/ledger/3", "followup", day(23), None, None, "Welcome."),
    ]),
    ("denied-sends", {}, "time session key channel rule", [
        (day(23), "annex", "agent:main:discord:group:dev", "discord", "session.sendPolicy.rules[0]"),
    ]),
    ("denied-sends", {"session": "hall"}, "session", []),
    ("history-reads", {}, "time requester agent target allowed rule action", [
        (day(23), "hall", "agent:main", "annex", True, "same agent", "history"),
    ]),
    ("history-reads", {"target": "hall"}, "requester", []),
    ("second-principals", {}, "session key principal messages first", [
        ("hall", "agent:main:main", "principal:gina", 2, day(23)),
        ("hall", "agent:main:main", "principal:henry", 1, day(23)),
    ]),
    ("second-principals", {"session": "desk"}, "principal", []),
    ("waiting-messages", {"session": "plan"}, "event", []),
    ("session-tree", {}, "session parent depth kind state agent tier created expires ends children", [
        ("chat", None, 0, "main", "active", "agent:chief", None, day(15), None, None, 1),
        ("mail", None, 0, "main", "failed", "agent:chief", None, day(16), None, None, 1),
        ("hall", None, 0, "main", "active", "agent:main", None, day(21), None, None, 0),
        ("scout", "plan", 1, "worker", "active", "agent:scout", None, day(6), None, None, 0),
        ("scan", "chat", 1, "branch", "active", "agent:chief", "large", day(15), day(24), None, 0),
        ("beds", "chat", 1, "branch", "suspended", "agent:chief", None, day(16), later(30), None, 0),
        ("letters", "mail", 1, "branch", "active", "agent:chief", None, day(16), later(30), later(0.5), 0),
        ("count", "scan", 2, "worker", "completed", "agent:chief", "cheapest", day(15), day(17), None, 0),
    ]),
    ("session-tree", {"session": "scan"}, "session depth", [("scan", 1), ("count", 2)]),
    ("tree-too-deep", {}, "session", []),
    ("tree-too-deep", {"depth": 1, "branch_depth": 0}, "session kind depth agent state", [
        ("beds", "branch", 1, "agent:chief", "suspended"),
        ("letters", "branch", 1, "agent:chief", "active"),
        ("scan", "branch", 1, "agent:chief", "active"),
        ("count", "worker", 2, "agent:chief", "completed"),
    ]),
    ("tree-too-wide", {}, "session", []),
    ("tree-too-wide", {"children": 0}, "session agent children", [
        ("chat", "agent:chief", 1),
        ("mail", "agent:chief", 1),
        ("plan", "agent:planner", 1),
    ]),
    ("tree-orphans", {}, "session kind state parent ended ends", [
        ("letters", "branch", "active", "mail", "failed", later(0.5)),
    ]),
    ("transitions", {"session": ["count", "beds"]}, "session before after by time reason", [
        ("beds", None, "active", "principal:erin", day(16), None),
        ("beds", "active", "suspended", "agent:unknown", day(16), None),
        ("count", None, "active", "agent:unknown", day(15), None),
        ("count", "active", "completed", "agent:unknown", day(16), None),
    ]),
    ("transitions", {"session": "mail"}, "after reason transition", [
        ("active", None, "mail/ledger/1"),
        ("failed", "no more mail", "mail/ledger/2"),
    ]),
    ("session-results", {}, "session parent status summary error time turn", [
        ("count", "scan", "completed", "9,000 steps", None, day(16), "scan#0"),
        ("mail", None, "failed", None, "no more mail", day(16), None),
    ]),
    ("artifacts", {}, "session uri change sha256 time", [
        ("count", "file:///steps.csv", "created", "ab" * 32, day(16)),
        ("count", "file:///old.csv", "deleted", None, day(16)),
    ]),
    ("artifacts", {"session": "mail"}, "uri", []),
    ("failed-deliveries", {}, "session turn channel attempt time reason sent delivery", [
        ("desk", "desk#1", "smtp", 1, day(12), "mailbox full", True, "desk/ledger/4"),
    ]),
    ("failed-deliveries", {"session": "plan"}, "turn", []),
    ("tags", {}, "tag session length by", [
        ("final", "tail", 5, "agent:cook"),
        ("v1", "plan", 3, "agent:unknown"),
    ]),
    ("tags", {"session": "plan"}, "tag", [("v1",)]),
    ("refs", {}, "ref session length moves by", [
        ("draft", "plan", 1, 2, BOB),
        ("thread", "tail", None, 1, BOB),
    ]),
    ("refs", {"session": "plan"}, "ref", [("draft",)]),
    ("ref-history", {"ref": "draft"}, "number session length by", [(1, "plan", None, BOB), (2, "plan", 1, BOB)]),
    ("ref-history", {"session": "tail"}, "ref number", [("thread", 1)]),
    ("notes", {}, "session index text by turn", [("plan", 1, "Which tool was that?", BOB, "plan#1")]),
    ("notes", {"session": "dinner"}, "text", []),
    ("scores", {}, "session from up_to name value by version reason", [
        ("dinner", None, 6, "accuracy", 0.5, "agent:grader", "1", None),
        ("dinner", None, 6, "accuracy", 0.75, "agent:grader", "1", "It asks"),
        ("dinner", None, 6, "accuracy", 0.25, BOB, None, None),
        ("dinner", None, 6, "done", True, BOB, None, None),
        ("plan", 1, 2, "accuracy", 0, "agent:grader", "1", None),
        ("plan", 1, 2, "tone", "warm", BOB, None, None),
        ("tail", None, 5, "accuracy", 1, "agent:grader", "1", None),
    ]),
    ("scores", {"session": "plan", "score_name": "tone"}, "value time", [("warm", day(28))]),
    ("score-statistics", {}, "name by version sessions mean least greatest", [
        ("accuracy", "agent:grader", "1", 2, 0.875, 0.75, 1),
        ("accuracy", BOB, "", 1, 0.25, 0.25, 0.25),
        ("done", BOB, "", 1, 1, 1, 1),
    ]),
    ("score-statistics", {"score_name": "done"}, "by", [(BOB,)]),
    ("scorers-disagree", {}, "session name one value other other_value", [
        ("dinner", "accuracy", "agent:grader", 0.75, BOB, 0.25),
    ]),
    ("scorers-disagree", {"score_name": "tone"}, "session", []),
    (
        "reruns",
        {},
        "session source outcome agreed left_at played live agent started ended",
        [("dinner", "plan", "stopped", 3, 3, 2, 0, BOB, day(26), day(27))],
    ),
    ("reruns", {"source": "plan"}, "session", [("dinner",)]),
    ("reruns", {"source": "dinner"}, "session", []),
    ("withheld-turns", {}, "session", []),  # `tests/replay/test_withholding.py` has some
    ("payloads", {}, "turn", []),  # `tests/session/test_payloads.py` has some
    ("file-changes", {}, "turn", []),  # `tests/session/test_work_files.py` has some
    ("quotations", {}, "session index source stored turn", [("picks", 0, "dinner#3", True, "picks#0")]),
    ("quotations", {"session": "plan"}, "turn", []),
    ("prov-lineage", {"session": "solo"}, "0 1 2", [
        ("dinner", "wasDerivedFrom", "plan"),
        ("dinner", "wasGeneratedBy", "dinner/fork"),
        ("dinner/fork", "endedAtTime", day(2)),
        ("dinner/fork", "http://www.w3.org/1999/02/22-rdf-syntax-ns#type", "Activity"),
        ("dinner/fork", "used", "plan"),
        ("dinner/fork", "wasAssociatedWith", "agent:unknown"),
        ("plan#1", "https://w3id.org/trails#previousTurn", "plan#0"),
        ("plan#1", "wasDerivedFrom", "plan#1/context"),
        ("plan#1/context", "http://www.w3.org/1999/02/22-rdf-syntax-ns#type", "Collection"),
        ("plan#1/context", "https://w3id.org/trails#contextEnd", "plan#0"),
        ("plan#1/model", "used", "plan#1/context"),
        ("solo", "hadMember", "plan#0"),
        ("solo", "hadMember", "plan#1"),
        ("solo", "hadMember", "solo#2"),
        ("solo", "hadMember", "solo#3"),
        ("solo", "wasDerivedFrom", "dinner"),
        ("solo", "wasGeneratedBy", "solo/fork"),
        ("solo#2", "https://w3id.org/trails#previousTurn", "plan#1"),
        ("solo#3", "https://w3id.org/trails#previousTurn", "solo#2"),
        ("solo#3", "wasDerivedFrom", "plan#0"),
        ("solo#3", "wasDerivedFrom", "plan#1"),
        ("solo/fork", "endedAtTime", day(3)),
        ("solo/fork", "http://www.w3.org/1999/02/22-rdf-syntax-ns#type", "Activity"),
        ("solo/fork", "used", "dinner"),
        ("solo/fork", "wasAssociatedWith", "agent:unknown"),
    ]),
    ("previous-turns", {"session": "solo"}, "0 1 2", [
        ("solo#2", "https://w3id.org/trails#previousTurn", "plan#1"),
        ("solo#3", "https://w3id.org/trails#previousTurn", "solo#2"),
    ]),
    ("previous-turns", {"session": "dinner"}, "0 1 2", [
        ("dinner#3", "https://w3id.org/trails#previousTurn", "plan#2"),
        ("dinner#4", "https://w3id.org/trails#previousTurn", "dinner#3"),
        ("dinner#5", "https://w3id.org/trails#previousTurn", "dinner#4"),
    ]),
]  # fmt: skip


def _marks(name: str, engine: str) -> Any:
    """Return the marks of a query for an engine: rdflib takes seconds for those that walk over everything."""
    return pytest.mark.slow if engine == "rdflib" and name in ("influences", "principals-behind") else ()


@pytest.mark.parametrize(
    ("answer", "engine"),
    [
        pytest.param(answer, engine, id=f"{answer[0]} {answer[1]}-{engine}", marks=_marks(answer[0], engine))
        for answer in ANSWERS
        for engine in ("pyoxigraph", "rdflib", "view")
    ],
)
def test_a_catalogue_query_answers_what_was_counted_by_hand(engines: Engines, engine: str, answer: Answer) -> None:
    found, expected = answered(engines, engine, answer)
    assert found == expected


def test_every_catalogue_query_has_a_hand_counted_answer() -> None:
    elsewhere = {
        "event-behind-answer",  # its parameter is a turn, whose IRI is drawn by lot
        "payloads",  # of sessions that carry some: see test_payloads.py
        "file-changes",  # of sessions whose turns worked on some: see test_work_files.py
        "withheld-turns",  # of sessions that were asked again: see test_withholding.py
        "tree-two-mains",  # what it finds cannot be made: see test_tree.py
    }
    assert {name for name, _, _, expected in ANSWERS if expected} | elsewhere == set(FOR_USERS)


@pytest.mark.parametrize("engine", ["pyoxigraph", "rdflib", "view"])
def test_the_event_behind_an_answer_is_found_and_none_behind_a_turn_that_was_just_persisted(
    engines: Engines, engine: str
) -> None:
    answer = engines.store.load("desk").turns[1].iri
    assert engines.rows(engine, "event-behind-answer", turn=answer) == [
        ("desk/ledger/1", "mail", "m-1", "smtp", "eve", day(12), "desk/ledger/2", "desk#0")
    ]
    assert engines.rows(engine, "event-behind-answer", turn=engines.store.load("plan").turns[1].iri) == []


def test_a_transcript_query_gives_the_times_too(engines: Engines) -> None:
    times = [row[4] for row in engines.rows("pyoxigraph", "transcript", session="pi:01~b")]
    assert times == [None, None]  # an imported line without a time has none
    assert engines.rows("pyoxigraph", "transcript", session="solo")[0][4] == day(1)


def test_the_transcript_query_agrees_with_what_load_returns(engines: Engines) -> None:
    for record in engines.store.list(limit=100):
        loaded = [(turn.index, turn.role, turn.iri) for turn in engines.store.load(record.id).turns]
        asked: Any = engines.store.query("transcript", session=record.id)
        assert [(int(row["index"].value), row["role"].value, row["turn"].value) for row in asked] == loaded


def test_what_detach_and_flatten_copy_is_not_counted_twice() -> None:
    with trails.open(":memory:") as store:
        fill(store)
        before = store.query("token-usage-by-model"), store.query("cost"), store.query("token-usage-by-session")
        store.detach("dinner")
        store.flatten("tail", id="flat")
        after = store.query("token-usage-by-model"), store.query("cost"), store.query("token-usage-by-session")
        for then, now in zip(before, after, strict=True):
            assert now.to_dicts() == then.to_dicts()  # type: ignore[union-attr] # SELECTs


def test_the_transcript_of_a_detached_fork_is_all_its_own() -> None:
    with trails.open(":memory:") as store:
        fill(store)
        store.detach("dinner")
        engines = Engines(store)
        rows = [(row[0], row[5]) for row in engines.rows("pyoxigraph", "transcript", session="dinner")]
        assert rows == [(index, "dinner") for index in range(6)]
        # solo left dinner at 2, inside what dinner inherited: now those two turns come from dinner's copies
        assert [row[5] for row in engines.rows("pyoxigraph", "transcript", session="solo")] == ["dinner"] * 2 + [
            "solo"
        ] * 2


def test_the_turn_before_a_forks_first_one_is_the_one_that_the_fork_shows(memory: Repository) -> None:
    fill_forks(memory)
    root, middle, late, early = (memory.load(name) for name in ("root", "middle", "late", "early"))
    # middle owns 3 to 5: late shows its turn 4, not the root's; early left it at 2 and shows the root's turn 1
    for fork, before in ((late, middle.turns[4]), (early, root.turns[1])):
        triples = list(memory.construct("previous-turns", session=fork.id))
        assert [(str(each.subject), str(each.object)) for each in triples] == [
            (f"<{fork.turns[-1].iri}>", f"<{before.iri}>")
        ]


def test_a_property_path_over_the_previous_turns_walks_a_whole_transcript(memory: Repository) -> None:
    root = memory.create(id="root", principal="alice")
    for text in "abcd":
        root.append("user", text)
    root.persist()
    fork = root.fork(at=2, id="fork")
    fork.append("user", "own")
    fork.persist()
    console = ox.Store()
    console.extend(ox.Quad(*each) for each in memory.construct("previous-turns"))
    path = f"SELECT ?turn {{ <{fork.turns[2].iri}> <{vocab.TRAILS}previousTurn>+ ?turn }}"
    rows = console.query(path)
    assert isinstance(rows, ox.QuerySolutions)
    assert {str(row["turn"]) for row in rows} == {f"<{turn.iri}>" for turn in root.turns[:2]}


def test_a_hostile_text_never_breaks_out_of_a_parameter(engines: Engines) -> None:
    assert engines.rows("pyoxigraph", "search-text", text='" } } SELECT * { ?s ?p ?o } #') == []


@given(text=st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40))
def test_any_text_is_found_where_it_was_written(text: str) -> None:
    with trails.open(":memory:") as store:
        session = store.create(id="s")
        session.append("user", f"before {text} after")
        session.persist()
        found: Any = store.query("search-text", text=text)
        assert [row["session"].value for row in found] == ["urn:trails:session:s"]


# --- every file as it stands


@pytest.mark.parametrize(
    "name",  # as in `tests/audit`, rdflib answers those for auditors with --all
    [
        pytest.param(name, marks=pytest.mark.slow if query.folder == "audit" else _marks(name, "rdflib"))
        for name, query in ALL.items()
    ],
)
def test_a_query_file_runs_unedited_in_two_engines(engines: Engines, name: str) -> None:
    result: Any = engines.store.store.query(ALL[name].text)
    ours = len(list(result))
    _, theirs = read(ALL[name])
    assert len(list(engines.dataset.query(theirs))) == ours


SET = re.compile(r'# to set (\w+): in each line that ends in "#: \1", replace (.+), for instance with (.+)')


def term_of(text: str) -> Any:
    (row,) = ox.Store().query(f"SELECT ?term {{ VALUES ?term {{ {text} }} }}", prefixes=vocab.PREFIXES)  # type: ignore[misc]
    return row["term"]


@pytest.mark.parametrize("name", [name for name, query in ALL.items() if query.parameters])
def test_a_query_file_says_under_each_parameter_what_to_replace_and_that_gives_what_binding_gives(name: str) -> None:
    query, lines, values = ALL[name], ALL[name].text.splitlines(), dict[str, Any]()
    for parameter in query.parameters:
        place = next(n for n, line in enumerate(lines) if line.startswith(f"# param {parameter.name} ("))
        told = SET.fullmatch(lines[place + 1])
        assert told is not None, f"no line says what to replace to set {parameter.name}"
        _, stands, instead = told.groups()
        assert stands != instead
        values[parameter.name] = term_of(instead)
        marked = [n for n, line in enumerate(lines) if re.search(rf"#: {parameter.name}$", line)]
        assert marked
        for each in marked:  # as somebody does by hand
            assert lines[each].count(stands) == 1
            lines[each] = re.sub(r"\s*#: \w+$", "", lines[each].replace(stands, instead))
    assert [line for line in query.text.splitlines() if "# to set " in line and not SET.fullmatch(line)] == []
    assert "\n".join(lines) + "\n" == query.bind(**values)
    ox.Store().query("\n".join(lines))  # without prefixes that only Trails declares


def test_a_parameter_that_is_needed_must_be_given(engines: Engines) -> None:
    with pytest.raises(InvalidInput, match="needs the parameter 'session'"):
        engines.store.query("transcript")


def test_an_unknown_parameter_is_refused_with_the_names_there_are(engines: Engines) -> None:
    with pytest.raises(InvalidInput, match=r"has no parameter 'sesion' \(did you mean 'session'\?\); it has: session"):
        engines.store.query("transcript", sesion="plan")


def test_an_empty_list_is_refused(engines: Engines) -> None:
    with pytest.raises(InvalidInput, match="empty list"):
        engines.store.query("tool-calls", session=[])


@pytest.mark.parametrize("index", [2**63, 10**99, ox.Literal(str(2**63), datatype=vocab.INTEGER), ox.Literal("1 } #")])
def test_a_number_that_no_query_could_compare_is_refused(memory: Repository, index: Any) -> None:
    with pytest.raises(InvalidInput, match="'index' takes integer"):
        memory.query("influences", session="plan", index=index)


def test_a_value_that_does_not_fit_is_refused_with_what_the_parameter_is(engines: Engines) -> None:
    with pytest.raises(
        InvalidInput, match=r"the parameter 'key' takes iri \(the key's property: urn:trails:meta: and the key"
    ):
        engines.store.query("sessions-by-meta", key="temperature")


# --- the lint


@pytest.mark.parametrize("name", [pytest.param(name, marks=_marks(name, "rdflib")) for name in ALL])
def test_a_query_file_keeps_the_rules(name: str) -> None:
    assert lint(ALL[name]) == []


@pytest.mark.parametrize("name", ALL)
def test_a_query_file_declares_only_prefixes_that_the_package_knows(name: str) -> None:
    for prefix, namespace in re.findall(r"^PREFIX (\w+): <(.*)>$", ALL[name].text, re.MULTILINE):
        assert vocab.PREFIXES[prefix] == namespace


@pytest.mark.parametrize("name", ALL)
def test_a_query_file_uses_only_terms_that_are_written(name: str) -> None:
    known = {node.value.removeprefix(vocab.TRAILS) for node in vars(vocab).values() if isinstance(node, ox.NamedNode)}
    known |= {node.value.removeprefix(vocab.TRAILS) for node in vocab.ENTRY_FIELDS.values()}
    assert set(re.findall(r"\btrails:(\w+)", re.sub(r"(?m)^#.*$|<[^>]*>|\"[^\"]*\"", "", ALL[name].text))) <= known


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_catalogue_query_has_a_name_that_can_be_typed(name: str) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", name)


def test_core_and_catalogue_share_no_name() -> None:
    files = [path.stem for path in query_files.folder().rglob("*.rq")]
    assert len(files) == len(set(files))


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_query_can_be_read_by_a_person(name: str) -> None:
    about = CATALOGUE[name].about
    assert 20 <= len(about.split()) <= 140
    assert about.partition("?")[1] == "?", "it begins with the question"
    assert re.search(r"\b(A|The) row is |The answer is a graph|graph with one edge", about), "it says what a row is"
    assert not re.search(r"\b(SELECT|OPTIONAL|UNION|FILTER|VALUES|sub-SELECT|engine)\b", about), "it is no SPARQL"
    lines = [line for line in CATALOGUE[name].text.splitlines() if not line.startswith("#")]
    assert len(lines) <= 150 or name == "prov-lineage"  # which is a union of six graphs


@pytest.mark.parametrize("name", CATALOGUE)
def test_the_pictures_of_a_query_are_those_of_its_text(name: str) -> None:
    """If not: `python -m tests.support.query_pictures`, with Graphviz."""
    assert section(CATALOGUE[name]) in PAGE.read_text("utf-8")
    assert svg_is_current(CATALOGUE[name], (SVG / f"{name}.svg").read_text("utf-8"))


def test_there_are_pictures_of_all_queries_and_of_nothing_else() -> None:
    assert {place.stem for place in SVG.glob("*.svg")} == set(CATALOGUE)
    assert re.findall(r"(?m)^### (.+)$", PAGE.read_text("utf-8")) == sorted(
        CATALOGUE, key=lambda name: (["", *query_files.THEMES].index(CATALOGUE[name].theme), name)
    )


def test_a_picture_shows_what_is_asked_what_may_be_missing_and_what_must_be() -> None:
    asked = """# purpose: sample
# param session (session): a session
SELECT ?turn WHERE {
  VALUES ?session { <urn:trails:session:demo> } #: session
  GRAPH ?session { ?turn a trails:Turn ; trails:index ?index }
  OPTIONAL { GRAPH ?session { ?turn prov:generatedAtTime ?time } }
  FILTER NOT EXISTS { ?fork trails:parentSession+ ?session FILTER NOT EXISTS { ?fork a trails:Tombstone } }
}
"""
    prefixes = "".join(f"PREFIX {name}: <{vocab.PREFIXES[name]}>\n" for name in ("trails", "prov"))
    query = query_file(asked.replace("SELECT", f"{prefixes}SELECT"))
    shown = pattern(query)
    assert shown.classes["?turn"] == ["Turn"]
    assert sorted(shown.arrows) == [
        Arrow("?fork", "a", "Tombstone", "absent"),
        Arrow("?fork", "parentSession+", "session (given)", "absent"),
        Arrow("?turn", "index", "?index", "asked"),
        Arrow("?turn", "prov:generatedAtTime", "?time", "optional"),
        Arrow("session (given)", "holds", "?turn", "holds"),
    ]
    drawn = mermaid(query).splitlines()
    assert '  n0["?turn<br/>Turn"]' in drawn
    assert '  n0 -->|"index"| n2' in drawn
    assert '  n0 -.->|"prov:generatedAtTime"| n3' in drawn
    assert [line for line in drawn if "#c00000" in line] == ["  linkStyle 3,4 stroke:#c00000,color:#c00000"]
    assert [line for line in drawn if ":::given" in line] == ['  n1["session (given)"]:::given']


def query_file(text: str) -> query_files.QueryFile:
    return query_files.parse("sample", "sample", text)


GOOD = """# purpose: the turns of a session
# param session (session): the session
# column turn (iri): a turn
PREFIX trails: <https://w3id.org/trails#>
SELECT ?turn WHERE {
  VALUES ?session { <urn:trails:session:demo> } #: session
  GRAPH ?session { ?turn a trails:Turn }
}
"""
PATTERN = "GRAPH ?session { ?turn a trails:Turn }"


def test_the_lint_accepts_a_good_query() -> None:
    assert lint(query_file(GOOD)) == []


@pytest.mark.parametrize(
    ("instead", "complaint"),
    [
        ("GRAPH ?session { { SELECT ?turn WHERE { ?turn a trails:Turn } } }", r"sub-SELECT under GRAPH \?session"),
        (
            "GRAPH ?session { OPTIONAL { { SELECT ?turn WHERE { ?turn a trails:Turn } } } }",
            r"sub-SELECT under GRAPH \?session",
        ),
        ("{ SELECT ?turn WHERE { GRAPH ?session { ?turn a trails:Turn } } }", r"uses \?session in a sub-SELECT"),
        ("GRAPH ?session { ?turn a trails:Turn ; trails:sourceId [] }", "blank node"),
        ("GRAPH ?session { ?turn a trails:Turn ; trails:sourceId _:one }", "blank node"),
        ("SERVICE <http://example.org/> { ?turn a trails:Turn }", "uses SERVICE"),
        ("GRAPH ?session { ?turn a trails:Turn", "is not SPARQL"),
    ],
)
def test_the_lint_rejects_what_reads_too_much_or_reaches_out(instead: str, complaint: str) -> None:
    found = lint(query_file(GOOD.replace(PATTERN, instead)))
    assert any(re.search(complaint, line) for line in found), found


def test_the_lint_rejects_an_update() -> None:
    text = "# purpose: none\nLOAD <http://example.org/>\n"
    assert any("is not SPARQL" in line for line in lint(query_file(text)))


def test_the_lint_rejects_columns_that_are_not_projected() -> None:
    found = lint(query_file(GOOD.replace("# column turn", "# column turns")))
    assert found == ["declares the columns ['turns'] and projects ['turn']"]


def test_the_lint_rejects_trailing_values() -> None:
    found = lint(query_file(GOOD + "VALUES ?turn { <urn:example> }\n"))
    assert found == ["ends in VALUES, which changes aggregates; put it into the body"]


def test_a_sub_select_under_a_variable_graph_really_reads_too_much(engines: Engines) -> None:
    """Why the lint is strict: the engine pairs every graph's rows with the session's."""
    both = "{ SELECT ?turn WHERE { ?turn a trails:Turn } } { SELECT ?i WHERE { ?any trails:index ?i } }"
    asked: Any = engines.store.store.query(query_file(GOOD.replace("?turn a trails:Turn", both)).bind(session="plan"))
    assert len(asked) > 5 * 5  # plan owns five turns, each with one index


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * WHERE { ?s ?p ?o }",  # no purpose
        GOOD.replace("# param session (session): the session\n", ""),  # a marker that is not declared
        GOOD.replace(" #: session", ""),  # declared and not marked
        GOOD.replace(
            "VALUES ?session { <urn:trails:session:demo> }", "VALUES ?session { <urn:a> } VALUES ?b { <urn:b> }"
        ),
    ],
)
def test_a_file_whose_header_and_markers_differ_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        query_file(text)


def test_the_query_files_stand_where_the_package_looks(tmp_path: Path) -> None:
    assert (query_files.folder() / "catalogue" / "transcript.rq").is_file()
    assert {path.name for path in query_files.folder().iterdir()} - {"README.md"} == set(query_files.FOLDERS)
    assert len(ALL) == len(list(query_files.folder().rglob("*.rq")))


def test_a_query_for_auditors_has_a_theme_and_no_other_has_one() -> None:
    assert {query.name for query in ALL.values() if query.theme} == {
        q.name for q in ALL.values() if q.folder == "audit"
    }
    assert [name for theme in query_files.THEMES for name in query_files.by_theme(theme)].count("incomplete-turns") == 1
    with pytest.raises(InvalidInput, match="its theme is 'weather'"):
        query_files.parse("sample", "audit", "# theme: weather\n" + GOOD)
    with pytest.raises(InvalidInput, match="its theme is ''"):
        query_files.parse("sample", "audit", GOOD)
