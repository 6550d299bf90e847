"""The files of packs: one a session, in a folder that may be removed at any time."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from trails.files import open_only, open_plain
from trails.model.values import Turn
from trails.plumbing.packs import block
from trails.plumbing.packs.block import MOST, Block, Damaged
from trails.store.leaflog import Leaves
from trails.store.syncing import write_all

SUFFIX = ".pack"
_AT_ONCE: Final = 128 << 10
"""Bytes of a pack that are read at once, without looking first where its blocks stand."""


class Extent(NamedTuple):
    """Where a block stands in its file, and which turns it says that it holds."""

    offset: int
    size: int
    start: int
    end: int


def path_of(folder: Path, session_id: str) -> Path:
    """Return where a session's pack stands in the folder of packs: by a hash of its id, which may have any characters."""
    return folder / _name_of(session_id)


def _name_of(session_id: str) -> str:
    """Return the name of a session's pack within the folder of packs."""
    name = hashlib.sha256(session_id.encode()).hexdigest()
    return f"{name[:2]}/{name[2:32]}{SUFFIX}"


def all_of(folder: Path) -> list[Path]:
    """Return the packs that there are."""
    return sorted(folder.glob(f"??/*{SUFFIX}"))


def put(path: Path, data: bytes) -> None:
    """Write a small file beside the packs, in the place of what is there, whole or not at all."""
    _make(path.parent)
    made = new_path(path)
    with _opened(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as descriptor:
        write_all(descriptor, data, 0)
    made.replace(path)


def _make(folder: Path) -> None:
    """Make the folder of packs, and the index's that it is in."""
    for each in (folder.parent, folder):
        each.mkdir(mode=0o700, exist_ok=True)


@contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    descriptor = open_plain(path, flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _extents(descriptor: int) -> list[Extent]:
    """Return the blocks of a file by their heads, as far as they go on from one another; none of them is checked."""
    return _walk(lambda at: os.pread(descriptor, block.HEAD_SIZE, at), os.fstat(descriptor).st_size)


def _extents_of(data: bytes) -> list[Extent]:
    """Return the blocks of a file that was read whole, as `_extents` does."""
    return _walk(lambda at: data[at : at + block.HEAD_SIZE], len(data))


def _walk(head_at: Callable[[int], bytes], end: int) -> list[Extent]:
    found: list[Extent] = []
    at = 0
    while at < end:
        head = block.head(head_at(at))
        if head is None or at + head.size > end or (found and head.start != found[-1].end):
            break
        found.append(Extent(at, head.size, head.start, head.start + head.length))
        at += head.size
    return found


def _block(descriptor: int, extent: Extent) -> Block:
    return Block(os.pread(descriptor, extent.size, extent.offset))


def read(folder: Path, session_id: str, start: int, end: int) -> list[Block]:
    """Return the blocks of a session's pack that hold the turns between two indices, the latter exclusive, as far as they
    are whole.

    A lineage has up to 33 packs, of which each is mostly small: that is one read. Raises OSError where the file cannot be
    read; there need be none.
    """
    descriptor = open_only(f"{folder}/{_name_of(session_id)}", os.O_RDONLY)
    try:
        data = os.pread(descriptor, _AT_ONCE, 0)
        if len(data) < _AT_ONCE:
            return _blocks(data, _within(_extents_of(data), start, end))
        wanted = _within(_extents(descriptor), start, end)
        if not wanted:
            return []
        offset = wanted[0].offset
        data = os.pread(descriptor, wanted[-1].offset + wanted[-1].size - offset, offset)
    finally:
        os.close(descriptor)
    return _blocks(data, wanted, offset)


def _within(extents: Sequence[Extent], start: int, end: int) -> list[Extent]:
    return [extent for extent in extents if extent.end > start and extent.start < end]


def _blocks(data: bytes, extents: Sequence[Extent], offset: int = 0) -> list[Block]:
    """Return the blocks that stand in a part of a file, which begins at an offset, as far as they are whole."""
    found: list[Block] = []
    for extent in extents:
        try:
            found.append(Block(data, extent.offset - offset))
        except (Damaged, ValueError, TypeError, LookupError):
            break
    return found


def last(path: Path) -> Block | None:
    """Return the last block of a pack; None where there is none that is whole. Raises OSError as `read` does."""
    with _opened(path, os.O_RDONLY) as descriptor:
        extents = _extents(descriptor)
        try:
            return _block(descriptor, extents[-1])
        except (Damaged, ValueError, TypeError, LookupError):
            return None


def is_earlier(path: Path) -> bool:
    """Tell whether a pack is of an earlier version: it is made anew once its session is read. Raises OSError as `read`."""
    with _opened(path, os.O_RDONLY) as descriptor:
        return os.pread(descriptor, len(block.EARLIER), 0) == block.EARLIER


def rewritten(path: Path, turns: Mapping[int, Turn], place: Leaves) -> tuple[Path, set[Leaves]]:
    """Write a pack beside another with other turns at some indices, as of another place of the store's log; it is on disk.

    Returns its path, and as of which places the old one was written. Raises OSError where nothing can be written, `ValueError`
    for a damaged pack.
    """
    made = new_path(path)
    places = set()
    with _opened(path, os.O_RDONLY) as old, _opened(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as new:
        offset = 0
        for extent in _extents(old):
            held = _block(old, extent)
            places.add(held.place)
            here = {index: turn for index, turn in turns.items() if held.start <= index < held.end}
            if here:
                kept = [here.get(turn.index, turn) for turn in held.turns(held.start, held.end)]
                data = block.encode(held.session_id, held.starts_at, kept, place)
            else:
                data = block.moved(os.pread(old, extent.size, extent.offset), place)
            write_all(new, data, offset)
            offset += len(data)
        os.fsync(new)
    return made, places


def new_path(path: Path) -> Path:
    """Return where a file stands while it is written."""
    return path.with_name(f"{path.name}.new")


def extend(path: Path, turns: Sequence[Turn], session_id: str, starts_at: int, place: Leaves) -> None:
    """Write turns into a pack, from the index of the first on; they must go on from what it holds before, or be the first.

    Blocks are full but for the last one, which is written again. Raises OSError where nothing can be written.
    """
    _make(path.parent.parent)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with _opened(path, os.O_RDWR | os.O_CREAT) as descriptor:
        before = [extent for extent in _extents(descriptor) if extent.start < turns[0].index]
        kept = list(turns)
        if before and (before[-1].end > turns[0].index or before[-1].end - before[-1].start < MOST):
            short = before.pop()
            kept[:0] = _block(descriptor, short).turns(short.start, turns[0].index)
        data = b"".join(
            block.encode(session_id, starts_at, kept[at : at + MOST], place) for at in range(0, len(kept), MOST)
        )
        offset = before[-1].offset + before[-1].size if before else 0
        write_all(descriptor, data, offset)
        os.ftruncate(descriptor, offset + len(data))
