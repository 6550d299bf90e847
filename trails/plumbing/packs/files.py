"""The files of packs: one a session, in a folder that may be removed at any time."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from trails.files import open_plain
from trails.model import Turn
from trails.plumbing.packs import block
from trails.plumbing.packs.block import MOST, Block, Damaged
from trails.store.commitlog import Leaves
from trails.store.syncing import write_all

SUFFIX = ".pack"


class Extent(NamedTuple):
    """Where a block stands in its file, and which turns it says that it holds."""

    offset: int
    size: int
    start: int
    end: int


def path_of(folder: Path, session_id: str) -> Path:
    """Return where a session's pack stands in the folder of packs: by a hash of its id, which may have any characters."""
    name = hashlib.sha256(session_id.encode()).hexdigest()[:32]
    return folder / name[:2] / f"{name[2:]}{SUFFIX}"


def all_of(folder: Path) -> list[Path]:
    """Return the packs that there are."""
    return sorted(folder.glob(f"??/*{SUFFIX}"))


def put(path: Path, data: bytes) -> None:
    """Write a small file beside the packs, in the place of what is there, whole or not at all."""
    _make(path.parent)
    made = path.with_name(f"{path.name}.new")
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
    found: list[Extent] = []
    at, end = 0, os.fstat(descriptor).st_size
    while at < end:
        head = block.head(os.pread(descriptor, block.HEAD_SIZE, at))
        if head is None or at + head.size > end or (found and head.start != found[-1].end):
            break
        found.append(Extent(at, head.size, head.start, head.start + head.length))
        at += head.size
    return found


def _block(descriptor: int, extent: Extent) -> Block:
    return Block(os.pread(descriptor, extent.size, extent.offset))


def read(path: Path, start: int, end: int) -> list[Block]:
    """Return the blocks of a pack that hold the turns between two indices, the latter exclusive, as far as they are whole.

    Raises OSError where the file cannot be read; there need be none.
    """
    found: list[Block] = []
    with _opened(path, os.O_RDONLY) as descriptor:
        wanted = [extent for extent in _extents(descriptor) if extent.end > start and extent.start < end]
        if not wanted:
            return found
        offset = wanted[0].offset
        data = os.pread(descriptor, wanted[-1].offset + wanted[-1].size - offset, offset)
    for extent in wanted:
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
