"""The files of a store: copying them out and in, and what a vacuum tells.

A store's folder holds `trails.db` (the log, in SQLite), `index` (what is derived from it, which can be deleted at any time) and
`locks`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from trails.errors import InvalidInput
from trails.store.log import sqlite
from trails.store.log.sqlite import SqliteHome
from trails.store.log.staging import exchange, scratch
from trails.store.log.syncing import sync_folder


@dataclass(frozen=True, slots=True)
class Behind:
    """An index of another process whose files may still hold what a vacuum took out of the store."""

    process: str
    """The machine and the number of the process that has it, or had it last."""
    index: str
    """The name of its folder in the cache of that machine."""
    is_closed: bool
    heard: datetime | None
    """When its process was last heard from, by the server's clock."""

    def __str__(self) -> str:
        state = "closed" if self.is_closed else "open"
        heard = "" if self.heard is None else f", last heard from at {self.heard.isoformat(timespec='seconds')}"
        return f"{self.process} (index {self.index}, {state}{heard})"

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, ready for JSON."""
        return {**asdict(self), "heard": None if self.heard is None else self.heard.isoformat()}


@dataclass(frozen=True, slots=True)
class Vacuumed:
    """What `vacuum` did: the number of quads, and the bytes of the store's files before and after.

    `behind` are the indexes of other processes of a store in PostgreSQL that have not caught up with it.
    """

    quads: int
    bytes_before: int
    bytes_after: int
    behind: tuple[Behind, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, ready for JSON."""
        return {**asdict(self), "behind": [each.to_dict() for each in self.behind]}


# --- copying


@contextmanager
def staged(destination: Path, *, over_empty_store: bool = False) -> Iterator[Path]:
    """Give a new folder that takes its place once it is whole: all of it appears there and on disk, or nothing.

    Raises `InvalidInput` where something stands there already: an empty folder may, and with `over_empty_store` a store
    that holds nothing does, and is replaced.
    """
    destination = destination.resolve()  # a link stays, and what it names is made
    put: Callable[[Path], None] = partial(replace_empty if over_empty_store else _put_at, destination)
    if over_empty_store:
        pass
    elif destination.exists() and not (destination.is_dir() and not any(destination.iterdir())):
        raise InvalidInput(f"{destination} is there already; name a place where nothing is, or an empty folder")
    with scratch(destination) as folder:
        part = folder / "store"
        part.mkdir(mode=0o700)
        yield part
        put(part)


def _put_at(destination: Path, part: Path) -> None:
    sync_tree(part)
    part.rename(destination)
    sync_folder(destination.parent)


def replace_empty(store: Path, part: Path) -> None:
    """Put a whole store in the place of one that is empty; nobody can have written to that meanwhile.

    They change places in one step, so that a kill leaves one or the other. Only if the system cannot do that, a kill between
    two steps may leave an empty folder. Raises `InvalidInput` if the store is not empty: both are left as they are.
    """
    sync_tree(part)
    with contextlib.closing(SqliteHome(store / sqlite.NAME)) as home:
        head, _ = home.lock(0, 0)
        try:
            if head.number:
                raise InvalidInput(f"the store {store} is not empty any more; nothing was put in its place")
            if not exchange(part, store):
                for entry in store.iterdir():
                    shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
                part.rename(store)  # over a folder that is empty
            sync_folder(store.parent)
        finally:
            home.let_go()


def refuse_inside(folder: Path, destination: Path) -> None:
    """Raise `InvalidInput` for a place within a store's own folder."""
    if destination.resolve().is_relative_to(folder.resolve()):
        raise InvalidInput(f"{destination} is inside the store {folder}; name a place outside of it")


def copy_store(source: Path, part: Path) -> None:
    """Copy the log of a store, or of a backup, into a new folder; raise `InvalidInput` for a folder that is no store."""
    if not (source / sqlite.NAME).is_file():
        raise InvalidInput(f"{source} is no store and no backup of one: {sqlite.NAME} is missing")
    with contextlib.closing(SqliteHome(source / sqlite.NAME, is_read_only=True)) as home:
        home.backup(part / sqlite.NAME)


def sync_tree(folder: Path) -> None:
    """Return once everything in a folder is on disk."""
    for entry in folder.iterdir():
        if entry.is_dir():
            sync_tree(entry)
        else:
            descriptor = os.open(entry, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
    sync_folder(folder)


def size_of(folder: Path) -> int:
    """Return the bytes of all files in a folder, each once; what the engine drops meanwhile counts for nothing."""
    sizes: dict[tuple[int, int], int] = {}
    for parent, _, names in os.walk(folder):  # which passes over what is gone
        for name in names:
            with suppress(FileNotFoundError):
                if stat.S_ISREG((found := Path(parent, name).stat()).st_mode):
                    sizes[found.st_dev, found.st_ino] = found.st_size
    return sum(sizes.values())
