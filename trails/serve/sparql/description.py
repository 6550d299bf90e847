"""Describe the endpoint: SPARQL 1.1 Service Description (https://www.w3.org/TR/sparql11-service-description/) with VoID."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import pyoxigraph as ox

from trails.rdf import vocab
from trails.serve.sparql.negotiation import ROWS, TRIPLES

_SD: Final = "http://www.w3.org/ns/sparql-service-description#"
_VOID: Final = "http://rdfs.org/ns/void#"
_DCTERMS: Final = "http://purl.org/dc/terms/"
_PREFIXES: Final = {"sd": _SD, "void": _VOID, "dcterms": _DCTERMS} | vocab.PREFIXES


def described(endpoint: str, figures: Mapping[str, int], media_type: str) -> bytes:
    """Return the description of the endpoint at a URL.

    `figures` has the numbers of triples of the `catalog` and of the `turns`, and of `sessions`; it may be empty.

    >>> described("http://localhost/sparql", {}, "application/n-triples").count(b"sparql-service-description#endpoint")
    1
    """
    form = ox.RdfFormat.from_media_type(media_type)
    return ox.serialize(_triples(endpoint, figures), format=form, prefixes=_PREFIXES) or b""


def _triples(endpoint: str, figures: Mapping[str, int]) -> Iterator[ox.Triple]:
    service, dataset, default = (ox.NamedNode(f"{endpoint}#{name}") for name in ("service", "dataset", "default"))
    url = ox.NamedNode(endpoint)
    yield from _facts(service, f"{_SD}Service")
    yield ox.Triple(service, _sd("endpoint"), url)
    yield ox.Triple(service, _sd("supportedLanguage"), _sd("SPARQL11Query"))
    yield ox.Triple(service, _sd("feature"), _sd("UnionDefaultGraph"))
    yield ox.Triple(service, _sd("defaultDataset"), dataset)
    for form in (*ROWS, *TRIPLES):
        yield ox.Triple(service, _sd("resultFormat"), ox.NamedNode(form.w3c))
    yield from _facts(dataset, f"{_SD}Dataset", f"{_VOID}Dataset")
    yield ox.Triple(dataset, ox.NamedNode(_DCTERMS + "title"), ox.Literal("A store of agent sessions"))
    yield ox.Triple(dataset, _void("sparqlEndpoint"), url)
    yield ox.Triple(dataset, _void("uriSpace"), ox.Literal("urn:trails:"))
    for namespace in (vocab.TRAILS, vocab.PROV):
        yield ox.Triple(dataset, _void("vocabulary"), ox.NamedNode(namespace))
    yield ox.Triple(dataset, _sd("defaultGraph"), default)
    yield from _facts(default, f"{_SD}Graph", f"{_VOID}Dataset")
    if figures:
        triples = figures["catalog"] + figures["turns"]
        yield ox.Triple(dataset, _void("triples"), vocab.integer(triples))
        yield ox.Triple(dataset, _void("entities"), vocab.integer(figures["sessions"]))
        yield ox.Triple(default, _void("triples"), vocab.integer(triples))


def _facts(node: ox.NamedNode, *types: str) -> Iterator[ox.Triple]:
    return (ox.Triple(node, vocab.TYPE, ox.NamedNode(each)) for each in types)


def _sd(name: str) -> ox.NamedNode:
    return ox.NamedNode(_SD + name)


def _void(name: str) -> ox.NamedNode:
    return ox.NamedNode(_VOID + name)
