"""Between Python values and the terms of RDF: times, metadata, and terms that come again and again. Pure."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Triple

from trails import validate
from trails import vocab as v
from trails.decoding import decodes
from trails.errors import IntegrityError

Term = NamedNode | Literal | BlankNode | Triple
Graph = NamedNode | DefaultGraph | BlankNode
Row = tuple[NamedNode, NamedNode, NamedNode | Literal]
"""Subject, property and object, before the graph is known."""


@lru_cache(maxsize=4096)
def short_literal(text: str) -> Literal:
    """Return a text that comes again and again, as one and the same string literal."""
    return Literal(text)


@lru_cache(maxsize=4096)
def known_node(iri: str) -> NamedNode:
    """Return an IRI that comes again and again, as one and the same node."""
    return NamedNode(iri)


def time_literal(time: datetime) -> Literal:
    """Return a time as xsd:dateTime in the engine's own canonical form: UTC, `Z`, no trailing zeros."""
    plain = (time if time.tzinfo is UTC else time.astimezone(UTC)).isoformat(timespec="microseconds")
    return Literal(plain[:-6].rstrip("0").rstrip(".") + "Z", datatype=v.DATE_TIME)


def parse_time(lexical: str) -> datetime:
    """Return the aware UTC time that an xsd:dateTime stands for; raise `IntegrityError` for what Trails never writes."""
    try:
        time = datetime.fromisoformat(lexical)
        return time if time.tzinfo is UTC else validate.time(time)
    except ValueError as error:
        raise IntegrityError(f"{lexical!r} is stored as a time and is none in UTC: the store was altered") from error


def meta_literal(value: Any) -> Literal:
    """Return a metadata value as a typed literal: string, boolean, integer, double, or rdf:JSON for anything nested."""
    if isinstance(value, int) and not isinstance(value, bool):
        return v.integer(value)
    if isinstance(value, str | bool | float):
        return Literal(value)
    return Literal(validate.to_json(value, "meta"), datatype=v.JSON)


@decodes
def meta_value(literal: Literal) -> Any:
    """Return the Python value of a metadata literal."""
    match literal.datatype:
        case v.BOOLEAN:
            return literal.value == "true"
        case v.INTEGER:
            return int(literal.value)
        case v.DOUBLE:
            return float(literal.value)
        case v.JSON:
            return json.loads(literal.value)
        case _:
            return literal.value
