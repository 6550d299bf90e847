"""Making the engine's commits survive a power cut: the engine writes its log but never syncs it."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from pathlib import Path
from typing import Final

_SETTLED: Final = 100_000_000
"""Nanoseconds after which a folder's time of change is trusted: many ticks of any file system's clock."""


class Journal:
    """The engine's write-ahead log files (`*.log`), synced on request; descriptors stay open and only grown files sync.

    Concurrent callers share one sync: whoever waits finds its write already covered (group commit).
    """

    def __init__(self, folder: Path) -> None:
        self._path = str(folder)
        self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._listed = -1  # the folder's time of change when its files were last listed
        self._files: dict[str, int] = {}
        self._synced_size: dict[str, int] = {}
        self._lock = threading.Lock()
        self._written = 0
        self._synced = 0
        self._error: OSError | None = None

    def wrote(self) -> int:
        """Note that something was written (under the store's write lock); return the ticket to sync up to."""
        self._written += 1
        return self._written

    def sync(self, ticket: int) -> int:
        """Return once everything written up to `ticket` is on disk, and up to which ticket all is.

        Raises OSError when the disk refuses, and from then on always: the system reports a failed write-back once and
        then forgets the data, so a second sync that succeeds would prove nothing.
        """
        with self._lock:
            if self._synced >= ticket:
                return self._synced
            if self._error is not None:
                raise self._error
            target = self._written
            try:
                self._sync_files()
            except OSError as error:
                self._error = error
                raise
            self._synced = target
            return target

    def _sync_files(self) -> None:
        grown = self._open_new_files()
        for name, descriptor in self._files.items():
            size = os.fstat(descriptor).st_size
            if size != self._synced_size[name]:
                os.fdatasync(descriptor)
                self._synced_size[name] = size
        if grown:
            os.fsync(self._folder)

    def _open_new_files(self) -> bool:
        """Keep a descriptor open for each log file there is; tell whether there are new ones.

        Listing a folder takes longer than asking when it last changed. File systems note that time in ticks of a few
        milliseconds: a folder that changed just now may change again within the same tick, so it is listed again.
        """
        changed = os.fstat(self._folder).st_mtime_ns
        if changed == self._listed:
            return False
        now = time.time_ns()
        names = {name for name in os.listdir(self._path) if name.endswith(".log")}  # noqa: PTH208 - half the time of Path
        for gone in self._files.keys() - names:
            os.close(self._files.pop(gone))
            del self._synced_size[gone]
        grown = names - self._files.keys()
        for name in grown:
            with contextlib.suppress(FileNotFoundError):  # gone since: the engine has it in its final files
                self._files[name] = os.open(f"{self._path}/{name}", os.O_RDWR | os.O_CLOEXEC)
                self._synced_size[name] = -1
        self._listed = changed if now - changed > _SETTLED else -1
        return bool(grown)

    def follow(self, folder: Path) -> None:
        """Go on with other files, which hold everything that was written so far and are on disk."""
        with self._lock:
            self._close_files()
            self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            self._path, self._listed, self._synced = str(folder), -1, self._written

    def close(self) -> None:
        """Close all descriptors."""
        with self._lock:
            self._close_files()

    def _close_files(self) -> None:
        for descriptor in self._files.values():
            os.close(descriptor)
        self._files.clear()
        self._synced_size.clear()
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1
