"""Read configuration, texts and times as OpenClaw does.

OpenClaw is JavaScript: it trims and counts text differently from Python, and counts time in milliseconds.
"""

from __future__ import annotations

import math
import re
import zoneinfo
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import Decimal
from typing import Any, Final, TypeGuard

from trails.errors import InvalidInput

_SPACE: Final = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006"
    "\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
)
"""White space and line ends of ECMA-262; Python also strips U+001C to U+001F and U+0085, and not U+FEFF."""


def trim(text: str | None) -> str:
    """Return a text without white space at its ends.

    None is an empty text.

    >>> trim("\\ufeff a b\\n"), trim(None)
    ('a b', '')
    """
    return "" if text is None else text.strip(_SPACE)


def trim_start(text: str) -> str:
    """Return a text without white space at its start."""
    return text.lstrip(_SPACE)


def lower(text: str | None) -> str:
    """Return a text trimmed and in lower case.

    None is an empty text.

    >>> lower(" Discord ")
    'discord'
    """
    return trim(text).lower()


def single_spaced(text: str) -> str:
    """Return a text with one space between its words.

    >>> single_spaced(" Hello,\\n\\nworld ")
    'Hello, world'
    """
    return " ".join(re.findall(f"[^{_SPACE}]+", text))


def utf16_length(text: str) -> int:
    """Return the length of a text in UTF-16 code units.

    >>> utf16_length("emoji"), utf16_length("\\N{GRINNING FACE}")
    (5, 2)
    """
    return len(text) + sum(character > "\uffff" for character in text)


def first_utf16(text: str, count: int) -> str:
    """Return the first `count` UTF-16 code units, without half a character.

    >>> first_utf16("abc", 2), first_utf16("a\\N{GRINNING FACE}", 2)
    ('ab', 'a')
    """
    length = 0
    for place, character in enumerate(text):
        length += 2 if character > "\uffff" else 1
        if length > count:
            return text[:place]
    return text


def js_text(value: object) -> str | None:
    """Return a text, number or truth value as JavaScript writes it.

    None for anything else.

    >>> js_text("a"), js_text(True), js_text(2.0), js_text(0.5), js_text([1])
    ('a', 'true', '2', '0.5', None)
    """
    match value:
        case bool():
            return "true" if value else "false"
        case str() | int():
            return str(value)
        case float():
            return str(int(value)) if value.is_integer() and abs(value) < 1e21 else repr(value)
    return None


def is_number(value: object) -> TypeGuard[int | float | Decimal]:
    """Return whether a value is a finite number in JavaScript: no truth value, and below 1.8e308."""
    try:
        return not isinstance(value, bool) and isinstance(value, (int, float, Decimal)) and math.isfinite(value)
    except OverflowError:
        return False


Json = Mapping[str, Any]
"""A JSON object."""


class Section:
    """One object of a configuration.

    A bad field raises `InvalidInput` with its path.
    """

    def __init__(
        self, value: Any, path: str = "", known: Collection[str] | None = None, hints: Mapping[str, str] | None = None
    ) -> None:
        """Check that the value is an object (None is an empty one) and, with `known`, that it has no other fields."""
        if value is not None and not isinstance(value, Mapping):
            raise InvalidInput(f"{path or 'configuration'} must be an object, not {type(value).__name__}")
        self.path = path
        self.fields: Mapping[str, Any] = value or {}
        for name in self.fields if known is not None else ():
            if name not in (known or ()):
                hint = (hints or {}).get(name, f"use {', '.join(sorted(known or ()))}")
                raise InvalidInput(f"{self.path_of(name)} is no setting: {hint}")

    def path_of(self, name: str) -> str:
        """Return the path of a field."""
        return f"{self.path}.{name}" if self.path else name

    def _read(self, name: str, kinds: tuple[type, ...], what: str) -> Any:
        value = self.fields.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, kinds)):
            raise InvalidInput(f"{self.path_of(name)} must be {what}, not {type(value).__name__}")
        return value

    def get(self, name: str) -> Any:
        """Return a field as it is, unchecked."""
        return self.fields.get(name)

    def text(self, name: str) -> str | None:
        """Return a text, or None if there is none."""
        value: str | None = self._read(name, (str,), "a text")
        return value

    def number(self, name: str) -> int | float | None:
        """Return a number, or None if there is none."""
        value: int | float | None = self._read(name, (int, float), "a number")
        return value

    def choice(self, name: str, allowed: Collection[str]) -> str | None:
        """Return one of the allowed words.

        None if there is none.
        """
        value = self.fields.get(name)
        if value is not None and value not in allowed:
            raise InvalidInput(f"{self.path_of(name)} is {value!r}; use one of {', '.join(sorted(allowed))}")
        return value

    def items(self, name: str) -> Iterator[tuple[str, Any]]:
        """Return the path and the value of each item of a list."""
        for place, item in enumerate(self._read(name, (list, tuple), "a list") or ()):
            yield f"{self.path_of(name)}[{place}]", item

    def section(self, name: str, known: Collection[str] | None = None) -> Section:
        """Return a field that is an object itself."""
        return Section(self.fields.get(name), self.path_of(name), known)

    def sections(self, name: str) -> Iterator[Section]:
        """Return the items of a list of objects."""
        return (Section(item, path) for path, item in self.items(name))


Moment = int | datetime
"""Milliseconds since 1970-01-01 UTC, or an aware datetime."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
NEVER: Final = datetime.max.replace(tzinfo=UTC)
"""The end of the calendar: when a time is up that is longer than what is left of it."""


def to_ms(moment: Moment) -> int:
    """Return a moment in milliseconds since 1970.

    A naive datetime raises `InvalidInput`.

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


def moment_of(value: object) -> datetime | None:
    """Return the moment that a foreign program tells: a datetime, or milliseconds since 1970; None for anything else.

    >>> moment_of(1500.9) == from_ms(1500), moment_of("1500")
    (True, None)
    """
    if isinstance(value, datetime):
        return from_ms(to_ms(value))
    return from_ms(int(value)) if is_number(value) else None


def time_after(moment: datetime, span: timedelta | float) -> datetime:
    """Return the moment a span (or a number of seconds, from 0) after an aware one; `NEVER` if the calendar ends before.

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
    """Return a time zone by its name in the tz database.

    An unknown name raises `InvalidInput`.
    """
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
