"""The rows of an open store: tables beside its log, filled in the transaction of each commit."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from pyoxigraph import DefaultGraph, NamedNode, Quad, RdfFormat, parse

from trails.display.progress import Progress, made_anew
from trails.errors import IntegrityError, InvalidInput, TrailsError
from trails.model.validation import DECODING_ERRORS
from trails.rdf import vocab
from trails.rows import row_schema, row_writer, text_index, vector_index, vector_tables
from trails.rows.embedding import Embedder
from trails.rows.vector_index import VectorIndex
from trails.rows.vector_tables import Model
from trails.store.contract import QuadStore
from trails.store.embedded import EmbeddedStore
from trails.store.index.historical_store import PastStore
from trails.store.log import sqlite
from trails.store.log.records import CommitRecord
from trails.store.log.sqlite import SqliteHome, connect
from trails.store.pattern import NOTHING
from trails.store.postgres.thin import ThinStore
from trails.store.remote.store import RemoteStore

_STEP: Final = 500
"""Records that are read at once."""
_EVERYTHING: Final = (None, None, None, None)


def bring_in_commit(connection: sqlite3.Connection, number: int, change: Any) -> None:
    """Bring in one commit, and first those before it that are missing: what the log calls in each commit's transaction."""
    with _in_words():
        if not _moves(connection, number):
            catch_up(connection, number - 1)
            connection.execute("UPDATE rows_at SET number = ?", (number,))
        if change is not None:
            drop, removed, added = (*change.record.drop, *change.lost), change.remove, change.add
            if change.is_packed:
                removed, added = _quads_of(change.record)
            row_writer.apply(connection, remove=removed, add=added, drop=drop, leaves=change.lines)


def _moves(connection: sqlite3.Connection, number: int) -> bool:
    """Note that the rows hold a record, if they hold all before it; return whether they do."""
    with suppress(sqlite3.OperationalError):
        moved = connection.execute("UPDATE rows_at SET number = ? WHERE number = ?", (number, number - 1))
        return moved.rowcount == 1
    return False


@contextmanager
def _in_words(location: str = "the store") -> Iterator[None]:
    """Say in words that the rows hold what cannot be."""
    try:
        yield
    except TrailsError:
        raise
    except sqlite3.Error as error:
        raise sqlite.worded(error, location) from error
    except DECODING_ERRORS as error:
        raise IntegrityError(
            f"the rows of the store hold what Trails never writes ({type(error).__name__}: {f'{error}'[:200]}): they were "
            "altered, or the disk damaged them; `trails store vacuum` makes them anew from the log"
        ) from error


def rows_number(connection: sqlite3.Connection) -> int:
    """Return the number of the last record that the rows hold; -1 if there are no tables yet, or they do not say."""
    with suppress(sqlite3.OperationalError):
        row = connection.execute("SELECT number FROM rows_at").fetchone()
        return row[0] if row and type(row[0]) is int else -1
    return -1


def catch_up(connection: sqlite3.Connection, until: int) -> None:
    """Bring in the records of the log up to a number, within the caller's transaction."""
    with made_anew("reading the log") as move:
        while _step(connection, until, move):
            pass


def _step(connection: sqlite3.Connection, until: int, move: Progress | None = None) -> bool:
    """Bring in some records of the log up to a number; return whether any are left."""
    at = rows_number(connection)
    if at >= until:
        return False
    if at < 0:
        row_schema.drop_tables(connection)
        row_schema.create_tables(connection)
        at = 0
    reached = _bring_in(connection, connection, at, until)
    connection.execute("UPDATE rows_at SET number = ?", (reached,))
    if move is not None:
        move(reached, until, "")
    return at < reached < until


def _quads_of(record: CommitRecord) -> tuple[Iterable[Quad], Iterable[Quad]]:
    """Return the quads that a record removes and adds."""
    return parse(record.remove, format=RdfFormat.N_QUADS), parse(record.quads_added, format=RdfFormat.N_QUADS)


def _bring_in(connection: sqlite3.Connection, log: sqlite3.Connection, after: int, until: int) -> int:
    """Bring in some records of a log that follow on a number, up to another; return the number of the last one."""
    for row in sqlite.tail_of(log, after, min(_STEP, until - after)):
        try:
            record = row.unpack().record
        except ValueError as error:
            raise sqlite.altered(row.number, error, "the store") from error
        removed, added = _quads_of(record)
        row_writer.apply(connection, remove=removed, add=added, drop=record.drop, leaves=record.leaves)
        after = row.number
    return after


class StoreRows:
    """The rows of an open store.

    Those of a store as it was, and of one whose folder nobody may write to, are made in memory when somebody asks.
    """

    def __init__(self, store: QuadStore) -> None:
        """Fill the tables from now on in each commit of the store."""
        self._store = store
        self._home: SqliteHome | None = store.commits.home if isinstance(store, EmbeddedStore) else None
        if self._home is not None and not self._home.is_read_only:
            self._home.derive = bring_in_commit
        self._lock = threading.RLock()
        self._memory: sqlite3.Connection | None = None
        self._memory_at: object = None
        self.later: StoreRows | None = None
        """Of a store as it was: the rows of the store that went on, from which turns are copied."""
        self._pinned: sqlite3.Connection | None = None
        self._pinned_at = -1

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Give a connection to the rows, which hold all that was committed before this call.

        Raises `IntegrityError` for what the caller finds there, and cannot be.
        """
        with _in_words(self._store.location):
            yield from self._reading()

    def _reading(self) -> Iterator[sqlite3.Connection]:
        home = self._home
        if isinstance(self._store, ThinStore):
            raise self._store.needs_whole("a look-up in all sessions (a list, a search, the beginning of an id)")
        if isinstance(self._store, RemoteStore):
            yield self._store.rows_connection()
            return
        if isinstance(self._store, EmbeddedStore):
            self._store.refuse_failed()
        if home is None:
            self._store.quads(NOTHING)  # a store as it was hears what was erased since
            with self._lock:
                yield self._of_quads()
            return
        if isinstance(self._store, EmbeddedStore) and self._store.is_read_only:
            yield from self._of_view(home, self._store)
            return
        with home.reading() as connection:
            if rows_number(connection) >= self._store.number:
                yield connection
                return
        self._catch_up(home)
        with home.reading() as connection:
            yield connection

    def _catch_up(self, home: SqliteHome) -> None:
        """Bring in all that is missing, each step in a transaction of its own: whoever was killed goes on from there."""
        is_behind = True
        with made_anew("reading the log") as move:
            while is_behind:
                with home.deriving() as connection:
                    (head,) = connection.execute("SELECT head FROM trails_stores").fetchone()
                    is_behind = _step(connection, head, move)

    def refresh(self) -> None:
        """Let the rows of a view be those of its quads, and both of one moment until the next call."""
        if self._home is not None and isinstance(self._store, EmbeddedStore) and self._store.is_read_only:
            is_still = False
            while not is_still:
                with self._store.writing(), self._lock:
                    self._pin(self._home, self._store)
                self._store.open_engine()  # which may move the store on: here, and not later
                is_still = self._pinned_at == self._store.number

    def _of_view(self, home: SqliteHome, store: EmbeddedStore) -> Iterator[sqlite3.Connection]:
        """Give the rows as they were when the view was made, or refreshed."""
        if self._pinned is None or self._pinned_at != store.number:
            # In this order: whoever keeps the store as it is waits for the reads of its helper threads.
            with store.writing(), self._lock:
                if self._pinned is None or self._pinned_at != store.number:
                    self._pin(home, store)
        with self._lock:
            if self._memory is None and rows_number(self._connection) < store.number:
                self._memory = _replayed(self._connection)
            yield self._memory or self._connection

    @property
    def _connection(self) -> sqlite3.Connection:
        assert self._pinned is not None  # noqa: S101 - by `_pin`
        return self._pinned

    def _pin(self, home: SqliteHome, store: EmbeddedStore) -> None:
        """Keep to what is committed now."""
        self.close()
        self._pinned = home.snapshot(store.is_at)  # somebody may have committed since the view was made
        self._pinned_at = store.number

    def _of_quads(self) -> sqlite3.Connection:
        """Return rows in memory, of all quads as they are now."""
        store, now = self._store, (self._store.number, self._store.token)
        if self._memory is None or self._memory_at != now:
            made = _empty()
            made.execute("BEGIN")
            if isinstance(store, PastStore) and self.later is not None:
                held = store.held
                with self.later.reading() as rows:
                    copied = row_writer.copy_turns(made, rows, held.turns)
                graphs: list[NamedNode | DefaultGraph] = [vocab.CATALOG]
                graphs += [NamedNode(each) for each in held.graphs if each not in copied]
                quads = [quad for graph in graphs for quad in store.quads((None, None, None, graph))]
            else:
                quads = store.quads(_EVERYTHING)
            row_writer.apply(made, add=quads, leaves=store.log.lines())
            made.execute("COMMIT")
            self._memory, self._memory_at = made, now
        return self._memory

    def start_anew(self) -> None:
        """Make the rows in memory anew when somebody asks next."""
        self._memory_at = None

    @contextmanager
    def erasing(self) -> Iterator[None]:
        """Leave nothing, once this ends, of what is removed meanwhile."""
        yield
        self.erase()

    def erase(self) -> None:
        """Leave nothing of what was removed from the rows, nor in the file that has them."""
        if self._home is None or self._home.is_read_only:
            return
        with self._home.reading() as connection:
            number = rows_number(connection)
            has_rows = number >= 0 or row_schema.has_all_tables(connection)
        if has_rows and number < self._home.head().number:
            self._catch_up(self._home)
        with self._home.reading() as connection:
            is_whole = number < 0 or row_schema.has_all_tables(connection)
            is_clean = number < 0 or not is_whole or not text_index.is_dirty(connection)
        if not is_whole:
            self.rebuild()
        elif not is_clean:
            with self._home.deriving() as connection:
                text_index.erase(connection)
        self._home.checkpoint()

    def rebuild(self) -> None:
        """Make all rows anew from the log."""
        if self._home is not None:
            with self._home.deriving() as connection:
                row_schema.drop_tables(connection)
                (head,) = connection.execute("SELECT head FROM trails_stores").fetchone()
                catch_up(connection, head)

    # --- vectors

    def keep_vectors(self, embedder: Embedder, progress: Progress | None = None) -> bool:
        """Keep vectors of all turns by a model, and make those that are due; return False where nothing can be written.

        Each step is a transaction of its own: whoever was killed goes on from there, and others write in between.
        """
        home = self._writable
        if home is None:
            return False
        with self.reading() as connection:
            model = vector_tables.model_of(connection)
        if model is None or (model.path, model.digest) != (embedder.path, embedder.digest):
            made_by = Model(embedder.name, embedder.path, embedder.digest, embedder.dimensions)
            with home.deriving() as connection:
                vector_tables.start(connection, made_by)
        done = 0
        while True:
            with self.reading() as connection:
                texts = vector_index.due(connection)
                waiting = vector_index.waiting(connection) if progress and texts else 0
            if not texts:
                return True
            made = vector_index.vectors_of(embedder, texts)
            with home.deriving() as connection:
                vector_index.put(connection, embedder, made)
            done += len(texts)
            if progress is not None:
                progress(done, done + waiting - len(texts), "")

    def vectors(self) -> VectorIndex | None:
        """Return what there is of vectors; None where none are kept."""
        if self._home is None:
            return None
        with self._home.reading() as connection:
            return vector_index.describe(connection)

    def drop_vectors(self) -> bool:
        """Remove all vectors, and leave nothing of them in the file; return whether there were any."""
        if self._writable is None:
            raise InvalidInput(
                f"the vectors of {self._store.location} can be dropped by who may write to it, where it is"
            )
        with self._writable.deriving() as connection:
            dropped = vector_tables.drop(connection)
        self.erase()
        return dropped

    @property
    def _writable(self) -> SqliteHome | None:
        """The home of the rows, where this process may write to it."""
        is_view = isinstance(self._store, EmbeddedStore) and self._store.is_read_only
        return None if self._home is None or self._home.is_read_only or is_view else self._home

    def close(self) -> None:
        """Let go of what is held in memory."""
        with self._lock:
            for connection in (self._memory, self._pinned):
                if connection is not None:
                    connection.close()
            self._memory = self._pinned = None
            self._pinned_at = -1


def _empty() -> sqlite3.Connection:
    made = connect(":memory:")
    row_schema.create_tables(made)
    return made


def _replayed(log: sqlite3.Connection) -> sqlite3.Connection:
    """Return the rows of all records of a log, in memory."""
    made = _empty()
    (head,) = log.execute("SELECT head FROM trails_stores").fetchone()
    at, reached = -1, 0
    while at < reached < head:
        at, reached = reached, _bring_in(made, log, reached, head)
    return made
