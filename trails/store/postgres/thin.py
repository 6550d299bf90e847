"""A store in PostgreSQL of which a process holds no more than the sessions that it works on.

It has no copy of the log and no files: the records about a session and its ancestors are found by their keys (`subjects`), and
what they say of these is held in memory. A commit is judged under the lock of the store's row, over all that the log has of what
the commit looks at. What may be anywhere in the store is not answered (`NeedsWholeStore`).
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

import pyoxigraph as ox

from trails.errors import NeedsWholeStore, StoreFailed
from trails.integrity import leaves
from trails.model import iris
from trails.rdf import vocab
from trails.rdf.query_files import BoundQuery
from trails.store.contract import Change, Committed, Result
from trails.store.index import engine_filling
from trails.store.index.reading import EngineReader, Gate
from trails.store.leaflog import LeafLog, Leaves
from trails.store.log import records
from trails.store.log.commit_batch import Batch, Waiting
from trails.store.log.records import START, CommitRecord, Row, Unpacked
from trails.store.log.sqlite import Head
from trails.store.pattern import Pattern
from trails.store.postgres import address, server, statements, subjects
from trails.store.postgres.server import Server

_LOST: Final = 3
"""Commits, after one before which somebody else had written, for which the lock is taken at once."""
_BACK: Final = 100
"""Records that are looked through at once for the last line of the log."""


class Taken(NamedTuple):
    """What the log has about some keys, of one moment."""

    head: Head
    indexed: int
    keys: frozenset[int]
    """The keys that it is about: those that were asked for, and those of the ancestors of forks."""
    rows: Sequence[tuple[Row, bytes]]
    """The records, in order, the last of the log among them, each with the digest of the one before."""


class ThinServer(Server):
    """A connection to a log that is read by keys."""

    def find(self) -> Head:
        head = super().find()
        if not self.find_subjects():
            raise NeedsWholeStore(
                f"the records of {self.address.shown} are not indexed by session yet: open the store once without thin=True, as "
                "the owner of its tables, or run `trails store upgrade`"
            )
        return head

    def take(self, asked: dict[int, int]) -> Taken:
        """Return the records about keys, each after a number, and those about the ancestors of the forks among the keys."""
        keys, after = list(asked), list(asked.values())
        values = (keys, after, self.id, keys, self.id, self.id, self.id, self.id)
        with self._asked() as connection:
            found = connection.execute(statements.TAKE, values).fetchall()
        if not found:
            raise self._is_gone()
        *head, indexed = found[-1][:5]
        there = [each for each in found if each[7] is not None]
        wanted = next((each[5] for each in reversed(there) if each[5] is not None), keys)
        rows = [(server.row_of(each[7:]), START if each[6] is None else bytes(each[6])) for each in there]
        return Taken(server.head_of(head), int(indexed), frozenset(wanted), rows)

    def take_locked(self, asked: dict[int, int]) -> Taken:
        """Do as `take` does, in a transaction that holds the store's row, until `append` or `let_go`."""
        with self._asked() as connection, connection.pipeline():
            connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
            connection.execute(statements.LOCK, (self.id,))
        return self.take(asked)

    def before(self, number: int) -> list[Row]:
        """Return some records up to a number, the last first."""
        with self._asked() as connection:
            found = connection.execute(statements.BEFORE, (self.id, number, _BACK)).fetchall()
        return [server.row_of(each) for each in found]

    def number_of(self, commit_id: str) -> int | None:
        """Return the number of the record of a commit; None if the log has no such record."""
        with self._asked() as connection:
            found = connection.execute(statements.WITH_ID, (self.id, commit_id)).fetchone()
        return None if found is None else int(found[0])


class ThinStore(EngineReader):
    """The quads of a store in PostgreSQL, as far as they are about what was asked for."""

    def __init__(self, log: ThinServer) -> None:
        """Find the store; raises `InvalidInput` if there is none, `StoreFailed` if the server is away."""
        self._server = log
        self._gate = Gate()
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._closed = False
        self._alone = _LOST
        head = server.patiently(log.find)
        self._memory = ox.Store()
        self._keys: set[int] = {subjects.EVERYBODY}
        """The keys of which all is here that the log has up to a number."""
        self._number, self._digest = head.number, head.digest
        self._link: Leaves | None = None
        """How far the log's lines reach; None if that was not read. Their count is not known."""
        self._token = 0
        self._lengths: dict[str, int] = {}

    # --- what it is

    @property
    def location(self) -> str:
        return self._server.address.shown

    @property
    def folder(self) -> Path | None:
        return None

    @property
    def log(self) -> LeafLog:
        raise self.needs_whole("the log of all commits")

    @property
    def token(self) -> object:
        return self._token

    @property
    def number(self) -> int:
        return self._number

    @property
    def trips(self) -> int:
        """How often the server was asked for something and waited for."""
        return self._server.trips

    def held(self) -> list[ox.Quad]:
        """Return all quads that are here: a small part of the store's."""
        with self._gate:
            return list(self._engine())

    def recorded(self, session_id: str) -> int:
        """Return how many turns the log says that a session's transcript has."""
        return self._lengths.get(iris.session(session_id), 0)

    def needs_whole(self, what: str) -> NeedsWholeStore:
        """Return the error for what is not answered here."""
        return NeedsWholeStore(
            f"{self.location} was opened with thin=True, and holds only the sessions that are in use: {what} needs the whole "
            "store. Open it without thin=True, or ask its server (`trails guide postgres`)"
        )

    def _refuse_closed(self) -> None:
        if os.getpid() != self._pid:
            raise StoreFailed(f"the store {self.location} was opened before this process was forked; open it here")
        if self._closed:
            raise StoreFailed(f"the store {self.location} is closed; open it again")

    # --- what is taken from the log

    def _engine(self) -> ox.Store:
        self._refuse_closed()
        return self._memory

    def _have(self, keys: Iterable[int]) -> None:
        """Take from the log what it has about keys that are not here yet."""
        with self._lock:
            new = {key for key in keys if key not in self._keys}
            if new:
                self._refuse_closed()
                server.patiently(partial(self._take, new))

    def _take(self, new: Collection[int] = (), *, locked: bool = False) -> bool:
        """Bring in what the log has since, and all that it has about new keys; return whether others have written."""
        asked = dict.fromkeys(self._keys, self._number) | dict.fromkeys(new, 0)
        taken = self._server.take_locked(asked) if locked else self._server.take(asked)
        if taken.indexed < taken.head.number:
            raise NeedsWholeStore(
                f"records {taken.indexed + 1:,} to {taken.head.number:,} of {self.location} are not indexed by session: an "
                "earlier version of Trails wrote them, or a user who may not fill that index. Open the store once without "
                "thin=True, as the owner of its tables, or run `trails store upgrade`"
            )
        if taken.head.number < self._number or (
            taken.head.number == self._number and taken.head.digest != self._digest
        ):
            raise StoreFailed(
                f"the log of {self.location} has another history than was seen here (a standby that lagged was promoted, or a "
                "backup restored); open the store again"
            )
        unpacked = [self._checked(*each) for each in taken.rows]
        if unpacked and (unpacked[-1].row.number, unpacked[-1].row.digest) != (taken.head.number, taken.head.digest):
            raise self._altered(taken.head.number)
        is_rewritten = any(each.row.flags & records.REWRITES and each.row.number > self._number for each in unpacked)
        if is_rewritten and len(self._keys) > 1:
            return self._take_anew(new, locked=locked)
        self._bring_in(unpacked, taken.keys - self._keys)
        news = taken.head.number > self._number
        self._number, self._digest = taken.head.number, taken.head.digest
        if news or self._link is None:
            self._link = self._end_of_lines(unpacked[-1:])
        return news

    def _take_anew(self, new: Collection[int], *, locked: bool) -> bool:
        """Forget what is here, and take all of it again: records were rewritten."""
        if locked:
            self._server.let_go()
        keys = {*new, *self._keys} - {subjects.EVERYBODY}
        self._memory, self._lengths, self._keys = ox.Store(), {}, {subjects.EVERYBODY}
        self._token += 1
        self._take(keys, locked=locked)
        return True

    def _checked(self, row: Row, previous: bytes) -> Unpacked:
        """Return what a row holds; raise `StoreFailed` unless it follows on the one before, and is as it was written."""
        try:
            unpacked = row.unpack()
        except ValueError as error:
            raise self._altered(row.number) from error
        if not unpacked.is_whole or not unpacked.follows(row.number - 1, previous):
            raise self._altered(row.number)
        return unpacked

    def _altered(self, number: int) -> StoreFailed:
        return StoreFailed(
            f"record {number} of the log of {self.location} is not the one that was written; restore a backup"
        )

    def _bring_in(self, unpacked: Sequence[Unpacked], new: Collection[int]) -> None:
        """Put in what records say of the keys that are here, and all that they say of new ones."""
        later = [each.record for each in unpacked if each.row.number > self._number]
        known = [subjects.restricted(each, self._keys) for each in later]
        fresh = ox.Store()  # apart: what comes is older than what is here
        engine_filling.fill(fresh, (subjects.restricted(each.record, new) for each in unpacked) if new else ())

        def put() -> None:
            engine_filling.fill(self._memory, known)
            if new:
                self._memory.extend(list(fresh))

        self._gate.alone(put)
        self._token += any(each.remove or each.drop for each in known)
        self._keys |= {*new}
        for each in unpacked:
            self._note_lengths(each.record)

    def _note_lengths(self, record: CommitRecord) -> None:
        for line in record.leaves:
            kind, iri, count, *_ = line.split(" ")
            if kind in ("turns", "delete"):
                self._lengths[iri] = int(count) if kind == "turns" else 0

    def _end_of_lines(self, last: Sequence[Unpacked]) -> Leaves:
        """Return how far the lines of the log reach, whose last record is given."""
        found = [(each.row.number, each.record.leaves) for each in last]
        at = self._number
        while at:
            for number, lines in found:
                if lines:
                    return Leaves(1, number, leaves.link_leaf(lines[-1]))
                at = number - 1
            found = [(row.number, row.unpack().record.leaves) for row in self._server.before(at)] if at else []
        return Leaves(0, 0, leaves.START)

    def sync(self) -> bool:
        """Bring in what was committed about what is here; return whether anything was committed at all."""
        with self._lock:
            self._refuse_closed()
            return server.patiently(self._take)

    # --- reading

    def _settle(self, pattern: Pattern | None = None) -> None:
        if pattern is None:
            return
        try:
            key = subjects.key_asked(pattern)
        except NeedsWholeStore:
            raise self.needs_whole("what any session may say") from None
        if key is not None:
            self._have([key])

    def query(
        self, text: str, *, union: bool = False, graph: ox.NamedNode | ox.BlankNode | ox.DefaultGraph | None = None
    ) -> Result:
        self._have_for(text)
        return super().query(text, union=union, graph=graph)

    def table(self, text: str) -> list[list[str]]:
        self._have_for(text)
        return super().table(text)

    def _have_for(self, text: str) -> None:
        """Take what one of the project's own queries about named sessions reads; raise `NeedsWholeStore` for any other query."""
        if not isinstance(text, BoundQuery) or text.name not in _OF_SESSIONS:
            raise self.needs_whole("a query over all sessions")
        named = [each for terms in text.terms.values() for each in terms or () if isinstance(each, ox.NamedNode)]
        self._have(subjects.key_of(each.value) for each in named)
        if text.name == "branches":
            self._have_about(vocab.PARENT_SESSION, named)
        if text.name == "notes_in":
            turns = [quad.object for each in named for quad in self.quads((None, vocab.DIGEST, None, each))]
            self._have_about(vocab.NAMED_DIGEST, turns)

    def _have_about(self, predicate: ox.NamedNode, values: Iterable[Any]) -> None:
        """Take all that is said of whatever has a property with one of some values."""
        keys = (subjects.key_of_value(predicate, each) for each in values)
        self._have(key for key in keys if key is not None)
        found = (quad for each in values for quad in self.quads((None, predicate, each, vocab.CATALOG)))
        self._have(subjects.keys_of_quads(found))

    def holds(self, quads: Sequence[ox.Quad]) -> list[bool]:
        self._have(subjects.keys_of_quads(quads))
        return super().holds(quads)

    def source(self, text: str, *, graph: object = None, union: bool = False) -> NoReturn:
        raise self.needs_whole("a query over all sessions")

    def rows(self, text: str) -> Iterator[list[str]]:
        raise self.needs_whole("a query over all sessions")

    def __len__(self) -> int:
        raise self.needs_whole("the number of its quads")

    def dump(self, out: object) -> NoReturn:
        raise self.needs_whole("a dump")

    # --- writing

    def commit(self, change: Change) -> Committed:
        waiting, commit_id = Waiting(change), secrets.token_hex(16)
        with self._lock:
            self._refuse_closed()
            self._have(self._keys_of(change))
            attempts: list[int] = []
            try:
                server.patiently(lambda: self._log(waiting, commit_id, attempts))
            except StoreFailed as error:
                raise server.kept(error) from None
            if waiting.error is not None:
                raise waiting.error
            return waiting.outcome or Committed(False, self._number, self._reached.link)

    @property
    def _reached(self) -> Leaves:
        if self._link is None:
            server.patiently(self._take)
        assert self._link is not None  # noqa: S101 - it was read just now
        return self._link

    def _keys_of(self, change: Change) -> Iterator[int]:
        """Yield the keys of all that it depends on whether a change may happen, and of what it changes there."""
        yield from subjects.keys_of_quads(change.require)
        yield from (subjects.key_of(graph.value) for graph in change.drop)
        for pattern in (*change.forbid, *(change.read or ())):
            if (key := subjects.key_asked(pattern)) is not None:
                yield key

    def _log(self, waiting: Waiting, commit_id: str, attempts: list[int]) -> None:
        """Decide a commit over the end of the log and append it; one that was written before is only found."""
        attempts.append(self._number)
        if len(attempts) > 1 and (number := self._server.number_of(commit_id)) is not None:
            self._take()
            waiting.outcome = Committed(True, number, self._end_of_lines(self._at(number)).link)
            return
        if self._alone >= _LOST and self._logged_at_once(waiting, commit_id):
            return
        try:
            self._alone = 0 if self._take(locked=True) else self._alone + 1
            batch = self._decided(waiting)
            rows = self._rows_of(batch, commit_id)
        except BaseException:
            self._server.let_go()
            raise
        if rows:
            self._server.append(rows)
            self._carry_out(batch, rows[-1])
        else:
            self._server.let_go()

    def _logged_at_once(self, waiting: Waiting, commit_id: str) -> bool:
        """Append without the lock if the log still ends where this has it; return whether it did."""
        batch = self._decided(waiting)
        rows = self._rows_of(batch, commit_id)
        if not rows or not self._server.append_at_once(rows, self._number, self._digest):
            self._alone = 0
            return False
        self._carry_out(batch, rows[-1])
        return True

    def _at(self, number: int) -> list[Unpacked]:
        return [row.unpack() for row in self._server.rows([number])]

    def _decided(self, waiting: Waiting) -> Batch:
        waiting.done, waiting.error = False, None
        batch = Batch(self._look, self._reached, self._token, self._number, {}, alone=True)
        batch.decide(waiting)
        return batch

    def _look(self, pattern: Pattern) -> ox.Store:
        self._settle(pattern)
        return self._engine()

    def _rows_of(self, batch: Batch, commit_id: str) -> list[Row]:
        return [records.row_of(each.record, commit_id, self._number + 1, self._digest) for each in batch.settled]

    def _carry_out(self, batch: Batch, row: Row) -> None:
        (done,) = batch.settled
        known = subjects.restricted(done.record, self._keys)
        self._gate.alone(lambda: engine_filling.fill(self._memory, [known]))
        self._token += bool(known.remove or known.drop)
        self._note_lengths(done.record)
        self._number, self._digest, self._link = row.number, row.digest, done.after
        done.waiting.outcome, done.waiting.done = Committed(True, row.number, done.after.link), True

    # --- its end

    def flush(self) -> None:
        self._refuse_closed()

    def close(self) -> None:
        if os.getpid() == self._pid:
            self._closed = True
            self._server.close()


_OF_SESSIONS: Final = frozenset(
    {"records", "lineage", "branches", "turns", "facts", "last_index", "prompt", "summary_turns", "notes_in"}
)
"""The queries that read nothing but what is said of the sessions that they name, and of the ancestors of these."""


def open_thin(location: str) -> ThinStore:
    """Open the store that a URL names, and read nothing of it yet.

    Raises `InvalidInput` if there is no such store, `NeedsWholeStore` if its records are not found by session yet, `StoreFailed`
    if the server is away.
    """
    log = ThinServer(address.parse(location))
    try:
        return ThinStore(log)
    except BaseException:
        log.close()
        raise
