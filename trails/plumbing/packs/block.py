"""A block of a pack: up to 250 turns that follow on each other in one session, as columns of bytes under a checksum. Pure.

A block says whose turns it holds, from which index on, and how far the store's log reached when they were read. What its
columns say is taken apart when a turn is asked for.
"""

from __future__ import annotations

import json
import struct
import zlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate, repeat
from typing import Any, Final, NamedTuple

from trails import iris
from trails.model import NO_FACTS, Facts, Turn
from trails.plumbing.packs import facts
from trails.store.commitlog import Leaves

MOST: Final = 250
"""Turns of a block: their roles, authors and branches are each named by a byte."""
_MAGIC: Final = b"TPK1"
_HEAD: Final = struct.Struct("<4sIIIII")
"""Magic, checksum over all that follows it, bytes of the rest, first index, turns, bytes of the names."""
HEAD_SIZE: Final = _HEAD.size
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_UNKNOWN: Final = -(1 << 63)
_STRUCTURED: Final = 1
_REDACTED: Final = 2
_DIGEST: Final = 32


class Head(NamedTuple):
    """What a block says of itself before it is read."""

    size: int
    """Bytes of all of it."""
    start: int
    length: int


def head(data: bytes) -> Head | None:
    """Return what the first `HEAD_SIZE` bytes of a block say; None where they are of no block."""
    if len(data) != HEAD_SIZE:
        return None
    magic, _, length, start, count, _ = _HEAD.unpack(data)
    return Head(HEAD_SIZE + length, start, count) if magic == _MAGIC and 0 < count <= MOST else None


class Damaged(ValueError):
    """Bytes are no block, or not as they were written."""


def encode(session_id: str, starts_at: int, turns: Sequence[Turn], place: Leaves) -> bytes:
    """Return 1 to `MOST` turns of one session, in order of index without a gap, as a block.

    `starts_at` is the first index that the session owns, `place` how far the store's log reached when they were read.
    Raises `ValueError` for turns that a block cannot hold: those from before there were digests.
    """
    if any(turn.old_iri is not None or len(turn.digest) != 2 * _DIGEST for turn in turns):
        raise ValueError("turns without a digest are not packed")
    roles, authors, branches = (list(dict.fromkeys(map(_column(name), turns))) for name in _NAMED)
    texts = [turn.text.encode() for turn in turns]
    more = facts.encode([turn.facts for turn in turns]).encode()
    names = json.dumps(
        [session_id, starts_at, list(place), roles, authors, branches], ensure_ascii=False, separators=(",", ":")
    ).encode()
    columns = [
        names,
        bytes(roles.index(turn.role) for turn in turns),
        bytes(authors.index(turn.author_iri) for turn in turns),
        bytes(branches.index(turn.branch) for turn in turns),
        bytes(_STRUCTURED * turn.structured + _REDACTED * turn.redacted for turn in turns),
        array(
            "q", [_UNKNOWN if turn.time is None else (turn.time - _EPOCH) // _MICROSECOND for turn in turns]
        ).tobytes(),
        b"".join(bytes.fromhex(turn.digest) for turn in turns),
        array("I", accumulate(map(len, texts))).tobytes(),
        *texts,
        more,
    ]
    rest = b"".join(columns)
    head = _HEAD.pack(_MAGIC, 0, len(rest), turns[0].index, len(turns), len(names))
    checksum = zlib.crc32(rest, zlib.crc32(head[8:]))
    return b"".join((_MAGIC, checksum.to_bytes(4, "little"), head[8:], rest))


_NAMED: Final = ("role", "author_iri", "branch")


def _column(name: str) -> Any:
    return lambda turn: getattr(turn, name)


class Block:
    """Turns that follow on each other in one session, made when they are asked for."""

    __slots__ = (
        "_authors", "_branches", "_digests", "_facts", "_flags", "_recorded", "_roles", "_text_ends", "_texts", "_times",
        "_whole", "count", "end", "place", "session_id", "size", "start", "starts_at",
    )  # fmt: skip

    def __init__(self, data: bytes, offset: int = 0) -> None:
        """Take the block that begins at an offset of bytes. Raises `Damaged` where there is none, or it was altered."""
        try:
            magic, checksum, length, start, count, names = _HEAD.unpack_from(data, offset)
        except struct.error as error:
            raise Damaged("there is no block") from error
        begin = offset + _HEAD.size
        self.size = _HEAD.size + length
        """Bytes of the block."""
        view = memoryview(data)[offset + 8 : offset + self.size]
        if magic != _MAGIC or len(view) != self.size - 8 or not 0 < count <= MOST or zlib.crc32(view) != checksum:
            raise Damaged("a block is not as it was written")
        self.start, self.count, self.end = start, count, start + count
        self.session_id, self.starts_at, place, *tables = json.loads(data[begin : begin + names])
        self.place = Leaves(*place)
        at = begin + names
        columns = []
        for width in (1, 1, 1, 1, 8, _DIGEST, 4):
            columns.append(data[at : at + width * count])
            at += width * count
        self._roles, self._authors, self._branches = (
            [table[each] for each in column] for table, column in zip(tables, columns, strict=False)
        )
        self._flags, times, self._digests, text_ends = columns[3:]
        self._times, self._text_ends = array("q", times), array("I", text_ends)
        middle = at + self._text_ends[-1]
        self._texts, self._recorded = data[at:middle], data[middle : offset + self.size]
        self._facts: list[Any] | None = None
        self._whole: str | None = self._texts.decode() if self._texts.isascii() else None

    def digest(self, index: int) -> str:
        """Return the digest of the turn at an index of the session."""
        at = (index - self.start) * _DIGEST
        return self._digests[at : at + _DIGEST].hex()

    def turns(self, start: int, end: int) -> list[Turn]:
        """Make the turns from an index to another, exclusive; both must be the block's own."""
        within = slice(start - self.start, end - self.start)
        digests = self._digests[within.start * _DIGEST : within.stop * _DIGEST].hex()
        epoch, delta, make, session_id = _EPOCH, timedelta, Turn.maker(), self.session_id
        columns = (
            range(start, end),
            self._roles[within],
            self._branches[within],
            self._authors[within],
            [None if time == _UNKNOWN else epoch + delta(0, 0, time) for time in self._times[within]],
            self._texts_of(within),
            self._flags[within],
            [digests[at : at + 2 * _DIGEST] for at in range(0, len(digests), 2 * _DIGEST)],
            self._facts_of(within),
        )
        return [
            make(
                {
                    "session_id": session_id,
                    "index": index,
                    "role": role,
                    "branch": branch,
                    "author_iri": author,
                    "time": time,
                    "text": text,
                    "structured": flags & _STRUCTURED != 0,
                    "redacted": flags & _REDACTED != 0,
                    "digest": digest,
                    "old_iri": None,
                    "facts": recorded,
                }
            )
            for index, role, branch, author, time, text, flags, digest, recorded in zip(*columns, strict=True)
        ]

    @property
    def is_plain(self) -> bool:
        """Whether it holds nothing of its turns beyond their texts, and nothing was taken out of those."""
        return not self._recorded and not any(each & _REDACTED for each in self._flags)

    def plain(self) -> list[tuple[str, tuple[str, str, str], int | None, str, bool]]:
        """Return of each turn, but for what is recorded with it beyond its text: its digest; its role, branch and author; its
        time in microseconds since 1970; its text; whether that is JSON.
        """
        digests, whole = self._digests.hex(), slice(0, self.count)
        return list(
            zip(
                [digests[at : at + 2 * _DIGEST] for at in range(0, len(digests), 2 * _DIGEST)],
                zip(self._roles, self._branches, self._authors, strict=True),
                [None if time == _UNKNOWN else time for time in self._times],
                self._texts_of(whole),
                [each & _STRUCTURED != 0 for each in self._flags],
                strict=True,
            )
        )

    def said(self, start: int, end: int) -> Iterator[tuple[int, str, str, str, bool]]:
        """Yield index, role, branch, text and whether that is JSON, of the turns from an index to another, exclusive."""
        within = slice(start - self.start, end - self.start)
        flags = [each & _STRUCTURED != 0 for each in self._flags[within]]
        texts = self._texts_of(within)
        return zip(range(start, end), self._roles[within], self._branches[within], texts, flags, strict=True)

    def spoken(self, start: int, end: int) -> Iterator[tuple[int, str, str, bool, bool, Facts]]:
        """Yield what a model may be shown of the turns from an index to another, exclusive: half the work of making them.

        That is index, role, text, whether that is JSON, whether it was taken out, and what is recorded with the turn.
        """
        within = slice(start - self.start, end - self.start)
        flags = self._flags[within]
        return zip(
            range(start, end),
            self._roles[within],
            self._texts_of(within),
            [each & _STRUCTURED != 0 for each in flags],
            [each & _REDACTED != 0 for each in flags],
            self._facts_of(within),
            strict=True,
        )

    def _texts_of(self, within: slice) -> list[str]:
        ends = self._text_ends[within]
        begins = [self._text_ends[within.start - 1] if within.start else 0, *ends]  # one more
        texts = self._whole
        if texts is not None:
            return [texts[begin:end] for begin, end in zip(begins, ends, strict=False)]
        return [self._texts[begin:end].decode() for begin, end in zip(begins, ends, strict=False)]

    def _facts_of(self, within: slice) -> Iterable[Facts]:
        if self._facts is None:
            self._facts = facts.decode(self._recorded.decode())
        return facts.made(self._facts[within]) if self._facts else repeat(NO_FACTS, within.stop - within.start)

    def iri(self, index: int) -> str:
        """Return the IRI of the turn at an index: it holds the turn's digest."""
        return iris.turn(iris.session(self.session_id), index, self.digest(index))
