"""The index of one open store: opened when somebody asks, and brought up to date before it answers."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TypeVar

from trails import iris, vocab
from trails.errors import StoreFailed
from trails.plumbing.index import changes, figures, sidefile
from trails.plumbing.index.rows import all_turns, session_row, turns_from
from trails.plumbing.index.sidefile import SideFile
from trails.store import maintenance
from trails.store.contract import QuadStore
from trails.store.embedded import EmbeddedStore
from trails.store.leaflog import NOTHING

FIGURES: Final = "figures.db"
_AT_ONCE: Final = 500
"""Sessions that one transaction brings in."""
_SEALED_AT_ONCE: Final = 32 << 20
"""Bytes up to which a file is sealed after each change; a greater one when it is closed."""
_Answer = TypeVar("_Answer")


def index_of(store: QuadStore) -> Index:
    """Return the index of a store: beside its files where it has any, else in memory."""
    if isinstance(store, EmbeddedStore) and store.location != ":memory:":
        return Index(store, Path(store.location))
    return Index(store, None)


class Index:
    """The index of a store. It never holds more than the store says: what is in doubt is thrown away and read again."""

    def __init__(self, store: QuadStore, folder: Path | None, *, borrowed: bool = False) -> None:
        """Nothing is opened yet. `folder` is the store's own, None for one in memory; `borrowed` one of another process."""
        self._store = store
        self._folder = None if folder is None else folder / maintenance.INDEX
        self._borrowed = borrowed
        self._lock = threading.RLock()
        self._erasing = 0
        """How many are taking something out of the store just now: nothing is sealed meanwhile."""
        self._figures: SideFile | None = None

    # --- figures

    def figures(self, ask: Callable[[SideFile], _Answer]) -> _Answer:
        """Return what a function finds in the figures, which hold all that was committed before this call."""
        with self._lock:
            try:
                return ask(self._up_to_date())
            except sqlite3.Error:  # damaged while it was open
                self._opened().empty()
                return ask(self._up_to_date())

    def _caught_up(self) -> None:
        try:
            self._up_to_date()
        except sqlite3.Error:
            self._opened().empty()

    def _opened(self) -> SideFile:
        if self._figures is None:
            path = None if self._folder is None else self._folder / FIGURES
            self._figures = SideFile(path, figures.SCHEMA, borrowed=self._borrowed)
        return self._figures

    def _up_to_date(self) -> SideFile:
        file = self._opened()
        log = self._store.log
        if not log.holds(file.place):
            file.empty()
        if file.place != log.reached:
            self._store.quads((vocab.RUN, None, None, vocab.CATALOG))  # raises where the store is not to be used
            lines, reached = log.since(file.place)
            wanted = changes.of_lines(lines) if file.place != NOTHING else None
            if wanted is None:
                if file.place != NOTHING:
                    file.empty()
                wanted = dict.fromkeys(self._session_ids(), "anew")
            with file.writing(reached) as database:
                self._bring_in(database, wanted)
            if not self._erasing:
                file.seal(most=_SEALED_AT_ONCE)
        return file

    def _session_ids(self) -> list[str]:
        rows = self._store.quads((None, vocab.TYPE, vocab.SESSION, vocab.CATALOG))
        return [iris.session_id(quad.subject.value) for quad in rows]  # type: ignore[union-attr] # IRIs

    def _bring_in(self, database: sqlite3.Connection, wanted: dict[str, changes.Extent]) -> None:
        writer = figures.Writer(database)
        for session_id, extent in wanted.items():
            known = None if extent == "anew" else writer.known(session_id)
            row = session_row(self._store, session_id)
            if row is None or known is None:
                writer.remove(session_id)
            if row is None:
                continue
            if known is None or extent == "row":
                writer.put(row)
            turns = (
                all_turns(self._store, row) if known is None else turns_from(self._store, row, row.starts_at + known)
            )
            writer.add(row, turns)
        writer.settle()

    # --- upkeep

    @contextmanager
    def erasing(self) -> Iterator[None]:
        """Take out of the index, before this ends, what is taken out of the store meanwhile; on disk, by any name.

        Files are without a seal until then: what a kill leaves of them is thrown away when the store is opened next.
        """
        with self._lock, self._in_words():
            self._erasing += 1
            if self._is_there():
                self._opened().break_seal()
        try:
            yield
        finally:
            with self._lock, self._in_words():
                self._erasing -= 1
                if self._is_there():
                    self._caught_up()
                    if not self._erasing:
                        self._opened().seal(sync=True)

    def sweep(self) -> None:
        """Throw away files that have no seal: whoever wrote them was killed, maybe while something was taken out."""
        if self._folder is not None and not self._borrowed:
            with suppress(OSError):  # where nothing may be written, nothing is read either
                sidefile.sweep(self._folder / FIGURES)

    def empty(self) -> None:
        """Throw all of it away; it is made again when somebody asks."""
        with self._lock, self._in_words():
            if self._is_there():
                self._opened().empty()

    def close(self) -> None:
        """Let go of the files. What was committed since somebody last asked is brought in by the next one who asks."""
        with self._lock, suppress(sqlite3.Error):
            if self._figures is not None:
                self._figures.close()
                self._figures = None

    def _is_there(self) -> bool:
        return self._figures is not None or (self._folder is not None and (self._folder / FIGURES).exists())

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StoreFailed(
                f"the index of the store {self._store.location} cannot be changed ({error}), and would keep what is taken "
                f"out; remove the folder {self._folder}: it is made again"
            ) from error
