"""A store whose exports hold everything that a turn can have: forks, copies, quotes, results, summaries, redactions."""

from __future__ import annotations

import io

from tests.support.nine_sessions import fill
from trails import Compaction, Payload, Repository
from trails.exchange.file_import import export_session

SESSIONS = ("tail", "picks", "scan", "pi:01~b", "worn", "alone", "flat", "desk", "carried")
"""The sessions whose exports, with their ancestors, hold all of it."""


def fill_all(store: Repository) -> None:
    """Store the nine sessions and four more: one that was taken from, a fork of it, a detached one and a flat one."""
    fill(store)
    _carry(store)
    worn = store.create(id="worn", principal="mallory", agent="writer", system="Say hush to nobody")
    calls = [{"id": "c1", "name": "ls", "arguments": {"path": "/secret"}}, {"id": "c2", "name": "cat", "arguments": {}}]
    usage = {"input_tokens": 3, "output_tokens": 4, "cost": {"total": 0.25}}
    worn.append("user", "my password", meta={"seen": True}, author="mallory")
    worn.append("assistant", "I look", model="m-hush", usage=usage, stop_reason="stop", tool_calls=calls)
    worn.append("tool", "nothing", tool_call_id="c1", is_error=True)
    worn.append("assistant", [{"type": "text", "text": "Done"}], meta={"rating": 1.5})
    worn.append("own:hush", "Said under another role")
    first = Compaction(summarised_through=1, first_kept=2, request="Sum it up", max_summary_tokens=90, duration_ms=12)
    worn.append("summary", "So far", compaction=first)
    worn.persist()
    again = Compaction(
        summarised_through=4,
        first_kept=5,
        summarised_from=2,
        summarised_turns=3,
        previous_summary=worn.turns[-1].iri,
        request="Sum up the rest",
        max_summary_rule="fixed",
        trigger="manual",
    )
    worn.append("summary", "So far, too", compaction=again)
    worn.persist()
    store.notes.add("worn", 3, "hush, again")
    branch = worn.fork(at=4, id="alone", principal="bob")
    branch.append("user", "Elsewhere")
    branch.append("tool", "late", tool_call_id="c2")
    branch.persist()
    branch.detach()
    store.load("worn").flatten(id="flat")
    store.redact("worn", 0, by="carol", reason="a password")
    store.redact_matching("hush", by="carol", reason="a word")
    store.redact_matching("Sum up the rest", by="carol")
    store.redact_matching("mallory", by="carol")


def exported(store: Repository, session_id: str) -> bytes:
    """Return the N-Quads of a session and its ancestors."""
    out = io.BytesIO()
    export_session(store, session_id, "nquads", out)
    return out.getvalue()


def _carry(store: Repository) -> None:
    """Payloads as they were given, redacted, and with a text taken out of them and of metadata."""
    state = Payload(data=b'{"step": 1}', media_type="application/json", name="state")
    with store.create(id="carried") as carried:
        carried.append("assistant", "Done", payloads=[state, Payload(data=b"")])
        carried.append("assistant", "Done again", payloads=[state])
        carried.append("assistant", "Told", meta={"to": "Ottilie"}, payloads=[Payload(data=b'["Ottilie", 1]')])
    store.redact("carried", 1, by="dave")
    store.redact_matching("Ottilie", by="dave")
