"""Fit answers to what a model can read: whole items up to a number of characters, and where to go on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from typing_extensions import TypedDict

from trails.history.lookup.summaries import Page as StorePage

MOST_CHARS: Final = 20_000
"""The characters of JSON that the items of one answer have at most; a single longer item is cut inside, and says so."""
SHOWN_CHARS: Final = 4_000
"""The characters that a list shows of one text."""


class Page(TypedDict):
    """One page of an answer."""

    items: list[dict[str, Any]]
    """What was asked for, whole items only."""
    cursor: str | None
    """Given to the same tool with the same arguments, it gives the next page; null at the end."""
    note: str | None
    """What is not in this answer, and how to get it."""


def count_fitting(items: Sequence[dict[str, Any]], most: int = MOST_CHARS) -> int:
    """Return how many of the first items fit: at least one, if there is one."""
    used = 0
    for number, item in enumerate(items):
        used += len(json.dumps(item, ensure_ascii=False)) + 2
        if used > most and number:
            return number
    return len(items)


def page_of(items: Iterable[dict[str, Any]], cursor: str | None, limit: int, total: int | None = None) -> Page:
    """Return a page of items that are counted from 0: the cursor is the number of the next one.

    `items` begin at the cursor already and hold one more than `limit`, if there are so many.
    """
    start = start_of(cursor)
    found = list(items)
    shown = [_cut(item) for item in found[: count_fitting(found[:limit])]]
    end = start + len(shown)
    if len(shown) == len(found):
        is_past = start and not found and total is not None
        return Page(
            items=shown, cursor=None, note=f"there are {total:,} items, so none from {start}" if is_past else None
        )
    there = "more" if total is None else f"{total:,} in all"
    return Page(items=shown, cursor=str(end), note=f"items {start} to {end - 1} of {there}: go on with cursor={end}")


def _cut(item: dict[str, Any]) -> dict[str, Any]:
    """Return an item, or the beginning of one that no answer could hold, which says so."""
    text = json.dumps(item, ensure_ascii=False)
    if len(text) <= MOST_CHARS:
        return item
    return {"cut": f"this item has {len(text):,} characters, more than an answer may hold", "json": text[:MOST_CHARS]}


def start_of(cursor: str | None) -> int:
    """Return the number of the first item of a page; raise `ValueError` for what is no cursor of `page_of`."""
    if cursor is None:
        return 0
    if not cursor.isdecimal() or len(cursor) > 12:
        raise ValueError(f"{cursor!r} is no cursor of this tool: use the `cursor` of its answer before")
    return int(cursor)


def page_of_store(
    read: Callable[[int, str | None], StorePage[Any]],
    to_item: Callable[[Any], dict[str, Any]],
    limit: int,
    cursor: str | None,
) -> Page:
    """Return a page of what a store lists by pages of its own: `read` takes a limit and a cursor."""
    page = read(limit, cursor)
    items = [to_item(each) for each in page]
    fitting = count_fitting(items)
    if fitting < len(items):
        page = read(fitting, cursor)
        items = [to_item(each) for each in page]
    note = None if page.cursor is None else f"there is more: go on with cursor={page.cursor}"
    return Page(items=items, cursor=page.cursor, note=note)


def shorten(text: str, how: str, most: int = SHOWN_CHARS) -> str:
    """Return a text, or its beginning with what is missing; `how` says which call gives the rest."""
    if len(text) <= most:
        return text
    return f"{text[:most]}\n[cut here: {most:,} of {len(text):,} characters; {how}]"
