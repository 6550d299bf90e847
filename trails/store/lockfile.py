"""One owning process: an advisory lock on a file of our own, with a note of who holds it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from errno import EBADF, EINVAL, ENOLCK, ENOSYS, ENOTSUP
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Final

from trails.errors import StoreLocked
from trails.files import open_own
from trails.store.position import boot_id

_NO_LOCKS: Final = frozenset({EBADF, EINVAL, ENOLCK, ENOSYS, ENOTSUP})
"""What file systems say that cannot lock a folder, as some networked ones; the lock on the file is all there is then."""
_ASKED: Final = 0.005
"""Seconds for which a reader may have the lock that asks who has it; what a writer waits for in any case."""
_LONGEST: Final = 0.1
"""Seconds between two attempts of a writer that waits, at most."""


class LockFile:
    """An exclusive lock that the operating system drops when the process ends, however it ends.

    The file may be deleted, and another one made in its place, while the lock is held: so the folder is locked too, which
    cannot be replaced unnoticed.
    """

    def __init__(self, path: Path, timeout: float = 0.0) -> None:
        """Take the lock, waiting up to `timeout` seconds for its holder, or raise `StoreLocked`, which names the holder."""
        self._descriptors = _locked_for_good(path, timeout)
        written = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "boot": boot_id(),
            "since": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        os.ftruncate(self._descriptors[0], 0)
        os.pwrite(self._descriptors[0], json.dumps(written).encode(), 0)

    def release(self) -> None:
        """Give the lock up; doing it twice is allowed."""
        while self._descriptors:
            os.close(self._descriptors.pop())


def _locked_for_good(path: Path, timeout: float) -> list[int]:
    """Lock a file and its folder, waiting for their holder; a reader that only asks (`is_held`) is waited for in any case."""
    end, pause = monotonic() + max(timeout, _ASKED), _ASKED
    while True:
        left = end - monotonic()
        try:
            return _locked(path, os.O_RDWR | os.O_CREAT, fcntl.LOCK_EX)
        except StoreLocked as locked:
            if left <= 0:
                if timeout < 1:
                    raise
                raise StoreLocked(f"{locked} (it was waited for, {timeout:g} s)") from locked.__cause__
        sleep(min(pause, left))
        pause = min(2 * pause, _LONGEST)


def _locked(path: Path, flags: int, kind: int) -> list[int]:
    """Lock a file, where it is there or is made, and its folder; return their descriptors, or raise `StoreLocked`."""
    held: list[int] = []
    try:
        held += _locked_file(path, flags, kind)
        held.append(os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        try:
            fcntl.flock(held[-1], kind | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
    except BaseException as error:  # an interrupt too: what is open holds the lock
        for descriptor in held:
            os.close(descriptor)
        if not isinstance(error, BlockingIOError):
            raise
        raise StoreLocked(
            f"the store {path.parent} is in use by {describe_holder(path)}; close it there first, or wait until that "
            "process ends"
        ) from error
    return held


def _locked_file(path: Path, flags: int, kind: int) -> list[int]:
    """Lock the file that stands at a path, and return its descriptor; nothing where there is none."""
    while True:
        try:
            descriptor = open_own(path, flags)
        except FileNotFoundError:
            return []
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), path.stat()):
                    return [descriptor]
        except BaseException:  # as above
            os.close(descriptor)
            raise
        os.close(descriptor)  # it was deleted or replaced before it was locked: take the one that is there now


@contextlib.contextmanager
def unlocked(path: Path) -> Iterator[None]:
    """Keep a lock file from being taken, without taking it; raise `StoreLocked` where it is taken.

    The file is not written to, and where there is none, none is made: a backup may stand on a medium that is read only.
    """
    held = _locked(path, os.O_RDONLY, fcntl.LOCK_SH)
    try:
        yield
    finally:
        for descriptor in held:
            os.close(descriptor)


def note(path: Path) -> dict[str, Any] | None:
    """Return what whoever locked the file last wrote into it; empty where that cannot be read, None where there is no file."""
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def may_live(path: Path) -> bool:
    """Tell whether the process that locked the file last may still be there: True wherever that cannot be told."""
    pid = (note(path) or {}).get("pid")
    try:
        os.kill(int(pid or 0) or os.getpid(), 0)
    except ProcessLookupError:
        return False
    except (OSError, ValueError, TypeError):
        return True
    return True


def is_held(path: Path) -> bool:
    """Tell whether somebody holds the lock of a file, wherever that process runs: True where it cannot be told.

    For a moment the lock is shared: whoever takes it just then tries again.
    """
    try:
        held = _locked(path, os.O_RDONLY, fcntl.LOCK_SH)
    except (StoreLocked, OSError):
        return True
    for descriptor in held:
        os.close(descriptor)
    return False


def describe_holder(path: Path) -> str:
    """Return who wrote the lock file last, in words."""
    found = note(path) or {}
    with contextlib.suppress(KeyError):
        here = " (this process)" if found["pid"] == os.getpid() and found["host"] == socket.gethostname() else ""
        return f"process {found['pid']}{here} on host {found['host']} since {found['since']}"
    return "another process"
