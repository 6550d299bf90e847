"""Whether a file that is open is still the one at its path: what is written to it is lost otherwise, once it is closed."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from pathlib import Path


class Placed:
    """A file that is open, and the path at which it has to stay."""

    __slots__ = ("_descriptor", "_known", "_path")

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = str(path)
        self._descriptor = descriptor
        self._known = _identity(os.fstat(descriptor))

    def refuse_moved(self) -> None:
        """Raise OSError where the path is gone or leads to another file; it costs one call of the system."""
        try:
            found = _identity(os.stat(self._path))  # noqa: PTH116 - a path would be made into text at every commit
        except (FileNotFoundError, NotADirectoryError) as error:
            what = "it was removed, or moved away, while the store is open"
            raise OSError(errno.ENOENT, what, self._path) from error
        # Asked anew before anybody is accused: some file systems give a file another number while it is open.
        if found != self._known and found != _identity(os.fstat(self._descriptor)):
            raise OSError(errno.ESTALE, "another file was put in its place while the store is open", self._path)


def moved(places: Iterable[Placed]) -> str | None:
    """Return what is wrong with where files are, of the first of which something is; None where nothing is."""
    for each in places:
        try:
            each.refuse_moved()
        except OSError as error:
            return f"{error.filename}: {error.strerror}; put it back, or restore a backup"
    return None


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_ino, found.st_dev
