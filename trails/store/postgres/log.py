"""A store's log in PostgreSQL: it is the truth, and the engine in this process is an index of it.

A commit takes the lock of the store's row, reads what others have logged since, judges its preconditions over its own
index and that tail, appends, and only then gives both to the index. So compare-and-swap is exact however many processes
write, and reading never asks the server.
"""

from __future__ import annotations

import logging
import secrets
import struct
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from trails.errors import IntegrityError, StoreFailed, StoreLocked
from trails.store import engines, maintenance
from trails.store.committing import Batch, Waiting, matching
from trails.store.embedded import EmbeddedStore
from trails.store.frames import ERASES
from trails.store.log import LogIndex
from trails.store.maintenance import Vacuumed
from trails.store.postgres import cache, erasing, readers, records, server, snapshots
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
_SPREAD: Final = 1_000
"""Records, at most, that a process lets pass beyond those, so that not all make one snapshot at the same time."""

_HELD: Final = 120.0
"""Seconds for which another process that does the same is waited for."""


class StoreDiverged(StoreFailed):
    """The log has another history than this process has seen: a standby that lagged was promoted, or a backup restored."""


class _Unwanted(Exception):
    """The snapshot that is being made is to be given up."""


class PostgresLog:
    """The log of a store as one index sees it, which is in a folder of the cache. `open_store` opens both."""

    is_shared = True

    def __init__(self, log: Server, folder: Path, *, is_read_only: bool = False) -> None:
        """`stands_at` says then up to where the index in the folder is known to be that of the log."""
        self._server = log
        self._folder = folder
        self.is_read_only = is_read_only
        self._digest = START
        self._erased = 0
        self._erased_at = 0
        self._erased_with = 0
        self._is_in_doubt = False
        """Whether the log is another than it was, so that the index is to be thrown away."""
        self._is_thrown_away = False
        self._alone = _ALONE
        self._erasing = 0
        self._gone = Gone()
        self._ended = threading.Event()
        self._follower: threading.Thread | None = None
        self._snapshots: threading.Thread | None = None
        self._unwanted = threading.Event()
        """Whether the engine is to be let go of, so that no snapshot of it is begun or gone on with."""
        self._snapshot_at = 0
        self._patience = _SNAPSHOT_EVERY + secrets.randbelow(_SPREAD)
        self._registers = True
        self._said_at = 0.0

    def stands_at(self, index: LogIndex, digest: bytes, erased: int, erased_at: int = 0) -> None:
        """Note that an index is that of the log up to the record with a digest."""
        self._digest, self._erased, self._erased_at = digest, erased, erased_at
        self._snapshot_at = index.number
        self._note({index.number: digest})

    def _note(self, digests: dict[int, bytes]) -> None:
        cache.note(self._folder, digests, self._erased, self._erased_at)

    @property
    def erased_at(self) -> int:
        return self._erased_at

    @property
    def erased_with(self) -> int:
        return self._erased_with

    @property
    def location(self) -> str:
        return self._server.address.shown

    @property
    def server(self) -> Server:
        """The connection over which this index appends."""
        return self._server

    # --- appending

    def append(self, waiting: Sequence[Waiting], index: LogIndex) -> Batch:
        """Log what waits, in one transaction; what cannot be logged because the server is away, is told so."""
        attempt = _Attempt(waiting)
        try:
            batch = server.patiently(partial(self._log_batch, attempt, index))
        except StoreFailed as error:
            for each in attempt.begin():
                each.error, each.done = error, True
            return index.new_batch()
        self._keep_snapshots(index)
        return batch

    def _log_batch(self, attempt: _Attempt, index: LogIndex) -> Batch:
        """Decide over the index and the tail, under the lock, and append; a commit that was written before is only found.

        While nobody else writes, that takes no lock: what was decided over the index is written where the log still ends there.
        """
        if self._alone >= _ALONE and (written := self._at_once(attempt, index)) is not None:
            return written
        while True:
            head, tail = self._server.lock(index.number, _CHUNK)
            if head.number - index.number <= len(tail):
                break
            self._server.let_go()  # far behind: nobody has to wait for that
            self._catch_up(index, attempt)
        try:
            batch, digest = self._over(tail, head, index, attempt)
            for waiting in attempt.begin():
                batch.decide(waiting)
            rows = self._rows_of(batch, index.number, len(tail), digest, attempt)
        except BaseException:
            with suppress(StoreFailed):
                self._server.let_go()
            raise
        if rows:
            self._server.append(rows)
        else:
            self._server.let_go()
        self._alone = 0 if tail else self._alone + 1
        self._goes_on(index, rows[-1].number if rows else head.number, rows[-1].digest if rows else digest)
        return batch

    def _at_once(self, attempt: _Attempt, index: LogIndex) -> Batch | None:
        """Write without the lock; None, and nothing is written, where another has, or a commit must be judged over the log."""
        batch, waiting = index.new_batch(), attempt.begin()
        for each in waiting:
            batch.decide(each)
        if len(batch.settled) < len(waiting) or not waiting:
            return None
        rows = self._rows_of(batch, index.number, 0, self._digest, attempt)
        if not self._server.append_at_once(rows, index.number, self._digest):
            self._alone = 0
            return None
        self._goes_on(index, rows[-1].number, rows[-1].digest)
        return batch

    def _rows_of(self, batch: Batch, number: int, known: int, digest: bytes, attempt: _Attempt) -> list[Row]:
        """Return the rows of what was decided over an index with so many records, and so many known ones after those."""
        rows: list[Row] = []
        for at, each in enumerate(batch.settled[known:], number + known + 1):
            record = each.record
            if self._erasing and (record.remove or record.drop):
                record = replace(record, flags=record.flags | ERASES)
                self._gone.note(record)
            rows.append(records.row(record, attempt.id_of(each.waiting), at, digest))
            digest = rows[-1].digest
        return rows

    # --- reading

    def _over(
        self, tail: Sequence[Row], head: Head, index: LogIndex, attempt: _Attempt | None = None
    ) -> tuple[Batch, bytes]:
        """Return a batch of what others have logged, and the digest that the log has after it."""
        batch, digest, number = index.new_batch(), self._digest, index.number
        if head.number < number:
            raise self._has_diverged(index, None)
        for at, row in enumerate(tail, number):
            if not row.is_whole():
                raise self._was_altered(index, row)
            if not row.follows(at, digest):
                if at == number > 0 and row.number == at + 1:
                    raise self._has_diverged(index, row.digest)
                raise self._is_broken(index, at + 1)
            waiting = None if attempt is None else attempt.waiting_for(row.commit_id)
            try:
                batch.take(row.record(), waiting)
            except (IntegrityError, ValueError, SyntaxError, struct.error) as error:
                raise self._is_unreadable(index, row, error) from error
            if row.flags & ERASES and waiting is None:
                self._erased_elsewhere(row.number, batch.settled[-1].after.lines)
            digest = row.digest
        if head.number == number + len(tail) and head.digest != digest:
            raise self._is_broken(index, head.number) if tail or not number else self._has_diverged(index, head.digest)
        return batch, digest

    def read_on(self, index: LogIndex) -> bool:
        """Bring in what is in the log; one trip to the server for each 500 records, and one where there are none."""
        with index.writing():
            index.refuse_failed()
            try:
                news, erased = self._catch_up(index)
            except Unreachable:  # the connection had ended since it was used last; the server may well be there
                news, erased = self._catch_up(index)
            if erased <= self._erased and time.monotonic() - self._said_at >= readers.HEARD:
                self.register(index)
        if erased > self._erased:
            self._rebuild(index, erased)
        self._keep_snapshots(index)
        return news

    def _catch_up(self, index: LogIndex, attempt: _Attempt | None = None) -> tuple[bool, int]:
        """Apply the tail, step by step, without the lock of the row; return whether there was one, and `Head.erased`."""
        news = False
        while True:
            head, tail = self._server.since(index.number, _CHUNK)
            reached = tail[-1].number if tail else index.number
            if not tail and head.number > index.number:
                raise self._is_broken(index, index.number + 1)
            further = head._replace(number=reached + 1)
            batch, digest = self._over(tail, head if head.number <= reached else further, index, attempt)
            if tail:
                news = True
                self._goes_on(index, reached, digest)
                index.carry_out(batch)
                index.refuse_failed()
            if reached >= head.number:
                return news, head.erased

    def _goes_on(self, index: LogIndex, number: int, digest: bytes) -> None:
        """Note, before the index gets it, where the log is.

        An index that is gone, or cannot be written, takes no more; what is in the log is still told to whoever committed it.
        """
        if number != index.number:
            try:
                self._note({index.number: self._digest, number: digest})
            except StoreFailed as error:
                self._doubt(index, error)
        self._digest = digest

    def _erased_elsewhere(self, number: int, lines: int) -> None:
        """Let nothing be believed that was derived before, and no pack be written of that: others took text out."""
        self._erased_with, self._erased_at = number, lines  # first: packs look at that once they are written
        maintenance.doubt_derived(self._folder)

    def trouble(self, index: LogIndex) -> str | None:
        """Read all records up to where an index is, and say which is not the one that was written; for `verify`."""
        with index.writing():
            number, last = index.number, self._digest
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

    # --- a log that is not what it was

    def _was_altered(self, index: LogIndex, row: Row) -> StoreFailed:
        error = StoreFailed(
            f"record {row.number} of the log of {self.location} was altered: it does not hold what its digest says; "
            "nothing of it was read. Restore the database from a backup"
        )
        return self._doubt(index, error)

    def _is_unreadable(self, index: LogIndex, row: Row, error: Exception) -> StoreFailed:
        failed = StoreFailed(
            f"record {row.number} of the log of {self.location} is as it was written, and says what no version of Trails writes "
            f"({error!s:.200}); nothing from there on was read. See who may write there, and restore the database from a backup "
            "of before that record"
        )
        return self._doubt(index, failed)

    def _is_broken(self, index: LogIndex, number: int) -> StoreFailed:
        error = StoreFailed(
            f"the log of {self.location} is broken: record {number} is missing, or is not the one that was written there; "
            "nothing from there on was read. Restore the database from a backup"
        )
        return self._doubt(index, error)

    def _has_diverged(self, index: LogIndex, there: bytes | None) -> StoreFailed:
        return self._doubt(index, diverged(self._server, index.number, self._digest, there))

    def _doubt(self, index: LogIndex, error: StoreFailed) -> StoreFailed:
        """Have an index take no more, and be thrown away once it is closed."""
        self._is_in_doubt = True
        index.give_up(error)
        _report.warning("%s", error.message)
        return error

    # --- following

    def follow(self, index: LogIndex) -> None:
        if self._follower is None:
            listen = partial(self._listen, index)
            self._follower = threading.Thread(target=listen, name="trails-follow", daemon=True)
            self._follower.start()

    def _listen(self, index: LogIndex) -> None:
        def bring_in() -> None:
            if not index.has_failed and not self._ended.is_set():
                index.sync()

        while not self._ended.is_set():
            listening = self._server.another()
            try:
                listening.listen(bring_in, self._ended.is_set)
            except StoreFailed:
                self._ended.wait(1.0)  # the server is away: whoever writes is told
            finally:
                listening.close()

    # --- one process at a time

    @contextmanager
    def alone(self, index: LogIndex, name: str) -> Iterator[None]:
        end, pause = time.monotonic() + _HELD, 0.01
        while not self._hold(index, name):
            if time.monotonic() > end:
                raise StoreLocked(
                    f"another process does the same ({name}) in {self.location}, for more than {_HELD:.0f} seconds; nothing was "
                    "written here: let that end, and try again"
                )
            time.sleep(pause)
            pause = min(0.2, pause * 2)
        try:
            index.sync()
            yield
        finally:
            with index.writing():
                self._server.let_go_of(name)

    def _hold(self, index: LogIndex, name: str) -> bool:
        with index.writing():  # for a moment: other threads go on committing while this one waits
            return server.patiently(partial(self._server.hold, name))

    # --- snapshots

    def _keep_snapshots(self, index: LogIndex) -> None:
        """Keep a snapshot in the database, in the background, where the newest known one is old."""
        if self.is_read_only or self._unwanted.is_set():
            return
        if index.number - self._snapshot_at < self._patience or (self._snapshots and self._snapshots.is_alive()):
            return
        self._snapshot_at = index.number
        keep = partial(self._keep_one, index)
        self._snapshots = threading.Thread(target=keep, name="trails-snapshot", daemon=True)
        self._snapshots.start()

    def _keep_one(self, index: LogIndex) -> None:
        keeping = self._server.another()
        try:
            newest = keeping.newest_snapshot()
            if index.number - newest >= _SNAPSHOT_EVERY:
                number, parts = self._taken(index)
                keeping.keep_snapshot(number, self._while_wanted(parts))
            else:  # another process has kept one
                self._snapshot_at = newest
        except _Unwanted:
            pass
        except StoreFailed as error:
            _report.warning("no snapshot was kept: %s", error.message)
        finally:
            keeping.close()

    def _while_wanted(self, parts: Iterator[bytes]) -> Iterator[bytes]:
        for part in parts:
            if self._unwanted.is_set():
                raise _Unwanted
            yield part

    @contextmanager
    def _without_snapshots(self) -> Iterator[None]:
        """Have no snapshot made meanwhile: one that is being made holds the engine, which cannot be exchanged then."""
        self._unwanted.set()
        try:
            if self._snapshots is not None:
                self._snapshots.join()
            yield
        finally:
            self._unwanted.clear()

    def snapshot(self, index: LogIndex) -> int:
        """Keep a snapshot in the database now; return the number of its last record."""
        with index.writing():
            server.patiently(partial(self._catch_up, index))
            number, parts = self._taken(index)
            self._server.keep_snapshot(number, parts)
            self._snapshot_at = number
        return number

    @engines.let_go
    def _taken(self, index: LogIndex) -> tuple[int, Iterator[bytes]]:
        """Return a snapshot: the number of its last record, and its parts. Others write on while they are made."""
        with index.writing():
            quads = index.settled_engine().quads_for_pattern(None, None, None, None)  # as they are now
            return index.number, snapshots.packed(quads, server.PART, self._digest)

    # --- erasing

    @contextmanager
    def erasing(self, index: LogIndex) -> Iterator[None]:
        if not self._erasing:
            with index.writing():
                server.patiently(self._server.try_rewriting)
                head, _ = server.patiently(partial(self._server.since, index.number, 1))
                if head.due:  # of one that was cut short: this one would be taken for its end
                    self._rid(index, None)
        self._erasing += 1
        try:
            yield
        finally:
            self._erasing -= 1
            if self._gone:
                gone, self._gone = self._gone, Gone()
                try:
                    self._rid(index, gone)
                except StoreFailed as error:
                    raise StoreFailed(
                        f"what was erased is gone from the store, and not yet from its log ({error.message}); whoever opens the "
                        "store next and may rewrite records ends that"
                    ) from error

    def vacuum(self, index: LogIndex) -> Vacuumed:
        """Let every record tell only what is left of it. Indexes of this machine that no process has open are deleted."""
        erased = self._rid(index, None)
        done = self._rebuild(index, erased)
        with index.writing():
            self._discard_free(erased)
            with suppress(StoreFailed):  # whoever may rewrite records, and drop no readers
                self._server.forget_old()
            found = readers.behind(self._server.readers() or (), erased)
        return replace(done, behind=readers.told(found))

    def _rebuild(self, index: LogIndex, erased: int) -> Vacuumed:
        with self._without_snapshots():
            done = index.rebuild()
        with index.writing():
            self._erased = erased
            self._note({index.number: self._digest})
            self.register(index)
        return done

    def _discard_free(self, erased: int) -> None:
        """Delete the indexes of this machine that a vacuum has not reached, and that no process has open."""
        for folder in cache.found(self._server.id):
            place = cache.place(folder)
            if folder == self._folder or place is None or place.erased >= erased:
                continue
            with suppress(StoreFailed, StoreLocked):  # whoever opens it next does the same
                log = PostgresLog(self._server, folder)
                log.throw_away(EmbeddedStore(folder, durability="process", commits=log))

    def finish_erasures(self, index: LogIndex) -> None:
        """Take out of the log what another process took out of the store and did not come to take out of the log."""
        self._rid(index, None)

    def _rid(self, index: LogIndex, gone: Gone | None) -> int:
        """Rewrite the records that tell what is gone, all of them with None; return the number of the last one."""
        keeping = self._server.another()
        try:
            with index.writing():
                self._catch_up(index)
                number = index.number
                engine = index.settled_engine()
                parts = self._taken(index)[1] if gone is None or keeping.newest_snapshot() else None
                reached = self._reached_by_all(number) if gone is None else 0
                changed = partial(erasing.without, gone=gone, left=partial(matching, engine), reached=reached)
                keeping.rewrite(number, changed, parts, vacuumed=gone is None)
                if parts is not None:
                    self._snapshot_at = number
        finally:
            keeping.close()
        return number

    def _reached_by_all(self, number: int) -> int:
        """Return the number of the last record that all have who have an index open; this one has all up to `number`.

        Those that are not open are thrown away after a vacuum, whichever records they have.
        """
        found = self._server.readers()
        if found is None:
            return 0
        others = (each.number for each in found if not each.is_closed and each.index != self._folder.name)
        return min(others, default=number)

    # --- the end

    def remove_store(self, index: LogIndex) -> bool:
        """Take the store out of its database, and its indexes here, unless somebody appended since; tell whether it is out."""
        # Who keeps a snapshot locks its rows and then the store's: the other way round than who removes it.
        with self._without_snapshots(), index.writing():
            if not self._server.remove(index.number, self._digest):
                return False
            self._is_in_doubt = True  # there is no log any more
            index.give_up(StoreFailed(f"{self.location} was taken out of its database"))
            self._discard_free(sys.maxsize)
        return True

    def end(self, index: LogIndex) -> None:
        self._ended.set()
        for thread in (self._follower, self._snapshots):
            if thread is not None and thread is not threading.current_thread():
                thread.join(5.0)
        self._unwanted.set()  # a snapshot that takes longer than that is given up
        if self._snapshots is not None:
            self._snapshots.join(5.0)
        if not self._is_in_doubt and not self._is_thrown_away and self._server.is_connected:
            with index.writing():
                self.register(index, is_closed=True)

    def close(self) -> None:
        if self._is_thrown_away:
            return  # the connection is another index's
        if self._is_in_doubt:
            discard(self._server, self._folder)
        self._server.close()

    def throw_away(self, store: EmbeddedStore) -> None:
        """Close the index of this log alone, and delete it; whoever opens it meanwhile sees that it is none."""
        self._is_thrown_away = True
        cache.disown(self._folder)
        store.close()
        discard(self._server, self._folder)

    # --- who reads

    def register(self, index: LogIndex, *, is_closed: bool = False) -> None:
        """Say in the database that this process has this index, and how far it is. Within `writing`, or alone.

        Whoever may not, or has no such table, is silent from then on: reading and writing go on without.
        """
        if not self._registers:
            return
        self._said_at = time.monotonic()
        said = Reader(self._folder.name, readers.this_process(), index.number, self._erased, is_closed)
        try:
            self._server.register(said)
        except Unreachable:
            pass  # it is said again in time
        except StoreFailed:
            self._registers = False


def discard(log: Server, index: Path) -> None:
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


def diverged(log: Server, number: int, own: bytes, there: bytes | None) -> StoreDiverged:
    """Return the error for a log that has another record with a number than an index had, or none."""
    has = "has no such record" if there is None else f"has {there.hex()[:16]} there"
    return StoreDiverged(
        f"the log of {log.address.shown} has another history than this process saw: record {number} had the digest "
        f"{own.hex()[:16]} here, and the log {has} (a standby that lagged was promoted, or a backup restored); nothing is "
        "merged and what is pending was not written; open the store again, which makes a new index from the log"
    )
