"""The queries for auditors on work: answers counted by hand, and held against counts by plain loops over random stores."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

import trails
from tests.support.busy_agents import BusyAgents, seeds
from tests.support.engines import ENGINES, Answer, Engines, answered
from tests.support.nine_sessions import day, fill
from tests.support.plain_quads import SESSION, PlainQuads, session_of
from trails import Compaction, Repository, Turn
from trails.history.records import subagent_runs
from trails.rdf import query_files
from trails.rdf.subagent_records import Run, RunContent
from trails.runtime.policy.entry_patches import ModelHost, ModelRef

pytestmark = pytest.mark.filterwarnings("ignore:Dataset\\..*deprecated:DeprecationWarning")  # rdflib warns of itself

NINE: list[Answer] = [
    ("sub-agents", {}, "session parent depth kind agent state children active breaks", [
        ("chat", None, 0, "main", "agent:chief", "active", 2, 1, None),
        ("mail", None, 0, "main", "agent:chief", "failed", 1, 1, None),
        ("plan", None, 0, None, "agent:planner", "active", 1, 1, None),
        ("beds", "chat", 1, "branch", "agent:chief", "suspended", 0, 0, None),
        ("letters", "mail", 1, "branch", "agent:chief", "active", 0, 0, None),
        ("scan", "chat", 1, "branch", "agent:chief", "active", 1, 0, None),
        ("scout", "plan", 1, "worker", "agent:scout", "active", 1, 1, None),
        ("count", "scan", 2, "worker", "agent:chief", "completed", 0, 0, None),
        ("helper", "scout", 2, None, "agent:scout", "active", 0, 0, None),
    ]),
    ("sub-agents", {"depth": 1, "branch_depth": 0, "children": 0}, "session breaks", [
        ("chat", "children"),
        ("mail", "children"),
        ("plan", "children"),
        ("beds", "depth"),
        ("letters", "depth"),
        ("scan", "depth"),
        ("scout", "children"),
        ("count", "depth"),
        ("helper", "depth"),
    ]),
    ("sub-agents", {"depth": 0, "children": 0}, "session breaks", [
        ("chat", "children"),
        ("mail", "children"),
        ("plan", "children"),
        ("beds", None),  # branches may be three deep
        ("letters", None),
        ("scan", None),
        ("scout", "depth children"),
        ("count", "depth"),
        ("helper", "depth"),
    ]),
    ("result-sources", {"session": "scan"}, "kind source times", [
        ("author", "agent:chief", 1),
        ("prompt", "scan/system/1", 1),
        ("session", "count", 1),
        ("summary", "scan/ledger/3", 1),
        ("task", "scan/ledger/2", 1),
    ]),
    ("result-sources", {"session": "count"}, "kind source times", [
        ("artifact", "file:///old.csv", 1),
        ("artifact", "file:///steps.csv", 1),
        ("task", "count/ledger/2", 1),
    ]),
    ("result-sources", {"session": "tail"}, "kind source times", [
        ("author", "agent:planner", 1),
        ("model", "m-2", 1),
    ]),
    ("result-sources", {"session": "scout"}, "kind", []),
    # nobody was told of either run; what count came to was used
    ("unused-results", {}, "session kind child status time waiting item", [
        (None, "run", None, "error", day(26), False, "agent:ops:subagent:x/run/r2"),
        ("hall", "run", "annex", "ok", day(24) + timedelta(minutes=5), False, "annex/run/r1"),
    ]),
    ("unused-results", {"session": "hall"}, "child", [("annex",)]),
    ("unused-results", {"session": "scan"}, "child", []),
    ("open-tool-calls", {}, "session index name id elsewhere asked call", [
        ("dinner", 4, "taxi", "c3", False, "dinner#4", "dinner#4/call/1"),
        ("solo", 1, "weather", "c1", True, "plan#1", "plan#1/call/0"),
        ("tail", 1, "weather", "c1", True, "plan#1", "plan#1/call/0"),
    ]),
    ("compaction-tokens", {}, "session index before after saved call_before call_after trigger turn", [
        ("solo", 3, 100, 20, 80, None, None, "manual", "solo#3"),
    ]),
]  # fmt: skip

NINE_O_CLOCK = datetime(2026, 3, 1, 9, tzinfo=UTC)


def at(hours: int) -> datetime:
    return NINE_O_CLOCK + timedelta(hours=hours)


SHOP: list[Answer] = [
    # the branch left the lead between c1 and its answer; later, the lead uses the id c1 again
    ("open-tool-calls", {}, "session index name id elsewhere asked", [
        ("branch", 1, "look", "c1", True, "lead#1"),
        ("copy", 1, "look", "c1", False, "copy#1"),
        ("lead", 1, "send", "c2", True, "lead#1"),
        ("lead", 5, "look", "c1", False, "lead#5"),
    ]),
    ("open-tool-calls", {"session": "branch"}, "index id", [(1, "c1")]),
    ("answers-to-no-call", {}, "session index id error quoted turn", [("lead", 3, "c9", True, None, "lead#3")]),
    ("answers-to-no-call", {"session": "branch"}, "turn", []),
    ("compaction-tokens", {}, "session index before after saved call_before call_after trigger", [
        ("lead", 4, 100, 20, 80, 90, 30, "threshold"),
        ("lead", 6, None, None, None, 30, None, None),
    ]),
    ("compaction-tokens", {"session": "branch"}, "turn", []),
    ("model-overrides", {}, "session how asked before by time", [
        (None, "run", "tiny", None, None, at(0)),
        ("desk", "change", "small", None, "principal:dave", at(1)),
        ("desk", "change", None, "small", "principal:erin", at(4)),
        ("till", "entry", "tiny", None, None, None),
        ("till", "change", "tiny", None, "principal:dave", at(1)),
    ]),
    ("model-overrides", {"session": "till"}, "how", [("entry",), ("change",)]),
    ("another-model-answered", {}, "session index asked answered time turn", [
        ("desk", 1, "small", "big", at(2), "desk#1"),
        ("till", 2, "tiny", "big", at(3), "till#2"),
    ]),
    ("another-model-answered", {"session": "lead"}, "turn", []),
]  # fmt: skip


CLOCK: list[Answer] = [
    # over a leap day, over the turn of a century, and three calls that nobody timed; copies and picks are no calls
    ("model-time", {}, "principal provider model calls timed seconds input output cost", [
        ("principal:ann", "", "big", 1, 0, 0, None, None, None),
        ("principal:ann", "acme", "big", 2, 2, Decimal(86_460 + 172_800), 7, 2, Decimal("0.5")),
        ("principal:ben", "", "small", 1, 0, 0, 4, None, None),
    ]),
    ("model-time", {"principal": "ben"}, "model calls", [("small", 1)]),
    ("model-time", {"principal": "cat"}, "model", []),
    ("tool-time", {}, "principal tool answers failed refused timed seconds", [
        ("principal:ann", "", 1, 1, 0, 0, 0),
        ("principal:ann", "ls", 2, 0, 0, 2, Decimal("4.5")),
        ("principal:ann", "rm", 1, 1, 1, 0, 0),
    ]),
    ("tool-time", {"principal": "ben"}, "tool", []),
]  # fmt: skip


def clock(store: Repository) -> None:
    """Fill a store with calls whose times are known, over leap days and new years, and copies of them."""

    def utc(*parts: int) -> datetime:
        return datetime(*parts, tzinfo=UTC)  # type: ignore[misc,arg-type] # year, month, day and so on

    plan = store.create(id="plan", principal="ann", agent="clerk")
    leap = trails.Call(started=utc(2024, 2, 28, 23, 59, 30), ended=utc(2024, 3, 1, 0, 0, 30), provider="acme")
    usage = {"input_tokens": 7, "output_tokens": 2, "cost": 0.5}
    calls = [{"id": f"c{number}", "name": name, "arguments": {}} for number, name in enumerate(("ls", "rm", "ls"))]
    plan.append("assistant", "I look", model="big", call=leap, usage=usage, tool_calls=calls)
    year = (utc(2025, 12, 31, 23, 59, 59), utc(2026, 1, 1, 0, 0, 1, 500_000))
    plan.append("tool", "Two", tool_results=[{"call_id": "c0", "started": year[0], "ended": year[1]}])
    plan.append("tool", "No", tool_results=[{"call_id": "c1", "is_error": True, "refused_by": "agent:guard"}])
    hour = (utc(2026, 2, 28, 23, 59, 59), utc(2026, 3, 1, 0, 0, 1))
    plan.append("tool", "Three", tool_results=[{"call_id": "c2", "started": hour[0], "ended": hour[1]}])
    plan.append("tool", "What?", tool_call_id="c9", is_error=True)
    age = trails.Call(started=utc(1999, 12, 31), ended=utc(2000, 1, 2), provider="acme")
    plan.append("assistant", "Long", model="big", call=age)
    plan.append("assistant", "Untimed", model="big")
    plan.persist()
    plan.flatten(id="copy")
    other = store.create(id="other", principal="ben")
    other.append("assistant", "Mine", model="small", usage={"input_tokens": 4})
    other.cherry_pick("plan", range(4))
    other.persist()
    gone = plan.flatten(id="gone")
    gone.flatten(id="left")
    store.delete("gone")


def shop(store: Repository) -> None:
    """Fill a store with calls that are answered in one branch only, compactions, and models that others stood in for."""
    lead = store.create(id="lead", principal="ann")
    calls = [{"id": "c1", "name": "look", "arguments": {}}, {"id": "c2", "name": "send", "arguments": {}}]
    lead.append("user", "Look, and send it")
    lead.append("assistant", "Both", model="big", usage={"input_tokens": 90}, tool_calls=calls)
    lead.append("tool", "Seen", tool_call_id="c1")
    lead.persist()
    branch = lead.fork(at=2, id="branch")
    branch.append("tool", "Sent", tool_call_id="c2")
    branch.persist()
    lead.append("tool", "What?", tool_call_id="c9", is_error=True)
    made = Compaction(summarised_through=3, tokens_before=100, tokens_after=20, trigger="threshold")
    lead.append("summary", "It was seen", compaction=made)
    lead.append("assistant", "Again", model="big", usage={"input_tokens": 30}, tool_calls=calls[:1])
    lead.append("summary", "And again", compaction=Compaction(summarised_through=5))
    lead.persist()
    branch.flatten(id="copy")
    _desk_and_till(store)


def _desk_and_till(store: Repository) -> None:
    now = [at(0)]
    host = ModelHost(default=ModelRef("maker", "big"), resolve=lambda text: ModelRef("maker", text))
    router = trails.Router(store, clock=lambda: now[0], models=host)
    told = {"desk": [(0, "big"), (2, "big"), (3, "small"), (5, "big")], "till": [(0, "big"), (2, "tiny"), (3, "big")]}
    for name, answers in told.items():
        session = store.create(id=name, key=f"agent:main:{name}", agent="main", created=at(0))
        for hour, model in answers:
            session.append("assistant", "Yes", model=model, time=at(hour))
        session.persist()
        router.session(f"agent:main:{name}")
    now[0] = at(1)
    router.patch("agent:main:desk", {"model": "small"}, by="dave")
    router.patch("agent:main:till", {"model": "tiny"}, by="dave")
    now[0] = at(4)
    router.patch("agent:main:desk", {"model": None}, by="erin")
    run = Run(run_id="r9", agent="x", said=RunContent.of("Look"), model="tiny", created=at(0))
    subagent_runs.register_run(run).commit(store.store)


@pytest.fixture(scope="module")
def stores() -> Iterator[dict[str, Engines]]:
    with trails.open(":memory:") as nine, trails.open(":memory:") as one, trails.open(":memory:") as other:
        fill(nine)
        shop(one)
        clock(other)
        yield {"nine": Engines(nine), "shop": Engines(one), "clock": Engines(other)}


STORES = {"nine": NINE, "shop": SHOP, "clock": CLOCK}
CASES = [(place, answer) for place, answers in STORES.items() for answer in answers]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("place", "answer"), CASES, ids=lambda case: case if isinstance(case, str) else str(case[:2]))
def test_a_query_on_work_answers_what_was_counted_by_hand(
    stores: dict[str, Engines], engine: str, place: str, answer: Answer
) -> None:
    found, expected = answered(stores[place], engine, answer)
    assert found == expected


def test_every_query_on_work_has_a_hand_counted_answer() -> None:
    assert {name for _, (name, _, _, expected) in CASES if expected} == set(query_files.by_theme("work"))


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


def own(record: Any, turns: Sequence[Turn]) -> list[Turn]:
    return [turn for turn in turns if turn.session_id == record.id]


def test_open_tool_calls_are_those_that_reading_a_transcript_from_its_start_leaves_open(
    drawn: list[PlainQuads],
) -> None:
    branched = 0
    for plain in drawn:
        expected = set()
        for record, turns in plain.transcripts():
            latest: dict[str, tuple[str, int]] = {}
            waiting: set[tuple[str, int]] = set()
            for turn in turns:
                for result in turn.tool_results:
                    waiting.discard(latest.get(result.call_id, ("", -1)))
                for call in turn.tool_calls:
                    latest[call.id] = (call.id, turn.index)
                    waiting.add((call.id, turn.index))
            expected |= {(record.iri, *each) for each in waiting}
        rows = plain.asked("open-tool-calls")
        assert {(row["session"], row["id"], row["index"]) for row in rows} == expected
        assert len(rows) == len(expected) > 0
        branched += sum(row["elsewhere"] for row in rows)
    assert branched > 0


def test_answers_to_no_call_are_those_before_which_no_call_has_their_id(drawn: list[PlainQuads]) -> None:
    for plain in drawn:
        expected = set()
        for record, turns in plain.transcripts():
            asked: set[str] = set()
            for turn in turns:
                lost = {(turn.iri, result.call_id) for result in turn.tool_results if result.call_id not in asked}
                expected |= lost if turn.session_id == record.id else set()
                asked |= {call.id for call in turn.tool_calls}
        rows = plain.asked("answers-to-no-call")
        assert {(row["turn"], row["id"]) for row in rows} == expected
        assert expected


def test_sub_agents_stand_as_deep_and_as_wide_as_their_rows_say(drawn: list[PlainQuads]) -> None:
    broken = set()
    for plain in drawn:
        records = {record.id: record for record in plain.sessions()}
        spawners = {record.spawned_by for record in records.values()}
        expected = {}
        for record in records.values():
            children = [other for other in records.values() if other.spawned_by == record.id]
            depth, above = 0, record
            while above.spawned_by is not None:
                depth, above = depth + 1, records[above.spawned_by]
            active = sum(child.state == "active" for child in children)
            breaks = [*(["depth"] if depth > 1 else []), *(["children"] if active > 2 else [])]
            if record.spawned_by is not None or record.id in spawners:
                expected[record.iri] = (depth, len(children), active, " ".join(breaks) or None)
        rows = plain.asked("sub-agents", depth=1, branch_depth=1, children=2)
        assert {r["session"]: (r["depth"], r["children"], r["active"], r["breaks"]) for r in rows} == expected
        assert len(rows) == len(expected)
        broken |= {row["breaks"] for row in rows}
    assert broken >= {None, "depth"}


def test_the_sources_of_a_result_are_what_a_session_holds(drawn: list[PlainQuads]) -> None:
    kinds = set()
    for plain in drawn:
        for record, turns in plain.transcripts():
            expected = Counter([*said(own(record, turns)), *kept(plain, record.iri)])
            rows = plain.asked("result-sources", session=record.id)
            assert {(row["kind"], row["source"]): row["times"] for row in rows} == expected
            kinds |= {row["kind"] for row in rows}
    assert kinds == {"task", "summary", "prompt", "author", "model", "tool", "session", "artifact"}


def said(turns: list[Turn]) -> Iterator[tuple[str, str]]:
    """Yield who and what each of some turns came from."""
    for turn in turns:
        yield "author", turn.author_iri
        if turn.model is not None:
            yield "model", turn.model
        yield from (("tool", call.name) for call in turn.tool_calls)


def kept(plain: PlainQuads, session: str) -> Iterator[tuple[str, str]]:
    """Yield what stands beside a session's turns: tasks, summaries, prompts, artifacts, results of others."""
    for kind, name in (("task", "TaskBrief"), ("summary", "ContextSummary")):
        yield from ((kind, thing) for thing in plain.of_class(name) if session_of(thing) == session)
    for thing in plain.of_class("Artifact"):
        if session_of(thing) == session:
            yield "artifact", plain.value(thing, "trails:uri") or ""
    yield from (("prompt", prompt) for prompt, of in plain.pairs("trails:promptOf") if of == session)
    yield from (("session", sub) for sub, turn in handed_on(plain) if session_of(turn) == session)


def handed_on(plain: PlainQuads) -> list[tuple[str, str]]:
    """Return the IRI of each session whose result some turn tells, with the turn's."""
    results, turns = set(plain.of_class("SessionResult")), set(plain.of_class("Turn"))
    derived = plain.pairs("prov:wasDerivedFrom")
    found = [(session_of(source), turn) for turn, source in derived if source in results and turn in turns]
    for run, event in plain.pairs("trails:announcedAs"):
        for child in plain.values(run, "prov:generated"):
            found += [(child, turn) for turn in plain.values(event, "trails:recordedAs")]
    return found


def test_unused_results_are_those_that_no_turn_tells(drawn: list[PlainQuads]) -> None:
    kinds = set()
    for plain in drawn:
        told = {source for _, source in plain.pairs("prov:wasDerivedFrom")}
        expected: set[tuple[str | None, str]] = set()
        for result in plain.of_class("SessionResult"):
            above = plain.value(session_of(result), "trails:spawnedBy")
            if above is not None and result not in told:
                expected.add((above, result))
        for run in trails.Runs(plain.store).list():
            heard = run.announced_as is not None and plain.value(run.announced_as, "trails:recordedAs") is not None
            if run.ended is not None and not heard:
                expected.add((SESSION + run.requester_session if run.requester_session else None, run.iri))
        rows = plain.asked("unused-results")
        assert {(row["session"], row["item"]) for row in rows} == expected
        assert len(rows) == len(expected)
        kinds |= {row["kind"] for row in rows}
        for row in rows:
            waits = row["kind"] == "result" and any(
                event.waiting and event.event_id == row["child"].removeprefix(SESSION)
                for event in trails.Ledger(plain.store).inbox(row["session"].removeprefix(SESSION))
            )
            assert row["waiting"] == waits or row["kind"] == "run"
    assert kinds == {"result", "run"}


def test_model_overrides_are_what_entries_changes_and_runs_say(drawn: list[PlainQuads]) -> None:
    for plain in drawn:
        router = trails.Router(plain.store)
        expected = []
        for record in plain.sessions():
            asked = router.entry(record.key).get("modelOverride") if record.key else None
            expected += [("entry", record.iri, asked)] if asked else []
        for run in trails.Runs(plain.store).list():
            expected += (
                [("run", SESSION + run.child_session if run.child_session else None, run.model)] if run.model else []
            )
        for act, field in plain.pairs("trails:alteredField"):
            if field == "modelOverride":
                new = plain.value(act, "trails:newValue")
                expected.append(("change", plain.value(act, "trails:doneTo"), new and new.strip('"')))
        rows = plain.asked("model-overrides")
        found = [(row["how"], row["session"], row["asked"]) for row in rows]
        assert sorted(found, key=repr) == sorted(expected, key=repr)
        assert {row["how"] for row in rows} == {"entry", "change", "run"}


def test_another_model_answered_where_the_one_in_force_did_not(drawn: list[PlainQuads]) -> None:
    total = 0
    for plain in drawn:
        expected = set()
        copies = {value for _, value in plain.pairs("trails:keptWith")}
        for record, turns in plain.transcripts():
            changes = sorted(
                (plain.value(act, "prov:endedAtTime") or "", act)
                for act, field in plain.pairs("trails:alteredField")
                if field == "modelOverride" and plain.value(act, "trails:doneTo") == record.iri
            )
            for turn in own(record, turns):
                if turn.model is None or turn.iri in copies:
                    continue
                asked = in_force(plain, record, turn, [(moment(when), act) for when, act in changes])
                if asked is not None and asked != turn.model:
                    expected.add((turn.iri, asked, turn.model))
        rows = plain.asked("another-model-answered")
        assert {(row["turn"], row["asked"], row["answered"]) for row in rows} == expected
        assert len(rows) == len(expected)
        total += len(rows)
    assert total > 0


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def in_force(plain: PlainQuads, record: Any, turn: Turn, changes: list[tuple[datetime, str]]) -> str | None:
    """Return the model that was asked for when a turn was made."""
    before = [act for when, act in changes if turn.time is not None and when <= turn.time]
    if before:
        found = plain.value(before[-1], "trails:newValue")
    elif changes and turn.time is not None:
        found = plain.value(changes[0][1], "trails:oldValue")
    else:
        entry = trails.Router(plain.store).entry(record.key) if record.key else {}
        runs = [run.model for run in trails.Runs(plain.store).list() if run.child_session == record.id]
        found = entry.get("modelOverride") or next(iter(runs), None)
    return found and found.strip('"')


def test_the_tokens_around_a_compaction_are_those_of_the_calls_next_to_it(drawn: list[PlainQuads]) -> None:
    total = 0
    for plain in drawn:
        stored = set(plain.of_class("SummaryTurn"))
        source = dict(plain.pairs("prov:alternateOf"))
        expected = {}
        for record, turns in plain.transcripts():
            mine = own(record, turns)
            for turn in mine:
                made = turn.facts.compaction
                if made is None or source.get(turn.iri) in stored:
                    continue
                tokens = [(each.index, each.usage.get("input_tokens")) for each in mine]
                before = [count for index, count in tokens if index < turn.index and count is not None]
                after = [count for index, count in tokens if index > turn.index and count is not None]
                told = made.tokens_before, made.tokens_after
                expected[turn.iri] = (*told, next(iter(reversed(before)), None), next(iter(after), None))
        rows = plain.asked("compaction-tokens")
        assert {r["turn"]: (r["before"], r["after"], r["call_before"], r["call_after"]) for r in rows} == expected
        assert len(rows) == len(expected)
        total += len(rows)
    assert total > 0


def test_the_time_of_model_calls_adds_up_for_whom_they_were_made(drawn: list[PlainQuads]) -> None:
    timed = 0
    for plain in drawn:
        first: dict[str, tuple[tuple[str, str, str], Any]] = {}
        for record, turns in plain.transcripts():
            for turn in own(record, turns):
                made = turn.facts.model_call
                if made is None or (made.model is None and not made.usage_json and made.stop_reason is None):
                    continue
                call = f"{turn.iri}/model"
                digest = plain.value(call, "trails:callDigest")
                owner = plain.value(call, "trails:calledFor") or plain.value(record.iri, "prov:wasAttributedTo") or ""
                who = (owner, (made.call and made.call.provider) or "", made.model or "")
                if digest is None or digest not in first:
                    first[digest or turn.digest] = (who, made)
        expected: dict[tuple[str, str, str], list[Any]] = {}
        for who, made in first.values():
            sums = expected.setdefault(who, [0, 0, timedelta(0), None])
            sums[0] += 1
            if made.call is not None and made.call.started is not None and made.call.ended is not None:
                sums[1] += 1
                sums[2] += made.call.ended - made.call.started
            if "input_tokens" in made.usage:
                sums[3] = (sums[3] or 0) + made.usage["input_tokens"]
        rows = plain.asked("model-time")
        found = {
            (r["principal"], r["provider"], r["model"]): [r["calls"], r["timed"], seconds(r["seconds"]), r["input"]]
            for r in rows
        }
        assert found == expected
        timed += sum(row["timed"] for row in rows)
    assert timed > 10


def seconds(number: Any) -> timedelta:
    return timedelta(microseconds=int(Decimal(number) * 1_000_000))


def test_the_time_of_tools_adds_up_for_whom_they_ran(drawn: list[PlainQuads]) -> None:
    timed = 0
    for plain in drawn:
        seen: dict[tuple[str, str], tuple[bool, tuple[str, str], Any]] = {}
        source = dict([*plain.pairs("prov:alternateOf"), *plain.pairs("prov:wasQuotedFrom")])
        for record, turns in plain.transcripts():
            names: dict[str, str] = {}
            for turn in turns:
                for result in turn.tool_results if turn.session_id == record.id else ():
                    digest = plain.value(turn.iri, "trails:quotedDigest") or turn.digest
                    who = (plain.value(record.iri, "prov:wasAttributedTo") or "", names.get(result.call_id, ""))
                    told = (turn.iri in source, who, result)
                    seen[digest, result.call_id] = min(
                        seen.get((digest, result.call_id), told), told, key=lambda t: t[:2]
                    )
                names |= {call.id: call.name for call in turn.tool_calls}
        expected: dict[tuple[str, str], list[Any]] = {}
        for _, who, result in seen.values():
            sums = expected.setdefault(who, [0, 0, 0, 0, timedelta(0)])
            sums[0] += 1
            sums[1] += result.is_error
            sums[2] += result.refused_by is not None
            if result.started is not None and result.ended is not None:
                sums[3] += 1
                sums[4] += result.ended - result.started
        rows = plain.asked("tool-time")
        found = {
            (r["principal"], r["tool"]): [r["answers"], r["failed"], r["refused"], r["timed"], seconds(r["seconds"])]
            for r in rows
        }
        assert found == expected
        timed += sum(row["timed"] for row in rows)
    assert timed > 5
