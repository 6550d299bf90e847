"""What is committed, read from the log for those who follow it: by position, so that nobody misses or doubles anything."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from typing import Final, NamedTuple

from trails.errors import InvalidInput
from trails.history.watch import Notice, Subscription, is_told, notice_of
from trails.integrity import leaves
from trails.session.repository import Repository
from trails.store.leaflog import NOTHING, Leaves

_MOST_LINES: Final = 200_000
"""Lines in which an event is looked for by its name, the latest first."""


class Event(NamedTuple):
    """One thing that happened to a session."""

    id: int
    """The number of the line of the log that tells of it, from 1."""
    notice: Notice

    @property
    def name(self) -> str:
        """Names it to who sees a part of the store: the numbers of lines would tell how much others write."""
        notice = self.notice
        text = f"{notice.kind} {notice.session_id} {notice.count} {notice.digest}"  # the digest covers random bits
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


class CommitFeed:
    """The commits of a store, for any number of followers; without one, nothing listens."""

    def __init__(self, store: Repository) -> None:
        self._store = store
        self._wake = asyncio.Event()
        self._subscription: Subscription | None = None
        self._lock = threading.Lock()
        self._read: tuple[Leaves, list[Event], Leaves] | None = None
        """The last that was read: after which place, and up to which; most followers are at the same one."""

    def follow(self) -> None:
        """Be woken by commits from now on. In the event loop."""
        if self._subscription is None:
            loop = asyncio.get_running_loop()

            def woken(notice: Notice) -> None:
                loop.call_soon_threadsafe(self._tell)

            self._subscription = self._store.subscribe(woken)

    def _tell(self) -> None:
        self._wake.set()
        self._wake = asyncio.Event()

    def next_commit(self) -> asyncio.Event:
        """Return what is set by the next commit."""
        return self._wake

    def close(self) -> None:
        """Listen no more."""
        if self._subscription is not None:
            self._subscription.close()
            self._subscription = None

    # --- on a worker thread

    def end(self) -> Leaves:
        """Return the place behind the last line."""
        return self._store.store.log.reached

    def place_after(self, line: int) -> Leaves:
        """Return the place behind a line; raise `InvalidInput` for one that the log does not have."""
        log = self._store.store.log
        reached = log.reached
        if line >= reached.lines:
            if line > reached.lines:
                raise InvalidInput(
                    f"the log has {reached.lines} lines, so no event {line} was sent; was it another store's?"
                )
            return reached
        return Leaves(line, log.record_of(line + 1) - 1, "")

    def place_after_name(self, name: str) -> Leaves:
        """Return the place behind a named event; raise `InvalidInput` if it is not among the last lines."""
        if name == "0":
            return NOTHING
        log = self._store.store.log
        reached, looked_at = log.reached, 0
        for last, lines in log.records.leaves(0, reached.number, backwards=True):
            events = _events([*lines], last - len(lines) + 1, 0)
            line = next((event.id for event in reversed(events) if event.name == name), None)
            if line is not None:
                return self.place_after(line)
            looked_at += len(lines)
            if looked_at > _MOST_LINES:
                break
        raise InvalidInput(
            f"there is no recent event {name!r:.40}: read the sessions anew, and follow the events without naming one"
        )

    def after(self, place: Leaves) -> tuple[list[Event], Leaves]:
        """Return what was committed after a place, and the place behind it."""
        with self._lock:
            kept = self._read
            reached = self._store.store.log.reached
            if kept is None or kept[0] != place or kept[2] != reached:
                lines, reached = self._store.store.log.since(place)
                first = reached.lines - len(lines) + 1
                kept = self._read = place, _events(lines, first, place.lines), reached
            return kept[1], kept[2]


def _events(lines: list[str], first: int, seen: int) -> list[Event]:
    found = []
    for number, line in enumerate(lines, first):
        leaf, _ = leaves.parse_leaf(line)
        if number > seen and is_told(leaf):
            found.append(Event(number, notice_of(leaf)))
    return found
