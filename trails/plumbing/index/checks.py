"""Whether the index is as it should be: its files as they were sealed, and what is in them as the store says."""

from __future__ import annotations

import hashlib
import json
import marshal
import os
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, Final

from trails.errors import TrailsError
from trails.history.lookup import pages
from trails.model import iris
from trails.model.values import Finding
from trails.plumbing.index import figures, moments, sidefile, texts
from trails.plumbing.index.keeper import FIGURES, PARTS, TEXTS, Index, Part
from trails.plumbing.index.rows import SessionRow, TurnRow, all_turns, session_row, tags
from trails.plumbing.index.sidefile import SideFile
from trails.plumbing.index.untrue import as_damaged
from trails.store import maintenance
from trails.store.contract import QuadStore
from trails.store.doctor import Check

_MADE_ANEW: Final = "the next one who lists, counts or searches has it made anew; `trails store vacuum` makes it now"
_FIGURES: Final = (
    (
        "SELECT id, 'session', created, principal, agent, branch, state, kind, label, key, parent, starts_at, title, project,"
        " project_name, prompt, activity, own_turns, by_turns, tie, by_created, by_activity, prompt_at FROM sessions"
    ),
    "SELECT s.id, 'meta', m.key, m.value FROM meta m LEFT JOIN sessions s ON s.number = m.session",
    (
        "SELECT s.id, 'turn', t.place, t.time, t.day, t.copied, t.digest, t.writer, t.agent, t.lacks,"
        " t.length, t.answers"
        " FROM turns t LEFT JOIN sessions s ON s.number = t.session"
    ),
    (
        "SELECT s.id, 'call', c.digest, c.rank, c.home, c.principal, c.author, c.model, c.time, c.day, c.input,"
        " c.cache_read, c.cache_write, c.cache_write_1h, c.output, c.reasoning, c.cost, c.provider, c.began, c.ended"
        " FROM calls c LEFT JOIN sessions s ON s.number = c.holder"
    ),
    (
        "SELECT s.id, 'asks', c.place, c.id, c.name, c.call"
        " FROM tool_calls c LEFT JOIN sessions s ON s.number = c.session"
    ),
    (
        "SELECT s.id, 'answers', a.place, a.id, a.digest, a.rank, a.failed, a.refused, a.began, a.ended, a.call"
        " FROM tool_answers a LEFT JOIN sessions s ON s.number = a.session"
    ),
)
"""What is said of each session in the figures, by its id; of none by NULL. `_told` gives the same rows of what the store says.

What is not here follows from other rows: see `figures.miscounted`.
"""
Numbers = Mapping[str, int]
"""By the name of a file, a number that stands for all that it should say of a session, in whatever order."""


def numbers(parts: Iterable[Part], row: SessionRow, turns: Sequence[TurnRow]) -> Numbers:
    """Return what files should say of a session, by what the store says of it and of all turns that it owns."""
    return {part.name: sum(map(_number, _told[part](row, turns))) for part in parts}


def _figures(row: SessionRow, turns: Sequence[TurnRow]) -> Iterator[tuple[Any, ...]]:
    places, asked = len({turn.place for turn in turns}), figures.first_prompt(turns)
    said = (row.principal, row.agent, row.branch, row.state, row.kind, row.label, row.key, row.parent, row.starts_at)
    named = (row.title, row.project, figures.project_name(row.project), None if asked is None else asked[0])
    latest, created = figures.last_time(turns), moments.FAR_PAST if row.created is None else row.created
    reached = (latest, places, row.starts_at + places)
    by = (pages.tie_break(row.id), created, created if latest is None else latest, None if asked is None else asked[1])
    yield row.id, "session", row.created, *said, *named, *reached, *by
    for key, value in (json.loads(row.meta) if row.meta else {}).items():
        yield row.id, "meta", key, figures.as_json(value)
    own = iris.session(row.id)
    for turn in turns:
        _, place, time, day, _, copied, digest, writer, agent, lacks, length, answers = figures.turn_values(0, turn)
        yield row.id, "turn", place, time, day, int(copied), digest, writer, agent, int(lacks), length, int(answers)
        for told in figures.tool_calls(own, turn):
            yield row.id, "asks", *told
        for told in figures.tool_answers(own, turn):
            yield row.id, "answers", *(int(each) if isinstance(each, bool) else each for each in told)
        for call in turn.calls:
            yield row.id, "call", *figures.call_values(0, call)[1:-1]


def _texts(row: SessionRow, turns: Sequence[TurnRow]) -> Iterator[tuple[Any, ...]]:
    start = len(iris.session(row.id))
    yield row.id, "session", len({turn.place for turn in turns})
    for turn in turns:
        yield row.id, *texts.kept_of(turn, start)


_told: Final = {FIGURES: _figures, TEXTS: _texts}


def findings(index: Index, store: QuadStore, told: Mapping[str, Numbers]) -> list[Finding]:
    """Return a finding for each session of which the index says other than the store, and for a damaged file.

    `told` is by session id what the files should say by what was read of the store; what differs is read again while nobody
    commits. Where there is no index, there is nothing to find.
    """
    parts = [part for part in index.readable() if part != TEXTS or index.has_texts]
    return [finding for part in parts for finding in _of_part(index, store, part, told)]


def _of_part(index: Index, store: QuadStore, part: Part, told: Mapping[str, Numbers]) -> Iterator[Finding]:
    try:
        differing = index.held(part, lambda file: _differing(file, store, part, told))
    except sidefile.NotAsSealed:
        what = f"{part.name} of the index has other bytes than were sealed, and answers out of it may have been wrong"
        yield Finding(code="index-damaged", message=f"{what}: `trails store vacuum` makes it anew")
        return
    except (TrailsError, ValueError):
        return
    except (sqlite3.Error, OSError) as error:
        yield Finding(code="index-damaged", message=f"{part.name} of the index cannot be read ({error}): {_MADE_ANEW}")
        return
    for session_id in differing:
        yield Finding(
            code="index-differs",
            message=f"{part.name} of the index says other of it than the store does, which is right; `trails store vacuum` makes "
            "the index anew",
            session_id=session_id,
        )


def _differing(file: SideFile, store: QuadStore, part: Part, told: Mapping[str, Numbers]) -> list[str]:
    with as_damaged():
        file.look()
        kept, wrong = _in_figures(file) if part == FIGURES else _in_texts(file)
        of_none = [each for each in kept.keys() | wrong if not isinstance(each, str)]
        for each in of_none:
            kept.pop(each, None)
            wrong.discard(each)
        if part == FIGURES and sorted(name for (name,) in file.ask("SELECT name FROM tags")) != sorted(tags(store)):
            raise sqlite3.DatabaseError("it has other tags than the store")
    for session_id in {*kept, *told}:
        known = told.get(session_id, {}).get(part.name, 0)
        if kept.get(session_id, 0) != known:
            with suppress(TrailsError, ValueError):  # what Trails never writes is found, and said, elsewhere
                if kept.get(session_id, 0) != _now(store, part, session_id):
                    wrong.add(session_id)
    if of_none and not wrong:
        raise sqlite3.DatabaseError("it has rows that belong to no session")
    return sorted(wrong)


def _now(store: QuadStore, part: Part, session_id: str) -> int:
    row = session_row(store, session_id)
    return 0 if row is None else numbers([part], row, all_turns(store, row))[part.name]


def _in_figures(file: SideFile) -> tuple[dict[Any, int], set[Any]]:
    """Return by session id a number that stands for all that is said of it, in whatever order, and those of which
    sums are wrong, or what counts."""
    found: dict[Any, int] = defaultdict(int)
    for row in chain.from_iterable(map(file.each, _FIGURES)):
        found[row[0]] += _number(row)
    return found, set(figures.miscounted(file))


def _in_texts(file: SideFile) -> tuple[dict[Any, int], set[Any]]:
    """Return by session id a number that stands for all that it says, and those with a turn that is not found."""
    found, wrong = defaultdict[Any, int](int), set[Any]()
    for row in file.each("SELECT id, 'session', turns FROM sessions"):
        found[row[0]] += _number(row)
    for session_id, turns, is_found in texts.all_runs(file):
        found[session_id] += sum(_number((session_id, *turn)) for turn in turns)
        if not is_found:
            wrong.add(session_id)
    return found, wrong


def _number(row: tuple[Any, ...]) -> int:
    """Return a number that is the same in every process."""
    return int.from_bytes(hashlib.blake2b(marshal.dumps(row, 0), digest_size=8).digest(), "little")


def closed(name: str, place: Path) -> Check | None:
    """Return what doctor says of something in a folder's place that is none, or that this user may not look into."""
    if not os.path.lexists(place) or (place.is_dir() and os.access(place, os.R_OK | os.X_OK)):
        return None
    what = f"{place} is no folder that this user may look into, so that nothing can be redacted or deleted"
    return Check(name, False, what, "remove it, as the user whose it is: it is made again")


def look(folder: Path) -> Check:
    """Return what doctor says of the index of the store in a folder; nothing is changed."""
    told = []
    place = folder / maintenance.INDEX
    if wrong := closed("index", place):
        return wrong
    for part in PARTS:
        path = place / part.name
        is_sealed = sidefile.is_sealed(path)
        if is_sealed is False:
            what = f"{part.name} of the index is not as it was sealed: damaged, or in use just now"
            return Check("index", False, what, _MADE_ANEW)
        if is_sealed:
            told.append(f"{part.name} up to line {sidefile.sealed_place(path).lines:,} of the log")
    if not told:
        return Check("index", True, "there is none yet; who lists, counts or searches has it made")
    return Check("index", True, f"as it was sealed: {', '.join(told)}")
