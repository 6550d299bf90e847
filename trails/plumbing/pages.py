"""Pages of what a store holds: how long one may be, and the cursor that continues after it."""

from __future__ import annotations

import base64
from datetime import datetime
from typing import Final, NamedTuple, TypeVar

from trails import iris, validate
from trails.errors import InvalidInput

MAX_PAGE: Final = 1000
_PACKED: Final = 14
"""Bytes that a cursor of sessions stands for."""
_Item = TypeVar("_Item")


class Page(list[_Item]):
    """One page of what was asked for, newest first. `cursor` continues after it and is None at the end."""

    def __init__(self, items: list[_Item], cursor: str | None) -> None:
        super().__init__(items)
        self.cursor = cursor


class Position(NamedTuple):
    """Where a page ends: the time and the session IRI of what is last there, and the index of the turn, where that is one."""

    time: datetime
    session_iri: str
    turn: int = 0


def checked_limit(limit: int) -> int:
    """Return how many a page is to hold at most, or raise `InvalidInput` for what is not 1 to `MAX_PAGE`."""
    if not 1 <= validate.index(limit, "limit") <= MAX_PAGE:
        raise InvalidInput(f"limit must be 1 to {MAX_PAGE}, not {limit}")
    return limit


def list_cursor(key: int, tie: int) -> str:
    """Return the cursor of a page of sessions, which ends after what the last is sorted by and what decides between equals.

    >>> place_in_list(list_cursor(12, 7))
    (12, 7)
    """
    packed = key.to_bytes(8, signed=True) + tie.to_bytes(6)
    return base64.urlsafe_b64encode(packed).rstrip(b"=").decode()


def place_in_list(cursor: str) -> tuple[int, int]:
    """Return where the page of sessions ended that gave a cursor; raise `InvalidInput` for a cursor that no page gave."""
    try:
        packed = base64.b64decode(f"{cursor}=", altchars=b"-_", validate=True)
    except ValueError:
        packed = b""
    if len(packed) != _PACKED:
        raise InvalidInput(f"{cursor!r} is no cursor; use the `cursor` of the page before")
    return int.from_bytes(packed[:8], signed=True), int.from_bytes(packed[8:])


def session_cursor(time: datetime, session_iri: str) -> str:
    """Return the cursor of a page that ends with a session."""
    return f"{time.isoformat()} {session_iri}"


def turn_cursor(last: Position) -> str:
    """Return the cursor of a page that ends with a turn."""
    return f"{session_cursor(last.time, last.session_iri)} {last.turn}"


def position(cursor: str, *, of_turn: bool) -> Position:
    """Return where the page ended that gave a cursor; raise `InvalidInput` for a cursor that no page gave."""
    fields = str(cursor).split(" ")
    try:
        time, session_iri, index = fields if of_turn else [*fields, "0"]
        found = Position(validate.time(datetime.fromisoformat(time)), session_iri, int(index))
    except ValueError as error:
        raise InvalidInput(f"{cursor!r} is no cursor; use the `cursor` of the page before") from error
    if not iris.is_session(session_iri) or found.turn < 0:
        raise InvalidInput(f"{cursor!r} is no cursor; use the `cursor` of the page before")
    return found
