"""Folders in which something is made before it takes its place: held by the process that makes it, cleared after its death.

They stand beside the place that they are for, and their names end in `.trails-part`. While its process lives, the
operating system holds a lock on each; what nobody holds was left by a process that was killed, and goes with the next
command that makes something beside it. `trails doctor` names it.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EAGAIN, ENOENT, EWOULDBLOCK
from pathlib import Path
from typing import Final

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
    return [path for path, descriptor in _left(folder) if _closed(descriptor)]


def clear_abandoned(folder: Path) -> list[Path]:
    """Remove what processes that were killed have left in a folder, and return it; never what a living one makes."""
    found = []
    for path, descriptor in _left(folder):
        try:
            shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(descriptor)
        found.append(path)
    return found


def _left(folder: Path) -> Iterator[tuple[Path, int]]:
    for path in sorted(folder.glob(f".*{SUFFIX}")):
        descriptor = held(path)
        if descriptor is not None:
            yield path, descriptor


def _closed(descriptor: int) -> bool:
    os.close(descriptor)
    return True


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
