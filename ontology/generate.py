"""Make `shapes.ttl` and `README.md` from `trails.ttl` and `alignments.ttl`: `make ontology` runs this.

The shapes read the ontology as closed (https://www.w3.org/TR/shacl/): a domain says which subjects a property has, a range which
values; a functional property has one value at most; a restriction says what each thing of a class must have.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Literal

from rdflib import OWL, RDF, RDFS, SKOS, BNode, Graph, URIRef
from rdflib import Literal as Literal_rdflib
from rdflib.collection import Collection
from rdflib.term import Node

from trails.provenance.ontology import ontology_folder, short_name
from trails.rdf import query_files, vocab

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
    inverse_of: str | None = None
    """Of a property that no store writes: the one that it is the other direction of."""
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
        """Return the terms of one kind, without the names of inverses."""
        return tuple(term for term in self.terms if term.kind == kind and term.inverse_of is None)

    def inverses(self) -> tuple[Term, ...]:
        """Return the names of inverses, which no store writes."""
        return tuple(term for term in self.terms if term.inverse_of is not None)

    def over(self, iri: str) -> frozenset[str]:
        """Return a class or property with all that is above it, in PROV-O too."""
        by_iri = {term.iri: term for term in self.terms}
        ancestors, open_ = set[str](), [iri]
        while open_:
            each = open_.pop()
            if each not in ancestors:
                ancestors.add(each)
                open_ += by_iri[each].above if each in by_iri else _ABOVE_IN_PROV_O.get(each, ())
        return frozenset(ancestors)

    def beside(self, iri: str) -> tuple[str, ...]:
        """Return the classes, also of PROV-O, that something of a class may be of: all that are not disjoint with it."""
        over = self.over(iri)
        apart = {other for each in self.disjoint for own in each & over for other in each - {own}}
        classes = {each for term in self.of("class") for each in self.over(term.iri)}
        return tuple(sorted(each for each in classes if not self.over(each) & (apart - over)))


@cache
def load_ontology() -> Ontology:
    """Return the ontology, as `trails.ttl` has it."""
    graph = Graph().parse(ontology_folder() / "trails.ttl", format="turtle")
    ours = sorted({str(node) for node in graph.subjects(RDFS.isDefinedBy) if isinstance(node, URIRef)})
    return Ontology(tuple(_term(graph, URIRef(iri)) for iri in ours), _disjoint(graph))


def _term(graph: Graph, node: URIRef) -> Term:
    [kind] = [_KINDS[each] for each in graph.objects(node, RDF.type) if each in _KINDS]
    above = RDFS.subClassOf if kind == "class" else RDFS.subPropertyOf
    inverse = graph.value(node, OWL.inverseOf)
    return Term(
        iri=str(node),
        kind=kind,
        label=str(graph.value(node, RDFS.label)),
        comment=str(graph.value(node, RDFS.comment)),
        above=tuple(sorted(str(each) for each in graph.objects(node, above) if isinstance(each, URIRef))),
        domains=_members(graph, graph.value(node, RDFS.domain)),
        ranges=_members(graph, graph.value(node, RDFS.range)),
        functional=(node, RDF.type, OWL.FunctionalProperty) in graph,
        inverse_of=None if inverse is None else str(inverse),
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


_HEAD: Final = """\
# The shapes of what Trails writes, in SHACL. Made from trails.ttl by `make ontology`: change
# that, not this file.
#
# They are for all graphs of a store together. A session, turn or message that others name may have been deleted: then it has no
# class, or is a trails:Tombstone.

@prefix shapes: <https://w3id.org/trails/shapes#> .
@prefix sh: <http://www.w3.org/ns/shacl#> .
@prefix trails: <https://w3id.org/trails#> .
@prefix prov: <http://www.w3.org/ns/prov#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
@prefix dcterms: <http://purl.org/dc/terms/> .

<https://w3id.org/trails/shapes> a owl:Ontology ;
    rdfs:label "Trails: shapes"@en ;
    rdfs:comment "What each class and property of Trails has in a store, as SHACL shapes."@en ;
    dcterms:creator "The authors of Trails"@en ;
    dcterms:license <https://www.apache.org/licenses/LICENSE-2.0> ;
    rdfs:seeAlso <https://w3id.org/trails> .
"""


# --- what is made


def shapes_turtle(ontology: Ontology) -> str:
    """Return the shapes of an ontology as Turtle; equal ontologies give equal texts."""
    blocks = [_HEAD.rstrip("\n")]
    for term in ontology.of("class"):
        blocks += _class_shapes(ontology, term)
    for term in (*ontology.of("object property"), *ontology.of("datatype property")):
        blocks += _property_shapes(ontology, term)
    return "\n\n".join(blocks) + "\n"


def _class_shapes(ontology: Ontology, term: Term) -> list[str]:
    """Return the shapes of a class: which classes something of it may have too, and what it has one of."""
    classes = [
        f"sh:targetClass {short_name(term.iri)}",
        "sh:path rdf:type",
        _in(ontology, [term.iri]),
        f'sh:message "Nothing is of {short_name(term.iri)} and of a class that is disjoint with it."@en',
    ]
    counted = [
        _block(f"shapes:{term.name}-{short_name(iri).partition(':')[2]}", _one(term, iri)) for iri in term.one_of
    ]
    return [_block(f"shapes:{term.name}", classes), *counted]


def _one(term: Term, iri: str) -> list[str]:
    name = short_name(iri)
    counts = [f"sh:targetClass {short_name(term.iri)}", f"sh:path {name}", "sh:minCount 1", "sh:maxCount 1"]
    return [*counts, f'sh:message "Every {term.label} has one {name}."@en']


def _property_shapes(ontology: Ontology, term: Term) -> list[str]:
    """Return the shapes of a property: what has it, how many values, and what these are.

    Classes are told by sh:in over rdf:type, not by sh:or over sh:class, which takes pySHACL ten times as long: what has one
    of the right classes and what has a class beside them cannot be told apart where it has no class of ours.
    """
    name, of = f"shapes:{term.name}", " or ".join(map(short_name, term.domains))
    subjects = [
        f"sh:targetSubjectsOf {short_name(term.iri)}",
        "sh:path rdf:type",
        "sh:minCount 1",
        _in(ontology, term.domains),
        f'sh:message "{short_name(term.iri)} is said of {of}."@en',
    ]
    values = [f"sh:targetSubjectsOf {short_name(term.iri)}", f"sh:path {short_name(term.iri)}"]
    values += ["sh:maxCount 1"] if term.functional else []
    values += _datatypes(term) if term.kind == "datatype property" else ["sh:nodeKind sh:IRI"]
    shapes = {f"{name}-values": values}
    if not any(iri.startswith(vocab.PROV) for iri in term.domains):  # PROV-O may have subclasses that we do not know
        shapes = {name: subjects} | shapes
    if term.kind == "object property" and term.ranges:
        shapes[f"{name}-class"] = _targets(ontology, term)
    return [_block(*shape) for shape in shapes.items()]


def _targets(ontology: Ontology, term: Term) -> list[str]:
    """Return what the values of an edge are: of its range, or deleted."""
    what = " or ".join(map(short_name, term.ranges))
    return [
        f"sh:targetSubjectsOf {short_name(term.iri)}",
        f"sh:path ( {short_name(term.iri)} rdf:type )",
        _in(ontology, term.ranges, vocab.TOMBSTONE.value),
        f'sh:message "The value of {short_name(term.iri)} is {what}."@en',
    ]


def _in(ontology: Ontology, iris: Iterable[str], *more: str) -> str:
    """Return what says that classes are among those that something of one of some classes may have."""
    beside = {each for iri in iris for each in ontology.beside(iri)}
    return f"sh:in ( {' '.join(short_name(each) for each in sorted({*beside, *more}))} )"


def _datatypes(term: Term) -> list[str]:
    kinds = [f"sh:datatype {short_name(iri)}" for iri in term.ranges]
    if len(kinds) > 1:
        kinds = [f"sh:or ( {' '.join(f'[ {kind} ]' for kind in kinds)} )"]
    return ["sh:nodeKind sh:Literal", *kinds]


def _block(name: str, properties: list[str]) -> str:
    return f"{name} a sh:PropertyShape ;\n" + " ;\n".join(f"    {each}" for each in properties) + " ."


_PAGE_HEAD: Final = """\
<!-- Made from the ontology's files by `make ontology`: change those, not this page. -->

# The vocabulary of Trails

`https://w3id.org/trails#`, prefix `trails`: sessions of software agents as chains of immutable turns, with forks that share their
prefix. It extends [PROV-O](https://www.w3.org/TR/prov-o/): what PROV-O has a term for is written with that one.

- [trails.ttl](trails.ttl): the ontology.
- [shapes.ttl](shapes.ttl): the same as SHACL shapes, for checking data.
- [alignments.ttl](alignments.ttl): mappings to other vocabularies.
- [concepts.ttl](concepts.ttl): roles, kinds and outcomes as SKOS concepts, whose notations are the literals of a store.

## Forks, and the turn before

| word | what it gives |
|---|---|
| [`trails:parent_session_id`](#parent_session_id) | of a fork, the session that it was made from |
| [`trails:forked_at_index`](#forked_at_index) | of a fork, the first index that it owns: the turns below are its ancestors' |
| [`trails:branch`](#branch) | of a session or a turn: `main`, or the name of the fork |
| [`trails:previousTurn`](#previousTurn) | of a turn, the one before it, across forks |

So `?turn trails:previousTurn* ?earlier` walks a transcript. `trails:branch` is stored. The others are derived in the default
graph, for each query that names one, and in dumps and exports. What is stored for the first two is
[`trails:parentSession`](#parentSession) and [`trails:forkedAtIndex`](#forkedAtIndex): the same by `owl:equivalentProperty`.
"""
_EXAMPLES: Final = ("forest", "turns-by-author", "tool-calls")
_NAMESPACES: Final = {
    "sioc": "http://rdfs.org/sioc/ns#",
    "schema": "https://schema.org/",
    "as": "https://www.w3.org/ns/activitystreams#",
    "p-plan": "http://purl.org/net/p-plan#",
    "opmv": "http://purl.org/net/opmv/ns#",
    "provone": "http://purl.dataone.org/provone/2015/01/15/ontology#",
}
_MATCHES: Final = {
    SKOS.exactMatch: "exact",
    SKOS.closeMatch: "close",
    SKOS.broadMatch: "wider",
    SKOS.narrowMatch: "narrower",
    SKOS.relatedMatch: "related",
}


def ontology_page(ontology: Ontology, alignments: Graph) -> str:
    """Return the page; equal files give equal pages."""
    sections = [
        _PAGE_HEAD,
        _diagram(ontology),
        _classes(ontology),
        _properties("Edges", "object property", ontology.of("object property")),
        _inverses(ontology.inverses()),
        _properties("Values", "datatype property", ontology.of("datatype property")),
        _property_datatypes(ontology),
        _alignments(alignments),
        _examples(),
    ]
    return "\n".join(sections)


def _diagram(ontology: Ontology) -> str:
    """Return the classes and the edges between them as a Mermaid flowchart."""
    lines = ["## The classes and what leads from one to another", "", "```mermaid", "flowchart LR"]
    for term in ontology.of("class"):
        lines += [f"  {term.name} -. is a .-> {_mermaid(above)}" for above in term.above]
    for term in ontology.of("object property"):
        ends = ((start, end) for start in term.domains for end in term.ranges)
        lines += [f"  {_mermaid(start)} -->|{term.name}| {_mermaid(end)}" for start, end in ends]
    return "\n".join([*lines, "```", ""])


def _mermaid(iri: str) -> str:
    name = short_name(iri)
    return name.removeprefix("trails:") if name.startswith("trails:") else f'{name.replace(":", "_")}["{name}"]'


def _classes(ontology: Ontology) -> str:
    rows = [
        (f'<a id="{term.name}"></a>`{term.name}`', _links(term.above), _links(term.one_of), term.comment)
        for term in ontology.of("class")
    ]
    return "## Classes\n\n" + _table(("class", "is a", "has one", "what it is"), rows)


def _properties(title: str, kind: str, terms: Iterable[Term]) -> str:
    rows = [
        (
            f'<a id="{term.name}"></a>`{term.name}`',
            _links(term.domains),
            _links(term.ranges) + ("" if term.functional else ", any number"),
            _links(term.above),
            term.comment,
        )
        for term in terms
    ]
    heads = ("property", "of", "value", "under", "what it says")
    if kind == "datatype property":
        rows, heads = [(*row[:3], row[4]) for row in rows], (*heads[:3], heads[4])  # type: ignore[assignment, misc] # fewer columns
    return f"## {title}\n\n" + _table(heads, rows)


def _inverses(terms: Iterable[Term]) -> str:
    rows = [
        (
            f'<a id="{term.name}"></a>`{term.name}`',
            _link(term.inverse_of or ""),
            _links(term.domains),
            _links(term.ranges),
        )
        for term in terms
    ]
    text = "## The other direction\n\nNo store writes these. A query asks for one with `^`, as in `^trails:parentSession`.\n\n"
    return text + _table(("name", "inverse of", "of", "value"), rows)


def _property_datatypes(ontology: Ontology) -> str:
    rows = [(f'<a id="{term.name}"></a>`{term.name}`', term.comment) for term in ontology.of("datatype")]
    return "## Datatypes\n\n" + _table(("datatype", "what it is"), rows)


def _links(iris: Iterable[str]) -> str:
    """Return terms as links: ours to this page, PROV-O's to its own."""
    return ", ".join(_link(iri) for iri in iris)


def _link(iri: str) -> str:
    if iri.startswith(vocab.TRAILS):
        name = iri.removeprefix(vocab.TRAILS)
        return f"[{name}](#{name})"
    if iri.startswith(vocab.PROV):
        return f"[{short_name(iri)}](https://www.w3.org/TR/prov-o/#{iri.removeprefix(vocab.PROV)})"
    return f"`{short_name(iri)}`"


def _alignments(graph: Graph) -> str:
    names = {
        URIRef(f"https://w3id.org/trails/notation/{key}"): label
        for key, label in (("opentelemetry", "OpenTelemetry"), ("prov-agent", "PROV-AGENT"))
    }
    rows = []
    for term in sorted({str(each) for each in graph.subjects() if str(each).startswith(vocab.TRAILS)}):
        others = [
            (f"`{short_name(str(other), _NAMESPACES).strip('<>')}`", how)
            for predicate, how in _MATCHES.items()
            for other in graph.objects(URIRef(term), predicate)
        ]
        others += [
            (f"`{each}`", names[each.datatype])
            for each in graph.objects(URIRef(term), SKOS.notation)
            if isinstance(each, Literal_rdflib) and each.datatype is not None
        ]
        rows.append((_link(term), ", ".join(f"{name} ({how})" for name, how in sorted(others))))
    text = "## What others call them\n\nHow near each is stands behind it; for names without an IRI, who uses them.\n\n"
    return text + _table(("term", "elsewhere"), rows)


def _examples() -> str:
    parts = ["## Example queries\n\nOf the catalogue (`trails queries`); each runs as it stands over an export.\n"]
    for name in _EXAMPLES:
        query = query_files.find(name)
        parts.append(f"### {name}: {query.purpose}\n\n```sparql\n{query.text.rstrip()}\n```\n")
    return "\n".join(parts)


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [heads, tuple("---" for _ in heads), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def write_generated(folder: Path) -> None:
    """Write the files that are made from `trails.ttl` and `alignments.ttl` into a folder."""
    ontology = load_ontology()
    alignments = Graph().parse(ontology_folder() / "alignments.ttl", format="turtle")
    texts = {"shapes.ttl": shapes_turtle(ontology), "README.md": ontology_page(ontology, alignments)}
    for name, text in texts.items():
        (folder / name).write_text(text, "utf-8", newline="\n")


if __name__ == "__main__":
    write_generated(ontology_folder())
