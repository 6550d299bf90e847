"""Read names, times and parts from fields of source records, which may hold anything."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from trails.errors import InvalidInput
from trails.model import validation


def valid_name(value: object) -> str | None:
    """Return a value if it is a valid name, else None."""
    if not isinstance(value, str):
        return None
    try:
        return validation.name(value, "name")
    except InvalidInput:
        return None


def parse_time(value: object) -> datetime | None:
    """Parse an ISO 8601 time; None if it is invalid or has no zone."""
    if not isinstance(value, str):
        return None
    try:
        return validation.time(datetime.fromisoformat(value))
    except ValueError:  # InvalidInput is one
        return None


def epoch_time(number: object, unit: int = 1) -> datetime | None:
    """Convert seconds since 1970, or fractions of a second, to a time; None if it is invalid.

    >>> epoch_time(1_500_000_000_500, 1000)
    datetime.datetime(2017, 7, 14, 2, 40, 0, 500000, tzinfo=datetime.timezone.utc)
    """
    if isinstance(number, bool) or not isinstance(number, int | float):
        return None
    try:
        return datetime.fromtimestamp(number / unit if unit > 1 else number, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def run_times(started: datetime | None, ended: datetime | None) -> dict[str, Any]:
    """Return when something ran, as far as it is known; nothing for what ends before it begins."""
    if started and ended and started > ended:
        return {}
    return without_empty({"started": started, "ended": ended})


def common_length(one: Sequence[object], other: Sequence[object]) -> int:
    """Return how many equal values two sequences begin with.

    >>> common_length("abc", "abd")
    2
    """
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def named_calls(
    calls: object, names: Mapping[str, str], implied: Mapping[str, Any] = MappingProxyType({})
) -> tuple[tuple[dict[str, Any], ...], dict[str, Any]]:
    """Return calls under the names that a turn has for their fields, and by id what else they say that is not implied."""
    held = [call if isinstance(call, dict) else {} for call in (calls if isinstance(calls, list) else ())]
    made = tuple({ours: call.get(name) for ours, name in names.items()} for call in held)
    beside: dict[str, Any] = {}
    for call in held:
        more = leftover(call, names.values())
        if more := {name: value for name, value in more.items() if implied.get(name, more) != value}:
            beside[str(call.get(names["id"]))] = more
    return made, beside


def call_part(call_id: str, name: str, arguments: object) -> dict[str, Any]:
    """Return the part of a turn that calls a tool."""
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def result_part(call_id: str, content: object, *, failed: bool = False) -> dict[str, Any]:
    """Return the part of a turn that answers a call."""
    part = {"type": "tool_result", "tool_use_id": call_id, "content": content}
    return part | ({"is_error": True} if failed else {})


def image_part(media_type: object, data: str) -> dict[str, Any]:
    """Return the part of a turn that is an image, its bytes in base64."""
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}


def without_empty(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that are not null or empty."""
    return {key: value for key, value in values.items() if value is not None and value not in ("", [], {})}


def leftover(record: Mapping[str, Any], own: Collection[str]) -> dict[str, Any]:
    """Return a record's fields that are not empty and not its `own`."""
    return without_empty({key[:100]: value for key, value in record.items() if key not in own})


def as_content(value: object) -> str | tuple[Any, ...]:
    """Return a message's content as a piece holds it: a text, or parts."""
    if value is None:
        return ""
    return value if isinstance(value, str) else tuple(value) if isinstance(value, list) else (value,)


def first_name(*values: object) -> str | None:
    """Return the first value that can be a name; None if none can."""
    return next((found for each in values if (found := valid_name(each)) is not None), None)


def base_name(path: str) -> str:
    """Return the last part of a path of any system."""
    return re.split(r"[/\\]", path)[-1]


def short_hash(value: object, length: int = 16) -> str:
    """Return the first hex digits of a JSON value's hash."""
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:length]


def score_id(source: str, *parts: object) -> str:
    """Return a score's id, derived from values of its source.

    >>> score_id("inspect", "s", 1) == score_id("inspect", "s", 1) != score_id("inspect", "s", 2)
    True
    """
    return f"{source}-{hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]}"


def utc_time(value: object) -> datetime | None:
    """Parse an ISO 8601 time; without a zone it is UTC."""
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return None if found is None else parse_time((found if found.tzinfo else found.replace(tzinfo=UTC)).isoformat())
