"""The log of leaves beside a store: one file of lines, what every commit leaves behind, chained and never rewritten.

The leaves stand in the commits' records first, which are synced. This file is brought to disk whenever the engine is
flushed; until then its end is made from the records again, whatever a crash left of it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from trails.errors import StoreFailed
from trails.files import open_own
from trails.integrity import leaves
from trails.integrity.leaves import Leaf
from trails.integrity.merkle import Frontier, leaf_hash
from trails.store.commitlog import Leaves
from trails.store.placed import Placed, moved
from trails.store.syncing import sync_data, sync_folder, write_all

_TAIL = 4096
_STEP = 64 << 10
_MOST = 4 << 20
"""Bytes that are read at once, first and at most, where the log is looked through backwards."""
NOTHING = Leaves(0, 0, leaves.START)
"""How far a log reaches that has no line."""


class LeafLog:
    """The log of a store: lines in memory for a store in memory (`path` None), else in a file."""

    def __init__(
        self,
        path: Path | None,
        reached: Leaves = NOTHING,
        more: Sequence[str] = (),
        *,
        believe: bool = True,
        read_only: bool = False,
    ) -> None:
        """Open a log that is known to reach to some place, and make its end from the lines that come after.

        Whole lines that go on from there stay: a line is written once its record is on disk, so what they tell of was
        acknowledged, and is missing in the store (`went_on`). Anything else is what a crash left, and is cut off; these
        lines too where they are not to be believed, because records were written that nobody synced. With `read_only` the
        file, which must be there, is left as it is, and only what would be in it is told.
        """
        self._path = path
        self._memory: list[str] = []
        self.went_on = False
        """Whether the file told of more than the commit log does."""
        self.lacks_lines = False
        """Whether lines of the commit log were not in the file yet."""
        self._lock = threading.Lock()
        self._reached = reached
        self._told = reached
        self._hashing = threading.Lock()
        self._hashed = Leaves(0, 0, leaves.START)
        self._tree = Frontier()
        self._descriptor = -1
        self._trouble: str | None = None
        self._places: Sequence[Placed] = ()
        """The files that have to stay where they were opened: its own first."""
        self.source: Callable[[], str | None] | None = None
        """Where the truth of the log is elsewhere, reads all of it there and says what is wrong with it, or None."""
        self.listener: Callable[[Sequence[Leaf]], None] | None = None
        """Called with the leaves of commits once they are in the log, under its lock: only to take note of them."""
        if path is not None:
            new = not read_only and not path.exists()
            flags = os.O_RDONLY if read_only else os.O_RDWR | os.O_CREAT
            self._descriptor = open_own(path, flags)
            if new:
                sync_folder(path.parent)
            self._take_up(more, believe=believe, write=not read_only)

    def _take_up(self, more: Sequence[str], *, believe: bool, write: bool) -> None:
        """Bring the file to where the commit log says that it is."""
        size = os.fstat(self._descriptor).st_size
        tail = os.pread(self._descriptor, _TAIL, max(0, self._reached.size - _TAIL))
        before = tail[: min(self._reached.size, _TAIL)]
        last = before[:-1].rpartition(b"\n")[2].decode("utf-8", "replace")
        if size < self._reached.size or (
            before and (before[-1:] != b"\n" or leaves.link_leaf(last) != self._reached.link)
        ):
            self._trouble = (
                f"the log of leaves was cut short or altered before its line {self._reached.lines + 1}: the commit log "
                "says that it ended otherwise"
            )
        text = "".join(f"{line}\n" for line in more).encode()
        after = os.pread(self._descriptor, max(0, size - self._reached.size), self._reached.size)
        rest = _going_on(after[len(text) :], self._end_of(more)) if believe and after.startswith(text) else []
        self.went_on = bool(rest)
        self.lacks_lines = not after.startswith(text)
        text += "".join(f"{line}\n" for line in rest).encode()
        if write and after != text:
            write_all(self._descriptor, text, self._reached.size)
            os.ftruncate(self._descriptor, self._reached.size + len(text))
        told = [*more, *rest]
        self._reached = Leaves(self._reached.lines + len(told), self._reached.size + len(text), self._end_of(told))

    def _end_of(self, more: Sequence[str]) -> str:
        return leaves.link_leaf(more[-1]) if more else self._reached.link

    @property
    def trouble(self) -> str | None:
        """What is wrong with the place that the commit log says the file reached, or with where the files are; or None."""
        return self._trouble or moved(self._places)

    def keep_in_place(self, others: Sequence[Placed]) -> None:
        """Raise OSError at each `sync` from now on where the file is at its path no more; `trouble` tells that of others too."""
        if self._path is not None:
            self._places = (Placed(self._path, self._descriptor), *others)

    @property
    def reached(self) -> Leaves:
        """How far the log reaches."""
        return self._reached

    def lines_for(self, made: Sequence[Leaf], reached: Leaves | None = None) -> tuple[list[str], Leaves]:
        """Return the lines that leaves will have after a place (default: the last line), and how far these reach."""
        number, size, link = self._reached if reached is None else reached
        lines = []
        for leaf in made:
            line = leaf.line(link)
            lines.append(line)
            link = leaves.link_leaf(line)
            size += len(line.encode()) + 1
        return lines, Leaves(number + len(lines), size, link)

    def append(self, lines: Sequence[str], before: Leaves, after: Leaves) -> None:
        """Add lines that `lines_for` gave at the place `before`; doing it twice is doing it once.

        They are on disk after the next `sync`. Raises OSError when the disk refuses.
        """
        if not lines:
            return
        with self._lock:
            if self._reached != before:
                return
            if self._path is None:
                self._memory += lines
            else:
                write_all(self._descriptor, "".join(f"{line}\n" for line in lines).encode(), before.size)
            self._reached = after

    def tell(self, made: Sequence[Leaf], after: Leaves) -> None:
        """Tell the listener of leaves that were appended up to a place, once those who are told can read what they tell of."""
        with self._lock:
            if self.listener is not None and self._told != after:
                self.listener(made)
            self._told = after

    def sync(self) -> None:
        """Return once every line is on disk; raise OSError where the disk refuses, or another file stands where it was."""
        with self._lock:
            if self._descriptor >= 0:
                sync_data(self._descriptor)
                for own in self._places[:1]:
                    own.refuse_moved()

    @property
    def is_empty(self) -> bool:
        """True when there is no line yet."""
        return not self._reached.lines

    def lines(self) -> list[str]:
        """Return all lines, in order."""
        return self.text().split("\n")[:-1]

    def text(self) -> str:
        """Return all lines as one text, each with its newline."""
        return self._since(NOTHING)[0]

    def since(self, start: Leaves) -> tuple[list[str], Leaves]:
        """Return the lines that come after a place that the log holds, in order, and how far they reach."""
        text, reached = self._since(start)
        return text.split("\n")[:-1], reached

    def holds(self, place: Leaves) -> bool:
        """Tell whether the log once reached to a place: it has that many lines and bytes there, and the same link."""
        with self._lock:
            if place in (NOTHING, self._reached):
                return True
            if not 0 < place.lines <= self._reached.lines or not 0 < place.size <= self._reached.size:
                return False
            if self._path is None:
                return leaves.link_leaf(self._memory[place.lines - 1]) == place.link
            before = os.pread(self._descriptor, min(place.size, _TAIL), max(0, place.size - _TAIL))
            last = before[:-1].rpartition(b"\n")[2].decode("utf-8", "replace")
            return before[-1:] == b"\n" and leaves.link_leaf(last) == place.link

    def until(self, place: Leaves) -> list[str] | None:
        """Return the lines that somebody wrote since this log was opened to be read, up to a later place of the same log.

        None where the file does not have just those.
        """
        with self._lock:
            reached = self._reached
            wanted = place.size - reached.size
            if self._path is None or wanted <= 0 or place.lines <= reached.lines:
                return None
            lines = os.pread(self._descriptor, wanted, reached.size).decode("utf-8", "replace").split("\n")
        if lines.pop() or len(lines) != place.lines - reached.lines or leaves.link_leaf(lines[-1]) != place.link:
            return None
        return lines

    def last_lines(self, begins: Iterable[str], start: Leaves, end: Leaves) -> dict[str, tuple[int, str]]:
        """Return, by each of some beginnings, the last line between two places that begins so, with where it stands.

        What no line there begins with is left out. Later lines stand at greater places. The newest lines are read first.
        """
        wanted, found = {begin: f"\n{begin}".encode() for begin in begins}, dict[str, tuple[int, str]]()
        for at, text in self._backwards(start, end):
            for begin, needle in list(wanted.items()):
                place = text.rfind(needle)
                if place >= 0:
                    line = text[place + 1 : text.find(b"\n", place + 1)]
                    found[begin] = at + place, line.decode("utf-8", "replace")
                    del wanted[begin]
            if not wanted:
                break
        return found

    def _backwards(self, start: Leaves, end: Leaves) -> Iterator[tuple[int, bytes]]:
        """Yield what stands between two places, the last part first: whole lines, each with the newline before and after it."""
        if self._path is None:
            with self._lock:
                lines = self._memory[start.lines : end.lines]
            if lines:
                yield 0, ("\n" + "\n".join(lines) + "\n").encode()
            return
        upper, step = end.size, _STEP
        while upper > start.size:
            lower = max(start.size, upper - step)
            with self._lock:
                text = os.pread(self._descriptor, upper - lower, lower)
            first = 0 if lower == start.size else text.find(b"\n") + 1
            if first or lower == start.size:
                yield lower + first, b"\n" + text[first:]
                upper = lower + first
            if upper == start.size or not text:
                return
            step = min(2 * step, _MOST) if first else 2 * step  # a line is never that long

    def _since(self, start: Leaves) -> tuple[str, Leaves]:
        """Return the lines that come after a place, each with its newline, and how far they reach."""
        with self._lock:
            if self._path is None:
                return "".join(f"{line}\n" for line in self._memory[start.lines :]), self._reached
            data, size = b"", self._reached.size - start.size
            try:
                while len(data) < size and (
                    more := os.pread(self._descriptor, size - len(data), start.size + len(data))
                ):
                    data += more
            except OSError as error:
                raise StoreFailed(
                    f"the log {self._path} cannot be read: {error}; open the store again once its disk is well"
                ) from error
            return data.decode("utf-8", "replace"), self._reached

    def root(self) -> tuple[int, bytes]:
        """Return how many lines there are, and the root of the Merkle tree over them; each line is hashed once.

        It is the tree of `trails.integrity.merkle`, as checkpoints sign it, over the lines without their newlines.
        """
        with self._hashing:
            text, self._hashed = self._since(self._hashed)
            for line in text.split("\n")[:-1]:
                self._tree.append(leaf_hash(line.encode()))
            return self._tree.size, self._tree.root()

    def close(self) -> None:
        """Close the file; closing twice is allowed."""
        with self._lock:
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1


def _going_on(rest: bytes, link: str) -> list[str]:
    """Return the whole lines that go on from a link, one after the other."""
    found: list[str] = []
    for data in rest.split(b"\n")[:-1]:
        line = data.decode("utf-8", "replace")
        if not leaves.follows(line, f"- {link}"):
            break
        found.append(line)
        link = leaves.link_leaf(line)
    return found
