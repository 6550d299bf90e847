"""A store in PostgreSQL of which a process holds no more than the sessions that it works on.

It has no copy of the log and no files: the records about a session and its ancestors are found by their keys (`subjects`), and
what they say of these is held in memory. A commit is judged under the lock of the store's row, over all that the log has of what
the commit looks at. What may be anywhere in the store is not answered (`NeedsWholeStore`).
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn, TypeVar

import pyoxigraph as ox

from trails.errors import NeedsWholeStore, StoreFailed, TrailsError
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
from trails.store.postgres.address import Address
from trails.store.postgres.link import READING, Again, NoTable, Unreachable, kept, patiently, store_is_gone
from trails.store.postgres.server import Server

_Answer = TypeVar("_Answer")
_LOST: Final = 3
"""Commits, after one before which somebody else had written, for which the lock is taken at once."""
_BACK: Final = 10
"""Records that are looked through at once for the last line of the log."""
_BEGINNING: Final = 16_384
"""Bytes of the last record's body that are read for the log's last line, if it is about nothing that was asked for."""
_FEW: Final = 64
"""Keys up to which all that is here is brought up to date at once."""
_MOST: Final = 10_000
"""Quads that are held, if what is needed now has not more."""


class Taken(NamedTuple):
    """What the log has about some keys, of one moment."""

    head: Head
    indexed: int
    keys: Collection[int]
    """The keys that it is about: those that were asked for, and those of the ancestors of forks."""
    rows: Sequence[tuple[Row, bytes]]
    """The records about them, in order, each with the digest of the record before."""
    last: Row | None
    """The last record of the log, of whose body there may be no more than the beginning; None if there is no record."""


class ThinServer(Server):
    """A connection to a log that is read by keys."""

    def __init__(self, address: Address) -> None:
        """Nothing is connected yet; raises `InvalidInput` where the driver is missing."""
        super().__init__(address)
        self.indexes = True

    def take(self, asked: Mapping[int, int], *, is_locked: bool = False) -> Taken:
        """Return the records about keys, each after a number, and those about the ancestors of the forks among the keys.

        If it `is_locked`, a transaction begins with it that holds the store's row, until `append` or `let_go`.
        """
        keys, after = list(asked), list(asked.values())
        values = (keys, after, self.id, keys, self.id, _BEGINNING, self.id)
        try:
            with self.asked() as connection, connection.pipeline() if is_locked else nullcontext():
                if is_locked:
                    self._begin(connection)
                asking = connection.execute(statements.TAKE, values)
                found = asking.fetchall()
        except NoTable:
            raise NeedsWholeStore(
                f"the records of {self.address.shown} are not indexed by session yet: open the store once without thin=True, as "
                "the owner of its tables, or run `trails store upgrade`"
            ) from None
        if not found:
            raise store_is_gone(self.address)
        *head, indexed, wanted = found[-1][:6]
        rows = [(server.row_of(each[8:]), START if each[7] is None else bytes(each[7])) for each in found if each[6]]
        last = None if found[-1][8] is None else server.row_of(found[-1][8:])
        return Taken(server.head_of(head), int(indexed), keys if wanted is None else wanted, rows, last)

    def before(self, number: int) -> list[Row]:
        """Return some records up to a number, the last first."""
        with self.asked() as connection:
            found = connection.execute(statements.BEFORE, (self.id, number, _BACK)).fetchall()
        return [server.row_of(each) for each in found]

    def number_of(self, commit_id: str) -> int | None:
        """Return the number of the record of a commit; None if the log has no such record."""
        with self.asked() as connection:
            found = connection.execute(statements.WITH_ID, (self.id, commit_id)).fetchone()
        return None if found is None else int(found[0])


@dataclass(slots=True)
class _Attempt:
    """A commit that is to be logged, with the id by which it is found after an answer was lost."""

    waiting: Waiting
    commit_id: str
    keys: Collection[int]
    """The keys of all that it looks at."""
    tries: int = 0


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
        head = log.find()
        self._memory = ox.Store()
        self._keys: dict[int, int] = {subjects.EVERYBODY: head.number}
        """The keys of which all is here that the log had when it ended with a number."""
        self._fresh: set[int] = set()
        """Those of the keys of which what is here may still be given to whoever reads."""
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
        """Take from the log what it has about keys, as far as that is not here, or of before the last `sync`."""
        with self._lock:
            wanted = {key for key in keys if key not in self._fresh}
            if wanted:
                self._refuse_closed()
                if len(self._memory) > _MOST:
                    self._forget()
                self._ask(wanted)

    def _ask(self, keys: Collection[int]) -> bool:
        """Do as `_take` does; raise `StoreFailed` within seconds if the server does not answer."""
        begun = time.monotonic()
        with self._server.briefly(READING):
            try:
                return self._take(keys)
            except (Unreachable, Again):  # the connection had ended since it was used last, or others wrote
                if time.monotonic() - begun >= READING:
                    raise
                return patiently(partial(self._take, keys), READING)

    def _take(self, keys: Collection[int] = (), *, is_locked: bool = False) -> bool:
        """Bring in what the log has about keys; return whether it has other records than were seen."""
        asked = {key: self._keys.get(key, 0) for key in (subjects.EVERYBODY, *keys)}
        taken = self._server.take(asked, is_locked=is_locked)
        self._refuse_other(taken)
        unpacked = [self._checked(*each) for each in taken.rows]
        if len(self._keys) > 1 and any(each.row.flags & records.REWRITES for each in unpacked):
            if is_locked:
                self._server.let_go()
            self._forget()
            self._take(keys, is_locked=is_locked)
            return True
        self._bring_in(unpacked, taken.keys)
        has_news = taken.head.number > self._number
        self._number, self._digest = taken.head.number, taken.head.digest
        self._keys.update(dict.fromkeys(taken.keys, self._number))
        self._fresh.update(taken.keys)
        if taken.last is not None and (has_news or self._link is None):
            self._link = self._end_of_lines(taken.last)
        return has_news

    def _refuse_other(self, taken: Taken) -> None:
        """Raise what is wrong with the log as it is now: not indexed, of another history, or altered."""
        head = taken.head
        if taken.indexed < head.number:
            raise NeedsWholeStore(
                f"records {taken.indexed + 1:,} to {head.number:,} of {self.location} are not indexed by session: an "
                "earlier version of Trails wrote them, or a user who may not fill that index. Open the store once without "
                "thin=True, as the owner of its tables, or run `trails store upgrade`"
            )
        if head.number < self._number or (head.number == self._number and head.digest != self._digest):
            raise StoreFailed(
                f"the log of {self.location} has another history than was seen here (a standby that lagged was promoted, or a "
                "backup restored); open the store again"
            )
        if (records.START if taken.last is None else taken.last.digest) != head.digest:
            raise self._altered(head.number)

    def _forget(self) -> None:
        """Hold nothing any more: it is read again once it is needed."""
        self._memory, self._lengths, self._keys = ox.Store(), {}, {subjects.EVERYBODY: self._number}
        self._fresh.clear()
        self._token += 1

    def _checked(self, row: Row, previous: bytes) -> Unpacked:
        """Return what a row holds; raise `StoreFailed` unless it follows on the one before, and is as it was written."""
        unpacked = self._unpacked(row)
        if not unpacked.is_whole or not unpacked.follows(row.number - 1, previous):
            raise self._altered(row.number)
        return unpacked

    def _unpacked(self, row: Row) -> Unpacked:
        try:
            return row.unpack()
        except ValueError as error:
            raise self._altered(row.number) from error

    def _altered(self, number: int) -> StoreFailed:
        return StoreFailed(
            f"record {number} of the log of {self.location} is not the one that was written; restore a backup"
        )

    def _bring_in(self, unpacked: Sequence[Unpacked], keys: Collection[int]) -> None:
        """Put in what records say of keys, if that is not here."""
        for each in unpacked:
            news = subjects.restricted(each.record, {key for key in keys if self._keys.get(key, 0) < each.row.number})
            self._put(news, each.record)

    def _put(self, news: CommitRecord, record: CommitRecord) -> None:
        """Put in a part of what a record does."""
        engine_filling.fill(self._memory, [news])
        self._token += bool(news.remove or news.drop)
        self._note_lengths(record)

    def _note_lengths(self, record: CommitRecord) -> None:
        for line in record.leaves:
            kind, iri, count, *_ = line.split(" ")
            if kind in ("turns", "delete"):
                self._lengths[iri] = int(count) if kind == "turns" else 0

    def _end_of_lines(self, last: Row) -> Leaves:
        """Return how far the lines of the log reach with a record, of whose body the beginning will do."""
        rows, number = [last], last.number
        while rows:
            for row in rows:
                number = row.number
                if lines := self._lines(row):
                    return Leaves(1, number, leaves.link_leaf(lines[-1]))
            rows = self._server.before(number - 1)
        return Leaves(0, 0, leaves.START)

    def _lines(self, row: Row) -> Sequence[str]:
        if row.leaves:
            return records.lines_of(row.leaves)
        try:
            return records.lines_packed(row.body)
        except ValueError:
            (whole,) = self._server.rows([row.number])
            return self._unpacked(whole).record.leaves

    def sync(self) -> bool:
        """Learn where the log ends, and read nothing older from now on; return whether anything was committed."""
        with self._lock:
            self._refuse_closed()
            self._fresh.clear()
            return self._ask(list(self._keys) if len(self._keys) <= _FEW else ())

    def expire(self) -> None:
        """Read nothing from now on that was taken from the log before; it is asked for the news when something is read."""
        with self._lock:
            self._fresh.clear()

    # --- reading

    def _key_asked(self, pattern: Pattern) -> int | None:
        """Return the key of all that a pattern can match, None if that is nothing; raise `NeedsWholeStore` if there is none."""
        try:
            return subjects.key_asked(pattern)
        except NeedsWholeStore:
            raise self.needs_whole("what any session may say") from None

    def _settle(self, pattern: Pattern | None = None) -> None:
        if pattern is not None and (key := self._key_asked(pattern)) is not None:
            self._have([key])

    def with_engine(
        self,
        ask: Callable[[ox.Store], _Answer],
        pattern: Pattern | None = None,
        failure: Callable[[Exception], TrailsError] | None = None,
    ) -> _Answer:
        with self._lock:  # what is here for one reader may be forgotten for another
            return super().with_engine(ask, pattern, failure)

    def query(
        self, text: str, *, union: bool = False, graph: ox.NamedNode | ox.BlankNode | ox.DefaultGraph | None = None
    ) -> Result:
        with self._lock:
            self._have_for(text)
            return super().query(text, union=union, graph=graph)

    def table(self, text: str) -> list[list[str]]:
        with self._lock:
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
        with self._lock:
            self._have(subjects.keys_of_quads(quads))
            return super().holds(quads)

    def source(self, text: str, *, graph: object = None, union: bool = False) -> NoReturn:
        raise self.needs_whole("a query over all sessions")

    def rows(self, text: str) -> Iterator[list[str]]:
        raise self.needs_whole("a query over all sessions")

    def __len__(self) -> int:
        raise self.needs_whole("the number of its quads")

    def dump(self, out: object, *, derives: bool = False) -> NoReturn:
        raise self.needs_whole("a dump")

    # --- writing

    def commit(self, change: Change) -> Committed:
        attempt = _Attempt(
            Waiting(replace(change, as_of=None)), secrets.token_hex(16), frozenset(self._keys_of(change))
        )
        with self._lock:
            self._refuse_closed()
            try:
                patiently(partial(self._log, attempt))
            except StoreFailed as error:
                raise kept(error) from None
            waiting = attempt.waiting
            if waiting.error is not None:
                raise waiting.error
            return waiting.outcome or Committed(False, self._number, self._reached.link)

    @property
    def _reached(self) -> Leaves:
        return self._link or Leaves(0, 0, leaves.START)

    def _keys_of(self, change: Change) -> Iterator[int]:
        """Yield the keys of all that a change looks at."""
        yield from subjects.keys_of_quads(change.require)
        yield from (subjects.key_of(graph.value) for graph in change.drop)
        for pattern in (*change.forbid, *(change.read or ())):
            if (key := self._key_asked(pattern)) is not None:
                yield key

    def _log(self, attempt: _Attempt) -> None:
        """Decide a commit over the end of the log and append it; one that was written before is only found."""
        attempt.tries += 1
        if attempt.tries > 1 and (number := self._server.number_of(attempt.commit_id)) is not None:
            self._take(attempt.keys)
            (row,) = self._server.rows([number])
            attempt.waiting.outcome = Committed(True, number, self._end_of_lines(row).link)
            return
        is_here = all(self._keys.get(key) == self._number for key in attempt.keys) and self._link is not None
        if is_here and self._alone >= _LOST and self._logged_at_once(attempt):
            return
        try:
            self._alone = 0 if self._take(attempt.keys, is_locked=True) else self._alone + 1
            batch = self._decided(attempt.waiting)
            rows = self._rows_of(batch, attempt.commit_id)
        except BaseException:
            with suppress(StoreFailed):
                self._server.let_go()
            raise
        if rows:
            self._server.append(rows)
            self._carry_out(batch, rows[-1], attempt.keys)
        else:
            self._server.let_go()

    def _logged_at_once(self, attempt: _Attempt) -> bool:
        """Append without the lock if the log still ends where it was seen to end; return whether it did."""
        batch = self._decided(attempt.waiting)
        rows = self._rows_of(batch, attempt.commit_id)
        if (
            batch.number != self._number
            or not rows
            or not self._server.append_at_once(rows, self._number, self._digest)
        ):
            self._alone = 0
            return False
        self._carry_out(batch, rows[-1], attempt.keys)
        return True

    def _decided(self, waiting: Waiting) -> Batch:
        waiting.done, waiting.error = False, None
        batch = Batch(self._look, self._reached, self._token, self._number, {}, alone=True)
        batch.decide(waiting)
        return batch

    def _look(self, pattern: Pattern) -> ox.Store:
        """Return what is here, once it has all that a pattern matches in the log as it is now."""
        if (key := self._key_asked(pattern)) is not None and self._keys.get(key, -1) < self._number:
            self._take([key])
        return self._engine()

    def _rows_of(self, batch: Batch, commit_id: str) -> list[Row]:
        return [records.row_of(each.record, commit_id, self._number + 1, self._digest) for each in batch.settled]

    def _carry_out(self, batch: Batch, row: Row, keys: Collection[int]) -> None:
        """Put in a commit that is in the log, and tell whoever waits for it."""
        (done,) = batch.settled
        whole = dict.fromkeys((subjects.EVERYBODY, *keys), row.number)
        whole.update((key, row.number) for key, number in self._keys.items() if number == self._number)
        self._put(subjects.restricted(done.record, whole), done.record)
        self._keys.update(whole)
        self._fresh.update(keys)
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
