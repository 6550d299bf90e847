"""The page of the SPARQL editor: Yasqe over the endpoint `/sparql`, with the prefixes and the catalogue at hand."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import orjson
from pyoxigraph import NamedNode

from trails.rdf import query_files, vocab
from trails.serve.access import require
from trails.serve.console.audit_pages import questions
from trails.serve.console.rendering import page, route
from trails.serve.service import Service

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

_FIRST: Final = """# The newest sessions, and how many turns each has of its own
SELECT ?session ?created (COUNT(?turn) AS ?turns) WHERE {
  ?session a trails:Session .
  OPTIONAL { ?session prov:generatedAtTime ?created }
  OPTIONAL { GRAPH ?session { ?turn a trails:Turn } }
}
GROUP BY ?session ?created
ORDER BY DESC(?created)
LIMIT 50
"""
"""The query that the editor begins with."""


async def editor_page(request: Request) -> Response:
    """Show the editor with a query: that of the address, one of the catalogue by name, or one to begin with."""
    require(request, "read")
    query = request.query_params.get("query", "")
    name = request.query_params.get("name", "")
    if name and not query:
        query = query_files.find(name).text
    text = query or beginning()
    facts: dict[str, Any] = {"query": text, "name": name, "questions": questions(), "themes": query_files.THEMES}
    return page(request, "editor.html", section="sparql", terms=terms(), prefixes=vocab.PREFIXES, **facts)


@cache
def beginning() -> str:
    """Return the query that the editor begins with, after the prefixes."""
    return "".join(f"PREFIX {name}: <{namespace}>\n" for name, namespace in vocab.PREFIXES.items()) + _FIRST


@cache
def terms() -> str:
    """Return the names that the editor completes, such as `trails:index`, as JSON."""
    nodes = {value.value for value in vars(vocab).values() if isinstance(value, NamedNode)}
    names = {
        f"{prefix}:{iri.removeprefix(namespace)}"
        for iri in nodes
        for prefix, namespace in vocab.PREFIXES.items()
        if iri.startswith(namespace) and iri != namespace
    }
    return orjson.dumps(sorted(names)).decode()


def routes(service: Service) -> Sequence[BaseRoute]:
    """Return the route of the editor."""
    return [route("/sparql-editor", editor_page)]
