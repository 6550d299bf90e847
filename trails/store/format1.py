"""What a store of format 1 lacks: a commit log. Its engine's own log was synced by guess, its log of leaves written after.

So after an end without a close its last leaves may be missing, or torn: what stands in the engine then cannot be told
from what was put there. Bringing such a store up takes what it finds, once, and says so.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from trails.errors import IntegrityError
from trails.integrity import leaves
from trails.store import maintenance, marker
from trails.store.commitlog import Leaves, RecordFiles
from trails.store.leaflog import NOTHING


def begin_commit_log(folder: Path) -> None:
    """Give a store's folder an id and an empty commit log that goes on from its log of leaves; twice is once."""
    note = marker.read(folder)
    if "id" not in note:
        note |= {"id": secrets.token_hex(16)}
        marker.write(folder, note)
    RecordFiles.make(folder / maintenance.COMMITS, bytes.fromhex(note["id"]), whole_lines(folder / maintenance.LOG))


def ended_well(folder: Path) -> bool:
    """Tell whether the store's log says that it was closed in good order, or that nothing ever happened in it."""
    file = folder / maintenance.LOG
    lines = file.read_bytes().split(b"\n") if file.exists() else [b""]
    return len(lines) == 1 or (lines[-1] == b"" and lines[-2].startswith(b"close "))


def whole_lines(log: Path) -> Leaves:
    """Return how far a log of format 1 reaches: up to the first line, after the last that is known to be on disk, that is
    torn or follows nothing. A line before that which is wrong was altered, and stays for `verify` to find.
    """
    lines = log.read_bytes().split(b"\n")[:-1] if log.exists() else []
    known = max((n for n, line in enumerate(lines, 1) if line.startswith((b"sync ", b"close "))), default=0)
    count = known
    while count < len(lines) and _follows(lines, count):
        count += 1
    if not count:
        return NOTHING
    last = lines[count - 1].decode("utf-8", "replace")
    return Leaves(count, sum(len(line) + 1 for line in lines[:count]), leaves.link_leaf(last))


def _follows(lines: list[bytes], number: int) -> bool:
    try:
        line = lines[number].decode()
        leaves.parse_leaf(line)
    except (IntegrityError, UnicodeDecodeError):
        return False
    return leaves.follows(line, lines[number - 1].decode("utf-8", "replace") if number else None)
