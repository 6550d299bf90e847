"""Find the transcripts in folders, and tell cheaply which of them changed."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from trails.exchange import formats
from trails.exchange.formats import Format
from trails.store import folders

LINES: Final = ".jsonl"
DATABASES: Final = (".db", ".sqlite", ".sqlite3", ".vscdb")
_ENDINGS: Final = (LINES, ".json", *DATABASES)
"""The endings of files that agents write while they run."""
_SKIPPED: Final = frozenset({".git", "node_modules", ".venv", "__pycache__"})
"""Folders that hold no transcripts and many files."""

Stamp = tuple[int, ...]


def stamp_of(path: str) -> Stamp:
    """Return what tells whether a file changed: which file it is, its size and when it was written.

    A database is also written to by its log, beside it. Raises `OSError` if the file is gone.
    """
    found = os.stat(path)  # noqa: PTH116 - called for every file at every look
    if not stat.S_ISREG(found.st_mode):  # a pipe, say, whose reader would wait for ever
        raise OSError(errno.EINVAL, "it is no regular file", path)
    stamp = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
    if path.endswith(DATABASES):
        try:
            log = os.stat(f"{path}-wal")  # noqa: PTH116
        except OSError:
            return stamp
        return (*stamp, log.st_size, log.st_mtime_ns)
    return stamp


def changed_at(stamp: Stamp) -> float:
    """Return when a file was last written, in seconds since 1970.

    >>> changed_at((1, 2, 300, 5_500_000_000))
    5.5
    """
    return max(*stamp[3:4], *stamp[5:6], 0) / 1e9


def walk(paths: Iterable[Path], problems: dict[str, str]) -> Iterator[str]:
    """Yield the files that may be transcripts: the paths themselves, and those in folders below them.

    Links to folders are not followed, and stores of Trails are left out. What cannot be read goes into `problems`, by path.
    """
    waiting = [str(path) for path in reversed([*paths])]
    while waiting:
        place = waiting.pop()
        try:
            entries = list(os.scandir(place))
        except NotADirectoryError:
            yield place
            continue
        except FileNotFoundError:
            continue
        except OSError as error:
            problems[place] = f"cannot be read: {error.strerror or error}"
            continue
        if any(entry.name == "trails.db" for entry in entries) and folders.is_store(Path(place)):
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in _SKIPPED:
                    waiting.append(entry.path)
            elif entry.name.endswith(_ENDINGS):
                yield entry.path


def unit_of(form: Format, path: Path) -> Sequence[Path]:
    """Return the files that are read together with one that changed, the one that they belong to first."""
    return list(form.companions(form.owner(path)))


def detect(path: str) -> Format | None:
    """Return a file's format; None if it is no transcript that grows."""
    found = formats.detect_file(Path(path))
    return None if found is None or found.ending is not None or found.is_folder else found
