"""The log in SQLite: a table of records in the file `trails.db` of a store's folder, or in memory.

Many processes may append to it: SQLite's lock decides whose turn it is. The file is in WAL mode, and a commit is synced before it
returns (`synchronous=FULL`), unless the store was opened with durability "process".
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import re
import secrets
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import UTC, datetime
from errno import ENOENT, ESTALE
from pathlib import Path
from typing import Any, Final, NamedTuple

from trails.errors import InvalidInput, StoreFailed, StoreLocked, TrailsError
from trails.files import PRIVATE, link_refused, sync_folder
from trails.store.log import records
from trails.store.log.records import ERASES, START, STEP_BYTES, CommitRecord, Row
from trails.store.log.rewriting import stated_in, to_state

FORMAT: Final = 4
"""The format of the tables that this version reads and writes."""
NAME: Final = "trails.db"
PATIENCE: Final = 60.0
"""Seconds that a commit waits for its turn, at least."""
_APPLICATION: Final = 0x54524C53
"""What the file says it is the file of: the application id."""
_COLUMNS: Final = "number, commit_id, flags, leaves, body, body_digest, digest, rewritten"
_SCHEMA: Final = """
CREATE TABLE trails_stores (
    id TEXT NOT NULL, format INTEGER NOT NULL, head INTEGER NOT NULL, digest BLOB NOT NULL,
    erased INTEGER NOT NULL, due INTEGER NOT NULL, made TEXT NOT NULL, older TEXT);
CREATE TABLE trails_records (
    number INTEGER PRIMARY KEY, commit_id TEXT NOT NULL, flags INTEGER NOT NULL, leaves BLOB NOT NULL, body BLOB NOT NULL,
    body_digest BLOB NOT NULL, digest BLOB NOT NULL, rewritten BLOB, lines INTEGER NOT NULL);
CREATE TABLE trails_graphs (graph INTEGER NOT NULL, number INTEGER NOT NULL, PRIMARY KEY (graph, number)) WITHOUT ROWID;
"""
_TYPES: Final = (int, str, int, bytes, bytes, bytes, bytes)
_HEAD: Final = "SELECT head, digest, erased, due FROM trails_stores"
_TAIL: Final = f"SELECT {_COLUMNS} FROM trails_records WHERE number > ? ORDER BY number LIMIT ?"  # noqa: S608 - constants
_ADD: Final = f"INSERT INTO trails_records ({_COLUMNS}, lines) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
_MOVE: Final = "UPDATE trails_stores SET head = ?, digest = ?, due = max(due, ?)"
_TOUCH: Final = "INSERT OR IGNORE INTO trails_graphs VALUES (?, ?)"
"""By graph, in which records quads of it are added, removed or dropped: an erasure reads no others."""
_REWRITE: Final = "UPDATE trails_records SET body = ?, body_digest = ?, rewritten = ? WHERE number = ?"
_STEP: Final = 500
"""Records that are read at once."""
_RETRY: Final = 1.0
"""Seconds until a write-ahead log that a reader kept from being emptied is tried again, with a commit."""
_TRY: Final = 0.05
"""Seconds that SQLite waits for a lock at a time, until Ctrl-C is looked for."""
REMOTE: Final = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ncpfs", "fuse.sshfs", "fuse.glusterfs", "ceph", "lustre"}
)
"""File systems over a network, on which the processes of two machines see no common shared memory."""


class Head(NamedTuple):
    """Where the log ends: the number and digest of its last record."""

    number: int
    digest: bytes
    erased: int
    """At which number the store was last vacuumed."""
    due: int
    """The last record that removed what the log is not rid of yet; 0 if there is none."""


Derive = Callable[[sqlite3.Connection, int, Any], None]
"""Brings one commit, by its number and as `trails.store.log.commit_batch.Settled`, into tables that are derived from the log and
kept in the same file; None for one that changes no quads. It is called in the transaction of the commit, which is cancelled by
what it raises."""


class SqliteHome:
    """One process's connections to a log in SQLite. One thread at a time appends; any number read."""

    def __init__(
        self,
        path: Path | None,
        *,
        create: bool = False,
        is_synced: bool = True,
        is_read_only: bool = False,
        patience: float = PATIENCE,
    ) -> None:
        """Open the file at a path (None: in memory). With `create` the tables are made if they are missing.

        Raises `StoreFailed` if the file cannot be opened or is no log.
        """
        self._path = path = None if path is None else path.absolute()
        self._is_synced = is_synced
        self.is_read_only = is_read_only
        self.patience = max(patience, 0.0)
        self.derive: Derive | None = None
        self.exclusive = threading.RLock()
        """Held during a transaction; in memory also by whoever reads, since there is one connection. Whoever calls `lock` holds
        it by a `with` of its own, from before that until the transaction has ended: no interrupt leaves such a lock held."""
        self._readers: deque[sqlite3.Connection] = deque()
        self._resting: sqlite3.Connection | None = None
        self._retry_at: float | None = None
        """When to empty the write-ahead log again, after a reader kept it from being emptied."""
        self._closed = False
        self._place = None if path is None else f"{path}"
        self._identity: tuple[int, int] | None = None
        """Which file it is; None until it is open, and in memory."""
        self.id = ""
        with self._in_words():
            if path is not None and not create and not path.is_file():
                raise StoreFailed(f"there is no log at {path}; restore the store from a backup")
            if path is not None:
                refuse_remote(path)
            self._writer = self._connect()
            if self._place is not None:
                self._identity = _identity(self._place)
            if create and not self._has_tables():
                self._make()
            self._check()

    # --- connections

    def _connect(self) -> sqlite3.Connection:
        if self._path is None:
            return connect(":memory:")
        if self._path.is_symlink():
            raise StoreFailed(link_refused(self._path))
        if not self.is_read_only:
            with contextlib.suppress(
                FileExistsError
            ):  # one that is there is not touched: closing it would free SQLite's locks
                os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE))
                sync_folder(self._path.parent)
            return self._tuned(connect(self._path))
        if os.access(self._path, os.W_OK) and os.access(self._path.parent, os.W_OK):
            # As any other connection, which removes SQLite's files beside the log when it is the last one.
            made = connect(f"{self._path.as_uri()}?mode=rw")
            made.execute("PRAGMA query_only = ON")
            return made
        for mode in ("mode=ro", "mode=ro&immutable=1"):
            made = connect(f"{self._path.as_uri()}?{mode}")
            try:
                made.execute(_HEAD).fetchone()
            except sqlite3.OperationalError as error:
                made.close()
                # Where nothing may be written, SQLite can have no shared memory: without a WAL there, none is needed.
                if (
                    not re.search("unable to open|readonly", f"{error}")
                    or self._path.with_name(f"{NAME}-wal").exists()
                    or "imm" in mode
                ):
                    raise
            else:
                return made
        raise AssertionError("the last mode returns or raises")

    def _tuned(self, made: sqlite3.Connection) -> sqlite3.Connection:
        if self._journal_mode(made) != "wal":
            made.close()
            raise StoreFailed(
                f"the store {self.location} cannot be opened: its file system has no shared memory for SQLite"
            )
        made.execute(f"PRAGMA synchronous = {'FULL' if self._is_synced else 'NORMAL'}")
        made.execute("PRAGMA secure_delete = ON")
        made.execute("PRAGMA wal_autocheckpoint = 2000")
        return made

    def _journal_mode(self, made: sqlite3.Connection) -> str:
        """Have a write-ahead log if that is possible, and return the mode: SQLite itself waits for no other that makes it."""
        until = time.monotonic() + self.patience
        while True:
            try:
                (mode,) = made.execute("PRAGMA journal_mode = WAL").fetchone()
            except sqlite3.OperationalError as error:
                if "locked" not in f"{error}" or time.monotonic() >= until:
                    made.close()
                    raise
                time.sleep(0.005)
            else:
                return str(mode)

    def _has_tables(self) -> bool:
        found = self._writer.execute("SELECT count(*) FROM sqlite_master WHERE name = 'trails_stores'").fetchone()
        return bool(found[0])

    def _make(self) -> None:
        self._begin()
        try:
            if not self._has_tables():
                for statement in _SCHEMA.strip().split(";\n"):
                    self._writer.execute(statement.rstrip(";"))
                made = datetime.now(UTC).isoformat(timespec="seconds")
                values = (secrets.token_hex(16), FORMAT, 0, START, 0, 0, made)
                self._writer.execute("INSERT INTO trails_stores VALUES (?, ?, ?, ?, ?, ?, ?, NULL)", values)
                self._writer.execute(f"PRAGMA application_id = {_APPLICATION}")
                self._writer.execute(f"PRAGMA user_version = {FORMAT}")
            self._writer.execute("COMMIT")
        except BaseException:
            self._roll_back()
            raise

    def _check(self) -> None:
        try:
            row = self._writer.execute("SELECT id, format FROM trails_stores").fetchone()
        except sqlite3.OperationalError as error:
            if "no such table" not in f"{error}":
                raise
            raise StoreFailed(f"{self.location} is no log of Trails; restore the store from a backup") from error
        if row is None:
            raise StoreFailed(f"{self.location} names no store; restore it from a backup")
        self.id, form = row
        if form != FORMAT:
            raise StoreFailed(
                f"the store {self.location} has format {form}, and this version of Trails reads format {FORMAT}; use the version "
                "of Trails that wrote it"
            )

    @property
    def location(self) -> str:
        """The folder of the store, or `:memory:`."""
        return ":memory:" if self._path is None else str(self._path.parent)

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Give a connection that reads what was committed, as of one moment; while `resting`, as of that one."""
        resting = self._resting
        if resting is not None and not self._closed:
            with self._in_words():
                yield resting
            return
        with self._reader() as connection:
            if self._path is not None:  # in memory nobody else writes meanwhile
                connection.execute("BEGIN")  # `_reader` ends it
            yield connection

    @contextlib.contextmanager
    def resting(self, is_right: Callable[[int], bool]) -> Iterator[None]:
        """Let `reading` give the log as it is now; `is_right` is as for `snapshot`."""
        try:
            self._resting = self.snapshot(is_right)
            yield
        finally:
            self._resting = None  # not closed here: another thread may still read, and whoever reads last closes it

    def snapshot(self, is_right: Callable[[int], bool]) -> sqlite3.Connection:
        """Return a connection that reads what is committed now, until it is closed.

        `is_right` tells of the number of the last record whether it is the right moment; if not, a later one is taken.
        """
        while True:
            with self._in_words():
                made = self._connect()
                made.execute("BEGIN")
                head = _head(made.execute(_HEAD).fetchone())
            if is_right(head.number):
                return made
            made.close()

    @contextlib.contextmanager
    def _reader(self) -> Iterator[sqlite3.Connection]:
        if self._closed:
            raise StoreFailed(f"the store {self.location} is closed; open it again")
        if self._path is None:
            with self.exclusive, self._in_words():
                yield self._writer
            return
        with self._in_words():
            try:
                connection = self._readers.pop()
            except IndexError:
                connection = self._connect()
            try:
                yield connection
            finally:
                if self._closed:
                    connection.close()
                else:
                    if connection.in_transaction:
                        connection.execute("COMMIT")
                    self._readers.append(connection)

    @contextlib.contextmanager
    def _in_words(self) -> Iterator[None]:
        """Say in words what SQLite says."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            if self._identity is not None and not self._closed and (trouble := self.trouble):
                raise StoreFailed(f"the store {self.location} cannot be used: {trouble}") from error
            if isinstance(error, sqlite3.Error):
                raise worded(error, self.location) from error
            raise StoreFailed(f"the store {self.location} cannot be used: {error}") from error

    # --- reading

    def head(self) -> Head:
        """Return where the log ends."""
        with self._reader() as connection:
            return _head(connection.execute(_HEAD).fetchone())

    def tail(self, after: int, most: int = _STEP) -> list[Row]:
        """Return up to `most` records that follow on a number, in order."""
        with self._reader() as connection:
            return tail_of(connection, after, most)

    @contextlib.contextmanager
    def tail_at_rest(self) -> Iterator[tuple[Head, Callable[[int, int], list[Row]]]]:
        """Give the end of the log as it is now, and a function that does as `tail` does, over that."""
        with self.reading() as connection:
            head = _head(connection.execute(_HEAD).fetchone())
            yield head, lambda after, most: tail_of(connection, after, most)

    def since(self, after: int, most: int) -> tuple[Head, list[Row]]:
        """Return where the log ends, and up to `most` records that follow on a number, as of one moment."""
        with self._in_words():
            self._refuse_moved()
        with self.reading() as connection:
            head = _head(connection.execute(_HEAD).fetchone())
            return head, tail_of(connection, after, most)

    def end(self) -> tuple[Head, bytes, bool]:
        """Return where the log says that it ends, the digest of the record there, and whether it is the last one.

        They are of one moment: another process may append meanwhile.
        """
        with self.reading() as connection:
            head = _head(connection.execute(_HEAD).fetchone())
            records = "SELECT number, digest FROM trails_records WHERE number >= ? ORDER BY number LIMIT 2"
            rows = connection.execute(records, (head.number,)).fetchall()
            digest = rows[0][1] if rows and rows[0][0] == head.number else b"" if head.number else START
            return head, bytes(digest), rows[head.number > 0 :] == []

    def digest(self, number: int) -> bytes | None:
        """Return the digest of the record with a number, None if there is none."""
        if not number:
            return START
        with self._reader() as connection:
            row = connection.execute("SELECT digest FROM trails_records WHERE number = ?", (number,)).fetchone()
        return None if row is None else bytes(row[0])

    def is_rewritten_after(self, number: int) -> bool:
        """Tell whether a record after a number says that records were rewritten, or removes what is to leave the log."""
        with self._reader() as connection:
            row = connection.execute(
                "SELECT 1 FROM trails_records WHERE number > ? AND flags & ? LIMIT 1",
                (number, ERASES | records.REWRITES),
            ).fetchone()
        return row is not None

    def rewritings(self, after: int, until: int) -> list[int]:
        """Return the numbers of the records between two that say which records were rewritten."""
        with self._reader() as connection:
            rows = connection.execute(
                "SELECT number FROM trails_records WHERE number > ? AND number <= ? AND flags & ?",
                (after, until, records.REWRITES),
            ).fetchall()
        return [number for (number,) in rows]

    def lines(self, number: int) -> int:
        """Return how many lines the log of leaves has after a record."""
        with self._reader() as connection:
            return _lines(connection, number)

    def leaves(self, after: int, until: int, *, backwards: bool = False) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Yield the number of lines after each record between two numbers, and the lines of its leaves; a step at a time."""
        order = "DESC" if backwards else ""
        while after < until:
            with self._reader() as connection:
                rows = connection.execute(
                    f"""SELECT number, lines, leaves, body FROM trails_records WHERE number > ? AND number <= ?
                        ORDER BY number {order} LIMIT ?""",  # noqa: S608 - constants
                    (after, until, _STEP),
                ).fetchall()
            for number, lines, leaves, body in rows:
                try:
                    texts = records.lines_of(leaves) if leaves else records.lines_packed(body)
                except (ValueError, AttributeError) as error:
                    raise altered(number, error, self.location) from error
                yield lines, texts
            if len(rows) < _STEP:
                return
            after, until = (after, rows[-1][0] - 1) if backwards else (rows[-1][0], until)

    def index_trouble(self, number: int, record: CommitRecord, lines: int) -> str | None:
        """Return what the tables derived from a record lack of it, after so many lines of leaves; None if nothing."""
        with self.reading() as connection:
            if _lines(connection, number) != lines:
                return f"record {number} of the log of {self.location} is said to end at another line of leaves than it does"
            asked = "SELECT 1 FROM trails_graphs WHERE graph = ? AND number = ?"
            for graph in record.graphs():
                if connection.execute(asked, (_key_of(graph), number)).fetchone() is None:
                    what = graph or "of the catalog"
                    return (
                        f"the log of {self.location} does not know any more that record {number} touches the graph {what}, so a "
                        "redaction would not look there: `trails store vacuum` looks everywhere, and mends that"
                    )
        return None

    def size(self) -> int:
        """Return how many bytes the file has, the write-ahead log included."""
        with self._reader() as connection:
            (pages,), (size,) = (
                connection.execute(f"PRAGMA {name}").fetchone() for name in ("page_count", "page_size")
            )
        return int(pages * size)

    def note(self) -> dict[str, Any]:
        """Return what the store says of itself: id, format, when it was made, and what is of an older format (JSON)."""
        with self._reader() as connection:
            row = connection.execute("SELECT id, format, made, older FROM trails_stores").fetchone()
        return dict(zip(("id", "format", "created", "older"), row, strict=True))

    # --- writing

    def lock(self, after: int, most: int) -> tuple[Head, list[Row]]:
        """Begin a transaction that keeps others from appending; return the end of the log and what follows on a number.

        `append` or `let_go` ends it; `exclusive` is held until then. Raises `StoreLocked` if another process keeps the lock for
        too long.
        """
        try:
            with self._in_words():
                self._refuse_moved()
                self._begin()
                head = _head(self._writer.execute(_HEAD).fetchone())
                rows = [] if head.number == after else tail_of(self._writer, after, most)
                return head, rows
        except BaseException:
            self._roll_back()
            raise

    def let_go(self) -> None:
        """End a transaction without a trace, if there is one."""
        self._roll_back()

    def append(self, rows: Sequence[Row], changes: Sequence[Any], lines: int) -> None:
        """Write records, with what is derived from them, and end the transaction that `lock` began: they are on disk then.

        `changes` are what the records say, as `derive` gets them; `lines` is how many lines the log of leaves had.
        """
        try:  # as `_ending` does, for each commit
            self._add(rows, changes, lines)
            self._writer.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            raise worded(error, self.location) from error
        except BaseException:
            self._roll_back()
            raise
        if self._retry_at is not None and time.monotonic() > self._retry_at:
            with contextlib.suppress(TrailsError):  # the commit is done
                self.checkpoint()

    def _add(self, rows: Sequence[Row], changes: Sequence[Any], lines: int) -> None:
        for row, change in zip(rows, changes, strict=True):
            lines += len(change.record.leaves)
            self._writer.execute(_ADD, (*row.values(), lines))
            for graph in _graphs_of(change):
                self._writer.execute(_TOUCH, (graph, row.number))
            if self.derive is not None:
                self.derive(self._writer, row.number, change)
        due = max((row.number for row in rows if row.flags & ERASES), default=0)
        self._writer.execute(_MOVE, (rows[-1].number, rows[-1].digest, due))

    @contextlib.contextmanager
    def deriving(self) -> Iterator[sqlite3.Connection]:
        """Give the connection that writes, in a transaction that appends nothing to the log but what it says of itself."""
        with self.exclusive:
            self.lock(0, 0)
            with self._ending():
                yield self._writer

    def forget_derived(self) -> None:
        """Have what is derived from the log made anew, all of it, before it is next read."""
        with self.deriving() as writer, contextlib.suppress(sqlite3.OperationalError):  # none yet
            writer.execute("UPDATE rows_at SET number = -1")

    @contextlib.contextmanager
    def _ending(self) -> Iterator[None]:
        """End the transaction that `lock` began: with a commit, or without a trace if something is raised."""
        try:
            yield
            self._writer.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            raise worded(error, self.location) from error
        except BaseException:  # what the engine raises, too, which may be made anew and asked again
            self._roll_back()
            raise

    def put(self, rows: Sequence[Row], changes: Sequence[Any], rewritten: Callable[[Sequence[int]], list[Row]]) -> None:
        """Write records of a log that is kept elsewhere, as far as they are not here, with what is derived from them.

        `rewritten` gives what is left of records by their numbers. It is asked in the same transaction: whoever fills this,
        too, puts nothing older in their place later, and no kill comes in between.
        """
        with self.exclusive:
            head, _ = self.lock(0, 0)
            with self._ending():
                new = [(row, change) for row, change in zip(rows, changes, strict=True) if row.number > head.number]
                if new and new[0][0].number != head.number + 1:
                    raise StoreFailed(f"the copy of the log at {self.location} lacks record {head.number + 1}")
                if new:
                    self._add([row for row, _ in new], [change for _, change in new], _lines(self._writer, head.number))
                numbers = sorted({number for _, change in new for number in change.record.rewrites})
                for start in range(0, len(numbers), _STEP):
                    for row in rewritten(numbers[start : start + _STEP]):
                        self._writer.execute(_REWRITE, (row.body, row.body_digest, row.rewritten, row.number))

    def note_vacuum(self, erased: int) -> None:
        """Note at which number the store was vacuumed last."""
        with self.deriving() as writer:
            writer.execute("UPDATE trails_stores SET erased = max(erased, ?)", (erased,))

    def rewrite(
        self, until: int, changed: Callable[[Row], Row | None], graphs: Collection[str] | None, *, is_vacuum: bool
    ) -> int:
        """Replace records up to a number by what `changed` returns (None: it stays); return the record that logs which, or 0.

        Only records that touch some `graphs` ("" is the default graph) are looked at; with None, all. It is one transaction,
        after which nothing is due.
        """
        rewritten, number = list[tuple[Row, bytes]](), 0
        with self.deriving() as writer:
            head = _head(writer.execute(_HEAD).fetchone())
            for row in self._touching(graphs, until):
                try:
                    new = None if row.flags & records.REWRITES else changed(row)
                    if is_vacuum:
                        graphs_of = row.unpack().record.graphs()
                        writer.executemany(_TOUCH, ((_key_of(graph), row.number) for graph in graphs_of))
                except ValueError as error:
                    raise altered(row.number, error, self.location) from error
                if new is not None and new.rewritten is not None:
                    writer.execute(_REWRITE, (new.body, new.body_digest, new.rewritten, new.number))
                    rewritten.append((row, new.rewritten))
            digests = to_state(rewritten, self._stated(writer)) if rewritten else {}
            if digests:
                record = CommitRecord.of_rewriting(digests)
                number = head.number + 1
                row = records.row_of(record, secrets.token_hex(8), number, head.digest)
                writer.execute(_ADD, (*row.values(), _lines(self._writer, head.number)))
                if self.derive is not None:
                    self.derive(writer, row.number, None)
                writer.execute(_MOVE, (row.number, row.digest, 0))
            writer.execute("UPDATE trails_stores SET due = 0 WHERE due <= ?", (until,))
            if is_vacuum:
                writer.execute("UPDATE trails_stores SET erased = max(erased, ?)", (until,))
        return number

    def _stated(self, connection: sqlite3.Connection) -> dict[int, bytes]:
        """Return what the log says of records that were rewritten."""
        asked = f"SELECT {_COLUMNS} FROM trails_records WHERE flags & {records.REWRITES} ORDER BY number"  # noqa: S608
        return stated_in(Row(*row) for row in connection.execute(asked))

    def _touching(self, graphs: Collection[str] | None, until: int) -> Iterator[Row]:
        """Yield the records up to a number that touch some graphs, or all, in order."""
        if graphs is None:
            numbers: Sequence[int] = range(1, until + 1)
        else:
            found = (
                self._writer.execute("SELECT number FROM trails_graphs WHERE graph = ?", (_key_of(graph),))
                for graph in graphs
            )
            numbers = sorted({number for rows in found for (number,) in rows if number <= until})
        for number in numbers:
            yield from tail_of(self._writer, number - 1, 1)

    def vacuum(self) -> bool:
        """Rewrite the file without free pages, and empty the write-ahead log; return False if a reader prevents that."""
        with self.exclusive, self._in_words():
            self._refuse_moved()
            if self._path is not None:
                self._patiently(lambda: self._writer.execute("VACUUM"))
        return self.checkpoint()

    def checkpoint(self) -> bool:
        """Bring the write-ahead log into the file and empty it; return False if another process reads in it just now."""
        if self._path is None or self.is_read_only:
            return True
        with self.exclusive, self._in_words():
            busy, _, _ = self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            self._retry_at = time.monotonic() + _RETRY if busy else None
            return not busy

    def backup(self, destination: Path) -> None:
        """Write a whole copy of the log, as it is at one moment, to a new file; others go on."""
        with self._reader() as connection, contextlib.closing(sqlite3.connect(destination)) as copy:
            connection.backup(copy)
        destination.chmod(PRIVATE)

    def _begin(self) -> None:
        self._roll_back()  # what an interrupt kept from its end
        self._patiently(lambda: self._writer.execute("BEGIN IMMEDIATE"))

    def _patiently(self, work: Callable[[], object]) -> None:
        end = time.monotonic() + self.patience
        while True:
            try:
                work()
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                    raise
                if time.monotonic() > end:
                    raise StoreLocked(
                        f"the store {self.location} was being written by another process for {self.patience:g} seconds; "
                        "nothing was written here, try again"
                    ) from error

    def _roll_back(self) -> None:
        with contextlib.suppress(sqlite3.Error):
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")

    def _refuse_moved(self) -> None:
        """Raise OSError if the file at its path is gone or another one: what is written here would be lost."""
        if self._closed:
            raise StoreFailed(f"the store {self.location} is closed; open it again")
        if self._place is None:
            return
        try:
            now = _identity(self._place)
        except FileNotFoundError as error:
            raise OSError(ENOENT, "it was removed, or moved away, while the store is open", self._place) from error
        if now != self._identity:
            raise OSError(ESTALE, "another file was put in its place while the store is open", self._place)

    @property
    def trouble(self) -> str | None:
        """What is wrong with where the file is; None if nothing is."""
        try:
            self._refuse_moved()
        except OSError as error:
            return f"{error.filename}: {error.strerror}; put it back, or restore a backup"
        return None

    def close(self) -> None:
        """Close all connections. Closing twice is allowed."""
        self._closed = True
        with self.exclusive, contextlib.suppress(sqlite3.Error):
            while self._readers:
                self._readers.pop().close()
            self._writer.close()

    def abandon(self) -> None:
        """Keep the connections for ever, in a forked child: closing one would end what the parent has open."""
        for connection in (self._writer, *self._readers):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


def altered(number: int, error: Exception, location: str) -> StoreFailed:
    """Return the error for a record of the log at a location that cannot be read."""
    return StoreFailed(f"record {number} of the log of {location} was altered: {error}; restore a backup")


def worded(error: sqlite3.Error, location: str) -> TrailsError:
    """Return the error that says what SQLite says of the log at a location, and what to do."""
    name = getattr(error, "sqlite_errorname", None) or ""
    if name.startswith("SQLITE_FULL"):
        return StoreFailed(
            f"the store {location} cannot be written: its disk is full. Nothing was written; make room and try again"
        )
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return StoreFailed(f"the log of {location} is damaged ({error}); restore a backup")
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
        return StoreFailed(f"the store {location} cannot be written here ({error}); check its permissions")
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return StoreLocked(f"the store {location} is in use by another process; try again")
    if name == "SQLITE_ERROR":  # a statement that fits the tables of Trails does not fit these
        return StoreFailed(
            f"the tables in {location} are not as Trails makes them ({error}); `trails store vacuum` makes the rows "
            "anew, and if that does not help, restore a backup"
        )
    return StoreFailed(f"the store {location} cannot be used: {error}; check its disk")


class Connection(sqlite3.Connection):
    """One that is closed when nobody uses it any more, without Python's warning: the store itself warns if it was not closed."""

    has_functions: bool = False
    """Whether it has the functions that the SQL of the rows calls."""

    def __del__(self) -> None:
        with contextlib.suppress(sqlite3.ProgrammingError):  # an interrupt ended its opening
            self.close()


def connect(database: str | Path) -> sqlite3.Connection:
    """Return a connection in autocommit mode, for any thread, to a file, a `file:` URI or `:memory:`."""
    is_uri = isinstance(database, str) and database.startswith("file:")
    return sqlite3.connect(
        database, timeout=_TRY, isolation_level=None, check_same_thread=False, uri=is_uri, factory=Connection
    )


def refuse_remote(path: Path) -> None:
    """Raise `InvalidInput` for a place on a network file system: SQLite's WAL does not work there."""
    kind = file_system(path)
    if kind in REMOTE:
        raise InvalidInput(
            f"{path.parent} is on a network file system ({kind}), where several processes cannot share a SQLite file; put the "
            "store on a local disk, or in PostgreSQL (`trails guide postgres`)"
        )


def file_system(path: Path) -> str:
    """Return the type of the file system that a path is on, as Linux names it; empty if it cannot be told."""
    try:
        lines = Path("/proc/self/mountinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        return ""
    wanted, found = os.path.realpath(path.parent), ("", "")
    for line in lines:
        fields = line.split()
        place = fields[4].replace("\\040", " ")
        if (wanted == place or wanted.startswith(place.rstrip("/") + "/")) and len(place) >= len(found[0]):
            found = place, fields[fields.index("-") + 1]
    return found[1]


def _graphs_of(change: Any) -> set[int]:
    """Return the keys of the graphs that a commit touches."""
    names = {getattr(graph, "value", "") for graph in change.graphs}
    return {_key_of(name) for name in (*names, *change.record.drop)}


def _key_of(graph: str) -> int:
    """Return the number that stands for a graph; for two it may be the same."""
    return int.from_bytes(hashlib.blake2b(graph.encode(), digest_size=6).digest())


def _identity(path: str) -> tuple[int, int]:
    status = os.stat(path)  # noqa: PTH116 - at every commit
    return status.st_ino, status.st_dev


def _head(row: tuple[Any, ...] | None) -> Head:
    if row is None:
        raise StoreFailed("the log names no store any more; restore it from a backup")
    if tuple(map(type, row)) != (int, bytes, int, int):
        raise StoreFailed("what the log says of its own end was altered; restore it from a backup")
    return Head(*row)


def _lines(connection: sqlite3.Connection, number: int) -> int:
    found = connection.execute("SELECT lines FROM trails_records WHERE number = ?", (number,)).fetchone()
    lines = 0 if found is None else found[0]
    if type(lines) is not int:
        raise StoreFailed(f"record {number} of the log was altered: it does not tell its leaves. Restore a backup")
    return lines


def tail_of(connection: sqlite3.Connection, after: int, most: int = _STEP) -> list[Row]:
    """Return up to `most` records that follow on a number, in order, and no more once they have `STEP_BYTES`.

    Raises `StoreFailed` for what can be none.
    """
    found, size = list[tuple[Any, ...]](), 0
    with contextlib.closing(connection.execute(_TAIL, (after, most))) as cursor:
        for row in cursor:
            found.append(row)
            size += len(row[4]) if type(row[4]) is bytes else 0
            if size >= STEP_BYTES:
                break
    for row in found:
        if tuple(map(type, row[:7])) != _TYPES or (row[7] is not None and type(row[7]) is not bytes):
            raise StoreFailed(f"record {row[0]} of the log was altered; nothing of it was read. Restore a backup")
    return [Row(*row) for row in found]
