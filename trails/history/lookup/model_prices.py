"""Look up what a model call would have cost if its source did not report it.

Prices come from a table, or from the package `genai-prices` if it is installed (the extra `prices`). Its prices are
those that came with the package; nothing is fetched.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from trails.errors import InvalidInput
from trails.files import as_path, in_words, read_whole
from trails.model.values import Value
from trails.usage import EXACT, Counts, total

PRICES_VARIABLE: Final = "TRAILS_PRICES"
"""The variable of the environment that names the file of the price table that is used where none is given."""
_MILLION: Final = 1_000_000
_MOST: Final = 1 << 20
_FIELDS: Final = ("input", "output", "cache_read", "cache_write", "cache_write_1h")
_WRITE_5M: Final = "cache_write_5m"
"""Another name for `cache_write`: what a provider writes to its cache, it keeps for five minutes unless it says otherwise."""


class Price(Value):
    """What a model's tokens cost, each number for a million of them."""

    input: float
    output: float
    cache_read: float | None = None
    """Of tokens read from the provider's cache; None: the price of input."""
    cache_write: float | None = None
    """Of tokens written to the provider's cache; None: the price of input."""
    cache_write_1h: float | None = None
    """Of those that the provider keeps in its cache for an hour; None: the price of the others."""

    def of(self, counts: Counts) -> Decimal:
        """Return what so many tokens cost; a count that is not known adds nothing.

        >>> Price(input=3, output=15, cache_read=0.3).of(Counts(input=1_000_000, cache_read=1_000_000, output=100_000))
        Decimal('4.8')
        """
        read = self.input if self.cache_read is None else self.cache_read
        written = self.input if self.cache_write is None else self.cache_write
        kept = written if self.cache_write_1h is None else self.cache_write_1h
        hour = counts.cache_write_1h or 0
        parts = (
            ((counts.input or 0), self.input),
            ((counts.cache_read or 0), read),
            ((counts.cache_write or 0) - hour, written),
            (hour, kept),
            ((counts.output or 0), self.output),
        )
        amounts = [EXACT.multiply(tokens, Decimal(str(price))) for tokens, price in parts]
        return EXACT.divide(total(amounts) or Decimal(), _MILLION)


class Prices(Value):
    """A price table: by the name of a model, or by the beginning of names where the last character is `*`."""

    models: Mapping[str, Price]

    def find(self, model: str) -> Price | None:
        """Return the price of a model: by its whole name, else by the longest beginning; None where there is none.

        >>> table = prices_of({"m-*": {"input": 1, "output": 2}, "m-2": {"input": 3, "output": 4}})
        >>> table.find("m-2").input, table.find("m-1-mini").input, table.find("other")
        (3.0, 1.0, None)
        """
        if model in self.models:
            return self.models[model]
        fitting = [name for name in self.models if name.endswith("*") and model.startswith(name[:-1])]
        return self.models[max(fitting, key=len)] if fitting else None


NO_PRICES: Final = Prices(models={})


def prices_of(given: object) -> Prices:
    """Return a price table from a mapping of models to prices, or from a file of one; `InvalidInput` for anything else.

    A file is TOML or JSON, with a table a model: `[models."m-1"]` with `input`, `output`, and optionally `cache_read`,
    `cache_write` (or `cache_write_5m`) and `cache_write_1h`. None stands for the file that the environment's TRAILS_PRICES
    names, or for no prices.
    """
    if given is None:
        named = os.environ.get(PRICES_VARIABLE)
        return _of_file(as_path(named, PRICES_VARIABLE)) if named else NO_PRICES
    if isinstance(given, Prices):
        return given
    if isinstance(given, str | os.PathLike):
        return _of_file(as_path(given, "the file of prices"))
    if isinstance(given, Mapping):
        return _table(given, "the price table")
    raise InvalidInput(f"prices are a mapping of models to prices or the file of one, not {type(given).__name__}")


def _of_file(path: Path) -> Prices:
    with in_words(path, "read"):
        data = read_whole(path, _MOST)
    try:
        text = data.decode()
        found = json.loads(text) if text.lstrip()[:1] == "{" else tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{path} is neither TOML nor JSON: {error}") from error
    return _table(found, str(path))


def _table(found: Mapping[str, Any], where: str) -> Prices:
    models = found.get("models", found)
    if not isinstance(models, Mapping):
        raise InvalidInput(f"{where} names no models; write [models.m-1] with input and output, for a million tokens")
    return Prices(models={str(name): _price(str(name), each, where) for name, each in models.items()})


def _price(model: str, given: object, where: str) -> Price:
    if isinstance(given, Price):
        return given
    if not isinstance(given, Mapping) or not {"input", "output"} <= set(given):
        raise InvalidInput(f"{where}: the price of {model!r} has no `input` and `output`, each for a million tokens")
    unknown = set(given) - {*_FIELDS, _WRITE_5M}
    if unknown:
        raise InvalidInput(
            f"{where}: the price of {model!r} says {', '.join(sorted(map(str, unknown)))}, which nothing means"
        )
    numbers = {name: given[name] for name in (*_FIELDS, _WRITE_5M) if given.get(name) is not None}
    for name, number in numbers.items():
        if type(number) not in (int, float) or not 0 <= number < float("inf"):
            raise InvalidInput(f"{where}: the price of {model!r} has {number!r} for {name}, which is no amount from 0")
    if _WRITE_5M in numbers:
        numbers["cache_write"] = numbers.pop(_WRITE_5M)
    return Price(**{name: float(number) for name, number in numbers.items()})


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
def has_price_package() -> bool:
    """Tell whether the package is here."""
    return find_spec(_PACKAGE) is not None


@lru_cache(maxsize=4096)
def package_price(model: str, provider: str, when: datetime | None, prompt: int) -> Price | None:
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
def price_steps() -> tuple[int, ...]:
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
