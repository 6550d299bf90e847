"""Check RDF data by the SHACL shapes of the ontology."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import pyoxigraph as ox
from rdflib import RDF, SH, Graph
from rdflib import Literal as Literal_rdflib

from trails.display import tables
from trails.errors import InvalidInput
from trails.provenance import rdf_mapping
from trails.provenance.serializations import read_source
from trails.rdf import query_files, vocab
from trails.rdf.triple_formats import FORMATS
from trails.rdflib_view import to_rdflib


def ontology_folder() -> Path:
    """Return the folder of the ontology's files: inside an installed package, or at the top of a source checkout."""
    return query_files.folder().parent / "ontology"


FILES: Final = {
    "ontology": "trails.ttl",
    "shapes": "shapes.ttl",
    "alignments": "alignments.ttl",
    "concepts": "concepts.ttl",
}
"""The files of the ontology, by what each is."""


def write_ontology(file: str = "ontology", format: str = "turtle") -> bytes:  # noqa: A002 - the public name
    """Return one of `FILES` in one of `FORMATS`, in UTF-8; as Turtle it is the file itself, with its comments.

    Raises `InvalidInput` for another name.

    >>> write_ontology("shapes", "ntriples").count(b"<http://www.w3.org/2002/07/owl#Ontology> .")
    1
    """
    for value, known in ((file, FILES), (format, FORMATS)):
        if value not in known:
            raise InvalidInput(f"there is no {value!r}; known are {', '.join(known)}")
    text = (ontology_folder() / FILES[file]).read_bytes()
    if format == "turtle":
        return text
    parser = ox.parse(text, format=ox.RdfFormat.TURTLE)
    triples = [quad.triple for quad in parser]
    return ox.serialize(triples, format=FORMATS[format], prefixes=parser.prefixes) or b""


NAMESPACE: Final = "https://w3id.org/trails/shapes#"


@dataclass(frozen=True, slots=True)
class Violation:
    """One violation of a shape. `shape` is the name of the shape after its namespace.

    `node` is what violates it, `path` the property and `value` the wrong value, each None if there is none.
    """

    shape: str
    node: str
    path: str | None
    value: str | None
    message: str

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON carries."""
        return asdict(self)


def short_name(iri: str, prefixes: Mapping[str, str] = vocab.PREFIXES) -> str:
    """Return an IRI with the prefix that stands for its namespace, as `trails:index`."""
    return next(
        (f"{each}:{iri.removeprefix(name)}" for each, name in prefixes.items() if iri.startswith(name)), f"<{iri}>"
    )


def violations(quads: Iterable[ox.Quad | ox.Triple]) -> tuple[Violation, ...]:
    """Return where some quads violate the shapes, all graphs taken as one; nothing if all is well.

    A literal that its datatype does not allow is a violation of the shape `lexical`, whatever its property. Give the quads of a
    whole store or of a whole export: what is named and has no class counts as deleted. Takes as much memory as rdflib's graph of
    them. Raises `TrailsError` if pySHACL is not installed (the extra `shacl`).

    >>> from pyoxigraph import Literal, NamedNode, Triple
    >>> triple = Triple(NamedNode("urn:a"), NamedNode("https://w3id.org/trails#index"), Literal(1))
    >>> [(each.shape, each.node) for each in violations([triple])]
    [('index', 'urn:a')]
    """
    shacl = tables.optional("pyshacl", "shacl", "checking shapes")
    data = Graph()
    logger = logging.getLogger("rdflib.term")
    logger.addFilter(_log_nothing)  # rdflib logs each malformed literal with a traceback: those are findings
    try:
        for quad in quads:
            data.add((to_rdflib(quad.subject), to_rdflib(quad.predicate), to_rdflib(quad.object)))
        _, report, _ = shacl.validate(data, shacl_graph=_shapes(), inplace=True)
    finally:
        logger.removeFilter(_log_nothing)
    return tuple(sorted((*_violations_of(report), *_ill_typed(data)), key=repr))


def _log_nothing(_: logging.LogRecord) -> bool:
    return False


def _ill_typed(data: Graph) -> Iterator[Violation]:
    """Find literals that are none of their datatype (XSD 1.1, 2.3), whichever property they are of."""
    for node, path, value in data:
        if isinstance(value, Literal_rdflib) and value.ill_typed:
            message = f"{str(value)[:80]!r} is no {short_name(str(value.datatype))}"
            yield Violation("lexical", str(node), str(path), str(value), message)


def violations_in(path: Path, format: str | None = None) -> tuple[Violation, ...]:  # noqa: A002 - the public name
    """Return where a file of RDF violates the shapes; `format` is turtle, trig, ntriples or nquads.

    By default the end of the file's name says it. Raises `InvalidInput` for a file that is too large or is no RDF, and what
    `violations` raises.
    """
    data, chosen, _ = read_source(path, format)
    if chosen not in rdf_mapping.RDF_FORMATS:
        raise InvalidInput(f"shapes are for RDF ({', '.join(rdf_mapping.RDF_FORMATS)}), and {path} is {chosen}")
    try:
        quads = list(ox.parse(data, format=rdf_mapping.RDF_FORMATS[chosen]))
    except (SyntaxError, ValueError, MemoryError) as error:
        raise InvalidInput(f"{path} is not {rdf_mapping.RDF_FORMATS[chosen].name}: {f'{error}'[:300]}") from error
    return violations(quads)


@cache
def _shapes() -> Graph:
    return Graph().parse(ontology_folder() / "shapes.ttl", format="turtle")


def _violations_of(report: Graph) -> Iterator[Violation]:
    for node in report.subjects(RDF.type, SH.ValidationResult):
        result = {name: str(value) for name, value in report.predicate_objects(node)}
        shape = result[SH.sourceShape].removeprefix(NAMESPACE)
        message = result.get(SH.resultMessage, "")
        yield Violation(shape, result[SH.focusNode], result.get(SH.resultPath), result.get(SH.value), message)
