"""The store: pyoxigraph in memory or in a folder, with one owning process and one write lock, as the index of a log.

Where the log is its own, in the same folder or in memory, that is the whole store; else others write to it, too, each with
an index like this one (`log.py`).

The engine's own promises are narrower than they look (concurrent updates lose data, nothing is synced, a forked child
destroys the parent's data): every write goes through `commit` here, and each rule says which fact it answers.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, Any, Final

import pyoxigraph as ox

from trails.errors import InvalidInput, QueryEnded, StoreFailed
from trails.integrity.leaves import Leaf
from trails.store import capture, engines, folders, forked, maintenance, manifest, marker, querypool
from trails.store.applying import Applier
from trails.store.commitlog import RecordFiles
from trails.store.committing import Batch, Settled, Waiting, steps
from trails.store.contract import Change, Committed, Durability, read_only
from trails.store.flushing import Backlog, Follower
from trails.store.frames import BULK, LOADED, RELAXED, CommitRecord
from trails.store.frozen import Frozen
from trails.store.gate import Gate
from trails.store.leaflog import LeafLog
from trails.store.lockfile import LockFile
from trails.store.log import CommitLog, OwnLog
from trails.store.maintenance import Vacuumed
from trails.store.nearby import drop_at_once
from trails.store.news import News
from trails.store.pattern import Pattern
from trails.store.position import Posted
from trails.store.querypool import Source
from trails.store.reading import EngineReader
from trails.store.replay import drop_engine_log, replay, update_text
from trails.store.tables import Tables

_REST: Final = 2.0
"""Seconds without a commit after which what is unflushed is brought into the engine's files, where it is worth it."""
_WRITERS: Final = 10_000
"""Graphs of which it is remembered who wrote to them last."""
_LOADED: Final = 20_000
"""Lines of a dump that one commit adds, where it is logged."""
_CAME: Final = 20_000
"""Quads, some 8 MB of them, that were added last and are kept in mind, for whoever brings what he read up to date."""
_SMALL: Final = 2 << 20
"""Bytes of the engine's files up to which their quads are sent to whoever asks in a process of his own: some 3,000 of them."""
_PATIENCE: Final = 0.5
"""Seconds that a query from outside is waited for, before what it reads is taken away."""
_SOON: Final = 1.0
"""Seconds that whoever wants a copy of the engine waits for a flush."""
_DROP_STEP: Final = 20
"""Subjects (of some ten quads) that one step of dropping a graph removes: it holds the write lock for well under 50 ms."""


class EmbeddedStore(EngineReader):
    """Quads in this process: in memory (`path` None) or in a folder that only this process may open.

    They are the index of a log: of its own records unless another one is given.
    """

    _source: Source | None = None
    """What the last query from outside was asked of."""

    def __init__(
        self,
        path: Path | None,
        *,
        create: bool = False,
        durability: Durability = "disk",
        accept: int = marker.FORMAT,
        commits: CommitLog | None = None,
        timeout: float = 0.0,
    ) -> None:
        """Open a store; `accept` says in which format a folder may be: an older one while it is upgraded, under its lock.

        Where another process has it, that is waited for up to `timeout` seconds.
        """
        if durability not in ("disk", "process"):
            raise InvalidInput(f'durability is "disk" or "process", not {durability!r}')
        path = None if path is None else folders.absolute(path)
        self._path = path
        self._commits: CommitLog = OwnLog() if commits is None else commits
        self._durability = durability
        self._pid = os.getpid()
        self._write_lock = threading.RLock()
        self._flush_lock = threading.Lock()
        """Held by whoever flushes, or changes the engine for another. Taken before the write lock, by whoever takes both."""
        self._ingest_lock = threading.Lock()
        """Keeps the engine's flush and its bulk loader, which flushes too, apart: together they may hang."""
        self._gate = Gate()
        self._engine_gate = Gate()
        """Whoever reads the quads of a pattern is inside, whatever is loaded meanwhile; whoever exchanges the engine is alone."""
        self._source_lock = threading.Lock()
        self._waiting: deque[Waiting] = deque()
        self._failed: str | None = None
        self._removals = 0
        self._backlog = Backlog(self._flush_if_well, self._tell_follower)
        self._loaded = False
        """Whether quads came in that no record has: those of a dump."""
        self._follower: Follower | None = None
        self._lock_file: LockFile | None = None
        self._files: RecordFiles | None = None
        self._posted: Posted | None = None
        self._committed = 0
        self._applier = Applier(self._apply, self._flush_at_rest, _REST) if path is not None else None
        self._writers: dict[object, object] = {}
        self._news, self._copies = News(_CAME), weakref.WeakSet[Frozen]()  # copies may hold what is erased here
        self._id = bytes(16)
        self._is_older = False
        """Whether the store is of an older format, until the first commit."""
        self._store: ox.Store | None = None
        self._log = LeafLog(None)
        if path is None:
            self._store = ox.Store()
            return
        forked.remember(self)
        try:
            self._open_folder(path, create=create, accept=accept, timeout=timeout)
        except BaseException as error:  # an interrupt too: the lock is let go
            self._store = None
            self._release()
            if isinstance(error, NotADirectoryError):
                raise InvalidInput(
                    f"no store can be at {self.location}: part of that path is a file; name a folder"
                ) from error
            if isinstance(error, OSError):
                raise StoreFailed(f"the store {self.location} cannot be opened: {error}") from error
            raise

    def _open_folder(self, path: Path, *, create: bool, accept: int, timeout: float) -> None:
        folders.prepare(path, create=create, accept=accept)
        if accept == marker.FORMAT:
            self._lock_file = LockFile(path / maintenance.LOCK, timeout)
            marker.check(path, accept)  # whoever was waited for may have upgraded it
        for left in (path / maintenance.QUADS, *maintenance.left_over(path)):
            engines.wait_until_gone(left)
        maintenance.recover(path)
        self._id = marker.store_id(path)
        self._is_older = accept == marker.FORMAT and marker.read(path)["format"] < marker.FORMAT
        self._files = RecordFiles(path / maintenance.COMMITS, self._id)
        found = self._files.records
        self._files.secure()
        self._posted = Posted(path / maintenance.POSITION, self._id, self._files.last)  # before any file is touched
        manifest.trim(path / maintenance.QUADS)
        if found:
            drop_engine_log(path / maintenance.QUADS)
        self._open_engine(path / maintenance.QUADS)
        assert self._store is not None  # noqa: S101 - opened just now
        with self._writing():
            replay(self._store, found)
        self._backlog.found(sum(frame.record.add.count(b"\n") + frame.record.remove.count(b"\n") for frame in found))
        self._log = LeafLog(
            path / maintenance.LOG,
            self._files.base,
            [line for each in found for line in each.record.leaves],
            believe=not any(each.record.flags & RELAXED for each in found),
        )
        if not self._commits.is_shared:
            self._log.keep_in_place(self._files.places)
        if self._log.went_on:
            self._flush(self._store, always=True)  # the records to come go on from those lines
        self._posted.applied(self._files.last)
        self._committed = self._files.last

    def _open_engine(self, folder: Path) -> None:
        self._tables = Tables(folder)
        engines.refuse_damaged(folder.parent, self._tables)
        self._tables.open()
        try:
            self._store = engines.open_at(folder)
        except (OSError, RuntimeError) as error:
            raise engines.unreadable(folder.parent, error) from error
        for left_over in folder.glob("LOG.old.*"):  # the engine leaves one behind at every opening
            left_over.unlink(missing_ok=True)
        maintenance.keep_private(folder)
        manifest.note(folder, sync=self._durability == "disk")

    def abandon(self) -> None:
        """Let go, in a forked child, of what belongs to the parent: its lock, which must not outlive it here.

        The engine is never ended in a child: that would wait for ever for threads that only the parent has.
        """
        engines.keep_for_ever(self._store)
        for each in list(self._copies):
            each.abandon()
        if self._lock_file is not None:
            self._lock_file.release()

    @property
    def commits(self) -> CommitLog:
        """The log of which this is an index."""
        return self._commits

    @property
    def is_read_only(self) -> bool:
        """Whether the store was opened to be read: what writes raises `StoreReadOnly`."""
        return self._commits.is_read_only

    def _refuse_read_only(self) -> None:
        if self._commits.is_read_only:
            self._engine()
            raise read_only(self.location)

    @property
    def location(self) -> str:
        return self._commits.location or (":memory:" if self._path is None else str(self._path))

    @property
    def folder(self) -> Path | None:
        return None if self._commits.is_shared else self._path

    @property
    def beside(self) -> Path | None:
        """The folder of the index, beside whose files what is derived from the store may stand; None for one in memory."""
        return self._path

    @property
    def erased_at(self) -> int:
        """Up to which line of the log others took out what copies that were made before may hold; 0 where nobody else can."""
        return self._commits.erased_at

    @property
    def erased_with(self) -> int:
        """The number of the last commit by which others did since this was opened; it is known before readers see that one."""
        return self._commits.erased_with

    @property
    def log(self) -> LeafLog:
        return self._log

    @property
    def older(self) -> dict[str, Any] | None:
        """What was written in an older format, as `marker.older` says it; None where that is nothing."""
        if self._path is None:
            return None
        note = marker.read(self._path)
        return marker.older(note, len(self._log.lines()) if note["format"] < marker.FORMAT else 0)

    @property
    def token(self) -> object:
        return self._removals

    @property
    def number(self) -> int:
        return self._committed

    def _engine(self) -> ox.Store:
        if os.getpid() != self._pid:
            raise StoreFailed(
                f"the store {self.location} was opened before this process was forked, and using it here would destroy "
                "what the parent process wrote; open it in one process only, after forking"
            )
        if self._store is None and self._failed is None:
            raise StoreFailed(f"the store {self.location} is closed; open it again")
        if self._store is None or self._failed is not None:
            raise self._has_failed()
        return self._store

    def settled_engine(self, pattern: Pattern | None = None) -> ox.Store:
        """Return the engine once it has every commit that was acknowledged, for one who holds the write lock.

        With a pattern it may lack quads that do not match that.
        """
        self._settle(pattern)
        return self._engine()

    @engines.let_go
    def source(self, text: str, *, graph: ox.NamedNode | ox.BlankNode | None = None, union: bool = False) -> Source:
        version = self._committed, self._removals  # first: what is acknowledged meanwhile may be in it, or not
        self._settle()
        with self._source_lock:
            if self._source is None or self._source.version != version:
                self._source = self._quads_of(version)
                if self._path is not None and maintenance.size_of(self._path / maintenance.QUADS) > _SMALL:
                    with self._gate:  # nothing is loaded by halves, and the folder is the engine's
                        self._source.keep(capture.captured(self._path / maintenance.QUADS, self._path))
            self._engine()
            return self._source

    def _settle(self, pattern: Pattern | None = None) -> None:
        """Wait until the engine has every commit that was acknowledged; with a pattern, what of them matches that.

        Whoever reads does so before it enters the gate: a bulk load, which may be waited for, lets nobody stay in. It asks
        for the engine inside: outside, a vacuum may just be exchanging it for another.
        """
        if os.getpid() != self._pid:
            self._engine()  # says why it is none of a forked child
        if self._applier is None:
            return
        if pattern is None:
            self._applier.wait()
        else:
            self._applier.wait_for(pattern)

    def _has_failed(self) -> StoreFailed:
        return StoreFailed(
            f"the store {self.location} failed while writing ({self._failed}) and takes no more work; "
            "close it, open it again, and repeat what was not acknowledged"
        )

    @engines.let_go
    def quads(self, pattern: Pattern) -> list[ox.Quad]:
        if self._applier is None:
            with self._gate:
                return self._matching(pattern)
        while True:
            loads = self._applier.loads
            self._settle(pattern)
            with self._engine_gate:
                found = self._matching(pattern)
            if self._applier.loads == loads:  # else what was found may be the half of what is loaded just now
                return found

    # --- writing

    @engines.let_go
    def commit(self, change: Change) -> Committed:
        self._refuse_read_only()
        waiting = Waiting(change)
        self._waiting.append(waiting)
        try:
            with self._write_lock:
                while not waiting.done:  # another thread may have done it meanwhile, together with its own
                    self._lead(waiting)
                # Under the lock, so that number and link are of one place.
                outcome = waiting.outcome or Committed(False, self.number, self._log.reached.link)
        except BaseException:  # an interrupt of this caller, not of the commit's
            self._withdraw(waiting)
            raise
        self._take_out()
        if isinstance(waiting.error, (OSError, RuntimeError, MemoryError)):
            raise self._unreadable(waiting.error) from waiting.error
        if waiting.error is not None:
            raise waiting.error
        if outcome.written:
            self._backlog.grew(len(change.add) + len(change.remove), self._files)
        return outcome

    def _lead(self, own: Waiting) -> None:
        """Write all commits that wait: decided one after the other, logged with one sync, given to the engine in order."""
        self._engine()
        taken = [own]
        try:
            while self._waiting:
                taken.append(self._waiting.popleft())
            taken = list(dict.fromkeys([*taken[1:], own]))  # in the order in which they came
            batch = self._commits.append(taken, self)
        except BaseException:  # an interrupt too: other callers still wait for theirs
            self._waiting.extendleft(reversed([each for each in taken if not each.done and each is not own]))
            raise
        self.carry_out(batch)

    def new_batch(self) -> Batch:
        """Return an empty batch, which judges commits over what is here. Under the write lock."""
        logged = self._files is not None or self._commits.is_shared
        loading = self._backlog.is_loading
        return Batch(
            self.settled_engine, self._log, self._removals, self.number, self._writers, logged=logged, loading=loading
        )

    def _withdraw(self, waiting: Waiting) -> None:
        """Take back a commit whose caller was interrupted, unless it is being written: then wait until it is."""
        with contextlib.suppress(ValueError):
            self._waiting.remove(waiting)
            return
        with self._write_lock:
            return

    def carry_out(self, batch: Batch) -> None:
        """Do what was decided, under the write lock.

        Every step can be done twice: an interrupt (Ctrl-C) is raised once all of it is done.
        """
        settled = batch.settled
        if not settled:
            return
        first = self.number + 1
        batch.last = self.number + len(settled)
        interrupt: BaseException | None = None
        failed_once = False
        while True:
            try:
                self._log_and_write(batch, first)
                break
            except (OSError, RuntimeError, MemoryError) as error:
                # The engine's error state lasts until it is reopened, and the write may have happened all the same.
                self._fail(error, settled, first)
                return
            except Exception as error:  # whatever it is, the commits are decided: tried once more
                if failed_once:
                    self._fail(error, settled, first)
                    raise
                interrupt, failed_once = error, True
            except BaseException as error:  # noqa: BLE001 - Ctrl-C: raised below
                interrupt = error
        if interrupt is not None:
            raise interrupt

    def _log_and_write(self, batch: Batch, first: int) -> None:
        if self._files is not None and self._files.last < first:
            self._record([each.record for each in batch.settled])
        if len(self._writers) > _WRITERS:
            self._writers.clear()
        self._writers.update(batch.wrote)
        self._removals += any(bool(each.remove or each.record.drop) for each in batch.settled)
        if self._applier is None:
            self._write(batch)
        first_one, last_one = batch.settled[0], batch.settled[-1]
        lines = [line for each in batch.settled for line in each.lines]
        made = [leaf for each in batch.settled for leaf in each.leaves]
        self._log.append(lines, first_one.before, last_one.after)
        if self._applier is not None:  # after the last call of the system, at which its thread would take over
            self._applier.put(batch)
        self._news.take(first, batch)
        self._committed = batch.last  # not before: whoever reads this number sees what was committed until then
        if made:
            self._log.tell(made, last_one.after)
        for number, each in enumerate(batch.settled, first):
            each.waiting.outcome = Committed(True, number, each.after.link)
            each.waiting.done = True

    def _record(self, records: Sequence[CommitRecord]) -> None:
        """Write records to the commit log, before the engine gets what they say.

        What the bulk loader writes is on disk at once, so the record of it has to be.
        """
        if self._is_older and self._path is not None:  # before anything stands there that an older version cannot read
            marker.write(self._path, marker.raised(marker.read(self._path), len(self._log.lines())))
            self._is_older = False
        if self._files is not None:
            bulk = any(record.flags & LOADED for record in records)
            if self._durability == "process":
                records = [replace(record, flags=record.flags | RELAXED) for record in records]
            self._files.append(records, sync=bulk or self._durability == "disk")
            if not self._commits.is_shared:  # else all of it is in the log, whatever becomes of these files
                self._files.refuse_moved()
            if self._posted is not None:
                self._posted.recorded(self._files.last)

    def _apply(self, batches: Sequence[Batch]) -> None:
        """Give logged commits to the engine, on the applier's thread; a store of which the engine refused one takes no more."""
        if self._failed is None:
            try:
                self._write(*batches)
                self._post_applied(batches[-1].last)
            except BaseException as error:  # noqa: BLE001 - whoever uses the store next is told; the log has the commit
                self._failed = f"{error}"

    def _post_applied(self, number: int | None = None) -> None:
        """Tell those who read beside this store what its engine has by now: by default all that is recorded."""
        if self._posted is not None and self._files is not None and self._store is not None:
            self._posted.applied(self._files.last if number is None else number)

    def _write(self, *batches: Batch) -> None:
        engine = self._store
        if engine is None:
            return  # it was closed after a failure: the log has the commits
        if self._posted is not None and any(batch.is_bulk for batch in batches):
            self._posted.loading()  # few that waited are no load, but a view takes them for not begun
        for add, remove, record in steps(batches):
            for graph in record.drop:
                engine.remove_graph(ox.NamedNode(graph))
            if remove:
                engine.update(update_text(add, remove))
            elif record.flags & BULK:
                load = partial(engine.bulk_load, record.add, ox.RdfFormat.N_QUADS)
                with self._ingest_lock:
                    self._gate.alone(load)  # what the loader does is not seen by halves
            else:
                self._backlog.put(len(add))
                engine.extend(add)

    def _fail(self, error: Exception, settled: Sequence[Settled], first: int) -> None:
        """Take no more work. What is in a log elsewhere is committed all the same, and is told so: never repeated."""
        if self._failed is None:
            self._failed = f"{error}"
        for number, each in enumerate(settled, first):
            if each.waiting.done:
                continue
            if self._commits.is_shared:
                each.waiting.outcome = Committed(True, number, each.after.link)
            else:
                each.waiting.error = self._has_failed()
            each.waiting.done = True

    @contextlib.contextmanager
    def loading(self) -> Iterator[None]:
        """Let the engine get commits that only add many at a time, while much is brought in: that takes half the work.

        Each is as durable as ever when it returns. Whoever reads of it waits until the engine has it.
        """
        try:
            with self._backlog.loading(self._write_lock):
                yield
        finally:
            if self._applier is not None and not self._backlog.is_loading:
                self._applier.release()

    def came(self, graph: ox.NamedNode, after: int, until: int) -> list[ox.Quad] | None:
        """Return the quads that the commits after one, up to another, added to a graph, in order.

        None where that is not known any more, or something was removed meanwhile.
        """
        return self._news.of(graph, after, until)

    def hold(self) -> AbstractContextManager[object]:
        """Return what keeps other threads from writing while it is held: the lock itself, which no interrupt leaves held."""
        self._engine()
        return self._write_lock

    @engines.let_go
    def drop_graph(self, graph: ox.NamedNode) -> int:
        """Remove a graph that nothing refers to, in steps that let other writers in between; return how many quads went.

        Each step is a record of its own, without leaves. A log that others write to gets one record, which names the graph.
        """
        if self._commits.is_shared:
            return drop_at_once(self, graph)
        removed = 0
        while subjects := self._subjects(graph):
            for start in range(0, len(subjects), _DROP_STEP):
                removed += self._drop(graph, subjects[start : start + _DROP_STEP])
        with self._write_lock:
            self._forget_graph(self.settled_engine(), graph)
        return removed

    def _subjects(self, graph: ox.NamedNode) -> list[ox.NamedNode | ox.BlankNode | ox.Triple]:
        self._settle()
        with self._gate, self._reading():
            found = self._engine().quads_for_pattern(None, None, None, graph)
            return list(dict.fromkeys(quad.subject for quad in found))

    def _drop(self, graph: ox.NamedNode, subjects: Sequence[ox.NamedNode | ox.BlankNode | ox.Triple]) -> int:
        """Remove a few subjects: looked up one by one, because a scan has to pass over all that was removed before."""
        with self._write_lock:
            engine = self.settled_engine()
            with self._reading():
                doomed = [quad for each in subjects for quad in engine.quads_for_pattern(each, None, None, graph)]
            self._removals += 1
            with self._writing():
                self._record([CommitRecord.of(remove=doomed)])
                engine.update(update_text((), doomed))
            self._written_past_applier()
        self._backlog.grew(len(doomed), self._files)
        return len(doomed)

    def _forget_graph(self, engine: ox.Store, graph: ox.NamedNode) -> None:
        self._removals += 1
        self._writers.pop(graph, None)
        with self._writing():
            self._record([CommitRecord(drop=(graph.value,))])
            engine.remove_graph(graph)
        self._written_past_applier()

    def _written_past_applier(self) -> None:
        self._news.forget()
        self._committed = self._committed + 1 if self._files is None else self._files.last
        self._post_applied()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Let the store fail where a write does."""
        try:
            yield
        except (OSError, RuntimeError, MemoryError) as error:
            self._failed = f"{error}"
            raise self._has_failed() from error

    def take_as_found(self, made: Sequence[Leaf]) -> None:
        """Write leaves for quads that no commit wrote: those of a dump that was loaded, or of a store of an older format."""
        self.commit(Change(leaves=made))

    # --- the log that it is an index of

    @engines.let_go
    def sync(self) -> bool:
        """Bring in everything that was committed anywhere before this call; return whether there was anything.

        Raises `StoreFailed` where the log cannot be reached; what is here can be read on.
        """
        try:
            return self._commits.read_on(self)
        finally:
            self._take_out()

    def follow_others(self) -> None:
        """Bring in what others commit as they commit it, until the store closes."""
        self._commits.follow(self)

    @engines.let_go
    def snapshot(self) -> int:
        """Keep all that is here where it is quickly opened from; return the number of the last commit in it."""
        self._refuse_read_only()
        return self._commits.snapshot(self)

    def writing(self) -> AbstractContextManager[object]:
        """Return what keeps other threads from writing while it is held, also when the store is closed or has failed."""
        return self._write_lock

    @property
    def has_failed(self) -> bool:
        """Whether it takes no more work: a write failed, or what the log says is in doubt."""
        return self._failed is not None

    def refuse_failed(self) -> None:
        """Raise `StoreFailed` for a store that takes no more work, or is closed."""
        self._engine()

    def give_up(self, error: StoreFailed) -> None:
        """Take no more work, because of what an error says of the log."""
        self._failed = error.message

    # --- flushing

    def _flush_at_rest(self) -> None:
        """Do what is left for when nothing was committed for a while, elsewhere: this is the applier's thread.

        Whoever flushes or reads waits for what was put meanwhile, which is applied here.
        """
        self._backlog.flush_soon(resting=True)

    def _flush_if_well(self) -> None:
        with self._flush_lock, contextlib.suppress(StoreFailed):  # the next one to use the store is told
            if self._store is not None and self._failed is None:
                self._flush(self._store)

    def follow(self, keep_up: Callable[..., None], take_out: Callable[[], None]) -> None:
        """Have a method called with `resting`, without a lock: after each flush, and when nothing was committed for a while.

        Another one is called after others have taken text out of the store, before whoever brought that in here goes on: it is
        to take that out of what is derived from the store. Whose methods they are, is not kept alive by it.
        """
        self._follower = Follower(keep_up, take_out, self._commits.erased_with)

    def _take_out(self) -> None:
        if self._follower is not None:
            self._follower.take_out(self._commits.erased_with)

    def _tell_follower(self, *, resting: bool) -> None:
        if self._follower is not None:
            self._follower.keep_up(resting=resting)

    @engines.let_go
    def flush(self) -> None:
        with self._flush_lock:
            engine = self._engine()
            if self._path is not None:
                self._flush(engine)

    def _flush(self, engine: ox.Store, *, always: bool = False) -> None:
        """Bring what is in the engine, and the log of leaves, to disk; then wipe the records of it. Under the flush lock.

        Where commits are not synced one by one no commit may come meanwhile: the engine would bring it to disk in some
        of its files, and its record is not there yet.
        """
        assert self._files is not None  # noqa: S101 - a store in a folder has one
        assert self._applier is not None  # noqa: S101 - the same
        with self._writing(), contextlib.ExitStack() as stack:
            stack.enter_context(self._write_lock)
            if always or not self._files.is_empty:
                self._files.switch(self._log.reached)
            logged = self._applier.last
            if self._durability == "disk":
                stack.close()
            self._applier.wait(logged)
            with self._ingest_lock:
                engine.flush()
            if self._failed is None:  # else the engine lacks what the records say
                self._log.sync()
                self._note_manifest()
                self._files.wipe()
            self._keep_private()

    def _note_manifest(self) -> None:
        if self._path is not None:
            manifest.note(self._path / maintenance.QUADS, sync=self._durability == "disk")

    def _has_unflushed(self) -> bool:
        """Tell whether the engine may hold what is not in its files yet: where it was only read, closing is quick."""
        return self._files is not None and (self._loaded or not self._files.is_empty)

    def _keep_private(self) -> None:
        if self._path is not None:
            maintenance.keep_private(self._path / maintenance.QUADS)

    # --- upkeep

    @engines.let_go
    def vacuum(self) -> Vacuumed:
        """Rebuild the store's files from what is in it, so that nothing deleted is in any of them, the commit log included.

        Other threads read on meanwhile, and write when it is done. A crash at any point leaves the old store or the new.
        Takes as much free space again as the store has. In memory, there is nothing to do. Raises `StoreFailed` where
        the disk refuses; the store goes on as it was.

        Where the log is in PostgreSQL, every record there stays, with its leaves and digests, and tells only what is left
        of it. Other processes rebuild the files of their indexes at their next `sync`; those that have not yet are told
        (`Vacuumed.behind`). What PostgreSQL itself keeps of rows that were replaced, its own VACUUM FULL and the end of its
        backups take away.
        """
        self._refuse_read_only()
        return self._commits.vacuum(self)

    @engines.let_go
    def rebuild(self) -> Vacuumed:
        """Rebuild the files of this index; whatever the log keeps stays there."""
        with self._flush_lock, self._write_lock:
            self.settled_engine()
            if self._path is None:
                return Vacuumed(len(self), 0, 0)
            try:
                before = maintenance.size_of(self._path)
                self._sync_records()
                count = maintenance.rebuild(self._engine(), self._path)
            except (OSError, RuntimeError) as error:
                raise StoreFailed(f"{self.location} cannot be rebuilt ({error}); it was left as it was") from error
            path = self._path
            try:
                self._gate.alone(lambda: self._engine_gate.alone(lambda: self._swap_engine(path)))
            except OSError as error:
                raise StoreFailed(
                    f"{self.location} takes no more work: its disk failed while rebuilt files were put in the place of the old "
                    f"ones ({error}); open it again, which takes up the one or the other, and vacuum it again"
                ) from error
            self._flush(self._engine())
            self._let_copies_go()
            maintenance.drop_old(path)
            self.sweep_readers()
            try:
                return Vacuumed(count, before, maintenance.size_of(path))
            except OSError as error:
                raise StoreFailed(
                    f"{self.location} was rebuilt, and its files cannot be looked at since ({error}); vacuum it again"
                ) from error

    @contextlib.contextmanager
    def erasing(self) -> Iterator[None]:
        """Return what is held around that which takes text out of the store for good. In its files it stays until `vacuum`.

        Out of a log in PostgreSQL it goes before this ends. Where the server goes away in between, the log is on record as
        not rid of it: whoever opens the store next does that. A user of the database who may not rewrite records is refused
        before anything is committed.
        """
        self._refuse_read_only()
        with self._commits.erasing(self):
            try:
                yield
            finally:
                self._let_copies_go()

    def alone(self, name: str) -> AbstractContextManager[None]:
        """Return what no two processes hold for the same name, and with which all is here that an earlier one wrote."""
        return self._commits.alone(self, name)

    def sweep_readers(self) -> None:
        """Remove the links and copies that readers who were killed have left beside the store.

        Raises `StoreFailed` where the disk does not let us look for them: they may hold what was taken out.
        """
        if self._path is None:
            return
        try:
            capture.clear_beside(self._path)
        except OSError as error:
            raise StoreFailed(
                f"what readers left beside {self.location} when they were killed cannot be looked for ({error}): it may still "
                "hold text that is out of the store by now; vacuum the store once its disk is well"
            ) from error

    def _sync_records(self) -> None:
        """Bring all records to disk, before something is done that brings the engine's files there."""
        if self._files is not None:
            self._files.sync()

    def _swap_engine(self, path: Path) -> None:
        try:
            self._store = None
            engines.wait_until_gone(path / maintenance.QUADS)
            maintenance.swap(path)
            self._open_engine(path / maintenance.QUADS)
        except BaseException as error:  # an interrupt too: without an engine, nothing goes on
            self._failed = f"interrupted by {error!r}"
            self._store = None
            self._release()
            raise

    @engines.let_go
    def backup(self, destination: Path) -> None:
        """Write a whole copy of the store, as it is now, into a new folder; other threads go on.

        Raises `InvalidInput` where something stands at `destination`, the store is in memory, or its log in a database.
        """
        if self._commits.is_shared:
            raise InvalidInput(
                f"{self.location} is backed up as its database is (pg_dump, pg_basebackup), not to {destination}; or dump it"
            )
        if self._path is None or self._files is None:
            raise InvalidInput("a store in memory has no files to back up; dump it")
        maintenance.refuse_inside(self._path, destination)
        try:
            with maintenance.staged(destination) as part:
                stage = maintenance.stage_for(self._path, part)
                with self._flush_lock, self._write_lock:
                    self.settled_engine()
                    self._sync_records()
                    self._engine().backup(str(stage))
                    log, reached, following = self._log.text().encode(), self._log.reached, self._files.last + 1
                note = (self._path / marker.NAME).read_bytes()
                maintenance.finish_backup(part, stage, note=note, log=log)
                RecordFiles.make(part / maintenance.COMMITS, self._id, reached, following)
        except (OSError, RuntimeError) as error:
            raise StoreFailed(f"{self.location} cannot be backed up to {destination}: {error}") from error

    @engines.let_go
    def frozen(self, location: str) -> Frozen | None:
        """Return a copy of the engine as it is now, to be changed and read, which is let go when text is erased here.

        None where there are no files that are all of the store, or they cannot be linked to now.
        """
        self._engine()
        if self._path is None or self._commits.is_shared or not self._is_soon_free():
            return None
        with self._flush_lock, self._write_lock:
            engine = self.settled_engine()
            try:
                self._sync_records()
                made = Frozen(engine, self._path / maintenance.PAST, location, self._tables)
            except (OSError, RuntimeError):
                return None
            self._copies.add(made)
            return made

    def _is_soon_free(self) -> bool:
        """Tell whether nobody flushes, or only for a moment: a vacuum keeps no reader waiting."""
        if self._write_lock._is_owned():  # type: ignore[attr-defined] # whoever has it may not wait for a flush
            return False
        deadline = time.monotonic() + _SOON
        while self._flush_lock.locked():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        return True

    def _let_copies_go(self) -> None:
        self._end_queries("text was taken out of the store for good, or its files were rebuilt; ask again", _PATIENCE)
        for each in list(self._copies):
            each.let_go()

    def _end_queries(self, why: str, patience: float = 0.0) -> None:
        """End the queries from outside that are not done after some seconds; what they read is let go."""
        with self._source_lock:
            self._source = None
        querypool.end(self, QueryEnded(f"the query in {self.location} was ended: {why}"), patience)

    @engines.let_go
    def load(self, source: IO[bytes]) -> None:
        """Add all quads of an N-Quads file, not atomically: for a new store. The file's own errors are raised as they are."""
        if not self._commits.is_shared:
            self.fill(source)
            return
        while lines := b"".join(islice(source, _LOADED)):
            self.commit(Change(add=list(ox.parse(lines, format=ox.RdfFormat.N_QUADS))))

    @engines.let_go
    def fill(self, source: IO[bytes]) -> None:
        """Put all quads of an N-Quads file into the engine alone: for a new index, whose log has them already or never will."""
        with self._flush_lock, self._write_lock:
            self._loaded = True
            self._removals += 1
            self._news.forget()
            self._engine().bulk_load(source, ox.RdfFormat.N_QUADS)

    def close(self) -> None:
        if os.getpid() != self._pid:
            return
        self._end_queries("the store was closed")
        if self._store is not None:
            self._commits.end(self)
        self._backlog.join()
        with self._flush_lock, self._write_lock:
            if self._store is None:
                return
            self._let_copies_go()
            ended_well = False
            try:
                if self._applier is not None:
                    self._applier.wait()
                if self._failed is None and self._has_unflushed():
                    self._flush_at_end(self._store)
                ended_well = self._failed is None
                if ended_well and self._files is not None:
                    with contextlib.suppress(OSError):  # all is on disk already
                        self._files.shrink()
            finally:
                if self._applier is not None:
                    self._applier.end()
                self._drop_engine(well=ended_well)
                if ended_well and self._posted is not None:
                    self._posted.closed()
                self._release()

    def _flush_at_end(self, engine: ox.Store) -> None:
        """Flush, or, where the log is elsewhere and has all, let it be where these files are gone or their disk is full."""
        try:
            self._flush(engine)
        except StoreFailed:
            if not self._commits.is_shared:
                raise

    def _drop_engine(self, *, well: bool = False) -> None:
        if self._path is None:
            self._store = None
            return
        self._store = None
        engines.see_out(self._path / maintenance.QUADS)
        with contextlib.suppress(OSError):
            self._keep_private()  # what it wrote in the background until then
        if well and self._tables is not None:
            with contextlib.suppress(OSError):  # then nothing is known of them
                self._tables.seal()

    def _release(self) -> None:
        self._log.close()
        if self._files is not None:
            self._files.close()
        if self._posted is not None:
            self._posted.close()
        if self._lock_file is not None:
            self._lock_file.release()
        self._commits.close()
