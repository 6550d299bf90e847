"""The terms of the ontology as frozen values, read from its file."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Literal

from rdflib import OWL, RDF, RDFS, BNode, Graph, URIRef
from rdflib.collection import Collection
from rdflib.term import Node

from trails import queries, vocab

Kind = Literal["class", "object property", "datatype property", "datatype"]
_KINDS: dict[Node, Kind] = {
    OWL.Class: "class",
    OWL.ObjectProperty: "object property",
    OWL.DatatypeProperty: "datatype property",
    RDFS.Datatype: "datatype",
}


_ABOVE_IN_PROV_O: Final = {
    vocab.PROV + name: (vocab.PROV + above,)
    for name, above in (("Collection", "Entity"), ("Bundle", "Entity"), ("Plan", "Entity"), ("SoftwareAgent", "Agent"))
}
_DISJOINT_IN_PROV_O: Final = frozenset({vocab.ENTITY.value, vocab.ACTIVITY.value})
"""What PROV-O says of its own classes (https://www.w3.org/TR/prov-o/), as far as ours stand under them."""


@dataclass(frozen=True, slots=True)
class Term:
    """One term: its IRI, what kind of thing it is, and what the ontology says of it. All names are IRIs.

    `above` are the classes or properties directly above it. A property stands on each of `domains`, and has a value of each of
    `ranges`: where there are several, of one of them. A `functional` one has at most one value.
    """

    iri: str
    kind: Kind
    label: str
    comment: str
    above: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    ranges: tuple[str, ...] = ()
    functional: bool = False
    one_of: tuple[str, ...] = ()
    """Of a class: the properties that everything of it has exactly one value of."""

    @property
    def name(self) -> str:
        """The name after the namespace."""
        return self.iri.removeprefix(vocab.TRAILS)


@dataclass(frozen=True, slots=True)
class Ontology:
    """All terms by their order in the file of names, and the sets of classes of which nothing has two."""

    terms: tuple[Term, ...]
    disjoint: tuple[frozenset[str], ...]

    def of(self, kind: Kind) -> tuple[Term, ...]:
        """Return the terms of one kind."""
        return tuple(term for term in self.terms if term.kind == kind)

    def over(self, iri: str) -> frozenset[str]:
        """Return a class or property with all that is above it, in PROV-O too."""
        by_iri = {term.iri: term for term in self.terms}
        found, open_ = set[str](), [iri]
        while open_:
            each = open_.pop()
            if each not in found:
                found.add(each)
                open_ += by_iri[each].above if each in by_iri else _ABOVE_IN_PROV_O.get(each, ())
        return frozenset(found)

    def beside(self, iri: str) -> tuple[str, ...]:
        """Return the classes, also of PROV-O, that something of a class may be of: all that are not disjoint with it."""
        over = self.over(iri)
        apart = {other for each in self.disjoint for own in each & over for other in each - {own}}
        found = {each for term in self.of("class") for each in self.over(term.iri)}
        return tuple(sorted(each for each in found if not self.over(each) & (apart - over)))


def folder() -> Path:
    """Return the folder of the ontology's files: inside an installed package, or at the top of a source checkout."""
    return queries.folder().parent / "ontology"


@cache
def load() -> Ontology:
    """Return the ontology, as `trails.ttl` has it."""
    graph = Graph().parse(folder() / "trails.ttl", format="turtle")
    ours = sorted({str(node) for node in graph.subjects(RDFS.isDefinedBy) if isinstance(node, URIRef)})
    return Ontology(tuple(_term(graph, URIRef(iri)) for iri in ours), _disjoint(graph))


def _term(graph: Graph, node: URIRef) -> Term:
    [kind] = [_KINDS[each] for each in graph.objects(node, RDF.type) if each in _KINDS]
    above = RDFS.subClassOf if kind == "class" else RDFS.subPropertyOf
    return Term(
        iri=str(node),
        kind=kind,
        label=str(graph.value(node, RDFS.label)),
        comment=str(graph.value(node, RDFS.comment)),
        above=tuple(sorted(str(each) for each in graph.objects(node, above) if isinstance(each, URIRef))),
        domains=_members(graph, graph.value(node, RDFS.domain)),
        ranges=_members(graph, graph.value(node, RDFS.range)),
        functional=(node, RDF.type, OWL.FunctionalProperty) in graph,
        one_of=_one_of(graph, node),
    )


def _one_of(graph: Graph, node: URIRef) -> tuple[str, ...]:
    restrictions = [each for each in graph.objects(node, RDFS.subClassOf) if isinstance(each, BNode)]
    return tuple(sorted(str(graph.value(each, OWL.onProperty)) for each in restrictions))


def _members(graph: Graph, node: Node | None) -> tuple[str, ...]:
    """Return a class or datatype, or those of a union, in its order."""
    if node is None:
        return ()
    if not isinstance(node, BNode):
        return (str(node),)
    union = graph.value(node, OWL.unionOf)
    assert union is not None  # noqa: S101 - a test keeps every blank node a union or a list
    return tuple(str(each) for each in Collection(graph, union))


def _disjoint(graph: Graph) -> tuple[frozenset[str], ...]:
    sets = [
        frozenset(str(each) for each in Collection(graph, members))
        for node in graph.subjects(RDF.type, OWL.AllDisjointClasses)
        for members in graph.objects(node, OWL.members)
    ]
    pairs = [frozenset({str(one), str(other)}) for one, other in graph.subject_objects(OWL.disjointWith)]
    return tuple(sorted([*sets, *pairs, _DISJOINT_IN_PROV_O], key=sorted))
