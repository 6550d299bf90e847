"""Queries of the catalogue about who wrote and when, answered from the figures: the same rows as over the turns, in less time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyoxigraph as ox

from trails.model import iris
from trails.plumbing import figured
from trails.plumbing.figured import Row, Terms
from trails.plumbing.index.moments import moment
from trails.plumbing.index.sidefile import SideFile
from trails.rdf import vocab
from trails.rdf.codec import time_literal

_GAP: Final = 1800
"""Seconds after which a sitting has ended, where the query is not told."""
_MICROSECONDS: Final = 1_000_000


# --- periods of use


def _periods(file: SideFile, given: Terms) -> list[Row] | None:
    gap = given["gap"]
    if gap is not None and len(gap) != 1:
        return None
    seconds = _GAP if gap is None else int(gap[0].value)
    if seconds < 1:
        return None
    wanted = given["principal"]
    times: dict[str, list[int]] = defaultdict(list)
    untimed: dict[str, int] = defaultdict(int)
    owners = _Owners()
    for writer, owner, time in file.each(_TIMES):
        who = owners[owner] if writer is None else writer
        if time is None:
            untimed[who] += 1
        else:
            times[who].append(time)
    rows = list[Row]()
    for who in sorted({*times, *untimed}):
        principal = ox.NamedNode(who)
        if wanted is not None and principal not in wanted:
            continue
        if untimed[who]:
            rows.append((principal, None, None, vocab.integer(untimed[who])))
        for first, last, turns in _sittings(sorted(times[who]), seconds * _MICROSECONDS):
            ends = (time_literal(moment(each)) for each in (first, last))
            rows.append((principal, *ends, vocab.integer(turns)))
    return rows


_TIMES: Final = (
    "SELECT t.writer, s.principal, t.time FROM turns t JOIN sessions s ON s.number = t.session WHERE NOT t.copied"
)


class _Owners(dict[str, str]):
    """IRIs of principals by name."""

    def __missing__(self, name: str) -> str:
        self[name] = iris.principal(name)
        return self[name]


def _sittings(times: Sequence[int], gap: int) -> Iterator[tuple[int, int, int]]:
    """Yield the first and last time of each sitting, and how many turns it has; a longer gap than `gap` ends one."""
    start = 0
    for at in range(1, len(times) + 1):
        if at == len(times) or times[at] - times[at - 1] > gap:
            if at > start:
                yield times[start], times[at - 1], at - start
            start = at


# --- transcripts of several principals


def _two_principals(file: SideFile, given: Terms) -> list[Row] | None:
    sessions = {row[0]: row for row in file.each("SELECT id, number, parent, starts_at, principal FROM sessions")}
    by_owner: dict[int, list[tuple[str, int, int, int]]] = defaultdict(list)
    for number, writer, turns, first, last in file.each(_WRITERS):
        by_owner[number].append((writer, turns, first, last))
    wanted = given["session"]
    only = None if wanted is None else {iris.session_id(each.value) for each in wanted}
    rows = list[tuple[Any, ...]]()
    for session_id, (_, _, _, _, owner) in sessions.items():
        if only is not None and session_id not in only:
            continue
        found = _written(file, session_id, sessions, by_owner)
        if found is None:
            return None
        if len(found) > 1:
            rows += [(iris.session(session_id), iris.principal(owner), who, *told) for who, told in found.items()]
    rows.sort(key=lambda row: (row[0], row[4], row[2]))
    return [(*map(ox.NamedNode, row[:3]), *map(vocab.integer, row[3:])) for row in rows]


_WRITERS: Final = (
    "SELECT session, writer, count(*), min(place), max(place) FROM turns"
    " WHERE writer IS NOT NULL GROUP BY session, writer"
)


def _written(
    file: SideFile,
    session_id: str,
    sessions: Mapping[str, tuple[Any, ...]],
    by_owner: Mapping[int, Sequence[tuple[str, int, int, int]]],
) -> dict[str, tuple[int, int, int]] | None:
    """Return by principal how many turns of a transcript he wrote, the first and the last; None for a lineage in a circle."""
    found: dict[str, tuple[int, int, int]] = {}
    seen, end = set[str](), None
    at: str | None = session_id
    while at is not None and at in sessions:
        if at in seen:
            return None
        seen.add(at)
        _, number, parent, starts_at, _ = sessions[at]
        told = by_owner.get(number, ())
        if end is not None and any(last >= end for _, _, _, last in told):
            told = [tuple(row) for row in file.ask(_BELOW, (number, end))]
        for who, turns, first, last in told:
            before = found.get(who, (0, first, last))
            found[who] = (before[0] + turns, min(before[1], first), max(before[2], last))
        if parent is not None:
            end = starts_at if end is None else min(end, starts_at)
        at = parent
    return found


_BELOW: Final = (
    "SELECT writer, count(*), min(place), max(place) FROM turns"
    " WHERE session = ? AND place < ? AND writer IS NOT NULL GROUP BY writer"
)
QUERIES: Final[Mapping[str, figured.Question]] = {
    "periods-of-use": lambda workspace, given: workspace.index.figures(lambda file: _periods(file, given)),
    "two-principals": lambda workspace, given: workspace.index.figures(lambda file: _two_principals(file, given)),
}
