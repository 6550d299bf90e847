"""Describe a store as a dataset: VoID (https://www.w3.org/TR/void/) and DCAT 3 (https://www.w3.org/TR/vocab-dcat-3/)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyoxigraph as ox

from trails.errors import InvalidInput
from trails.model import iris
from trails.rdf import query_files, vocab
from trails.rdf.triple_formats import FORMATS
from trails.store.contract import QuadStore, Solutions

VOID: Final = "http://rdfs.org/ns/void#"
DCAT: Final = "http://www.w3.org/ns/dcat#"
DCTERMS: Final = "http://purl.org/dc/terms/"
FOAF: Final = "http://xmlns.com/foaf/0.1/"
PREFIXES: Final = {"void": VOID, "dcat": DCAT, "dcterms": DCTERMS, "foaf": FOAF} | vocab.PREFIXES
_MEDIA_TYPES: Final = "https://www.iana.org/assignments/media-types/"


@dataclass(frozen=True, slots=True)
class Counts:
    """How much a store holds: triples of the catalog and of the turns, sessions, things by class, triples by property."""

    catalog: int
    turns: int
    sessions: int
    classes: Mapping[str, int]
    properties: Mapping[str, int]


def describe(
    store: QuadStore,
    format: str = "turtle",  # noqa: A002 - the public name
    *,
    licence: str | None = None,
    publisher: str | None = None,
    downloads: tuple[str, ...] = (),
) -> bytes:
    """Return the description of a store in one of `FORMATS`, in UTF-8.

    It counts all quads of the store, which takes some seconds for a million. Raises `InvalidInput` as `dataset_triples` does,
    and for another format.

    >>> import trails
    >>> with trails.open(":memory:") as store:
    ...     b"void:triples 0 ;" in describe(store.store)
    True
    """
    if format not in FORMATS:
        raise InvalidInput(f"there is no format {format!r}; known are {', '.join(FORMATS)}")
    (totals,), parts = (_rows(store, name) for name in ("void", "void_partitions"))
    triples = dataset_triples(
        ox.NamedNode(iris.STORE), counts_of(totals, parts), licence=licence, publisher=publisher, downloads=downloads
    )
    return ox.serialize(triples, format=FORMATS[format], prefixes=PREFIXES) or b""


def _rows(store: QuadStore, name: str) -> list[dict[str, Any]]:
    rows = store.query(query_files.find(name).bind())
    assert isinstance(rows, Solutions)  # noqa: S101 - both are SELECT
    return rows.to_dicts()


def dataset_triples(
    dataset: ox.NamedNode,
    counts: Counts | None = None,
    *,
    licence: str | None = None,
    publisher: str | None = None,
    downloads: tuple[str, ...] = (),
) -> Iterator[ox.Triple]:
    """Yield what is said of a dataset that holds agent sessions.

    `licence` is an IRI, `publisher` a name and `downloads` are the URLs of its files: nothing is said of what is not given.
    Raises `InvalidInput` for a licence or a URL that is no IRI.

    >>> [str(each.object) for each in dataset_triples(ox.NamedNode("urn:d"), publisher="ACME")][-1]
    '"ACME"'
    """
    for name in (VOID + "Dataset", DCAT + "Dataset"):
        yield ox.Triple(dataset, vocab.TYPE, ox.NamedNode(name))
    yield ox.Triple(dataset, _term(DCTERMS, "title"), ox.Literal("A store of agent sessions", language="en"))
    yield ox.Triple(dataset, _term(VOID, "uriSpace"), ox.Literal("urn:trails:"))
    for namespace in (vocab.TRAILS, vocab.PROV):
        yield ox.Triple(dataset, _term(VOID, "vocabulary"), ox.NamedNode(namespace))
    if counts is not None:
        yield from _counted(dataset, counts)
    for number, url in enumerate(downloads):
        yield from _distribution(dataset, ox.BlankNode(f"download{number}"), url)
    if licence is not None:
        yield ox.Triple(dataset, _term(DCTERMS, "license"), _iri(licence, "the licence"))
    if publisher is not None:
        agent = ox.BlankNode("publisher")
        yield ox.Triple(dataset, _term(DCTERMS, "publisher"), agent)
        yield ox.Triple(agent, vocab.TYPE, _term(FOAF, "Agent"))
        yield ox.Triple(agent, _term(FOAF, "name"), ox.Literal(publisher))


def _counted(dataset: ox.NamedNode, counts: Counts) -> Iterator[ox.Triple]:
    yield ox.Triple(dataset, _term(VOID, "triples"), vocab.integer(counts.catalog + counts.turns))
    yield ox.Triple(dataset, _term(VOID, "entities"), vocab.integer(counts.sessions))
    parts = (("class", "entities", counts.classes), ("property", "triples", counts.properties))
    for kind, counted, of in parts:
        for number, (iri, count) in enumerate(sorted(of.items())):
            part = ox.BlankNode(f"{kind}{number}")
            yield ox.Triple(dataset, _term(VOID, f"{kind}Partition"), part)
            yield ox.Triple(part, _term(VOID, kind), ox.NamedNode(iri))
            yield ox.Triple(part, _term(VOID, counted), vocab.integer(count))


def _distribution(dataset: ox.NamedNode, node: ox.BlankNode, url: str) -> Iterator[ox.Triple]:
    place = _iri(url, "where it can be had")
    form = ox.RdfFormat.from_extension(url.rpartition(".")[2].lower())
    yield ox.Triple(dataset, _term(DCAT, "distribution"), node)
    yield ox.Triple(node, vocab.TYPE, _term(DCAT, "Distribution"))
    yield ox.Triple(node, _term(DCAT, "downloadURL"), place)
    yield ox.Triple(dataset, _term(VOID, "dataDump"), place)
    if form is not None:
        yield ox.Triple(node, _term(DCAT, "mediaType"), ox.NamedNode(_MEDIA_TYPES + form.media_type))


def _iri(text: str, what: str) -> ox.NamedNode:
    try:
        return ox.NamedNode(text)
    except ValueError as error:
        raise InvalidInput(f"{what} is named by an IRI, as in https://example.org/, not by {text!r}") from error


def counts_of(totals: Mapping[str, int], parts: Iterable[Mapping[str, Any]]) -> Counts:
    """Return the counts by the one row of the query `void` and the rows of `void_partitions`."""
    rows = list(parts)
    of = {kind: {row[kind]: row["count"] for row in rows if row[kind] is not None} for kind in ("class", "property")}
    return Counts(totals["catalog"], totals["turns"], totals["sessions"], of["class"], of["property"])


def _term(namespace: str, name: str) -> ox.NamedNode:
    return ox.NamedNode(namespace + name)
