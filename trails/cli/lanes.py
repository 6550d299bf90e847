"""The lines of a graph of turns, newest first, as `git log --graph` draws commits. Pure: nothing is read or printed.

A strand is the run of turns that a session owns. Above the turn that a fork leaves, first come the newer turns of its
parent, then the fork's, on a lane further right, then the line that leads it back. So a drawing is as wide as forks are
nested, however many leave one turn.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

_TURN: Final = "●"
_DOWN: Final = "│"
_BACK: Final = "├─╯"
_PLAIN: Final = str.maketrans({"●": "*", "│": "|", "├": "|", "─": "-", "╯": "'"})


@dataclass(frozen=True, slots=True)
class Strand:
    """A session in the drawing: it owns the turns from `start` (inclusive) to `end` (exclusive).

    `parent` is the strand that owns the turn before `start`; None where there is no such turn, or it is not drawn.
    `newness` orders strands: the greatest comes first.
    """

    id: str
    parent: str | None
    start: int
    end: int
    newness: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the drawing: what stands left of it, and the turn that it is of (None for a line that leads back)."""

    graph: str
    strand: str | None = None
    index: int = 0
    lane: int = 0

    def plain(self) -> str:
        """Return the graph in ASCII, for where nothing else can be printed.

        >>> Line("│ ├─╯").plain()
        "| |-'"
        """
        return self.graph.translate(_PLAIN)


def draw(strands: Iterable[Strand]) -> Iterator[Line]:
    """Give the lines of all strands; those that no root leads to (their lineage goes in a circle) come last.

    >>> [line.graph for line in draw([Strand("plan", None, 0, 3), Strand("fork", "plan", 1, 2)])]
    ['●', '●', '│ ●', '├─╯', '●']
    """
    every = {strand.id: strand for strand in strands if strand.start < strand.end}
    ordered = _newest_first(every)
    below: _Forks = defaultdict(list)
    for strand in ordered:
        if strand.parent in every:
            below[strand.parent, min(strand.start, every[strand.parent].end)].append(strand)
    seen: set[str] = set()
    roots = [strand for strand in ordered if strand.parent not in every]
    for root in [*roots, *ordered]:
        if root.id not in seen:
            yield from _strand(root, 0, below, seen)


_Forks = dict[tuple[str | None, int], list[Strand]]
"""The strands that leave a strand at an index, newest first."""


def _newest_first(every: dict[str, Strand]) -> list[Strand]:
    """Return strands in the order in which those that leave one turn are drawn: each is as new as the newest above it."""
    newest = {strand.id: strand.newness for strand in every.values()}
    for strand in every.values():
        above, seen = strand.parent, {strand.id}
        while above is not None and above in every and above not in seen:
            newest[above] = max(newest[above], strand.newness)
            seen.add(above)
            above = every[above].parent
    by_name = sorted(every.values(), key=lambda strand: strand.id)
    return sorted(by_name, key=lambda strand: newest[strand.id], reverse=True)


def _strand(strand: Strand, lane: int, below: _Forks, seen: set[str]) -> Iterator[Line]:
    """Give the lines of a strand and of what leaves it; lanes further left belong to strands that go on below."""
    seen.add(strand.id)
    left = f"{_DOWN} " * lane
    open_above = False
    for end in range(strand.end, strand.start - 1, -1):
        for fork in below.get((strand.id, end), []):
            if fork.id in seen:
                continue
            yield from _strand(fork, lane + open_above, below, seen)
            if open_above:
                yield Line(left + _BACK)
            open_above = True
        if end > strand.start:
            yield Line(left + _TURN, strand.id, end - 1, lane)
            open_above = True
