"""What is left of a reported usage where a part of it is counted already. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from trails.usage import EXACT, MAX_USAGE


def usage_beyond(usage: Mapping[str, Any], counted: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a usage with each of its numbers less what is counted of it already: below 0 where that is more.

    >>> beyond({"input": 8, "output": 61, "tier": "x"}, [{"input": 8, "output": 14}])
    {'input': 0, 'output': 47, 'tier': 'x'}
    """
    left = dict(usage)
    for each in counted:
        left = {name: _subtract(value, each.get(name)) for name, value in left.items()}
    return left


def _subtract(value: Any, counted: Any) -> Any:
    if isinstance(value, Mapping):
        return usage_beyond(value, [counted] if isinstance(counted, Mapping) else [])
    if not (_is_count(value) and _is_count(counted)):
        return value
    if isinstance(value, int) and isinstance(counted, int):
        return value - counted
    return float(EXACT.subtract(Decimal(str(value)), Decimal(str(counted))))


def _is_count(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= MAX_USAGE


def usage_numbers(usage: Mapping[str, Any]) -> Iterator[float]:
    """Yield all numbers of a usage that count, those within it too."""
    for value in usage.values():
        if isinstance(value, Mapping):
            yield from usage_numbers(value)
        elif _is_count(value):
            yield value


def clamp_usage(usage: Mapping[str, Any]) -> dict[str, Any]:
    """Return a usage with 0 for each number below it.

    >>> from_none({"input": -3, "cost": {"total": 0.5}})
    {'input': 0, 'cost': {'total': 0.5}}
    """
    return {
        name: clamp_usage(value) if isinstance(value, Mapping) else max(value, 0) if _is_count(value) else value
        for name, value in usage.items()
    }
