"""Moments as people write them: a date, a time with its zone, or how long ago."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

_AGO: Final = re.compile(r"([0-9]{1,6})([mhdwy])")
_UNITS: Final = {
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
    "y": timedelta(days=365),
}
FORMS: Final = "write 2026-05-01, 2026-05-01T12:00Z, today, yesterday, or how long ago: 30m, 12h, 7d, 2w"


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
            return now - int(ago[1]) * _UNITS[ago[2]]
        moment = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is no time; {FORMS}") from None
    if moment.tzinfo is None and len(text) > len("2026-05-01"):
        raise ValueError(f"{text!r} has no time zone; write {text}Z for UTC, or an offset as in {text}+02:00")
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def ago(moment: datetime | None, now: datetime) -> str:
    """Return in a few characters how long ago a moment was, or a dash where there is none.

    >>> now = datetime(2026, 5, 8, 12, 30, tzinfo=UTC)
    >>> [ago(now - timedelta(**{unit: 3}), now) for unit in ("seconds", "minutes", "hours", "days", "weeks")]
    ['now', '3m ago', '3h ago', '3d ago', '3w ago']
    """
    if moment is None:
        return "-"
    seconds = (now - moment).total_seconds()
    if seconds < 60:
        return "now" if seconds > -60 else f"{moment.astimezone(UTC):%Y-%m-%d}"
    for most, unit in ((3600, "m"), (86_400, "h"), (14 * 86_400, "d"), (100 * 86_400, "w")):
        if seconds < most:
            return f"{int(seconds / _UNITS[unit].total_seconds())}{unit} ago"
    return f"{moment.astimezone(UTC):%Y-%m-%d}"
