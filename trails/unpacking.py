"""How much a compressed file may unpack to: a few kilobytes can stand for gigabytes, and are then refused, not unpacked."""

from __future__ import annotations

from gzip import GzipFile
from typing import IO, Final

from trails.errors import InvalidInput

MAX_UNPACKED: Final = 512 << 20
"""Bytes that an archive of transcripts may unpack to, all its files together: they are read in memory."""
MAX_RATIO: Final = 40
"""How many times its own size an archive of transcripts may unpack to; texts take some 3 to 15."""
FREE: Final = 16 << 20
"""Bytes that any file may unpack to, however small it is."""


def limit(packed: int) -> int:
    """Return how many bytes an archive of a size may unpack to.

    >>> limit(600_000) >> 20, limit(10 << 20) >> 20, limit(1 << 30) >> 20
    (22, 400, 512)
    """
    return min(MAX_UNPACKED, max(FREE, packed * MAX_RATIO))


class Bounded:
    """A stream of unpacked bytes that raises `InvalidInput` once more than `most` were read."""

    def __init__(self, source: IO[bytes] | GzipFile, most: int) -> None:
        self._source = source
        self._most = most
        self._left = most

    def read(self, size: int = -1) -> bytes:
        """Return up to `size` bytes, all that are left for a negative one; never more than the bound."""
        wanted = self._left + 1 if size < 0 else min(size, self._left + 1)
        data = self._source.read(wanted)
        self._left -= len(data)
        if self._left < 0:
            raise InvalidInput(
                f"it unpacks to more than {self._most:,} bytes, which is more than such a file is taken to hold; "
                "unpack it yourself and give what is in it, if you trust it"
            )
        return data
