"""The query `times-backwards` of the catalogue, answered from the figures: they say where, and the turns there are read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from typing import Any, Final, NamedTuple

import pyoxigraph as ox

from trails.history.workspace import Workspace
from trails.model import iris
from trails.plumbing import called
from trails.plumbing.index.sidefile import SideFile
from trails.rdf import vocab
from trails.rdf.codec import parse_time
from trails.rdf.query_files import QueryFile
from trails.store.contract import Matching, Solutions

_NAME: Final = "times-backwards"
_Timed = tuple[Any, ox.Literal]
"""A turn, or a session, and when it was made."""


class _Place(NamedTuple):
    """Where a time runs backwards: at an index of a session, after a turn that the session or an ancestor owns."""

    session: str
    at: int
    owner: str
    is_fork: bool


class _Session(NamedTuple):
    id: str
    number: int
    parent: str | None
    starts_at: int
    created: int | None
    first: int | None
    """When the first turn of a fork's own was made."""


def answer(workspace: Workspace, query: QueryFile, values: Mapping[str, Any]) -> Solutions | None:
    """Return the rows of the query with its parameters as `QueryFile.bind` takes them.

    None where it must be asked of the store: it is another query, names sessions, or the figures are not there or far behind.
    """
    if query.name != _NAME or query.folder == "core" or not called.is_near(workspace):
        return None
    if query.terms(**values)["session"] is not None:
        return None
    places = workspace.index.figures(lambda file: [*_in_sessions(file), *_at_forks(file)])
    if places is None:
        return None
    turns = _Turns(workspace.store)
    rows = [*_runs(workspace), *(row for place in places for row in _rows(turns, place))]
    rows.sort(key=lambda row: ("" if row[1] is None else row[1].value, _number(row[2]), row[0].value))
    return called.solutions([column.name for column in query.columns], rows)


def _number(term: Any) -> int:
    return -1 if term is None else int(term.value)


def _in_sessions(file: SideFile) -> Iterator[_Place]:
    """Yield where a session's turn may be earlier than the one before it, both its own."""
    names = dict(file.each("SELECT number, id FROM sessions"))
    found: dict[tuple[int, int], None] = {}
    for number, place, is_same in file.each(_EARLIER):
        found[number, place] = None
        if is_same:  # what comes after two turns at one place may be earlier than the first of them
            found[number, place + 1] = None
    for number, place in found:
        yield _Place(names[number], place, names[number], is_fork=False)


_EARLIER: Final = """
SELECT turn.session, turn.place, turn.place = former.place FROM turns turn
LEFT JOIN turns above ON above.rowid = turn.rowid - 1
JOIN turns former ON former.rowid = CASE WHEN above.session = turn.session THEN above.rowid ELSE
  (SELECT max(rowid) FROM turns WHERE session = turn.session AND rowid < turn.rowid) END
WHERE turn.time < former.time OR turn.place = former.place
ORDER BY turn.session, turn.place"""
"""The turns of a session were written in order, as a rule one right after the other: no million of them need be sorted for it."""


def _at_forks(file: SideFile) -> Iterator[_Place]:
    """Yield the forks that may be earlier than the last turn that they inherit, or whose first turn may be."""
    told = (_Session(*row) for row in file.each(_SESSIONS))
    sessions = {each.id: each for each in told}
    latest = cache(lambda owner, place: file.ask(_LATEST, (owner, place))[0][0])  # many forks are made after one turn
    for fork in sessions.values():
        owner = _owner(fork, sessions)
        if owner is None:
            continue
        later = latest(owner.number, fork.starts_at - 1)
        if later is not None and any(each is not None and each < later for each in (fork.created, fork.first)):
            yield _Place(fork.id, fork.starts_at, owner.id, is_fork=True)


_LATEST: Final = "SELECT max(time) FROM turns WHERE session = ? AND place = ?"
_SESSIONS: Final = """
SELECT id, number, parent, starts_at, created,
  CASE WHEN parent IS NOT NULL THEN (SELECT min(time) FROM turns WHERE session = number AND place = starts_at) END
FROM sessions"""


def _owner(fork: _Session, sessions: Mapping[str, _Session]) -> _Session | None:
    """Return the ancestor that owns the last turn that a fork inherits."""
    last, seen = fork.starts_at - 1, {fork.id}
    at = None if fork.parent is None else sessions.get(fork.parent)
    while at is not None and at.id not in seen:
        if at.parent is None or at.starts_at <= last:
            return at
        seen.add(at.id)
        at = sessions.get(at.parent)
    return None


# --- the rows


class _Turns:
    """The turns that sessions own, with their times; those of one place are read once, whatever the forks made after it."""

    def __init__(self, store: Matching) -> None:
        self.store = store
        self._inherited: dict[tuple[str, int], list[_Timed]] = {}

    @cached_property
    def created(self) -> Mapping[Any, list[ox.Literal]]:
        """The times of all sessions, read at once: where one fork is early, most are."""
        found: dict[Any, list[ox.Literal]] = defaultdict(list)
        for quad in self.store.quads((None, vocab.TIME, None, vocab.CATALOG)):
            assert isinstance(quad.object, ox.Literal)  # noqa: S101 - a time
            found[quad.subject].append(quad.object)
        return found

    def inherited(self, session_id: str, index: int) -> list[_Timed]:
        """Return the turns that a session owns at an index, which may be asked for again."""
        if (session_id, index) not in self._inherited:
            self._inherited[session_id, index] = self.at(session_id, index)
        return self._inherited[session_id, index]

    def at(self, session_id: str, index: int) -> list[_Timed]:
        """Return the turns that a session owns at an index."""
        graph = ox.NamedNode(iris.session(session_id))
        found = (quad.subject for quad in self.store.quads((None, vocab.INDEX, vocab.integer(index), graph)))
        turns = [each for each in found if isinstance(each, ox.NamedNode)]
        times = (quad for turn in turns for quad in self.store.quads((turn, vocab.TIME, None, graph)))
        return [(quad.subject, quad.object) for quad in times if isinstance(quad.object, ox.Literal)]


def _rows(turns: _Turns, place: _Place) -> Iterator[tuple[Any, ...]]:
    session = ox.NamedNode(iris.session(place.session))
    before = [(after, later, parse_time(later.value)) for after, later in turns.inherited(place.owner, place.at - 1)]
    for what, (subject, time) in _subjects(turns, place, session):
        made = parse_time(time.value)
        for after, later, moment in before:
            if made < moment:
                yield ox.Literal(what), session, vocab.integer(place.at), subject, time, after, later


def _subjects(turns: _Turns, place: _Place, session: ox.NamedNode) -> Iterator[tuple[str, _Timed]]:
    for each in turns.at(place.session, place.at):
        yield "turn", each
    if place.is_fork:
        for time in turns.created[session]:
            yield "fork", (session, time)


def _runs(workspace: Workspace) -> Iterator[tuple[Any, ...]]:
    for row in workspace.reader.select("backward_runs"):
        yield ox.Literal("run"), row["session"], None, row["subject"], row["time"], row["subject"], row["later"]
