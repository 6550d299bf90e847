"""Holding a mirror against its store: every triple of each session, and of the catalogue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyoxigraph as ox

from trails import iris, queries, vocab
from trails.mirrors.content import CATALOGUE, HAS_CATALOGUE, STATE, as_held, same
from trails.mirrors.endpoint import Endpoint, pages
from trails.session import forms
from trails.session.repository import Repository


@dataclass(frozen=True, slots=True)
class MirrorDifference:
    """A graph in which a mirror is not what its store is: how many triples it lacks, and how many it has beyond."""

    graph: str
    """The graph's IRI: a session's; empty for the catalogue."""
    missing: int
    beyond: int

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, ready for JSON."""
        return {"graph": self.graph, "session": self.session, "missing": self.missing, "beyond": self.beyond}

    @property
    def session(self) -> str | None:
        """The id of the session whose graph it is, or whose ledger's; None for the catalogue and documents."""
        return iris.session_id(self.graph) if self.graph.startswith("urn:trails:session:") else None


@dataclass(frozen=True, slots=True)
class MirrorReport:
    """What came of holding a mirror against its store."""

    location: str
    graphs: int
    triples: int
    differences: tuple[MirrorDifference, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing differs."""
        return not self.differences

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, ready for JSON."""
        return {
            "mirror": self.location,
            "ok": self.ok,
            "graphs": self.graphs,
            "triples": self.triples,
            "differences": [each.to_dict() for each in self.differences],
        }


def compare(
    store: Repository, endpoint: Endpoint, progress: Callable[[int, int], object] | None = None
) -> MirrorReport:
    """Return where a mirror differs from what its store holds now, down to each triple.

    Times and numbers that are written in another way are the same; a reference is held against what it stands for.
    """
    catalogue = CATALOGUE if noted(endpoint, HAS_CATALOGUE) == ["named"] else None
    here = set(named_graphs(store))
    there = {row["graph"].value for row in pages(endpoint, "mirror_graphs")}
    graphs = sorted(here | {each for each in there if each.startswith("urn:trails:")} - {STATE.value, CATALOGUE.value})
    found, triples = [], 0
    for number, graph in enumerate(["", *graphs]):
        place = catalogue if not graph else ox.NamedNode(graph)
        ours = _ours(store, endpoint, ox.NamedNode(graph) if graph else vocab.CATALOG)
        theirs = Counter(_theirs(endpoint, place))
        missing, beyond = (ours - theirs).total(), (theirs - ours).total()
        triples += ours.total()
        if missing or beyond:
            found.append(MirrorDifference(graph, missing, beyond))
        if progress is not None:
            progress(number + 1, len(graphs) + 1)
    return MirrorReport(endpoint.location, len(graphs), triples, tuple(found))


def _ours(store: Repository, endpoint: Endpoint, graph: ox.NamedNode | ox.DefaultGraph) -> Counter[object]:
    server = endpoint.server
    return Counter(
        {
            (same(as_held(quad.subject, server)), quad.predicate.value, same(as_held(quad.object, server)))
            for quad in store.store.quads((None, None, None, graph))
        }
    )


def _theirs(endpoint: Endpoint, graph: ox.NamedNode | None) -> Iterator[object]:
    rows = pages(endpoint, "mirror_catalog") if graph is None else pages(endpoint, "mirror_triples", graph=graph)
    for row in rows:
        yield same(row["subject"]), row["property"].value, same(row["value"])


def noted(endpoint: Endpoint, what: ox.NamedNode) -> list[str]:
    """Return what a mirror notes of itself by a predicate."""
    return [row["value"].value for row in endpoint.select(queries.find("mirror_note").bind(property=what))]


def named_graphs(store: Repository) -> list[str]:
    """Return the IRIs of a store's graphs, but for the catalogue."""
    return [row[0].value for row in forms.solutions(store.store.query(queries.find("graphs").bind()))]
