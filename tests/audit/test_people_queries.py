"""The queries for auditors on people: answers counted by hand."""

from __future__ import annotations

from typing import Any

import pytest

import trails
from tests.support.engines import Answer, Engines, EnginesOf
from tests.support.nine_sessions import day, fill
from trails import Compaction, Repository

pytestmark = pytest.mark.filterwarnings("ignore:Dataset\\..*deprecated:DeprecationWarning")  # rdflib warns of itself

ALICE, BOB, CAROL, EVE = (f"principal:{name}" for name in ("alice", "bob", "carol", "eve"))
ANN, BEN, CAT, ERIN = (f"principal:{name}" for name in ("ann", "ben", "cat", "erin"))
ANONYMOUS, CLERK, GHOST = "principal:anonymous", "agent:clerk", "agent:ghost"

NINE: list[Answer] = [
    # dinner has turn 1 from plan; what the agents scored is no check by a person
    ("human-checks", {}, "session kind from up_to name verdict by", [
        ("dinner", "score", None, 6, "accuracy", 0.25, BOB),
        ("dinner", "score", None, 6, "done", True, BOB),
        ("plan", "score", 1, 2, "tone", "warm", BOB),
        ("plan", "note", 1, 2, None, "Which tool was that?", BOB),
    ]),
    ("human-checks", {"session": "dinner"}, "time", [(day(28),), (day(28),)]),
    ("recipients", {}, "session turn channel account peer outcome attempt time delivery", [
        ("desk", "desk#1", "smtp", None, "eve", "failed", 1, day(12), "desk/ledger/4"),
        ("desk", "desk#1", "smtp", None, "eve", "sent", 2, day(13), "desk/ledger/5"),
    ]),
    ("recipients", {"session": "hall"}, "turn", []),
    ("delegations", {"who": "carol"}, "agent behalf basis session given since", [
        ("agent:cook", CAROL, "session", "recipes", "recipes", day(5)),
    ]),
    ("delegations", {"who": "urn:trails:agent:scout"}, "agent behalf basis session given since", [
        ("agent:scout", "agent:planner", "spawn", "scout", "plan", day(6)),
        ("agent:scout", "agent:scout", "spawn", "helper", "scout", day(7)),
        ("agent:scout", ANONYMOUS, "session", "helper", "helper", day(7)),
        ("agent:scout", ANONYMOUS, "session", "scout", "scout", day(6)),
    ]),
    # of the second run neither session is here
    ("delegations", {"who": "urn:trails:agent:ops"}, "agent behalf basis session given since", [
        ("agent:ops", None, "run", None, "agent:ops:subagent:x/run/r2", day(25)),
    ]),
    ("two-principals", {}, "session owner principal turns first last", [
        ("dinner", BOB, ALICE, 1, 0, 0),
        ("dinner", BOB, BOB, 1, 3, 3),
        ("solo", BOB, ALICE, 1, 0, 0),
        ("solo", BOB, CAROL, 1, 2, 2),
        ("tail", BOB, ALICE, 1, 0, 0),
        ("tail", BOB, CAROL, 1, 2, 2),
    ]),
    ("two-principals", {"session": "plan"}, "principal", []),
    # plan: 0 is alice's, 1 and 2 are the planner's, and so is nobody's prompt; dinner: 3 is bob's, 4 and 5 the planner's
    ("principals-behind", {"session": "dinner", "index": 5}, "principal how place path things", [
        (ALICE, "delegated", "plan", "transcript", 2),
        (ALICE, "unknown", "plan", "transcript", 1),
        (ALICE, "wrote", "plan", "transcript", 1),
        (BOB, "delegated", "dinner", "transcript", 2),
        (BOB, "wrote", "dinner", "transcript", 1),
    ]),
    ("principals-behind", {"session": "dinner", "index": 0}, "principal how things", [
        (ALICE, "unknown", 1),
        (ALICE, "wrote", 1),
    ]),
    # scan's one turn was made from what count came to; prompt, tasks and summary are of nobody who was named
    ("principals-behind", {"session": "scan", "index": 0}, "principal how place path things", [
        (ERIN, "delegated", "scan", "transcript", 1),
        (ERIN, "unknown", "count", "result", 1),
        (ERIN, "unknown", "scan", "transcript", 3),
    ]),
    ("principals-behind", {"session": "picks", "index": 0}, "principal how place things", [(BOB, "wrote", "picks", 1)]),
    ("personal-data", {"principal": "eve"}, "kind how session item", [
        ("Event", "wasAttributedTo", "desk", "desk/ledger/1"),
        ("Event", "wasAttributedTo", "desk", "desk/ledger/6"),
        ("Event", "wasAttributedTo", "desk", "desk/ledger/9"),
        ("Turn", "wasAttributedTo", "desk", "desk#0"),
    ]),
    ("personal-data", {"principal": "carol"}, "kind how session item", [
        ("Session", "wasAttributedTo", "recipes", "recipes"),
        ("Session", "inherits", "tail", "tail"),
        ("Turn", "wasAttributedTo", "recipes", "recipes#0"),
        ("Turn", "session", "recipes", "recipes#1"),
        ("Turn", "wasAttributedTo", "solo", "solo#2"),
    ]),
]  # fmt: skip

OFFICE: list[Answer] = [
    # aide was spawned by the desk, clerk runs it and writes to what it spawned: both may. A copy is judged where it came from.
    ("undelegated-turns", {}, "session index role author agent lacks turn", [
        ("desk", 2, "assistant", GHOST, CLERK, "delegation", "desk#2"),
        ("kept", 0, "assistant", GHOST, CLERK, "source", "kept#0"),
    ]),
    ("undelegated-turns", {"session": ["helper", "copy", "lone"]}, "turn", []),
    ("two-principals", {"session": ["desk", "side"]}, "session principal turns first last", [
        ("desk", ANN, 1, 0, 0),
        ("desk", BEN, 1, 3, 3),
    ]),
    ("principals-behind", {"session": "desk", "index": 4}, "principal how things", [
        (ANN, "delegated", 3),
        (ANN, "wrote", 1),
        (BEN, "wrote", 1),
    ]),
    ("principals-behind", {"session": "side", "index": 3}, "principal how place things", [
        (ANN, "delegated", "desk", 2),
        (ANN, "wrote", "desk", 1),
        (BEN, "delegated", "side", 1),
    ]),
    # copied calls were made for whom they were made for, whoever has the copy
    ("principals-behind", {"session": "lone", "index": 1}, "principal how place things", [
        (ANN, "delegated", "lone", 1),
        (CAT, "delegated", "lone", 2),
    ]),
    ("personal-data", {"principal": "ben"}, "kind how session", [
        ("Copying", "session", "copy"),
        ("Note", "wasAttributedTo", "desk"),
        ("Score", "wasAssociatedWith", "desk"),
        ("Score", "session", "side"),
        ("Session", "wasAttributedTo", "copy"),
        ("Session", "wasAttributedTo", "side"),
        *[("Turn", "session", "copy")] * 5,
        ("Turn", "wasAttributedTo", "desk"),
        *[("Turn", "session", "side")] * 2,
    ]),
    ("personal-data", {"principal": "nobody"}, "item", []),
]  # fmt: skip


GATE: list[Answer] = [
    ("tool-approvals", {}, "session index name id decision by outcome time asked answered", [
        ("plan", 0, "ls", "c1", "approved", ANN, "completed", day(2), "plan#0", "plan#1"),
        ("plan", 0, "rm", "c2", "refused", "agent:guard", "refused", day(3), "plan#0", "plan#2"),
        ("plan", 0, "cp", "c3", None, None, None, None, "plan#0", None),
        # of what was copied from a session that is gone, the copy tells
        ("rest", 0, "mv", "c4", "approved", BEN, None, day(4), "rest#0", "rest#1"),
    ]),
    ("tool-approvals", {"session": ["copy", "picks"]}, "asked", []),
    ("principals-behind", {"session": "plan", "index": 2}, "principal how place things", [
        (ANN, "approved", "plan", 1),
        (ANN, "delegated", "plan", 3),
    ]),
    ("principals-behind", {"session": "plan", "index": 0}, "principal how things", [(ANN, "delegated", 1)]),
    ("principals-behind", {"session": "copy", "index": 2}, "principal how things", [
        (ANN, "approved", 1),
        (ANN, "delegated", 3),
    ]),
    ("personal-data", {"principal": "ben"}, "kind how session item", [
        ("Session", "wasAttributedTo", "picks", "picks"),
        ("ToolResult", "approvedBy", "rest", "rest#1/result/0"),
    ]),
]  # fmt: skip


def gate(store: Repository) -> None:
    """Fill a store with calls that people and a guard decided on, and copies of them."""
    plan = store.create(id="plan", principal="ann", agent="clerk")
    names = {"c1": "ls", "c2": "rm", "c3": "cp"}
    plan.append("assistant", "I look", tool_calls=[{"id": i, "name": n, "arguments": {}} for i, n in names.items()])
    passed = trails.ToolResult(call_id="c1", outcome="completed", approved_by="ann")
    plan.append("tool", "Two files", tool_results=[passed], time=day(2))
    denied = {"call_id": "c2", "is_error": True, "outcome": "refused", "refused_by": "agent:guard"}
    plan.append("tool", "No", tool_results=[denied], time=day(3))
    plan.persist()
    plan.flatten(id="copy")
    old = store.create(id="old", principal="cat", agent="clerk")
    old.append("assistant", "I move", tool_calls=[{"id": "c4", "name": "mv", "arguments": {}}])
    old.append("tool", "Moved", tool_results=[{"call_id": "c4", "approved_by": "ben"}], time=day(4))
    old.persist()
    old.flatten(id="rest")
    store.delete("old")
    store.create(id="picks", principal="ben").persist()


def office(store: Repository) -> None:
    """Fill a store with a desk, which a ghost writes to, and what was forked, spawned, copied and picked from it."""
    desk = store.create(id="desk", principal="ann", agent="clerk")
    desk.append("user", "Hello")
    desk.append("assistant", "Hi", model="m-1")
    desk.append("assistant", "Boo", author="agent:ghost")
    desk.append("user", "Who is that?", author="ben")
    desk.persist()
    side = desk.fork(at=3, id="side", principal="ben")
    side.append("assistant", "A ghost")
    side.append("summary", "Ann said hello", compaction=Compaction(summarised_through=2))
    side.persist()
    helper = store.create(id="helper", spawned_by="desk", agent="aide", principal="ann")
    helper.append("user", "Look for it", author="agent:clerk")
    helper.append("assistant", "I look")
    helper.persist()
    desk.append("user", "It is gone", author="agent:aide")
    desk.persist()
    side.flatten(id="copy")
    lone = store.create(id="lone", principal="cat", agent="hermit")
    lone.cherry_pick("desk", [1, 2])
    lone.persist()
    old = store.create(id="old", principal="ann", agent="clerk")
    old.append("assistant", "Boo again", author="agent:ghost")
    old.persist()
    old.flatten(id="kept")
    store.delete("old")
    store.notes.add("desk", 0, "Why?", by="ben")
    store.score("desk", "tone", "warm", by="ben")
    store.score("side", "tone", "warm", by="agent:grader")


STORES = {fill: NINE, office: OFFICE, gate: GATE}


def test_what_a_fork_inherits_and_a_summary_covers_is_a_persons_data_too(engines_of: EnginesOf) -> None:
    rows: list[Any] = engines_of(office).rows("pyoxigraph", "personal-data", principal="ann")
    assert [row[:4] for row in rows if row[1] in ("inherits", "summarises")] == [
        ("Session", "inherits", "side", "side"),
        ("SummaryTurn", "summarises", "copy", "copy#4"),
        ("SummaryTurn", "summarises", "side", "side#4"),
    ]


@pytest.mark.slow
def test_who_is_behind_what_a_run_came_to_is_behind_the_turn_that_says_it() -> None:
    with trails.open(":memory:") as store:
        store.create(id="hut", principal="ann", agent="main").persist()
        runs = trails.Runs(store, agent=lambda step: "Two an hour." if step.run else "Two an hour, ann.")
        answer = runs.spawn("hut", "How often do trains go?")
        runs.work()
        child = runs.get(answer.run_id or "").child_session or ""
        engines = Engines(store)
        assert [turn.role for turn in store.load(child).turns] == ["user", "assistant"]
        # the child was asked by main and answered by main, both for ann; the hut was told by main, and said so
        rows = engines.rows("pyoxigraph", "principals-behind", session="hut", index=1)
        assert [row for row in rows if row[3] == "result" and row[1] == "delegated"] == [
            (ANN, "delegated", child, "result", 2)
        ]
        assert (ANN, "delegated", "hut", "transcript", 2) in rows
        assert engines.rows("rdflib", "principals-behind", session="hut", index=1) == rows
