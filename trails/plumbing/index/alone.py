"""The index of a store that nobody opened: read without the engine, in milliseconds, where it is sure to be all.

It is that if the store's log ends just where the index says that it did. In any doubt there is none, and the store is opened.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from trails.errors import TrailsError
from trails.history.lookup import pages
from trails.model import iris
from trails.plumbing.index import figures, moments, texts
from trails.plumbing.index.figures import SORTS, Sort
from trails.plumbing.index.said import Said
from trails.plumbing.index.sidefile import SideFile, sealed_place
from trails.plumbing.index.untrue import as_damaged
from trails.store.leaflog import LeafLog, Leaves
from trails.store.sqlite import NAME, SqliteHome

_INDEX: Final = "index"
_Answer = TypeVar("_Answer")


def figures_of(store: Path) -> SideFile | None:
    """Return the figures of the store in a folder as they are now, or None where they may not be all."""
    return _whole(store, "figures.db", figures.SCHEMA)


def texts_of(store: Path) -> SideFile | None:
    """Return the texts of the store in a folder as they are now, or None where they may not be all."""
    return _whole(store, "texts.db", texts.SCHEMA)


def _whole(store: Path, name: str, schema: str) -> SideFile | None:
    with suppress(OSError, ValueError, sqlite3.Error, TrailsError):
        at = sealed_place(path := store / _INDEX / name)
        if _reached(store) == at:
            found = SideFile(path, schema, borrowed=True, at=at)
            if found.place == at == _reached(store):
                return found
    return None


def _reached(store: Path) -> Leaves:
    with closing(SqliteHome(store / NAME, is_read_only=True)) as home:
        return LeafLog(home, home.head().number).reached


def asked(file: SideFile, ask: Callable[[SideFile], _Answer | None]) -> _Answer | None:
    """Return what a function finds in a file, or None where somebody wrote to that, or what is never written: the store is
    opened then."""
    with suppress(sqlite3.Error), as_damaged():
        found = ask(file)
        if file.is_as_left:
            return found
    return None


def page(
    file: SideFile, sort: Sort, limit: int, after: str | None, **asked: Any
) -> tuple[list[dict[str, Any]], str | None] | None:
    """Return one page of sessions, each with the names of its columns, and the cursor after it; see `figures.asked_for`.

    None where more than the figures is needed: a session that has a key may have its label elsewhere.
    """
    order = SORTS.index(sort)
    place = None if after is None else pages.order_clause(after, order)
    rows, end = figures.page(file, figures.asked_for(**asked), sort, place, limit)
    if any(row["key"] is not None for row in rows):
        return None
    for row in rows:
        if row["prompt"] is None:
            row["prompt"] = figures.inherited_prompt(file, row["parent"], row["starts_at"])
    return rows, None if end is None else pages.make_cursor(*pages.sort_page(end, order))


class Wanted(NamedTuple):
    """What turns are looked for; None stands for anything."""

    text: str | None
    tool: str | None
    role: str | None


@dataclass(frozen=True, slots=True)
class Hit:
    """A turn that was found, as `trails.history.lookup.search.Hit` has it; the time in microseconds since 1970."""

    session_id: str
    index: int
    role: str
    author: str
    time: int | None
    tools: tuple[str, ...]
    snippet: str


def hits(file: SideFile, wanted: Wanted, limit: int, cursor: str | None) -> tuple[list[Hit], str | None] | None:
    """Return one page of turns that hold a text, and the cursor after it, as a search of the whole store does.

    None where the store must be asked: for a turn that is a copy, which counts only where its original is gone.
    """
    place = texts.place_in(cursor)
    found = texts.candidates(file, **wanted._asdict(), until=None if place is None else place.time)
    taken: list[texts.Found] = []
    for each in texts.after(found, place):
        if each.is_copy or each.said is None:
            return None
        if each.said.says(wanted.text, wanted.tool):
            taken.append(each)
        if len(taken) > limit:
            break
    end = texts.cursor_at(taken[limit - 1]) if len(taken) > limit else None
    return [_hit(each, each.said, wanted) for each in taken[:limit] if each.said is not None], end


def _hit(found: texts.Found, said: Said, wanted: Wanted) -> Hit:
    time = None if found.time == moments.FAR_PAST else found.time
    author = iris.author_name(found.author)
    snippet, _ = said.snippet(wanted.text, wanted.tool)
    return Hit(found.session_id, found.place, found.role, author, time, said.tools, snippet)
