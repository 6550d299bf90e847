"""Circles in a graph of numbered nodes: which nodes lie on one, and the shortest through an edge."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final

_WORK: Final = 20_000_000
"""How many steps the search for more than one circle in a component may take, all components together."""


class Edges:
    """The edges of a graph, each by its number: where it leaves from and where it leads to."""

    __slots__ = ("sources", "targets")

    def __init__(self) -> None:
        """There are none yet."""
        self.sources: list[int] = []
        self.targets: list[int] = []

    def outgoing(self, nodes: int) -> list[list[int]]:
        """Return the edges that leave each of the nodes, which are numbered from 0."""
        found: list[list[int]] = [[] for _ in range(nodes)]
        for edge, source in enumerate(self.sources):
            found[source].append(edge)
        return found


def components(edges: Edges, outgoing: Sequence[Sequence[int]]) -> list[int]:
    """Return, for each node, the number of its strongly connected component (Tarjan 1972, without recursion).

    Components are numbered from the last to the first: no edge leads to a higher number.
    """
    targets = edges.targets
    count = len(outgoing)
    index = [0] * count
    low = [0] * count
    component = [-1] * count
    stack: list[int] = []
    seen = made = 0
    for root in range(count):
        if index[root]:
            continue
        seen += 1
        index[root] = low[root] = seen
        stack.append(root)
        work = [(root, iter(outgoing[root]))]
        while work:
            node, ways = work[-1]
            for edge in ways:
                other = targets[edge]
                if not index[other]:
                    seen += 1
                    index[other] = low[other] = seen
                    stack.append(other)
                    work.append((other, iter(outgoing[other])))
                    break
                if component[other] < 0 and index[other] < low[node]:
                    low[node] = index[other]
            else:
                work.pop()
                if work and low[node] < low[work[-1][0]]:
                    low[work[-1][0]] = low[node]
                if low[node] == index[node]:
                    while component[node] < 0:
                        component[stack.pop()] = made
                    made += 1
    return component


def circles(edges: Edges, nodes: int, wanted: Callable[[int], bool]) -> Iterator[list[int]]:
    """Yield circles, as edges, so that each wanted edge that is on any circle is in one that is yielded.

    Each is a shortest one through its first edge. A component where that would take too long gives one circle only.
    """
    outgoing = edges.outgoing(nodes)
    component = components(edges, outgoing)
    told: set[int] = set()
    told_of: set[int] = set()
    work = _WORK
    for edge, target in enumerate(edges.targets):
        here = component[target]
        if component[edges.sources[edge]] != here or edge in told or not wanted(edge):
            continue
        if work <= 0 and here in told_of:
            continue
        way, steps = _shortest(edges, outgoing, component, target, edges.sources[edge])
        work -= steps
        told.update((edge, *way))
        told_of.add(here)
        yield [edge, *way]


def _shortest(
    edges: Edges, outgoing: Sequence[Sequence[int]], component: Sequence[int], start: int, end: int
) -> tuple[list[int], int]:
    """Return the edges of a shortest way within one component, and how many steps finding it took."""
    came: dict[int, int] = {}
    queue = deque([start])
    steps = 0
    while queue and end not in came and start != end:
        for edge in outgoing[queue.popleft()]:
            steps += 1
            other = edges.targets[edge]
            if other not in came and other != start and component[other] == component[start]:
                came[other] = edge
                queue.append(other)
    way: list[int] = []
    node = end
    while node != start:
        way.append(came[node])
        node = edges.sources[came[node]]
    return way[::-1], steps
