"""The queries for auditors on work: answers counted by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

import trails
from tests.support.engines import ENGINES, Answer, EnginesOf, answered
from tests.support.nine_sessions import day, fill
from trails import Compaction, Repository
from trails.history.records import subagent_runs
from trails.rdf.subagent_records import Run, RunContent
from trails.runtime.policy.session_entry import ModelHost, ModelRef

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

VENDORS: list[Answer] = [
    # of what was deleted only the copy is left, and tells where the call was made; the pick counts for its source
    (
        "model-history",
        {},
        "session provider model answers timed first last",
        [
            ("kept", "acme", "big-1", 1, 1, day(1), day(1)),
            ("kept", "acme", "big-2", 2, 2, day(3), day(4)),
            ("kept", None, None, 1, 1, day(5), day(5)),
            ("lost", "globe", "round-7", 1, 1, day(2), day(2)),
        ],
    ),
    ("model-history", {"session": "kept"}, "model answers", [("big-1", 1), ("big-2", 2), (None, 1)]),
    (
        "tool-versions",
        {},
        "tool server version answers first last",
        [
            ("look", None, None, 1, day(8), day(8)),
            ("look", "files", "1.0", 1, day(6), day(6)),
            ("look", "files", "2.0", 2, day(7), day(9)),
            ("send", "post", None, 1, day(9), day(9)),
        ],
    ),
    ("tool-versions", {"tool": "send"}, "server answers", [("post", 1)]),
]

SETTINGS: list[Answer] = [
    # the first answer tells three parameters, the second an empty one, the third none; the copy counts for its original
    ("call-parameters", {}, "session index model parameter value", [
        ("desk", 1, "big", "gen_ai.request.max_tokens", "100"),
        ("desk", 1, "big", "gen_ai.request.stop_sequences", '["END","} now"]'),
        ("desk", 1, "big", "gen_ai.request.temperature", "0.2"),
        ("desk", 3, None, "gen_ai.request.tool_choice", 'auto, or \\"none\\"'),
        ("fork", 2, "big", "gen_ai.request.temperature", "1"),
    ]),
    ("call-parameters", {"session": "desk", "parameter": "gen_ai.request.temperature"}, "index value prompt", [
        (1, "0.2", "desk/system/1"),
    ]),
    ("call-parameters", {"parameter": "gen_ai.request.seed"}, "index", []),
    ("policies-in-force", {"session": "desk", "at": 1}, "kind policy by index", [
        ("hold", "A suit", "principal:eve", None),
        ("permissionMode", "plan", "principal:ann", 0),
        ("purpose", "Help (contract)", "principal:eve", None),
        ("retention", "kept for 86400 seconds", "principal:eve", None),
        ("system prompt", "Be brief", None, 0),
    ]),
    # by then the hold was lifted, a purpose of the session's own was stated, the mode and the prompt were changed
    ("policies-in-force", {"session": "desk", "at": 3}, "kind policy by index", [
        ("permissionMode", "acceptEdits", "principal:ann", 2),
        ("purpose", "Complaint", "principal:eve", None),
        ("retention", "kept for 86400 seconds", "principal:eve", None),
        ("retention", "not kept, by the query SELECT ?session { ?session <urn:trails:meta:room> 1 }", "principal:eve", None),
        ("system prompt", "Be exact", None, 2),
    ]),
    # the fork left before the second mode and prompt, and has a policy of its own
    ("policies-in-force", {"session": "fork", "at": 2}, "kind policy index", [
        ("approval_policy", "on-request", 2),
        ("permissionMode", "plan", 0),
        ("purpose", "Help (contract)", None),
        ("retention", "kept for 86400 seconds", None),
        ("retention", "not kept, by the query SELECT ?session { ?session <urn:trails:meta:room> 1 }", None),
        ("sandbox_policy", '{"mode":"workspace-write","network":false}', 2),
        ("system prompt", "Be brief", 0),
    ]),
    # a copy keeps its time; the hold is on the original
    ("policies-in-force", {"session": "copy", "at": 1}, "kind policy", [
        ("permissionMode", "plan"),
        ("purpose", "Help (contract)"),
        ("retention", "kept for 86400 seconds"),
        ("system prompt", "Be brief"),
    ]),
]  # fmt: skip


def vendors(store: Repository) -> None:
    """Fill a store with models and tools in several versions, a copy whose original is deleted, and a fork and a pick."""
    kept = store.create(id="kept", principal="ann")
    for number, model in ((1, "big-1"), (3, "big-2"), (4, "big-2"), (5, None)):
        call = trails.Call(ended=day(number), provider="acme") if model else None
        kept.append("assistant", "Yes", model=model, call=call, stop_reason="end", time=day(number))
    kept.append("user", "Look three times, and once more", time=day(6))
    kept.persist()
    lost = store.create(id="lost", principal="ann")
    lost.append("assistant", "Round", model="round-7", call=trails.Call(provider="globe"), time=day(2))
    lost.persist()
    lost.flatten(id="rest")
    store.delete("lost")
    tools = store.create(id="tools", principal="ann")
    names = ["look", "look", "look", "look", "send"]
    calls = [{"id": f"c{number}", "name": name, "arguments": {}} for number, name in enumerate(names)]
    tools.append("user", "Look and send", tool_calls=calls, time=day(6))
    versions = [("files", "1.0", 6), ("files", "2.0", 7), (None, None, 8), ("files", "2.0", 9), ("post", None, 9)]
    for number, (server, version, when) in enumerate(versions):
        told = {name: each for name, each in (("server", server), ("version", version)) if each}
        tools.append("tool", "Done", tool_results=[{"call_id": f"c{number}", **told}], time=day(when))
    tools.persist()
    kept.fork(at=2, id="fork").persist()
    tools.cherry_pick("kept", 0)
    tools.persist()
    tools.flatten(id="again")


def settings(store: Repository) -> None:
    """Fill a store with parameters of calls, and with policies that change between two answers."""
    desk = store.create(id="desk", principal="ann", agent="clerk", system="Be brief", meta={"room": 1})
    desk.persist()
    store.registers.set_purpose("Help", "contract", agent="clerk", by="eve")
    store.retention.add(keep_for=timedelta(days=1), by="eve")
    other = store.retention.add(principal="ben", keep_for=timedelta(days=1), by="eve")
    hold = store.holds.place("desk", reason="A suit", by="eve")
    store.holds.place(principal="ben", reason="Another suit", by="eve")
    desk.append("user", "Help", meta={"permissionMode": "plan"})
    sent = {"gen_ai.request.temperature": 0.2, "gen_ai.request.max_tokens": 100}
    told = {"attributes": sent | {"gen_ai.request.stop_sequences": ["END", "} now"]}}
    desk.append("assistant", "How?", model="big", call=trails.Call(prompt=1), meta=told)
    desk.persist()
    desk.fork(at=2, id="fork").persist()
    store.holds.lift(hold, by="eve")
    store.retention.add(query="SELECT ?session { ?session <urn:trails:meta:room> 1 }", by="eve")
    store.retention.end(other, by="eve")
    desk.set_system("Be exact")
    desk.append("user", "Complain", meta={"permissionMode": "acceptEdits"})
    desk.persist()
    desk.set_purpose("Complaint", by="eve")
    desk.append("assistant", "Where?", meta={"attributes": {"gen_ai.request.tool_choice": 'auto, or "none"'}})
    desk.append("assistant", "Here", model="big", meta={"note": "gen_ai.request.seed"})
    desk.persist()
    fork = store.load("fork")
    context = {"approval_policy": "on-request", "sandbox_policy": {"mode": "workspace-write", "network": False}}
    hot = {"turnContext": context, "attributes": {"gen_ai.request.temperature": 1}}
    fork.append("assistant", "Otherwise", model="big", meta=hot)
    fork.persist()
    fork.flatten(id="copy")


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
    ("model-time", {}, "principal provider model calls calls_without_usage unpriced timed seconds input output cost", [
        ("principal:ann", "", "big", 1, 1, 1, 0, None, None, None, None),
        ("principal:ann", "acme", "big", 2, 1, 1, 2, Decimal(86_460 + 172_800), 7, 2, Decimal("0.5")),
        ("principal:ben", "", "small", 1, 0, 1, 0, None, 4, None, None),
    ]),
    ("model-time", {"principal": "ben"}, "model calls", [("small", 1)]),
    ("model-time", {"principal": "cat"}, "model", []),
    ("tool-time", {}, "principal tool answers failed refused timed seconds", [
        ("principal:ann", "", 1, 1, 0, 0, None),
        ("principal:ann", "ls", 2, 0, 0, 2, Decimal("4.5")),
        ("principal:ann", "rm", 1, 1, 1, 0, None),
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


USAGE: list[Answer] = [
    ("token-usage-by-model", {}, "model calls calls_without_usage unpriced input output cost", [
        ("big", 3, 2, 2, 7, 2, Decimal("0.5")),
        ("small", 1, 0, 1, 4, None, None),
    ]),
    ("token-usage-by-session", {"session": "other"}, "calls calls_without_usage unpriced input output", [(1, 0, 1, 4, None)]),
    ("token-usage-by-session", {"session": "plan"}, "calls calls_without_usage unpriced input output", [(3, 2, 2, 7, 2)]),
]  # fmt: skip


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("answer", USAGE, ids=str)
def test_a_sum_of_tokens_says_how_many_calls_it_leaves_out(engines_of: EnginesOf, engine: str, answer: Answer) -> None:
    found, expected = answered(engines_of(clock), engine, answer)
    assert found == expected


STORES = {fill: NINE, shop: SHOP, clock: CLOCK, vendors: VENDORS, settings: SETTINGS}
