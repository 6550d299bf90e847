"""Whether the engine's tables are as they were written: it does not tell of every damage itself.

A table is a file that is written once and never changed. The engine has a checksum over each block of it, and an error for a
block that does not fit; but a query that adds up, sorts or walks gets that error again and again, for ever, and its memory
grows with each. So the sum of each table is kept when a store is closed in good order, and a table that was touched since, as
its size or its time tells, is read before the engine gets it. What was there when a process was killed is not known.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from errno import EIO
from pathlib import Path
from typing import Final, NamedTuple

from trails.files import sum_of

_NAME: Final = "tables.json"
"""Beside the tables: files that the engine did not make it leaves alone, and a folder that is exchanged takes them along."""
_TABLE: Final = "*.sst"


class Sum(NamedTuple):
    """What is known of a table."""

    size: int
    modified: int
    """When it was written, in nanoseconds."""
    crc: int


class Tables:
    """The tables in one folder of the engine, and what is known of them."""

    def __init__(self, folder: Path) -> None:
        """Read what is known; nothing, where that was not kept or is not whole."""
        self._folder = folder
        self._sums = _read(folder)
        self._is_owned = False

    def damage(self, *, touched: bool = False) -> str | None:
        """Return what is wrong with the first table that is not as it was written or cannot be read; None where nothing is.

        With `touched`, only those are read that have another size or time than they had.
        """
        for path, stat in _tables(self._folder):
            known = self._sums.get(path.name)
            if touched and (known is None or known[:2] == stat):
                continue
            try:
                _, found = sum_of(path)
            except OSError as error:
                if error.errno != EIO:  # say, the engine put others in its place, or no more files may be opened here
                    continue
                return f"the disk does not give the table {path}: {error.strerror}"
            if known is not None and found != known.crc and self._is_of_now():
                return f"the table {path} is damaged: its bytes are not those that were written"
        return None

    def _is_of_now(self) -> bool:
        """Tell whether what is known is of the tables that stand there now: another process may have exchanged them all."""
        return self._is_owned or _read(self._folder) == self._sums

    def open(self) -> None:
        """Forget on disk what is known, before this process writes: after a kill, nothing is."""
        self._is_owned = True
        with suppress(OSError):
            (self._folder / _NAME).unlink(missing_ok=True)

    def seal(self) -> None:
        """Keep the sums of all tables, once the engine is gone; those that are as they were are not read again."""
        sums = {path.name: self._sum(path, stat) for path, stat in _tables(self._folder)}
        body = json.dumps(sums, separators=(",", ":"))
        part = self._folder / f"{_NAME}.new"
        part.touch(0o600)
        part.write_text(f"{zlib.crc32(body.encode())}\n{body}\n", "ascii")
        part.replace(self._folder / _NAME)

    def _sum(self, path: Path, stat: tuple[int, int]) -> Sum:
        known = self._sums.get(path.name)
        return known if known is not None and known[:2] == stat else Sum(*stat, sum_of(path)[1])


def _read(folder: Path) -> Mapping[str, Sum]:
    try:
        crc, body = (folder / _NAME).read_text("ascii").splitlines()
        if int(crc) == zlib.crc32(body.encode()):
            return {name: Sum(*map(int, kept)) for name, kept in json.loads(body).items()}
    except (OSError, ValueError, TypeError, AttributeError):
        pass
    return {}


def _tables(folder: Path) -> Iterator[tuple[Path, tuple[int, int]]]:
    for path in sorted(folder.glob(_TABLE)):
        with suppress(FileNotFoundError):
            stat = path.stat()
            yield path, (stat.st_size, stat.st_mtime_ns)
