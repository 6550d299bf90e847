"""The queries for auditors on context: answers counted by hand, and held against counts by plain loops over random stores."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

import trails
from tests.support.busy_agents import BusyAgents, seeds
from tests.support.engines import ENGINES, Answer, Engines, answered
from tests.support.nine_sessions import fill
from tests.support.plain_quads import PlainQuads
from trails import Compaction, Repository, Turn
from trails.rdf import query_files

pytestmark = pytest.mark.filterwarnings("ignore:Dataset\\..*deprecated:DeprecationWarning")  # rdflib warns of itself

NINE: list[Answer] = [
    # what was spawned is told its task and what its parent summed up, and has a prompt of its own
    ("context-window", {"session": "scan", "index": 0}, "index part owner source", [
        (None, "background", "scan", "scan/ledger/3"),
        (None, "brief", "scan", "scan/ledger/2"),
        (0, "prompt", "scan", "scan/system/1"),
    ]),
    # tail inherits solo's summary of the turns 0 and 1 and what it kept, and solo's prompt; plan's second one came later
    ("context-window", {"session": "tail", "index": 4}, "index part role author owner source", [
        (2, "turn", "user", "principal:carol", "solo", "solo#2"),
        (3, "summary", "summary", "agent:planner", "solo", "solo#3"),
        (4, "prompt", None, "agent:unknown", "solo", "solo/system/2"),
    ]),
    ("context-window", {"session": "dinner", "index": 4}, "index part source", [
        (0, "prompt", "plan/system/1"),
        (0, "turn", "plan#0"),
        (1, "turn", "plan#1"),
        (2, "turn", "plan#2"),
        (3, "turn", "dinner#3"),
    ]),
    ("context-tool-outputs", {"session": "dinner", "index": 6}, "index tool shown error owner turn summary", [
        (2, "weather", "verbatim", False, "plan", "plan#2", None),
        (5, "tables", "verbatim", True, "dinner", "dinner#5", None),
    ]),
    ("context-tool-outputs", {"session": "tail", "index": 4}, "turn", []),
    ("context-summarised-away", {"session": "tail", "index": 4}, "index role author owner turn summary", [
        (0, "user", "principal:alice", "plan", "plan#0", "solo#3"),
        (1, "assistant", "agent:planner", "plan", "plan#1", "solo#3"),
    ]),
    ("context-summarised-away", {"session": "tail", "index": 3}, "index", []),
    # solo left dinner inside what that inherits from plan: it sees neither plan's third turn nor dinner's own
    ("fork-unseen-turns", {}, "session parent at index owner turn", [
        ("dinner", "plan", 3, 3, "plan", "plan#3"),
        ("dinner", "plan", 3, 4, "plan", "plan#4"),
        ("pi:01~b", "pi:01", 1, 1, "pi:01", "pi:01#1"),
        ("solo", "dinner", 2, 2, "plan", "plan#2"),
        ("solo", "dinner", 2, 3, "dinner", "dinner#3"),
        ("solo", "dinner", 2, 4, "dinner", "dinner#4"),
        ("solo", "dinner", 2, 5, "dinner", "dinner#5"),
    ]),
    ("fork-unseen-turns", {"session": "tail"}, "turn", []),
]  # fmt: skip

TOLD: list[Answer] = [
    ("context-window", {"session": "lead", "index": 4}, "index part source", [
        (0, "prompt", "lead/system/1"),
        (2, "turn", "lead#2"),
        (3, "summary", "lead#3"),
    ]),
    # the call says that it left 2 out and ended with 4
    ("context-window", {"session": "lead", "index": 6}, "index part source", [
        (0, "prompt", "lead/system/1"),
        (2, "left out", "lead#2"),
        (3, "summary", "lead#3"),
        (4, "turn", "lead#4"),
        (5, "left out", "lead#5"),
    ]),
    # the call says that it began with the first summary, and sent the first prompt, although there are newer ones
    ("context-window", {"session": "lead", "index": 8}, "index part role source", [
        (0, "prompt", None, "lead/system/1"),
        (2, "turn", "tool", "lead#2"),
        (3, "summary", "summary", "lead#3"),
        (4, "turn", "assistant", "lead#4"),
        (5, "turn", "user", "lead#5"),
        (6, "turn", "assistant", "lead#6"),
    ]),
    # of the next answer nothing is told: the last summary, which kept 5 and what follows, and the newest prompt
    ("context-window", {"session": "lead", "index": 9}, "index part source", [
        (5, "turn", "lead#5"),
        (6, "turn", "lead#6"),
        (7, "summary", "lead#7"),
        (8, "prompt", "lead/system/2"),
        (8, "turn", "lead#8"),
    ]),
    # what was sent out over a channel is shown to nobody
    ("context-window", {"session": "branch", "index": 7}, "index part source", [
        (0, "prompt", "lead/system/1"),
        (2, "turn", "lead#2"),
        (3, "summary", "lead#3"),
        (4, "turn", "lead#4"),
        (5, "turn", "branch#5"),
        (6, "left out", "branch#6"),
    ]),
    ("context-tool-outputs", {"session": "lead", "index": 4}, "index tool shown turn", [(2, "look", "verbatim", "lead#2")]),
    ("context-tool-outputs", {"session": "lead", "index": 6}, "index tool shown summary", [(2, "look", "none", None)]),
    ("context-tool-outputs", {"session": "lead", "index": 9}, "index tool shown summary", [(2, "look", "summary", "lead#7")]),
    ("context-summarised-away", {"session": "lead", "index": 9}, "index turn summary", [
        (0, "lead#0", "lead#7"),
        (1, "lead#1", "lead#7"),
        (2, "lead#2", "lead#7"),
        (3, "lead#3", "lead#7"),
        (4, "lead#4", "lead#7"),
    ]),
    # the summary that was not used tells of nothing here, nor does the first one
    ("context-summarised-away", {"session": "lead", "index": 8}, "index turn summary", [
        (0, "lead#0", "lead#3"),
        (1, "lead#1", "lead#3"),
        (7, "lead#7", None),
    ]),
    ("fork-unseen-turns", {"session": "branch"}, "index", [(5,), (6,), (7,), (8,)]),
    # the first summary kept the output, the second one did not
    ("answers-after-tool", {"tool": "look", "session": "lead"}, "index answer path how sources first last", [
        (4, "lead#4", "transcript", "verbatim", 1, 2, 2),
        (6, "lead#6", "transcript", "verbatim", 1, 2, 2),
        (8, "lead#8", "transcript", "summary", 1, 2, 2),
    ]),
    ("answers-after-tool", {"tool": "look", "session": "branch"}, "index how", [(7, "verbatim")]),
    ("answers-after-tool", {"tool": "other", "session": "lead"}, "index", []),
    ("answers-after-author", {"author": "bob", "session": "lead"}, "index how sources", [
        (6, "verbatim", 1),
        (8, "verbatim", 1),
    ]),
    ("answers-after-author", {"author": "alice", "session": "lead"}, "index how first last", [
        (1, "verbatim", 0, 0),
        (4, "summary", 0, 0),
        (6, "summary", 0, 0),
        (8, "summary", 0, 0),
    ]),
    ("answers-after-author", {"author": "carol", "session": "lead"}, "index", []),
]  # fmt: skip


def told(store: Repository) -> None:
    """Fill a store with a session whose calls say what they were shown, and a fork of it."""
    lead = store.create(id="lead", principal="alice", agent="planner", system="Be brief")
    lead.append("user", "Look")
    lead.append("assistant", "I look", model="m", tool_calls=[{"id": "c1", "name": "look", "arguments": {}}])
    lead.append("tool", "Seen", tool_call_id="c1")
    lead.append("summary", "It was looked", compaction=Compaction(summarised_through=1, first_kept=2))
    lead.append("assistant", "A", model="m")
    lead.persist()
    branch = lead.fork(id="branch")
    branch.append("user", "Other", author="carol")
    branch.append("delivery", "A")
    branch.append("assistant", "Yes", model="m")
    branch.persist()
    lead.append("user", "More", author="bob")
    shown = trails.ContextUsed(through=4, left_out=(2,))
    lead.append("assistant", "B", model="m", call=trails.Call(context=shown))
    lead.append("summary", "And more", compaction=Compaction(summarised_through=4, first_kept=5))
    lead.persist()
    lead.set_system("Be long")
    lead.append("assistant", "C", model="m", call=trails.Call(prompt=1, context=trails.ContextUsed(summary=3)))
    lead.persist()


@pytest.fixture(scope="module")
def stores() -> Iterator[dict[str, Engines]]:
    with trails.open(":memory:") as nine, trails.open(":memory:") as other:
        fill(nine)
        told(other)
        yield {"nine": Engines(nine), "told": Engines(other)}


CASES = [*(("nine", answer) for answer in NINE), *(("told", answer) for answer in TOLD)]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("place", "answer"), CASES, ids=lambda case: case if isinstance(case, str) else str(case[:2]))
def test_a_query_on_context_answers_what_was_counted_by_hand(
    stores: dict[str, Engines], engine: str, place: str, answer: Answer
) -> None:
    found, expected = answered(stores[place], engine, answer)
    assert found == expected


def test_every_query_on_context_has_a_hand_counted_answer() -> None:
    assert {name for _, (name, _, _, expected) in CASES if expected} == set(query_files.by_theme("context"))


# --- held against counts by plain loops


class ShownContexts(BusyAgents):
    """A store drawn by lot in which some summaries keep turns, and some calls say what they were shown."""

    def __init__(self, store: Repository, seed: int) -> None:
        super().__init__(store, seed)
        chance = random.Random(seed)
        for session in [store.load(each.id) for each in (*self.roots, *self.forks)]:
            self._long(session, chance)
            fork = session.fork(at=chance.randint(1, len(session)))
            self._long(fork, chance)
            fork.flatten()
        for name in ("main-0", "main-1"):  # what was handed to them comes before it
            main = store.load(name)
            main.append("assistant", "So", time=self.now())
            main.persist()

    def _long(self, session: trails.Session, chance: random.Random) -> None:
        for _ in range(4):
            self.talk(session, 3)
            through = chance.randrange(len(session))
            kept = chance.choice((None, through + 1, chance.randint(0, len(session))))
            if chance.random() < 0.4:
                session.append("summary", "Said", compaction=Compaction(summarised_through=through, first_kept=kept))
            session.append("assistant", "So", model="big", call=self._call(session, chance), time=self.now())
            session.persist()

    def _call(self, session: trails.Session, chance: random.Random) -> trails.Call | None:
        marks = [turn.index for turn in session.turns if turn.compaction is not None]
        summary = chance.choice([None, *marks])
        first, last = summary or 0, len(session) - 1
        through = chance.choice((None, None, chance.randint(first, last)))
        last = last if through is None else through
        left = {chance.randint(first, last) for _ in range(chance.choice((0, 0, 2)))} - {summary}
        shown = trails.ContextUsed(through=through, summary=summary, left_out=tuple(left))
        return chance.choice((None, trails.Call(context=shown)))


@pytest.fixture(scope="module")
def drawn(request: pytest.FixtureRequest) -> Iterator[list[PlainQuads]]:
    with contextlib.ExitStack() as open_stores:
        found = []
        for seed in seeds(request.config):
            store = open_stores.enter_context(trails.open(":memory:"))
            ShownContexts(store, seed)
            found.append(PlainQuads(store))
        yield found


def places(plain: PlainQuads) -> Iterator[tuple[Any, Sequence[Turn], int]]:
    """Yield some sessions with their transcripts, and the places of some turns in each."""
    for number, (record, turns) in enumerate(plain.transcripts()):
        for index in {len(turns), len(turns) // 2, max(0, len(turns) - 1 - number % 3)}:
            yield record, turns, index


def look(turns: Sequence[Turn], index: int) -> tuple[Turn | None, list[Turn], list[Turn]]:
    """Return the summary that a model was shown for a turn, the turns shown, and those that the rule would have shown."""
    answer = turns[index] if index < len(turns) else None
    call = None if answer is None or answer.facts.model_call is None else answer.facts.model_call.call
    said = None if call is None else call.context
    last = index - 1 if said is None or said.through is None else said.through
    summary: Turn | None = None
    for turn in turns[: min(index, last + 1)]:
        if turn.compaction is not None:
            summary = turn
    if said is not None and said.summary is not None:
        summary = turns[said.summary]
    begin = 0
    if summary is not None and summary.compaction is not None:
        kept = summary.compaction.first_kept
        begin = summary.index if kept is None or kept > summary.index else kept
    shown: list[Turn] = []
    hidden: list[Turn] = []
    for turn in turns[begin:index]:
        if turn.compaction is not None:
            continue
        out = turn.role == "delivery" or turn.index > last or (said is not None and turn.index in said.left_out)
        (hidden if out else shown).append(turn)
    return summary, shown, hidden


@pytest.mark.slow
def test_a_window_is_what_the_rule_and_the_call_say(drawn: list[PlainQuads]) -> None:
    parts = set()
    for plain in drawn:
        for record, turns, index in places(plain):
            rows = plain.asked("context-window", session=record.id, index=index)
            summary, shown, hidden = look(turns, index)
            expected = {("turn", turn.iri) for turn in shown} | {("left out", turn.iri) for turn in hidden}
            expected |= {("summary", summary.iri)} if summary else set()
            assert {(r["part"], r["source"]) for r in rows if r["part"] in ("turn", "left out", "summary")} == expected
            told_of = plain.store.reader.told(plain.store.reader.lineage(record.id))
            assert sum(r["part"] == "brief" for r in rows) == (told_of.task is not None)
            assert sum(r["part"] == "prompt" for r in rows) <= 1
            assert len({(r["part"], r["source"]) for r in rows}) == len(rows)
            parts |= {row["part"] for row in rows}
    assert parts >= {"turn", "left out", "summary", "prompt", "brief", "background"}


def test_a_window_without_a_told_call_is_what_context_shows(drawn: list[PlainQuads]) -> None:
    for plain in drawn:
        for record, turns in plain.transcripts():
            rows = plain.asked("context-window", session=record.id, index=len(turns))
            shown = plain.store.context(record.id)
            assert [row["index"] for row in rows if row["part"] == "turn"] == [turn.index for turn in shown.turns]
            summaries = [row["index"] for row in rows if row["part"] == "summary"]
            assert summaries == ([] if shown.summary is None else [shown.summary.index])
            assert sum(row["part"] == "prompt" for row in rows) == (shown.system is not None)


@pytest.mark.slow
def test_tool_outputs_are_shown_verbatim_by_a_summary_or_not_at_all(drawn: list[PlainQuads]) -> None:
    ways = set()
    for plain in drawn:
        for record, turns, index in places(plain):
            summary, shown, hidden = look(turns, index)
            through = summary.compaction.summarised_through if summary and summary.compaction else None
            expected = []
            for turn in turns[:index]:
                way = "verbatim" if turn in shown else "none"
                if turn not in shown and turn not in hidden and summary is not None:
                    way = "summary" if through is None or turn.index <= through else "none"
                expected += [(turn.index, way, result.is_error) for result in turn.tool_results]
            rows = plain.asked("context-tool-outputs", session=record.id, index=index)
            assert [(row["index"], row["shown"], row["error"]) for row in rows] == expected
            assert all((row["summary"] is not None) == (row["shown"] == "summary") for row in rows)
            ways |= {row["shown"] for row in rows}
    assert ways == {"verbatim", "summary", "none"}


def test_what_was_summarised_away_is_what_stands_before_the_first_turn_shown(drawn: list[PlainQuads]) -> None:
    total = 0
    for plain in drawn:
        for record, turns, index in places(plain):
            summary, shown, hidden = look(turns, index)
            away = [turn.iri for turn in turns[:index] if turn not in shown and turn not in hidden and turn != summary]
            rows = plain.asked("context-summarised-away", session=record.id, index=index)
            assert [row["turn"] for row in rows] == (away if summary else [])
            assert {row["summary"] for row in rows} <= {None, summary.iri if summary else None}
            total += len(rows)
    assert total > 0


def test_a_fork_sees_nothing_of_its_parent_from_its_fork_index_on(drawn: list[PlainQuads]) -> None:
    for plain in drawn:
        expected = set()
        for record in plain.sessions():
            if record.parent_session_id is not None:
                parent = plain.store.load(record.parent_session_id).turns
                expected |= {(record.iri, turn.iri) for turn in parent[record.forked_at_index :]}
        rows = plain.asked("fork-unseen-turns")
        assert {(row["session"], row["turn"]) for row in rows} == expected
        assert len(rows) == len(expected) > 0


@pytest.mark.slow
def test_answers_after_an_author_or_a_tool_are_those_that_reading_on_meets(drawn: list[PlainQuads]) -> None:
    ways = set()
    for plain in drawn:
        below: dict[str, set[str]] = {}
        for record in plain.sessions():
            above: str | None = record.id
            while above is not None:
                below.setdefault(above, set()).add(record.id)
                above = plain.store.record(above).spawned_by
        own = {
            record.id: [turn for turn in turns if turn.session_id == record.id] for record, turns in plain.transcripts()
        }
        for record, turns in plain.transcripts():
            told = {
                turn.index: {each for sub in below[turn.facts.derived_from.session_id] for each in own[sub]}
                for turn in turns
                if turn.facts.derived_from is not None
            }
            for author in ("alice", "bob"):
                wrote = {t.index for t in turns if t.author_iri == f"urn:trails:principal:{author}"}
                handed = {
                    index
                    for index, inner in told.items()
                    if any(t.author_iri.endswith(f"principal:{author}") for t in inner)
                }
                rows = plain.asked("answers-after-author", author=author, session=record.id)
                expected = {
                    *after(plain, record, turns, wrote, "transcript"),
                    *after(plain, record, turns, handed, "result"),
                }
                assert {tuple(row.values()) for row in rows} == expected
                assert len(rows) == len(expected)
                ways |= {(row["path"], row["how"]) for row in rows}
            names = {t.index: {name_of(turns, t.index, each.call_id) for each in t.tool_results} for t in turns}
            rows = plain.asked("answers-after-tool", tool="look", session=record.id)
            looked = {index for index, found in names.items() if "look" in found}
            found = {tuple(row.values()) for row in rows if row["path"] == "transcript"}
            assert found == set(after(plain, record, turns, looked, "transcript"))
    assert ways >= {("transcript", "verbatim"), ("transcript", "summary"), ("result", "verbatim")}


def name_of(turns: Sequence[Turn], index: int, call_id: str) -> str | None:
    """Return the tool of the last call with an id before a place."""
    asked = [call.name for turn in turns[:index] for call in turn.tool_calls if call.id == call_id]
    return asked[-1] if asked else None


def after(
    plain: PlainQuads, record: Any, turns: Sequence[Turn], sources: set[int], path: str
) -> Iterator[tuple[Any, ...]]:
    """Yield the row of each answer of a session that comes after some of its turns."""
    begin = 0
    for turn in turns:
        if turn.session_id == record.id and turn.role == "assistant" and not copied(plain, turn):
            before = sorted(index for index in sources if index < turn.index)
            if before:
                how = "verbatim" if before[-1] >= begin else "summary"
                yield turn.index, turn.iri, path, how, len(before), before[0], before[-1]
        if turn.compaction is not None:
            kept = turn.compaction.first_kept
            begin = turn.index if kept is None or kept > turn.index else kept


def copied(plain: PlainQuads, turn: Turn) -> bool:
    return turn.quoted_from is not None or plain.value(turn.iri, "prov:alternateOf") is not None
