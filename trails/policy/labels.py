"""What a session's label may be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trails.errors import RequestRefused
from trails.keys.script import trim, units

MAX_LABEL: Final = 64
"""In UTF-16 code units."""


def check_label(value: object) -> str:
    """Return a label trimmed, or raise `RequestRefused`: it is a text of 1 to 64 UTF-16 code units.

    >>> check_label("  Briefing  ")
    'Briefing'
    >>> check_label("")
    Traceback (most recent call last):
    trails.errors.RequestRefused: invalid label: empty
    """
    if not isinstance(value, str):
        raise RequestRefused("invalid label: must be a string")
    label = trim(value)
    if not label:
        raise RequestRefused("invalid label: empty")
    if units(label) > MAX_LABEL:
        raise RequestRefused(f"invalid label: too long (max {MAX_LABEL})")
    return label


def check_free_label(label: str, key: str, entries: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse a label that another session has; case counts, and a session may keep its own.

    >>> check_free_label("Trip", "a", {"a": {"label": "Trip"}, "b": {"label": "trip"}})
    >>> check_free_label("Trip", "a", {"b": {"label": "Trip"}})
    Traceback (most recent call last):
    trails.errors.RequestRefused: label already in use: Trip
    """
    if any(other != key and entry.get("label") == label for other, entry in entries.items()):
        raise RequestRefused(f"label already in use: {label}")
