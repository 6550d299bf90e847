"""Times as the index keeps them: microseconds since 1970 in UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
FAR_PAST: Final = -62_135_596_800_000_000
"""What stands for the time of what has none: the year 1."""
_MICROSECOND: Final = 1_000_000


def micros(time: datetime | None) -> int | None:
    """Return a time as microseconds since 1970 in UTC, exactly.

    >>> micros(datetime(1, 1, 1, tzinfo=UTC)) == FAR_PAST, micros(None)
    (True, None)
    """
    if time is None:
        return None
    since = time - EPOCH
    return (since.days * 86400 + since.seconds) * _MICROSECOND + since.microseconds


def moment(micros: int) -> datetime:
    """Return the time that so many microseconds since 1970 are."""
    return EPOCH + timedelta(microseconds=micros)
