"""Queries that never end, since the engine cannot read a table: they are found, and end the process.

The engine gives a query that adds up, sorts or walks the same error for ever, and nothing ends the thread that it runs in. It
lets others run meanwhile: so one of them looks after a while whether the tables are as they were written. Where they are not and
the query is still at it, the process ends with a message, before it has taken all the memory there is.

Where the tables are as they were, a disk may have failed once: the engine keeps to that error. Such a query reads nothing any
more and takes ever more memory. So does an honest one that makes much out of little: to tell them apart it is asked once more,
which ends where the disk is well again, and the first one ends the process once it has taken many times as long.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, NoReturn

from trails.store.tables import Tables

_SLEEP: Final = 0.5
_LONG: Final = 2.0
"""Seconds after which a query is taken for one that may not end, and again until it is ended for that."""
_IDLE: Final = 10.0
"""Seconds without a query after which nobody watches any more."""
_MUCH: Final = 256 << 20
"""Bytes that a query has taken and read nothing meanwhile when it is asked once more."""
_MANY: Final = 10
"""How many times as long as that took, in seconds of its thread's, and 2 more, it goes on until it is ended."""


@dataclass(eq=False)
class _Query:
    location: str
    tables: Tables
    since: float
    is_looked_after: bool = False
    again: Callable[[], object] | None = None
    """Asks the engine once more, and keeps nothing of what it says; None while the query is not asked yet."""
    thread: int = field(default_factory=threading.get_native_id)
    last: _Done = field(default_factory=lambda: _Done(-1, 0.0, 0))
    """What it had done when it was last seen to have read something."""
    is_asked_again: bool = False
    took: float | None = None
    """The seconds that it took when it was asked once more."""

    def ask_again(self) -> None:
        """Ask once more, on a thread of its own."""
        began = time.thread_time()
        with suppress(Exception):
            if self.again is not None:
                self.again()
            self.took = time.thread_time() - began


@dataclass(frozen=True)
class _Done:
    """What the thread of a query has done, and the memory of its process."""

    reads: int
    seconds: float
    memory: int

    @classmethod
    def of(cls, thread: int) -> _Done | None:
        """Return what a thread has done by now; None where the system does not tell."""
        place = Path(f"/proc/self/task/{thread}")
        try:
            reads = next(line for line in (place / "io").read_text().splitlines() if line.startswith("syscr"))
            user, system = (place / "stat").read_text().rpartition(")")[2].split()[11:13]
            pages = Path("/proc/self/statm").read_text().split()[1]
        except (OSError, StopIteration, ValueError):
            return None
        seconds = (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
        return cls(int(reads.split()[1]), seconds, int(pages) * os.sysconf("SC_PAGE_SIZE"))


class _Watch:
    """The queries that run in this process, and the thread that looks after them."""

    def __init__(self) -> None:
        self.running: dict[_Query, None] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._look, name="trails-watch", daemon=True)
                    self._thread.start()

    def _look(self) -> None:
        last = time.monotonic()
        while True:
            time.sleep(_SLEEP)
            now = time.monotonic()
            if self.running:
                last = now
            for each in list(self.running):
                if now - each.since > _LONG and not each.is_looked_after:
                    self._look_after(each)
                if now - each.since > _LONG and each.again is not None:
                    self._compare(each)
            with self._lock:
                if not self.running and now - last > _IDLE:
                    self._thread = None
                    return

    def _look_after(self, query: _Query) -> None:
        query.is_looked_after = True
        damage = query.tables.damage()
        if damage is not None:
            time.sleep(_LONG)
            if query in self.running:
                _end(
                    f"the store {query.location} cannot be read: {damage}; restore a backup, or load its newest export"
                )

    def _compare(self, query: _Query) -> None:
        """Ask once more where a query takes memory and reads nothing; end the process where that proves that it does not end."""
        done = _Done.of(query.thread)
        if done is None:
            return
        if done.reads != query.last.reads:
            query.last = done
        elif not query.is_asked_again and done.memory - query.last.memory > _MUCH:
            query.is_asked_again = True
            threading.Thread(target=query.ask_again, name="trails-ask-again", daemon=True).start()
        elif query.took is not None and done.seconds - query.last.seconds > _MANY * query.took + _LONG:
            if query not in self.running:
                return
            _end(f"the disk of the store {query.location} failed once amid a query, and does not now; open it again")


_watch = _Watch()


def _anew() -> None:
    global _watch  # noqa: PLW0603 - in a forked child no thread of its parent's runs
    _watch = _Watch()


os.register_at_fork(after_in_child=_anew)


@contextmanager
def watched(location: str, tables: Tables | None) -> Iterator[Callable[[Callable[[], object]], None]]:
    """Have a query of a store looked after while it runs: where it does not end since a table is damaged, the process ends.

    Whoever asks says just before by what is given here how it is asked once more.
    """
    if tables is None:
        yield lambda _: None
        return
    watch, query = _watch, _Query(location, tables, time.monotonic())
    watch.running[query] = None
    watch.begin()
    try:
        yield partial(setattr, query, "again")
    finally:
        watch.running.pop(query, None)


def _end(message: str) -> NoReturn:
    with suppress(Exception):  # whatever stands for it, or nothing
        sys.stdout.flush()
    with suppress(Exception):
        sys.stderr.write(
            f"error: {message}\nA query was under way that cannot be ended otherwise: this process ends.\n"
        )
        sys.stderr.flush()
    os._exit(1)
