"""The store: an engine (pyoxigraph) in this process as the index of a log, to which other processes may append, too.

The log decides and keeps every commit (`log.py`). The engine is opened when something is first asked of it, from the newest
snapshot of its files and the records that follow (`index_folder.py`), and gets later commits when somebody reads what they may
have changed. A small store has its engine in memory.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import shutil
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import IO, Any, Final, Protocol, TypeVar

import pyoxigraph as ox

from trails.errors import InvalidInput, QueryEnded, StoreFailed
from trails.model import validation
from trails.rdf.derived_quads import are_named_in
from trails.store import folders
from trails.store.contract import Change, Committed, Durability, QuadStore, read_only
from trails.store.index import engine_filling
from trails.store.index.engine import Engine
from trails.store.index.reading import EngineReader
from trails.store.leaflog import LeafLog
from trails.store.log import log_maintenance, sqlite
from trails.store.log.commit_batch import Batch, Waiting
from trails.store.log.commit_log import Log
from trails.store.log.locks import WRITERS, NamedLocks
from trails.store.log.log_maintenance import Behind, Vacuumed
from trails.store.log.sqlite import SqliteHome
from trails.store.pattern import Pattern
from trails.store.queries import query_pool
from trails.store.queries.query_pool import Source


class Abandoned(Protocol):
    """A store that a forked child can let go of."""

    def abandon(self) -> None:
        """Let go, in the child, of what belongs to the parent."""


_OPENED: Final[weakref.WeakSet[Abandoned]] = weakref.WeakSet()


def remember(store: Abandoned) -> None:
    """Have a forked child let go of a store; nothing is kept alive by it."""
    _OPENED.add(store)


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


_WRITERS: Final = 10_000
"""Graphs of which it is remembered who wrote to them last."""
_Found = TypeVar("_Found")
_PATIENCE: Final = 0.5
"""Seconds that a query from outside is waited for, before what it reads is removed."""


class EmbeddedStore(EngineReader):
    """Quads in this process: in memory (`path` None), or those of a log in a folder or a database."""

    is_copy: bool = False
    """Whether it shows what another store has: who uses it writes nothing to it."""

    def __init__(
        self,
        path: Path | None,
        *,
        create: bool = False,
        durability: Durability = "disk",
        commits: Log | None = None,
        timeout: float = sqlite.PATIENCE,
        is_read_only: bool = False,
    ) -> None:
        """Open a store. `timeout` is for how many seconds a commit waits for other processes that write.

        `commits` is the log, by default the one in the folder.
        """
        if durability not in ("disk", "process"):
            raise InvalidInput(f'durability is "disk" or "process", not {durability!r}')
        self._path = path = None if path is None else folders.absolute(path)
        self._pid = os.getpid()
        self._write_lock = threading.RLock()
        """Held by whoever commits, or brings in what others committed. Taken before the engine's lock."""
        self._source_lock = threading.Lock()
        self._sources: dict[bool, Source] = {}
        """What the last queries from outside were asked of: one that names what is derived, and one that does not."""
        self._waiting: deque[Waiting] = deque()
        self._failed: str | None = None
        self._closed = False
        self._rests = False
        """Whether what others commit is not brought in, because somebody looks at the store as of one moment."""
        self._removals = 0
        self._writers: dict[object, object] = {}
        self._follower: weakref.WeakMethod[Callable[[], None]] | None = None
        self._taken_out = 0
        """The number of the last commit of others that removed text, after which the follower was called."""
        self._commits = commits or _log_at(path, create, durability, timeout, is_read_only)
        self._follows = path is not None and not self._commits.is_remote and not self._commits.is_read_only
        """Whether what others commit is seen without being asked for."""
        try:
            self._number = self._commits.begin().number
            self._index = Engine(self._commits, path, self._number)
            self._gate = self._index.gate
            self._log = LeafLog(self._commits.home, self._number)
            own = weakref.ref(self)
            self._log.source = lambda: None if (store := own()) is None else store._commits.trouble(store)
            if path is not None and not self._commits.is_read_only:
                self._commits.show_writer()
            if not self._commits.is_read_only and not self._commits.is_remote:
                self._commits.finish_erasures(self)
        except BaseException:  # an interrupt too
            self._commits.close()
            raise
        remember(self)

    def abandon(self) -> None:
        """Let go, in a forked child, of what belongs to the parent: nothing is ended or closed there."""
        self._index.abandon()
        self._commits.abandon()

    @property
    def commits(self) -> Log:
        """The log of which this is an index."""
        return self._commits

    @property
    def is_read_only(self) -> bool:
        """Whether the store was opened to be read: what writes raises `StoreReadOnly`."""
        return self._commits.is_read_only

    def _refuse_read_only(self) -> None:
        if self._commits.is_read_only:
            self.refuse_failed()
            raise read_only(self.location)

    @property
    def location(self) -> str:
        return self._commits.location

    @property
    def folder(self) -> Path | None:
        return None if self._commits.is_remote else self._path

    @property
    def log(self) -> LeafLog:
        self.refuse_failed()
        return self._log

    @property
    def older(self) -> dict[str, Any] | None:
        """What was written in an older format: which, the `lines` of the log until then, and `until` when."""
        told = self._commits.home.note()["older"]
        return None if told is None else validation.stored_object(told)

    @property
    def token(self) -> object:
        return self._removals

    @property
    def number(self) -> int:
        return self._number

    def read_connection(self) -> AbstractContextManager[Any]:
        """Return a context that gives a connection to the log's file, which sees what was committed before this call."""
        self._poll()
        return self._commits.home.reading()

    # --- the engine

    def refuse_failed(self) -> None:
        """Raise `StoreFailed` for a store that takes no more work, is closed, or was opened before this process was forked."""
        if os.getpid() != self._pid:
            raise StoreFailed(
                f"the store {self.location} was opened before this process was forked, and using it here would destroy "
                "what the parent process wrote; open it in one process only, after forking"
            )
        if self._failed is not None:
            raise StoreFailed(self._failed)
        if self._closed:
            raise StoreFailed(f"the store {self.location} is closed; open it again")

    def _engine(self) -> ox.Store:
        self.refuse_failed()
        if self._index.store is None:
            self._index.bring_up()
        assert self._index.store is not None  # noqa: S101 - it was opened just now
        return self._index.store

    def settled_engine(self, pattern: Pattern | None = None) -> ox.Store:
        """Return the engine once it has every commit that was carried out, for one who holds the write lock.

        With a pattern it may lack quads that do not match that.
        """
        self._settle(pattern)
        return self._engine()

    def _settle(self, pattern: Pattern | None = None) -> None:
        """Bring in what others committed, and give the engine what may match a pattern. Never within the gate."""
        self._poll()
        self.open_engine()
        if self._index.awaits(pattern):
            self._index.bring_up()

    def open_engine(self) -> None:
        """Open the engine unless it is open. From then on a vacuum, which rewrites records, moves no view on."""
        while not self._index.is_ready:
            self._sync_after_rewriting()
            self._index.bring_up()
            self._sync_after_rewriting()  # they may have been rewritten while they were read: then it is not ready yet
            self._poll()

    def _sync_after_rewriting(self) -> None:
        """Bring in what others committed if records up to here are not what they were: those that follow say why."""
        while not self._stays() and self._commits.home.is_rewritten_after(self._number) and self.sync():
            pass

    def _stays(self) -> bool:
        """Tell whether the store is to stay as it is: for whoever commits, and for all threads while one is `at_rest`."""
        return self._rests or self._write_lock._is_owned()  # type: ignore[attr-defined]

    def poll(self) -> int:
        """Bring in what others committed, and return the number of the last commit."""
        self._poll()
        return self._number

    def _poll(self) -> None:
        """Bring in what others committed."""
        self.refuse_failed()
        if not self._follows or self._stays():
            return
        head = self._commits.home.head()
        if head.number != self._number or head.erased != self._commits.erased:
            self.sync()

    def forget_engine(self) -> None:
        """Have the engine opened anew before it is next used: its files hold what a vacuum removed."""
        self._index.forget()
        self._end_queries_for_erasure()

    def note_rewriting(self, number: int) -> None:
        """Note that this process rewrote records, which the record with a number says: what is here is what is left of them."""
        if self._commits.home.rewritings(self._index.read_at, number) == [number]:
            self._index.read_at = number

    def read_rewritten(self) -> None:
        """Have the engine made anew if others rewrote records since it was read: what is left of them is in none but that one.

        Raises `StoreFailed` if the log is not one that this process can go on from.
        """
        if self._commits.is_remote and not self._stays():
            self.sync()
        self._poll()
        self.open_engine()
        if self._commits.home.rewritings(self._index.read_at, self._number):
            self._index.read_anew()
            self.open_engine()

    def rebuild(self) -> int:
        """Write all quads into new files, in which nothing is that was deleted; return how many there are."""
        self._end_queries_for_erasure()
        return self._index.rebuild()

    def size_on_disk(self) -> int:
        """Return the bytes of all files of the store."""
        return 0 if self._path is None else log_maintenance.size_of(self._path)

    def others(self) -> tuple[Behind, ...]:
        """Return the engines of other living processes, which may hold what was removed until they are used next."""
        return self._index.others()

    # --- reading

    def source(self, text: str, *, graph: ox.NamedNode | ox.BlankNode | None = None, union: bool = False) -> Source:
        self._poll()
        derives = are_named_in(text)
        version = self._number, self._removals, derives  # first: what is acknowledged meanwhile may be in it, or not
        self._settle()
        with self._source_lock:
            source = self._sources.get(derives)
            if source is None or source.version != version:
                source = self._sources[derives] = self._quads_of(version, derives=derives)
                name = f"query-{self._number}-{self._removals}"
                folder = self._index.copy(f"{name}-derived", derives=True) if derives else self._index.copy(name)
                if folder is not None:
                    source.keep(folder)
            self.refuse_failed()
            return source

    def _unchanged(self) -> AbstractContextManager[object]:
        return self._index.lock

    def _dump(self, out: IO[bytes], *, derives: bool) -> None:
        folder = self._index.copy(f"dump-{secrets.token_hex(8)}", derives=True) if derives else None
        if folder is None:
            super()._dump(out, derives=derives)
            return
        try:
            with self._reading():
                ox.Store.read_only(str(folder)).dump(out, ox.RdfFormat.N_QUADS)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _unreadable(self, error: Exception) -> StoreFailed:
        return engine_filling.unreadable(self.location, error)

    def _is_repaired(self, error: Exception) -> bool:
        return self._index.is_repaired(error)

    # --- writing

    def commit(self, change: Change) -> Committed:
        self._refuse_read_only()
        try:
            outcome = self._committed(change)
        except (OSError, RuntimeError, MemoryError) as error:
            if not self._is_repaired(error):
                raise self._unreadable(error) from error
            outcome = self._committed(change)
        self._index.save_soon()
        return outcome

    def _committed(self, change: Change) -> Committed:
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
        error, waiting.error = waiting.error, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # which has this frame: together they would stay until they are collected
        return outcome

    def _lead(self, own: Waiting) -> None:
        """Write all commits that wait: decided one after the other, logged in one transaction, given to the index in order."""
        self.refuse_failed()
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
        return Batch(self.settled_engine, self._log.reached, self._removals, self.number, self._writers)

    def _withdraw(self, waiting: Waiting) -> None:
        """Take back a commit whose caller was interrupted, unless it is being written: then wait until it is."""
        with suppress(ValueError):
            self._waiting.remove(waiting)
            return
        with self._write_lock:
            return

    def carry_out(self, batch: Batch) -> None:
        """Take in what the log has, under the write lock, and tell whoever waits for it.

        Every step can be done twice: an interrupt (Ctrl-C) is raised once all of it is done.
        """
        interrupt = batch.interrupt
        while batch.settled:
            try:
                self._take_in(batch)
                break
            except (KeyboardInterrupt, SystemExit, GeneratorExit) as error:
                interrupt = error
        if interrupt is not None:
            raise interrupt

    def _take_in(self, batch: Batch) -> None:
        first = batch.number + 1
        if len(self._writers) > _WRITERS:
            self._writers.clear()
        self._writers.update(batch.wrote)
        if self._number < batch.last:
            self._removals += batch.removes
        self._index.take(batch)
        reached = batch.settled[-1].after
        self._log.advance(reached)
        self._number = batch.last  # not before: whoever reads this number sees what was committed until then
        if made := [leaf for each in batch.settled for leaf in each.leaves]:
            self._log.tell(made, reached)
        for number, each in enumerate(batch.settled, first):
            each.waiting.outcome = Committed(True, number, each.after.link)
            each.waiting.done = True

    def at_rest(self, look: Callable[[], _Found]) -> _Found:
        """Return what a function finds in this store as it is now, quads and rows, whatever is committed meanwhile.

        No other thread commits, and what other processes commit is brought in for none: helper threads of `look` see the same.
        """
        self._poll()
        before = self._rests
        with self._write_lock, contextlib.ExitStack() as stack:
            if not before and self._path is not None and not self.is_read_only:
                stack.enter_context(self._commits.home.resting(self.is_at))
            try:
                self._rests = True
                return look()
            finally:
                self._rests = before

    def is_at(self, number: int) -> bool:
        """Tell whether a record is the last one that the store has; if not, bring in what there is."""
        return self._number == number or not self.sync()

    # --- the log that it is an index of

    def sync(self, *, is_patient: bool = False) -> bool:
        """Bring in everything that was committed anywhere before this call; return whether there was anything.

        If it `is_patient`, it waits for a server that is away, as a commit does. Raises `StoreFailed` if the log cannot be
        read; what is here can be read on.
        """
        try:
            has_news = self._commits.read_on(self, is_patient=is_patient)
        finally:
            self._take_out()
        if has_news:
            self._index.save_soon()
        return has_news

    def follow_others(self) -> None:
        """Bring in what others commit as they commit it, until the store closes."""
        self._commits.follow(self)

    def snapshot(self) -> int:
        """Keep all that is here where it is quickly opened from; return the number of the last commit in it."""
        self._refuse_read_only()
        self._settle()
        return self._index.save()

    def writing(self) -> AbstractContextManager[object]:
        """Return what keeps other threads from writing while it is held, also when the store is closed or has failed."""
        return self._write_lock

    @property
    def has_failed(self) -> bool:
        """Whether it takes no more work: what the log says is in doubt, or it is closed."""
        return self._failed is not None or self._closed

    def give_up(self, error: StoreFailed) -> None:
        """Take no more work, because of what an error says of the log."""
        self._failed = error.message

    def follow(self, take_out: Callable[[], None]) -> None:
        """Have a method called after others have removed text from the store, before whoever brought that in here goes on.

        It is to remove it from what is derived from the store. The owner of the method is not kept alive. It is called now if
        the opening brought that in: another process fills what is derived from the log of a folder, and none what is here.
        """
        self._follower = weakref.WeakMethod(take_out)
        self._taken_out = 0 if self._commits.is_remote else self._commits.erased_with
        self._take_out()

    def _take_out(self) -> None:
        number = self._commits.erased_with
        if self._follower is not None and number > self._taken_out:
            self._taken_out = number
            if (take_out := self._follower()) is not None:
                take_out()

    def flush(self) -> None:
        self.refuse_failed()
        self._commits.home.checkpoint()

    # --- upkeep

    def vacuum(self) -> Vacuumed:
        """Rewrite the log and the files of the index, so that nothing deleted is in any of them.

        Every record stays, with its leaves and digests, and holds only what is left of it. Engines of other processes are
        made anew when they are used next (`Vacuumed.behind` names them). A crash leaves the store as it was or vacuumed.
        """
        self._refuse_read_only()
        if self._path is None and not self._commits.is_remote:
            return Vacuumed(len(self), 0, 0)
        return self._commits.vacuum(self)

    @contextlib.contextmanager
    def erasing(self) -> Iterator[None]:
        """Return what is held around that which removes text from the store for good.

        It is out of the log before this ends. In the files of the index it stays until `vacuum`. A process that is killed in
        between leaves the log marked: whoever opens the store next finishes that.
        """
        self._refuse_read_only()
        with self._commits.erasing(self):
            try:
                yield
            finally:
                self._end_queries_for_erasure()

    def alone(self, name: str) -> AbstractContextManager[None]:
        """Return what no two processes hold for the same name, and with which all is here that an earlier one wrote."""
        return self._commits.alone(self, name)

    def sweep_readers(self) -> None:
        """Remove what processes that were killed have left. Raises `StoreFailed` if the disk does not let us look for it."""
        try:
            self._index.sweep()
        except OSError as error:
            raise StoreFailed(
                f"what processes left in {self.location} when they were killed cannot be removed ({error}): it may still hold "
                "text that is out of the store by now; vacuum the store once its disk is well"
            ) from error

    def backup(self, destination: Path) -> None:
        """Write a whole copy of the store, as it is now, into a new folder; other threads and processes go on.

        Raises `InvalidInput` if something is at `destination`, the store is in memory, or its log in a database.
        """
        self.refuse_failed()
        if self._commits.is_remote:
            raise InvalidInput(
                f"{self.location} is backed up as its database is (pg_dump, pg_basebackup), not to {destination}; or dump it"
            )
        if self._path is None:
            raise InvalidInput("a store in memory has no files to back up; dump it")
        log_maintenance.refuse_inside(self._path, destination)
        try:
            with log_maintenance.staged(destination) as part:
                self._commits.home.backup(part / sqlite.NAME)
        except OSError as error:
            raise StoreFailed(f"{self.location} cannot be backed up to {destination}: {error}") from error

    def _end_queries_for_erasure(self) -> None:
        self._end_queries("text was removed from the store for good, or its files were rebuilt; ask again", _PATIENCE)

    def _end_queries(self, why: str, patience: float = 0.0) -> None:
        """End the queries from outside that are not done after some seconds; what they read is let go."""
        with self._source_lock:
            self._sources.clear()
        query_pool.end(self, QueryEnded(f"the query in {self.location} was ended: {why}"), patience)

    def close(self) -> None:
        if os.getpid() != self._pid or self._closed:
            return
        self._end_queries("the store was closed")
        self._commits.end(self)
        self._index.join()
        with self._write_lock:
            if self._closed:
                return
            try:
                self._index.close(saves=self._failed is None and not self._commits.is_read_only)
            finally:
                self._closed = True
                self._commits.close()


def _log_at(path: Path | None, create: bool, durability: Durability, timeout: float, is_read_only: bool) -> Log:
    if path is None:
        return Log(SqliteHome(None, create=True))
    try:
        is_new = folders.prepare(path, create=create)
    except OSError as error:
        raise StoreFailed(f"the store {path} cannot be opened: {error}") from error
    home = SqliteHome(
        path / sqlite.NAME,
        create=is_new,
        is_synced=durability == "disk",
        is_read_only=is_read_only,
        patience=timeout,
    )
    return Log(home, path)


class ViewStore(EmbeddedStore):
    """The quads of a store in a folder as they were at one moment; other processes may write to it meanwhile.

    What writes raises `StoreReadOnly`.
    """

    def __init__(self, path: Path) -> None:
        """Raises `InvalidInput` if there is no store, `StoreFailed` if it cannot be read."""
        super().__init__(path, is_read_only=True)

    def refresh(self) -> bool:
        """See what was acknowledged before this call; return whether there are commits that were not seen before."""
        return self.sync()

    @property
    def has_living_owner(self) -> bool:
        """Whether another process may change what is kept beside the store just now."""
        return self._path is not None and NamedLocks(self._path).is_shared(WRITERS)


def is_read_only(store: QuadStore) -> bool:
    """Tell whether a store was opened to be read, or shows what another one has."""
    return isinstance(store, EmbeddedStore) and (store.is_read_only or store.is_copy)


_PAUSES: Final = (0.0, 0.01, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Seconds between two looks at a store that others write to."""


def at_one_moment(store: QuadStore, look: Callable[[], _Found]) -> _Found:
    """Return what a function finds in a store while nobody writes there.

    A store that can be held is held. Another is looked at again where somebody committed meanwhile; raises `StoreFailed`
    where that never ends.
    """
    if isinstance(store, EmbeddedStore):
        return store.at_rest(look)
    for pause in _PAUSES:
        number, found = store.number, look()
        if store.number == number:
            return found
        time.sleep(pause)
    raise StoreFailed(
        f"the store {store.location} is written to without a pause, and was never seen at rest; try again later"
    )


def holds(store: QuadStore, quads: Sequence[ox.Quad]) -> list[bool]:
    """Tell of each of some quads whether a store has it."""
    if isinstance(store, EngineReader):
        return store.holds(quads)
    return [bool(store.quads((each.subject, each.predicate, each.object, each.graph_name))) for each in quads]  # type: ignore[arg-type] # no triple is a subject here


def drop_graph(store: QuadStore, graph: ox.NamedNode) -> int:
    """Remove a graph in one commit, which says of it no more than its name; return how many quads it had."""
    removed = len(store.quads((None, None, None, graph)))
    if removed:
        store.commit(Change(drop=[graph]))
    return removed
