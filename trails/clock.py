"""The clock that a host may hand in, for tests and replays."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from trails import validate

Clock = Callable[[], datetime]
"""Gives the time, aware."""


def time_of(clock: Clock | None) -> datetime:
    """Return a clock's time, or the system's where there is none; raise `InvalidInput` for a time without a time zone."""
    return datetime.now(UTC) if clock is None else validate.time(clock(), "the clock's time")
