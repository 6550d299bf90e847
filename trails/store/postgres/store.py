"""The store behind `postgresql://...`: the log is the truth, the engine in this process is an index of it.

A commit takes the lock of the store's row, reads what others have logged since, judges its preconditions over its own
index and that tail, appends, and only then gives both to the index. So compare-and-swap is exact however many processes
write, and reading never asks the server.
"""

from __future__ import annotations

import io
import logging
import os
import secrets
import shutil
import threading
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, Final

import pyoxigraph as ox

from trails.errors import InvalidInput, StoreFailed, StoreLocked
from trails.store import engines, maintenance
from trails.store.committing import Batch, Waiting, matching
from trails.store.contract import Change
from trails.store.embedded import EmbeddedStore
from trails.store.frames import ERASES
from trails.store.maintenance import Vacuumed
from trails.store.postgres import address, cache, erasing, readers, records, server
from trails.store.postgres.erasing import Gone
from trails.store.postgres.readers import Reader
from trails.store.postgres.records import START, Row
from trails.store.postgres.server import Head, Server, Unreachable

_report: Final = logging.getLogger("trails")
_CHUNK: Final = 500
"""Records that are read at once, and the most that are caught up with while others wait for the lock."""
_ALONE: Final = 3
"""Commits in a row before which nobody else had written, from which on the next one takes no lock."""
_SNAPSHOT_EVERY: Final = 5_000
"""Records after which a new snapshot is kept in the database."""
_LOADED: Final = 20_000
"""Lines of a dump that one commit adds."""


class StoreDiverged(StoreFailed):
    """The log has another history than this process has seen: a standby that lagged was promoted, or a backup restored."""


def open_store(location: str, *, create: bool = False) -> PostgresStore:
    """Open the store that a URL names, with an index from the cache or a new one, and bring in what is in the log.

    Raises `InvalidInput` where there is no such store and `create` is False, `StoreFailed` where the server is away.
    """
    log = Server(address.parse(location))
    try:
        if create:
            log.make()
        head = log.find()
        cached = _of_cache(log, head)
        store = _of_snapshot(log, head) if cached is None else cached  # an empty store has no length, and is one
    except BaseException:
        log.close()
        raise
    try:
        store.register()
        store.sync()
        if head.due:  # a process ended between an erasure and the end of it
            with suppress(StoreFailed):  # whoever may only read, or append, cannot; `doctor` tells of it
                store.finish_erasures()
    except BaseException:
        store.close()
        raise
    return store


def _of_cache(log: Server, head: Head) -> PostgresStore | None:
    """Return the store on an index that an earlier process left, where it says what the log says."""
    for index in cache.found(log.id):
        try:
            store = PostgresStore(log, index)
        except StoreLocked:
            continue  # another process has it
        except StoreFailed:
            _discard(log, index)
            continue
        place = cache.place(index)
        own = None if place is None else place.digest(store.number)
        if place is not None and own is not None and place.erased >= head.erased:
            there = log.digest(store.number)
            if there == own:
                store.stands_at(own, place.erased, place.erased_at)
                return store
            _report.warning("%s; its index was thrown away and is made anew", _diverged(log, store.number, own, there))
        store.throw_away()
    return None


def _of_snapshot(log: Server, head: Head) -> PostgresStore:
    number, parts = log.snapshot()
    try:
        return _made_of(log, head, number, parts)
    except (zlib.error, ValueError, SyntaxError):  # a snapshot only saves time: the records say all that it does
        _report.warning(
            "the snapshot of %s as of record %d was altered or is cut off; all records are read instead",
            log.address.shown,
            number,
        )
        return _made_of(log, head, 0, [])


def _made_of(log: Server, head: Head, number: int, parts: Sequence[bytes]) -> PostgresStore:
    digest = log.digest(number)
    if digest is None:
        raise StoreFailed(
            f"the log of {log.address.shown} lacks record {number}, of which it has a snapshot; restore it"
        )
    text = cache.unpacked(parts) if parts else b""
    index = cache.make(log.id, number, log.leaves(number))
    try:
        store = PostgresStore(log, index)
        store.fill(text)
        store.stands_at(digest, head.erased)
    except BaseException:
        cache.discard(index)
        raise
    return store


class PostgresStore(EmbeddedStore):
    """A store whose log is in PostgreSQL and whose index is in a folder of the cache. Get one from `open_store`."""

    def __init__(self, log: Server, index: Path) -> None:
        """Open an index; `stands_at` says then up to where it is known to be that of the log."""
        self._server = log
        self._index = index
        self._digest = START
        self._erased = 0
        self._erased_at = 0
        self._diverged = False
        self._alone = _ALONE
        self._erasing = 0
        self._gone = Gone()
        self._ended = threading.Event()
        self._follower_thread: threading.Thread | None = None
        self._snapshots: threading.Thread | None = None
        self._snapshot_at = 0
        self._registers = True
        self._said_at = 0.0
        super().__init__(index, durability="process")
        self._log.source = self._trouble_in_the_log

    def stands_at(self, digest: bytes, erased: int, erased_at: int = 0) -> None:
        """Note that the index is that of the log up to the record with a digest."""
        self._digest, self._erased, self._erased_at = digest, erased, erased_at
        self._snapshot_at = self.number
        self._note({self.number: digest})

    def _note(self, digests: dict[int, bytes]) -> None:
        cache.note(self._index, digests, self._erased, self._erased_at)

    @property
    def erased_at(self) -> int:
        return self._erased_at

    @property
    def location(self) -> str:
        return self._server.address.shown

    @property
    def folder(self) -> Path | None:
        return None

    @property
    def index(self) -> Path:
        """The folder of the cache in which this process has its index and the lines of the log."""
        return self._index

    @property
    def trips(self) -> int:
        """How often the server was asked for something and waited for."""
        return self._server.trips

    # --- writing

    def _decide(self, taken: Sequence[Waiting]) -> Batch:
        """Log what waits, in one transaction; what cannot be logged because the server is away, is told so."""
        attempt = _Attempt(taken)
        batch = self._new_batch()
        try:

            def work() -> None:
                nonlocal batch
                batch = self._log_batch(attempt)

            server.patiently(work)
        except StoreFailed as error:
            for waiting in attempt.begin():
                waiting.error, waiting.done = error, True
            return self._new_batch()
        return batch

    def _log_batch(self, attempt: _Attempt) -> Batch:
        """Decide over the index and the tail, under the lock, and append; a commit that was written before is only found.

        While nobody else writes, that takes no lock: what was decided over the index is written where the log still ends there.
        """
        if self._alone >= _ALONE and (written := self._at_once(attempt)) is not None:
            return written
        while True:
            head, tail = self._server.lock(self.number, _CHUNK)
            if head.number - self.number <= len(tail):
                break
            self._server.let_go()  # far behind: nobody has to wait for that
            self._catch_up(attempt)
        try:
            batch, digest = self._over(tail, head, attempt)
            for waiting in attempt.begin():
                batch.decide(waiting)
            rows = self._rows_of(batch, len(tail), digest, attempt)
        except BaseException:
            with suppress(StoreFailed):
                self._server.let_go()
            raise
        if rows:
            self._server.append(rows)
        else:
            self._server.let_go()
        self._alone = 0 if tail else self._alone + 1
        self._goes_on(rows[-1].number if rows else head.number, rows[-1].digest if rows else digest)
        return batch

    def _at_once(self, attempt: _Attempt) -> Batch | None:
        """Write without the lock; None, and nothing is written, where another has, or a commit must be judged over the log."""
        batch, waiting = self._new_batch(), attempt.begin()
        for each in waiting:
            batch.decide(each)
        if len(batch.settled) < len(waiting) or not waiting:
            return None
        rows = self._rows_of(batch, 0, self._digest, attempt)
        if not self._server.append_at_once(rows, self.number, self._digest):
            self._alone = 0
            return None
        self._goes_on(rows[-1].number, rows[-1].digest)
        return batch

    def _rows_of(self, batch: Batch, known: int, digest: bytes, attempt: _Attempt) -> list[Row]:
        rows: list[Row] = []
        for each in batch.settled[known:]:
            record = each.record
            if self._erasing and (record.remove or record.drop):
                record = replace(record, flags=record.flags | ERASES)
                self._gone.note(record)
            number = self.number + known + len(rows) + 1
            rows.append(records.row(record, attempt.id_of(each.waiting), number, digest))
            digest = rows[-1].digest
        return rows

    def _over(self, tail: Sequence[Row], head: Head, attempt: _Attempt | None = None) -> tuple[Batch, bytes]:
        """Return a batch of what others have logged, and the digest that the log has after it."""
        batch, digest = self._new_batch(), self._digest
        if head.number < self.number:
            raise self._has_diverged(None)
        for at, row in enumerate(tail, self.number):
            if not row.is_whole():
                raise self._was_altered(row)
            if not row.follows(at, digest):
                if at == self.number > 0 and row.number == at + 1:
                    raise self._has_diverged(row.digest)
                raise self._is_broken(at + 1)
            waiting = None if attempt is None else attempt.waiting_for(row.commit_id)
            batch.take(row.record(), waiting)
            if row.flags & ERASES and waiting is None:
                self._erased_elsewhere(batch.settled[-1].after.lines)
            digest = row.digest
        if head.number == self.number + len(tail) and head.digest != digest:
            raise self._is_broken(head.number) if tail or not self.number else self._has_diverged(head.digest)
        return batch, digest

    def _goes_on(self, number: int, digest: bytes) -> None:
        """Note, before the index gets it, where the log is."""
        if number != self.number:
            try:
                self._note({self.number: self._digest, number: digest})
            except StoreFailed as error:
                self._give_up(error)
                raise
        self._digest = digest

    def _erased_elsewhere(self, lines: int) -> None:
        """Let no pack that was made before be believed, nor stay: somebody else took text out of the store."""
        self._erased_at = lines
        shutil.rmtree(self._index / maintenance.INDEX / "packs", ignore_errors=True)

    def _was_altered(self, row: Row) -> StoreFailed:
        error = StoreFailed(
            f"record {row.number} of the log of {self.location} was altered: it does not hold what its digest says; "
            "nothing of it was read. Restore the database from a backup"
        )
        self._give_up(error)
        return error

    def _is_broken(self, number: int) -> StoreFailed:
        error = StoreFailed(
            f"the log of {self.location} is broken: record {number} is missing, or is not the one that was written there; "
            "nothing from there on was read. Restore the database from a backup"
        )
        self._give_up(error)
        return error

    def _has_diverged(self, there: bytes | None) -> StoreFailed:
        error = _diverged(self._server, self.number, self._digest, there)
        self._give_up(error)
        return error

    def _give_up(self, error: StoreFailed) -> None:
        self._failed, self._diverged = error.message, True
        _report.warning("%s", error.message)

    def drop_graph(self, graph: ox.NamedNode) -> int:
        """Remove a graph that nothing refers to; return how many quads it had here."""
        removed = len(self.quads((None, None, None, graph)))
        if removed:
            self.commit(Change(drop=[graph]))
        return removed

    def load(self, source: IO[bytes]) -> None:
        """Add all quads of an N-Quads file, in several commits: for a new store."""
        lines: list[bytes] = []
        for line in source:
            lines.append(line)
            if len(lines) >= _LOADED:
                self._load_lines(lines)
        self._load_lines(lines)

    def _load_lines(self, lines: list[bytes]) -> None:
        if lines:
            self.commit(Change(add=list(ox.parse(b"".join(lines), format=ox.RdfFormat.N_QUADS))))
            lines.clear()

    def _trouble_in_the_log(self) -> str | None:
        """Read all records up to where this index is, and say which is not the one that was written; for `verify`."""
        with self._write_lock:
            number, last = self.number, self._digest
        reading, digest, at = self._server.another(), START, 0
        try:
            while at < number:
                rows = reading.tail(at, _CHUNK)[: number - at]
                for row in rows:
                    if not (row.follows(at, digest) and row.is_whole()):
                        break
                    at, digest = row.number, row.digest
                else:
                    if rows:
                        continue
                return (
                    f"record {at + 1} of the log in the database is missing, or is not the one that was written there"
                )
        except StoreFailed as error:
            return f"the log in the database could not be read: {error.message}"
        finally:
            reading.close()
        return (
            None if digest == last else f"record {number} of the log in the database is not the one that was seen here"
        )

    # --- what others wrote

    @engines.let_go
    def sync(self) -> bool:
        """Bring in everything that was committed anywhere before this call; return whether there was anything.

        That is one trip to the server for each 500 commits, and one where there are none. Raises `StoreFailed` where the
        server cannot be reached; what is here can be read on.
        """
        with self._write_lock:
            self._engine()
            try:
                news, erased = self._catch_up()
            except Unreachable:  # the connection had ended since it was used last; the server may well be there
                news, erased = self._catch_up()
            if erased <= self._erased and time.monotonic() - self._said_at >= readers.HEARD:
                self.register()
        if erased > self._erased:
            self._vacuum_index(erased)
        self._keep_snapshots()
        return news

    def _vacuum_index(self, erased: int) -> Vacuumed:
        done = super().vacuum()
        with self._write_lock:
            self._erased = erased
            self._note({self.number: self._digest})
            self.register()
        return done

    def _catch_up(self, attempt: _Attempt | None = None) -> tuple[bool, int]:
        """Apply the tail, step by step, without the lock of the row; return whether there was one, and `Head.erased`.

        Under the write lock.
        """
        news = False
        while True:
            head, tail = self._server.since(self.number, _CHUNK)
            reached = tail[-1].number if tail else self.number
            if not tail and head.number > self.number:
                raise self._is_broken(self.number + 1)
            further = head._replace(number=reached + 1)
            batch, digest = self._over(tail, head if head.number <= reached else further, attempt)
            if tail:
                news = True
                self._goes_on(reached, digest)
                self._carry_out(batch)
                if self._failed is not None:
                    raise self._has_failed()
            if reached >= head.number:
                return news, head.erased

    def follow_others(self) -> None:
        """Bring in what others commit as they commit it, on a thread and a connection of their own, until the store closes."""
        if self._follower_thread is None:
            self._follower_thread = threading.Thread(target=self._listen, name="trails-follow", daemon=True)
            self._follower_thread.start()

    def _listen(self) -> None:
        while not self._ended.is_set():
            listening = self._server.another()
            try:
                listening.listen(self._bring_in, self._ended.is_set)
            except StoreFailed:
                self._ended.wait(1.0)  # the server is away: whoever writes is told
            finally:
                listening.close()

    def _bring_in(self) -> None:
        if self._failed is None and not self._ended.is_set():
            self.sync()

    # --- snapshots

    def _flush_when_due(self, written: int) -> None:
        super()._flush_when_due(written)
        self._keep_snapshots()

    def _keep_snapshots(self) -> None:
        """Keep a snapshot in the database, in the background, where the newest known one is old."""
        if self.number - self._snapshot_at < _SNAPSHOT_EVERY or (self._snapshots and self._snapshots.is_alive()):
            return
        self._snapshot_at = self.number
        self._snapshots = threading.Thread(target=self._keep_one, name="trails-snapshot", daemon=True)
        self._snapshots.start()

    def _keep_one(self) -> None:
        keeping = self._server.another()
        try:
            keeping.keep_snapshot(*self._taken())
        except StoreFailed as error:
            _report.warning("no snapshot was kept: %s", error.message)
        finally:
            keeping.close()

    @engines.let_go
    def _taken(self) -> tuple[int, list[bytes]]:
        """Return a snapshot: the number of its last record, and its parts. Others write on while it is made."""
        with self._write_lock:
            number = self.number
            quads = self._settled_engine().quads_for_pattern(None, None, None, None)  # as they are now
        text = ox.serialize(quads, format=ox.RdfFormat.N_QUADS) or b""
        return number, cache.packed(text, server.PART)

    def snapshot(self) -> int:
        """Keep a snapshot in the database now; return the number of its last record."""
        with self._write_lock:
            self._catch_up()
            number, parts = self._taken()
            self._server.keep_snapshot(number, parts)
            self._snapshot_at = number
        return number

    # --- upkeep

    @contextmanager
    def erasing(self) -> Iterator[None]:
        """Take what commits within take out of the store out of the log in the database, too, before this ends.

        Where the server goes away in between, the log is on record as not rid of it: whoever opens the store next does that.
        A user of the database who may not rewrite records is refused before anything is committed.
        """
        if not self._erasing:
            with self._write_lock:
                server.patiently(self._server.try_rewriting)
        self._erasing += 1
        try:
            yield
        finally:
            self._erasing -= 1
            if self._gone:
                gone, self._gone = self._gone, Gone()
                try:
                    self._rid(gone)
                except StoreFailed as error:
                    raise StoreFailed(
                        f"what was erased is gone from the store, and not yet from its log ({error.message}); whoever opens the "
                        "store next and may rewrite records ends that"
                    ) from error

    def vacuum(self) -> Vacuumed:
        """Take everything that was deleted, redacted or replaced out of the log in the database, and out of this index.

        Every record stays, with its leaves and digests, and tells only what is left of it. Other processes rebuild the files of
        their indexes at their next `sync`; those that have not yet are told (`Vacuumed.behind`). Indexes of this machine that no
        process has open are deleted. What PostgreSQL itself keeps of rows that were replaced, its own VACUUM FULL and the end
        of its backups take away.
        """
        erased = self._rid(None)
        done = self._vacuum_index(erased)
        with self._write_lock:
            self._discard_free(erased)
            with suppress(StoreFailed):  # whoever may rewrite records, and drop no readers
                self._server.forget_old()
            found = readers.behind(self._server.readers() or (), erased)
        return replace(done, behind=readers.told(found))

    def _discard_free(self, erased: int) -> None:
        """Delete the indexes of this machine that a vacuum has not reached, and that no process has open."""
        for index in cache.found(self._server.id):
            place = cache.place(index)
            if index == self._index or place is None or place.erased >= erased:
                continue
            with suppress(StoreFailed, StoreLocked):  # whoever opens it next does the same
                PostgresStore(self._server, index).throw_away()

    def finish_erasures(self) -> None:
        """Take out of the log what another process took out of the store and did not come to take out of the log."""
        self._rid(None)

    def _rid(self, gone: Gone | None) -> int:
        """Rewrite the records that tell what is gone, all of them with None; return the number of the last one."""
        keeping = self._server.another()
        try:
            with self._write_lock:
                self._catch_up()
                number = self.number
                engine = self._settled_engine()
                parts = self._taken()[1] if gone is None or keeping.has_snapshot() else ()
                changed = partial(erasing.without, gone=gone, left=lambda pattern: list(matching(engine, pattern)))
                keeping.rewrite(number, changed, parts, vacuumed=gone is None)
                if parts:
                    self._snapshot_at = number
        finally:
            keeping.close()
        return number

    def backup(self, destination: Path) -> None:
        """Refuse: a store in PostgreSQL is backed up by PostgreSQL's own means, or dumped."""
        raise InvalidInput(
            f"{self.location} is backed up as its database is (pg_dump, pg_basebackup), not to {destination}; or dump it"
        )

    def fill(self, text: bytes) -> None:
        """Put the quads of a snapshot into a new index."""
        super().load(io.BytesIO(text))
        super().flush()

    def close(self) -> None:
        self._ended.set()
        for thread in (self._follower_thread, self._snapshots):
            if thread is not None and thread is not threading.current_thread():
                thread.join(5.0)
        was_open = self._store is not None and os.getpid() == self._pid
        if was_open and not self._diverged and self._server.is_connected:
            with self._write_lock:
                self.register(is_closed=True)
        try:
            super().close()
        except StoreFailed:
            if not self._diverged:  # an index that is thrown away has nothing to lose
                raise
        finally:
            if was_open and self._diverged:
                _discard(self._server, self._index)
            self._server.close()

    def throw_away(self) -> None:
        """Close the index alone, and delete it; whoever opens it meanwhile sees that it is none."""
        cache.disown(self._index)
        super().close()
        _discard(self._server, self._index)

    # --- who reads

    def register(self, *, is_closed: bool = False) -> None:
        """Say in the database that this process has this index, and how far it is. Under the write lock, or alone.

        Whoever may not, or has no such table, is silent from then on: reading and writing go on without.
        """
        if not self._registers:
            return
        self._said_at = time.monotonic()
        said = Reader(self._index.name, readers.this_process(), self.number, self._erased, is_closed)
        try:
            self._server.register(said)
        except Unreachable:
            pass  # it is said again in time
        except StoreFailed:
            self._registers = False


def _discard(log: Server, index: Path) -> None:
    """Delete an index, and say so where the server is there: else it is forgotten in time."""
    cache.discard(index)
    if log.is_connected:
        with suppress(StoreFailed):
            log.forget(index.name)


class _Attempt:
    """Commits that are to be logged, each with the id by which it is found again after an answer was lost."""

    def __init__(self, taken: Sequence[Waiting]) -> None:
        self._by_id = {secrets.token_hex(16): waiting for waiting in taken}
        self._ids = {id(waiting): commit_id for commit_id, waiting in self._by_id.items()}
        self._found: set[int] = set()

    def id_of(self, waiting: Waiting) -> str:
        return self._ids[id(waiting)]

    def waiting_for(self, commit_id: str) -> Waiting | None:
        """Return who waits for a commit that is in the log, if it is one of these."""
        waiting = self._by_id.get(commit_id)
        if waiting is not None:
            self._found.add(id(waiting))
        return waiting

    def begin(self) -> list[Waiting]:
        """Return those that are not in the log, as if nothing had been said of them: what a try that failed said is void."""
        left = [each for each in self._by_id.values() if id(each) not in self._found]
        for each in left:
            each.done, each.error = False, None
        return left


def _diverged(log: Server, number: int, own: bytes, there: bytes | None) -> StoreDiverged:
    has = "has no such record" if there is None else f"has {there.hex()[:16]} there"
    return StoreDiverged(
        f"the log of {log.address.shown} has another history than this process saw: record {number} had the digest "
        f"{own.hex()[:16]} here, and the log {has} (a standby that lagged was promoted, or a backup restored); nothing is "
        "merged and what is pending was not written; open the store again, which makes a new index from the log"
    )
