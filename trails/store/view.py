"""A store that is read beside its owner: it holds what was there at one moment, until it is refreshed."""

from __future__ import annotations

import os
import threading
import weakref
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, NoReturn

import pyoxigraph as ox

from trails.errors import QueryEnded, StoreFailed
from trails.store import embedded, engines, folders, lockfile, maintenance, marker, position, querypool
from trails.store.commitlog import NAMES
from trails.store.contract import Change, Committed, QuadStore, read_only
from trails.store.gate import Gate
from trails.store.leaflog import LeafLog
from trails.store.look import Moment, look, refuse_unreadable
from trails.store.querypool import Source
from trails.store.reading import EngineReader
from trails.store.syncing import sync_data
from trails.store.tables import Tables


class ViewStore(EngineReader):
    """The quads of a store in a folder, which another process may have open, as they were at one moment.

    Nothing of the owner's is written, locked or renamed. What writes raises `StoreReadOnly` before anything is asked.
    """

    def __init__(self, path: Path) -> None:
        """Look at a store. Raises `InvalidInput` where there is none, else what `trails.store.look.look` raises."""
        self._path = folders.absolute(path)
        self._pid = os.getpid()
        self._gate = Gate()
        self._refreshing = threading.RLock()
        self._removals = 0
        self._moment: Moment | None = self._look()
        _OPENED.add(self)

    def _look(self) -> Moment:
        try:
            folders.prepare(self._path, create=False)
            self._tables = Tables(self._path / maintenance.QUADS)
            engines.refuse_damaged(self._path, self._tables)
            return look(self._path)
        except (OSError, StoreFailed) as error:
            refuse_unreadable(self._path, error)
            if isinstance(error, StoreFailed):
                raise
            raise StoreFailed(f"the store {self.location} cannot be opened: {error}") from error

    @property
    def location(self) -> str:
        return str(self._path)

    @property
    def folder(self) -> Path:
        return self._path

    @property
    def log(self) -> LeafLog:
        return self._held().log

    @property
    def number(self) -> int:
        return self._held().number

    @property
    def token(self) -> object:
        return self._removals

    @property
    def is_beside_owner(self) -> bool:
        """Whether the store was open elsewhere when it was looked at, so that there may be more by now."""
        return not self._held().told.is_closed

    @property
    def has_living_owner(self) -> bool:
        """Whether somebody may have had the store open when it was looked at: True wherever that cannot be told."""
        return self.is_beside_owner and lockfile.may_live(self._path / maintenance.LOCK)

    @property
    def older(self) -> dict[str, Any] | None:
        """What was written in an older format, as `EmbeddedStore.older` says it."""
        return marker.older(self._held().told.note, len(self.log.lines()))

    def _held(self) -> Moment:
        if os.getpid() != self._pid:
            raise StoreFailed(
                f"the store {self.location} was opened before this process was forked; open it again in this process"
            )
        if self._moment is None:
            raise StoreFailed(f"the store {self.location} is closed; open it again")
        return self._moment

    def _engine(self) -> ox.Store:
        engine = self._held().engine
        assert engine is not None  # noqa: S101 - a moment that is held has one
        return engine

    def source(self, text: str, *, graph: ox.NamedNode | ox.BlankNode | None = None, union: bool = False) -> Source:
        with self._gate:  # so that all of it is of one moment
            held, version = self._held(), self._removals
            made = self._quads_of(version)
            made.folder, made.held = str(held.folder), held.engine  # a moment whose engine is used stays
            return made

    # --- the moment

    @engines.let_go
    def refresh(self) -> bool:
        """See what was acknowledged before this call; return whether there are commits that were not seen before.

        Queries that run go on with what they began with. Where that fails, what was seen stays. The
        files that a vacuum replaced are let go, also where nothing was committed.
        """
        with self._refreshing:
            before = self._held()
            if not self._is_behind(before):
                return False
            seen = before.number, before.log.reached
            made = self._look()
            self._put(made)
            before.close()
            return seen != (made.number, made.log.reached)

    def _is_behind(self, held: Moment) -> bool:
        told, then = position.read(self._path / maintenance.POSITION, held.told.store_id), held.told.position
        if told is None or then is None or told.opening != then.opening or told.recorded != held.number:
            return True
        try:
            return not os.path.samestat((self._path / maintenance.QUADS).stat(), held.told.folder)
        except OSError:
            return True

    def _put(self, moment: Moment | None) -> None:
        self._moment = moment
        self._removals += 1

    def hold(self) -> AbstractContextManager[object]:
        """Return what keeps other threads from refreshing while it is held; nobody writes here."""
        self._held()
        return self._refreshing

    @engines.let_go
    def close(self) -> None:
        if os.getpid() != self._pid:
            return
        with self._refreshing:
            before = self._moment
            if before is not None:
                querypool.end(self, QueryEnded(f"the query in {self.location} was ended: the store was closed"))
                self._put(None)
                before.close()

    def abandon(self) -> None:
        """Let go, in a forked child, of what must not outlive its parent here; the engine is never ended in a child."""
        if self._moment is not None:
            engines.keep_for_ever(self._moment.engine)

    # --- what writes

    def commit(self, change: Change) -> Committed:
        self._refuse()

    def flush(self) -> None:
        """Return once the commits that are seen here are on disk: the system is asked for it, and no file is changed."""
        self._held()
        try:
            for name in (*(f"{maintenance.COMMITS}/{name}" for name in NAMES), maintenance.LOG):
                descriptor = os.open(self._path / name, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    sync_data(descriptor)
                finally:
                    os.close(descriptor)
        except OSError as error:
            raise StoreFailed(f"the store {self.location} cannot be brought to disk: {error}") from error

    def _refuse(self) -> NoReturn:
        self._held()
        raise read_only(self.location, "open it without, in one process at a time")


def seen_at(store: QuadStore) -> Path | None:
    """Return the folder of which another process can have a view that says what a store says; None for one in memory."""
    return store.folder if isinstance(store, ViewStore) else getattr(store, "beside", None)


def is_read_only(store: QuadStore) -> bool:
    """Tell whether a store was opened to be read."""
    return isinstance(store, ViewStore) or (isinstance(store, embedded.EmbeddedStore) and store.is_read_only)


_OPENED: Final[weakref.WeakSet[ViewStore]] = weakref.WeakSet()


def _abandon_all() -> None:
    for view in list(_OPENED):
        view.abandon()


os.register_at_fork(after_in_child=_abandon_all)
