"""Who has an index of a store: each process says so in the database, with how far it is."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from trails.store.log.log_maintenance import Behind
from trails.store.postgres import statements
from trails.store.postgres.link import Link, NoTable

FORGOTTEN: Final = 30
"""Days without a word after which an index is told no more."""


@dataclass(frozen=True, slots=True)
class Reader:
    """An index: the process that has it or had it last, how far it is, and at which vacuum its files were made."""

    index: str
    process: str
    number: int
    erased: int
    is_closed: bool
    heard: datetime | None = None
    """When its process last said so, by the server's clock."""

    def was_open(self, lately: timedelta) -> bool:
        """Tell whether its process had it open not longer ago than that, as far as it said."""
        return not self.is_closed and self.heard is not None and datetime.now(UTC) - self.heard < lately


def process_name() -> str:
    """Return what this process is called there: its machine and its number."""
    return f"{platform.node() or 'unknown'}:{os.getpid()}"


def made_before(readers: Iterable[Reader], erased: int) -> list[Reader]:
    """Return those whose files were made before a vacuum, and may still hold what it took out.

    >>> old, new = Reader("a", "one:7", 9, 0, is_closed=False), Reader("b", "two:8", 9, 5, is_closed=True)
    >>> [reader.index for reader in made_before([old, new], 5)]
    ['a']
    """
    return [reader for reader in readers if reader.erased < erased]


def as_reported(readers: Iterable[Reader]) -> tuple[Behind, ...]:
    """Return readers as reports tell them."""
    return tuple(Behind(each.process, each.index, each.is_closed, each.heard) for each in readers)


def make_table(link: Link) -> None:
    """Make the table of readers, where it is missing."""
    with link.asked() as connection:
        connection.execute(statements.MAKE_READERS)


def register(link: Link, store: str, reader: Reader) -> None:
    """Say who has an index, and how far it is. That waits for no disk and no standby: it tells, and decides nothing."""
    said = (reader.index, reader.process, reader.number, reader.erased, reader.is_closed)
    with link.asked() as connection, connection.pipeline():
        connection.execute("BEGIN")
        connection.execute(statements.UNHURRIED)
        connection.execute(statements.REGISTER, (store, *said))
        connection.execute("COMMIT")


def forget(link: Link, store: str, index: str) -> None:
    """Say that an index is gone."""
    with link.asked() as connection, connection.pipeline():
        connection.execute("BEGIN")
        connection.execute(statements.UNHURRIED)
        connection.execute(statements.FORGET, (store, index))
        connection.execute("COMMIT")


def forget_old(link: Link, store: str) -> None:
    """Drop those that were not heard of for `FORGOTTEN` days."""
    with link.asked() as connection:
        connection.execute(statements.FORGET_OLD, (store, FORGOTTEN))


def readers_of(link: Link, store: str) -> list[Reader] | None:
    """Return all indexes that were heard of in `FORGOTTEN` days, the last one first; None where there is no such table."""
    try:
        with link.asked() as connection:
            found = connection.execute(statements.READERS, (store, FORGOTTEN)).fetchall()
    except NoTable:
        return None
    return [Reader(*row) for row in found]
