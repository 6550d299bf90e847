"""Whether the index is as it should be: its files as they were sealed, and what is in them as the store says."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from trails.errors import TrailsError
from trails.model import Finding
from trails.plumbing.index import sidefile
from trails.plumbing.index.keeper import FIGURES, PARTS, TEXTS, Index, Part
from trails.plumbing.index.sidefile import SideFile
from trails.store import maintenance
from trails.store.doctor import Check

_MADE_ANEW: Final = "the next one who lists, counts or searches has it made anew; `trails store vacuum` makes it now"
_SESSION: Final = (
    "id, created, principal, agent, branch, state, kind, label, key, parent, starts_at, title, project, prompt"
)
_ROWS: Final = {
    FIGURES: (
        (
            "SELECT id, 'session', created, principal, agent, branch, state, kind, label, key, parent, starts_at, title, project,"
            " prompt, activity, own_turns, calls, input, output, by_turns, by_tokens FROM sessions"
        ),
        "SELECT s.id, 'meta', m.key, m.value FROM meta m JOIN sessions s ON s.number = m.session",
        "SELECT s.id, 'turn', t.place, t.time, t.copied, t.digest FROM turns t JOIN sessions s ON s.number = t.session",
        (
            "SELECT s.id, 'call', c.digest, c.rank, c.home, c.principal, c.agent, c.model, c.time, c.input, c.output,"
            " c.cache_read, c.cache_write, c.cost FROM calls c JOIN sessions s ON s.number = c.holder"
        ),
    ),
    TEXTS: (
        (
            "SELECT s.id, 'turn', d.place, d.time, d.tail, d.role, d.author, d.digest, d.copied, t.shown, t.within, t.calls"
            " FROM docs d JOIN sessions s ON s.number = d.session JOIN said t ON t.doc = d.doc"
        ),
        "SELECT s.id, 'tool', d.place, c.name FROM tools c JOIN docs d ON d.doc = c.doc JOIN sessions s ON s.number = d.session",
    ),
}
"""By file, what is said of each session in it."""


def findings(index: Index) -> list[Finding]:
    """Return a finding for each session of which the index says other than the store, and for a damaged file.

    What is in use, or stands beside the store, is held against one that is made anew in memory; where there is none, there
    is nothing to find.
    """
    return [finding for part in index.there() for finding in _of_part(index, part)]


def _of_part(index: Index, part: Part) -> Iterator[Finding]:
    try:
        kept, made = index.both(part, lambda file: _said(file, part))
    except (TrailsError, ValueError):  # the store holds what Trails never writes: that is found, and said, elsewhere
        return
    except sqlite3.Error as error:
        yield Finding(code="index-damaged", message=f"{part.name} of the index cannot be read ({error}): {_MADE_ANEW}")
        return
    for session_id in sorted(
        session_id for session_id in {*kept, *made} if kept.get(session_id) != made.get(session_id)
    ):
        yield Finding(
            code="index-differs",
            message=f"{part.name} of the index says other of it than the store does, which is right; `trails store vacuum` makes "
            "the index anew",
            session_id=session_id,
        )


def _said(file: SideFile, part: Part) -> dict[str, int]:
    """Return by session id a number that stands for all that a file says of it, in whatever order."""
    found: dict[str, int] = {}
    for text in _ROWS[part]:
        for row in file.each(text):
            found[row[0]] = found.get(row[0], 0) + _number(row)
    return found


def _number(row: tuple[Any, ...]) -> int:
    return hash(row)


def look(folder: Path) -> Check:
    """Return what doctor says of the index of the store in a folder; nothing is changed."""
    told = []
    for part in PARTS:
        path = folder / maintenance.INDEX / part.name
        is_sealed = sidefile.is_sealed(path)
        if is_sealed is False:
            what = f"{part.name} of the index is not as it was sealed: damaged, or in use just now"
            return Check("index", False, what, _MADE_ANEW)
        if is_sealed:
            told.append(f"{part.name} up to line {sidefile.sealed_place(path).lines:,} of the log")
    if not told:
        return Check("index", True, "there is none yet; who lists, counts or searches has it made")
    return Check("index", True, f"as it was sealed: {', '.join(told)}")
