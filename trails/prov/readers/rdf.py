"""PROV-O (W3C, 2013) in RDF as statements: Turtle, TriG, N-Triples and N-Quads, with qualified terms; a graph is a bundle."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

import pyoxigraph as ox

from trails.errors import InvalidInput
from trails.prov.facts import Object, statements
from trails.prov.mapping import Terms, plain_terms
from trails.prov.readers.bounds import MAX_BYTES
from trails.prov.statements import BLANK, INTERNATIONALIZED, Bundle, Document, Value

FORMATS: Final = {
    "turtle": ox.RdfFormat.TURTLE,
    "trig": ox.RdfFormat.TRIG,
    "ntriples": ox.RdfFormat.N_TRIPLES,
    "nquads": ox.RdfFormat.N_QUADS,
}


def read(data: bytes, format: str, terms: Terms | None = None) -> Document:  # noqa: A002 - the name of all readers
    """Return what an RDF document says in PROV, by the terms of PROV-O alone or by others below them as well.

    RDF cannot tell an argument that is `-` from one that is left open: both are read as left open or as nothing there, as
    PROV-DM has it for the place. Raises `InvalidInput` for what is no RDF.

    >>> text = b"@prefix prov: <http://www.w3.org/ns/prov#> . <urn:e> a prov:Entity ; prov:wasAttributedTo <urn:a> ."
    >>> [each.to_provn() for each in read(text, "turtle").bundles[0].statements]
    ['entity(urn:e)', 'wasAttributedTo(urn:e, urn:a)']
    """
    if len(data) > MAX_BYTES:
        raise InvalidInput(f"the RDF document has {len(data):,} bytes, and {MAX_BYTES:,} at most are read; split it")
    graphs: dict[str | None, dict[str, list[tuple[str, Object]]]] = {None: defaultdict(list)}
    parser = ox.parse(data, format=FORMATS[format])
    try:
        for quad in parser:
            graph = quad.graph_name
            name = None if isinstance(graph, ox.DefaultGraph) else _node(graph)
            facts = graphs.setdefault(name, defaultdict(list))
            facts[quad.predicate.value].append((_node(quad.subject), _object(quad.object)))
    except (SyntaxError, ValueError, MemoryError) as error:
        raise InvalidInput(f"the document is not {FORMATS[format].name}: {f'{error}'[:300]}") from error
    known = plain_terms() if terms is None else terms
    bundles = [Bundle(name, statements(facts, known)) for name, facts in graphs.items()]
    return Document(bundles, dict(parser.prefixes))


def _node(term: object) -> str:
    if isinstance(term, ox.NamedNode):
        return term.value
    if isinstance(term, ox.BlankNode):
        return BLANK + term.value
    raise InvalidInput("the RDF document quotes triples, which PROV-O does not have")


def _object(term: object) -> Object:
    if not isinstance(term, ox.Literal):
        return _node(term)
    if term.language:
        return Value(term.value, INTERNATIONALIZED, term.language)
    return Value(term.value, term.datatype.value)
