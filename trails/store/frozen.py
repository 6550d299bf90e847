"""A copy of a store's engine as it was at one moment, made in no time: its tables are links to those of the store.

The tables are never changed in place, so what is removed from the copy or added to it is in files of its own. It is in the
private folder of this process's engine. What is deleted from the store stays in the tables that it links to: so it is let go
when text is removed from the store for good.
"""

from __future__ import annotations

import os
import secrets
import shutil
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import pyoxigraph as ox

from trails.errors import QueryEnded, StoreFailed
from trails.store import engines, querypool
from trails.store.gate import Gate
from trails.store.pattern import Pattern
from trails.store.querypool import Source
from trails.store.reading import EngineReader

_PATIENCE: Final = 0.2
"""Seconds that a query from outside is waited for before the files that it reads go."""


class LetGo(QueryEnded):
    """The copy was let go meanwhile: whoever needs one makes another."""


class Frozen(EngineReader):
    """Quads in a copy of an engine's files, which goes with this object, at the latest."""

    def __init__(self, engine: ox.Store, parent: Path, location: str) -> None:
        """Copy the files of an engine into a new folder within `parent`, while nobody writes or flushes.

        Raises OSError or RuntimeError if the disk or the file system refuses.
        """
        self._location = location
        self._pid = os.getpid()
        self._gate = Gate()
        self._lock = threading.RLock()
        """Held by whoever changes it or lets it go. Whoever holds it waits for no lock of the store's."""
        self._is_gone = False
        self._held: list[ox.Store] = []
        self._source: Source | None = None
        parent.mkdir(mode=0o700, exist_ok=True)
        self._folder = parent / secrets.token_hex(8)
        self._drop = weakref.finalize(self, _remove, self._held, self._folder, self._pid)
        engine.backup(str(self._folder))

    @property
    def location(self) -> str:
        return self._location

    @property
    def is_gone(self) -> bool:
        """Whether it was let go."""
        return self._is_gone

    def source(self, text: str, *, graph: ox.NamedNode | ox.BlankNode | None = None, union: bool = False) -> Source:
        self._settle()
        with self._lock:
            if self._source is None:
                self._source = self._quads_of(0)
            return self._source

    def _settle(self, pattern: Pattern | None = None) -> None:
        if os.getpid() != self._pid:  # before any lock is taken, which somebody may hold in the parent
            raise StoreFailed(
                f"{self._location} was opened before this process was forked; open it again in this process"
            )

    def _engine(self) -> ox.Store:
        if self._is_gone or not self._held:
            raise LetGo(f"the copy that {self._location} is read from was let go")
        return self._held[0]

    def change(self, work: Callable[[ox.Store], bool]) -> bool:
        """Open it and have it changed, before anybody reads it; return what that returns. It is let go where that is False.

        Raises OSError or RuntimeError where the disk refuses, `LetGo` where it was let go before.
        """
        is_done = False
        with self._lock:
            try:
                if self._is_gone:
                    raise LetGo(f"the copy that {self._location} is read from was let go")
                self._held.append(ox.Store(str(self._folder)))
                is_done = work(self._held[0])
            finally:
                if not is_done:
                    self.let_go()
        return is_done

    def let_go(self) -> None:
        """Let go of the engine and remove the files, once the queries that run here have ended. Twice is allowed."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            if not self._is_gone:
                self._is_gone = True
                self._source = None
                querypool.end(self, LetGo(f"the copy that {self._location} is read from was let go"), _PATIENCE)
                self._gate.alone(self._held.clear)
                self._drop()

    def abandon(self) -> None:
        """In a forked child: never end the engine, which would wait for threads that only the parent has."""
        for engine in self._held:
            engines.keep_for_ever(engine)


def _remove(held: list[ox.Store], folder: Path, pid: int) -> None:
    """End an engine, and remove its files and the folder of all copies where this was the last; never the parent process's."""
    if os.getpid() == pid:
        held.clear()
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):
            folder.parent.rmdir()
