"""Price tables: what a model call would have cost, where its source did not report it. Pure, but for reading a file."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from trails.errors import InvalidInput
from trails.files import as_path, in_words, read_whole
from trails.model import Value

ENVIRONMENT: Final = "TRAILS_PRICES"
"""The variable of the environment that names the file of the price table that is used where none is given."""
_MILLION: Final = 1_000_000
_MOST: Final = 1 << 20
_FIELDS: Final = ("input", "output", "cache_read", "cache_write")


class Price(Value):
    """What a model's tokens cost, each number for a million of them."""

    input: float
    output: float
    cache_read: float | None = None
    """Of tokens read from the provider's cache; None: the price of input."""
    cache_write: float | None = None
    """Of tokens written to the provider's cache; None: the price of input."""
    input_includes_cache: bool = False
    """Whether the input tokens that are reported count those read from the cache, too, as OpenAI reports them."""

    def of(self, input_tokens: int, output_tokens: int, cache_read: int, cache_write: int) -> float:
        """Return what so many tokens cost.

        >>> Price(input=3, output=15).of(1_000_000, 100_000, 0, 0)
        4.5
        """
        plain = max(0, input_tokens - cache_read) if self.input_includes_cache else input_tokens
        read = self.input if self.cache_read is None else self.cache_read
        written = self.input if self.cache_write is None else self.cache_write
        total = plain * self.input + output_tokens * self.output + cache_read * read + cache_write * written
        return total / _MILLION


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
    `cache_write` and `input_includes_cache`. None stands for the file that the environment's TRAILS_PRICES names, or for
    no prices.
    """
    if given is None:
        named = os.environ.get(ENVIRONMENT)
        return _of_file(as_path(named, ENVIRONMENT)) if named else NO_PRICES
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
    unknown = set(given) - {*_FIELDS, "input_includes_cache"}
    if unknown:
        raise InvalidInput(
            f"{where}: the price of {model!r} says {', '.join(sorted(map(str, unknown)))}, which nothing means"
        )
    numbers = {name: given[name] for name in _FIELDS if given.get(name) is not None}
    for name, number in numbers.items():
        if type(number) not in (int, float) or not 0 <= number < float("inf"):
            raise InvalidInput(f"{where}: the price of {model!r} has {number!r} for {name}, which is no amount from 0")
    includes = given.get("input_includes_cache", False)
    if type(includes) is not bool:
        raise InvalidInput(f"{where}: input_includes_cache of {model!r} is true or false, not {includes!r}")
    return Price(**{name: float(number) for name, number in numbers.items()}, input_includes_cache=includes)
