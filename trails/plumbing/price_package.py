"""The prices that the package `genai-prices` knows, where it is installed: the extra `prices`.

They are those that came with the package: nothing is fetched.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache, lru_cache
from importlib.util import find_spec
from typing import Any, Final

from trails.plumbing.prices import Price

_PACKAGE: Final = "genai_prices"
_AMAZON: Final = "aws"
_RATES: Final = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cache_read": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
    "cache_write_1h": "cache_write_1h_mtok",
}
"""What `Price` calls a rate, and what the package does."""


@cache
def is_installed() -> bool:
    """Tell whether the package is here."""
    return find_spec(_PACKAGE) is not None


@lru_cache(maxsize=4096)
def price_of(model: str, provider: str, when: datetime | None, prompt: int) -> Price | None:
    """Return what a model's tokens cost for a prompt of so many tokens, cached ones included; None where that is not known.

    `provider` is who served the model, or ""; `when` the time of the call, None for now.
    """
    known = _find(model, provider)
    if known is None:
        return None
    found = known.get_prices(when or datetime.now(UTC))
    rates = {name: _rate(getattr(found, key), prompt) for name, key in _RATES.items()}
    given, made = rates.pop("input"), rates.pop("output")
    return None if given is None else Price(input=given, output=made or 0.0, **rates)


@cache
def steps() -> tuple[int, ...]:
    """Return the lengths of a prompt, in tokens, beyond which some model costs more, in order."""
    return tuple(sorted({tier.start for price in _all_prices() for tier in getattr(price, "tiers", ())}))


def _find(model: str, provider: str) -> Any:
    """Return the package's model: as its provider names it, or anybody; a name may begin with the provider's."""
    if not model:
        return None
    maker, _, name = model.rpartition("/")
    tries = [(model, provider.lower()), (model, None), (name, maker.rpartition("/")[2]), (name, None), (name, _AMAZON)]
    return next((known for each, served in tries if served != "" and (known := _model(each, served))), None)


@cache
def _model(model: str, provider: str | None) -> Any:
    try:
        return _snapshot().find_provider_model(model, None, provider, None)[1]
    except LookupError:
        return None


def _snapshot() -> Any:
    from genai_prices.data_snapshot import get_snapshot  # noqa: PLC0415 - an extra, and a third of a second

    return get_snapshot()


def _rate(price: Any, prompt: int) -> float | None:
    tiers = getattr(price, "tiers", None)
    if tiers is not None:
        price = next((tier.price for tier in reversed(tiers) if prompt > tier.start), price.base)
    return None if price is None else float(price)


def _all_prices() -> Iterator[Any]:
    for provider in _snapshot().providers:
        for model in provider.models:
            sets = [each.prices for each in model.prices] if isinstance(model.prices, list) else [model.prices]
            for each in sets:
                yield from (getattr(each, key) for key in _RATES.values())
