"""Queries that never end, since the engine cannot read a table: they are found, and end the process.

The engine gives a query that adds up, sorts or walks the same error for ever, and nothing ends the thread that it runs in. It
lets others run meanwhile: so one of them looks after a while whether the tables are as they were written. Where they are not and
the query is still at it, the process ends with a message, before it has taken all the memory there is.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final, NoReturn

from trails.store.tables import Tables

_SLEEP: Final = 0.5
_LONG: Final = 2.0
"""Seconds after which a query is taken for one that may not end, and again until it is ended for that."""
_IDLE: Final = 10.0
"""Seconds without a query after which nobody watches any more."""


@dataclass(eq=False)
class _Query:
    location: str
    tables: Tables
    since: float
    is_looked_after: bool = False


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


_watch = _Watch()


def _anew() -> None:
    global _watch  # noqa: PLW0603 - in a forked child no thread of its parent's runs
    _watch = _Watch()


os.register_at_fork(after_in_child=_anew)


@contextmanager
def watched(location: str, tables: Tables | None) -> Iterator[None]:
    """Have a query of a store looked after while it runs: where it does not end since a table is damaged, the process ends."""
    if tables is None:
        yield
        return
    watch, query = _watch, _Query(location, tables, time.monotonic())
    watch.running[query] = None
    watch.begin()
    try:
        yield
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
