"""Read a query from a request, as SPARQL 1.1 Protocol has it (https://www.w3.org/TR/sparql11-protocol/#query-operation)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email.message import Message
from typing import Final
from urllib.parse import parse_qsl

import pyoxigraph as ox
from starlette.exceptions import HTTPException

from trails.store.queries.user_queries import Graphs

MAX_BODY: Final = 1 << 20
"""Bytes of a body: a query has up to 64 KiB, which a form writes in three times as many, and graphs have names."""
MAX_GRAPHS: Final = 1_000
"""Graphs that a request may name."""
QUERY: Final = "application/sparql-query"
UPDATE: Final = "application/sparql-update"
FORM: Final = "application/x-www-form-urlencoded"
NO_UPDATE: Final = (
    "SPARQL Update is not offered: the log of the store is the truth, and sessions are written through the API (`/api`)"
)

Parameters = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Query:
    """What a request asks."""

    text: str
    graphs: Graphs | None
    """The dataset that the request names; None where it names none."""
    seconds: float | None
    format: str | None


def query(method: str, url: str, content_type: str, body: bytes) -> Query | None:
    """Return the query of a request; None for a GET that has none, which asks for the service description.

    `url` is the query string as it came. Raises `HTTPException` for what is no query, and for every update.

    >>> query("GET", "query=ASK%20%7B%7D&timeout=2", "", b"")
    Query(text='ASK {}', graphs=None, seconds=2.0, format=None)
    """
    asked = parameters(url)
    if method != "POST":
        _refuse_update(asked)
        return _query(asked, asked["query"]) if "query" in asked else None
    media_type, charset = _content_type(content_type)
    if media_type == UPDATE:
        raise HTTPException(403, NO_UPDATE)
    if charset not in ("utf-8", "utf8", "us-ascii"):
        raise HTTPException(415, f"a query is text in UTF-8, not in {charset!r:.40}")
    if media_type == QUERY:
        _refuse_update(asked)
        if "query" in asked:
            raise HTTPException(400, "the query is in the body and in the URL: send one of them")
        return _query(asked, [_decoded(body)])
    if media_type == FORM:
        for name, values in parameters(_decoded(body)).items():
            asked[name] = [*asked.get(name, ()), *values]
        _refuse_update(asked)
        return _query(asked, asked.get("query", ()))
    raise HTTPException(415, f"a POST has a query as {QUERY}, or as {FORM} with `query=`, not as {media_type!r:.80}")


def parameters(text: str) -> dict[str, list[str]]:
    """Return the values of each name of a query string or a form; raise `HTTPException` where it is not UTF-8.

    >>> parameters("a=1&a=%C3%A9&b=")
    {'a': ['1', 'é'], 'b': ['']}
    """
    found: dict[str, list[str]] = {}
    try:
        for name, value in parse_qsl(text, keep_blank_values=True, errors="strict"):
            found.setdefault(name, []).append(value)
    except UnicodeDecodeError as error:
        raise HTTPException(400, "the parameters are not UTF-8") from error
    return found


def one(asked: Parameters, name: str) -> str | None:
    """Return the value of a parameter; None where it is not there. Raises `HTTPException` where it is there twice."""
    values = asked.get(name, ())
    if len(values) > 1:
        raise HTTPException(400, f"the parameter {name!r} is there {len(values)} times: send one")
    return values[0] if values else None


def format_name(asked: Parameters) -> str | None:
    """Return the value of the parameter `format`; None where there are several, as SPARQLWrapper adds one a query."""
    names = set(asked.get("format", ()))
    return names.pop() if len(names) == 1 else None


def seconds(asked: Parameters) -> float | None:
    """Return how many seconds the answer may take, from the parameter `timeout`."""
    given = one(asked, "timeout")
    if given is None:
        return None
    try:
        number = float(given)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise HTTPException(400, f"timeout is a number of seconds above 0, not {given!r:.40}")
    return number


def graph(iri: str, name: str) -> ox.NamedNode:
    """Return the graph that a parameter names; raise `HTTPException` for what is no absolute IRI."""
    try:
        return ox.NamedNode(iri)
    except ValueError as error:
        raise HTTPException(400, f"{name} is an absolute IRI, not {iri!r:.80}") from error


def _query(asked: Parameters, texts: Sequence[str]) -> Query:
    if len(texts) != 1:
        raise HTTPException(400, f"a request has one query, not {len(texts)}; send it as the parameter `query`")
    default, named = (asked.get(f"{kind}-graph-uri", ()) for kind in ("default", "named"))
    if len(default) + len(named) > MAX_GRAPHS:
        raise HTTPException(400, f"a request names up to {MAX_GRAPHS:,} graphs, not {len(default) + len(named):,}")
    graphs: Graphs | None = None
    if default or named:
        graphs = (
            [graph(iri, "default-graph-uri") for iri in default],
            [graph(iri, "named-graph-uri") for iri in named],
        )
    return Query(texts[0], graphs, seconds(asked), format_name(asked))


def _refuse_update(asked: Parameters) -> None:
    if any(name in asked for name in ("update", "using-graph-uri", "using-named-graph-uri")):
        raise HTTPException(403, NO_UPDATE)


def _content_type(header: str) -> tuple[str, str]:
    """Return the media type and the charset of a header."""
    message = Message()
    message["Content-Type"] = header or "application/octet-stream"
    return message.get_content_type(), str(message.get_param("charset", "utf-8")).lower()


def _decoded(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise HTTPException(400, f"the body is not UTF-8: {error.reason} at byte {error.start:,}") from error
