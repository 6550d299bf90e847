"""How many tokens a text has, without a tokenizer: an estimate that errs on the long side for most text."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Real
from typing import Final

from trails.errors import InvalidInput

Counter = Callable[[str], float]
"""Returns the number of tokens of a text, 0 or more; a fraction (`lambda text: len(text) / 4`) counts as the next whole number.
Give your model's own (`lambda text: len(encoding.encode(text))`) for exact figures."""

MESSAGE_TOKENS: Final = 4
"""What every message costs beside its text: its role, and what separates it from the next one."""
IMAGE_TOKENS: Final = 1200
"""What an image counts as, whatever its size."""


def estimate(text: str) -> int:
    """Return how many tokens a text has, roughly: a token for 4 bytes of ASCII, and for 3 bytes of UTF-8 of all else.

    So English and code count a token for four characters, Chinese, Japanese and Korean one for each, Cyrillic and Greek
    two for three. The common tokenizers give fewer for most text; dense code, digits and rare scripts may take up to
    half as many again, so leave a reserve.

    >>> from trails.context import estimate
    >>> estimate("Plan a trip to the Alps"), estimate("計画"), estimate("")
    (6, 2, 0)
    """
    if text.isascii():
        return -(-len(text) // 4)
    plain = len(text.encode("ascii", "ignore"))
    other = len(text.encode("utf-8", "surrogatepass")) - plain
    return -(-(3 * plain + 4 * other) // 12)


def counted(counter: Counter, text: str) -> int:
    """Return how many tokens a text has by a counter, as a whole number; raise `InvalidInput` for what is no count.

    >>> counted(lambda text: len(text) / 4, "Plan a trip"), counted(estimate, "Plan a trip")
    (3, 3)
    """
    found = counter(text)
    if type(found) is int and found >= 0:  # nearly always
        return found
    if isinstance(found, Real) and not isinstance(found, bool) and math.isfinite(found) and found >= 0:
        return math.ceil(found)
    raise InvalidInput(f"a counter returns how many tokens a text has, a number from 0 on, not {found!r}")
