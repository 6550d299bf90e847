"""What a drawn text looks like, and what only looks like one: placeholders, words and names."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import Final

_SPOKEN: Final = (
    r"example|placeholder|redacted|(?<![a-z0-9])(?:your|dummy|sample|fake|test|insert|replace)(?![a-z])|changeme|foobar"
    r"|x{6}|\*{3}|\.{3}|…|0{8}"
)
_SAID_TO_BE_NONE: Final = re.compile(_SPOKEN, re.IGNORECASE)
_PLACEHOLDER: Final = re.compile(rf"{_SPOKEN}|1234567890|abcdefgh", re.IGNORECASE)


def is_random(secret: str, *, bits: float = 3.0) -> bool:
    """Tell whether a text could have been drawn by lot: no placeholder, with digits and letters, few of them repeated."""
    return is_no_placeholder(secret) and has_digits_and_letters(secret) and _entropy(secret) >= bits


def is_drawn(secret: str) -> bool:
    """Tell the same of what stands behind a prefix that names never have: letters will do, where some are capitals."""
    kinds = (str.isdigit, str.isupper, str.islower)
    mixed = sum(any(map(of_kind, secret)) for of_kind in kinds) > 1
    return mixed and is_no_placeholder(secret) and _entropy(secret) >= 3.0


def is_formed(secret: str) -> bool:
    """Tell whether a text whose form says what it is could be one, with digits or letters in a row in it too."""
    return not _SAID_TO_BE_NONE.search(secret) and _entropy(secret) >= 3.0


def is_no_placeholder(secret: str) -> bool:
    """Tell whether nothing in a text says that it stands for another."""
    return not _PLACEHOLDER.search(secret)


def has_digits_and_letters(text: str) -> bool:
    """Tell whether a text has at least one of both."""
    return any(c.isdigit() for c in text) and any(c.isalpha() for c in text)


def _entropy(text: str) -> float:
    """Return the Shannon entropy of a text's characters, in bits a character.

    >>> _entropy("aaaa"), _entropy("abcd")
    (0.0, 2.0)
    """
    counts = Counter(text).values()
    return sum(-n / len(text) * math.log2(n / len(text)) for n in counts) + 0.0
