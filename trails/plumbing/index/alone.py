"""The figures of a store that nobody opened: read without the engine, in milliseconds, where they are sure to be all.

They are that where the store's log ends just where the figures say that it did, and the log is whole: its owner closed the
store in good order, or wrote to it since this system was started, so that all it wrote can be seen. A line is in the log
before its commit is acknowledged. In any doubt there are none, and the store is opened.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from trails.errors import TrailsError
from trails.integrity import leaves
from trails.plumbing import pages
from trails.plumbing.index import figures
from trails.plumbing.index.figures import Sort
from trails.plumbing.index.sidefile import SideFile
from trails.store import marker, position
from trails.store.commitlog import Leaves

_FIGURES: Final = ("index", "figures.db")
_ENGINE: Final = ("quads", "CURRENT")
_LOG: Final = "log"
_POSITION: Final = "position"
_TAIL: Final = 4096


def figures_of(store: Path) -> SideFile | None:
    """Return the figures of the store in a folder as they are now, or None where they may not be all."""
    with suppress(OSError, ValueError, sqlite3.Error, TrailsError):
        if not _is_whole(store):
            return None
        found = SideFile(store.joinpath(*_FIGURES), figures.SCHEMA, borrowed=True)
        if _ends_at(store / _LOG, found.place) and _is_whole(store):
            return found
    return None


def _is_whole(store: Path) -> bool:
    marker.check(store)
    told = position.read(store / _POSITION, marker.store_id(store))
    return told is not None and (told.is_closed or told.is_of_this_boot) and store.joinpath(*_ENGINE).is_file()


def _ends_at(log: Path, place: Leaves) -> bool:
    """Tell whether a log ends at a place: it has that many bytes, and its last line that link."""
    with log.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        if size != place.size or size == 0:
            return False
        file.seek(max(0, size - _TAIL))
        last = file.read()[:-1].rpartition(b"\n")[2].decode("utf-8", "replace")
        return leaves.link(last) == place.link


def page(
    file: SideFile, sort: Sort, limit: int, after: str | None, **asked: Any
) -> tuple[list[dict[str, Any]], str | None] | None:
    """Return one page of sessions, each with the names of its columns, and the cursor after it; see `figures.asked_for`.

    None where more than the figures is needed: a session that has a key may have its label elsewhere.
    """
    place = None if after is None else pages.places_of(after, 2)
    rows, end = figures.page(file, figures.asked_for(**asked), sort, place, limit)
    if any(row["key"] is not None for row in rows):
        return None
    for row in rows:
        if row["prompt"] is None:
            row["prompt"] = figures.inherited_prompt(file, row["parent"], row["starts_at"])
    return rows, None if end is None else pages.cursor_of(*end)
