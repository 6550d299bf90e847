"""How a store in PostgreSQL is doing: its log, who waits, how far readers and standbys are, and this machine's copy."""

from __future__ import annotations

import time
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from datetime import UTC
from pathlib import Path
from typing import Any

from trails.errors import StoreFailed
from trails.store.index.index_folder import IndexFolder
from trails.store.log import sqlite
from trails.store.log.sqlite import SqliteHome
from trails.store.postgres import address, readers
from trails.store.postgres.figures import LogFigures, Standby, figures_of, seconds_since, standbys_of
from trails.store.postgres.log import folder_of
from trails.store.postgres.readers import Reader
from trails.store.postgres.server import Server


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of the log, and how far it is behind the database that was asked."""

    process: str
    """The machine and the number of a process that has it open, or had it last; of this machine's copy empty if none has."""
    commits: int
    lag_commits: int
    lag_seconds: float
    """Seconds since the first commit that it lacks was logged; 0 if it lacks none."""
    is_open: bool


@dataclass(frozen=True, slots=True)
class Status:
    """How a store in PostgreSQL is doing."""

    location: str
    log: LogFigures
    here: Copy | None
    """This machine's copy, None if it has none yet."""
    readers: tuple[Copy, ...]
    """All copies as their processes last reported them, which is at most once a minute and never with a commit."""
    standbys: tuple[Standby, ...]
    """The standbys that stream from this server, as far as this user may see them."""
    snapshot_commits: int | None
    """Commits since this machine's newest snapshot of an index, None if it has none."""
    snapshot_seconds: float | None
    """Seconds since it was made."""

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values, ready for JSON."""
        plain = asdict(self)
        logged = self.log.logged
        plain["log"]["logged"] = None if logged is None else logged.astimezone(UTC).isoformat()
        return plain


def status_of(location: str) -> Status:
    """Return how the store that a URL names is doing. Nothing is changed, no index is made, and a standby can be asked.

    Raises `InvalidInput` if there is no such store, `StoreFailed` if the server is away or this user may not read.
    """
    with closing(Server(address.parse(location))) as log:
        log.find()
        figures = figures_of(log, log.id)
        folder = folder_of(log.cache_name())
        number = _number_in(folder)
        known: list[Reader] = []
        with suppress(StoreFailed):  # a user who may read the store alone
            known = readers.readers_of(log, log.id) or []
        behind = seconds_since(log, log.id, {number or 0, *(each.number for each in known)})
        copies = tuple(
            Copy(each.process, each.number, *_lag(figures, each.number, behind), is_open=not each.is_closed)
            for each in known
        )
        machine = readers.process_name().rpartition(":")[0]
        here_open = [
            each.process for each in known if not each.is_closed and each.process.rpartition(":")[0] == machine
        ]
        here = (
            None
            if number is None
            else Copy("".join(here_open[:1]), number, *_lag(figures, number, behind), is_open=bool(here_open))
        )
        return Status(
            log.address.shown, figures, here, copies, standbys_of(log), *snapshot_age(folder, figures.commits)
        )


def _lag(figures: LogFigures, number: int, behind: dict[int, float]) -> tuple[int, float]:
    return max(0, figures.commits - number), behind.get(number, 0.0)


def _number_in(folder: Path) -> int | None:
    """Return the number of the last record in this machine's copy of the log, None if there is none."""
    with suppress(StoreFailed, OSError), closing(SqliteHome(folder / sqlite.NAME, is_read_only=True)) as copy:
        return copy.head().number
    return None


def snapshot_age(folder: Path, commits: int) -> tuple[int | None, float | None]:
    """Return how old the newest snapshot of an index in a folder is, in commits and in seconds; None if there is none."""
    with suppress(OSError):
        for snapshot in IndexFolder(folder).snapshots()[:1]:
            return max(0, commits - snapshot.mark.number), max(0.0, time.time() - snapshot.folder.stat().st_mtime)
    return None, None


def in_words(status: Status) -> dict[str, str]:
    """Return the figures as people read them, by name."""
    log, here = status.log, status.here
    last = "" if log.logged is None else f", the last at {log.logged.isoformat(timespec='seconds')}"
    said = {
        "store": status.location,
        "server": "a standby, which only reads" if log.is_standby else "writes",
        "commits": f"{log.commits:,}{last}",
        "this machine": "has no copy yet" if here is None else _behind(here),
        "snapshot": "none here"
        if status.snapshot_seconds is None
        else (f"{status.snapshot_commits:,} commits and {status.snapshot_seconds:,.0f} s old"),
        "waiting": f"{log.waiting:,} for a commit, the oldest transaction {log.oldest_seconds:,.1f} s old",
        "size": f"{log.bytes >> 20:,} MiB for all stores of the database",
    }
    if log.replayed_seconds is not None:
        said["replayed"] = f"the newest transaction here is {log.replayed_seconds:,.1f} s old"
    if log.due:
        said["erasure"] = f"what commit {log.due:,} erased is still in the log: `trails doctor` says what to do"
    for number, standby in enumerate(status.standbys, 1):
        lag = "unknown" if standby.lag_seconds is None else f"{standby.lag_seconds:,.1f} s"
        said[f"standby {number}"] = f"{standby.name}: {standby.state}, {standby.sync}, lag {lag}"
    for number, reader in enumerate(status.readers, 1):
        said[f"reader {number}"] = f"{reader.process} ({'open' if reader.is_open else 'closed'}): {_behind(reader)}"
    return said


def _behind(copy: Copy) -> str:
    if not copy.lag_commits:
        return f"has all {copy.commits:,} commits"
    return f"lacks {copy.lag_commits:,} commits, the first for {copy.lag_seconds:,.1f} s"
