"""One owning process: an advisory lock on a file of our own, with a note of who holds it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from trails.errors import StoreLocked


class LockFile:
    """An exclusive lock that the operating system drops when the process ends, however it ends."""

    def __init__(self, path: Path) -> None:
        """Take the lock, or raise `StoreLocked` with the holder's process id, host and start time."""
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = describe_holder(path)
            os.close(self._descriptor)
            raise StoreLocked(
                f"the store {path.parent} is in use by {holder}; close it there first, or wait until that process ends"
            ) from error
        note = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "since": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, json.dumps(note).encode(), 0)

    def release(self) -> None:
        """Give the lock up; doing it twice is allowed."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


@contextlib.contextmanager
def unlocked(path: Path) -> Iterator[None]:
    """Keep a lock file from being taken, without taking it; raise `StoreLocked` where it is taken.

    The file is not written to, and where there is none, none is made: a backup may stand on a medium that is read only.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as error:
            raise StoreLocked(
                f"the store {path.parent} is in use by {describe_holder(path)}; close it there first, or wait until that "
                "process ends"
            ) from error
        yield
    finally:
        os.close(descriptor)


def describe_holder(path: Path) -> str:
    """Return who wrote the lock file last, in words."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        note = json.loads(path.read_text())
        here = " (this process)" if note["pid"] == os.getpid() and note["host"] == socket.gethostname() else ""
        return f"process {note['pid']}{here} on host {note['host']} since {note['since']}"
    return "another process"
