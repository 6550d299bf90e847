"""The commit log on disk: the one record of what was committed since the engine's last flush, and the one thing that is synced.

Two files of zeros, made in advance, take turns: syncing bytes inside a file takes half as long as syncing a growing one.
While the engine flushes what the records of one say, new records go to the other; then the first is wiped, its header
first: whatever a power cut leaves of it never follows the header of a later use. There is always at least one header.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from trails.errors import StoreFailed
from trails.files import open_own
from trails.store import frames
from trails.store.frames import CommitRecord, Frame, Header
from trails.store.placed import Placed
from trails.store.syncing import sync_data, sync_folder, write_all

NAMES: Final = ("0", "1")
_SMALLEST: Final = 256 * 1024
_LARGEST: Final = 4 * 1024 * 1024
"""Bytes that a segment is made with. One that a record did not fit into grows, and shrinks when it is wiped."""
_STEP: Final = 1 << 18
"""Bytes of zeros that are written at a time."""


class Leaves(NamedTuple):
    """How far the log of leaves reached at some moment: lines, bytes, and the link of the last line."""

    lines: int
    size: int
    link: str


class _End(NamedTuple):
    """Where a segment ends: bytes in use, the number of the last record (or of the one before its first), its checksum."""

    used: int
    last: int
    checksum: bytes


_UNUSED: Final = _End(0, 0, frames.START)


@dataclass(slots=True)
class _Segment:
    """A segment's file, and what is known of it."""

    descriptor: int
    size: int
    place: Placed
    header: Header | None = None
    frames: list[Frame] = field(default_factory=list)
    end: _End = _UNUSED


class RecordFiles:
    """The records since the engine's last flush. The caller holds the store's write lock for all that changes it."""

    def __init__(self, folder: Path, store_id: bytes, *, read_only: bool = False) -> None:
        """Open the log in a folder. Raises `StoreFailed` where it is damaged: what it recorded cannot be replayed."""
        self._folder = folder
        self._store_id = store_id
        self._segments: list[_Segment] = []
        try:
            for name in NAMES:
                self._segments.append(_opened(folder / name, read_only=read_only))
            self._in_use = self._in_order()
        except BaseException:  # an interrupt too: nobody else could close its files
            self.close()
            raise
        self._synced = self._active.end.last

    @classmethod
    def make(cls, folder: Path, store_id: bytes, reached: Leaves, first: int = 1) -> None:
        """Begin a log in a folder (made where it is missing): empty, with a header, on disk when this returns."""
        folder.mkdir(mode=0o700, exist_ok=True)
        header = Header(store_id, first, *reached, frames.START).encode()
        for name, content in zip(NAMES, (header, b""), strict=True):
            descriptor = open_own(folder / name, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            try:
                write_all(descriptor, content + bytes(_SMALLEST - len(content)), 0)
                sync_data(descriptor)
            finally:
                os.close(descriptor)
        sync_folder(folder)

    # --- what is there

    @property
    def _old(self) -> _Segment | None:
        return self._in_use[0]

    @property
    def _active(self) -> _Segment:
        return self._in_use[1]

    @property
    def records(self) -> list[Frame]:
        """The records that were found at opening, in order."""
        return [*(self._old.frames if self._old else ()), *self._active.frames]

    @property
    def base(self) -> Leaves:
        """How far the log of leaves reached before the first of the records."""
        header = (self._old or self._active).header
        assert header is not None  # noqa: S101 - a segment in use has one
        return Leaves(header.leaf_count, header.leaf_bytes, header.leaf_link)

    @property
    def last(self) -> int:
        """The number of the last record, from 1; 0 before the first."""
        return self._active.end.last

    @property
    def is_empty(self) -> bool:
        """True where no record waits for the engine's flush."""
        return self._old is None and self._active.end.used <= frames.HEADER_SIZE

    @property
    def used(self) -> int:
        """Bytes that the records since the last `switch` take."""
        return self._active.end.used

    @property
    def is_filling(self) -> bool:
        """True once three quarters of the segment are used: time to flush."""
        return 4 * self._active.end.used > 3 * self._active.size

    @property
    def places(self) -> list[Placed]:
        """Where its files have to stay."""
        return [segment.place for segment in self._segments]

    # --- writing

    def refuse_moved(self) -> None:
        """Raise OSError where the file that records are written to is at its path no more."""
        self._active.place.refuse_moved()

    def append(self, records: Sequence[CommitRecord], *, sync: bool) -> None:
        """Write records after the last one, and sync them where asked to; after an OSError none of them counts.

        The first of a segment is synced always: by it the next opening knows that the engine's own log is not to be used.
        Long ones are too: the engine brings long texts to disk when it likes.
        """
        active = self._active
        used, number, checksum = active.end
        sync = sync or used == frames.HEADER_SIZE
        made = []
        for record in records:
            number += 1
            framed, checksum = frames.frame(record, number, self._synced, checksum)
            made.append(framed)
        data = b"".join(made)
        sync = sync or len(data) >= _SMALLEST
        write_all(active.descriptor, data, used)
        if sync:
            sync_data(active.descriptor)
        active.size = max(active.size, used + len(data))
        active.end = _End(used + len(data), number, checksum)  # in one step: a signal may end this at any other
        if sync:
            self._synced = number

    def sync(self) -> None:
        """Bring all records to disk."""
        sync_data(self._active.descriptor)
        self._synced = self._active.end.last

    def switch(self, reached: Leaves) -> None:
        """Let the records to come go to the other segment: from then on the engine may flush what this one says."""
        self.sync()
        if self._old is not None:
            return  # an earlier flush was cut short: this one does its work too
        before = self._active
        after = next(segment for segment in self._segments if segment is not before)
        wanted = min(max(_SMALLEST, 2 * before.end.used), _LARGEST)
        if after.size != wanted:
            _resize(after, wanted)
        header = Header(self._store_id, before.end.last + 1, *reached, before.end.checksum)
        encoded = header.encode()
        write_all(after.descriptor, encoded, 0)
        sync_data(after.descriptor)
        after.header, after.frames = header, []
        after.end = _End(len(encoded), before.end.last, frames.header_checksum(encoded))
        self._in_use = before, after

    def wipe(self) -> None:
        """Wipe the segment before the last `switch`, once the engine and the log of leaves have all of it on disk."""
        if self._old is not None:
            _wipe(self._old)
            self._in_use = None, self._active

    def shrink(self) -> None:
        """Give the disk back what segments that grew take, where no record waits; they grow again with what is written."""
        if self.is_empty:
            for segment in self._segments:
                if segment.size > _SMALLEST:
                    _resize(segment, _SMALLEST)

    def close(self) -> None:
        """Close the files; twice is allowed."""
        for segment in self._segments:
            os.close(segment.descriptor)
        self._segments.clear()

    # --- opening

    def _in_order(self) -> tuple[_Segment | None, _Segment]:
        """Return the segments in use, the older one first (or None), with their frames; see that one follows the other."""
        used = sorted(
            (segment for segment in self._segments if segment.header is not None),
            key=lambda segment: segment.header.first if segment.header else 0,
        )
        if not used:
            raise self._damaged("it has no header")
        for segment in used:
            self._read(segment)
        if len(used) == 1:
            return None, used[0]
        old, active = used
        assert active.header is not None  # noqa: S101 - those were chosen
        if _was_never_taken(active, old):
            active.header, active.end = None, _UNUSED  # `secure` wipes it
            return None, old
        if active.header.first != old.end.last + 1 or active.header.previous != old.end.checksum:
            raise self._damaged(f"record {old.end.last + 1} is missing or altered")
        return old, active

    def _read(self, segment: _Segment) -> None:
        header = segment.header
        assert header is not None  # noqa: S101 - only such a segment is read
        if header.store_id != self._store_id:
            raise self._damaged("it is another store's")
        data = os.pread(segment.descriptor, segment.size, 0)
        body = memoryview(data)[frames.HEADER_SIZE :]
        found = frames.read_frames(body, header.first, frames.header_checksum(data))
        end = found[-1].end if found else 0
        last = header.first - 1 + len(found)
        if frames.later_claim(body, end) > last:
            raise self._damaged(f"record {last + 1} was altered or torn out after it was synced")
        segment.frames = found
        checksum = found[-1].checksum if found else frames.header_checksum(data)
        segment.end = _End(frames.HEADER_SIZE + end, last, checksum)

    def secure(self) -> None:
        """Bring the records that were found to disk, and wipe what a crash left behind them.

        They may be in the system's memory only: whoever wrote them died before syncing them, or its sync failed.
        """
        for segment in self._segments:
            written = _text_end(segment)
            if segment.header is None and written:
                _wipe(segment)  # what a crash left while it was wiped
            elif segment.header is not None and written > frames.HEADER_SIZE:
                data = os.pread(segment.descriptor, written, 0)
                write_all(segment.descriptor, data[: segment.end.used].ljust(written, b"\0"), 0)
                sync_data(segment.descriptor)

    def _damaged(self, what: str) -> StoreFailed:
        return StoreFailed(
            f"the commit log in {self._folder} is damaged: {what}. What was acknowledged may be lost with it; "
            "restore a backup"
        )


def unflushed(folder: Path, store_id: bytes) -> int:
    """Return how many records wait to be replayed in the log of a store that nobody has open; 0 after a close.

    Raises `StoreFailed` where the log is missing or damaged. Nothing is changed.
    """
    log = RecordFiles(folder, store_id, read_only=True)
    try:
        return len(log.records)
    finally:
        log.close()


def _opened(path: Path, *, read_only: bool) -> _Segment:
    try:
        descriptor = open_own(path, os.O_RDONLY if read_only else os.O_RDWR)
    except FileNotFoundError as error:
        raise StoreFailed(f"the commit log {path} is missing; restore a backup") from error
    size = os.fstat(descriptor).st_size
    return _Segment(
        descriptor, size, Placed(path, descriptor), frames.read_header(os.pread(descriptor, frames.HEADER_SIZE, 0))
    )


def _was_never_taken(after: _Segment, before: _Segment) -> bool:
    """Tell whether a switch to a segment was interrupted once its header was there: the records went on in the one before."""
    if after.header is None or before.header is None or after.frames or after.header.first > before.end.last:
        return False
    place = after.header.first - before.header.first
    if place == 0:
        return after.header.previous == frames.header_checksum(before.header.encode())
    return place > 0 and after.header.previous == before.frames[place - 1].checksum


def _wipe(segment: _Segment) -> None:
    """Overwrite a segment with zeros: the header first, without which nothing else in it counts."""
    write_all(segment.descriptor, bytes(frames.HEADER_SIZE), 0)
    sync_data(segment.descriptor)
    used = max(segment.end.used, _text_end(segment) if segment.header is None else 0)
    _zero(segment.descriptor, 0, used)
    sync_data(segment.descriptor)
    if segment.size > _LARGEST:
        _resize(segment, _LARGEST)
    segment.header, segment.frames, segment.end = None, [], _UNUSED


def _zero(descriptor: int, start: int, end: int) -> None:
    """Write zeros from one place up to another, few at a time: a segment may have hundreds of megabytes."""
    for at in range(start, end, _STEP):
        write_all(descriptor, bytes(min(_STEP, end - at)), at)


def _text_end(segment: _Segment) -> int:
    """Return where the last byte that is not zero stands in a segment, plus one."""
    return len(os.pread(segment.descriptor, segment.size, 0).rstrip(b"\0"))


def _resize(segment: _Segment, size: int) -> None:
    """Give a wiped segment another size: zeros that are written, so that no later sync has to write the file's map."""
    if size < segment.size:
        os.ftruncate(segment.descriptor, size)
    else:
        _zero(segment.descriptor, segment.size, size)
    os.fsync(segment.descriptor)
    segment.size = size
