"""Which turns a person means: an index, a range with an exclusive end, or several of them."""

from __future__ import annotations

import re
from typing import Final

from trails.errors import InvalidInput

_PART: Final = re.compile(r"([0-9]{1,12})|([0-9]{0,12}):([0-9]{0,12})")


def looks_like_turns(text: str) -> bool:
    """Tell whether a text names turns at all, whatever a transcript has.

    >>> looks_like_turns("1,3:5"), looks_like_turns("plan")
    (True, False)
    """
    return all(_PART.fullmatch(part) for part in text.split(","))


def indexes(text: str, length: int) -> list[int]:
    """Return the indices that a text names of a transcript with `length` turns, in ascending order.

    >>> indexes("1,3:5", 9), indexes("7:", 9), indexes(":2", 9)
    ([1, 3, 4], [7, 8], [0, 1])
    """
    found: list[int] = []
    for part in text.split(","):
        matched = _PART.fullmatch(part)
        if not matched:
            raise InvalidInput(
                f"{text!r} names no turns; write an index (3), a range with its end left out (2:5), or 1,3:5"
            )
        single, first, last = matched.groups()
        start, end = (int(single), int(single) + 1) if single else (int(first or 0), int(last) if last else length)
        if not start < end <= length:
            raise InvalidInput(f"there are no turns {part!r}: the transcript has {length} (0 to {max(0, length - 1)})")
        if found and start <= found[-1]:
            raise InvalidInput(f"{text!r} goes back or names a turn twice; give turns in ascending order")
        found += range(start, end)
    return found
