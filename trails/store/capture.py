"""A copy of the engine's files as they were at one moment, made beside a process that goes on writing them.

A commit is one record of the engine's log, which the system has before the commit is acknowledged. A log file is dropped,
or used again, only after the flush that replaces it stands in the engine's list of its files (`MANIFEST-*`); so while that
list is as it was, no log that is needed was touched. A newer log is begun only once the older one is complete, so the logs
that were there before any was copied are a prefix of what was written. Checksums and log numbers cut off what is torn. The
list itself is never changed in place, only made longer or replaced. Nothing of the owner's is written, locked or renamed.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from errno import ENOENT, ESTALE
from pathlib import Path
from typing import Final, Protocol

from trails.errors import StoreFailed
from trails.store import manifest, staging

_DESCRIPTORS: Final = Path("/proc/self/fd")
_TABLES: Final = (".sst", ".blob")
_CHUNK: Final = 1 << 20
_TRIES: Final = 20
"""How often a copy is made in one way, where the engine changes its list of files meanwhile."""
_PREFIX: Final = "trails-view-"
_SUFFIX: Final = ".trails-view"
_RANDOM: Final = "[a-z0-9_]{8}"
"""What `tempfile` puts into a name."""
_FILES: Final = re.compile(r"CURRENT|LOCK|IDENTITY|LOG|(MANIFEST|OPTIONS)-\d+|\d+\.(sst|blob|log)")
"""What is in the folder of a copy: one that holds anything else is somebody else's, whatever its name."""


class Moved(Exception):
    """The owner changed its files meanwhile: what was copied may not be of one moment."""


# --- where a copy is kept


class Keeper(Protocol):
    """Where the files of a copy are kept; its `folder` is what the engine is given."""

    folder: Path

    def table(self, name: str, engine_folder: int) -> None:
        """Keep a file that is never changed once it is there."""
        ...

    def small(self, name: str, data: bytes) -> None:
        """Keep some bytes as a file."""
        ...

    def drop(self) -> None:
        """Give up everything; twice is allowed."""
        ...


class _Private:
    """A folder for this process alone: locked as long as it lives, so that others see when it was left behind."""

    def __init__(self, parent: Path, prefix: str, suffix: str) -> None:
        self._pid = os.getpid()
        while True:
            self.folder = Path(tempfile.mkdtemp(prefix=prefix, suffix=suffix, dir=parent))
            try:
                descriptor = staging.held(self.folder, without_locks=True)
            except BaseException:
                self.folder.rmdir()
                raise
            if descriptor is not None:
                break
            with suppress(OSError):  # another reader took it for one that was left behind
                self.folder.rmdir()
        self._lock = descriptor
        self._names: list[str] = []
        """What is in the folder: it can be removed without a descriptor, of which there may be none left."""

    def drop(self) -> None:
        """Remove the folder, unless it is the parent process's, and let go of it."""
        descriptor, self._lock = self._lock, -1
        if descriptor >= 0:
            if os.getpid() == self._pid:
                self._remove()
            os.close(descriptor)

    def _remove(self) -> None:
        for name in self._names:
            with suppress(OSError):
                (self.folder / name).unlink()
        try:
            self.folder.rmdir()
        except OSError:  # the engine may have put something there
            shutil.rmtree(self.folder, ignore_errors=True)


class Held(_Private):
    """Descriptors: tables as the owner has them, logs in memory. No byte of the store gets another name on any disk."""

    def __init__(self) -> None:
        """Make the private folder, which will have links to this process's descriptors and nothing else."""
        self._open: list[int] = []
        self._names_of = Path(f"/proc/{os.getpid()}/fd")
        _clear(Path(tempfile.gettempdir()), re.compile(f"{_PREFIX}{_RANDOM}"))
        super().__init__(Path(tempfile.gettempdir()), _PREFIX, "")

    def table(self, name: str, engine_folder: int) -> None:
        """Hold a table open: it can be read as long as that, also once it has no name any more."""
        self._open.append(os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=engine_folder))
        self._link(name, self._open[-1])

    def small(self, name: str, data: bytes) -> None:
        """Put bytes into a file that is in memory alone."""
        self._open.append(os.memfd_create(name, os.MFD_CLOEXEC))  # type: ignore[attr-defined,unused-ignore] # Linux
        _write(self._open[-1], data)
        self._link(name, self._open[-1])

    def _link(self, name: str, descriptor: int) -> None:
        self._names.append(name)
        (self.folder / name).symlink_to(self._names_of / str(descriptor))

    def drop(self) -> None:
        """Close everything, and that first: removing the folder takes a descriptor or two, and there may be no other."""
        while self._open:
            os.close(self._open.pop())
        super().drop()


class Linked(_Private):
    """Hard links beside the store, where descriptors have no names, or too few may be open; logs are copied."""

    def __init__(self, store: Path) -> None:
        """Make the folder beside the store."""
        clear_beside(store)
        super().__init__(store.parent, f".{store.name}.{os.getpid()}.", _SUFFIX)

    def table(self, name: str, engine_folder: int) -> None:
        """Give a table a second name; raises OSError where the system does not let us."""
        self._names.append(name)
        os.link(name, self.folder / name, src_dir_fd=engine_folder, follow_symlinks=False)

    def small(self, name: str, data: bytes) -> None:
        """Write a file."""
        self._names.append(name)
        descriptor = os.open(self.folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            _write(descriptor, data)
        finally:
            os.close(descriptor)


class Copied(Linked):
    """Copies beside the store, where it cannot be linked to either."""

    def table(self, name: str, engine_folder: int) -> None:
        """Copy a table; raises `StoreFailed` where there is no space for it."""
        self._names.append(name)
        source = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=engine_folder)
        try:
            size, free = os.fstat(source).st_size, shutil.disk_usage(self.folder).free
            if size > free // 2:
                raise StoreFailed(
                    f"{self.folder.parent} has {free:,} bytes free, too few for the copy of a table of {size:,} bytes that "
                    "reading beside the owner takes on this system; free some, or close the store where it is open"
                )
            with open(source, "rb", closefd=False) as data, (self.folder / name).open("xb") as out:
                shutil.copyfileobj(data, out, _CHUNK)
        finally:
            os.close(source)


def keepers(store: Path, tables: int) -> list[Callable[[], Keeper]]:
    """Return the ways to keep a copy of a store with so many tables, the best first; the next ones are for where it fails."""
    ways: list[Callable[[], Keeper]] = [lambda: Linked(store), lambda: Copied(store)]
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = soft == resource.RLIM_INFINITY or 4 * tables <= soft
    return [Held, *ways] if few and can_hold() else ways


def captured(folder: Path, store: Path) -> Keeper | None:
    """Return a copy of the engine's files in a folder, which this process has open; None where there is no place for one.

    It has all that the engine was given before. Where files are held, other processes of this user read them, too.
    """
    with suppress(OSError):
        top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            for way in keepers(store, count_tables(top)):
                for _ in range(_TRIES):
                    if (keeper := _tried(top, way)) is not None:
                        return keeper
        finally:
            os.close(top)
    return None


def _tried(top: int, way: Callable[[], Keeper]) -> Keeper | None:
    keeper: Keeper | None = None
    is_kept = False
    try:
        keeper = way()
        is_kept = is_unchanged(top, copy(top, keeper))
    except (OSError, Moved, StoreFailed):
        return None
    finally:
        if keeper is not None and not is_kept:
            keeper.drop()
    return keeper if is_kept else None


def can_hold() -> bool:
    """Tell whether descriptors have names here, and files can be in memory alone: as on Linux."""
    return sys.platform == "linux" and hasattr(os, "memfd_create") and _DESCRIPTORS.is_dir()


def clear_beside(store: Path) -> list[Path]:
    """Remove links to a store, and copies of it, that readers who were killed have left beside it; return living readers'."""
    return _clear(store.parent, _name_beside(store))


def readers_beside(store: Path) -> list[Path]:
    """Return the folders beside a store in which readers keep links to it or copies: text that stays until they end."""
    return _folders(store.parent, _name_beside(store))


def _name_beside(store: Path) -> re.Pattern[str]:
    return re.compile(rf"\.{re.escape(store.name)}\.\d+\.{_RANDOM}{re.escape(_SUFFIX)}")


def _folders(parent: Path, name: re.Pattern[str]) -> list[Path]:
    """Return this user's folders with such a name that hold what copies hold, and nothing else."""
    with os.scandir(parent) as entries:
        named = [Path(entry) for entry in entries if name.fullmatch(entry.name)]
    return sorted(each for each in named if _is_copy(each))


def _is_copy(folder: Path) -> bool:
    try:
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            return False
        with os.scandir(folder) as entries:
            return all(_FILES.fullmatch(entry.name) and not entry.is_dir(follow_symlinks=False) for entry in entries)
    except OSError:  # it is just being removed
        return False


def _clear(parent: Path, name: re.Pattern[str]) -> list[Path]:
    """Remove folders of readers who were killed, which nobody holds the lock of, and return those of living ones."""
    living = []
    for folder in _folders(parent, name):
        descriptor = staging.held(folder)
        if descriptor is None:
            living.append(folder)
            continue
        try:
            with suppress(OSError):
                for each in list(folder.iterdir()):
                    each.unlink()
                folder.rmdir()
        finally:
            os.close(descriptor)
    return living


# --- copying


@dataclass(frozen=True, slots=True)
class Seen:
    """What must be as it was once everything is copied."""

    current: bytes
    manifest: os.stat_result
    size: int


def count_tables(engine_folder: int) -> int:
    """Return how many tables the engine has now."""
    return sum(name.endswith(_TABLES) for name in names(engine_folder))


def copy(engine_folder: int, keeper: Keeper, whole: Path | None = None) -> Seen:
    """Copy the engine's files as they are; to be believed once `is_unchanged` says so of what this returns.

    `whole` is the folder's path where nobody has the store open: a power cut may have left a torn end of the list then.
    Raises `Moved` where a file went away meanwhile.
    """
    try:
        current = read(engine_folder, "CURRENT")
        listed, data = copy_list(engine_folder, current)
        keeper.small("CURRENT", current)
        keeper.small(_name(current), data if whole is None else manifest.whole(data, whole / _name(current)))
        copy_files(engine_folder, keeper, names(engine_folder))  # only now: a list of files from before may lack some
    except OSError as error:
        if error.errno in (ENOENT, ESTALE):
            raise Moved from error
        raise
    return Seen(current, listed, len(data))


def copy_list(engine_folder: int, current: bytes) -> tuple[os.stat_result, bytes]:
    """Return which file the engine's list of files is, and what it says."""
    descriptor = os.open(_name(current), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=engine_folder)
    try:
        return os.fstat(descriptor), _all(descriptor)
    finally:
        os.close(descriptor)


def names(engine_folder: int) -> list[str]:
    """Return the names of the engine's files."""
    return os.listdir(engine_folder)


def copy_files(engine_folder: int, keeper: Keeper, listed: list[str]) -> None:
    """Keep the tables and the logs of those that were listed. The engine's LOCK is never opened: closing it would free it."""
    for name in listed:
        if name.endswith(_TABLES):
            keeper.table(name, engine_folder)
    for name in listed:
        if name.endswith(".log"):
            keeper.small(name, read(engine_folder, name))


def is_unchanged(engine_folder: int, seen: Seen) -> bool:
    """Tell whether the engine's list of files is the one that was copied."""
    try:
        if read(engine_folder, "CURRENT") != seen.current:
            return False
        now = os.stat(_name(seen.current), dir_fd=engine_folder, follow_symlinks=False)
    except OSError:
        return False
    return os.path.samestat(now, seen.manifest) and now.st_size == seen.size


def read(engine_folder: int, name: str) -> bytes:
    """Return all bytes of one of the engine's files."""
    descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=engine_folder)
    try:
        return _all(descriptor)
    finally:
        os.close(descriptor)


def _name(current: bytes) -> str:
    """Return the name of the list that CURRENT says; raise `Moved` where it says none."""
    name = current.decode("ascii", "replace").strip()
    if not name.startswith("MANIFEST-") or "/" in name:
        raise Moved
    return name


def _all(descriptor: int) -> bytes:
    parts = []
    while part := os.read(descriptor, _CHUNK):
        parts.append(part)
    return b"".join(parts)


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
