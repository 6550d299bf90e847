"""The log of a store: the truth, of which the engine in each process is an index.

A commit takes the log's lock, reads what others have appended since, judges its preconditions over its own index and that tail,
appends, and only then gives both to the index. So compare-and-swap is exact however many processes write. The log has two
homes, SQLite (`sqlite.py`) and PostgreSQL (`postgres/`).
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import pyoxigraph as ox

from trails.display.progress import made_anew
from trails.errors import IntegrityError, StoreFailed, StoreLocked
from trails.store.log import erasing, records
from trails.store.log.commit_batch import Batch, Waiting, matching
from trails.store.log.erasing import Gone
from trails.store.log.locks import WRITERS, NamedLocks
from trails.store.log.log_maintenance import Behind, Vacuumed
from trails.store.log.records import ERASES, START, Row, Unpacked
from trails.store.log.rewriting import Rewritings
from trails.store.log.sqlite import NAME, Head, SqliteHome

_report: Final = logging.getLogger("trails")
CHUNK: Final = 500
"""Records that are read at once, and the most that are caught up with while others wait for the lock."""
_TEXT: Final = 8 << 20
"""Bytes of quads, written as lines, that are brought in at once; one commit may have more."""
_PACKED_FROM: Final = 64 << 10
"""Bytes of packed bodies from which on records are brought in without their quads, which the engine gets from the text."""
_HELD: Final = 120.0
"""Seconds for which another process that does the same is waited for."""
_POLL: Final = 0.2
"""Seconds between two looks of whoever follows the log."""


_WaitingFor = Callable[[str], Waiting | None]
_Tail = Callable[[int, int], list[Row]]
_Changed = Callable[[Row], Row | None]


class StoreDiverged(StoreFailed):
    """The log has another history than this process has seen: a backup was restored, or a standby that lagged was promoted."""


class LogAtRest(NamedTuple):
    """A log as it is at one moment, to be verified."""

    head: Head
    tail: _Tail
    trouble: Callable[[Unpacked, int], str | None]
    """Returns what is wrong with what is derived from a record, after which the log of leaves has so many lines."""


class LogIndex(Protocol):
    """The index that a log feeds (`EmbeddedStore`), as the log sees it."""

    @property
    def number(self) -> int:
        """The number of the last record that it has."""
        ...

    @property
    def has_failed(self) -> bool:
        """Whether it takes no more."""
        ...

    def refuse_failed(self) -> None:
        """Raise `StoreFailed` if it takes no more, or is closed."""

    def give_up(self, error: StoreFailed) -> None:
        """Take no more, because of what an error says of the log."""

    def writing(self) -> AbstractContextManager[object]:
        """Let no other thread commit, or bring in records, meanwhile."""
        ...

    def new_batch(self) -> Batch:
        """Return an empty batch, which judges commits over what the index has. Within `writing`."""
        ...

    def carry_out(self, batch: Batch) -> None:
        """Take in what the log has, and tell whoever waits for it. Within `writing`."""

    def with_engine(self, ask: Callable[[ox.Store], None]) -> None:
        """Call a function with the engine once it has all that was carried out; again if its files must be made anew."""
        ...

    def sync(self) -> bool:
        """Bring in what was committed anywhere; return whether there was anything."""
        ...

    def forget_engine(self) -> None:
        """Have the engine made anew before it is used next."""

    def note_rewriting(self, number: int) -> None:
        """Note that this process rewrote records, which the record with a number says."""

    def rebuild(self) -> int:
        """Make its files anew from what is in it; return how many quads there are. Within `writing`."""
        ...

    def size_on_disk(self) -> int:
        """Return the bytes of all its files."""
        ...

    def others(self) -> tuple[Behind, ...]:
        """Return the engines of other living processes."""
        ...


class Log:
    """The log of a store as one index sees it."""

    is_remote = False
    """Whether the log is in a database elsewhere."""

    def __init__(self, home: SqliteHome, folder: Path | None = None) -> None:
        """`folder` is where locks of more than one commit are, None in memory. `begin` is to be called next."""
        self.home = home
        self.is_read_only = home.is_read_only
        self._locks = NamedLocks(folder)
        self._digest = START
        self._erased = 0
        self.erased_with = 0
        """The number of the last record by which others removed text since this was opened."""
        self._erasing = 0
        self._gone = Gone()
        self._ended = threading.Event()
        self._follower: threading.Thread | None = None

    @property
    def location(self) -> str:
        """Where the log is, as it may be shown."""
        return self.home.location

    @property
    def digest(self) -> bytes:
        """The digest of the last record that the index has."""
        return self._digest

    @property
    def erased(self) -> int:
        """At which number the store was last vacuumed, as far as the index knows."""
        return self._erased

    def begin(self) -> Head:
        """Return where the log ends: there the index stands. Raises `StoreFailed` if that is not its last record."""
        head, digest, is_last = self.home.end()
        if digest != head.digest or not is_last:
            raise StoreFailed(self._broken(head.number))
        self._digest, self._erased = head.digest, head.erased
        return head

    def show_writer(self) -> None:
        """Let others see, until this is closed, that a process has the store open to write."""
        self._locks.share(WRITERS)

    # --- appending

    def append(self, waiting: Sequence[Waiting], index: LogIndex) -> Batch:
        """Judge commits in their order, each over all that is in the log, and append those that may be.

        This is where a commit is decided, and nowhere else. What is returned is for the index to carry out; first in it stands
        what others have appended since. Within `LogIndex.writing`.
        """
        with self.home.exclusive:
            return self._append(waiting, index)

    def _append(self, waiting: Sequence[Waiting], index: LogIndex) -> Batch:
        home = self.home
        while True:
            head, tail = home.lock(index.number, CHUNK)
            if head.number - index.number <= len(tail) and head.erased == self._erased:
                break
            home.let_go()  # far behind: no other process has to wait for that
            self.catch_up(index)
        try:
            batch, digest = self._over(tail, head, index)
            batch.alone = len(waiting) == 1 and not tail
            known = len(tail)
            for each in waiting:
                batch.decide(each)
            rows = self._rows_of(batch, known, digest, lambda _: secrets.token_hex(8))
        except BaseException:
            home.let_go()
            raise
        if self._is_written(batch, known, rows):
            digest = rows[-1].digest
        self._digest = digest
        return batch

    def _is_written(self, batch: Batch, known: int, rows: Sequence[Row]) -> bool:
        """Write what was decided and end the transaction; return whether there is anything. Who waits gets what goes wrong."""
        if not rows:
            self.home.let_go()
            return False
        new = batch.settled[known:]
        try:
            lines = sum(len(each.record.leaves) for each in batch.settled[:known])
            self.home.append(rows, new, batch.reached.lines + lines)
        except StoreFailed as error:
            for each in new:
                each.waiting.error, each.waiting.done = error, True
            del batch.settled[known:]
            return False
        except (KeyboardInterrupt, SystemExit) as interrupt:
            self.home.let_go()
            if self.home.digest(rows[-1].number) != rows[-1].digest:
                raise
            batch.interrupt = interrupt  # the log has it: it is carried out first
        return True

    def _rows_of(self, batch: Batch, known: int, digest: bytes, id_of: Callable[[Waiting], str]) -> list[Row]:
        """Return the rows of what was decided, after so many records that others had appended."""
        rows: list[Row] = []
        for number, each in enumerate(batch.settled[known:], batch.number + known + 1):
            record = each.record
            if self._erasing and (record.remove or record.drop):
                record = replace(record, flags=record.flags | ERASES)
                self._gone.note(record)
            rows.append(records.row_of(record, id_of(each.waiting), number, digest))
            digest = rows[-1].digest
        return rows

    # --- reading

    def _over(
        self,
        tail: Sequence[Row],
        head: Head,
        index: LogIndex,
        waiting_for: _WaitingFor | None = None,
        *,
        packs: bool = False,
    ) -> tuple[Batch, bytes]:
        """Return a batch of what others have appended, and the digest that the log has after it.

        `waiting_for` gives who waits for a commit here, by its id, if that was written and the answer was lost. If it `packs`,
        the batch decides nothing more, and ends before it has more than `_TEXT` bytes, or a record looks for what is in it.
        """
        batch, digest, number, size = index.new_batch(), self._digest, index.number, 0
        if head.number < number:
            raise self._has_diverged(index, None)
        for at, row in enumerate(tail, number):
            unpacked = self._unpacked(row, index)
            if not unpacked.follows(at, digest):
                if at == number > 0 and row.number == at + 1:
                    raise self._has_diverged(index, row.digest)
                raise self._is_broken(index, at + 1)
            size += unpacked.record.text
            if packs and batch.settled and (size > _TEXT or unpacked.record.drops_properties):
                break
            try:
                waiting = None if waiting_for is None else waiting_for(row.commit_id)
                batch.take(unpacked.record, waiting, packs=packs)
            except (IntegrityError, ValueError, SyntaxError) as error:
                raise self._is_unreadable(index, row, error) from error
            if row.flags & ERASES and waiting is None:
                self.erased_with = row.number
            digest = row.digest
        if head.number == number + len(batch.settled) and head.digest != digest:
            raise self._is_broken(index, head.number) if tail or not number else self._has_diverged(index, head.digest)
        return batch, digest

    def _unpacked(self, row: Row, index: LogIndex) -> Unpacked:
        """Return what a row holds; raise `StoreFailed` if that is not what was written."""
        try:
            unpacked = row.unpack()
        except ValueError as error:
            raise self._was_altered(index, row) from error
        if not unpacked.is_whole:
            raise self._was_altered(index, row)
        return unpacked

    def read_on(self, index: LogIndex, *, is_patient: bool = False) -> bool:
        """Let an index carry out all records that come after its own number; return whether there were any.

        If it `is_patient`, it waits for a log that cannot be reached, as a commit does.
        """
        with index.writing():
            index.refuse_failed()
            return self.catch_up(index)

    def catch_up(self, index: LogIndex, waiting_for: _WaitingFor | None = None) -> bool:
        """Bring in the tail, step by step, in bounded memory; return whether there was one. Within `LogIndex.writing`.

        Each step is kept before the next one is read: whoever was killed goes on from there.
        """
        start, is_behind = index.number, True
        with made_anew("reading the log") as move:
            while is_behind:
                head, tail = self._since(index.number)
                if head.erased > self._erased:
                    self._vacuumed(index, head.erased)
                if not tail and head.number > index.number:
                    raise self._is_broken(index, index.number + 1)
                self._bring_in(tail, head, index, waiting_for)
                is_behind = index.number < head.number
                if move is not None:
                    move(index.number - start, head.number - start, "")
        return index.number > start

    def _bring_in(self, tail: list[Row], head: Head, index: LogIndex, waiting_for: _WaitingFor | None) -> None:
        """Let an index carry out records, as many at a time as memory is for."""
        further = head._replace(number=index.number + len(tail) + 1)
        end = head if head.number < further.number else further
        packs = sum(len(row.body) for row in tail) >= _PACKED_FROM
        while True:
            batch, digest = self._over(tail, end, index, waiting_for, packs=packs)
            if not tail:
                return
            rows, tail = tail[: len(batch.settled)], tail[len(batch.settled) :]
            self._received(index, rows, batch)
            self._digest = digest
            index.carry_out(batch)
            index.refuse_failed()
            if not tail:
                return
            if end.number < index.number:
                end = further

    def _since(self, number: int) -> tuple[Head, list[Row]]:
        """Return where the log ends, and some of what follows on a number."""
        return self.home.since(number, CHUNK)

    def _received(self, index: LogIndex, rows: Sequence[Row], batch: Batch) -> None:
        """Keep records that others appended, before the index gets them."""

    def _vacuumed(self, index: LogIndex, erased: int) -> None:
        """Have an index made anew whose files hold what a vacuum removed."""
        self._erased = erased
        index.forget_engine()

    def records(self, after: int, until: int, digest: bytes | None = None) -> Iterator[Unpacked]:
        """Return the records between two numbers, in order, read a step at a time.

        Reading raises `StoreFailed` if one is not as it was written.

        `digest` is that of the record before the first one, if it is known.
        """
        return self._records(self.home.tail, after, until, self.home.digest(after) if digest is None else digest)

    def _records(self, tail: _Tail, after: int, until: int | None, previous: bytes | None) -> Iterator[Unpacked]:
        while until is None or after < until:
            rows = [row for row in tail(after, CHUNK) if until is None or row.number <= until]
            for row in rows:
                try:
                    unpacked = row.unpack()
                except ValueError as error:
                    raise StoreFailed(self._altered(row.number)) from error
                if previous is None or not unpacked.follows(after, previous):
                    raise StoreFailed(self._broken(after + 1))
                if not unpacked.is_whole:
                    raise StoreFailed(self._altered(row.number))
                yield unpacked
                after, previous = row.number, row.digest
            if not rows:
                if until is None:
                    return
                raise StoreFailed(self._broken(after + 1))

    def trouble(self, index: LogIndex) -> str | None:
        """Read all records up to where an index is, and return which is not the one that was written; for `verify`."""
        with index.writing():
            number, last = index.number, self._digest
        rewritings = Rewritings()
        end, lines, lost = START, 0, None
        try:
            with self._at_rest() as (head, tail, misled):  # others rewrite records meanwhile, and say so
                for unpacked in self._records(tail, 0, number, START):
                    end, lines = unpacked.row.digest, lines + len(unpacked.record.leaves)
                    lost = lost or misled(unpacked, lines)
                    rewritings.take(unpacked)
                seen, reached = end, number
                for unpacked in self._records(tail, number, None, end):  # they state what was rewritten since `number`
                    end, reached = unpacked.row.digest, unpacked.row.number
                    rewritings.take(unpacked)
        except StoreFailed as error:
            return error.message
        if seen != last:
            return f"record {number} of the log of {self.location} is not the one that was seen here"
        if (head.number, head.digest) != (reached, end):
            return (
                f"the log of {self.location} says that it ends with record {head.number}, and its last record is {reached}: "
                "one of the two was altered. Restore a backup"
            )
        if max(head.erased, head.due) > reached:
            return (
                f"the log of {self.location} says that it was vacuumed, or that erasures are to be ended, up to record "
                f"{max(head.erased, head.due)}, and it has {reached}: that was altered, so that no vacuum names files that "
                "still hold erased text. Restore a backup"
            )
        wrong = rewritings.trouble()
        return lost if wrong is None else f"in the log of {self.location}, record {wrong}"

    @contextmanager
    def _at_rest(self) -> Iterator[LogAtRest]:
        """Give the log as it is now: what is derived from a record is that by which erasures find it."""
        with self.home.tail_at_rest() as (head, tail):
            yield LogAtRest(head, tail, lambda one, lines: self.home.index_trouble(one.row.number, one.record, lines))

    # --- a log that is not what it was

    def _altered(self, number: int) -> str:
        return (
            f"record {number} of the log of {self.location} was altered: it does not hold what its digest says; nothing of it "
            "was read. Restore a backup"
        )

    def _broken(self, number: int) -> str:
        return (
            f"the log of {self.location} is broken: record {number} is missing, or is not the one that was written there; "
            "nothing from there on was read. Restore a backup"
        )

    def _was_altered(self, index: LogIndex, row: Row) -> StoreFailed:
        return self._doubt(index, StoreFailed(self._altered(row.number)))

    def _is_unreadable(self, index: LogIndex, row: Row, error: Exception) -> StoreFailed:
        failed = StoreFailed(
            f"record {row.number} of the log of {self.location} is as it was written, and says what no version of Trails writes "
            f"({error!s:.200}); nothing from there on was read. Find out who writes there, and restore a backup from before that "
            "record"
        )
        return self._doubt(index, failed)

    def _is_broken(self, index: LogIndex, number: int) -> StoreFailed:
        return self._doubt(index, StoreFailed(self._broken(number)))

    def _has_diverged(self, index: LogIndex, there: bytes | None) -> StoreFailed:
        has = "has no such record" if there is None else f"has {there.hex()[:16]} there"
        error = StoreDiverged(
            f"the log of {self.location} has another history than this process saw: record {index.number} had the digest "
            f"{self._digest.hex()[:16]} here, and the log {has} (a backup was restored, or a standby that lagged was promoted); "
            "nothing is merged and what is pending was not written; open the store again"
        )
        return self._doubt(index, error)

    def _doubt(self, index: LogIndex, error: StoreFailed) -> StoreFailed:
        """Have an index take no more work."""
        index.give_up(error)
        _report.warning("%s", error.message)
        return error

    # --- following

    def follow(self, index: LogIndex) -> None:
        """Let an index get what others append, as they append it, until the log is closed."""
        if self._follower is None:
            listen = partial(self._listen, index)
            self._follower = threading.Thread(target=listen, name="trails-follow", daemon=True)
            self._follower.start()

    def _listen(self, index: LogIndex) -> None:
        while not self._ended.wait(_POLL):
            with suppress(StoreFailed, StoreLocked):  # whoever uses the store is told
                if not index.has_failed:
                    index.sync()

    # --- one process at a time

    @contextmanager
    def alone(self, index: LogIndex, name: str) -> Iterator[None]:
        """Have nobody else, in any process, be within for the same name, and have here all that whoever was has written.

        It keeps two that do the same from doing it twice; what commits within may still be refused, as anywhere.
        """
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
            self._release(index, name)

    @contextmanager
    def alone_here(self, name: str, *, patience: float = 0.0) -> Iterator[bool]:
        """Have no other process of this machine be within for the same name; give False if one still is after some seconds."""
        end = time.monotonic() + patience
        while not (is_alone := self._locks.hold(name)) and time.monotonic() < end:
            time.sleep(0.05)
        try:
            yield is_alone
        finally:
            if is_alone:
                self._locks.release(name)

    def _hold(self, index: LogIndex, name: str) -> bool:
        return self._locks.hold(name)

    def _release(self, index: LogIndex, name: str) -> None:
        self._locks.release(name)

    # --- erasing

    @contextmanager
    def erasing(self, index: LogIndex) -> Iterator[None]:
        """Remove from the log, before this ends, what commits within remove from the store for good."""
        if not self._erasing:
            with index.writing():
                self.finish_erasures(index)  # of one that was cut short: this one would be taken for its end
        self._erasing += 1
        is_committed = False
        try:
            yield
            is_committed = True
        finally:
            self._erasing -= 1
            if self._gone and not self._erasing:
                gone, self._gone = self._gone, Gone()
                try:
                    self._rewrite(index, gone)
                except StoreFailed as error:
                    if is_committed:  # else the error that ends this says what failed
                        raise StoreFailed(
                            f"what was erased is gone from the store, and not yet from its log ({error.message}); whoever opens "
                            "the store next and may rewrite records ends that"
                        ) from error

    def finish_erasures(self, index: LogIndex) -> None:
        """Remove from the log what a process that was killed removed from the store and not yet from the log."""
        if not self.is_read_only and self.home.head().due:
            self._rewrite(index, None)

    def vacuum(self, index: LogIndex) -> Vacuumed:
        """Remove everything that is gone from the log, and from the files of the index."""
        before = index.size_on_disk()
        try:
            with index.writing():
                self._rewrite(index, None, is_vacuum=True)
                count = index.rebuild()
            is_done = self.home.vacuum()
        except StoreFailed as error:
            raise StoreFailed(
                f"{self.location} cannot be vacuumed to its end ({error}): what was deleted may still be in its files; mend "
                "that, and vacuum it again"
            ) from error
        readers = () if is_done else (Behind("a process that reads the log", NAME, False, None),)
        return Vacuumed(count, before, index.size_on_disk(), (*self._behind(index), *readers))

    def _behind(self, index: LogIndex) -> tuple[Behind, ...]:
        return index.others()

    def _rewrite(self, index: LogIndex, gone: Gone | None, *, is_vacuum: bool = False) -> None:
        """Rewrite the records that hold what is gone; with None, everything that the store no longer has."""
        with index.writing():
            self.catch_up(index)
            number = index.number
            reached = self._reached_by_all(number) if is_vacuum else 0
            logged_by = 0

            def rewrite(engine: ox.Store) -> None:
                changed = partial(erasing.without, gone=gone, left=partial(matching, engine), reached=reached)
                nonlocal logged_by
                logged_by = self._rewrite_records(number, changed, gone, is_vacuum) or logged_by

            index.with_engine(rewrite)
            if is_vacuum:
                self._erased = max(self._erased, number)
            self.catch_up(index)
            if logged_by:
                index.note_rewriting(logged_by)
        self.home.checkpoint()

    def _rewrite_records(self, number: int, changed: _Changed, gone: Gone | None, is_vacuum: bool) -> int:
        """Replace the records up to a number that hold what is gone; return the number of the one that says so, or 0."""
        return self.home.rewrite(number, changed, None if gone is None else gone.all_graphs, is_vacuum=is_vacuum)

    def _reached_by_all(self, number: int) -> int:
        """Return the number of the last record that all have who go on from where they are; this one has all up to `number`."""
        return number

    # --- the end

    def end(self, index: LogIndex) -> None:
        """Begin nothing any more: the index is about to be closed."""
        self._ended.set()
        if self._follower is not None and self._follower is not threading.current_thread():
            self._follower.join(5.0)

    def close(self) -> None:
        """Let go of everything; the index is closed. Closing twice is allowed."""
        self._locks.close()
        self.home.close()

    def abandon(self) -> None:
        """Let go, in a forked child, of what belongs to the parent."""
        self._locks.close()
        self.home.abandon()
