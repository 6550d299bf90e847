"""The queries for auditors on registers: answers counted by hand."""

from __future__ import annotations

import io
from datetime import UTC, datetime

import trails
from tests.support.engines import Answer
from trails import Repository
from trails.exchange.file_import import export_session
from trails.provenance import export

ANN, EVE, UNKNOWN = "principal:ann", "principal:eve", "agent:unknown"


def january(day: int, hour: int = 0) -> datetime:
    """Return a time in January 2026."""
    return datetime(2026, 1, day, hour, tzinfo=UTC)


KEPT: list[Answer] = [
    ("incidents", {"now": january(12)}, "session kind aware due past_due by reason", [
        (None, "critical-infrastructure", january(2, 9), january(4, 9), True, EVE, "The pumps stood still"),
        ("plan", "widespread", january(3), january(5), True, ANN, None),
        ("gone", "death", january(4), january(14), False, UNKNOWN, None),
        ("plan", "serious", january(1), january(16), True, ANN, "Booked for another"),
    ]),
    # it was closed long after it was due, whenever one looks
    ("incidents", {"now": january(2)}, "kind past_due closed_by outcome", [
        ("critical-infrastructure", False, None, None),
        ("widespread", False, None, None),
        ("death", False, None, None),
        ("serious", True, EVE, "reported"),
    ]),
    ("purposes", {}, "session principal agent purpose basis level by", [
        ("own", "principal:ben", "agent:planner", "Settling a complaint", None, "session", EVE),
        ("plan", ANN, "agent:planner", "Booking trips", "contract", "agent", EVE),
        ("rest", "principal:ben", "agent:clerk", "Answering guests", "legitimate-interests", "store", UNKNOWN),
    ]),
    ("purposes", {"session": "own"}, "session basis", [("own", None)]),
    # the fork has what its own agent has; of the deleted session the history stays
    ("purpose-history", {}, "of purpose basis by", [
        ("agent:planner", "Selling trips", "consent", EVE),
        ("agent:planner", "Booking trips", "contract", EVE),
        ("own", "Anything", "public-task", ANN),
        ("own", "Settling a complaint", None, EVE),
        ("gone", "Nothing", "vital-interests", ANN),
        ("store", "Answering guests", "legitimate-interests", UNKNOWN),
    ]),
    ("purpose-history", {"of": "urn:trails:store"}, "purpose", [("Answering guests",)]),
    # a row for each session and recipient; the export of the whole store names no session, and may hold any
    ("exports", {}, "format session turns whole by recipient", [
        ("nquads", "plan", 1, False, UNKNOWN, "the court"),
        ("prov-json", None, None, True, UNKNOWN, None),
        ("html", "own", 2, False, UNKNOWN, "the court"),
        ("html", "own", 2, False, UNKNOWN, "the press"),
        ("html", "plan", 1, False, UNKNOWN, "the court"),
        ("html", "plan", 1, False, UNKNOWN, "the press"),
    ]),
    ("record-reads", {}, "by through action named query times", [
        (UNKNOWN, "python", "load", "plan", None, 2),
        (UNKNOWN, "python", "query", None, "deletions", 1),
        (UNKNOWN, "python", "query", "plan", "transcript", 1),
        (UNKNOWN, "python", "query", None, None, 1),
    ]),
    ("record-reads", {"session": "plan"}, "action query", [("load", None), ("query", "transcript")]),
    ("backups", {}, "place by size destroyed_by outcome", [
        ("tape 1", ANN, None, EVE, "shredded"),
        ("tape 2", UNKNOWN, 5, None, None),
        ("tape 3", UNKNOWN, None, None, None),
    ]),
    # tape 1 was destroyed, tape 3 was made after all of it; of the rest only the first turn was there before tape 2
    ("backups-holding-erased", {}, "place what session turn erased_by", [
        ("tape 2", "turn", "rest", "rest#0", EVE),
        ("tape 2", "session", "gone", None, UNKNOWN),
    ]),
    ("exports", {"session": "own"}, "format session recipient", [
        ("prov-json", "own", None),
        ("html", "own", "the court"),
        ("html", "own", "the press"),
    ]),
]  # fmt: skip
UNSAID: list[Answer] = [
    ("purposes", {}, "session purpose basis level since by", [("bare", None, None, None, None, None)]),
]  # fmt: skip


def unsaid(store: Repository) -> None:
    """Fill a store with a session of whose purpose nobody said anything; another agent's is nothing to it."""
    store.create(id="bare", agent="clerk").persist()
    store.registers.set_purpose("Booking trips", agent="planner")


def kept(store: Repository) -> None:
    """Fill a store with something in every register."""
    plan = store.create(id="plan", principal="ann", agent="planner")
    plan.append("user", "Plan a trip")
    plan.persist()
    gone = store.create(id="gone", principal="ann")
    gone.append("user", "Never mind")
    gone.persist()
    serious = plan.flag_incident(reason="Booked for another", aware=january(1), by="ann")
    plan.flag_incident("widespread", aware=january(3), by="ann")
    gone.flag_incident("death", aware=january(4))
    store.registers.flag_incident(
        "critical-infrastructure", reason="The pumps stood still", aware=january(2, 9), by="eve"
    )
    store.registers.close_incident(serious, "reported", by="eve")
    own = plan.fork(at=1, id="own", principal="ben")
    own.append("user", "Alone")
    own.persist()
    rest = store.create(id="rest", principal="ben", agent="clerk")
    rest.append("user", "My number is 5")
    rest.persist()
    first = store.registers.add_backup("tape 1", "ab" * 32, by="ann")
    store.registers.add_backup("tape 2", "cd" * 32, size=5)
    rest.append("user", "And 6")
    rest.persist()
    store.redact("rest", 0, by="eve")
    store.redact("rest", 1, by="eve")
    store.registers.destroyed_backup(first, "shredded", by="eve")
    store.registers.set_purpose("Selling trips", "a", agent="planner", by="eve")
    store.registers.set_purpose("Booking trips", "contract", agent="planner", by="eve")
    own.set_purpose("Anything", "e", by="ann")
    own.set_purpose("Settling a complaint", by="eve")
    gone.set_purpose("Nothing", "d", by="ann")
    store.registers.set_purpose("Answering guests", "f")
    export_session(store, "plan", "nquads", io.BytesIO(), recipients=["the court"])
    store.workspace.reads.is_on = True
    store.load("plan")
    store.select("deletions")
    store.select("transcript", session="plan")
    store.load("plan")
    store.ask("ASK { ?s a trails:Session }")
    store.workspace.reads.write()
    store.workspace.reads.is_on = False
    store.workspace.record_reads = True
    export(store, io.BytesIO(), format="json")
    store.workspace.record_reads = False
    export_session(store, "plan", "html", io.BytesIO(), forks=True, recipients=["the press", "the court"])
    store.delete("gone")
    store.registers.add_backup("tape 3", "ef" * 32)


STORES = {kept: KEPT, unsaid: UNSAID}


def test_without_a_time_an_open_incident_is_looked_at_now() -> None:
    with trails.open(":memory:") as store:
        store.registers.flag_incident("serious")
        store.registers.flag_incident("serious", aware=january(1))
        assert [row["past_due"] for row in store.select("incidents").to_dicts()] == [True, False]
