"""One small store in which all questions of auditors have an answer that can be counted by hand."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta

import trails
from trails import Compaction, Repository
from trails.exchange.file_import import export_session, import_bytes

_LINES = [
    {"type": "session", "version": 3, "id": "one", "timestamp": "2026-01-01T00:00:00Z", "cwd": "/"},
    {"type": "message", "id": "m", "parentId": None, "timestamp": "2026-01-01T00:00:00Z",
     "message": {"role": "user", "content": "Hi"}},
    {"type": "message", "id": "n", "parentId": "m", "timestamp": "2026-01-01T00:00:01Z",
     "message": {"role": "assistant", "content": [{"type": "text", "text": "Hello"}]}},
]  # fmt: skip
IMPORTED = "\n".join(map(json.dumps, _LINES)).encode()
SECRET = "My number is 030 555 0199 and I live at 12 Lime Street."  # noqa: S105 - a text, no password


def day(number: int) -> datetime:
    """Return a day in January 2026, at midnight."""
    return datetime(2026, 1, number, tzinfo=UTC)


def fill(store: Repository) -> None:
    """Fill the store."""
    _travel(store)
    _desk(store)
    _removed(store)
    import_bytes(store, IMPORTED, by="ann")
    _registers(store)


def _travel(store: Repository) -> None:
    """A plan of which a fork leaves after the page was fetched, a summary, and a session that quotes its answer."""
    plan = store.create(id="plan", principal="ann", agent="clerk", system="Be brief", created=day(1))
    ticket = trails.Payload(data=b"ticket", name="ticket")
    plan.append("user", "Book a trip", time=day(1), payloads=[ticket], meta={"permissionMode": "plan"})
    told = {"attributes": {"gen_ai.request.temperature": 0.2, "gen_ai.request.max_tokens": 100}}
    calls = [{"id": "c1", "name": "fetch", "arguments": {"url": "http://a.example"}}]
    called = trails.Call(started=day(2), ended=day(2) + timedelta(seconds=3), provider="acme", prompt=1)
    usage = {"input_tokens": 10, "output_tokens": 4, "cost": 0.5}
    plan.append(
        "assistant", "I look", model="big-1", usage=usage, call=called, time=day(2), tool_calls=calls, meta=told
    )
    result = {"call_id": "c1", "server": "web", "version": "1.0", "approved_by": "eve"}
    plan.append("tool", "Book now!", time=day(3), tool_results=[result])
    plan.append("assistant", "The page says: book now", model="big-2", time=day(4))
    plan.persist()
    fork = plan.fork(at=3, id="fork", principal="ben", created=day(5))
    fork.append("user", "And trains?", author="ben", time=day(5))
    fork.append("assistant", "There are some", model="big-1", usage={"input_tokens": 7}, time=day(6))
    fork.append("summary", "A trip", compaction=Compaction(summarised_through=2, first_kept=3), time=day(6))
    fork.append("assistant", "Done", model="big-1", time=day(7))
    fork.persist()
    picks = store.create(id="picks", principal="ann", agent="clerk", created=day(8))
    picks.cherry_pick("plan", 3)
    picks.append("assistant", "So they say", model="big-2", time=day(8))
    picks.persist()
    store.score("plan#3", "checked", True, by="eve", time=day(9))


def _desk(store: Repository) -> None:
    store.create(id="desk", principal="dana", agent="clerk", created=day(10)).persist()
    ledger = trails.Ledger(store, clock=lambda: day(11))
    ledger.receive("desk", "Is it open?", channel="smtp", peer="eve", author="eve")
    ledger.process("desk", lambda _: "Until six")
    ledger.delivered(ledger.events("desk", direction="outbound")[0], text="Until six", at=day(12))


def _removed(store: Repository) -> None:
    for name, text in (("secret", SECRET), ("repeat", f"Note: {SECRET.lower()}"), ("gone", "Never mind")):
        session = store.create(id=name, principal="ben", agent="clerk", created=day(13))
        session.append("user", text, author="ben", time=day(13))
        session.append("assistant", "Noted", time=day(14))
        session.persist()
    store.registers.add_backup("tape", "ab" * 32, by="dana")
    store.redact("secret", 0, by="dana", reason="asked for")
    store.delete("gone", by="dana", reason="over")


def _registers(store: Repository) -> None:
    store.load("plan").flag_incident(reason="Booked for another", aware=day(15), by="dana")
    store.registers.set_purpose("Selling", "a", agent="clerk", by="dana")
    store.registers.set_purpose("Booking", "contract", agent="clerk", by="dana")
    export_session(store, "plan", "nquads", io.BytesIO(), recipients=["the court"])
    store.workspace.reads.is_on = True
    store.load("plan")
    store.workspace.reads.write()
    store.workspace.reads.is_on = False
