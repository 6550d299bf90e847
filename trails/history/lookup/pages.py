"""Pages of what a store holds: how long one may be, and the cursor that continues after it."""

from __future__ import annotations

import base64
import hashlib
from typing import Final, TypeVar

from trails.display.tables import PlainTable, Tabular, of_items
from trails.errors import InvalidInput
from trails.model import validation

MAX_PAGE: Final = 1000
_BYTES: Final = 8
_TIE: Final = 5
_Item = TypeVar("_Item")


class Page(list[_Item], Tabular):
    """One page of what was asked for, newest first. `cursor` continues after it and is None at the end."""

    def __init__(self, items: list[_Item], cursor: str | None) -> None:
        super().__init__(items)
        self.cursor = cursor

    def __repr__(self) -> str:
        return f"<Page: {len(self)} items{', and there is more' if self.cursor else ''}>"

    def table(self) -> PlainTable:
        """Return the page as a table: a row for each of what it holds, a column for each of its fields."""
        return of_items(self)


def check_limit(limit: int) -> int:
    """Return how many a page is to hold at most, or raise `InvalidInput` for what is not 1 to `MAX_PAGE`."""
    if not 1 <= validation.index(limit, "limit") <= MAX_PAGE:
        raise InvalidInput(f"limit must be 1 to {MAX_PAGE}, not {limit}")
    return limit


def make_cursor(*numbers: int) -> str:
    """Return the cursor that stands for where a page ended: what the last is sorted by, and what tells it from its equals.

    >>> parse_cursor(make_cursor(-12, 7), 2)
    (-12, 7)
    """
    packed = b"".join(number.to_bytes(_BYTES, signed=True) for number in numbers)
    return base64.urlsafe_b64encode(packed).rstrip(b"=").decode()


def parse_cursor(cursor: str, count: int) -> tuple[int, ...]:
    """Return the numbers, `count` of them, that a cursor stands for; raise `InvalidInput` for one that no page gave."""
    text = str(cursor)
    try:
        packed = base64.b64decode(f"{text}{'=' * (-len(text) % 4)}", altchars=b"-_", validate=True)
    except ValueError:
        packed = b""
    if len(packed) != count * _BYTES:
        raise InvalidInput(f"{cursor!r} is no cursor; use the `cursor` of the page before")
    return tuple(int.from_bytes(packed[at : at + _BYTES], signed=True) for at in range(0, len(packed), _BYTES))


def sort_page(place: tuple[int, int], order: int) -> tuple[int, int]:
    """Return the place where a page ended with the number of what its list is sorted by, 0 to 127."""
    return place[0], place[1] | order << 8 * _TIE


def order_clause(cursor: str, order: int) -> tuple[int, int]:
    """Return the place that `in_order` told the cursor of; raise `InvalidInput` for that of a list in another order."""
    value, told = parse_cursor(cursor, 2)
    if told >> 8 * _TIE != order:
        raise InvalidInput(f"{cursor!r} is the cursor of a list in another order; go on in that one, or begin anew")
    return value, told & (1 << 8 * _TIE) - 1


def tie_break(session_id: str) -> int:
    """Return a short number that stands for a session where a page ends, among those that are sorted by the same."""
    return int.from_bytes(hashlib.sha256(session_id.encode()).digest()[:_TIE])
