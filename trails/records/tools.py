"""What the catalog says of tools: it follows from their IRIs, and stands there so that queries need not take those apart."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from pyoxigraph import Literal, NamedNode, Quad

from trails import iris
from trails import vocab as v


@lru_cache(maxsize=4096)
def tool_quads(tool_iri: str) -> tuple[Quad, ...]:
    """Return what the catalog says of a tool: that it is one, its name, and its server and version where its IRI has them."""
    node = NamedNode(tool_iri)
    name, server, version = iris.tool_parts(tool_iri)
    told = ((v.TOOL_NAME, name), (v.TOOL_SERVER, server), (v.TOOL_VERSION, version))
    return (
        Quad(node, v.TYPE, v.TOOL, v.CATALOG),
        *(Quad(node, predicate, Literal(text), v.CATALOG) for predicate, text in told if text is not None),
    )


def named_in(quads: Iterable[Quad]) -> list[Quad]:
    """Return what the catalog says of the tools that quads name."""
    named = {node.value for quad in quads if isinstance(node := quad.object, NamedNode) and iris.is_tool(node.value)}
    return [quad for iri in sorted(named) for quad in tool_quads(iri)]
