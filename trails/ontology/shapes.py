"""SHACL shapes: made from the ontology as Turtle, and what in some quads does not keep to them.

The ontology is read as closed (https://www.w3.org/TR/shacl/): a domain says where a property may stand, a range what its values
are, a functional property has no second value, and what everything of a class has one of must be there.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import pyoxigraph as ox
from rdflib import RDF, SH, Graph, Literal

from trails import tables, vocab
from trails.errors import InvalidInput
from trails.files import read_whole
from trails.graph.terms import to_rdflib
from trails.ontology import terms
from trails.ontology.terms import Ontology, Term
from trails.prov.readers import rdf
from trails.prov.readers.bounds import MAX_BYTES
from trails.prov.reading import format_of

NAMESPACE: Final = "https://w3id.org/trails/shapes#"
_HEAD: Final = """\
# The shapes of what Trails writes, in SHACL. Made from trails.ttl by `python -m trails.ontology`: change that, not this file.
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

<https://w3id.org/trails/shapes> a owl:Ontology ;
    rdfs:label "Trails: shapes"@en ;
    rdfs:seeAlso <https://w3id.org/trails> .
"""


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing that does not keep to a shape. `shape` is the name of the shape after its namespace.

    `node` is what it is about, `path` the property and `value` the value that is wrong, each None where there is none.
    """

    shape: str
    node: str
    path: str | None
    value: str | None
    message: str

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON carries."""
        return asdict(self)


# --- what is made


def turtle(ontology: Ontology) -> str:
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
        f"sh:targetClass {short(term.iri)}",
        "sh:path rdf:type",
        _in(ontology, [term.iri]),
        f'sh:message "Nothing is of {short(term.iri)} and of a class that is disjoint with it."@en',
    ]
    counted = [_block(f"shapes:{term.name}-{_local(iri)}", "sh:PropertyShape", _one(term, iri)) for iri in term.one_of]
    return [_block(f"shapes:{term.name}", "sh:PropertyShape", classes), *counted]


def _one(term: Term, iri: str) -> list[str]:
    message = f'sh:message "Every {term.label} has one {short(iri)}."@en'
    return [f"sh:targetClass {short(term.iri)}", f"sh:path {short(iri)}", "sh:minCount 1", "sh:maxCount 1", message]


def _property_shapes(ontology: Ontology, term: Term) -> list[str]:
    """Return the shapes of a property: what has it, how many values, and what these are.

    Classes are told by sh:in over rdf:type, not by sh:or over sh:class, which takes pySHACL ten times as long: what has one
    of the right classes and what has a class beside them cannot be told apart where it has no class of ours.
    """
    name, of = f"shapes:{term.name}", " or ".join(map(short, term.domains))
    subjects = [
        f"sh:targetSubjectsOf {short(term.iri)}",
        "sh:path rdf:type",
        "sh:minCount 1",
        _in(ontology, term.domains),
        f'sh:message "{short(term.iri)} is said of {of}."@en',
    ]
    values = [f"sh:targetSubjectsOf {short(term.iri)}", f"sh:path {short(term.iri)}"]
    values += ["sh:maxCount 1"] if term.functional else []
    values += _datatypes(term) if term.kind == "datatype property" else ["sh:nodeKind sh:IRI"]
    found = [_block(f"{name}-values", "sh:PropertyShape", values)]
    if not any(
        iri.startswith(vocab.PROV) for iri in term.domains
    ):  # of PROV-O's classes we do not know all that are below
        found.insert(0, _block(name, "sh:PropertyShape", subjects))
    if term.kind == "object property" and term.ranges:
        found.append(_block(f"{name}-class", "sh:PropertyShape", _targets(ontology, term)))
    return found


def _targets(ontology: Ontology, term: Term) -> list[str]:
    """Return what the values of an edge are: of its range, or deleted."""
    what = " or ".join(map(short, term.ranges))
    return [
        f"sh:targetSubjectsOf {short(term.iri)}",
        f"sh:path ( {short(term.iri)} rdf:type )",
        _in(ontology, term.ranges, vocab.TOMBSTONE.value),
        f'sh:message "The value of {short(term.iri)} is {what}."@en',
    ]


def _in(ontology: Ontology, iris: Iterable[str], *more: str) -> str:
    """Return what says that classes are among those that something of one of some classes may have."""
    beside = {each for iri in iris for each in ontology.beside(iri)}
    return f"sh:in ( {' '.join(short(each) for each in sorted({*beside, *more}))} )"


def _datatypes(term: Term) -> list[str]:
    kinds = [f"sh:datatype {short(iri)}" for iri in term.ranges]
    if len(kinds) > 1:
        kinds = [f"sh:or ( {' '.join(f'[ {kind} ]' for kind in kinds)} )"]
    return ["sh:nodeKind sh:Literal", *kinds]


def _block(name: str, kind: str, said: list[str]) -> str:
    return f"{name} a {kind} ;\n" + " ;\n".join(f"    {each}" for each in said) + " ."


def short(iri: str) -> str:
    """Return an IRI with the prefix that stands for its namespace, as `trails:index`."""
    for prefix, namespace in vocab.PREFIXES.items():
        if iri.startswith(namespace):
            return f"{prefix}:{iri.removeprefix(namespace)}"
    return f"<{iri}>"


def _local(iri: str) -> str:
    return short(iri).partition(":")[2]


# --- what is checked


def violations(quads: Iterable[ox.Quad | ox.Triple]) -> tuple[Violation, ...]:
    """Return what in some quads does not keep to the shapes, all graphs taken as one; nothing where all is well.

    A literal that is none of its datatype is found whatever it is said of, as `lexical`.
    They are those of a whole store or of a whole export: what is named and has no class counts as deleted. Takes as much memory
    as rdflib's graph of them. Raises `TrailsError` where pySHACL is not installed (the extra `shacl`).

    >>> from pyoxigraph import Literal, NamedNode, Triple
    >>> said = Triple(NamedNode("urn:a"), NamedNode("https://w3id.org/trails#index"), Literal(1))
    >>> [(each.shape, each.node) for each in violations([said])]
    [('index', 'urn:a')]
    """
    shacl = tables.optional("pyshacl", "shacl", "checking shapes")
    data = Graph()
    with _without_complaints():
        for quad in quads:
            data.add((to_rdflib(quad.subject), to_rdflib(quad.predicate), to_rdflib(quad.object)))
        _, report, _ = shacl.validate(data, shacl_graph=_shapes(), inplace=True)
    return tuple(sorted((*_found(report), *_ill_typed(data)), key=repr))


@contextmanager
def _without_complaints() -> Iterator[None]:
    """Keep rdflib from logging, with a traceback, each literal that is none of its datatype: those are findings."""
    complaints = logging.getLogger("rdflib.term")
    complaints.addFilter(_nothing)
    try:
        yield
    finally:
        complaints.removeFilter(_nothing)


def _nothing(_: logging.LogRecord) -> bool:
    return False


def _ill_typed(data: Graph) -> Iterator[Violation]:
    """Find literals that are none of their datatype (XSD 1.1, 2.3), whichever property they are of."""
    for node, path, value in data:
        if isinstance(value, Literal) and value.ill_typed:
            told = f"{str(value)[:80]!r} is no {short(str(value.datatype))}"
            yield Violation("lexical", str(node), str(path), str(value), told)


def violations_in(path: Path, format: str | None = None) -> tuple[Violation, ...]:  # noqa: A002 - the public name
    """Return what in a file of RDF does not keep to the shapes; `format` is turtle, trig, ntriples or nquads.

    By default the end of the file's name says it. Raises `InvalidInput` for a file that is too large, or no RDF; else as
    `violations`.
    """
    chosen = format_of(path) if format is None else format
    if chosen not in rdf.FORMATS:
        raise InvalidInput(f"shapes are for RDF ({', '.join(rdf.FORMATS)}), and {path} is {chosen}")
    if path.stat().st_size > MAX_BYTES:
        raise InvalidInput(f"{path} has more than {MAX_BYTES:,} bytes, which is the most that is read; split it")
    try:
        quads = list(ox.parse(read_whole(path), format=rdf.FORMATS[chosen]))
    except (SyntaxError, ValueError, MemoryError) as error:
        raise InvalidInput(f"{path} is not {rdf.FORMATS[chosen].name}: {f'{error}'[:300]}") from error
    return violations(quads)


@cache
def _shapes() -> Graph:
    return Graph().parse(terms.folder() / "shapes.ttl", format="turtle")


def _found(report: Graph) -> Iterator[Violation]:
    for node in report.subjects(RDF.type, SH.ValidationResult):
        told = dict(report.predicate_objects(node))
        path, value = told.get(SH.resultPath), told.get(SH.value)
        yield Violation(
            shape=str(told[SH.sourceShape]).removeprefix(NAMESPACE),
            node=str(told[SH.focusNode]),
            path=None if path is None else str(path),
            value=None if value is None else str(value),
            message=str(told.get(SH.resultMessage, "")),
        )
