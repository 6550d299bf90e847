"""The files of a store: copying them out and in, and what a vacuum tells.

A store's folder holds `trails.db` (the log, in SQLite), `index` (what is derived from it, which can be deleted at any time) and
`locks`.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from errno import EAGAIN, ENOENT, EWOULDBLOCK
from functools import partial
from pathlib import Path
from typing import Any, Final

from trails.errors import InvalidInput
from trails.files import sync_folder
from trails.store.log import sqlite
from trails.store.log.sqlite import SqliteHome

SUFFIX: Final = ".trails-part"
_EXCHANGE: Final = 2
"""RENAME_EXCHANGE of Linux, and RENAME_SWAP of macOS."""
_HERE: Final = -100
"""AT_FDCWD of Linux: paths are taken as they stand."""


@contextmanager
def scratch(place: Path) -> Iterator[Path]:
    """Give a new private folder beside a place, which is gone afterwards, and clear those of processes that were killed."""
    place.parent.mkdir(parents=True, exist_ok=True)
    clear_abandoned(place.parent)
    folder, descriptor = _made(place)
    try:
        yield folder
    finally:
        _remove(folder)
        os.close(descriptor)


def _remove(folder: Path) -> None:
    """Remove a folder, at the second attempt where the disk failed once: nobody else would before the next command here."""
    for _ in range(2):
        with suppress(OSError):  # what `fstat` says is not ignored there
            shutil.rmtree(folder, ignore_errors=True)


def _made(place: Path) -> tuple[Path, int]:
    """Make a folder and take its lock; another process may find it in between, and clear it."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=f".{place.name}.", suffix=SUFFIX, dir=place.parent))
        descriptor = held(folder, without_locks=True)
        if descriptor is not None:
            return folder, descriptor
        _remove(folder)


def held(folder: Path, *, without_locks: bool = False) -> int | None:
    """Take the lock of a folder and return its descriptor, or None where another has it or the folder is gone.

    `without_locks` says whether it counts as held where the file system has no locks: there, nothing is ever cleared.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), folder.stat()):
            return descriptor
    except OSError as error:
        if without_locks and error.errno not in (EAGAIN, EWOULDBLOCK, ENOENT):
            return descriptor
    os.close(descriptor)
    return None


def abandoned(folder: Path) -> list[Path]:
    """Return what processes that were killed have left in a folder: whole or half copies of stores, and dumps."""
    return list(_left(folder))


def clear_abandoned(folder: Path) -> list[Path]:
    """Remove what processes that were killed have left in a folder, and return it; never what a living one makes."""
    found = []
    for path in _left(folder):
        shutil.rmtree(path, ignore_errors=True)
        found.append(path)
    return found


def _left(folder: Path) -> Iterator[Path]:
    return each_abandoned(sorted(folder.glob(f".*{SUFFIX}")), held)


def each_abandoned(paths: Iterable[Path], hold: Callable[[Path], int | None]) -> Iterator[Path]:
    """Yield the paths whose process is gone, each locked meanwhile; `hold` locks one and returns the descriptor, or None."""
    for path in paths:
        descriptor = hold(path)
        if descriptor is not None:
            try:
                yield path
            finally:
                os.close(descriptor)


def exchange(one: Path, other: Path) -> bool:
    """Let two folders change places in one step: no moment has only one. Return False where the system cannot."""
    libc = ctypes.CDLL(None, use_errno=True)
    if sys.platform == "darwin":
        swap = getattr(libc, "renamex_np", None)
        done = swap is not None and swap(os.fsencode(one), os.fsencode(other), _EXCHANGE) == 0
    else:
        swap = getattr(libc, "renameat2", None)
        done = swap is not None and swap(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0
    return bool(done)


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
