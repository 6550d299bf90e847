"""What was read last of the turns that sessions own, brought up to date by what was committed since.

However long a session is, whoever loads it again waits for what is new in it. That is read from the commits themselves, where
they only added plain turns at its end; after anything else the session is read anew.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final, NamedTuple

from pyoxigraph import NamedNode

from trails.model.lineage import Owner
from trails.model.values import Turn
from trails.plumbing.packed import Part
from trails.plumbing.packs.keeper import Moment, Packs, weight
from trails.rdf.turn_quads import decode_new
from trails.store import nearby
from trails.store.contract import QuadStore

_SESSIONS: Final = 16
_BYTES: Final = 4 << 20
"""How many sessions are kept in mind, and about how many bytes of one at most."""
_TAIL: Final = 1_000
"""Turns that no pack holds, from which on those of a session are packed although the store is busy."""


class _Known(NamedTuple):
    at: Moment
    starts_at: int
    parts: Sequence[Part]
    rest: Sequence[Turn]
    size: int


class Recent:
    """The turns that sessions own, as they were read last: a few sessions, as they were used last."""

    def __init__(self, store: QuadStore, packs: Packs) -> None:
        """Nothing is known yet."""
        self._store = store
        self._packs = packs
        self._lock = threading.Lock()
        self._known: dict[str, _Known] = {}
        self._long: set[str] = set()
        """Those of which no pack held so many turns that they are not kept in mind."""

    def now(self) -> Moment:
        """Return what is to be put down with a session that is read from now on."""
        return self._packs.now()

    def put(self, record: Owner, at: Moment, parts: Sequence[Part], rest: Sequence[Turn]) -> None:
        """Keep in mind all turns that a session owned when it was read: those that packs hold, and those after them.

        `at` is what `now` was before that.
        """
        if len(rest) > _TAIL:
            self._pack_long(record.id)
        elif not any(turn.old_iri for turn in rest):
            size = sum(part.block.size for part in parts) + sum(map(weight, rest))
            self._keep(record.id, _Known(at, record.starts_at, parts, rest, size))

    def _pack_long(self, session_id: str) -> None:
        """Have what waits packed where a session is read a second time as long as it is."""
        with self._lock:
            again = session_id in self._long
            self._long = self._long - {session_id} if again else {*self._long, session_id}
        if again:
            self._packs.bring_up()

    def _keep(self, session_id: str, known: _Known) -> None:
        with self._lock:
            self._known.pop(session_id, None)
            if known.size <= _BYTES:
                self._known[session_id] = known
            if len(self._known) > _SESSIONS:
                del self._known[next(iter(self._known))]

    def of(self, record: Owner) -> tuple[Sequence[Part], Sequence[Turn]] | None:
        """Return the turns that a session owns by now, as they were put; None where it must be read anew."""
        known, now = self._known.get(record.id), self.now()
        if known is None:
            return None
        new = self._since(known, record, now)
        if new is None or len(known.rest) + len(new) > _TAIL:
            with self._lock:
                self._known.pop(record.id, None)
            if new:
                self._packs.note(record, new, now)
                self._packs.bring_up()
            return None
        if now != known.at:
            self._packs.note(record, new, now)
            size = known.size + sum(map(weight, new))
            known = _Known(now, known.starts_at, known.parts, [*known.rest, *new], size)
            self._keep(record.id, known)
        return known.parts, known.rest

    def _since(self, known: _Known, record: Owner, now: Moment) -> list[Turn] | None:
        """Return the turns that came at a session's end until now; None where that is not all that came."""
        (before, epoch), number = known.at, now.number
        if (epoch, known.starts_at) != (now.epoch, record.starts_at):
            return None
        quads = nearby.came(self._store, NamedNode(record.iri), before, number)
        turns = None if quads is None else decode_new(record.id, quads)
        if turns is None:
            return None
        end = known.rest[-1].index + 1 if known.rest else known.parts[-1].end if known.parts else record.starts_at
        new = [turn for turn in turns if turn.index >= end]
        again = len(turns) - len(new)  # those that came while it was read
        held = known.rest[max(0, len(known.rest) - again) :]
        return new if [turn.digest for turn in held] == [turn.digest for turn in turns[:again]] else None
