"""Queries of the catalogue about forks, answered from the figures: the same rows as over the turns, in less time."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from itertools import accumulate, product
from typing import Any, Final, NamedTuple, cast

import pyoxigraph as ox

from trails.history.workspace import Workspace
from trails.model import iris
from trails.plumbing import figured
from trails.plumbing.figured import Row, Terms
from trails.plumbing.index.moments import FAR_PAST, micros
from trails.plumbing.index.sidefile import SideFile
from trails.rdf import vocab
from trails.rdf.codec import parse_time
from trails.store.contract import Matching

# --- turns that forks share


def shared_turns(workspace: Workspace, given: Terms) -> list[Row] | None:
    """Return the rows of `shared-turns`."""
    wanted = given["session"]
    only = None if wanted is None else {iris.session_id(each.value) for each in wanted}
    found = workspace.index.figures(lambda file: _shared(file, only))
    if found is None:
        return None
    return [
        (ox.NamedNode(fork), ox.NamedNode(iris.session(parent)), *map(vocab.integer, told))
        for fork, parent, *told in sorted(found)
    ]


def _shared(file: SideFile, only: set[str] | None) -> list[tuple[Any, ...]] | None:
    """Return of each fork its IRI, its parent, where it was forked, and its own turns, those inherited, their characters."""
    sessions = figured.lineages(file)
    owned = _Lengths(file, sessions)
    found = list[tuple[Any, ...]]()
    for fork, session in sessions.items():
        if session.parent is None or (only is not None and fork not in only):
            continue
        segments = figured.segments(sessions, fork)
        if segments is None:
            return None
        (own, _), *inherited = [owned.below(owner, end) for owner, end in segments]
        turns, characters = (sum(each) for each in zip(*inherited, strict=True))
        found.append((iris.session(fork), session.parent, session.starts_at, own, turns, characters))
    return found


class _Lengths:
    """How many turns, of how many characters, a session owns before an index."""

    def __init__(self, file: SideFile, sessions: Mapping[str, figured.Session]) -> None:
        self._file = file
        self._sessions = sessions
        self._known: dict[str, tuple[list[int], list[int]]] = {}

    def below(self, owner: str, end: int | None) -> tuple[int, int]:
        if owner not in self._known:
            rows = self._file.ask(_LENGTHS, (self._sessions[owner].number,))
            self._known[owner] = [row[0] for row in rows], [0, *accumulate(row[1] for row in rows)]
        places, sums = self._known[owner]
        many = len(places) if end is None else bisect_left(places, end)
        return many, sums[many]


_LENGTHS: Final = "SELECT place, length FROM turns WHERE session = ? ORDER BY place"


# --- forks after a turn, and what they came to


def forks_after(workspace: Workspace, given: Terms) -> list[Row] | None:
    """Return the rows of `forks-after`: the figures say where the last answer of each fork is, the store what it says."""
    wanted, places = given["session"], given["index"]
    only = None if wanted is None else {iris.session_id(each.value) for each in wanted}
    indexes = None if places is None else {int(each.value) for each in places}
    forks = workspace.index.figures(lambda file: _forks(file, only, indexes))
    if forks is None:
        return None
    turns = cache(partial(_at, workspace.store))  # many forks are made after one turn
    rows = [row for fork in forks for row in _rows(workspace.store, fork, turns)]
    return sorted(rows, key=_order)


class _Fork(NamedTuple):
    id: str
    parent: str
    at: int
    owner: str | None
    """The session that owns the turn before it; None where there is no such turn."""
    answered: int | None
    """The place of its own last answer."""


def _forks(file: SideFile, only: set[str] | None, indexes: set[int] | None) -> list[_Fork] | None:
    sessions = figured.lineages(file)
    answered = {number: None if last is None else int(last) for number, last in file.ask(_ANSWERED)}
    found = list[_Fork]()
    for fork, session in sessions.items():
        is_wanted = indexes is None or session.starts_at - 1 in indexes
        if session.parent is None or not is_wanted or (only is not None and session.parent not in only):
            continue
        segments = figured.segments(sessions, fork)
        if segments is None:
            return None
        last = session.starts_at - 1
        owners = (owner for owner, end in segments[1:] if sessions[owner].starts_at <= last < cast("int", end))
        found.append(_Fork(fork, session.parent, session.starts_at, next(owners, None), answered.get(session.number)))
    return found


_ANSWERED: Final = "SELECT session, max(place) FROM turns WHERE answers GROUP BY session"


def _rows(store: Matching, fork: _Fork, turns_at: Callable[[str, int], list[Any]]) -> Iterator[Row]:
    node, parent = (ox.NamedNode(iris.session(each)) for each in (fork.id, fork.parent))
    index = vocab.integer(fork.at - 1) if fork.at > 0 else None
    turns = [None] if fork.owner is None else turns_at(fork.owner, fork.at - 1) or [None]
    whom, created = (_values(store, node, each) for each in (vocab.ATTRIBUTED_TO, vocab.TIME))
    for turn, *who, answer in product(turns, whom, created, _last_answers(store, fork)):
        yield parent, index, turn, node, *who, *answer


def _values(store: Matching, node: ox.NamedNode, predicate: ox.NamedNode) -> list[Any]:
    """Return what the catalog says of a session; [None] where it says nothing."""
    return [quad.object for quad in store.quads((node, predicate, None, vocab.CATALOG))] or [None]


def _last_answers(store: Matching, fork: _Fork) -> list[Row]:
    """Return place, turn and content of a fork's own last answer; a row of nothing where it has none."""
    found = list[Row]()
    if fork.answered is not None:
        graph, place = ox.NamedNode(iris.session(fork.id)), vocab.integer(fork.answered)
        for turn in _at(store, fork.id, fork.answered):
            found += ((place, turn, quad.object) for quad in store.quads((turn, vocab.VALUE, None, graph)))
    return found or [(None, None, None)]


def _at(store: Matching, session_id: str, index: int) -> list[Any]:
    """Return the turns at an index that a session owns."""
    graph = ox.NamedNode(iris.session(session_id))
    return [quad.subject for quad in store.quads((None, vocab.INDEX, vocab.integer(index), graph))]


def _order(row: Row) -> tuple[Any, ...]:
    parent, index, _, fork, _, created = row[:6]
    made = FAR_PAST if created is None else cast("int", micros(parse_time(created.value)))
    return parent.value, -1 if index is None else int(index.value), made, fork.value


QUERIES: Final[Mapping[str, figured.Question]] = {"shared-turns": shared_turns, "forks-after": forks_after}
