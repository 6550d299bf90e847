"""Moments as milliseconds since 1970, and the hours of a place, as these systems count them."""

from __future__ import annotations

import zoneinfo
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from trails.errors import InvalidInput

Moment = int | datetime
"""Milliseconds since 1970-01-01 UTC, or an aware datetime."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
NEVER: Final = datetime.max.replace(tzinfo=UTC)
"""The end of the calendar: when a time is up that is longer than what is left of it."""


def to_ms(moment: Moment) -> int:
    """Return a moment in milliseconds since 1970; a naive datetime raises `InvalidInput`.

    >>> to_ms(datetime(1970, 1, 1, 0, 0, 1, 500000, tzinfo=UTC)), to_ms(5)
    (1500, 5)
    """
    if isinstance(moment, datetime):
        if moment.tzinfo is None or moment.utcoffset() is None:
            raise InvalidInput(f"{moment!r} has no time zone; give an aware datetime, or milliseconds since 1970")
        return (moment - _EPOCH) // _MILLISECOND
    if isinstance(moment, bool) or not isinstance(moment, int):
        raise InvalidInput(f"a moment is an aware datetime or milliseconds since 1970, not {moment!r}")
    return moment


def from_ms(milliseconds: int) -> datetime:
    """Return the moment so many milliseconds after the start of 1970, in UTC.

    >>> from_ms(1500).isoformat()
    '1970-01-01T00:00:01.500000+00:00'
    """
    try:
        return _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        raise InvalidInput(f"{milliseconds} ms since 1970 is no date of the years 1 to 9999") from None


def time_after(moment: datetime, span: timedelta | float) -> datetime:
    """Return the moment a span (or a number of seconds, from 0) after an aware one; `NEVER` where the calendar ends before.

    A span may be longer than any calendar: a model or a configuration chose it, or an older version stored it.

    >>> time_after(datetime(2026, 3, 1, tzinfo=UTC), 90).isoformat()
    '2026-03-01T00:01:30+00:00'
    >>> time_after(datetime(2026, 3, 1, tzinfo=UTC), 10**20) == NEVER
    True
    """
    try:
        return moment + (span if isinstance(span, timedelta) else timedelta(seconds=span))
    except OverflowError:
        return NEVER


def zone_of(zone: str | tzinfo) -> tzinfo:
    """Return a time zone by its name in the tz database; an unknown name raises `InvalidInput`."""
    if isinstance(zone, tzinfo):
        return zone
    if zone == "UTC":
        return UTC
    try:
        return zoneinfo.ZoneInfo(zone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        reason = "no time zone of this computer's tz database (the package tzdata brings one)"
        raise InvalidInput(f"{zone!r} is {reason}; use a name such as Europe/Berlin") from None


def last_local_hour(now: Moment, hour: int, zone: str | tzinfo = "UTC") -> int:
    """Return when the clocks of a place last showed a full hour, at or before `now`, in milliseconds since 1970.

    As JavaScript's local `Date` has it: an hour that is skipped in spring is taken by the clock of before (02:00 is then
    03:00), and one that comes twice in autumn is the first. The day before is found from what the clock then shows, so that
    after a skipped hour it keeps the later hour.

    >>> from_ms(last_local_hour(datetime(2026, 1, 18, 3, tzinfo=UTC), 4)).isoformat()
    '2026-01-17T04:00:00+00:00'
    >>> from_ms(last_local_hour(datetime(2026, 3, 29, 3, tzinfo=UTC), 2, "Europe/Berlin")).isoformat()
    '2026-03-29T01:00:00+00:00'
    """
    place, moment = zone_of(zone), to_ms(now)
    try:
        today = from_ms(moment).astimezone(place).replace(hour=hour, minute=0, second=0, microsecond=0, fold=0)
        reset = today.astimezone(UTC)
        if moment < to_ms(reset):
            shown = reset.astimezone(place)
            reset = (shown - timedelta(days=1)).replace(fold=0).astimezone(UTC)
    except OverflowError:
        raise InvalidInput(f"{moment} ms since 1970 is too close to the ends of the calendar") from None
    return to_ms(reset)
