"""Summarise the older turns of a long session, and go on.

Prints:
summary at 4, stands for turns up to 1
Two turns about a trip.
5 turns stored, 3 shown
"""

import trails
from trails.context import SummaryRequest


def summarise(asked: SummaryRequest) -> str:
    return f"Two turns about a trip.{'' if len(asked.turns) == 2 else '?'}"


with trails.open(":memory:") as store:
    trip = store.create(id="trip")
    for role, text in (
        ("user", "Plan a trip"),
        ("assistant", "Where to?"),
        ("user", "The Alps"),
        ("assistant", "When?"),
    ):
        trip.append(role, text)
    summary = trip.compact(summarise, keep_turns=2)
    if summary.compaction is not None:
        print(f"summary at {summary.index}, stands for turns up to {summary.compaction.summarised_through}")
    print(summary.text)
    shown = trip.context()
    print(f"{len(trip)} turns stored, {len(shown.parts)} shown")
