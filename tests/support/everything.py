"""A store with something of every kind that is stored, also what is left of things that were taken away."""

from __future__ import annotations

import io
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import trails
from tests.support.nine_sessions import fill
from trails import Compaction, Repository
from trails.exchange.file_import import export_session, import_path
from trails.history.records import subagent_runs
from trails.integrity.signed_notes import new_principal_key
from trails.provenance import delete_document, import_document
from trails.rdf.subagent_records import Run, RunContent, RunOrigin


def everything(store: Repository) -> None:
    """Fill a store with something of every kind that is stored, also what is left of things that were taken away."""
    fill(store)
    store.redact("recipes", 0, by="dave", reason="too salty")
    store.load("tail").flatten(id="copy", label="a copy")
    store.load("pi:01~b").detach()
    router = trails.Router(store, config={"session": {"dmScope": "per-peer"}})
    kim, lou = (router.route(trails.Inbound(channel="chat", peer=peer, content="Hello")) for peer in ("kim", "lou"))
    router.alias("boss", kim.key, by="dave")
    router.alias("chief", kim.key)
    router.unalias("chief", by="dave")
    router.promote(lou.key, "agent:main:lou", by="dave")
    named = router.route(trails.Inbound(channel="chat", peer="max", content="Hello"))
    store.set_label(named.session_id or "", "front")
    undone = router.promote(named.key, "agent:main:max", by="dave")
    router.undo(undone.operation or "", by="dave")
    told = store.create(id="told", label="for Zenobia")
    told.worktree.change_record(request_key="k" * 32, request_digest="d" * 64)  # as `trails serve` does
    told.append("user", "I am here", author="Zenobia")
    told.append("assistant", "Hello", model="Zenobia-1")
    told.persist()
    store.redact_matching("Zenobia", by="dave")
    lost = store.create(id="lost")
    lost.append("user", "Never mind")
    lost.persist()
    store.delete("lost", by="dave")
    _imported(store)
    store.workspace.record_reads = True
    export_session(store, "recipes", "nquads", io.BytesIO())
    store.workspace.record_reads = False
    store.workspace.reads.is_on = True
    store.load("recipes")
    store.select("deletions")
    store.ask("ASK { ?s a trails:Session }")
    store.workspace.reads.write()
    store.workspace.reads.is_on = False
    _registered(store)
    _every_field(store)
    _copied_and_altered(store)
    store.load("asked").sign(new_principal_key("dave")[0])
    _told_of_calls(store)
    subagent_runs.register_run(Run(run_id="r9", agent="clerk", said=RunContent.of("task"))).commit(store.store)
    _scored(store)
    _carried(store)
    _brought_in(store)
    _pulled(store)
    _rerun(store)
    _moved(store)
    stored = subagent_runs.read_run(store.store, "r9")
    assert stored is not None
    subagent_runs.remove_run(stored, store.workspace.deed("dave")).commit(store.store)


def _registered(store: Repository) -> None:
    """Write something into every register."""
    incident = store.registers.flag_incident("serious", "recipes", reason="too much salt", by="dave")
    store.registers.flag_incident("death")
    store.registers.set_purpose("Cooking", "consent", session="recipes", by="dave")
    store.registers.set_purpose("Anything", by="dave")
    tape = store.registers.add_backup("tape 1", "ab" * 32, size=5, by="dave")
    store.registers.add_backup("tape 2", "cd" * 32)
    burnt = store.create(id="burnt")
    burnt.append("user", "Burnt")
    burnt.persist()
    store.registers.add_backup("tape 3", "ef" * 32)
    store.redact("burnt", 0, by="dave")
    store.registers.destroyed_backup(tape, "shredded", by="dave")
    export_session(store, "recipes", "html", io.BytesIO(), recipients=["a friend"])
    store.registers.close_incident(incident, "reported", by="dave")
    hold = store.holds.place("recipes", reason="Case 7", until=datetime.now(UTC) + timedelta(days=1), by="dave")
    store.holds.lift(hold, "settled", by="dave")
    lifted = [
        store.holds.place(principal="nobody else", reason="Case 8"),
        store.holds.place(label="no such label", reason="Case 9"),
        store.holds.place(meta={"case": "10"}, reason="Case 10"),
        store.holds.place(query="SELECT ?session { ?session a trails:Session }", reason="Case 11"),
    ]
    for each in lifted:
        store.holds.lift(each)
    store.retention.add(
        keep_for=timedelta(days=90), principal="nobody else", kind="worker", meta={"case": "10"}, reason="policy"
    )
    store.retention.end(store.retention.add(query="SELECT ?session { ?session a trails:Session }", by="dave"))


def _moved(store: Repository) -> None:
    """Make a ref that was taken back and went on, one that is taken back, and one that was removed."""
    with store.checkout("thread", create=True, principal="dave", system="Be brief.") as thread:
        thread.append("user", "Where is the salt?")
        thread.append("assistant", "In the sea.")
    thread.pop()
    thread.append("assistant", "In the kitchen.")
    thread.persist()
    store.refs.set("draft", "thread@1", by="dave")
    store.refs.set("gone", "thread", by="dave")
    store.refs.remove("gone", by="dave")


def _scored(store: Repository) -> None:
    """Scores of a session, a span and a turn: of each type, one with all that it can have, and one that was removed."""
    store.score("plan", "length", 4, by="agent:counter")
    store.score(("plan", 0, 2), "accuracy", 0.5, by="agent:grader", version="1", reason="half of it")
    store.score("dinner#0", "polite", True, by="bob")
    store.score("dinner#1", "tone", "warm", by="bob")
    store.remove_score(store.score("plan", "length", 5, by="agent:counter").id, by="dave")


def _carried(store: Repository) -> None:
    """Payloads: one that two turns share, and what is left of one that was redacted, and of one that held a text."""
    state = trails.Payload(data=b'{"step": 1}', media_type="application/json", name="state")
    with store.create(id="carried") as carried:
        carried.append("assistant", "Done", payloads=[state])
        carried.append("assistant", "Done again", payloads=[state, trails.Payload(data=b"\x00\x01")])
        carried.append("assistant", "Done", meta={"for": "Ottilie"}, payloads=[trails.Payload(data=b'["Ottilie"]')])
    store.redact("carried", 1, by="dave")
    store.redact_matching("Ottilie", by="dave")


def _brought_in(store: Repository) -> None:
    """A PROV document that breaks a rule and was kept, and what is left of one that was taken out."""
    text = b"document prefix ex <http://example.org/> wasDerivedFrom(ex:chart, ex:table) %s endDocument"
    wrong = text % b"specializationOf(ex:chart, ex:chart) bundle ex:b entity(ex:chart) endBundle"
    import_document(store, wrong, format="provn", name="chart.provn", keep_invalid=True, by="dave")
    gone = import_document(store, text % b"", format="provn", by="dave")
    delete_document(store, gone.iri, by="dave", reason="not ours")


def _copied_and_altered(store: Repository) -> None:
    """A copy of calls, of their answers and of summaries, and a label that was another one."""
    asked = store.create(id="asked", label="first")
    asked.append("assistant", "I look.", tool_calls=[{"id": "c9", "name": "look", "arguments": {}}])
    asked.append("tool", "Nothing", tool_call_id="c9")
    asked.append("user", "Look again")
    asked.persist()
    asked.compact(lambda _: "one", keep_turns=1)
    asked.append("user", "And again")
    asked.persist()
    asked.compact(lambda _: "two", keep_turns=1)
    with asked.fork(id="asked-otherwise") as tried:
        tried.append("assistant", "Look there")
    asked.take(tried, "One may look there.")
    store.flatten("asked", id="asked-again")
    store.set_label("asked", "second")


def _imported(store: Repository) -> None:
    """A session that came from a file."""
    lines = (
        '{"type":"session","version":3,"id":"in","timestamp":"2026-01-28T10:00:00.000Z","cwd":"/"}',
        '{"type":"message","id":"a","parentId":null,"timestamp":"2026-01-28T10:00:01.000Z","message":{"role":"user","content":"Hi"}}',
    )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "in.jsonl")
        file.write_text("\n".join(lines))
        import_path(store, file, by="dave")


def _pulled(store: Repository) -> None:
    """A session that came from another store, and a tail of one."""
    with trails.open(":memory:") as other:
        for name in ("pulled", "asked"):
            made = other.create(id=name)
            made.append("user", "Hello from elsewhere")
            made.persist()
        trails.pull(store, ["pulled", "asked"], other, by="dave")


def _rerun(store: Repository) -> None:
    """A rerun that left the record, and played an input behind that point."""
    asked = store.create(id="rerun-of")
    asked.extend({"role": role, "content": "Go"} for role in ("user", "assistant", "user"))
    trails.rerun(
        asked, lambda run: (run.input(), run.model(), run.input()), model=lambda _: "No", id="rerun", by="dave"
    )


def _told_of_calls(store: Repository) -> None:
    """A model call and tool calls of which everything is told that can be, and copies of them."""
    told = store.create(id="told-of-calls", principal="alice", agent="planner", system="Be brief")
    told.append("user", "What is there?")
    told.append("summary", "Nothing was said", compaction=Compaction(summarised_through=0))
    told.append("user", "Please")
    calls = [{"id": "k1", "name": "ls", "arguments": {}}, {"id": "k2", "name": "rm", "arguments": {}}]
    context = trails.ContextUsed(through=2, summary=1, left_out=(2,))
    soon = datetime.now(UTC)
    shown = trails.Call(started=soon, ended=soon, provider="acme", prompt=1, context=context)
    told.append("assistant", "I look.", model="m", call=shown, tool_calls=calls)
    ran = trails.ToolResult(
        call_id="k1", started=soon, ended=soon, outcome="completed", approved_by="alice", server="files", version="1.2"
    )
    told.append("tool", "plan.md", tool_results=[ran])
    refused = {"call_id": "k2", "is_error": True, "outcome": "refused", "refused_by": "agent:guard"}
    told.append("tool", "No", tool_results=[refused])
    told.persist()
    store.flatten("told-of-calls", id="told-again")


def _every_field(store: Repository) -> None:
    """A turn, a summary, a run, a failed exchange and an ended worker with all that each can have."""
    usage = {
        "input_tokens": 1, "cache_creation_input_tokens": 2, "cache_creation": {"ephemeral_1h_input_tokens": 2},
        "output_tokens_details": {"thinking_tokens": 1}, "total_tokens": 3,
    }  # fmt: skip
    full = store.create(id="full")
    full.append("assistant", "x", model="m", usage=usage, stop_reason="end", meta={"k": 1})
    how = {"summarised_from": 0, "summarised_turns": 1, "request": "Be short", "max_summary_tokens": 9}
    done = Compaction(summarised_through=0, max_summary_rule="fixed", duration_ms=5, **how)  # type: ignore[arg-type] # as named
    full.append("summary", "x was said", compaction=done)
    full.persist()
    origin = RunOrigin(channel="chat", to="kim", account_id="a", thread_id=7)
    run = Run(
        run_id="r3", child_session="full", said=RunContent.of("task", "error", '{"x":1}'), requester_origin=origin
    )
    more = {"requester_display_key": "main", "model": "m", "thinking": "high", "run_timeout_seconds": 5}
    when = datetime(2026, 3, 29, tzinfo=UTC)
    told = {"archive_at": when, "announced_as": "urn:trails:session:desk/ledger/1", "announced_how": "direct"}
    subagent_runs.register_run(run.model_copy(update={**more, **told, "kept_because": "a fork needs it"})).commit(
        store.store
    )
    ledger = trails.Ledger(store)
    ledger.receive("full", "Hello", account="a")
    with pytest.raises(RuntimeError):
        ledger.process("full", _half, keep_partial=True)
    lead = trails.Tree(store).main("chief", "phone", id="phone")
    lead.spawn("branch", "Look it up", id="looker").complete("done", memory_ids=["m1", "m2"])


def _half(running: Any) -> str:
    running.append("assistant", "Half an answer")
    raise RuntimeError("no model")
