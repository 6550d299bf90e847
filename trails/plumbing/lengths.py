"""How long transcripts are by a store's log, which tells of each batch of turns how many there were after it.

That is what a transcript is held against when it is read: a turn that is gone from its end leaves no gap.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from typing import Final

from trails import iris
from trails.errors import IndexGap, IntegrityError
from trails.integrity import leaves
from trails.store.commitlog import Leaves
from trails.store.contract import QuadStore
from trails.store.leaflog import NOTHING

PAUSES: Final = (0.0, 0.005, 0.05)
"""Seconds between looking again where the log has turns on record that are not read yet. The store is not held meanwhile:
whoever holds it may wait for the thread that looks."""
_SESSIONS: Final = 4096
"""Sessions of which it is kept in mind what the log said last."""


class Lengths:
    """The lengths of transcripts by the log of a store. The log is read backwards, and later only what is new in it."""

    def __init__(self, store: QuadStore) -> None:
        """Nothing is read yet."""
        self._store = store
        self._lock = threading.Lock()
        self._known: dict[str, tuple[Leaves, int | None]] = {}

    def recorded(self, session_ids: Collection[str]) -> dict[str, int]:
        """Return how many turns the transcripts of sessions have by the log, by id; those it does not tell of are left out."""
        log = self._store.log
        reached = log.reached
        with self._lock:
            known = {each: self._known.get(each, (NOTHING, None)) for each in session_ids}
        new: dict[Leaves, list[str]] = {}
        for session_id, (place, _) in known.items():
            if place != reached:  # of another log, as where a backup was put in its place, all is read again
                new.setdefault(place if log.holds(place) else NOTHING, []).append(session_id)
        for place, ids in new.items():
            begins = {f"{kind} {iris.session(each)} ": each for each in ids for kind in ("turns", "delete")}
            told = log.last_lines(begins, place, reached)
            for session_id in ids:
                of_it = [told[begin] for begin, each in begins.items() if each == session_id and begin in told]
                known[session_id] = reached, _length(max(of_it)[1]) if of_it else known[session_id][1]
        with self._lock:
            self._known.update((each, known[each]) for each in known)
            while len(self._known) > _SESSIONS:
                del self._known[next(iter(self._known))]
        return {each: length for each, (_, length) in known.items() if length is not None}

    def checked(self, session_id: str, count: Callable[[], int]) -> int:
        """Return how many turns a transcript has as they are counted; raise `IndexGap` where the log has more on record.

        Where it seems so they are counted again: a commit is in the log a moment before it is read.
        """
        for pause in PAUSES:
            recorded = self.recorded([session_id]).get(
                session_id, 0
            )  # before they are counted: others may append meanwhile
            length = count()
            if length >= recorded:
                return length
            time.sleep(pause)
        raise cut_short(session_id, length, recorded)


def _length(line: str) -> int | None:
    """Return the length that a line of the log tells; None for that of a deletion, and for one that Trails never writes."""
    try:
        leaf, _ = leaves.parse(line)
    except IntegrityError:
        return None
    return leaf.count if leaf.kind == "turns" else None


def cut_short(session_id: str, length: int, recorded: int) -> IndexGap:
    """Return the error for a transcript that lacks turns at its end."""
    missing = f"turn {length} is" if recorded == length + 1 else f"turns {length} to {recorded - 1} are"
    return IndexGap(
        f"session {session_id!r} cannot be read: {missing} missing at its end, for the store's log has {recorded} turns on "
        f"record; restore {session_id!r} from an export or a backup (no shorter transcript is given)"
    )
