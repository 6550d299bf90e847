"""The bytes of the commit log: what a record says, how it is framed, and what of a file's bytes is believed.

A segment of the log is a file: a header, then frames, then zeros. Numbers are little-endian, and a checksum is BLAKE2b
with 16 bytes. A frame's checksum goes on from the one before it (the first frame's from the header's), so what an earlier
use of the same file left behind never follows, and a frame stands for all frames before it.

    header  magic (8), store id (16), number of the first record (8), leaves in the log before it (8), bytes of the log
            before it (8), link of the last leaf before it (8), checksum of the last frame before it (16; zeros after a
            close), checksum of all this (16)
    frame   magic (4), flags (4), number (8), the last record known to be synced when this was written (8), bytes of
            the payload (8), checksum (16), payload, zeros up to the next multiple of 8
    payload bytes of each of the next parts (4, 4, 8): the leaves, a line each; the IRIs of dropped graphs, a line each; the
            quads removed; then the quads added; both as N-Quads

A record out of which erased text was taken (in PostgreSQL alone) drops properties, too: the IRIs of graph, subject and
predicate on a line, with a space between them; what is left of such a property is added by the same record.

Replaying a record: drop its graphs, remove its quads, add its quads. Quads are ground, so records that are replayed in
order over any state that some of them led to end in the one state that all of them lead to.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyoxigraph import Quad, RdfFormat, serialize

_HEADER: Final = struct.Struct("<8s16sQQQ8s16s")
_FRAME: Final = struct.Struct("<4sIQQQ")
_PARTS: Final = struct.Struct("<IIQ")
_MAGIC: Final = b"TRAILS\x02\n"
_FRAME_MAGIC: Final = b"TRr\n"
_SUM: Final = 16
HEADER_SIZE: Final = _HEADER.size + _SUM
FRAME_HEAD: Final = _FRAME.size + _SUM
BULK: Final = 1
"""A flag: the record is for the engine's bulk loader."""
ERASES: Final = 4
"""A flag: what the record takes out is to leave the log, too."""
RELAXED: Final = 2
"""A flag: records may have been acknowledged before they were synced (durability "process")."""
HELD: Final = 8
"""A flag: the record may wait for others, which the engine then gets together with it, by its bulk loader."""
LOADED: Final = BULK | HELD
"""The flags of records that the bulk loader may get: a look at the engine's files meanwhile may see the half of one."""
START: Final = bytes(_SUM)
"""What stands for the checksum of the frame before the first one."""
LONGEST_LINE: Final = 16 * 1024 * 1024 - 1024
"""Bytes that a quad may have as a line: the engine's parser takes up to 16 MiB, and what is logged must come back."""


@dataclass(frozen=True, slots=True)
class Header:
    """What a segment says of itself: whose it is, where it begins, and what the log of leaves held by then."""

    store_id: bytes
    first: int
    leaf_count: int
    leaf_bytes: int
    leaf_link: str
    previous: bytes

    def encode(self) -> bytes:
        """Return the header's bytes."""
        body = _HEADER.pack(
            _MAGIC,
            self.store_id,
            self.first,
            self.leaf_count,
            self.leaf_bytes,
            bytes.fromhex(self.leaf_link),
            self.previous,
        )
        return body + _checksum(body)


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """One commit: its leaves (as lines), the graphs that it drops, the quads that it removes and adds (N-Quads)."""

    leaves: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    remove: bytes = b""
    add: bytes = b""
    flags: int = 0

    @classmethod
    def of(
        cls,
        *,
        leaves: Sequence[str] = (),
        drop: Sequence[str] = (),
        remove: Sequence[Quad] = (),
        add: Sequence[Quad] = (),
        flags: int = 0,
    ) -> CommitRecord:
        """Make a record of what a commit does."""
        return cls(tuple(leaves), tuple(drop), n_quads(remove), n_quads(add), flags)

    def longest_line(self) -> int:
        """Return the bytes of the longest quad, written as a line."""
        if max(len(self.add), len(self.remove)) <= LONGEST_LINE:
            return 0
        return max(len(line) for part in (self.add, self.remove) for line in part.split(b"\n"))

    def payload(self) -> bytes:
        """Return the record's bytes."""
        leaves, drop = "\n".join(self.leaves).encode(), "\n".join(self.drop).encode()
        sizes = _PARTS.pack(len(leaves), len(drop), len(self.remove))
        return b"".join((sizes, leaves, drop, self.remove, self.add))


@dataclass(frozen=True, slots=True)
class Frame:
    """A record in its place: its number, what was known to be synced when it was written, its checksum, where it ends."""

    number: int
    synced: int
    checksum: bytes
    end: int
    record: CommitRecord


def n_quads(quads: Sequence[Quad]) -> bytes:
    """Return quads as lines, in their order."""
    return (serialize(quads, format=RdfFormat.N_QUADS) or b"") if quads else b""


def frame(record: CommitRecord, number: int, synced: int, previous: bytes) -> tuple[bytes, bytes]:
    """Return a record's frame and its checksum; `previous` is the checksum of the frame before it, or of the header."""
    payload = record.payload()
    head = _FRAME.pack(_FRAME_MAGIC, record.flags, number, synced, len(payload))
    made = _checksum(previous, head, payload)
    return b"".join((head, made, payload, bytes(-len(payload) % 8))), made


def read_header(data: bytes | memoryview) -> Header | None:
    """Return the header that a segment begins with, or None where there is none (whole and unaltered)."""
    body, made = bytes(data[: _HEADER.size]), bytes(data[_HEADER.size : HEADER_SIZE])
    if len(made) != _SUM or body[: len(_MAGIC)] != _MAGIC or made != _checksum(body):
        return None
    _, store_id, first, count, size, link, previous = _HEADER.unpack(body)
    return Header(store_id, first, count, size, link.hex(), previous)


def header_checksum(data: bytes) -> bytes:
    """Return the checksum of an encoded header: the first frame goes on from it."""
    return data[_HEADER.size : HEADER_SIZE]


def read_frames(data: memoryview, first: int, previous: bytes) -> list[Frame]:
    """Return the frames from the start of `data` on, up to the first that is not whole or does not follow."""
    found: list[Frame] = []
    position = 0
    while (read := _read_frame(data, position)) is not None:
        flags, number, synced, made, payload, end = read
        if number != first + len(found) or made != _checksum(
            previous, data[position : position + _FRAME.size], payload
        ):
            break
        found.append(Frame(number, synced, made, end, _parse(payload, flags)))
        position, previous = end, made
    return found


def later_claim(data: memoryview, start: int) -> int:
    """Return the highest record that any frame's head from `start` on says was synced; 0 where there is no frame.

    Only the head of a frame is looked at: where a frame before it is damaged, its own checksum cannot be computed.
    """
    claims = [0]
    text = bytes(data)
    position = text.find(_FRAME_MAGIC, start)
    while position >= 0:
        if position % 8 == 0 and len(text) - position >= FRAME_HEAD:
            _, flags, number, synced, _size = _FRAME.unpack_from(text, position)
            if not flags & ~(LOADED | RELAXED) and synced < number < 1 << 62:
                claims.append(synced)
        position = text.find(_FRAME_MAGIC, position + 1)
    return max(claims)


def unpacked(payload: bytes, flags: int) -> CommitRecord:
    """Return the record that `CommitRecord.payload` gave these bytes of, which are known to be unaltered."""
    return _parse(memoryview(payload), flags)


def _read_frame(data: memoryview, position: int) -> tuple[int, int, int, bytes, memoryview, int] | None:
    if len(data) - position < FRAME_HEAD:
        return None
    magic, flags, number, synced, size = _FRAME.unpack_from(data, position)
    start = position + FRAME_HEAD
    if magic != _FRAME_MAGIC or size > len(data) - start:
        return None
    made = bytes(data[position + _FRAME.size : start])
    return flags, number, synced, made, data[start : start + size], start + size + -size % 8


def _parse(payload: memoryview, flags: int) -> CommitRecord:
    """Return the record of a payload whose checksum was right."""
    leaves, drop, removed = _PARTS.unpack_from(payload)
    start = _PARTS.size
    return CommitRecord(
        leaves=_lines(payload[start : start + leaves]),
        drop=_lines(payload[start + leaves : start + leaves + drop]),
        remove=bytes(payload[start + leaves + drop : start + leaves + drop + removed]),
        add=bytes(payload[start + leaves + drop + removed :]),
        flags=flags,
    )


def _lines(part: memoryview) -> tuple[str, ...]:
    return tuple(bytes(part).decode().split("\n")) if part else ()


def _checksum(*parts: bytes | memoryview) -> bytes:
    made = hashlib.blake2b(digest_size=_SUM)
    for part in parts:
        made.update(part)
    return made.digest()
