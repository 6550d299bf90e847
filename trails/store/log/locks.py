"""Locks with names that processes of one store hold for longer than a commit: rewriting, or importing one session."""

from __future__ import annotations

import fcntl
import hashlib
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

from trails.files import PRIVATE

NAME: Final = "locks"
OWNER: Final = "owner"
"""The name of the first process that has the store open to write."""


class NamedLocks:
    """The locks of one open store. They are files in its folder; in memory, only threads are kept apart, by their callers."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = None if folder is None else folder / NAME
        self._held: dict[str, tuple[int, int]] = {}
        """By name, the descriptor, and how often it is held: within a hold, the same thread holds it again."""
        self._lock = threading.Lock()
        self._owners: dict[str, int] = {}

    def hold(self, name: str) -> bool:
        """Hold a name until `release`; return False if another process or thread does."""
        with self._lock:
            if name in self._held:
                if self._owners[name] != threading.get_ident():
                    return False
                descriptor, times = self._held[name]
                self._held[name] = descriptor, times + 1
                return True
            taken = self._taken(name)
            if taken is None:
                return False
            self._held[name], self._owners[name] = (taken, 1), threading.get_ident()
            return True

    def _taken(self, name: str) -> int | None:
        if self._folder is None:
            return -1
        self._folder.mkdir(mode=0o700, exist_ok=True)
        path = self._path(name)
        while True:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, PRIVATE)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(descriptor), path.stat()):
                    return descriptor
            except BlockingIOError:
                os.close(descriptor)
                return None
            except FileNotFoundError:
                pass  # whoever held it removed it just now
            os.close(descriptor)

    def is_held(self, name: str) -> bool:
        """Tell whether any process holds a name."""
        if self._folder is None:
            return name in self._held
        try:
            descriptor = os.open(self._path(name), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(descriptor)
        return False

    def _path(self, name: str) -> Path:
        assert self._folder is not None  # noqa: S101 - whoever calls this has looked
        return self._folder / hashlib.sha256(name.encode()).hexdigest()[:16]

    def release(self, name: str) -> None:
        """Let go of a name that is held."""
        with self._lock:
            descriptor, times = self._held[name]
            if times > 1:
                self._held[name] = descriptor, times - 1
                return
            del self._held[name], self._owners[name]
            if descriptor >= 0 and self._folder is not None:
                with suppress(OSError):  # first, so that whoever takes it then makes it anew
                    self._path(name).unlink()
                os.close(descriptor)

    def close(self) -> None:
        """Let go of all names."""
        with self._lock:
            for descriptor, _ in self._held.values():
                if descriptor >= 0:
                    os.close(descriptor)
            self._held.clear()
