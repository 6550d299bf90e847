"""All of a store as it was, out of a copy of its files: what was not there yet is taken out, and the catalog is exchanged.

Most of a store is as it was. So what must be read one by one is little, and nothing of it is written anew; where more would
go than stay, nothing is gained, and what was there is copied as for a store that has no files.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import pyoxigraph as ox

from trails.errors import TrailsError
from trails.model import iris
from trails.rdf import query_files, vocab
from trails.store.contract import Matching, QuadStore
from trails.store.frozen import Frozen
from trails.store.nearby import Freezing


class Past(Protocol):
    """What was there then."""

    @property
    def store(self) -> QuadStore:
        """The store as it is."""
        ...

    def was(self, graph: str, subject: str) -> bool:
        """Tell whether a subject of a graph that was there was there too."""
        ...

    def leads_below(self, graph: str, quad: ox.Quad) -> bool:
        """Tell whether a quad of what was there names something that was not."""
        ...

    def are_whole(self, within: Matching) -> bool:
        """Tell whether each session has the last turn that it had then."""
        ...


def whole(past: Past, catalog: Sequence[ox.Quad], graphs: Collection[str], location: str) -> Frozen | None:
    """Return all that was there then, given the graphs and what the catalog held; None where it is better copied.

    That is so where the store has no files of its own, they cannot be linked to, more would go than stay, or something is
    not as the log has it: whoever copies it says what.
    """
    made = past.store.frozen(location) if isinstance(past.store, Freezing) else None
    with suppress(OSError, RuntimeError, TrailsError):  # of a full disk, say, or it was let go meanwhile
        if made is not None and made.change(partial(_cut, made, past, catalog, frozenset(graphs))):
            return made
    return None


@dataclass(slots=True)
class _Found:
    """What was found in a copy: which graphs have something of then, and what must go."""

    graphs: set[str] = field(default_factory=set)
    late: dict[str, set[str]] = field(default_factory=dict)
    """By graph, the subjects that were not there, as they are written."""
    kept: int = 0

    @classmethod
    def of(cls, rows: Iterable[Sequence[str]], past: Past, graphs: Collection[str]) -> _Found:
        """Go through the (graph, subject) of a copy."""
        found = cls()
        for written, term in rows:
            graph, subject = written[1:-1], term[1:-1] if term[0] == "<" else term[2:]
            if graph in graphs and past.was(graph, subject):
                found.kept += 1
                if subject != graph or iris.is_session(graph):
                    found.graphs.add(graph)  # what names any other graph alone came with its first record
            else:
                found.late.setdefault(graph, set()).add(term)
        return found


def _cut(frozen: Frozen, past: Past, catalog: Sequence[ox.Quad], graphs: Collection[str], engine: ox.Store) -> bool:
    """Take out of a copy what was not there; return False where it is not worth it, or something is not as it was."""
    found = _Found.of(frozen.rows(query_files.find("subjects").text), past, graphs)
    if sum(map(len, found.late.values())) > found.kept or not past.are_whole(frozen):
        return False
    for each in list(engine.named_graphs()):
        if not (isinstance(each, ox.NamedNode) and each.value in found.graphs):
            engine.remove_graph(each)
    for graph, late in found.late.items():
        if graph in found.graphs:
            node = ox.NamedNode(graph)
            for quad in [each for term in late for each in engine.quads_for_pattern(_node(term), None, None, node)]:
                engine.remove(quad)
    for quad in list(engine.quads_for_pattern(None, vocab.ANSWERS_COPY, None, None)):
        if isinstance(quad.graph_name, ox.NamedNode) and past.leads_below(quad.graph_name.value, quad):
            engine.remove(quad)
    _exchange(engine, catalog)
    return True


def _exchange(engine: ox.Store, catalog: Sequence[ox.Quad]) -> None:
    """Have in the catalog what was there then."""
    now, then = set(engine.quads_for_pattern(None, None, None, vocab.CATALOG)), set(catalog)
    for quad in now - then:
        engine.remove(quad)
    engine.extend(then - now)


def _node(term: str) -> ox.NamedNode | ox.BlankNode:
    return ox.NamedNode(term[1:-1]) if term[0] == "<" else ox.BlankNode(term[2:])
