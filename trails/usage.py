"""What a model call's usage says, whatever its source calls it: tokens that can be added up, and a cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from decimal import Context, Decimal
from typing import Any, Final

INPUT_TOKEN_NAMES: Final = ("input_tokens", "prompt_tokens", "input")
OUTPUT_TOKEN_NAMES: Final = ("output_tokens", "completion_tokens", "output")
"""What sources of usage call the tokens that a model read and wrote."""
CACHE_READ_TOKEN_NAMES: Final = (
    "cache_read_input_tokens",
    "cache_read_tokens",
    "cacheRead",
    "cached",
    "cached_input_tokens",
    "cache_read.input_tokens",
)
CACHE_WRITE_TOKEN_NAMES: Final = (
    "cache_creation_input_tokens",
    "cache_write_tokens",
    "cacheWrite",
    "cache_creation.input_tokens",
)
TOTAL_TOKEN_NAMES: Final = ("total_tokens", "totalTokens", "total")
TOKEN_NAMES: Final = (
    INPUT_TOKEN_NAMES,
    OUTPUT_TOKEN_NAMES,
    CACHE_READ_TOKEN_NAMES,
    CACHE_WRITE_TOKEN_NAMES,
    TOTAL_TOKEN_NAMES,
)
MAX_USAGE: Final = 10**12
"""The most tokens, and the highest cost, that one model call counts with: millions of calls can still be added up."""
_COST_DIGITS: Final = Decimal("1E-18")
EXACT: Final = Context(prec=64)
"""What costs are added up by: more digits than the engine has, whatever a program has set for sums of its own."""
"""The engine adds up decimals of 18 fractional digits, and nothing where one of them has more."""


def token_count(value: object) -> int | None:
    """Return a count of tokens as it is added up: a whole number from 0 to `MAX_USAGE`; None for anything else.

    >>> token_count(12), token_count("12"), token_count(10**30)
    (12, None, None)
    """
    return value if type(value) is int and 0 <= value <= MAX_USAGE else None


def tokens_of(usage: Mapping[str, Any], names: Iterable[str]) -> int | None:
    """Return how many tokens a usage reports under one of some names; None where none of them has a count."""
    return next((found for name in names if (found := token_count(usage.get(name))) is not None), None)


def cost_of(usage: Mapping[str, Any]) -> Decimal | None:
    """Return the cost that a usage reports, a number or the `total` of several, to 18 digits; None where it has none.

    >>> cost_of({"cost": {"input": 0.01, "total": 0.03}}), cost_of({"cost": 1e308})
    (Decimal('0.03'), None)
    """
    cost = usage.get("cost")
    price = cost.get("total") if isinstance(cost, Mapping) else cost
    if type(price) not in (int, float) or not 0 <= price <= MAX_USAGE:  # type: ignore[operator] # a number
        return None
    exact = Decimal(str(price))
    if exact < 1 and exact != (kept := EXACT.quantize(exact, _COST_DIGITS)):
        return kept
    return exact


def beyond(usage: Mapping[str, Any], counted: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a usage with each of its numbers less what is counted of it already: below 0 where that is more.

    >>> beyond({"input": 8, "output": 61, "tier": "x"}, [{"input": 8, "output": 14}])
    {'input': 0, 'output': 47, 'tier': 'x'}
    """
    left = dict(usage)
    for each in counted:
        left = {name: _less(value, each.get(name)) for name, value in left.items()}
    return left


def _less(value: Any, counted: Any) -> Any:
    if isinstance(value, Mapping):
        return beyond(value, [counted] if isinstance(counted, Mapping) else [])
    if not (_counts(value) and _counts(counted)):
        return value
    if isinstance(value, int) and isinstance(counted, int):
        return value - counted
    return float(EXACT.subtract(Decimal(str(value)), Decimal(str(counted))))


def _counts(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= MAX_USAGE


def numbers(usage: Mapping[str, Any]) -> Iterator[float]:
    """Yield all numbers of a usage that count, those within it too."""
    for value in usage.values():
        if isinstance(value, Mapping):
            yield from numbers(value)
        elif _counts(value):
            yield value


def from_none(usage: Mapping[str, Any]) -> dict[str, Any]:
    """Return a usage with 0 for each number below it.

    >>> from_none({"input": -3, "cost": {"total": 0.5}})
    {'input': 0, 'cost': {'total': 0.5}}
    """
    return {
        name: from_none(value) if isinstance(value, Mapping) else max(value, 0) if _counts(value) else value
        for name, value in usage.items()
    }
