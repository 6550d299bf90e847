"""The updates that a mirror is written with: the one place where they become text. Pure.

SPARQL 1.1 Update has no parameters, and what is inserted is of any length: a file of `queries/` with places to bind cannot
say it. So updates are written here, and from terms alone, each as the engine itself writes it, so that none can end the
place in which it stands. Statements come from `content`, which makes them of terms too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyoxigraph as ox

_Graph = ox.NamedNode | None
"""None is the default graph."""


def inserts(graph: _Graph, statements: Sequence[str], most: int) -> Iterator[tuple[str, int]]:
    """Give updates that add statements to a graph, each with how many it adds: from 1 to `most`.

    >>> list(inserts(ox.NamedNode("urn:g"), ["<urn:a> <urn:b> 1 ."], 500))
    [('INSERT DATA { GRAPH <urn:g> { <urn:a> <urn:b> 1 . } }', 1)]
    """
    for start in range(0, len(statements), most):
        part = statements[start : start + most]
        block = "\n".join(part)
        yield f"INSERT DATA {{ {_within(graph, block)} }}", len(part)


def insert(graph: _Graph, subject: ox.NamedNode, predicate: ox.NamedNode, value: ox.Literal) -> str:
    """Return the update that adds one statement to a graph."""
    said = f"{subject} {predicate} {value}"
    return f"INSERT DATA {{ {_within(graph, said)} }}"


def forget(graph: _Graph, subject: ox.NamedNode, predicate: ox.NamedNode | None = None) -> str:
    """Return the update that takes out what a graph says of a subject: all of it, or by one predicate.

    >>> forget(None, ox.NamedNode("urn:a"))
    'DELETE WHERE { <urn:a> ?p ?o }'
    """
    what = f"{subject} {'?p' if predicate is None else predicate} ?o"
    return f"DELETE WHERE {{ {_within(graph, what)} }}"


def drop(graph: ox.NamedNode) -> str:
    """Return the update that takes out a graph, which need not be there."""
    return f"DROP SILENT GRAPH {graph}"


def request(updates: Sequence[str]) -> str:
    """Return the one request that carries out updates in order."""
    return " ;\n".join(updates)


def _within(graph: _Graph, block: str) -> str:
    return block if graph is None else f"GRAPH {graph} {{ {block} }}"
