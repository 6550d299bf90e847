"""Snapshots of a store: all its quads as they were after one record, compressed, from which a new index begins.

Neither who makes one nor who begins with one has more than a piece of it in memory, beside what is compressed.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

import pyoxigraph as ox

from trails.store import frames

_PIECE: Final = 2_000
"""Quads that are made text at once: some milliseconds, in which no other thread of this process goes on."""

_AFTER: Final = b"# after "


def packed(quads: Iterable[ox.Quad], size: int, digest: bytes = b"") -> Iterator[bytes]:
    """Yield a snapshot of quads, in parts of at least `size` bytes but for the last.

    A comment in its first line says the digest of the record after which they were so, where one is given.

    >>> quad = ox.Quad(ox.NamedNode("urn:a"), ox.NamedNode("urn:b"), ox.Literal("c"))
    >>> Unpacking(packed([quad], 100)).read()
    b'<urn:a> <urn:b> "c" .\\n'
    """
    packing, left = zlib.compressobj(1), iter(quads)
    part = [packing.compress(_AFTER + digest.hex().encode() + b"\n")] if digest else []
    while piece := list(islice(left, _PIECE)):
        part.append(packing.compress(frames.n_quads(piece)))
        if sum(map(len, part)) >= size:
            yield b"".join(part)
            part = []
    yield b"".join([*part, packing.flush()])


def digest_of(text: io.BufferedReader[Unpacking]) -> bytes | None:
    """Return the digest that a snapshot's first line says, after which `text` stands; None where it says none.

    Raises `ValueError` for a line that cannot be read.

    >>> text = io.BufferedReader(Unpacking(packed([], 100, bytes(2))))
    >>> digest_of(text), text.read()
    (b'\\x00\\x00', b'')
    """
    if not text.peek(len(_AFTER)).startswith(_AFTER):
        return None
    return bytes.fromhex(text.readline().removeprefix(_AFTER).decode())


class Unpacking(io.RawIOBase):
    """The text of a snapshot, as a file. Reading raises `zlib.error` where the parts are not what `packed` gave."""

    def __init__(self, parts: Iterable[bytes]) -> None:
        """Read parts in their order; none at all are an empty text."""
        self._parts = iter(parts)
        self._unpacking = zlib.decompressobj()
        self._is_begun = False
        self.damage: zlib.error | None = None
        """What was wrong, for one who reads through something that has its own error for that."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        """Put the next bytes of the text into a buffer; return how many, 0 at its end."""
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type] # what the protocol of buffers is
        text = self._next(len(view))
        view[: len(text)] = text
        return len(text)

    def _next(self, most: int) -> bytes:
        try:
            while not self._unpacking.eof:
                text = self._unpacking.decompress(self._unpacking.unconsumed_tail or next(self._parts), most)
                self._is_begun = True
                if text:
                    return text
        except StopIteration:
            if self._is_begun:
                self.damage = zlib.error("a snapshot is cut off")
        except zlib.error as error:
            self.damage = error
        if self.damage is not None:
            raise self.damage
        return b""
