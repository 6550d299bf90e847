"""The conversations that spans belong to, as sessions of a store: what is there of them, and what goes behind it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from trails.errors import ForkDepthExceeded, InvalidInput, SessionNotFound
from trails.exchange import record_checks
from trails.exchange.merge import branch_id, imported_id, stored_family
from trails.exchange.source_transcript import SourceTurn
from trails.exchange.traces import otlp
from trails.exchange.traces.otlp import SOURCE, HistoryPath, TracedSession
from trails.session import Repository, Session
from trails.session.batch import Batch

CONVERSATION: Final = "conversation"
"""The metadata key under which the first session of a conversation has its id: `store.find({"conversation": ID})`."""
_MOST: Final = 200
"""How many conversations are kept in memory."""


@dataclass(slots=True)
class _Home:
    """The session that a path of a conversation is, and how many of the path's messages were stored with it."""

    path: HistoryPath
    session: Session
    stored: int


class Conversations:
    """The conversations of a store, those that were used last in memory."""

    def __init__(self, store: Repository) -> None:
        """Use an open store."""
        self._store = store
        self._homes: OrderedDict[str, list[_Home]] = OrderedDict()

    def paths(self, name: str) -> list[HistoryPath]:
        """Return the paths of a conversation that the store has by now, the one that got a turn last at the end."""
        self._store.refresh()
        family = stored_family(self._store.store, SOURCE, name)
        homes = self._homes.pop(name, None)
        if homes is None or sorted(home.session.id for home in homes) != sorted(family):
            homes = [_home(self._store.load(each)) for each in family]
        for home in homes:
            if home.session.refresh():
                _add_stored(home)
        if homes:
            self._homes[name] = homes
        return [home.path for home in sorted(homes, key=_last_time)]

    def forget(self, names: Iterable[str]) -> None:
        """Drop what is in memory of some conversations, pending turns too: the store alone counts."""
        for name in names:
            for home in self._homes.pop(name, ()):
                home.session.discard_pending()

    def write(self, sessions: Mapping[str, TracedSession]) -> None:
        """Store what is new in some sessions, in one commit; raise what `Repository.commit` does, and then nothing is stored."""
        changed: list[_Home] = []
        with self._store.commit() as batch:
            for name, session in sessions.items():
                homes = self._homes.setdefault(name, [])
                for path in session.paths:
                    changed += self._write_path(batch, session, homes, path)
        for home in changed:
            _let_texts_go(home)
        while len(self._homes) > _MOST:
            self._homes.popitem(last=False)

    def _write_path(
        self, batch: Batch, session: TracedSession, homes: list[_Home], path: HistoryPath
    ) -> Iterator[_Home]:
        home = next((each for each in homes if each.path is path), None)
        start = path.shared if home is None else home.stored
        turns = session.turns_of(path, start)
        if not turns:
            return
        if home is None:
            home = _Home(path, self._begin(session, homes, path, turns), start)
            homes.append(home)
        batch.add(home.session)
        for turn in turns:
            home.session.worktree.append(record_checks.make_draft(turn))
        yield home

    def _begin(
        self, session: TracedSession, homes: Sequence[_Home], path: HistoryPath, turns: Sequence[SourceTurn]
    ) -> Session:
        """Return a new session for a path: the conversation's first one, or a fork from the one that has the shared turns."""
        source = f"{SOURCE}:{session.id}"
        created = next((turn.time for turn in turns if turn.time), None)
        above, shared = _owner(path)
        parent = next((home for home in homes if home.path is above), homes[0] if homes else None)
        if parent is None:
            made = self._new(
                imported_id(SOURCE, session.id),
                lambda name: self._store.create(
                    id=name,
                    agent=session.agent,
                    meta={CONVERSATION: session.id},
                    system=session.system,
                    created=session.created or created,
                    source_session=source,
                ),
            )
            if session.spawned_by is not None and self._homes.get(session.spawned_by):
                made.worktree.change_record(spawned_by=self._homes[session.spawned_by][0].session.id)
            return made
        at = sum(turn is not None for turn in parent.path.turns[:shared])
        fork_id = branch_id(imported_id(SOURCE, session.id), turns[:1])
        try:
            return self._new(
                fork_id, lambda name: parent.session.fork(at, id=name, created=created, source_session=source)
            )
        except ForkDepthExceeded:
            made = self._new(
                fork_id, lambda name: homes[0].session.fork(0, id=name, created=created, source_session=source)
            )
            made.cherry_pick(parent.session, range(at))
            return made

    def _new(self, wanted: str, make: Callable[[str], Session]) -> Session:
        """Return what is made with an id, or with another one if a session had it that was deleted."""
        number, name = 1, wanted
        while True:
            try:
                return make(name)
            except (InvalidInput, SessionNotFound):
                if not self._store.reader.is_deleted(name):
                    raise
            number += 1
            name = f"{wanted[:180]}~{number}"


def _home(session: Session) -> _Home:
    home = _Home(HistoryPath(), session, 0)
    _add_stored(home)
    return home


def _add_stored(home: _Home) -> None:
    """Add to a path the turns that came into its session."""
    known = sum(turn is not None for turn in home.path.turns)
    for turn in home.session.turns[known:]:
        home.path.add_stored(turn)
    home.stored = len(home.path.keys)


def _owner(path: HistoryPath) -> tuple[HistoryPath | None, int]:
    """Return the path that owns the last message that a path shares with others, and how many it shares."""
    above, shared = path.left, path.shared
    while above is not None and above.left is not None and shared <= above.shared:
        above = above.left
    return above, shared


def _last_time(home: _Home) -> datetime:
    found = next((turn.time for turn in reversed(home.session.turns) if turn.time), None)
    return found or datetime.min.replace(tzinfo=UTC)


def _let_texts_go(home: _Home) -> None:
    """Keep of the messages that were stored now what later spans are compared with."""
    turns = home.path.turns
    new = [place for place in range(home.stored, len(turns)) if turns[place] is not None]
    for place, turn in zip(new, home.session.tail(len(new)), strict=True):
        turns[place] = otlp.outline_of(turn)
    home.stored = len(turns)
