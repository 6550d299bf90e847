"""Locks with names that processes of one store hold for longer than a commit: rewriting, or importing one session."""

from __future__ import annotations

import fcntl
import hashlib
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

from trails.errors import StoreFailed
from trails.files import PRIVATE

NAME: Final = "locks"
WRITERS: Final = "writers"
"""The name that all processes share which have the store open to write."""


class NamedLocks:
    """The locks of one open store. They are files in its folder; in memory, only threads are kept apart, by their callers."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = None if folder is None else folder / NAME
        self._held: dict[str, tuple[int, int]] = {}
        """By name, the descriptor, and how often it is held: within a hold, the same thread holds it again."""
        self._shared: list[int] = []
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
        while True:
            descriptor = self._opened(name)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(descriptor), self._path(name).stat()):
                    return descriptor
            except BlockingIOError:
                os.close(descriptor)
                return None
            except FileNotFoundError:
                pass  # whoever held it removed it just now
            except OSError as error:
                os.close(descriptor)
                raise self._unusable(error) from error
            os.close(descriptor)

    def _opened(self, name: str) -> int:
        path = self._path(name)
        for is_last in (False, True):
            try:
                path.parent.mkdir(mode=0o700, exist_ok=True)
                return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, PRIVATE)
            except OSError as error:
                if is_last or not isinstance(error, FileNotFoundError):  # else somebody deleted the folder just now
                    raise self._unusable(error) from error
        raise AssertionError("the last try returns or raises")

    def _unusable(self, error: OSError) -> StoreFailed:
        return StoreFailed(
            f"{self._folder} cannot be used for the locks of the store ({error.strerror}); remove what stands there if it is no "
            "folder, and check its permissions: Trails makes it when it is missing"
        )

    def share(self, name: str) -> None:
        """Hold a name until `close`, together with all others that share it."""
        if self._folder is not None:
            self._shared.append(self._opened(name))
            with suppress(OSError):  # some file systems have no locks
                fcntl.flock(self._shared[-1], fcntl.LOCK_SH)

    def is_shared(self, name: str) -> bool:
        """Tell whether any process shares a name."""
        if self._folder is None:
            return False
        try:
            descriptor = os.open(self._path(name), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
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
            if name not in self._held:  # closed meanwhile
                return
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
            while self._shared:
                os.close(self._shared.pop())
