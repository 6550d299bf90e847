"""The log in PostgreSQL: reading records, and appending them under the lock of the store's row."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from trails.errors import InvalidInput, StoreFailed
from trails.store.log import records
from trails.store.log.records import ERASES, REWRITES, START, CommitRecord, Row
from trails.store.log.rewriting import is_unstated, stated_in, to_state
from trails.store.log.sqlite import Head
from trails.store.postgres import readers, statements, subjects
from trails.store.postgres.address import Address
from trails.store.postgres.link import Link, NoFunction, NoTable, Unreachable, store_is_gone
from trails.store.postgres.readers import Reader
from trails.store.postgres.roles import Tables

if TYPE_CHECKING:
    import psycopg

    from trails.store.postgres.connection import Connection

_STEP: Final = 500
"""Records that are looked through at once."""
_IN_USE: Final = "in use"
"""The name that every process which has a store open holds in it, with the others."""
_LATELY: Final = timedelta(minutes=10)
"""For how long a process behind a pooler, which cannot hold that name, counts as one that has the store open."""


class Server(Link):
    """The log of one store, over one connection. Its caller sees to it that one thread uses it at a time."""

    def __init__(self, address: Address) -> None:
        """Nothing is connected yet; raises `InvalidInput` where the driver is missing."""
        super().__init__(address)
        self.id = ""
        self.indexes = False
        """Whether it says of each record that it writes which sessions that is about."""
        self.identity = ""
        """What `cache_name` begins with: the id, but for a store that `trails store clone` told from its original."""
        self._is_in_use = False
        self._place = ""
        self._holding: dict[str, Server] = {}
        """The connections that hold a name each."""
        self._spare: Server | None = None
        """One that held a name."""

    def __repr__(self) -> str:
        return f"<Server {self.address.shown}>"

    def another(self, *, past_pooler: bool = False) -> Server:
        """Return a further connection to the same store, for another thread; past the pooler if the address says how."""
        made = Server(self.address.past_pooler() if past_pooler else self.address)
        made.id, made.identity, made.indexes, made._place = self.id, self.identity, self.indexes, self._place
        return made

    # --- the store's row

    def make(self) -> None:
        """Make the tables and the store, as far as they are missing; raise `InvalidInput` in a database that cannot hold them."""
        if self._one("SHOW server_encoding") in (("SQL_ASCII",), (b"SQL_ASCII",)):  # there, the driver gives bytes
            raise InvalidInput(
                f"the database of {self.address.shown} has the encoding SQL_ASCII, which takes no text for what it is; make one "
                "with another: CREATE DATABASE name ENCODING 'UTF8' TEMPLATE template0"
            )
        with self.asked() as connection, connection.transaction():
            for statement in (statements.BOUNDED, *statements.SCHEMA, statements.MAKE_READERS):
                connection.execute(statement)
            connection.execute(statements.MAKE, (uuid4().hex, self.address.name, statements.FORMAT, START))

    def find(self) -> Head:
        """Return where the store's log ends; raise `InvalidInput` where there is no such store."""
        shown = self.address.shown
        missing = (
            f"there is no Trails store at {shown}; check the address, or create one (create=True, or `trails init`)"
        )
        try:
            with self.asked() as connection:
                found = connection.execute(statements.FIND, (self.address.name,)).fetchone()
        except NoTable:
            raise InvalidInput(missing) from None
        if found is None:
            raise InvalidInput(f"{missing}{self._hidden()}")
        self.id, self.identity, form, *head = found
        if form != statements.FORMAT:
            raise StoreFailed(
                f"the store {shown} has tables of format {form}, and this version of Trails reads format "
                f"{statements.FORMAT}; use the version of Trails that made them"
            )
        return head_of(head)

    # --- which sessions records are about

    def find_subjects(self) -> bool:
        """Learn whether this user may fill the table of what records are about; return whether there is one."""
        with self.asked() as connection:
            found = connection.execute(statements.HAS_SUBJECTS).fetchone()
        self.indexes = found == (True,)
        return found is not None and found[0] is not None

    def make_subjects(self) -> None:
        """Make the table of what records are about, where it is missing."""
        with self.asked() as connection, connection.transaction():
            for statement in statements.MAKE_SUBJECTS:
                connection.execute(statement)
        self.find_subjects()

    def indexed(self) -> tuple[int, int]:
        """Return up to which record the table of what records are about is whole, and the number of the last record."""
        with self.asked() as connection:
            found = connection.execute(statements.INDEXED, (self.id,)).fetchone()
        return (0, 0) if found is None else (int(found[0]), int(found[1]))

    def fill_subjects(self, after: int, most: int) -> int:
        """Say what up to `most` records are about that follow on a number, up to which that is said; return how far it is now."""
        rows = self.tail(after, most)
        reached = rows[-1].number if rows else after
        with self.asked() as connection, connection.transaction():
            connection.execute(statements.ADD_SUBJECTS, (self.id, *_subjects_of(rows)))
            connection.execute(statements.MOVE_INDEXED, (reached, self.id, after))
        return reached

    def subjects(self, numbers: Sequence[int]) -> dict[int, dict[int, int | None]]:
        """Return what the database says that some records are about: by number the keys, each with that of a fork's parent."""
        told: dict[int, dict[int, int | None]] = {number: {} for number in numbers}
        with self.asked() as connection:
            for number, key, parent in connection.execute(statements.SUBJECTS, (self.id, list(numbers))):
                told[number][key] = parent
        return told

    def _mend_subjects(self, connection: psycopg.Connection[tuple[Any, ...]], rows: Sequence[Row]) -> None:
        """Say again what records are about of which the database does not say it."""
        told = self.subjects([row.number for row in rows])
        for row in rows:
            if subjects.lacks(told[row.number], row.unpack().record):
                connection.execute(statements.DROP_SUBJECTS, (self.id, row.number, list(told[row.number])))
                connection.execute(statements.ADD_SUBJECTS, (self.id, *_subjects_of([row])))

    def _hidden(self) -> str:
        """Return that a store may be there and be hidden from this user, if it may."""
        with contextlib.suppress(StoreFailed), self.asked() as connection:
            if connection.execute(statements.IS_LIMITED).fetchone() == (True,):
                return "; this user sees only the stores that it was granted: the owner's `trails store grants` gives it this one"
        return ""

    def cache_name(self) -> str:
        """Return what this machine's copy is called: by the identity, the server and the database.

        A store that was restored elsewhere has another one, and so has a standby, which may lag; one behind a pooler has the
        same.
        """
        if not self._place:
            try:
                *place, is_standby = self._one(statements.PLACE) or (None, False)
            except Unreachable:
                raise
            except StoreFailed:  # not for this user, or not in every server that speaks this protocol
                place, is_standby = list(self._one(statements.DATABASE) or ()), self.is_standby()
            kind = "-standby" if is_standby else ""
            self._place = hashlib.sha256(f"{tuple(place)}".encode()).hexdigest()[:12] + kind
        return f"{self.identity}-{self._place}"

    def _one(self, statement: str) -> tuple[Any, ...] | None:
        with self.asked() as connection:
            return connection.execute(statement.encode()).fetchone()

    def clone(self) -> None:
        """Draw an identity for this copy of a store, and forget whose indexes its original had."""
        known = readers.readers_of(self, self.id)
        has_readers = known is not None
        identity, so = uuid4().hex, "its identity stays as it is. Close it there first"
        self._refuse_pooled(known or (), so)
        with self.asked() as connection, connection.transaction():
            connection.execute(statements.BOUNDED)
            connection.execute(statements.ADD_IDENTITY)
            connection.execute(statements.LOCK, (self.id,))
            self._refuse_in_use(connection, so)
            connection.execute(statements.SET_IDENTITY, (identity, self.id))
            if has_readers:
                connection.execute(statements.FORGET_ALL, (self.id,))
        self.identity = identity

    def tables(self, names: Sequence[str]) -> Tables:
        """Return which tables of some names there are, and their partitions."""
        with self.asked() as connection:
            found = connection.execute(statements.TABLES, (list(names),)).fetchall()
            present = [name for _, name in found]
            partitions = connection.execute(statements.PARTITIONS, (present,)).fetchall()
        return Tables(found[0][0], present, [name for (name,) in partitions])

    def say_in_use(self) -> None:
        """Let nobody remove the store (`remove`) while this connection, or one that takes its place, is there."""
        self._is_in_use = True
        with self.asked() as connection:
            self._greet(connection)

    def _greet(self, connection: Connection) -> None:
        if self.is_pooled or not self._is_in_use:
            return  # a pooler would keep the lock
        with contextlib.suppress(self.driver.Error):  # not every server that speaks this protocol has such locks
            connection.execute(statements.IN_USE, (self._key_of(_IN_USE),))

    def hold(self, name: str) -> bool:
        """Hold a name within the store, until `let_go_of` or `close`; False where another process does.

        It is held by a transaction on a connection of its own: a pooler keeps nothing of it.
        """
        holder, self._spare = self._spare or self.another(), None
        if is_held := holder._begin_holding(self._key_of(name)):
            self._holding[name] = holder
        else:
            self._spare = holder
        return is_held

    def _begin_holding(self, key: int) -> bool:
        try:
            with self.asked() as connection:
                connection.execute("BEGIN")
                found = connection.execute(statements.HOLD, (key,)).fetchone()
                if found is None or not found[0]:
                    connection.execute("COMMIT")
                    return False
        except NoFunction:
            pass
        return True

    def let_go_of(self, name: str) -> None:
        """Let go of a name that is held."""
        holder = self._holding.pop(name, None)
        if holder is None:
            return
        with contextlib.suppress(StoreFailed):  # with the connection it is let go of, too
            holder.let_go()
        if self._spare is None:
            self._spare = holder
        else:
            holder.close()

    def _key_of(self, name: str) -> int:
        """Return the number that stands for a name within the store, among what locks may be of."""
        return int.from_bytes(hashlib.sha256(f"{self.id} {name}".encode()).digest()[:8], signed=True)

    # --- reading

    def tail(self, after: int, most: int) -> list[Row]:
        """Return up to `most` records that follow on a number, in order."""
        with self.asked() as connection:
            return _rows(connection.execute(statements.TAIL, (self.id, after, most)).fetchall())

    def rest(self) -> None:
        """Read the log as it is now, until this connection ends."""
        with self.asked() as connection:
            connection.execute(statements.REST)
            connection.execute(statements.BOUNDED)

    def since(self, after: int, most: int) -> tuple[Head, list[Row]]:
        """Return where the log ended when this was asked, and up to `most` records that follow on a number; in one trip.

        Among the records may be some that were written a moment later than that.
        """
        with self.asked() as connection:
            with connection.pipeline():
                head = connection.execute(statements.HEAD, (self.id,))
                tail = connection.execute(statements.TAIL, (self.id, after, most))
            return self._of_row(head.fetchone()), _rows(tail.fetchall())

    def rows(self, numbers: Sequence[int]) -> list[Row]:
        """Return the records with some numbers."""
        with self.asked() as connection:
            return _rows(connection.execute(statements.ROWS, (self.id, list(numbers))).fetchall())

    def digest(self, number: int) -> bytes | None:
        """Return the digest of the record with a number, None where there is none."""
        if not number:
            return START
        with self.asked() as connection:
            found = connection.execute(statements.DIGEST, (self.id, number)).fetchone()
        return None if found is None else bytes(found[0])

    # --- writing

    def lock(self, after: int, most: int) -> tuple[Head, list[Row]]:
        """Begin a transaction that holds the store's row; return the end of the log and what follows on a number.

        Other commits wait until `append` or `let_go`. The tail is read by a later statement than the lock: one that
        waited for the lock would not see what the holder before it wrote.
        """
        with self.asked() as connection:
            with connection.pipeline():
                head = self._begin(connection)
                tail = connection.execute(statements.TAIL, (self.id, after, most))
            return self._of_row(head.fetchone()), _rows(tail.fetchall())

    def _begin(self, connection: psycopg.Connection[tuple[Any, ...]]) -> psycopg.Cursor[tuple[Any, ...]]:
        """Begin a transaction that holds the store's row; return what gives the end of the log."""
        connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
        connection.execute(statements.BOUNDED)
        return connection.execute(statements.LOCK, (self.id,))

    def let_go(self) -> None:
        """End a transaction in which nothing was written."""
        with self.asked() as connection:
            connection.execute("COMMIT")

    def append(self, rows: Sequence[Row]) -> None:
        """Write records and end the transaction that `lock` began: they are durable when this returns."""
        self.has_warned = False
        last = rows[-1]
        with self.asked() as connection, connection.pipeline(), connection.cursor() as cursor:
            for row in rows:
                cursor.execute(statements.ADD, (self.id, *row.values()))
            if self.indexes:
                cursor.execute(statements.ADD_SUBJECTS, (self.id, *_subjects_of(rows)))
            self._move(cursor, last, _due(rows))
            cursor.execute(statements.TELL, (self._channel, f"{last.number}"))
            cursor.execute("COMMIT")
        self._refuse_doubts()

    def _move(self, cursor: Any, last: Row, due: int) -> None:
        """Note where the log ends now, and that what it is about is said, if it was so up to here."""
        if self.indexes:
            cursor.execute(statements.MOVE_WITH_SUBJECTS, (last.number, last.digest, due, last.number, self.id))
        else:
            cursor.execute(statements.MOVE, (last.number, last.digest, due, self.id))

    def _refuse_doubts(self) -> None:
        if self.has_warned:
            raise StoreFailed(
                f"the server of {self.address.shown} committed, and did not hear from its standby: it is not acknowledged; "
                "commit again, which writes nothing twice"
            )

    def append_at_once(self, rows: Sequence[Row], number: int, digest: bytes) -> bool:
        """Write records without a lock, in one trip, where the log still ends as given; else write nothing and return False."""
        self.has_warned = False
        last = rows[-1]
        end = (last.number,) if self.indexes else ()
        known = (last.number, last.digest, _due(rows), *end, self.id, number, digest)
        values = [value for row in rows for value in row.values()]
        about = _subjects_of(rows) if self.indexes else ()
        statement = statements.at_once(len(rows), indexes=self.indexes)
        with self.asked() as connection:
            done = connection.execute(statement, (*known, *values, *about, self._channel, f"{last.number}"))
            written = done.rowcount == 1
        if written:
            self._refuse_doubts()
        return written

    @property
    def _channel(self) -> str:
        """The channel on which those who follow this store are told of commits; its name tells nothing of the store."""
        return f"trails_{hashlib.sha256(self.id.encode()).hexdigest()[:32]}"

    def remove(self, number: int, digest: bytes, index: str) -> bool:
        """Take the whole store out of the database where its log ends as given; else do nothing and return False.

        Raises `StoreFailed` where another process has it open; `index` is the name of this one's.
        """
        known = readers.readers_of(self, self.id)
        has_readers, has_subjects = known is not None, self.find_subjects()
        so = "nothing was removed. End that first"
        self._refuse_pooled(known or (), so, index)
        more = [*([statements.FORGET_ALL] * has_readers), *([statements.FORGET_SUBJECTS] * has_subjects)]
        with self.asked() as connection, connection.transaction():
            connection.execute(statements.BOUNDED)
            head = self._of_row(connection.execute(statements.LOCK, (self.id,)).fetchone())
            if (head.number, head.digest) != (number, digest):
                return False
            self._refuse_in_use(connection, so)
            for statement in (*statements.REMOVE, *more):
                connection.execute(statement, (self.id,))
        return True

    def _refuse_in_use(self, connection: psycopg.Connection[tuple[Any, ...]], so: str) -> None:
        patience, alone = statements.ALONE
        try:
            with connection.transaction():
                connection.execute(patience)
                connection.execute(alone, (self._key_of(_IN_USE),))
        except self.driver.errors.LockNotAvailable:
            raise self._in_use(so) from None
        except self.driver.ProgrammingError:
            pass  # a server without such locks

    def _refuse_pooled(self, readers: Sequence[Reader], so: str, index: str = "") -> None:
        """Raise `StoreFailed` if, behind a pooler, another process said lately that it has an index of the store open."""
        if self.is_pooled and any(each.index != index and each.was_open(_LATELY) for each in readers):
            raise self._in_use(so, f" (an index of it was in use less than {_LATELY.seconds // 60} minutes ago)")

    def _in_use(self, so: str, why: str = "") -> StoreFailed:
        return StoreFailed(
            f"{self.address.shown} is open in another process{why}: a copy into it goes on, or somebody works there; {so}"
        )

    def try_rewriting(self) -> None:
        """Raise `StoreFailed` where this user of the database may not rewrite records. Nothing is changed: no record is 0."""
        with self.asked() as connection:
            connection.execute(statements.TRY_REWRITING, (self.id,))

    def rewrite(self, until: int, changed: Callable[[Row], Row | None], *, vacuumed: bool) -> int:
        """Replace records up to a number by what `changed` returns (None: it stays); return the record that logs which, or 0.

        It is one transaction, after which nothing is due.
        """
        after, rewritten = 0, list[tuple[Row, bytes]]()
        with self.asked() as connection, connection.transaction():
            connection.execute(statements.BOUNDED)
            while after < until and (
                rows := _rows(connection.execute(statements.TAIL, (self.id, after, _STEP)).fetchall())
            ):
                if vacuumed and self.indexes:
                    self._mend_subjects(connection, rows)
                for row in rows:
                    if (
                        row.number <= until
                        and (pair := self._rewritten(connection, row, changed, vacuumed)) is not None
                    ):
                        rewritten.append(pair)
                after = rows[-1].number
            head = self._of_row(connection.execute(statements.LOCK, (self.id,)).fetchone())
            stating = connection.execute(statements.STATING, (self.id, REWRITES)).fetchall() if rewritten else ()
            digests = to_state(rewritten, stated_in(_rows(stating)))
            if digests:
                record = CommitRecord.of_rewriting(digests)
                made = records.row_of(record, uuid4().hex, head.number + 1, head.digest)
                connection.execute(statements.ADD, (self.id, *made.values()))
                if self.indexes:
                    connection.execute(statements.ADD_SUBJECTS, (self.id, *_subjects_of([made])))
                self._move(connection, made, 0)
            if connection.execute(statements.HAS_SNAPSHOTS).fetchone() == (True,):
                connection.execute(statements.DROP_SNAPSHOTS, (self.id,))
            connection.execute(statements.RID, (self.id, until))
            if vacuumed:
                connection.execute(statements.ERASED, (until, self.id))
        return head.number + 1 if digests else 0

    def _rewritten(
        self,
        connection: psycopg.Connection[tuple[Any, ...]],
        row: Row,
        changed: Callable[[Row], Row | None],
        vacuumed: bool,
    ) -> tuple[Row, bytes] | None:
        """Replace a record by what `changed` returns; return it as it was, and the digest of what is left of it.

        If another process rewrites it meanwhile, what that left is changed. None if it stays, unless a vacuum is to say of it
        what version 0.1 left of it.
        """
        while not row.flags & REWRITES and (new := changed(row)) is not None and new.rewritten is not None:
            values = (new.body, new.body_digest, new.rewritten, self.id, row.number, row.rewritten)
            if connection.execute(statements.REWRITE, values).rowcount:
                if self.indexes:
                    connection.execute(statements.DROP_SUBJECTS, (self.id, row.number, _subjects_of([row])[1]))
                    connection.execute(statements.ADD_SUBJECTS, (self.id, *_subjects_of([new])))
                return row, new.rewritten
            (row,) = _rows(connection.execute(statements.ROWS, (self.id, [row.number])).fetchall())
        return (row, row.rewritten) if vacuumed and row.rewritten is not None and is_unstated(row) else None

    # --- the connection

    def listen(self, told: Callable[[], None], ended: Callable[[], bool]) -> None:
        """Call `told` whenever something may have been committed, at least once a second, until `ended`."""
        with self.asked() as connection:
            if not self.is_pooled:  # a pooler would tell others
                with contextlib.suppress(self.driver.Error):  # not every server that speaks this protocol knows it
                    connection.execute(f"LISTEN {self._channel}")
            while not ended():
                for _ in connection.notifies(timeout=1.0, stop_after=1):
                    pass
                if not ended():
                    told()

    def close(self) -> None:
        """End the connection. Doing it twice is allowed."""
        holding, self._holding = [*self._holding.values(), *([self._spare] if self._spare else [])], {}
        self._spare = None
        for each in holding:
            each.close()
        self.hang_up()

    def _of_row(self, found: tuple[Any, ...] | None) -> Head:
        if found is None:
            raise store_is_gone(self.address)
        return head_of(found)


def _subjects_of(rows: Iterable[Row]) -> tuple[list[int], list[int], list[int | None]]:
    """Return what rows are about, as columns: number, key, and the key of a fork's parent."""
    about = [
        (row.number, key, parent) for row in rows for key, parent in subjects.subjects_of(row.unpack().record).items()
    ]
    numbers, keys, parents = zip(*about, strict=True) if about else ((), (), ())
    return list(numbers), list(keys), list(parents)


def _due(rows: Sequence[Row]) -> int:
    return max((row.number for row in rows if row.flags & ERASES), default=0)


def head_of(found: Sequence[Any]) -> Head:
    """Return where a log ends, as a row of the table of stores says it."""
    number, digest, erased, due = found
    return Head(int(number), bytes(digest), int(erased), int(due))


def row_of(found: Sequence[Any]) -> Row:
    """Return the record that stands in a row of the table."""
    number, commit_id, flags, leaves, body, of_body, digest, rewritten = found
    kept = None if rewritten is None else bytes(rewritten)
    return Row(number, commit_id, flags, bytes(leaves), bytes(body), bytes(of_body), bytes(digest), kept)


def _rows(found: Sequence[tuple[Any, ...]]) -> list[Row]:
    return [row_of(each) for each in found]
