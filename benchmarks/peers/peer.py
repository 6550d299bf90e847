"""What every peer can be asked, so that a scenario treats all of them, and Trails, alike."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, Protocol

from benchmarks.data import Message


class Peer(Protocol):
    """A store of one conversation in a folder."""

    durability: str
    """What a commit has reached when it returns, as asked of the peer itself."""
    rewrites: bool
    """True where each append stores the whole conversation again: many single appends are then not affordable."""

    def append(self, messages: Sequence[Message]) -> None:
        """Store messages one by one, each in a commit of its own, as safely as the peer does by default."""
        ...

    def fill(self, messages: Sequence[Message]) -> None:
        """Store messages in one commit, as safely as one of `append`; where there is no such thing, one by one."""
        ...

    def load(self) -> Sequence[Any]:
        """Return all messages."""
        ...

    def last(self, count: int) -> Sequence[Any]:
        """Return the last messages, in the quickest way there is."""
        ...

    def fork(self, at: int, tail: Sequence[Message]) -> None:
        """Branch off after `at` messages (an even number), and store more on the branch, one by one."""
        ...

    def close(self) -> None:
        """Close it, so that another instance on the same folder can read all."""
        ...


_SYNCHRONOUS = {0: "off", 1: "normal", 2: "full", 3: "extra"}


def sqlite_durability(connection: sqlite3.Connection) -> str:
    """Return what SQLite says of a connection: its journal, its `synchronous`, and whether a commit is synced by them."""
    (journal,) = connection.execute("PRAGMA journal_mode").fetchone()
    (level,) = connection.execute("PRAGMA synchronous").fetchone()
    synced = "synced" if level >= (2 if journal == "wal" else 1) else "not synced"
    return f"{synced} (journal {journal}, synchronous {_SYNCHRONOUS[level]})"
