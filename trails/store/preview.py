"""The store as it will be after a change that is not yet written: what the leaves of a commit are made from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

import pyoxigraph as ox

from trails.store.pattern import Pattern, matches


class Preview:
    """What a store holds, less what a change removes, and with what it adds. What is added or removed here joins the change.

    Reading is exact: a quad that is both removed and added is there.
    """

    def __init__(
        self, stored: Callable[[Pattern], list[ox.Quad]], add: Sequence[ox.Quad], remove: Sequence[ox.Quad]
    ) -> None:
        """Look at a store (`stored` gives its quads that match a pattern) through a change."""
        self._stored = stored
        self._removed = set(remove)
        self._given = add
        self._places: defaultdict[object, dict[ox.Quad, None]] | None = None
        self.more_added: list[ox.Quad] = []
        self.more_removed: list[ox.Quad] = []

    def quads(self, pattern: Pattern) -> list[ox.Quad]:
        """Return all quads that match a pattern once the change is written."""
        added = [quad for quad in self._candidates(pattern[3]) if matches(quad, pattern)]
        known = set(added)
        return [q for q in self._stored(pattern) if q not in self._removed and q not in known] + added

    def add(self, quads: Sequence[ox.Quad]) -> None:
        """Let the change add quads beside its own."""
        self.more_added += quads
        for quad in quads:
            self._removed.discard(quad)
            self._by_graph()[quad.graph_name][quad] = None

    def remove(self, quads: Sequence[ox.Quad]) -> None:
        """Let the change remove quads beside its own: stored ones, which it does not add."""
        self.more_removed += quads
        self._removed.update(quads)

    def _candidates(self, graph: object) -> Sequence[ox.Quad] | dict[ox.Quad, None]:
        places = self._by_graph()
        if graph is None:
            return [quad for quads in places.values() for quad in quads]
        return places.get(graph, ())

    def _by_graph(self) -> defaultdict[object, dict[ox.Quad, None]]:
        """Return what is added, by graph: sorted out only once somebody asks, for most commits nobody does."""
        if self._places is None:
            self._places = defaultdict(dict)
            for quad in self._given:
                self._places[quad.graph_name][quad] = None
        return self._places
