"""The default store: pyoxigraph in memory or in a folder, with one owning process and one write lock.

The engine's own promises are narrower than they look (concurrent updates lose data, nothing is synced, a forked child
destroys the parent's data): every write goes through `commit` here, and each rule says which fact it answers.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import IO, Final

import pyoxigraph as ox

from trails import vocab
from trails.errors import InvalidInput, StoreFailed, TrailsError
from trails.integrity.leaves import Leaf
from trails.store import maintenance, marker, tsv
from trails.store.contract import Change, Durability, Pattern, PreconditionFailed, Result, Solutions
from trails.store.gate import Gate
from trails.store.journal import Journal
from trails.store.leaflog import LeafLog, sync_folder
from trails.store.lockfile import LockFile
from trails.store.maintenance import Vacuumed

_FLUSH_AFTER: Final = 20_000
"""Quads between background flushes: unflushed, memory and reopening time grow without bound."""
_LINGERING: Final = 5.0
"""Seconds that an engine of this process, which nobody uses any more, may take to go."""
_DROP_STEP: Final = 20
"""Subjects (of some ten quads) that one step of dropping a graph removes: it holds the write lock for well under 50 ms."""


class EmbeddedStore:
    """Quads in this process: in memory (`path` None) or in a folder that only this process may open."""

    def __init__(self, path: Path | None, *, create: bool = False, durability: Durability = "disk") -> None:
        if durability not in ("disk", "process"):
            raise InvalidInput(f'durability is "disk" or "process", not {durability!r}')
        self._path = path
        self._durability = durability
        self._pid = os.getpid()
        self._write_lock = threading.RLock()
        self._log_lock = threading.Lock()
        self._flush_lock = threading.Lock()
        self._gate = Gate()
        self._unlogged: deque[tuple[int, Sequence[Leaf]]] = deque()
        self._failed: str | None = None
        self._removals = 0
        self._unflushed = 0
        self._flusher: threading.Thread | None = None
        self._lock_file: LockFile | None = None
        self._journal: Journal | None = None
        self._store: ox.Store | None = None
        if path is None:
            self._store = ox.Store()
            self._log = LeafLog(None)
            return
        _OPENED.add(self)
        try:
            self._open_folder(path, create=create)
        except BaseException as error:
            self._store = None
            if self._lock_file is not None:
                self._lock_file.release()
            if isinstance(error, OSError):
                raise StoreFailed(f"the store {self.location} cannot be opened: {error}") from error
            raise

    def _open_folder(self, path: Path, *, create: bool) -> None:
        _prepare_folder(path, create=create)
        self._lock_file = LockFile(path / maintenance.LOCK)
        maintenance.recover(path)
        self._open_engine(path / maintenance.QUADS)
        self._log = LeafLog(path / maintenance.LOG)

    def _open_engine(self, folder: Path) -> None:
        try:
            self._store = _engine_at(folder)
        except (OSError, RuntimeError) as error:
            raise StoreFailed(
                f"the store {self.location} cannot be opened: {error}; restore a backup, or load its newest export"
            ) from error
        for left_over in folder.glob("LOG.old.*"):  # the engine leaves one behind at every opening
            left_over.unlink(missing_ok=True)
        maintenance.keep_private(folder)
        if self._journal is None:
            self._journal = Journal(folder)
        else:
            self._journal.follow(folder)

    def abandon(self) -> None:
        """Let go, in a forked child, of what belongs to the parent: its lock, which must not outlive it here.

        The engine is never ended in a child: that would wait for ever for threads that only the parent has.
        """
        if self._store is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._store))
        if self._lock_file is not None:
            self._lock_file.release()

    @property
    def location(self) -> str:
        return ":memory:" if self._path is None else str(self._path)

    @property
    def log(self) -> LeafLog:
        return self._log

    @property
    def removals(self) -> int:
        return self._removals

    def __len__(self) -> int:
        with self._gate:
            return len(self._engine())

    def _engine(self) -> ox.Store:
        if os.getpid() != self._pid:
            raise StoreFailed(
                f"the store {self.location} was opened before this process was forked, and using it here would destroy "
                "what the parent process wrote; open it in one process only, after forking"
            )
        if self._store is None and self._failed is None:
            raise StoreFailed(f"the store {self.location} is closed; open it again")
        if self._store is None or self._failed is not None:
            raise StoreFailed(
                f"the store {self.location} failed while writing ({self._failed}) and takes no more work; "
                "close it, open it again, and repeat what was not acknowledged"
            )
        return self._store

    def query(self, text: str, *, union: bool = False) -> Result:
        """Return all results of a SPARQL query, materialised: a live iterator on another thread aborts the process."""
        with self._asking():
            result = self._engine().query(text, use_default_graph_as_union=union, prefixes=vocab.PREFIXES)
            if isinstance(result, ox.QuerySolutions):
                return Solutions(tuple(variable.value for variable in result.variables), list(result))
            return bool(result) if isinstance(result, ox.QueryBoolean) else list(result)

    def table(self, text: str) -> list[list[str]]:
        with self._asking():
            result = self._engine().query(text, prefixes=vocab.PREFIXES)
            assert isinstance(result, ox.QuerySolutions)  # noqa: S101 - only the project's own SELECTs come here
            data = result.serialize(format=ox.QueryResultsFormat.TSV)
        return tsv.table(data or b"")

    @contextlib.contextmanager
    def _asking(self) -> Iterator[None]:
        try:
            with self._gate:
                yield
        except SyntaxError as error:
            raise InvalidInput(f"the query is not valid SPARQL: {error}") from error
        except (OSError, RuntimeError, ValueError) as error:
            raise TrailsError(f"the query failed in the store {self.location}: {error}") from error

    def quads(self, pattern: Pattern) -> list[ox.Quad]:
        with self._gate:
            engine = self._engine()
            with self._reading():
                return list(_matching(engine, pattern))

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except (OSError, RuntimeError) as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> StoreFailed:
        return StoreFailed(f"the store {self.location} cannot be read: {error}; restore a backup")

    def commit(self, change: Change) -> bool:
        with self._write_lock:
            engine = self._engine()
            if not self._is_due(engine, change):
                return False
            try:
                self._write(engine, change)
                ticket = self._journal.wrote() if self._journal else 0
                self._unlogged.append((ticket, change.leaves(self) if change.leaves else ()))
            except BaseException as error:
                self._fail_as_interrupted(error)
                raise
        try:
            self._make_durable(ticket)
        except BaseException as error:
            self._fail_as_interrupted(error)
            raise
        self._flush_when_due(len(change.add) + len(change.remove))
        return True

    def _is_due(self, engine: ox.Store, change: Change) -> bool:
        """Tell whether a change is still to be written; raise `PreconditionFailed` where it may not be."""
        try:
            unmet = _unmet(engine, change, self._removals)
            if unmet is not None and _happened(engine, change):
                return False
        except (OSError, RuntimeError) as error:
            raise self._unreadable(error) from error
        if unmet is not None:
            raise unmet
        return True

    def _fail_as_interrupted(self, error: BaseException) -> None:
        """Let a store go on only with commits that are written and logged: also Ctrl-C may come between the two."""
        if self._failed is None:
            self._failed = f"interrupted by {error!r}"

    def _write(self, engine: ox.Store, change: Change) -> None:
        try:
            self._log.begin()
            if change.remove:
                self._removals += 1
                engine.update(_update_text(change))
            else:
                engine.extend(change.add)
        except (OSError, RuntimeError) as error:
            # The engine's error state lasts until it is reopened, and the write may have happened all the same.
            self._failed = str(error)
            self._engine()

    def _make_durable(self, ticket: int) -> None:
        """Sync what was written, then log it: after a power cut the log never speaks of what the store has lost."""
        try:
            if self._journal is not None and self._durability == "disk":
                ticket = self._journal.sync(ticket)
            self._log_up_to(ticket)
        except OSError as error:
            self._failed = str(error)
        if self._failed is not None:  # whoever's leaf another thread could not write is not told of success either
            self._engine()

    def _log_up_to(self, ticket: int) -> None:
        """Write the leaves of all commits up to a ticket, in the order of the commits."""
        with self._log_lock:
            due: list[Leaf] = []
            while self._unlogged and self._unlogged[0][0] <= ticket:
                due += self._unlogged.popleft()[1]
            self._log.append(due)

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Keep other threads from writing, with everything written so far logged."""
        with self._write_lock:
            self._engine()
            self._make_durable(self._journal.wrote() if self._journal else 0)
            yield

    def load_new_graph(self, quads: Sequence[ox.Quad]) -> None:
        with self._write_lock:
            engine = self._engine()
            try:
                self._log.begin()
                with self._flush_lock:
                    engine.bulk_extend(quads)
            except (OSError, RuntimeError) as error:
                self._failed = str(error)
                self._engine()

    def drop_graph(self, graph: ox.NamedNode) -> int:
        removed = 0
        while subjects := self._subjects(graph):
            for start in range(0, len(subjects), _DROP_STEP):
                removed += self._drop(graph, subjects[start : start + _DROP_STEP])
        with self._write_lock:
            self._forget_graph(self._engine(), graph)
        return removed

    def _subjects(self, graph: ox.NamedNode) -> list[ox.NamedNode | ox.BlankNode | ox.Triple]:
        with self._gate:
            engine = self._engine()
            with self._reading():
                return list(dict.fromkeys(quad.subject for quad in engine.quads_for_pattern(None, None, None, graph)))

    def _drop(self, graph: ox.NamedNode, subjects: Sequence[ox.NamedNode | ox.BlankNode | ox.Triple]) -> int:
        """Remove a few subjects: looked up one by one, because a scan has to pass over all that was removed before."""
        with self._write_lock:
            engine = self._engine()
            with self._reading():
                doomed = [quad for each in subjects for quad in engine.quads_for_pattern(each, None, None, graph)]
            self._write(engine, Change(remove=doomed))
            if self._journal:
                self._journal.wrote()
        self._flush_when_due(len(doomed))
        return len(doomed)

    def _forget_graph(self, engine: ox.Store, graph: ox.NamedNode) -> None:
        self._removals += 1
        try:
            engine.remove_graph(graph)
        except (OSError, RuntimeError) as error:
            self._failed = str(error)
            self._engine()

    def _flush_when_due(self, written: int) -> None:
        self._unflushed += written
        if self._path is None or self._unflushed < _FLUSH_AFTER or (self._flusher and self._flusher.is_alive()):
            return
        self._unflushed = 0
        self._flusher = threading.Thread(target=self._flush_in_background, name="trails-flush", daemon=True)
        self._flusher.start()

    def _flush_in_background(self) -> None:
        with self._gate:
            if self._store is None:
                return
            try:
                with self._flush_lock:
                    self._store.flush()
                self._log.sync()
                self._keep_private()
            except (OSError, RuntimeError) as error:
                self._failed = str(error)

    def flush(self) -> None:
        with self._gate:
            engine = self._engine()
            if self._path is None:
                return
            try:
                with self._flush_lock:  # two flushes at once can wait for each other in the engine for ever
                    engine.flush()
                self._log.sync()
                self._keep_private()
            except (OSError, RuntimeError) as error:
                self._failed = str(error)
                self._engine()

    def _keep_private(self) -> None:
        if self._path is not None:
            maintenance.keep_private(self._path / maintenance.QUADS)

    # --- upkeep

    def vacuum(self) -> Vacuumed:
        """Rebuild the store's files from what is in it, so that nothing deleted is in any of them.

        Other threads read on meanwhile, and write when it is done. A crash at any point leaves the old store or the new.
        Takes as much free space again as the store has. In memory, there is nothing to do. Raises `StoreFailed` where
        the disk refuses; the store goes on as it was.
        """
        with self.hold():
            if self._path is None:
                return Vacuumed(len(self), 0, 0)
            if self._flusher is not None:
                self._flusher.join()
            before = maintenance.size_of(self._path)
            try:
                count = maintenance.rebuild(self._engine(), self._path)
            except (OSError, RuntimeError) as error:
                raise StoreFailed(f"{self.location} cannot be rebuilt ({error}); it was left as it was") from error
            with self._gate.alone():
                self._swap_engine(self._path)
            maintenance.drop_old(self._path)
            return Vacuumed(count, before, maintenance.size_of(self._path))

    def _swap_engine(self, path: Path) -> None:
        try:
            self._store = None
            gc.collect()  # the engine has no close(): it goes when nothing refers to it any more
            maintenance.swap(path)
            self._open_engine(path / maintenance.QUADS)
        except BaseException as error:
            self._failed = f"interrupted by {error!r}"
            self._store = None
            with contextlib.suppress(OSError):
                self._log.close(in_good_order=False)
            self._release()
            raise

    def backup(self, destination: Path) -> None:
        """Write a whole copy of the store, as it is now, into a new folder; other threads go on.

        Raises `InvalidInput` where something stands at `destination`, or the store is in memory.
        """
        if self._path is None:
            raise InvalidInput("a store in memory has no files to back up; dump it")
        maintenance.refuse_inside(self._path, destination)
        try:
            with maintenance.staged(destination) as part:
                stage = maintenance.stage_for(self._path, part)
                with self.hold(), self._flush_lock:
                    self._engine().backup(str(stage))
                    log = (self._path / maintenance.LOG).read_bytes()
                note = (self._path / marker.NAME).read_bytes()
                maintenance.finish_backup(part, stage, note=note, log=log)
        except (OSError, RuntimeError) as error:
            raise StoreFailed(f"{self.location} cannot be backed up to {destination}: {error}") from error

    def load(self, source: IO[bytes]) -> None:
        """Add all quads of an N-Quads file, not atomically: for a new store. The file's own errors are raised as they are."""
        with self._write_lock, self._flush_lock:
            self._engine().bulk_load(source, ox.RdfFormat.N_QUADS)

    def dump(self, out: IO[bytes]) -> None:
        """Write all quads, as they are at one moment, as N-Quads in no order."""
        with self._gate:
            engine = self._engine()
            with self._reading():
                engine.dump(out, ox.RdfFormat.N_QUADS)

    def close(self) -> None:
        if self._store is None or os.getpid() != self._pid:
            return
        with self._write_lock:
            if self._flusher is not None:
                self._flusher.join()
            try:
                if self._failed is None:
                    self.flush()
                    self._log_up_to(sys.maxsize)
            finally:
                self._store = None
                gc.collect()  # the engine has no close(): it goes when nothing refers to it any more
                with contextlib.suppress(OSError):
                    self._keep_private()  # what it wrote in the background until then
                with contextlib.suppress(OSError):  # a log without its last leaf is caught up with at the next opening
                    self._log.close(in_good_order=self._failed is None)
                self._release()

    def _release(self) -> None:
        if self._journal is not None:
            self._journal.close()
        if self._lock_file is not None:
            self._lock_file.release()


_OPENED: Final[weakref.WeakSet[EmbeddedStore]] = weakref.WeakSet()


def _abandon_all() -> None:
    """In a forked child: let go of all stores, and have it end without the engine's own clean-up.

    That clean-up waits for, or trips over, threads that only the parent has: the child would hang or die of SIGSEGV after
    all its work was done. A handler that ends the process with the status that it was given runs before it.
    """
    for store in (opened := list(_OPENED)):
        store.abandon()
    libc = ctypes.CDLL(None)
    if opened and hasattr(libc, "on_exit"):  # the GNU C library has it
        libc.on_exit(ctypes.cast(libc._exit, ctypes.c_void_p), None)


os.register_at_fork(after_in_child=_abandon_all)


def _engine_at(folder: Path) -> ox.Store:
    """Open the engine, waiting for a moment where an earlier one of this process is still on its way out.

    The engine has no close: it goes when nothing refers to it, and a frame of a past error may still do so.
    """
    deadline = time.monotonic() + _LINGERING
    while True:
        try:
            return ox.Store(str(folder))
        except OSError as error:
            if "lock hold by current process" not in str(error) or time.monotonic() > deadline:
                raise
        gc.collect()
        time.sleep(0.01)


def _prepare_folder(path: Path, *, create: bool) -> None:
    """Make sure that `path` is a store's folder, creating one only when asked to; nothing else is ever touched."""
    if (path / marker.NAME).is_file():
        marker.check(path)
        return
    if path.exists() and not path.is_dir():
        raise InvalidInput(f"{path} is a file, not a Trails store; name a folder")
    if path.is_dir() and not _is_barely_begun(path):
        raise InvalidInput(
            f"the folder {path} is no Trails store ({marker.NAME} is missing) and is not empty; name another"
        )
    if not create:
        raise InvalidInput(f"there is no Trails store at {path}; check the path, or create one (create=True, --create)")
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.chmod(0o700)
    quads = path / "quads"
    quads.mkdir(mode=0o700, exist_ok=True)
    note = {"format": marker.FORMAT, "created": datetime.now(UTC).isoformat(timespec="seconds")}
    marker.write(path, note)  # last: a folder with it is a whole store
    sync_folder(path.parent)


def _is_barely_begun(path: Path) -> bool:
    """Tell whether a folder is empty, or all that it holds is what a killed process left of making a store in it."""
    quads = path / "quads"
    others = {entry.name for entry in path.iterdir()} - {quads.name, f"{marker.NAME}.new"}
    return not others and (not quads.exists() or (quads.is_dir() and not any(quads.iterdir())))


def _unmet(engine: ox.Store, change: Change, removals: int) -> PreconditionFailed | None:
    if change.seen != removals:
        for quad in change.require:
            if quad not in engine:
                return PreconditionFailed(missing=quad)
    for pattern in change.forbid:
        present = next(_matching(engine, pattern), None)
        if present is not None:
            return PreconditionFailed(present=present)
    return None


def _matching(engine: ox.Store, pattern: Pattern) -> Iterator[ox.Quad]:
    """Yield the quads that match a pattern, and only those.

    On disk, the engine (0.5.13) follows the quads with an integer of which the last byte is 255 with up to 255 others,
    whose integers are greater.
    """
    found = engine.quads_for_pattern(*pattern)
    wanted = pattern[2]
    if not isinstance(wanted, ox.Literal) or wanted.datatype != vocab.INTEGER:
        return found
    if pattern[1] is None or pattern[3] is None:
        return (quad for quad in found if quad.object == wanted)
    return takewhile(lambda quad: quad.object == wanted, found)  # those that match come first


def _happened(engine: ox.Store, change: Change) -> bool:
    return (
        bool(change.add or change.remove)
        and all(quad in engine for quad in change.add)
        and not any(quad in engine for quad in change.remove)
    )


def _update_text(change: Change) -> str:
    """Return one SPARQL update for a change. Terms are rendered by the engine itself, which escapes them."""
    parts = []
    for verb, quads in (("DELETE DATA", change.remove), ("INSERT DATA", change.add)):
        if quads:
            rows = (
                f"{q.subject} {q.predicate} {q.object} ."
                if q.graph_name == vocab.CATALOG
                else f"GRAPH {q.graph_name} {{ {q.subject} {q.predicate} {q.object} }}"
                for q in quads
            )
            parts.append(f"{verb} {{ {' '.join(rows)} }}")
    return " ; ".join(parts)
