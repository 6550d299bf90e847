"""What is committed and not in the engine's files yet: when that is brought there, in the background, and who is told then."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from trails.store.commitlog import RecordFiles

_FLUSH_AFTER: Final = 5_000
"""Quads between background flushes: what is unflushed is read again by whoever opens the store, or a view of it."""
_WORTH: Final = 1_000
"""Quads that are flushed at rest: below, a view opens as quickly, and the engine would have a file more for every pause."""
_LOADED_AFTER: Final = 60_000
_LOADED_BYTES: Final = 16 << 20
"""Quads, and bytes of their records, between flushes while much is loaded: each flush ends the waiting for more."""


class Backlog:
    """Counts what the engine's files lack, and has it flushed on a thread of its own when that is due."""

    def __init__(self, flush: Callable[[], None], told: Callable[..., None]) -> None:
        """`flush` brings it there; `told` is called with `resting` after that, and at rest where nothing is worth it, too."""
        self._flush, self._told = flush, told
        self._quads = self._in_memory = self._loading = 0
        """Quads since the last flush; those of them in the engine's memory: what its bulk loader gets is in files at once; and
        how many bring in much at once."""
        self._thread: threading.Thread | None = None

    @property
    def is_loading(self) -> bool:
        """Whether somebody brings in much at once."""
        return self._loading > 0

    @contextlib.contextmanager
    def loading(self, lock: contextlib.AbstractContextManager[object]) -> Iterator[None]:
        """Flush less often within a block, which takes note of that under a lock."""
        with lock:
            self._loading += 1
        try:
            yield
        finally:
            with lock:
                self._loading -= 1

    def found(self, quads: int) -> None:
        """Begin with quads that an earlier process left unflushed."""
        self._quads = quads

    def put(self, quads: int) -> None:
        """Take note of quads that the engine has in its memory now."""
        self._in_memory += quads

    def grew(self, quads: int, files: RecordFiles | None) -> None:
        """Take note of quads that were committed, and flush where that is due; `files` are their records, None in memory."""
        self._quads += quads
        if files is not None and self._is_due(files):
            self.flush_soon()

    def _is_due(self, files: RecordFiles) -> bool:
        if self._loading:
            much = self._quads >= _LOADED_AFTER or files.used >= _LOADED_BYTES
            return much or self._in_memory >= _FLUSH_AFTER
        return self._quads >= _FLUSH_AFTER or files.is_filling

    def flush_soon(self, *, resting: bool = False) -> None:
        """Flush on a thread of its own, unless one does; at rest, what is worth it."""
        if self._thread is not None and self._thread.is_alive():
            return
        is_worth = not resting or self._quads >= _WORTH
        if is_worth:
            self._quads = self._in_memory = 0
        work = partial(self._work, resting=resting, is_worth=is_worth)
        thread = threading.Thread(target=work, name="trails-flush", daemon=True)
        try:
            thread.start()
        except (RuntimeError, MemoryError):  # no thread may begin just now: the next commit, or `close`, does it
            return
        self._thread = thread  # not before: who joins it on another thread waits for its end

    def _work(self, *, resting: bool, is_worth: bool) -> None:
        if is_worth:
            self._flush()
        self._told(resting=resting)

    def join(self) -> None:
        """Wait for a flush that was begun."""
        if self._thread is not None:
            self._thread.join()


class Follower:
    """Whoever derives something from a store, and is told when to bring it up to date. It is not kept alive by that."""

    def __init__(self, keep_up: Callable[..., None], take_out: Callable[[], None], taken_out: int) -> None:
        """Take two methods, and the number of the last commit of others that took text out, of which the second was called."""
        self._keep_up, self._take_out = weakref.WeakMethod(keep_up), weakref.WeakMethod(take_out)
        self._taken_out = taken_out

    def keep_up(self, *, resting: bool) -> None:
        """Have it read on; `resting` where nothing was committed for a while."""
        if (keep_up := self._keep_up()) is not None:
            keep_up(resting=resting)

    def take_out(self, number: int) -> None:
        """Have it take out what others have taken out up to a commit, once."""
        if number > self._taken_out:
            self._taken_out = number
            if (take_out := self._take_out()) is not None:
                take_out()
