"""Read moments as people write them: ISO 8601, a date, today, yesterday, or how long ago."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from trails.errors import InvalidInput
from trails.model import validation

UNITS: Final = {"m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400, "y": 365 * 86_400}
"""Seconds of a minute, an hour, a day, a week and a year."""
_AGO: Final = re.compile(r"([0-9]{1,6})([mhdwy])")
_FORMS: Final = "write 2026-05-01, 2026-05-01T12:00Z, today, yesterday, or how long ago: 30m, 12h, 7d, 2w"


def moment_of(text: str, now: datetime) -> datetime:
    """Return the moment that a text stands for; days are days in UTC. Raises `ValueError` saying what is wrong.

    >>> now = datetime(2026, 5, 8, 12, 30, tzinfo=UTC)
    >>> for text in ("2026-05-01", "2026-05-01T12:00+02:00", "today", "7d", "12h"):
    ...     print(moment_of(text, now).isoformat())
    2026-05-01T00:00:00+00:00
    2026-05-01T12:00:00+02:00
    2026-05-08T00:00:00+00:00
    2026-05-01T12:30:00+00:00
    2026-05-08T00:30:00+00:00
    """
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if text in ("today", "yesterday"):
        return today if text == "today" else today - timedelta(days=1)
    try:
        if ago := _AGO.fullmatch(text):
            return now - timedelta(seconds=int(ago[1]) * UNITS[ago[2]])
        moment = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is no time; {_FORMS}") from None
    if moment.tzinfo is None and len(text) > len("2026-05-01"):
        raise ValueError(f"{text!r} has no time zone; write {text}Z for UTC, or an offset as in {text}+02:00")
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def moment(value: object, what: str) -> datetime:
    """Return the time in UTC that an aware `datetime` is, or that a text stands for; raise `InvalidInput` for neither.

    >>> moment("2026-05-01", "since").isoformat()
    '2026-05-01T00:00:00+00:00'
    """
    if not isinstance(value, str | datetime):
        raise InvalidInput(f"{what} must be a datetime with a time zone, or a text, not {value!r:.60}: {_FORMS}")
    if isinstance(value, datetime):
        return validation.time(value, what)
    try:
        return validation.time(moment_of(value, datetime.now(UTC)), what)
    except ValueError as error:
        raise InvalidInput(f"{what}: {error}") from None
