"""Describe the endpoint: SPARQL 1.1 Service Description (https://www.w3.org/TR/sparql11-service-description/), VoID, DCAT."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyoxigraph as ox

from trails.rdf import vocab
from trails.serve.sparql.negotiation import ROWS, TRIPLES
from trails.store.dataset_description import DCAT, PREFIXES, VOID, Counts, dataset_triples

_SD: Final = "http://www.w3.org/ns/sparql-service-description#"


def described(endpoint: str, figures: Counts | None, media_type: str) -> bytes:
    """Return the description of the endpoint at a URL.

    `figures` says how much whoever asks may see; None where nobody counted it.

    >>> described("http://localhost/sparql", None, "application/n-triples").count(b"sparql-service-description#endpoint")
    1
    """
    form = ox.RdfFormat.from_media_type(media_type)
    return ox.serialize(_triples(endpoint, figures), format=form, prefixes={"sd": _SD} | PREFIXES) or b""


def _triples(endpoint: str, figures: Counts | None) -> Iterator[ox.Triple]:
    service, dataset, default = (ox.NamedNode(f"{endpoint}#{name}") for name in ("service", "dataset", "default"))
    url = ox.NamedNode(endpoint)
    yield from _facts(service, f"{_SD}Service")
    yield ox.Triple(service, _sd("endpoint"), url)
    yield ox.Triple(service, _sd("supportedLanguage"), _sd("SPARQL11Query"))
    yield ox.Triple(service, _sd("feature"), _sd("UnionDefaultGraph"))
    yield ox.Triple(service, _sd("defaultDataset"), dataset)
    for form in (*ROWS, *TRIPLES):
        yield ox.Triple(service, _sd("resultFormat"), ox.NamedNode(form.w3c))
    yield ox.Triple(service, vocab.TYPE, _dcat("DataService"))
    yield ox.Triple(service, _dcat("endpointURL"), url)
    yield ox.Triple(service, _dcat("servesDataset"), dataset)
    yield from _facts(dataset, f"{_SD}Dataset")
    yield from dataset_triples(dataset, figures)
    yield ox.Triple(dataset, _void("sparqlEndpoint"), url)
    distribution = ox.BlankNode("endpoint")
    yield ox.Triple(dataset, _dcat("distribution"), distribution)
    yield from _facts(distribution, f"{DCAT}Distribution")
    yield ox.Triple(distribution, _dcat("accessURL"), url)
    yield ox.Triple(distribution, _dcat("accessService"), service)
    yield ox.Triple(dataset, _sd("defaultGraph"), default)
    yield from _facts(default, f"{_SD}Graph", f"{VOID}Dataset")
    if figures is not None:
        yield ox.Triple(default, _void("triples"), vocab.integer(figures.catalog + figures.turns))


def _facts(node: ox.NamedNode | ox.BlankNode, *types: str) -> Iterator[ox.Triple]:
    return (ox.Triple(node, vocab.TYPE, ox.NamedNode(each)) for each in types)


def _sd(name: str) -> ox.NamedNode:
    return ox.NamedNode(_SD + name)


def _void(name: str) -> ox.NamedNode:
    return ox.NamedNode(VOID + name)


def _dcat(name: str) -> ox.NamedNode:
    return ox.NamedNode(DCAT + name)
