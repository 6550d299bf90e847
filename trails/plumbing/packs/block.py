"""A block of a pack: up to 250 turns that follow on each other in one session, as columns of bytes under a checksum. Pure.

A block says whose turns it holds, from which index on, and how far the store's log reached when they were read. What its
columns say is taken apart when a turn is asked for.
"""

from __future__ import annotations

import json
import struct
import zlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, tzinfo
from itertools import accumulate, repeat
from typing import Any, Final, NamedTuple

from trails.model.validation import DECODING_ERRORS
from trails.model.values import NO_FACTS, Facts, Turn
from trails.plumbing.packs import facts
from trails.store.leaflog import Leaves

MOST: Final = 250
"""Turns of a block: what several of them have in common is named by a byte of each."""
_MAGIC: Final = b"TPK2"
EARLIER: Final = b"TPK1"
"""What a block of an earlier version begins with, which is read no more."""
_HEAD: Final = struct.Struct("<4sIIIII")
"""Magic, checksum over all that follows it, bytes of the rest, first index, turns, bytes of the names."""
HEAD_SIZE: Final = _HEAD.size
_DIGEST: Final = 32
_TIME: Final = struct.Struct(">HBBBBBBH")
"""A time as pickles of Python's have it, the quickest to read back: year to second, and the microseconds in three bytes."""
_UNKNOWN: Final = bytes(_TIME.size)
"""Stands for a time that is not known: there is no year 0."""
_DIGITS: Final = tuple(slice(at, at + 2 * _DIGEST) for at in range(0, 2 * _DIGEST * MOST, 2 * _DIGEST))
"""Where each digest stands among the digits of all."""


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


@contextmanager
def _as_damaged() -> Iterator[None]:
    """Let whatever comes of bytes that are no columns of a block be raised as `Damaged`."""
    try:
        yield
    except DECODING_ERRORS as error:
        raise Damaged(f"a block holds what is never written: {type(error).__name__}: {error}") from error


def encode(session_id: str, starts_at: int, turns: Sequence[Turn], place: Leaves) -> bytes:
    """Return 1 to `MOST` turns of one session, in order of index without a gap, as a block.

    `starts_at` is the first index that the session owns, `place` how far the store's log reached when they were read.
    Raises `ValueError` for turns that a block cannot hold: those from before there were digests.
    """
    if any(turn.old_iri is not None or len(turn.digest) != 2 * _DIGEST for turn in turns):
        raise ValueError("turns without a digest are not packed")
    kinds: dict[tuple[Any, ...], int] = {}
    for turn in turns:
        kinds.setdefault(_kind(turn), len(kinds))
    texts = [turn.text.encode() for turn in turns]
    numbers, more = facts.encode([turn.facts for turn in turns])
    names = json.dumps(
        [session_id, starts_at, list(place), list(kinds)], ensure_ascii=False, separators=(",", ":")
    ).encode()
    columns = [
        names,
        bytes(kinds[_kind(turn)] for turn in turns),
        numbers,
        *(_time(turn.time) for turn in turns),
        b"".join(bytes.fromhex(turn.digest) for turn in turns),
        array("I", accumulate(map(len, texts))).tobytes(),
        *texts,
        more.encode(),
    ]
    rest = b"".join(columns)
    head = _HEAD.pack(_MAGIC, 0, len(rest), turns[0].index, len(turns), len(names))
    checksum = zlib.crc32(rest, zlib.crc32(head[8:]))
    return b"".join((_MAGIC, checksum.to_bytes(4, "little"), head[8:], rest))


def moved(data: bytes, place: Leaves) -> bytes:
    """Return a whole block as one that was read when the store's log reached to another place."""
    magic, _, _, start, count, size = _HEAD.unpack_from(data)
    names = json.loads(data[_HEAD.size : _HEAD.size + size])
    names[2] = list(place)
    new = json.dumps(names, ensure_ascii=False, separators=(",", ":")).encode()
    rest = new + data[_HEAD.size + size :]
    head = _HEAD.pack(magic, 0, len(rest), start, count, len(new))
    checksum = zlib.crc32(rest, zlib.crc32(head[8:]))
    return b"".join((magic, checksum.to_bytes(4, "little"), head[8:], rest))


def _kind(turn: Turn) -> tuple[Any, ...]:
    """Return what many turns have in common."""
    return turn.role, turn.branch, turn.author_iri, turn.structured, turn.redacted


_read: Final[Callable[[bytes, tzinfo], datetime]] = datetime  # type: ignore[assignment] # what a pickle of a time calls


def _time(time: datetime | None) -> bytes:
    if time is None:
        return _UNKNOWN
    at = time.astimezone(UTC)
    high, low = divmod(at.microsecond, 1 << 16)
    return _TIME.pack(at.year, at.month, at.day, at.hour, at.minute, at.second, high, low)


class Block:
    """Turns that follow on each other in one session, made when they are asked for."""

    __slots__ = (
        "_digests", "_kinds", "_numbers", "_of_kinds", "_recorded", "_said", "_text_ends", "_texts", "_times",
        "count", "end", "place", "session_id", "size", "start", "starts_at",
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
        at = begin + names
        with _as_damaged():
            self.session_id, self.starts_at, place, self._of_kinds = json.loads(data[begin:at])
            self.place = Leaves(*place)
        if tuple(map(type, (self.session_id, self.starts_at, *self.place))) != (str, int, int, int, str):
            raise Damaged("a block does not say whose it is")
        columns = []
        for width in (1, 1, _TIME.size, _DIGEST, 4):
            columns.append(data[at : at + width * count])
            at += width * count
        self._kinds, self._numbers, self._times, self._digests, text_ends = columns
        with _as_damaged():
            self._text_ends = array("I", text_ends)
            middle = at + self._text_ends[-1]
        self._said = data[middle : offset + self.size]
        self._recorded: facts.Recorded | None = None
        self._texts: str | bytes
        try:
            self._texts = str(memoryview(data)[at:middle], "ascii")  # cut apart in half the time
        except UnicodeDecodeError:
            self._texts = data[at:middle]

    def digest(self, index: int) -> str:
        """Return the digest of the turn at an index of the session."""
        at = (index - self.start) * _DIGEST
        return self._digests[at : at + _DIGEST].hex()

    def turns(self, start: int, end: int) -> list[Turn]:
        """Make the turns from an index to another, exclusive; both must be the block's own.

        Raises `Damaged`, as do `said_in_short`, `said` and `spoken`, where its columns are not what Trails writes.
        """
        with _as_damaged():
            return self._made(start, end)

    def _made(self, start: int, end: int) -> list[Turn]:
        within = slice(start - self.start, end - self.start)
        begun = [self._begun(*kind) for kind in self._of_kinds]
        found = []
        for kind, index, time, text, digest, recorded in zip(
            self._kinds[within],
            range(start, end),
            self._times_of(within),
            self._texts_of(within),
            self._digests_of(within),
            self._facts_of(within),
            strict=True,
        ):
            values = begun[kind].copy()  # a third less than writing all of it
            values["index"] = index
            values["time"] = time
            values["text"] = text
            values["digest"] = digest
            values["facts"] = recorded
            found.append(values)
        return Turn.trusted_all(found)

    def _begun(self, role: str, branch: str, author: str, structured: bool, redacted: bool) -> dict[str, Any]:
        """Return the fields of a turn with what many have in common."""
        return {
            "session_id": self.session_id,
            "index": 0,
            "role": role,
            "branch": branch,
            "author_iri": author,
            "time": None,
            "text": "",
            "structured": structured,
            "redacted": redacted,
            "digest": "",
            "old_iri": None,
            "facts": NO_FACTS,
        }

    def said_in_short(self) -> list[tuple[str, tuple[str, str, str], datetime | None, str, bool, bool, Any]]:
        """Return all that it says of each turn, without a value of it.

        That is its digest; its role, branch and author; its time; its text; whether that is JSON; whether it was taken out; and
        what is recorded with it, in short.
        """
        whole = slice(0, self.count)
        with _as_damaged():
            role, branch, author, structured, redacted = self._kinds_of(whole)
            who, times, texts = zip(role, branch, author, strict=True), self._times_of(whole), self._texts_of(whole)
            recorded = self._said_of_facts().short(self._numbers)
            return list(zip(self._digests_of(whole), who, times, texts, structured, redacted, recorded, strict=True))

    def said(self, start: int, end: int) -> list[tuple[int, str, str, str, bool]]:
        """Return index, role, branch, text and whether that is JSON, of the turns from an index to another, exclusive."""
        within = slice(start - self.start, end - self.start)
        with _as_damaged():
            role, branch, _, structured, _ = self._kinds_of(within)
            return list(zip(range(start, end), role, branch, self._texts_of(within), structured, strict=True))

    def spoken(self, start: int, end: int) -> list[tuple[int, str, str, bool, bool, Facts]]:
        """Return what a model may be shown of the turns from an index to another, exclusive: half the work of making them.

        That is index, role, text, whether that is JSON, whether it was taken out, and what is recorded with the turn.
        """
        within = slice(start - self.start, end - self.start)
        with _as_damaged():
            role, _, _, structured, redacted = self._kinds_of(within)
            texts, recorded = self._texts_of(within), self._facts_of(within)
            return list(zip(range(start, end), role, texts, structured, redacted, recorded, strict=True))

    def _kinds_of(self, within: slice) -> Iterator[Iterator[Any]]:
        """Yield what many turns have in common, each part of it for each turn."""
        kinds = self._kinds[within]
        for each in zip(*self._of_kinds, strict=True):
            yield map(each.__getitem__, kinds)

    def _times_of(self, within: slice) -> list[datetime | None]:
        times = self._times[within.start * _TIME.size : within.stop * _TIME.size]
        each = struct.unpack(f"{_TIME.size}s" * (within.stop - within.start), times)
        if _UNKNOWN in each:
            return [None if time == _UNKNOWN else _read(time, UTC) for time in each]
        return list(map(_read, each, repeat(UTC)))

    def _digests_of(self, within: slice) -> list[str]:
        digits = self._digests[within.start * _DIGEST : within.stop * _DIGEST].hex()
        return [digits[each] for each in _DIGITS[: within.stop - within.start]]

    def _texts_of(self, within: slice) -> list[str]:
        ends, texts = self._text_ends[within], self._texts
        begins = [self._text_ends[within.start - 1] if within.start else 0, *ends]  # one more
        if isinstance(texts, str):
            return [texts[begin:end] for begin, end in zip(begins, ends, strict=False)]
        return [texts[begin:end].decode() for begin, end in zip(begins, ends, strict=False)]

    def _facts_of(self, within: slice) -> list[Facts]:
        return self._said_of_facts().of(self._numbers[within])

    def _said_of_facts(self) -> facts.Recorded:
        if self._recorded is None:
            self._recorded = facts.Recorded(self._said.decode())
        return self._recorded
