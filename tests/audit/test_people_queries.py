"""The queries for auditors on people: answers counted by hand, and held against counts by plain loops over random stores."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

import trails
from tests.support.busy_agents import PEOPLE, BusyAgents, seeds
from tests.support.engines import ENGINES, Answer, Engines, answered
from tests.support.nine_sessions import day, fill
from tests.support.plain_quads import SESSION, PlainQuads, session_of
from trails import Compaction, Repository
from trails.rdf import query_files

pytestmark = pytest.mark.filterwarnings("ignore:Dataset\\..*deprecated:DeprecationWarning")  # rdflib warns of itself

ALICE, BOB, CAROL, EVE = (f"principal:{name}" for name in ("alice", "bob", "carol", "eve"))
ANN, BEN, CAT, ERIN = (f"principal:{name}" for name in ("ann", "ben", "cat", "erin"))
ANONYMOUS, CLERK, GHOST = "principal:anonymous", "agent:clerk", "agent:ghost"

NINE: list[Answer] = [
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


@pytest.fixture(scope="module")
def stores() -> Iterator[dict[str, Engines]]:
    with trails.open(":memory:") as nine, trails.open(":memory:") as one, trails.open(":memory:") as other:
        fill(nine)
        office(one)
        gate(other)
        yield {"nine": Engines(nine), "office": Engines(one), "gate": Engines(other)}


STORES = {"nine": NINE, "office": OFFICE, "gate": GATE}
CASES = [(place, answer) for place, answers in STORES.items() for answer in answers]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("place", "answer"), CASES, ids=lambda case: case if isinstance(case, str) else str(case[:2]))
def test_a_query_on_people_answers_what_was_counted_by_hand(
    stores: dict[str, Engines], engine: str, place: str, answer: Answer
) -> None:
    found, expected = answered(stores[place], engine, answer)
    assert found == expected


def test_every_query_on_people_has_a_hand_counted_answer() -> None:
    assert {name for _, (name, _, _, expected) in CASES if expected} == set(query_files.by_theme("people"))


def test_what_a_fork_inherits_and_a_summary_covers_is_a_persons_data_too(stores: dict[str, Engines]) -> None:
    rows: list[Any] = stores["office"].rows("pyoxigraph", "personal-data", principal="ann")
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


# --- held against counts by plain loops


@pytest.fixture(scope="module")
def drawn(request: pytest.FixtureRequest) -> Iterator[list[PlainQuads]]:
    with contextlib.ExitStack() as open_stores:
        found = []
        for seed in seeds(request.config):
            store = open_stores.enter_context(trails.open(":memory:"))
            BusyAgents(store, seed)
            found.append(PlainQuads(store))
        yield found


def test_delegations_are_those_that_sessions_and_runs_tell_of(drawn: list[PlainQuads]) -> None:
    for plain in drawn:
        agents = {record.id: f"urn:trails:agent:{record.agent}" for record in plain.sessions()}
        expected: list[tuple[Any, ...]] = []
        for record in plain.sessions():
            expected.append((agents[record.id], plain.value(record.iri, "prov:wasAttributedTo"), "session", record.iri))
            if record.spawned_by is not None:
                expected.append((agents[record.id], agents.get(record.spawned_by), "spawn", record.iri))
        for run in trails.Runs(plain.store).list():
            child, above = run.child_session, run.requester_session
            agent = agents.get(child or "", f"urn:trails:agent:{run.agent}")
            expected.append((agent, agents.get(above or ""), "run", child and f"urn:trails:session:{child}"))
        rows = plain.asked("delegations")
        assert Counter((r["agent"], r["behalf"], r["basis"], r["session"]) for r in rows) == Counter(expected)
        assert {row["basis"] for row in rows} == {"session", "spawn", "run"}


def test_tool_approvals_are_what_the_answers_of_each_call_tell(drawn: list[PlainQuads]) -> None:
    decisions = set()
    for plain in drawn:
        copied = dict([*plain.pairs("prov:alternateOf"), *plain.pairs("prov:wasQuotedFrom")])
        told: dict[str, list[Any]] = {}
        for record, turns in plain.transcripts():
            for turn in [each for each in turns if each.session_id == record.id]:
                for number, result in enumerate(turn.tool_results):
                    node = f"{turn.iri}/result/{number}"
                    call = plain.value(node, "trails:answers") or plain.value(node, "trails:answersCopy")
                    who = result.refused_by or result.approved_by
                    told.setdefault(call or "", []).append((turn.iri, who, result.outcome))
        turns_there = set(plain.of_class("Turn"))
        expected = []
        for call in [*plain.of_class("ToolCall"), *plain.of_class("ToolCallCopy")]:
            asked = plain.value(call, "prov:wasStartedBy") or plain.value(call, "trails:keptWith") or ""
            if asked not in copied or copied[asked] not in turns_there:
                expected += [(asked, *each) for each in told.get(call, [(None, None, None)])]
        rows = plain.asked("tool-approvals")
        assert Counter((r["asked"], r["answered"], r["by"], r["outcome"]) for r in rows) == Counter(expected)
        decisions |= {row["decision"] for row in rows}
    assert decisions == {None, "approved", "refused"}


def test_two_principals_are_those_who_wrote_in_what_load_returns(drawn: list[PlainQuads]) -> None:
    for plain in drawn:
        expected: dict[tuple[str, str], tuple[int, int, int]] = {}
        for record, turns in plain.transcripts():
            places: dict[str, list[int]] = {}
            for turn in turns:
                if turn.author_iri.startswith("urn:trails:principal:"):
                    places.setdefault(turn.author_iri, []).append(turn.index)
            if len(places) > 1:
                expected |= {(record.iri, who): (len(at), min(at), max(at)) for who, at in places.items()}
        rows = plain.asked("two-principals")
        assert {(r["session"], r["principal"]): (r["turns"], r["first"], r["last"]) for r in rows} == expected
        assert len(rows) == len(expected) > 3


def test_undelegated_turns_are_those_of_strangers(drawn: list[PlainQuads]) -> None:
    lacking = set()
    for plain in drawn:
        stored = {turn.iri for _, turns in plain.transcripts() for turn in turns}
        stored |= set(plain.of_class("Turn"))
        source = dict([*plain.pairs("prov:alternateOf"), *plain.pairs("prov:wasQuotedFrom")])
        paid = {plain.value(call, "trails:keptWith") for call, _ in plain.pairs("trails:calledFor")}
        expected, may = set(), kin(plain)
        for record, turns in plain.transcripts():
            for turn in turns:
                own = turn.session_id == record.id and turn.author_iri.startswith("urn:trails:agent:")
                judged = source.get(turn.iri) in stored or turn.iri in paid
                if own and turn.author not in may[record.id] and not judged:
                    expected.add((turn.iri, "source" if turn.iri in source else "delegation"))
        rows = plain.asked("undelegated-turns")
        assert {(row["turn"], row["lacks"]) for row in rows} == expected
        assert len(rows) == len(expected) > 0
        lacking |= {row["lacks"] for row in rows}
    assert "delegation" in lacking


def kin(plain: PlainQuads) -> dict[str, set[str]]:
    """Return the agents of the sessions that each session spawned, was spawned by, asked for a run in, or was asked by."""
    agents = {record.id: record.agent for record in plain.sessions()}
    pairs = [(record.id, record.spawned_by) for record in plain.sessions()]
    pairs += [(run.child_session, run.requester_session) for run in trails.Runs(plain.store).list()]
    found: dict[str, set[str]] = {each: {agent} for each, agent in agents.items()}
    for one, other in pairs:
        if one in agents and other in agents:
            found[one].add(agents[other])
            found[other].add(agents[one])
    return found


def test_all_that_names_a_person_is_in_an_answer_to_an_access_request(drawn: list[PlainQuads]) -> None:
    for plain in drawn:
        for person in PEOPLE:
            iri = f"urn:trails:principal:{person}"
            rows = plain.asked("personal-data", principal=person)
            naming = {
                (subject, predicate.partition(":")[2]) for subject, predicate, value, _ in plain.quads if value == iri
            }
            others = ("session", "inherits", "summarises")
            assert {(row["item"], row["how"]) for row in rows if row["how"] not in others} == naming
            theirs = {record.iri for record in plain.sessions() if record.principal == person}
            assert {row["item"] for row in rows if row["how"] == "session" and row["kind"] == "Turn"} == {
                turn.iri
                for record, turns in plain.transcripts()
                for turn in turns
                if record.iri in theirs and turn.session_id == record.id and turn.author_iri != iri
            }
            entries = {subject for subject, predicate, _, graph in plain.quads if predicate == "trails:number"
                       and graph.removesuffix("/ledger") in theirs}  # fmt: skip
            assert entries <= {row["item"] for row in rows if row["how"] == "session"}
            inherited, covered = set(), set()
            for record, turns in plain.transcripts():
                their = [turn for turn in turns if turn.author_iri == iri]
                if any(turn.session_id != record.id for turn in their):
                    inherited.add(record.iri)
                for turn in turns:
                    if turn.facts.compaction is not None and turn.session_id == record.id:
                        through = turn.facts.compaction.summarised_through
                        if any(each.index <= (turn.index - 1 if through is None else through) for each in their):
                            covered.add(turn.iri)
            assert {row["item"] for row in rows if row["how"] == "inherits"} == inherited
            assert {row["item"] for row in rows if row["how"] == "summarises"} == covered


@pytest.mark.slow
def test_the_principals_behind_a_turn_are_found_by_walking_up_and_down(drawn: list[PlainQuads]) -> None:
    handed_on = 0
    for plain in drawn:
        for record, turns in plain.transcripts():
            index = len(turns) // 2
            walk = Walk(plain)
            walk.transcript(record, [turn for turn in turns if turn.index <= index], index)
            rows = plain.asked("principals-behind", session=record.id, index=index)
            found = {(r["principal"], r["how"], r["place"], r["path"]): r["things"] for r in rows}
            assert found == {key: len(things) for key, things in walk.found.items()}
            handed_on += sum(row["path"] == "result" for row in rows)
    assert handed_on > 3


class Walk:
    """By whom and how each thing got in that some turns rest on, and what the sub-agents rest on whose results they tell."""

    def __init__(self, plain: PlainQuads) -> None:
        self.plain = plain
        self.found: dict[tuple[Any, ...], set[str]] = {}

    def transcript(self, record: Any, shown: list[trails.Turn], last: int) -> None:
        for turn in shown:
            self._note(turn.author_iri, "wrote", turn.session_id, "transcript", turn.iri)
            self._approvals(turn, "transcript")
            for principal in self.plain.values(turn.iri + "/model", "trails:calledFor"):
                key = (principal, "delegated", f"{SESSION}{turn.session_id}", "transcript")
                self.found.setdefault(key, set()).add(turn.iri)
        end = last + 1  # a prompt counts from its index on, also one that stands at the very turn that is asked for
        while True:
            self._prompts(record.id, end, "transcript")
            self._tasks(record.id, "transcript")
            if record.parent_session_id is None:
                break
            end = min(end, record.forked_at_index)
            record = self.plain.store.record(record.parent_session_id)
        for sub in self._handed({turn.iri for turn in shown}):
            self._sub_agent(sub)

    def _sub_agent(self, sub: str) -> None:
        for turn in self.plain.store.load(sub).turns:
            if turn.session_id == sub:
                self._note(turn.author_iri, "wrote", sub, "result", turn.iri)
                self._approvals(turn, "result")
        self._prompts(sub, 10**9, "result")
        self._tasks(sub, "result")

    def _approvals(self, turn: trails.Turn, path: str) -> None:
        for number, result in enumerate(turn.tool_results):
            if result.approved_by is not None:
                self._note(result.approved_by, "approved", turn.session_id, path, f"{turn.iri}/result/{number}")

    def _prompts(self, session: str, end: int, path: str) -> None:
        for prompt, of in self.plain.pairs("trails:promptOf"):
            if of == SESSION + session and int(self.plain.value(prompt, "trails:effectiveFrom") or 0) < end:
                self._note(self._author(prompt), "prompted", session, path, prompt)

    def _tasks(self, session: str, path: str) -> None:
        for thing in [*self.plain.of_class("TaskBrief"), *self.plain.of_class("ContextSummary")]:
            if thing.startswith(f"{SESSION}{session}/ledger/"):
                self._note(self._author(thing), "tasked", session, path, thing)

    def _author(self, thing: str) -> str:
        return self.plain.value(thing, "prov:wasAttributedTo") or ""

    def _note(self, author: str, how: str, session: str, *where: str) -> None:
        path, thing = where
        principal: str | None = author
        if not author.startswith("urn:trails:principal:"):
            how = "unknown" if author == "urn:trails:agent:unknown" else "delegated"
            principal = self.plain.value(SESSION + session, "prov:wasAttributedTo")
        self.found.setdefault((principal, how, SESSION + session, path), set()).add(thing)

    def _handed(self, turns: set[str]) -> set[str]:
        """Return the ids of the sub-agents whose results some turns tell, and of those that handed theirs on to these."""
        results = set(self.plain.of_class("SessionResult"))
        derived = self.plain.pairs("prov:wasDerivedFrom")
        found = {session_of(source) for turn, source in derived if turn in turns and source in results}
        told = [pair for pair in self.plain.pairs("trails:recordedAs") if session_of(pair[0]) == session_of(pair[1])]
        said = {event for event, turn in told if turn in turns}
        runs = [run for run, event in self.plain.pairs("trails:announcedAs") if event in said]
        found |= {child for run in runs for child in self.plain.values(run, "prov:generated")}
        below: set[str] = set()
        for child in found:
            below |= self._handed({turn for turn in self.plain.of_class("Turn") if session_of(turn) == child})
        return {iri.removeprefix(SESSION) for iri in found} | below
