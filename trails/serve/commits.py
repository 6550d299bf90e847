"""What is committed, read from the log for those who follow it: by position, so that nobody misses or doubles anything."""

from __future__ import annotations

import asyncio
import threading
from typing import NamedTuple

from trails.errors import InvalidInput
from trails.history.watch import Notice, Subscription, is_told, notice_of
from trails.integrity import leaves
from trails.session.repository import Repository
from trails.store.leaflog import Leaves


class Event(NamedTuple):
    """One thing that happened to a session."""

    id: int
    """The number of the line of the log that tells of it, from 1."""
    notice: Notice


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
