"""Choose the format of an answer: by the header `Accept` (RFC 9110, 12.5.1), or by a parameter `format`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyoxigraph as ox

_W3C: Final = "http://www.w3.org/ns/formats/"


@dataclass(frozen=True, slots=True)
class Format:
    """A format that answers are written in."""

    media_type: str
    w3c: str
    """Its IRI in a service description (https://www.w3.org/ns/formats/)."""
    names: tuple[str, ...]
    """What the parameter `format` may say."""
    aliases: tuple[str, ...] = ()
    """Other media types that clients ask for it by."""


def _rows(form: ox.QueryResultsFormat, *names: str, aliases: tuple[str, ...] = (), w3c: str) -> Format:
    return Format(form.media_type.partition(";")[0], _W3C + w3c, names, aliases)


def _triples(form: ox.RdfFormat, *names: str, aliases: tuple[str, ...] = (), w3c: str) -> Format:
    return Format(form.media_type, _W3C + w3c, names, aliases)


ROWS: Final = (
    _rows(ox.QueryResultsFormat.JSON, "json", aliases=("application/json",), w3c="SPARQL_Results_JSON"),
    _rows(ox.QueryResultsFormat.XML, "xml", aliases=("application/xml", "text/xml"), w3c="SPARQL_Results_XML"),
    _rows(ox.QueryResultsFormat.CSV, "csv", w3c="SPARQL_Results_CSV"),
    _rows(ox.QueryResultsFormat.TSV, "tsv", w3c="SPARQL_Results_TSV"),
)
"""The formats of a SELECT and an ASK; where all are as welcome, the first one."""
TRIPLES: Final = (
    _triples(ox.RdfFormat.TURTLE, "turtle", "ttl", aliases=("application/x-turtle",), w3c="Turtle"),
    _triples(ox.RdfFormat.N_TRIPLES, "ntriples", "nt", aliases=("text/plain",), w3c="N-Triples"),
    _triples(
        ox.RdfFormat.RDF_XML, "rdf", "rdfxml", "rdf+xml", "xml", aliases=("application/xml", "text/xml"), w3c="RDF_XML"
    ),
    _triples(ox.RdfFormat.JSON_LD, "jsonld", "json-ld", "json", aliases=("application/json",), w3c="JSON-LD"),
    _triples(ox.RdfFormat.N_QUADS, "nquads", "nq", w3c="N-Quads"),
    _triples(ox.RdfFormat.TRIG, "trig", w3c="TriG"),
    _triples(ox.RdfFormat.N3, "n3", w3c="N3"),
)
"""The formats of a CONSTRUCT and a DESCRIBE. Those for quads write the triples of the default graph."""


def chosen(accept: str, formats: Sequence[Format], name: str | None = None) -> str | None:
    """Return the media type that is preferred among those of some formats; None where none is acceptable.

    `accept` is the value of the header, empty where there is none. A `name` (`format=csv`) counts instead of it.

    >>> chosen("text/csv;q=0.5, application/json", ROWS), chosen("image/png", ROWS), chosen("", TRIPLES)
    ('application/json', None, 'text/turtle')
    >>> chosen("application/json", ROWS, "csv")
    'text/csv'
    """
    if name is not None:
        return next((each.media_type for each in formats if name.lower() in (*each.names, each.media_type)), None)
    ranges = _ranges(accept)
    if not ranges:
        return formats[0].media_type
    offered = [each.media_type for each in formats] + [alias for each in formats for alias in each.aliases]
    best = max(offered, key=lambda each: _quality(each, ranges))  # the first of the best
    return best if _quality(best, ranges) > 0 else None


def _quality(media_type: str, ranges: dict[str, float]) -> float:
    """Return the quality that the most specific range gives to a media type."""
    kind = media_type.partition("/")[0]
    return next((ranges[each] for each in (media_type, f"{kind}/*", "*/*") if each in ranges), 0.0)


def _ranges(accept: str) -> dict[str, float]:
    """Return the media ranges of a header with their qualities. One whose quality is no number from 0 to 1 is left out."""
    found: dict[str, float] = {}
    for part in accept.split(","):
        media_range, *parameters = (each.strip().lower() for each in part.split(";"))
        qualities = [value.strip() for name, _, value in (each.partition("=") for each in parameters) if name == "q"]
        try:
            quality = float(qualities[0]) if qualities else 1.0
        except ValueError:
            continue
        if media_range and 0 <= quality <= 1:
            found["*/*" if media_range == "*" else media_range] = max(quality, found.get(media_range, 0.0))
    return found


def offered(formats: Sequence[Format]) -> str:
    """Return the media types of some formats, for a message."""
    return ", ".join(each.media_type for each in formats)
