"""The log of leaves: the lines that the commits of a store leave behind, chained, as its records hold them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from trails.integrity import leaves
from trails.integrity.leaves import Leaf
from trails.integrity.merkle import Frontier
from trails.integrity.verifier.merkle_checks import leaf_hash


class Leaves(NamedTuple):
    """How far a log of leaves reaches: how many lines, the number of the record with the last one, and the link of that."""

    lines: int
    number: int
    link: str


NOTHING: Final = Leaves(0, 0, leaves.START)
"""How far a log reaches that has no line."""


class Records(Protocol):
    """What a log of leaves is read from."""

    @property
    def trouble(self) -> str | None:
        """What is wrong with where it is kept; None if nothing is."""
        ...

    def lines(self, number: int) -> int:
        """Return how many lines there are after a record."""
        ...

    def leaves(self, after: int, until: int, *, backwards: bool = False) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Yield the number of lines after each record between two numbers, with the lines of its leaves."""
        ...


class KeptLines:
    """Lines that are kept in memory, as if one record had left them all."""

    trouble: str | None = None

    def __init__(self, kept: Sequence[str], number: int) -> None:
        self.number = number
        self._kept = tuple(kept)

    def lines(self, number: int) -> int:
        """Return how many lines there are after a record."""
        return len(self._kept) if number >= self.number else 0

    def leaves(self, after: int, until: int, *, backwards: bool = False) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Yield all lines, if they are between two numbers."""
        if after < self.number <= until:
            yield len(self._kept), self._kept


class LeafLog:
    """The log of leaves as one index has it: up to the last record that this has brought in."""

    def __init__(self, records: Records, number: int = 0) -> None:
        """Begin after the record with a number."""
        self.records = records
        """What it is read from."""
        self._reached = self._told = _reached(records, number)
        self._hashing = threading.Lock()
        self._hashed = NOTHING
        self._tree = Frontier()
        self.source: Callable[[], str | None] | None = None
        """Reads the whole log of records, and returns what is wrong with it, or None."""
        self.listener: Callable[[Sequence[Leaf]], None] | None = None
        """Called with the leaves of commits once they are in the log: only to take note of them."""

    @property
    def trouble(self) -> str | None:
        """What is wrong with where the log is kept; None if nothing is."""
        return self.records.trouble

    @property
    def reached(self) -> Leaves:
        """How far the log reaches."""
        return self._reached

    def advance(self, after: Leaves) -> None:
        """Note how far the log reaches now."""
        self._reached = after

    def tell(self, made: Sequence[Leaf], after: Leaves) -> None:
        """Tell the listener of leaves that were appended up to a place, once the listener can read what they tell of."""
        if self.listener is not None and self._told != after:
            self.listener(made)
        self._told = after

    @property
    def is_empty(self) -> bool:
        """Whether there is no line yet."""
        return not self._reached.lines

    def lines(self) -> list[str]:
        """Return all lines, in order."""
        return self.since(NOTHING)[0]

    def text(self) -> str:
        """Return all lines as one text, each with its newline."""
        return "".join(f"{line}\n" for line in self.lines())

    def since(self, start: Leaves) -> tuple[list[str], Leaves]:
        """Return the lines that come after a place that the log holds, in order, and how far they reach."""
        reached = self._reached
        return self._between(start, reached), reached

    def _between(self, start: Leaves, end: Leaves) -> list[str]:
        return [line for _, told in self.records.leaves(start.number, end.number) for line in told]

    def record_of(self, lines: int) -> int:
        """Return the number of the first record after which the log has so many lines."""
        low, high = 0, self._reached.number
        while low < high:
            middle = (low + high) // 2
            if self.records.lines(middle) < lines:
                low = middle + 1
            else:
                high = middle
        return low

    def holds(self, place: Leaves) -> bool:
        """Tell whether the log once reached to a place: it has that many lines there, and the same link."""
        if place in (NOTHING, self._reached):
            return True
        return 0 < place.number <= self._reached.number and self._ends(place)

    def _ends(self, place: Leaves) -> bool:
        """Tell whether the record with a place's number has its last line there, with its link."""
        found = next(self.records.leaves(place.number - 1, place.number), (0, ()))
        return found[0] == place.lines and bool(found[1]) and leaves.link_leaf(found[1][-1]) == place.link

    def until(self, place: Leaves) -> list[str] | None:
        """Return the lines that others appended since this log was read, up to a later place; None if there is no such place."""
        if place.number <= self._reached.number or not self._ends(place):
            return None
        return self._between(self._reached, place)

    def root(self) -> tuple[int, bytes]:
        """Return how many lines there are, and the root of the Merkle tree over them; each line is hashed once.

        It is the tree of `trails.integrity.merkle`, as checkpoints sign it, over the lines without their newlines.
        """
        with self._hashing:
            lines, self._hashed = self.since(self._hashed)
            for line in lines:
                self._tree.append(leaf_hash(line.encode()))
            return self._tree.size, self._tree.root()


def _reached(records: Records, number: int) -> Leaves:
    """Return how far a log reaches after a record: to the last line before or in that."""
    lines = records.lines(number)
    if not lines:
        return NOTHING
    at = number
    for _, told in records.leaves(0, number, backwards=True):
        if told:
            return Leaves(lines, at, leaves.link_leaf(told[-1]))
        at -= 1
    return NOTHING


def lines_after(made: Sequence[Leaf], before: Leaves) -> tuple[list[str], Leaves]:
    """Return the lines that leaves have in the record after a place, and how far these reach; the number is not known yet."""
    lines, link = [], before.link
    for leaf in made:
        line = leaf.line(link)
        lines.append(line)
        link = leaves.link_leaf(line)
    return lines, Leaves(before.lines + len(lines), before.number, link)
