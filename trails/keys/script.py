"""Text as the systems of session keys read it: they are JavaScript, whose trimming and counting differ from Python's."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Final

_SPACE: Final = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006"
    "\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
)
"""White space and line ends of ECMA-262; Python also strips U+001C to U+001F and U+0085, and not U+FEFF."""


def trim(text: str | None) -> str:
    """Return a text without white space at its ends; nothing is an empty text.

    >>> trim("\\ufeff a b\\n"), trim(None)
    ('a b', '')
    """
    return "" if text is None else text.strip(_SPACE)


def trim_start(text: str) -> str:
    """Return a text without white space at its start."""
    return text.lstrip(_SPACE)


def lower(text: str | None) -> str:
    """Return a text trimmed and in lower case; nothing is an empty text.

    >>> lower(" Discord ")
    'discord'
    """
    return trim(text).lower()


def single_spaced(text: str) -> str:
    """Return a text with every run of white space as one space, and none at its ends.

    >>> single_spaced(" Hello,\\n\\nworld ")
    'Hello, world'
    """
    words: list[str] = []
    word: list[str] = []
    for character in text:
        if character not in _SPACE:
            word.append(character)
        elif word:
            words.append("".join(word))
            word.clear()
    return " ".join([*words, "".join(word)] if word else words)


def units(text: str) -> int:
    """Return the length of a text in UTF-16 code units: what these systems mean by a length.

    >>> units("emoji"), units("\\N{GRINNING FACE}")
    (5, 2)
    """
    return len(text) if text.isascii() else len(text) + sum(character > "\uffff" for character in text)


def first_units(text: str, count: int) -> str:
    """Return the first `count` UTF-16 code units of a text, one less where the cut would split a character.

    >>> first_units("abc", 2), first_units("a\\N{GRINNING FACE}", 2)
    ('ab', 'a')
    """
    if text.isascii():
        return text[:count]
    taken = 0
    for place, character in enumerate(text):
        taken += 2 if character > "\uffff" else 1
        if taken > count:
            return text[:place]
    return text


def written(value: object) -> str | None:
    """Return how a text, number or truth value is written as text; None for anything else.

    >>> written("a"), written(True), written(2.0), written(0.5), written([1])
    ('a', 'true', '2', '0.5', None)
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e21 else repr(value)
    return None


def is_number(value: object) -> bool:
    """Tell whether a value is a finite number (truth values are none); one beyond 1.8e308 is infinite there."""
    try:
        return not isinstance(value, bool) and isinstance(value, (int, float, Decimal)) and math.isfinite(value)
    except OverflowError:
        return False
