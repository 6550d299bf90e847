"""The files of a store on disk: rebuilding them, putting right what a crash left, copying them out and in.

A store's folder holds `trails.json` (its format), `lock` (ours), `log` (its leaves), `commits` (the commit
log: what the engine has not flushed yet), `position` (how far its owner has come) and `quads` (the engine's files);
while what was is read, `past` (copies of those).
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyoxigraph as ox

from trails.errors import InvalidInput, StoreFailed
from trails.files import link_refused
from trails.store import engines, marker
from trails.store.lockfile import LockFile, unlocked
from trails.store.staging import exchange, scratch
from trails.store.syncing import sync_folder

QUADS: Final = "quads"
LOG: Final = "log"
COMMITS: Final = "commits"
LOCK: Final = "lock"
POSITION: Final = "position"
INDEX: Final = "index"
"""What is derived from the rest: in no backup."""
PACKS: Final = "packs"
ERASED: Final = "erased"
"""A mark in the folder of what is derived: others took text out of the store, and it is to be taken out there."""
_NEW: Final = "quads.new"
_OLD: Final = "quads.old"
STAGE: Final = "backup.new"
PAST: Final = "past"
"""Copies of the engine's files out of which their owner reads what was (`trails.store.frozen`); gone when it closes."""
_NOT_COPIED: Final = frozenset({LOCK, POSITION, INDEX, "LOCK", f"{marker.NAME}.new", _NEW, _OLD, STAGE, PAST})
"""What is no part of a store's data: locks (opening the engine's own would free it), and what a crash left."""


def doubt_derived(folder: Path) -> None:
    """Remove the packs beside an index's files, and mark what else is derived from it: others took text out of the store."""
    derived = folder / INDEX
    shutil.rmtree(derived / PACKS, ignore_errors=True)
    with suppress(OSError):  # nothing is derived yet, or nobody may write there
        (derived / ERASED).touch()


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


# --- rebuilding


def rebuild(engine: ox.Store, folder: Path) -> int:
    """Write all quads of an engine into new files beside its own, on disk when this returns; return how many.

    Only what is there is written: nothing that was deleted or redacted. Raises `StoreFailed` where the copy does not
    hold as many quads; the store is as it was then.
    """
    new = folder / _NEW
    engines.wait_until_gone(new)
    shutil.rmtree(new, ignore_errors=True)
    if (folder / _OLD).exists():  # what an interrupt left of the last time
        drop_old(folder)
    try:
        new.mkdir(mode=0o700)
        count = _copy_quads(engine, new)
        if count != len(engine):
            raise StoreFailed(
                f"{folder} was rebuilt with {count} quads instead of {len(engine)}; it was left as it was"
            )
        sync_tree(new)
    except BaseException:  # an interrupt too: it takes as much space as the store
        shutil.rmtree(new, ignore_errors=True)
        raise
    return count


def _copy_quads(engine: ox.Store, new: Path) -> int:
    copy = ox.Store(str(new))
    copy.bulk_extend(engine.quads_for_pattern(None, None, None, None))
    copy.flush()
    count = len(copy)
    del copy
    engines.see_out(new)
    keep_private(new)
    return count


def swap(folder: Path) -> None:
    """Put the rebuilt files in the place of the old ones, which stay beside them. Nobody may have either open."""
    (folder / QUADS).rename(folder / _OLD)
    sync_folder(folder)
    (folder / _NEW).rename(folder / QUADS)
    sync_folder(folder)


def drop_old(folder: Path) -> None:
    """Delete the files that were replaced; raise `StoreFailed` where the disk refuses."""
    try:
        shutil.rmtree(folder / _OLD)
        sync_folder(folder)
    except OSError as error:
        raise StoreFailed(
            f"{folder / _OLD}, which still holds what was deleted, cannot be removed ({error}); remove it by hand"
        ) from error


def recover(folder: Path) -> None:
    """Finish or undo what a crash left half done, and raise `StoreFailed` where the engine's files are not all there.

    The rebuilt files count only from the moment when the old ones are out of the way: until then they may be in parts.
    """
    quads, new, old = folder / QUADS, folder / _NEW, folder / _OLD
    refuse_links(folder)
    if not quads.is_dir() and old.is_dir():
        (new if new.is_dir() else old).rename(quads)
        sync_folder(folder)
    for path in left_over(folder):
        shutil.rmtree(path)
        sync_folder(folder)
    refuse_missing(folder)


def refuse_links(folder: Path) -> None:
    """Raise `StoreFailed` where anything in a store's folder, or in its index, is a link."""
    for place in (folder, folder / INDEX):
        with suppress(OSError), os.scandir(place) as entries:  # what is missing or no folder, others tell
            linked = sorted(entry.name for entry in entries if entry.is_symlink())
            if linked:
                raise StoreFailed(link_refused(place / linked[0]))


def refuse_missing(folder: Path) -> None:
    """Raise `StoreFailed` where the engine's files are not all there."""
    trouble = missing_files(folder)
    if trouble:
        raise StoreFailed(f"the store {folder} cannot be opened: {trouble}; restore a backup")


def left_over(folder: Path) -> list[Path]:
    """Return what a vacuum, a backup or a look back that was cut short has left in a store's folder."""
    return [path for path in (folder / _NEW, folder / _OLD, folder / STAGE, folder / PAST) if path.exists()]


def missing_files(folder: Path) -> str | None:
    """Return what is missing of the engine's files, or None: over such a folder the engine would begin an empty store."""
    quads = folder / QUADS
    if not quads.is_dir():
        return f"its folder {QUADS!r} is missing"
    if not (quads / "CURRENT").exists() and any(file.suffix in (".sst", ".log") for file in quads.iterdir()):
        return f"the file CURRENT is missing in its folder {QUADS!r}"
    return None


def is_empty(folder: Path) -> bool:
    """Tell whether a store holds no quads. The caller holds its lock: beside a writer, nothing that is read is sure."""
    return next(iter(ox.Store.read_only(str(folder / QUADS))), None) is None


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
    """Put a whole store in the place of one that is empty; nobody can have opened that and written to it meanwhile.

    They change places in one step, so that a kill leaves one or the other. Only where the system cannot do that, a kill
    between two steps may leave an empty folder. Raises `InvalidInput` where the store is not empty, `StoreLocked` where it
    is open: both are left as they are.
    """
    sync_tree(part)
    lock = LockFile(store / LOCK)
    try:
        if not is_empty(store):
            raise InvalidInput(f"the store {store} is not empty any more; nothing was put in its place")
        if not exchange(part, store):
            for entry in store.iterdir():
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
            part.rename(store)  # over a folder that is empty
        sync_folder(store.parent)
    finally:
        lock.release()


def refuse_inside(folder: Path, destination: Path) -> None:
    """Raise `InvalidInput` for a place within a store's own folder."""
    if destination.resolve().is_relative_to(folder.resolve()):
        raise InvalidInput(f"{destination} is inside the store {folder}; name a place outside of it")


def stage_for(folder: Path, part: Path) -> Path:
    """Return where the engine should put its copy: in `part` if that is on the store's own device.

    There the engine links its files, in a moment; to another device it would copy them, and keep every writer waiting.
    """
    if folder.stat().st_dev == part.stat().st_dev:
        return part / QUADS
    stage = folder / STAGE
    shutil.rmtree(stage, ignore_errors=True)
    return stage


def finish_backup(part: Path, stage: Path, *, note: bytes, log: bytes) -> None:
    """Put the rest of a backup beside the engine's copy."""
    if stage != part / QUADS:
        shutil.copytree(stage, part / QUADS)
        shutil.rmtree(stage)
    (part / QUADS).chmod(0o700)
    keep_private(part / QUADS)
    for name, data in ((LOG, log), (marker.NAME, note)):
        descriptor = os.open(part / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)


def copy_store(source: Path, part: Path, *, locked: bool = False) -> None:
    """Copy the files of a store that nobody has open (a backup, for one) into a new folder.

    `locked` says that the caller holds its lock. Raises `InvalidInput` for a folder that is no store, `StoreLocked` for
    one that is open somewhere: a copy of that could not be opened.
    """
    if not (source / marker.NAME).is_file():
        raise InvalidInput(f"{source} is no store and no backup of one: {marker.NAME} is missing")
    with nullcontext() if locked else unlocked(source / LOCK):
        for entry in sorted(source.iterdir()):
            if entry.name in _NOT_COPIED:
                continue
            if entry.is_dir():
                ignore = shutil.ignore_patterns("LOCK")
                shutil.copytree(entry, part / entry.name, ignore=ignore)
            else:
                shutil.copy2(entry, part / entry.name)
    for folder in (part, *filter(Path.is_dir, part.iterdir())):
        folder.chmod(0o700)
        keep_private(folder)


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
    for file in folder.rglob("*"):
        with suppress(FileNotFoundError):
            if stat.S_ISREG((found := file.stat()).st_mode):
                sizes[found.st_dev, found.st_ino] = found.st_size
    return sum(sizes.values())


def keep_private(folder: Path) -> None:
    """Take the files of a folder away from everybody but their owner; the engine makes them as the process's umask says."""
    for entry in os.scandir(folder):
        with suppress(FileNotFoundError):  # the engine drops files as it goes
            if entry.is_file() and entry.stat().st_mode & 0o077:
                Path(entry.path).chmod(0o600)
