"""One append-only file of lines beside a store: what every commit leaves behind, chained and never rewritten."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from trails.errors import IntegrityError
from trails.integrity import leaves
from trails.integrity.leaves import Leaf

_TAIL: Final = 4096


class LeafLog:
    """The log of a store: lines in memory for a store in memory (`path` None), else in a file."""

    def __init__(self, path: Path | None) -> None:
        """Open or start a log. What a crash or a power cut left of lines that were never on disk is cut off."""
        self._path = path
        self._memory: list[str] = []
        self._lock = threading.Lock()
        self._dirty = False
        self.listener: Callable[[Sequence[Leaf]], None] | None = None
        """Called with the leaves of commits once they are in the log, under its lock: only to take note of them."""
        self._descriptor = -1
        self._last: str | None = None
        if path is not None:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            if not os.fstat(self._descriptor).st_size:
                sync_folder(path.parent)
            self._cut_torn_tail()
            self._last = self._read_last()
        self._link = leaves.START if self._last is None else leaves.link(self._last)
        """What the next line says of the last one."""

    @property
    def ended_well(self) -> bool:
        """True when the last thing that happened to the store was that it was closed in good order, or nothing at all."""
        return self._last is None or self._last.startswith("close ")

    def append(self, made: Iterable[Leaf]) -> None:
        """Add leaves in one write; they are on disk after the next `sync`. Raises OSError when the disk refuses."""
        with self._lock:
            if self.listener is None:
                self._append(made)
                return
            leaves_made = list(made)
            self._append(leaves_made)
            self.listener(leaves_made)

    def _append(self, made: Iterable[Leaf]) -> None:
        previous = self._link
        lines = []
        for leaf in made:
            line = leaf.line(previous)
            lines.append(line)
            previous = leaves.link(line)
        if not lines:
            return
        if self._path is None:
            self._memory += lines
        else:
            self._write("".join(f"{line}\n" for line in lines).encode())
        self._last, self._link = lines[-1], previous
        self._dirty = True

    def _write(self, data: bytes) -> None:
        """Write all of `data` or, where the disk refuses, nothing of it."""
        written = 0
        try:
            while written < len(data):
                written += os.write(self._descriptor, data[written:])
        except OSError:
            if written:
                os.ftruncate(self._descriptor, os.fstat(self._descriptor).st_size - written)
            raise

    def begin(self) -> None:
        """Make it known on disk that the store is no longer closed, before anything is written to it.

        The leaves to come are on disk only later; if a power cut took them all, the log would still say "closed".
        """
        with self._lock:
            if self._path is not None and self._last is not None and self.ended_well:
                self._append([Leaf("sync")])
                os.fdatasync(self._descriptor)

    def sync(self) -> None:
        """Return once every leaf is on disk, and note that in the log: what comes before the note can't be torn."""
        with self._lock:
            if self._dirty and self._path is not None:
                os.fdatasync(self._descriptor)
                self._append([Leaf("sync")])  # itself on disk with the next one: without it, an earlier note holds
            self._dirty = False

    @property
    def is_empty(self) -> bool:
        """True when there is no line yet."""
        return self._last is None

    def lines(self) -> list[str]:
        """Return all lines, in order."""
        return self.text().split("\n")[:-1]

    def text(self) -> str:
        """Return all lines as one text, each with its newline."""
        with self._lock:
            if self._path is None:
                return "".join(f"{line}\n" for line in self._memory)
            size = os.fstat(self._descriptor).st_size
            data = os.pread(self._descriptor, size, 0) if size else b""
            while len(data) < size:
                more = os.pread(self._descriptor, size - len(data), len(data))
                if not more:
                    break
                data += more
            return data.decode("utf-8", "replace")

    def close(self, *, in_good_order: bool) -> None:
        """Close the file, with a last leaf that says so where the store is whole; closing twice is allowed."""
        if self._path is not None and self._descriptor < 0:
            return
        with self._lock:
            if in_good_order and not self.ended_well and self._path is not None:
                os.fdatasync(self._descriptor)
                self._append([Leaf("close")])  # after the sync, as `sync` does: a power cut leaves no hole before it
                os.fdatasync(self._descriptor)
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1

    def _cut_torn_tail(self) -> None:
        """Cut off everything from the first line that follows nothing, looking only beyond what is known to be on disk.

        A power cut may leave some pages of what was not synced and lose others, so whole lines may stand behind a hole.
        A line that is wrong and was on disk before was altered: it stays, for `verify` to find.
        """
        size = os.fstat(self._descriptor).st_size
        tail = os.pread(self._descriptor, min(size, _TAIL), max(0, size - _TAIL))
        last = tail[:-1].split(b"\n")
        if not size or (tail.endswith(b"\n") and last[-1].startswith(b"close ") and _follows(last, len(last) - 1)):
            return
        data = b"".join(iter(lambda: os.read(self._descriptor, 1 << 24), b""))
        end, before = _known_synced(data)
        for line in data[end:].split(b"\n")[:-1]:
            if not _follows([*before, line], len(before)):
                break
            end, before = end + len(line) + 1, [line]
        if end != size:
            os.ftruncate(self._descriptor, end)

    def _read_last(self) -> str | None:
        size = os.fstat(self._descriptor).st_size
        if not size:
            return None
        tail = os.pread(self._descriptor, min(size, _TAIL), max(0, size - _TAIL))
        return tail[:-1].rpartition(b"\n")[2].decode("utf-8", "replace")


def sync_folder(path: Path) -> None:
    """Return once the names of a folder's files are on disk: a file may survive a power cut and its name not."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _known_synced(data: bytes) -> tuple[int, list[bytes]]:
    """Return where the last note that all before it is on disk ends, and (as a list of one) the line; (0, []) for none."""
    end = len(data)
    while (end := max(data.rfind(b"\nsync ", 0, end), data.rfind(b"\nclose ", 0, end))) > 0:
        stop = data.find(b"\n", end + 1)
        around = [data[data.rfind(b"\n", 0, end) + 1 : end], data[end + 1 : stop]]
        if stop > 0 and _follows(around, 1):
            return stop + 1, around[1:]
    return 0, []


def _follows(lines: list[bytes], number: int) -> bool:
    """Tell whether a line is a leaf that follows the line before it."""
    try:
        line = lines[number].decode()
        leaves.parse(line)
    except (IntegrityError, UnicodeDecodeError):
        return False
    return leaves.follows(line, lines[number - 1].decode("utf-8", "replace") if number else None)
