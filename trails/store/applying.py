"""Giving logged commits to the engine on a thread of its own: the next commit is prepared, and synced, meanwhile.

The log is the truth and was synced; the engine is an index of it. Whoever reads waits until the engine has all that was
put before and may be of what he reads, so nobody sees less than what was acknowledged.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Final

from trails.store.committing import Batch
from trails.store.pattern import Pattern

_MOST: Final = 64
"""Batches that may wait; whoever puts one more waits for them."""


class Applier:
    """A queue of batches of commits, and the thread that empties it, begun with the first one."""

    def __init__(self, apply: Callable[[Batch], None], rested: Callable[[], None], rest: float) -> None:
        """`apply` is a method, called on the thread for each batch in order; it must not raise.

        `rested` is one too, called once nothing was put for `rest` seconds after something was. Their owner is not kept
        alive by this, and the thread ends with it.
        """
        self._apply = weakref.WeakMethod(apply)
        self._rested = weakref.WeakMethod(rested)
        self._rest = rest
        self._queue: SimpleQueue[Batch | None] = SimpleQueue()
        self._last: Batch | None = None
        self._unapplied: deque[Batch] = deque()
        self.loads = 0
        """How many batches were put of which the engine's bulk loader gets some: what it does is seen by halves."""
        self._changed = threading.Condition()
        self._waiting = 0
        self._thread: threading.Thread | None = None
        weakref.finalize(apply.__self__, self._queue.put, None).atexit = False  # type: ignore[attr-defined] # a method

    def put(self, batch: Batch) -> None:
        """Let a batch be applied after those before it; one thread at a time. Doing it twice applies it twice."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="trails-apply", daemon=True)
            self._thread.start()
        if self._queue.qsize() >= _MOST:
            self.wait()
        self._last = batch
        self._unapplied.append(batch)
        self.loads += batch.is_bulk
        self._queue.put(batch)

    @property
    def last(self) -> Batch | None:
        """The batch that was put last."""
        return self._last

    def wait(self, last: Batch | None = None) -> None:
        """Return once a batch that was put, and those before it, are applied; by default everything that was put so far."""
        last = self._last if last is None else last
        if last is None or last.applied:
            return
        with self._changed:
            self._waiting += 1
            try:
                while not last.applied:
                    self._changed.wait()
            finally:
                self._waiting -= 1

    def wait_for(self, pattern: Pattern) -> None:
        """Return once the engine has of all that was put so far what matches a pattern."""
        if self._last is None or self._last.applied:
            return
        for batch in reversed(tuple(self._unapplied)):
            if not batch.applied and batch.touches(pattern):
                self.wait(batch)
                return

    def end(self) -> None:
        """Let the thread end, once it has applied what was put."""
        self._queue.put(None)

    def _next(self) -> Batch | None:
        if self._last is not None:
            try:
                return self._queue.get(timeout=self._rest)
            except Empty:
                rested = self._rested()
                if rested is not None:
                    rested()
                del rested  # as below
        return self._queue.get()

    def _run(self) -> None:
        while (batch := self._next()) is not None:
            apply = self._apply()
            if apply is not None:
                apply(batch)
            del apply  # while it waits, the thread keeps nobody alive
            batch.applied = True
            self._unapplied.popleft()
            if self._waiting:
                with self._changed:
                    self._changed.notify_all()
