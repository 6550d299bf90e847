"""A third home of the log, as somebody else may write one: a file of SQLite, to which any number of processes append."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from trails import InvalidInput, StoreFailed
from trails.store import EmbeddedStore, frames
from trails.store.committing import Batch, Waiting
from trails.store.log import LogIndex
from trails.store.maintenance import Vacuumed


class SqliteLog:
    """Records in a table, each with a digest over the one before it; another table says where they end."""

    is_shared = True
    is_read_only = False
    erased_at = 0
    erased_with = 0

    def __init__(self, path: Path) -> None:
        self.location = f"sqlite:{path}"
        self._file = sqlite3.connect(path, isolation_level=None, timeout=60, check_same_thread=False)
        self._file.execute("CREATE TABLE IF NOT EXISTS records (number INTEGER PRIMARY KEY, payload BLOB, digest BLOB)")
        self._file.execute("CREATE TABLE IF NOT EXISTS head (number INTEGER)")

    def append(self, waiting: Sequence[Waiting], index: LogIndex) -> Batch:
        with self._locked():
            batch, digest = self._tail(index)
            known = len(batch.settled)
            for each in waiting:
                batch.decide(each)
            for number, settled in enumerate(batch.settled[known:], index.number + known + 1):
                payload = settled.record.payload()
                digest = _next(digest, payload)
                self._file.execute("INSERT INTO records VALUES (?, ?, ?)", (number, payload, digest))
            self._file.execute("DELETE FROM head")
            self._file.execute("INSERT INTO head VALUES (?)", (index.number + len(batch.settled),))
        return batch

    def read_on(self, index: LogIndex) -> bool:
        with index.writing():
            index.refuse_failed()
            with self._locked():
                batch, _ = self._tail(index)
            index.carry_out(batch)
        return bool(batch.settled)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self._file.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._file.execute("ROLLBACK")
            raise
        self._file.execute("COMMIT")

    def _tail(self, index: LogIndex) -> tuple[Batch, bytes]:
        """Return what was appended after an index, and the digest of the last record."""
        batch, at = index.new_batch(), index.number
        (digest,) = self._file.execute("SELECT digest FROM records WHERE number = ?", (at,)).fetchone() or (b"",)
        for number, payload, found in self._file.execute(
            "SELECT * FROM records WHERE number > ? ORDER BY number", (at,)
        ):
            digest = _next(digest, payload)
            if number != index.number + len(batch.settled) + 1 or found != digest:
                raise StoreFailed(f"{self.location} lacks a record before {number}")
            batch.take(frames.unpacked(payload, 0))
        head = self._file.execute("SELECT number FROM head").fetchone()
        if head is not None and head[0] != index.number + len(batch.settled):
            raise StoreFailed(f"{self.location} lacks its last records")
        return batch, digest

    def follow(self, index: LogIndex) -> None:
        raise InvalidInput(f"{self.location} is not followed")

    def snapshot(self, index: LogIndex) -> int:
        return index.number

    @contextmanager
    def alone(self, index: LogIndex, name: str) -> Iterator[None]:
        yield

    @contextmanager
    def erasing(self, index: LogIndex) -> Iterator[None]:
        yield

    def vacuum(self, index: LogIndex) -> Vacuumed:
        return index.rebuild()

    def end(self, index: LogIndex) -> None:
        pass

    def close(self) -> None:
        self._file.close()


def open_third(path: Path) -> EmbeddedStore:
    store = EmbeddedStore(None, commits=SqliteLog(path))
    store.sync()
    return store


def lose(what: str, path: Path) -> bool:
    """Lose records of the log; tell whether that shows."""
    with sqlite3.connect(path) as file:
        file.execute(
            "DELETE FROM records WHERE number = 5" if what == "a row" else "DELETE FROM records WHERE number > 8"
        )
        if what == "the end, unseen":
            file.execute("UPDATE head SET number = 8")
    file.close()
    return what != "the end, unseen"


def _next(digest: bytes, payload: bytes) -> bytes:
    return hashlib.sha256(digest + payload).digest()


# --- homes that do it wrong


class _Careless(SqliteLog):
    """Takes the records that it finds, whatever is missing before or after them."""

    def _tail(self, index: LogIndex) -> tuple[Batch, bytes]:
        batch = index.new_batch()
        for (payload,) in self._file.execute(
            "SELECT payload FROM records WHERE number > ? ORDER BY number", (index.number,)
        ):
            batch.take(frames.unpacked(payload, 0))
        return batch, b""


class _Late(SqliteLog):
    """Says that something is written a commit before it is."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._held: list[tuple[int, bytes]] = []

    def append(self, waiting: Sequence[Waiting], index: LogIndex) -> Batch:
        with self._locked():
            batch = index.new_batch()
            for each in waiting:
                batch.decide(each)
            for held in self._held:
                self._file.execute("INSERT INTO records VALUES (?, ?, '')", held)
            self._held = [(index.number + 1, each.record.payload()) for each in batch.settled]
        return batch


WRONG = {"careless": _Careless, "late": _Late}


def open_wrong(how: str, path: Path) -> EmbeddedStore:
    store = EmbeddedStore(None, commits=WRONG[how](path))
    store.sync()
    return store
