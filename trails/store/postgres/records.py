"""A record of the log as rows of PostgreSQL keep it: what stands in a row, and the digest that chains it to the one before.

The digest covers digests of a record's parts, so that erased text can be taken out of a body and the chain stays whole.
"""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass, replace
from typing import Final

from trails.store import frames
from trails.store.frames import CommitRecord

START: Final = bytes(32)
"""What stands for the digest of the record before the first one."""
_SMALL: Final = (13, 6)
_GREAT: Final = (15, 8)
"""How far back a packer looks, as a power of two bytes, and how much memory it takes (zlib's windowBits and memLevel)."""


@dataclass(frozen=True, slots=True)
class Row:
    """A record in its place. Where erased text was taken out of its body, `rewritten` is the digest of what is left."""

    number: int
    commit_id: str
    flags: int
    leaves: bytes
    body: bytes
    body_digest: bytes
    digest: bytes
    rewritten: bytes | None = None

    def record(self) -> CommitRecord:
        """Return what the commit did, as far as that is left."""
        return replace(
            frames.unpacked(zlib.decompress(self.body), self.flags & frames.BULK), leaves=lines_of(self.leaves)
        )

    def values(self) -> tuple[object, ...]:
        """Return what the columns of a row have, in their order."""
        return tuple(getattr(self, name) for name in self.__slots__)

    def follows(self, number: int, digest: bytes) -> bool:
        """Tell whether this row is whole and the one after the row with that number and digest."""
        return self.number == number + 1 and self.digest == _chained(digest, self)

    def is_whole(self) -> bool:
        """Tell whether the body is the one that was written."""
        try:
            return _digest(zlib.decompress(self.body)) == (self.rewritten or self.body_digest)
        except zlib.error:
            return False


def row(record: CommitRecord, commit_id: str, number: int, previous: bytes) -> Row:
    """Return the row of a record after the row with the digest `previous`."""
    body = replace(record, leaves=()).payload()
    leaves = "\n".join(record.leaves).encode()
    flags = record.flags & (frames.BULK | frames.ERASES)
    made = Row(number, commit_id, flags, leaves, _packed(body), _digest(body), b"")
    return replace(made, digest=_chained(previous, made))


def rewritten(row: Row, record: CommitRecord) -> Row:
    """Return a row whose body tells only what a record does, in its place in the chain."""
    body = replace(record, leaves=()).payload()
    return replace(row, body=_packed(body), rewritten=_digest(body))


def lines_of(leaves: bytes) -> tuple[str, ...]:
    """Return the lines of leaves that a row has."""
    return tuple(leaves.decode().split("\n")) if leaves else ()


def _packed(body: bytes) -> bytes:
    """Compress a body. Of a small one most of the work would be to make room for looking back 32 kB."""
    packing = zlib.compressobj(1, zlib.DEFLATED, *(_SMALL if len(body) <= 1 << _SMALL[0] else _GREAT))
    return packing.compress(body) + packing.flush()


def _chained(previous: bytes, row: Row) -> bytes:
    head = f"{row.number} {row.commit_id} {row.flags} ".encode()
    return _digest(previous + head + _digest(row.leaves) + row.body_digest)


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()
