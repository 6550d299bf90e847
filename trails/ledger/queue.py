"""Which messages come next: pure rules over the events that wait."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from trails.policy.times import time_after
from trails.records.entries import Event


class Next(NamedTuple):
    """The messages that the next exchange takes up; without any, when there will be some (None: nothing waits)."""

    events: tuple[Event, ...]
    due: datetime | None


def following(waiting: Sequence[Event], now: datetime, debounce: timedelta) -> Next:
    """Return what the next exchange takes up of the events that wait, given in order.

    What is held is left where it is. Of the others the first one alone, unless it is to be collected: then also those
    right after it that came from the same address within `debounce` of one another, once nothing more came for that
    long, or something else did.
    """
    waiting = [event for event in waiting if event.mode != "hold"]
    if not waiting:
        return Next((), None)
    first = waiting[0]
    if first.mode != "collect":
        return Next((first,), None)
    group = [first]
    for event in waiting[1:]:
        if event.mode != "collect" or event.address != first.address:
            return Next(tuple(group), None)
        if _received(event) - _received(group[-1]) > debounce:
            return Next(tuple(group), None)
        group.append(event)
    due = time_after(_received(group[-1]), debounce)
    return Next(tuple(group), None) if now >= due else Next((), due)


def _received(event: Event) -> datetime:
    return event.received or event.time
