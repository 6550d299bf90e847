"""Compare a mirror with its store, triple by triple.

A store's quads are told as a server takes them, with a reference for what it cannot hold.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

import pyoxigraph as ox

from trails.exchange.remotes.mirror_endpoint import Endpoint, Server, pages
from trails.model import iris
from trails.rdf import query_files, vocab
from trails.session import presentation
from trails.session.repository import Repository
from trails.usage import EXACT

STATE: Final = ox.NamedNode("urn:trails:mirror")
"""The graph in which a mirror keeps how far it is, and the subject of that."""
HAS_CATALOGUE: Final = ox.NamedNode(f"{STATE.value}:catalog")
"""The predicate by which it notes which graph has the catalogue: "default" or "named"."""
CATALOGUE: Final = ox.NamedNode("urn:trails:catalog")
"""The graph that holds the catalogue where it is not the default graph."""
REFERENCE: Final = ox.NamedNode("urn:trails:mirror:reference")
"""The datatype of what stands for a literal that a server cannot hold: its SHA-256 and how many bytes it has."""
_BLANK: Final = "urn:trails:mirror:blank:"
_NUMBERS: Final = frozenset({vocab.DECIMAL, vocab.INTEGER})
_FLOATS: Final = frozenset({vocab.DOUBLE, ox.NamedNode(vocab.XSD + "float")})
Node = ox.NamedNode | ox.BlankNode | ox.Literal | ox.Triple


def mirror_term(term: Node, server: Server) -> Node:
    """Return what stands for a term in a mirror: itself, or a reference to it if the server cannot hold it.

    >>> from trails.exchange.remotes.mirror_endpoint import SERVERS
    >>> mirror_term(ox.Literal("a" + chr(0)), SERVERS["virtuoso"]).value.split()[1:]
    ['2', 'bytes']
    """
    if isinstance(term, ox.BlankNode):
        return ox.NamedNode(_BLANK + term.value)
    if not isinstance(term, ox.Literal):
        return term
    most, longest, text = server.most_integer, server.longest, term.value
    if not (
        (longest is not None and len(text) * 4 > longest and len(text.encode()) > longest)
        or (server.refuses_nul and "\0" in text)
        or (most is not None and term.datatype == vocab.INTEGER and abs(int(text)) > most)
    ):
        return term
    held = text.encode()
    return ox.Literal(f"sha256:{hashlib.sha256(held).hexdigest()} {len(held)} bytes", datatype=REFERENCE)


def statements(quads: Iterable[ox.Quad], server: Server) -> list[str]:
    """Return quads as the statements of an INSERT DATA, each once, without their graphs."""
    terms = ((mirror_term(quad.subject, server), quad.predicate, mirror_term(quad.object, server)) for quad in quads)
    return list(dict.fromkeys(f"{subject} {predicate} {value} ." for subject, predicate, value in terms))


def statements_digest(lines: Iterable[str]) -> str:
    """Return what stands for a set of statements, in whatever order: 32 hex digits of a SHA-256."""
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:32]


def same_term(term: Node) -> object:
    """Return what two terms have in common that say the same: servers write times and numbers in their own ways.

    >>> same_term(ox.Literal("1.10", datatype=vocab.DECIMAL)) == same_term(ox.Literal("1.1", datatype=vocab.DECIMAL))
    True
    """
    if not isinstance(term, ox.Literal):
        return str(term)
    kind, value = term.datatype, term.value
    try:
        if kind == vocab.DATE_TIME:
            made = datetime.fromisoformat(value)
            return "time", made.astimezone(UTC) if made.tzinfo else made
        if kind in _NUMBERS:
            return "number", EXACT.normalize(Decimal(value))
        if kind in _FLOATS:
            return "float", float(value)
        if kind == vocab.BOOLEAN:
            return "boolean", value in ("true", "1")
    except (ValueError, ArithmeticError):
        pass
    return value, "" if kind == vocab.STRING else str(kind), (term.language or "").lower()


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
        counts = {"mirror": self.location, "ok": self.ok, "graphs": self.graphs, "triples": self.triples}
        return {**counts, "differences": [each.to_dict() for each in self.differences]}


def compare_mirror(
    store: Repository, endpoint: Endpoint, progress: Callable[[int, int], object] | None = None
) -> MirrorReport:
    """Return where a mirror differs from what its store holds now, down to each triple.

    Times and numbers that are written in another way are the same; a reference is held against what it stands for.
    """
    catalogue = CATALOGUE if mirror_notes(endpoint, HAS_CATALOGUE) == ["named"] else None
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
    def held(term: Node) -> object:
        return same_term(mirror_term(term, endpoint.server))

    quads = store.store.quads((None, None, None, graph))
    return Counter({(held(quad.subject), quad.predicate.value, held(quad.object)) for quad in quads})


def _theirs(endpoint: Endpoint, graph: ox.NamedNode | None) -> Iterator[object]:
    rows = pages(endpoint, "mirror_catalog") if graph is None else pages(endpoint, "mirror_triples", graph=graph)
    for row in rows:
        yield same_term(row["subject"]), row["property"].value, same_term(row["value"])


def mirror_notes(endpoint: Endpoint, what: ox.NamedNode) -> list[str]:
    """Return what a mirror notes of itself by a predicate."""
    return [row["value"].value for row in endpoint.select(query_files.find("mirror_note").bind(property=what))]


def named_graphs(store: Repository) -> list[str]:
    """Return the IRIs of a store's graphs, but for the catalogue."""
    return [row[0].value for row in presentation.solution_rows(store.store.query(query_files.find("graphs").bind()))]
