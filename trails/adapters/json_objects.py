"""Refuse values of a framework that JSON would change without a word."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trails.errors import InvalidInput


def check_json(value: object, what: str) -> None:
    """Raise `InvalidInput` for a key that is no text. A tuple counts as a list, and NaN and infinity as numbers.

    >>> check_json({"a": [1, {"b": (None, 2.5)}]}, "an item")
    >>> check_json({"a": {1: 2}}, "an item")
    Traceback (most recent call last):
    trails.errors.InvalidInput: an item holds the key 1, which is no text (trails guide errors/invalid-input)
    """
    waiting: list[Any] = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Mapping):
            for key in each:
                if not isinstance(key, str):
                    raise InvalidInput(f"{what} holds the key {key!r:.80}, which is no text")
            waiting += each.values()
        elif isinstance(each, list | tuple):
            waiting += each
