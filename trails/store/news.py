"""What the last commits added, kept in mind for whoever brings up to date what he has read before."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Final, NamedTuple

import pyoxigraph as ox

from trails.store.committing import Batch

_COMMITS: Final = 1_000
"""Commits, at most, that are kept in mind."""


class _New(NamedTuple):
    number: int
    graphs: frozenset[object]
    quads: Sequence[ox.Quad]
    size: int


class News:
    """The last commits of a store, as long as they only add. One thread at a time tells of them, any may ask."""

    def __init__(self, most: int) -> None:
        """Keep commits in mind of which the sizes (`Settled.size`) are `most` together."""
        self._most = most
        self._kept: deque[_New] = deque()
        self._size = 0

    def take(self, first: int, batch: Batch) -> None:
        """Keep commits in mind, of which the first has a number. Doing it twice is allowed."""
        for number, each in enumerate(batch.settled, first):
            if each.remove or each.record.drop:
                self.forget()
            elif not self._kept or number > self._kept[-1].number:
                self._kept.append(_New(number, frozenset(quad.graph_name for quad in each.add), each.add, each.size))
                self._size += each.size
        while self._kept and (self._size > self._most or len(self._kept) > _COMMITS):
            self._size -= self._kept.popleft().size

    def forget(self) -> None:
        """Know of nothing any more: something was removed, or added by no commit."""
        self._kept = deque()
        self._size = 0

    def of(self, graph: ox.NamedNode, after: int, until: int) -> list[ox.Quad] | None:
        """Return what the commits after one, up to another, added to a graph, in order; None where that is not known."""
        kept = self._kept.copy()
        if after >= until:
            return []
        if not kept or kept[0].number > after + 1 or kept[-1].number < until:
            return None
        first = after + 1 - kept[0].number
        return [
            quad
            for new in islice(kept, first, first + until - after)
            if graph in new.graphs
            for quad in new.quads
            if quad.graph_name == graph
        ]
