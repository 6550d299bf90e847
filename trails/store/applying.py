"""Giving logged commits to the engine on a thread of its own: the next commit is prepared, and synced, meanwhile.

The log is the truth and was synced; the engine is an index of it. Whoever reads waits until the engine has all that was
put before and may be of what he reads, so nobody sees less than what was acknowledged.
"""

from __future__ import annotations

import _thread
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, Final

from trails.store.committing import Batch
from trails.store.pattern import Mentions, Pattern

_MOST: Final = 64
"""Batches that may wait; whoever puts one more waits for them."""
_ENOUGH: Final = 40_000
"""Quads that are loaded together, some 20 MB of them: each load costs as much as loading five thousand more."""
_PATIENCE: Final = 0.5
"""Seconds after which fewer are loaded: a view of the store waits for that."""
_STEP: Final = 0.1
"""Seconds that the thread's beginning is waited for at once,"""
_STEPS: Final = 100
"""and how often."""
_NOW: Final = object()
"""Stands in the queue for somebody who waits for what is held."""


class Applier:
    """A queue of batches of commits, and the thread that empties it, begun with the first one."""

    def __init__(self, apply: Callable[[Sequence[Batch]], None], rested: Callable[[], None], rest: float) -> None:
        """`apply` is a method, called on the thread for each batch in order, some at once; it must not raise.

        `rested` is one too, called once nothing was put for `rest` seconds after something was, and must not wait for what
        is put. Their owner is not kept alive by this, and the thread ends with it.
        """
        self._apply = weakref.WeakMethod(apply)
        self._rested = weakref.WeakMethod(rested)
        self._rest = rest
        self._queue: SimpleQueue[Any] = SimpleQueue()
        self._last: Batch | None = None
        self._unapplied: deque[Batch] = deque()
        self._held: deque[tuple[Batch, set[object]]] = deque()
        """Those that may wait to be loaded together, each with what takes it out of `_mentions`."""
        self._held_size = 0
        self._mentions = Mentions()
        """What the quads of those that are held speak of."""
        self.loads = 0
        """How many batches were put of which the engine's bulk loader gets some: what it does is seen by halves."""
        self._changed = threading.Condition()
        self._waiting = 0
        self._is_beginning = False
        self._begun = threading.Event()
        weakref.finalize(apply.__self__, self._queue.put, None).atexit = False  # type: ignore[attr-defined] # a method

    def put(self, batch: Batch) -> None:
        """Let a batch be applied after those before it; one thread at a time. Doing it twice applies it twice."""
        if not self._begun.is_set():
            self._begin()
        if batch.may_wait:
            self._hold(batch)
        else:
            if self._queue.qsize() >= _MOST:
                self.wait()
            self._unapplied.append(batch)
        self._last = batch
        self.loads += batch.is_bulk
        self._queue.put(batch)

    def _begin(self) -> None:
        """Begin the thread; raise RuntimeError where the system does not let one begin.

        `Thread.start` would wait for ever for one that ends before it begins, as where memory is short.
        """
        if not self._is_beginning:  # an interrupt amid this is followed by a second call
            self._is_beginning = True
            _thread.start_new_thread(self._run, ())
        # Many short waits: a process that is stopped for long, amid one, has not waited for long.
        if not any(self._begun.wait(_STEP) for _ in range(_STEPS)):
            raise RuntimeError("the thread that brings commits into the engine does not begin: memory may be short")

    def _hold(self, batch: Batch) -> None:
        """Take note of a batch that may wait, once there is room for it."""
        with self._changed:
            self._waiting += 1
            try:
                while self._held_size >= 2 * _ENOUGH:
                    self._changed.wait()
            finally:
                self._waiting -= 1
            self._held.append((batch, self._mentions.add(batch.added)))
            self._held_size += batch.size

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
            if last.may_wait:
                self._queue.put(_NOW)
            try:
                while not last.applied:
                    self._changed.wait()
            finally:
                self._waiting -= 1

    def wait_for(self, pattern: Pattern) -> None:
        """Return once the engine has of all that was put so far what matches a pattern."""
        if self._last is None or self._last.applied:
            return
        if self._held and self._mentions.may_match(pattern):
            self._wait_for_held(pattern)
        for batch in reversed(tuple(self._unapplied)):
            if not batch.applied and batch.touches(pattern):
                self.wait(batch)
                return

    def _wait_for_held(self, pattern: Pattern) -> None:
        for batch, _ in reversed(tuple(self._held)):
            if not batch.applied and (pattern[3] is not None or batch.touches(pattern)):
                self.wait(batch)
                return

    def release(self) -> None:
        """Let what is held be loaded now: no more is to come soon."""
        self._queue.put(_NOW)

    def end(self) -> None:
        """Let the thread end, once it has applied what was put."""
        self._queue.put(None)

    def _next(self) -> Batch | None:
        """Return the batch that is next; None for the end."""
        while True:
            try:
                found = self._queue.get(timeout=None if self._last is None else self._rest)
            except Empty:
                rested = self._rested()
                if rested is not None:
                    rested()
                del rested  # as below
                found = self._queue.get()
            if found is not _NOW:
                return found  # type: ignore[no-any-return] # of type Any

    def _with_more(self, first: Batch) -> list[Batch]:
        """Return a batch with those that come soon, where it may wait for them and nobody waits for it."""
        found, size, until = [first], first.size, time.monotonic() + _PATIENCE
        while found[-1].may_wait and size < _ENOUGH:
            patience = 0.0 if self._waiting else max(0.0, until - time.monotonic())
            try:
                more = self._queue.get(timeout=patience)
            except Empty:
                break
            if more is None:
                self._queue.put(None)  # the end, once these are applied
                break
            if more is _NOW:
                until = 0.0
            else:
                found.append(more)
                size += more.size
        return found

    def _run(self) -> None:
        self._begun.set()
        while (batch := self._next()) is not None:
            batches = self._with_more(batch)
            apply = self._apply()
            if apply is not None:
                apply(batches)
            del apply  # while it waits, the thread keeps nobody alive
            self._note_applied(batches)
            del batch, batches

    def _note_applied(self, batches: Sequence[Batch]) -> None:
        for batch in batches:
            batch.applied = True
            if not batch.may_wait:
                self._unapplied.popleft()
        if held := [batch for batch in batches if batch.may_wait]:
            with self._changed:
                for batch in held:
                    _, keys = self._held.popleft()
                    self._held_size -= batch.size
                    self._mentions.remove(keys)
        if self._waiting:
            with self._changed:
                self._changed.notify_all()
