"""A store's log in PostgreSQL, with a copy of it in SQLite on this machine.

A commit takes the lock of the store's row in the database; reading never asks the server. The copy holds the records that this
machine has seen: engine, leaves and rows come from it as from the log of a folder, and it can be deleted at any time.
"""

from __future__ import annotations

import hashlib
import logging
import os
import platform
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

from trails.display.progress import made_anew
from trails.errors import StoreFailed, StoreLocked
from trails.store.embedded import EmbeddedStore
from trails.store.log import sqlite
from trails.store.log.commit_batch import Batch, Waiting
from trails.store.log.commit_log import CHUNK, Log, LogAtRest, LogIndex
from trails.store.log.erasing import Gone
from trails.store.log.log_maintenance import Behind
from trails.store.log.records import Row, Unpacked
from trails.store.log.sqlite import Head, SqliteHome
from trails.store.postgres import address, readers, subjects
from trails.store.postgres.figures import rights_lacking
from trails.store.postgres.link import READING, Unreachable, kept, patiently
from trails.store.postgres.readers import Reader
from trails.store.postgres.roles import Right
from trails.store.postgres.server import Server

_report: Final = logging.getLogger("trails")
_ALONE: Final = 3
"""Commits in a row before which nobody else had written, from which on the next one takes no lock."""
_HEARD: Final = 60.0
"""Seconds after which a process that works says again how far it is."""
CLOSING: Final = 2.0
"""Seconds for which the end of a process waits to say that it has ended."""


class PostgresLog(Log):
    """The log of a store in PostgreSQL as one process sees it. `open_store` opens it, with its copy."""

    is_remote = True

    def __init__(self, log: Server, home: SqliteHome, folder: Path, *, is_read_only: bool = False) -> None:
        """`home` is the copy of the log, in a folder of the cache."""
        super().__init__(home, folder)
        self.is_read_only = is_read_only
        self._server = log
        self._folder = folder
        self._alone = _ALONE
        self._is_in_doubt = False
        """Whether the log is another than it was, or the copy is damaged: then the copy is to be deleted."""
        self._name = secrets.token_hex(6)
        self._registers = True
        self._said_at = 0.0
        self._copies: dict[int, Row] = {}
        """Records of the copy that a check read last."""

    @property
    def location(self) -> str:
        return self._server.address.shown

    @property
    def index_name(self) -> str:
        """What this process's index is called in the database."""
        return self._name

    @property
    def server(self) -> Server:
        """The connection over which this process appends."""
        return self._server

    # --- appending

    def append(self, waiting: Sequence[Waiting], index: LogIndex) -> Batch:
        """Log what waits, in one transaction; what cannot be logged because the server is away gets that error."""
        if time.monotonic() - self._said_at >= _HEARD:
            self.register(index)
        attempt = _Attempt(waiting)
        try:
            return patiently(partial(self._log_batch, attempt, index))
        except StoreFailed as error:
            for each in attempt.begin():
                each.error, each.done = kept(error), True
            return index.new_batch()

    def _log_batch(self, attempt: _Attempt, index: LogIndex) -> Batch:
        """Decide over the index and the tail, under the lock, and append; a commit that was written before is only found.

        While nobody else writes, that takes no lock: what was decided over the index is written if the log still ends there.
        """
        if self._alone >= _ALONE and (written := self._at_once(attempt, index)) is not None:
            return written
        while True:
            head, tail = self._server.lock(index.number, CHUNK)
            if head.number - index.number <= len(tail) and head.erased <= self._erased:
                break
            self._server.let_go()  # far behind: nobody has to wait for that
            self.catch_up(index, attempt.waiting_for)
        try:
            batch, digest = self._over(tail, head, index, attempt.waiting_for)
            for waiting in attempt.begin():
                batch.decide(waiting)
            rows = self._rows_of(batch, len(tail), digest, attempt.id_of)
        except BaseException:
            with suppress(StoreFailed):
                self._server.let_go()
            raise
        if rows:
            self._server.append(rows)
        else:
            self._server.let_go()
        self._alone = 0 if tail else self._alone + 1
        self._received(index, [*tail, *rows], batch)
        self._digest = rows[-1].digest if rows else digest
        return batch

    def _at_once(self, attempt: _Attempt, index: LogIndex) -> Batch | None:
        """Write without the lock; None, and nothing is written, if another has, or a commit must be judged over the log."""
        batch, waiting = index.new_batch(), attempt.begin()
        for each in waiting:
            batch.decide(each)
        if len(batch.settled) < len(waiting) or not waiting:
            return None
        rows = self._rows_of(batch, 0, self._digest, attempt.id_of)
        if not self._server.append_at_once(rows, index.number, self._digest):
            self._alone = 0
            return None
        self._received(index, rows, batch)
        self._digest = rows[-1].digest
        return batch

    # --- reading

    def read_on(self, index: LogIndex, *, is_patient: bool = False) -> bool:
        """Bring in what is in the log; one trip to the server for each 500 records, and one if there are none."""
        begun = time.monotonic()
        with index.writing(), self._server.briefly(READING):
            index.refuse_failed()
            try:
                news = self.catch_up(index)
            except Unreachable:  # the connection had ended since it was used last; the server may well be there
                if not is_patient and time.monotonic() - begun >= READING:
                    raise  # it is silent
                again = partial(self.catch_up, index)
                news = patiently(again) if is_patient else again()
            if time.monotonic() - self._said_at >= _HEARD:
                self.register(index)
        return news

    def _since(self, number: int) -> tuple[Head, list[Row]]:
        return self._server.since(number, CHUNK)

    def _vacuumed(self, index: LogIndex, erased: int) -> None:
        if (
            self.home.head().number < erased
        ):  # a vacuum takes traces out of records by which rows could be brought up to date
            self.home.forget_derived()
        super()._vacuumed(index, erased)
        with suppress(StoreFailed):
            self.home.note_vacuum(erased)
            self.home.vacuum()
        self.register(index)

    def _received(self, index: LogIndex, rows: Sequence[Row], batch: Batch) -> None:
        """Put records into the copy, before the index gets them, and what is left of those that they say were rewritten.

        A copy that is gone, or cannot be written, takes no more; what is in the log is still told to whoever committed it.
        """
        if not rows:
            return
        try:
            self.home.put(rows, batch.settled, self._server.rows)
        except Unreachable:
            raise
        except StoreFailed as error:
            self._doubt(
                index,
                StoreFailed(
                    f"the copy of the log at {self._folder} cannot be written ({error.message}); what was committed is in the "
                    "log: open the store again, which makes a new copy if there is room"
                ),
            )

    def records(self, after: int, until: int, digest: bytes | None = None) -> Iterator[Unpacked]:
        """Return records from the copy; from the first one that is damaged there on, from the database."""
        try:
            for unpacked in super().records(after, until, digest):
                after, digest = unpacked.row.number, unpacked.row.digest
                yield unpacked
        except StoreFailed as error:
            self._is_in_doubt = True
            _report.warning(
                "this machine's copy of the log of %s, in %s, is damaged (record %d cannot be read: %s); the database is "
                "read instead, and the copy is made anew when the store is next opened",
                *(self.location, self._folder, after + 1, error.message.partition("; ")[0]),
            )
        else:
            return
        with closing(self._server.another()) as reading:
            yield from self._records(reading.tail, after, until, reading.digest(after) if digest is None else digest)

    @contextmanager
    def _at_rest(self) -> Iterator[LogAtRest]:
        with closing(self._server.another()) as reading:  # the records of the database, not those of the copy
            is_indexed = reading.find_subjects() and not rights_lacking(reading, [Right("SELECT", "trails_subjects")])
            reading.rest()
            head, _ = reading.since(0, 0)
            about = _About(reading, reading.indexed()[0] if is_indexed else 0)
            yield LogAtRest(
                head, reading.tail, lambda unpacked, _: about.trouble(unpacked) or self._copy_trouble(unpacked.row)
            )

    def _copy_trouble(self, row: Row) -> str | None:
        """Return what is wrong with the copy of a record; the one is deleted then. One that others rewrote lately may differ."""
        if row.number not in self._copies:
            with suppress(StoreFailed):  # no row of the log at all
                self._copies = {each.number: each for each in self.home.tail(row.number - 1, CHUNK)}
        copied = self._copies.get(row.number)
        if copied is not None and (copied == row or copied.rewritten != row.rewritten):
            return None
        self._is_in_doubt = True
        return (
            f"this machine's copy of the log of {self.location}, in {self._folder}, does not have record {row.number} as the "
            "database has it: it was altered here. The copy is made anew when the store is next opened: verify it again then"
        )

    def _doubt(self, index: LogIndex, error: StoreFailed) -> StoreFailed:
        self._is_in_doubt = True
        return super()._doubt(index, error)

    # --- following

    def _listen(self, index: LogIndex) -> None:
        def bring_in() -> None:
            if not index.has_failed and not self._ended.is_set():
                index.sync()

        while not self._ended.is_set():
            listening = self._server.another(past_pooler=True)
            try:
                listening.listen(bring_in, self._ended.is_set)
            except (StoreFailed, StoreLocked):
                self._ended.wait(1.0)  # the server is away, or the copy is in use: whoever writes is told
            finally:
                listening.close()

    # --- one process at a time

    def _hold(self, index: LogIndex, name: str) -> bool:
        with index.writing():  # for a moment: other threads go on committing while this one waits
            return patiently(partial(self._server.hold, name))

    def _release(self, index: LogIndex, name: str) -> None:
        with index.writing():
            self._server.let_go_of(name)

    # --- erasing

    def finish_erasures(self, index: LogIndex) -> None:
        if self.is_read_only:
            return
        with index.writing():
            patiently(self._server.try_rewriting)
            head, _ = patiently(partial(self._server.since, index.number, 1))
            if head.due:
                self._rewrite(index, None)

    def _rewrite_records(
        self, number: int, changed: Callable[[Row], Row | None], gone: Gone | None, is_vacuum: bool
    ) -> int:
        with closing(self._server.another()) as keeping:
            logged_by = keeping.rewrite(number, changed, vacuumed=is_vacuum)
        if is_vacuum:
            self.home.note_vacuum(number)
        return logged_by

    def _reached_by_all(self, number: int) -> int:
        """Return the number of the last record that all have who have an index open; this one has all up to `number`.

        Those that are not open are made anew after a vacuum, whichever records they have.
        """
        found = readers.readers_of(self._server, self._server.id)
        if found is None:
            return 0
        others = (each.number for each in found if not each.is_closed and each.index != self._name)
        return min(others, default=number)

    def _behind(self, index: LogIndex) -> tuple[Behind, ...]:
        with index.writing():
            self.register(index)
            with suppress(StoreFailed):  # whoever may rewrite records, and drop no readers
                readers.forget_old(self._server, self._server.id)
            own = (self._name, self._machine)
            found = readers.made_before(readers.readers_of(self._server, self._server.id) or (), self._erased)
        return readers.as_reported(each for each in found if each.index not in own)

    # --- the end

    def remove_store(self, index: LogIndex) -> bool:
        """Take the store out of its database, and its copy here, unless somebody appended since; return whether it is out."""
        with index.writing():
            if not self._server.remove(index.number, self._digest, self._name):
                return False
            self._is_in_doubt = True  # there is no log any more
            index.give_up(StoreFailed(f"{self.location} was taken out of its database"))
        return True

    def end(self, index: LogIndex) -> None:
        super().end(index)
        if not self._is_in_doubt and self._server.is_connected:
            with index.writing(), self._server.briefly(CLOSING):
                if self._server.is_connected:  # it may have been silent meanwhile
                    self.register(index, is_closed=True)

    def close(self) -> None:
        super().close()
        if self._is_in_doubt:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._server.close()

    # --- who reads

    @property
    def _machine(self) -> str:
        """What the copy of the log on this machine is called, whichever process has it open."""
        return hashlib.sha256(f"{platform.node()} {self._folder}".encode()).hexdigest()[:12]

    def register(self, index: LogIndex, *, is_closed: bool = False) -> None:
        """Say in the database that this process has an index, and how far it is; a closed one stays as the machine's copy.

        Whoever may not, or has no such table, is silent from then on: reading and writing go on without.
        """
        if not self._registers:
            return
        self._said_at = time.monotonic()
        name = self._machine if is_closed else self._name
        try:
            reader = Reader(name, readers.process_name(), index.number, self._erased, is_closed)
            readers.register(self._server, self._server.id, reader)
            if is_closed:
                readers.forget(self._server, self._server.id, self._name)
        except Unreachable:
            pass  # it is said again in time
        except StoreFailed:
            self._registers = False


class _About:
    """What the database says that records are about, which is read some records at a time and compared with these."""

    def __init__(self, reading: Server, indexed: int) -> None:
        """`indexed` is the record up to which it says so."""
        self._reading = reading
        self._indexed = indexed
        self._told: dict[int, dict[int, int | None]] = {}

    def trouble(self, unpacked: Unpacked) -> str | None:
        """Return what is wrong with what is said of a record."""
        number = unpacked.row.number
        if number > self._indexed:
            return None
        if number not in self._told:
            self._told = self._reading.subjects(range(number, number + CHUNK))
        if not subjects.lacks(self._told[number], unpacked.record):
            return None
        return (
            f"the table trails_subjects of {self._reading.address.shown} does not say what record {number} is about, so that "
            "thin processes would not read it: `trails store vacuum` mends that"
        )


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


def folder_of(cache_name: str) -> Path:
    """Return the folder with this machine's copy of a log: in `$XDG_CACHE_HOME/trails`, or `~/.cache/trails`."""
    base = os.environ.get("XDG_CACHE_HOME") or ""
    root = Path(base) if os.path.isabs(base) else Path.home() / ".cache"  # noqa: PTH117 - as the XDG specification has it
    return root / "trails" / cache_name


_SUBJECTS: Final = "subjects"
"""The name that is held by whoever fills the table of what records are about."""


def open_store(location: str, *, create: bool = False, is_read_only: bool = False) -> EmbeddedStore:
    """Open the store that a URL names, and bring in what is in the log.

    If it `is_read_only`, nothing is written to the database but, if that is allowed, who has this index.

    Raises `InvalidInput` if there is no such store and `create` is False, `StoreFailed` if the server is away.
    """
    server = Server(address.parse(location))
    try:
        if create:
            server.make()
        head = server.find()
        server.say_in_use()
        folder = folder_of(server.cache_name())
        home = _copy(server, folder)
        log = PostgresLog(server, home, folder, is_read_only=is_read_only)
    except BaseException:
        server.close()
        raise
    store = EmbeddedStore(folder, durability="process", commits=log)
    try:
        log.register(store)
        store.sync()
        if not is_read_only:
            with suppress(StoreFailed):  # whoever may not: those who may will
                say_what_records_are_about(server)
        if head.due and not is_read_only:  # a process ended between an erasure and the end of it
            with suppress(StoreFailed):  # whoever may only read, or append, cannot; `doctor` tells of it
                log.finish_erasures(store)
    except BaseException:
        store.close()
        raise
    return store


def say_what_records_are_about(log: Server) -> None:
    """Fill the table by which thin handles find the records of a session, as far as that was not done; once for each store."""
    if not log.find_subjects():
        log.make_subjects()
    after, head = log.indexed()
    if not log.indexes or after >= head or not log.hold(_SUBJECTS):
        return
    try:
        with made_anew("indexing the log by session") as move:
            start, more = after, True
            while more:
                reached = log.fill_subjects(after, CHUNK)
                after, more = reached, reached > after and reached < log.indexed()[1]
                if move is not None:
                    move(after - start, head - start, "")
    finally:
        log.let_go_of(_SUBJECTS)


def _lag(server: Server, home: SqliteHome) -> int | None:
    """Return how many commits a standby has that are the first ones of a copy; None for a server that does not lag."""
    reached = server.find()
    is_same = home.digest(reached.number) == reached.digest
    return reached.number if is_same and server.is_standby() else None


def _copy(server: Server, folder: Path) -> SqliteHome:
    """Return this machine's copy of a log; one that is damaged, or of another history, is deleted and begun anew."""
    for _ in range(2):
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            home = SqliteHome(folder / sqlite.NAME, create=True, is_synced=False)
        except OSError as error:
            raise StoreFailed(
                f"no copy of the log can be made at {folder} ({error}); make room, or set XDG_CACHE_HOME"
            ) from error
        except StoreFailed:
            shutil.rmtree(folder, ignore_errors=True)
            continue
        head = home.head()
        there = server.digest(head.number)
        if there == head.digest:
            return home
        if there is None and (reached := _lag(server, home)) is not None:
            home.close()
            raise StoreFailed(
                f"the standby {server.address.shown} lags: it has {reached} commits, and this machine's copy has {head.number} "
                "from before; try again, or read another server"
            )
        home.close()
        shutil.rmtree(folder, ignore_errors=True)
        has = "has no such record" if there is None else f"has {there.hex()[:16]} there"
        _report.warning(
            "the log of %s has another history than this machine saw: record %d had the digest %s here, and the log %s (a "
            "standby that lagged was promoted, or a backup restored); its copy here was deleted and is made anew",
            server.address.shown,
            head.number,
            head.digest.hex()[:16],
            has,
        )
    try:
        return SqliteHome(folder / sqlite.NAME, create=True, is_synced=False)
    except (OSError, StoreFailed) as error:
        raise StoreFailed(
            f"no copy of the log can be made at {folder} ({error}); make room there, check its permissions, or set "
            "XDG_CACHE_HOME to another folder"
        ) from error
