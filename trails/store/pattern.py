"""Patterns of quads: what a store is asked for, and what a commit forbids."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import pyoxigraph as ox

from trails.rdf import vocab

Pattern = tuple[
    ox.NamedNode | None, ox.NamedNode | None, ox.NamedNode | ox.Literal | None, ox.NamedNode | ox.DefaultGraph | None
]
"""Subject, predicate, object, graph; None matches anything."""
NOTHING: Final[Pattern] = (vocab.RUN, None, None, vocab.CATALOG)
"""Matches no quad: whoever asks a store for it has that bring in what others committed."""


def matches(quad: ox.Quad, pattern: Pattern) -> bool:
    """Tell whether a quad matches a pattern."""
    subject, predicate, value, graph = pattern
    return (
        (predicate is None or quad.predicate == predicate)
        and (subject is None or quad.subject == subject)
        and (value is None or quad.object == value)
        and (graph is None or quad.graph_name == graph)
    )


_BY_VALUE: Final = frozenset({vocab.SOURCE_ID})


class Mentions:
    """What many quads speak of: tells of most patterns in a moment that none of them can match.

    Of those in the default graph it knows subjects, predicates and values, of all others the graphs, and the values of
    predicates that are looked up by value for each message.
    """

    def __init__(self) -> None:
        self._keys = set[object]()

    def add(self, quads: Iterable[ox.Quad]) -> None:
        """Put in quads."""
        for quad in quads:
            graph = quad.graph_name
            self._keys.add(graph)
            if type(graph) is ox.DefaultGraph:
                self._keys |= {(quad.subject, None), (None, quad.predicate), (quad.predicate, quad.object)}
            elif quad.predicate in _BY_VALUE:
                self._keys.add((graph, quad.predicate, quad.object))

    def may_match(self, pattern: Pattern) -> bool:
        """Tell whether one of the quads may match a pattern."""
        subject, predicate, value, graph = pattern
        if not isinstance(graph, ox.DefaultGraph):
            if graph is None or graph not in self._keys:
                return graph is None and bool(self._keys)
            return value is None or predicate not in _BY_VALUE or (graph, predicate, value) in self._keys
        return (
            graph in self._keys
            and (subject is None or (subject, None) in self._keys)
            and (predicate is None or ((None, predicate) if value is None else (predicate, value)) in self._keys)
        )


class Found:
    """Quads by graph and predicate, in the order in which they came: most patterns have both."""

    def __init__(self, quads: Iterable[ox.Quad] = ()) -> None:
        """Take quads; they are sorted out once somebody asks: of most commits nobody does."""
        self._unsorted = list(quads)
        self._places: defaultdict[object, defaultdict[object, dict[ox.Quad, None]]] = defaultdict(
            lambda: defaultdict(dict)
        )

    def add(self, quad: ox.Quad) -> None:
        """Put in one more."""
        self._unsorted.append(quad)

    def matching(self, pattern: Pattern) -> Iterator[ox.Quad]:
        """Yield the quads that match a pattern."""
        _, predicate, _, graph = pattern
        unsorted, self._unsorted = self._unsorted, []
        for quad in unsorted:
            self._places[quad.graph_name][quad.predicate][quad] = None
        held = self._places.values() if graph is None else [self._places[graph]] if graph in self._places else []
        for place in held:
            for quads in place.values() if predicate is None else [place[predicate]] if predicate in place else []:
                yield from (quad for quad in quads if matches(quad, pattern))


class Preview:
    """What a store holds, less what a change removes, and with what it adds. What is added or removed here joins the change.

    Reading is exact: a quad that is both removed and added is there.
    """

    def __init__(self, stored: Callable[[Pattern], list[ox.Quad]], add: Found, remove: Iterable[ox.Quad]) -> None:
        """Look at a store (`stored` gives its quads that match a pattern) through a change; `add` gets what joins it."""
        self._stored = stored
        self.read: dict[Pattern, list[ox.Quad]] = {}
        """What the store itself holds, by each pattern that was asked for."""
        self._removed = set(remove)
        self._added = add
        self.more_added: list[ox.Quad] = []
        self.more_removed: list[ox.Quad] = []
        self.more_dropped: list[ox.NamedNode] = []

    def quads(self, pattern: Pattern) -> list[ox.Quad]:
        """Return all quads that match a pattern once the change is written."""
        stored = self.read.get(pattern)
        if stored is None:
            stored = self.read[pattern] = self._stored(pattern)
        added = list(self._added.matching(pattern))
        if not added and not self._removed:
            return list(stored)
        known = set(added)
        return [q for q in stored if q not in self._removed and q not in known] + added

    def add(self, quads: Sequence[ox.Quad]) -> None:
        """Let the change add quads beside its own."""
        self.more_added += quads
        for quad in quads:
            self._removed.discard(quad)
            self._added.add(quad)

    def remove(self, quads: Sequence[ox.Quad]) -> None:
        """Let the change remove quads beside its own: stored ones, which it does not add."""
        self.more_removed += quads
        self._removed.update(quads)

    def drop(self, graph: ox.NamedNode) -> None:
        """Let the change drop a graph to which it adds nothing."""
        self._removed.update(self.quads((None, None, None, graph)))
        self.more_dropped.append(graph)
