"""A table of messages in SQLite, written by hand, and the same table in DoltLite, which has branches."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.data import Message
from benchmarks.peers.peer import sqlite_durability

_SCHEMA = """
CREATE TABLE IF NOT EXISTS messages (
    session TEXT, place INTEGER, said TEXT NOT NULL, PRIMARY KEY (session, place)
) WITHOUT ROWID
"""
_ADD = "INSERT INTO messages VALUES (?, ?, ?)"
_LOAD = "SELECT said FROM messages WHERE session = ? ORDER BY place"
_LAST = "SELECT said FROM messages WHERE session = ? ORDER BY place DESC LIMIT ?"
_COPY = "INSERT INTO messages SELECT ?, place, said FROM messages WHERE session = 'main' AND place < ?"


class Table:
    """A row a message, its JSON in one column; to fork is to copy the rows."""

    rewrites = False

    def __init__(self, folder: Path) -> None:
        self._connection = sqlite3.connect(folder / "messages.db", isolation_level=None)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=FULL")
        self._connection.execute(_SCHEMA)
        self.durability = sqlite_durability(self._connection)
        self._count = self._counted()

    def _counted(self) -> int:
        (count,) = self._connection.execute("SELECT count(*) FROM messages WHERE session = 'main'").fetchone()
        return int(count)

    def _add(self, session: str, place: int, messages: Sequence[Message]) -> None:
        rows = [(session, place + n, json.dumps(message.plain())) for n, message in enumerate(messages)]
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(_ADD, rows)
        self._connection.execute("COMMIT")

    def append(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self.fill([message])

    def fill(self, messages: Sequence[Message]) -> None:
        self._add("main", self._count, messages)
        self._count += len(messages)

    def load(self) -> Sequence[Any]:
        return [json.loads(said) for (said,) in self._connection.execute(_LOAD, ("main",))]

    def last(self, count: int) -> Sequence[Any]:
        rows = self._connection.execute(_LAST, ("main", count)).fetchall()
        return [json.loads(said) for (said,) in reversed(rows)]

    def fork(self, at: int, tail: Sequence[Message]) -> None:
        name = f"fork-{os.urandom(4).hex()}"
        self._connection.execute(_COPY, (name, at))
        for place, message in enumerate(tail, at):
            self._add(name, place, [message])

    def close(self) -> None:
        self._connection.close()


class Versions(Table):
    """DoltLite: each commit is one of its version control, too, with a message, an author and a hash over all.

    Runs where `sqlite3` is DoltLite (see `elsewhere`). A fork is a branch, which shares all rows.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._stamps: dict[int, str] = {}

    def _stamp(self) -> str:
        (found,) = self._connection.execute("SELECT dolt_commit('-A', '-m', 'turns')").fetchone()
        return str(found)

    def fill(self, messages: Sequence[Message]) -> None:
        super().fill(messages)
        self._stamps[self._count] = self._stamp()

    def fork(self, at: int, tail: Sequence[Message]) -> None:
        name = f"fork-{os.urandom(4).hex()}"
        self._connection.execute("SELECT dolt_branch(?, ?)", (name, self._stamps[at])).fetchall()
        self._connection.execute("SELECT dolt_checkout(?)", (name,)).fetchall()
        for place, message in enumerate(tail, at):
            self._add("main", place, [message])
            self._stamp()
        self._connection.execute("SELECT dolt_checkout('main')").fetchall()
