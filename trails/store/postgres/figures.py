"""What a server of PostgreSQL says of itself and of a store's log, for `trails store status` and `trails doctor`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from trails.store.postgres import statements
from trails.store.postgres.link import Link, store_is_gone
from trails.store.postgres.roles import Right


class Settings(NamedTuple):
    """What a server says of itself: whether what it acknowledges is on its disk, and its clock."""

    version: str
    fsync: bool
    synchronous_commit: bool
    full_page_writes: bool
    now: datetime


@dataclass(frozen=True, slots=True)
class LogFigures:
    """Where a log is, and what goes on at its server."""

    commits: int
    due: int
    """The commit whose erasure is not ended, 0 if there is none."""
    erased: int
    logged: datetime | None
    """When the last commit was logged."""
    is_standby: bool
    replayed_seconds: float | None
    """Of a standby: the age of the newest transaction that it has. Its lag is at most that."""
    waiting: int
    """Transactions that wait for a lock of a store: the queue of commits."""
    oldest_seconds: float
    """The age of the oldest transaction of the database, of those that this user may see."""
    bytes: int
    """What the records of all stores of the database take, with their indexes."""


@dataclass(frozen=True, slots=True)
class Standby:
    """A standby that streams from a server. A user without `pg_read_all_stats` sees its name only."""

    name: str
    state: str
    sync: str
    lag_seconds: float | None


def settings_of(link: Link) -> Settings:
    """Return what the server says of itself."""
    with link.asked() as connection:
        found = connection.execute(statements.SETTINGS).fetchone()
    assert found is not None  # noqa: S101 - one row, always
    version, fsync, synchronous, full, now = found
    return Settings(version, fsync != "off", synchronous != "off", full != "off", now)


def rights_lacking(link: Link, rights: Sequence[Right]) -> list[Right]:
    """Return which rights this user lacks; on a table that is not there none is lacking."""
    with link.asked() as connection:
        with connection.pipeline():
            asked = [
                connection.execute(statements.LACKS_COLUMN, (table, table, column, privilege))
                if column
                else connection.execute(statements.LACKS, (table, table, privilege))
                for privilege, table, column in rights
            ]
        return [right for right, each in zip(rights, asked, strict=True) if each.fetchone() == (True,)]


def figures_of(link: Link, store: str) -> LogFigures:
    """Return where the log is, and what goes on at the server."""
    with link.asked() as connection:
        found = connection.execute(statements.FIGURES, (store,)).fetchone()
    if found is None:
        raise store_is_gone(link.address)
    commits, due, erased, logged, is_standby, replayed, waiting, oldest, size = found
    return LogFigures(
        int(commits),
        int(due),
        int(erased),
        logged,
        bool(is_standby),
        None if replayed is None else float(replayed),
        int(waiting),
        float(oldest),
        int(size),
    )


def seconds_since(link: Link, store: str, numbers: Iterable[int]) -> dict[int, float]:
    """Return for each number how long ago the record that follows on it was logged; without one that is the last."""
    with link.asked() as connection:
        asked = (store, [number + 1 for number in numbers])
        found = connection.execute(statements.SECONDS_SINCE, asked).fetchall()
    return {int(number): float(seconds) for number, seconds in found}


def standbys_of(link: Link) -> tuple[Standby, ...]:
    """Return the standbys that stream from this server."""
    with link.asked() as connection:
        found = connection.execute(statements.STANDBYS).fetchall()
    return tuple(Standby(name, state, sync, None if lag is None else float(lag)) for name, state, sync, lag in found)
