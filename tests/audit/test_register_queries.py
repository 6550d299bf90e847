"""The queries for auditors on registers: answers counted by hand."""

from __future__ import annotations

from datetime import UTC, datetime

import trails
from tests.support.engines import Answer
from trails import Repository

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
]  # fmt: skip


def kept(store: Repository) -> None:
    """Fill a store with something in every register."""
    plan = store.create(id="plan", principal="ann")
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
    store.delete("gone")


STORES = {kept: KEPT}


def test_without_a_time_an_open_incident_is_looked_at_now() -> None:
    with trails.open(":memory:") as store:
        store.registers.flag_incident("serious")
        store.registers.flag_incident("serious", aware=january(1))
        assert [row["past_due"] for row in store.select("incidents").to_dicts()] == [True, False]
