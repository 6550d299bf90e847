"""The updates that a mirror is written with: the one place where they become text. Pure.

SPARQL 1.1 Update has no parameters, and what is inserted is of any length: a file of `queries/` with places to bind cannot
say it. So updates are written here, and from terms alone, each as the engine itself writes it, so that none can end the
place in which it stands. Statements come from `content`, which makes them of terms too.

`held` is a pattern without which an update does nothing, wherever it was meanwhile: that a process still feeds the mirror.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter

import pyoxigraph as ox

_Graph = ox.NamedNode | None
"""None is the default graph."""


def held_by(graph: ox.NamedNode, subject: ox.NamedNode, predicate: ox.NamedNode, value: ox.Literal) -> str:
    """Return the pattern that matches once, as long as a graph has a statement.

    >>> node = ox.NamedNode("urn:a")
    >>> held_by(node, node, ox.NamedNode("urn:writer"), ox.Literal("me"))
    'GRAPH <urn:a> { <urn:a> <urn:writer> "me" }'
    """
    return _within(graph, f"{subject} {predicate} {value}")


def inserts(graph: _Graph, statements: Sequence[str], most: int, held: str) -> Iterator[tuple[str, int]]:
    """Give updates that add statements to a graph, each with how many it adds: from 1 to `most`.

    >>> list(inserts(ox.NamedNode("urn:g"), ["<urn:a> <urn:b> 1 ."], 500, "<urn:a> <urn:is> 2"))
    [('INSERT { GRAPH <urn:g> { <urn:a> <urn:b> 1 . } } WHERE { <urn:a> <urn:is> 2 }', 1)]
    """
    for start in range(0, len(statements), most):
        part = statements[start : start + most]
        block = "\n".join(_by_subject(part))
        yield f"INSERT {{ {_within(graph, block)} }} WHERE {{ {held} }}", len(part)


def _by_subject(statements: Sequence[str]) -> Iterator[str]:
    """Give statements, those that follow each other about one subject together: a third less to send, and to read there.

    >>> list(_by_subject(["<urn:a> <urn:b> 1 .", "<urn:a> <urn:c> 2 .", "<urn:b> <urn:c> 3 ."]))
    ['<urn:a> <urn:b> 1 ; <urn:c> 2 .', '<urn:b> <urn:c> 3 .']
    """
    for subject, about in groupby((each.partition(" ") for each in statements), itemgetter(0)):
        yield f"{subject} {' ; '.join(rest.removesuffix(' .') for _, _, rest in about)} ."


def insert(
    graph: _Graph, subject: ox.NamedNode, predicate: ox.NamedNode, value: ox.Literal, held: str | None = None
) -> str:
    """Return the update that adds one statement to a graph."""
    said = _within(graph, f"{subject} {predicate} {value}")
    return f"INSERT DATA {{ {said} }}" if held is None else f"INSERT {{ {said} }} WHERE {{ {held} }}"


def forget(graph: _Graph, subject: ox.NamedNode, predicate: ox.NamedNode | None = None, held: str | None = None) -> str:
    """Return the update that takes out what a graph says of a subject: all of it, or by one predicate.

    >>> forget(None, ox.NamedNode("urn:a"))
    'DELETE WHERE { <urn:a> ?p ?o }'
    """
    what = _within(graph, f"{subject} {'?p' if predicate is None else predicate} ?o")
    return f"DELETE WHERE {{ {what} }}" if held is None else f"DELETE {{ {what} }} WHERE {{ {held} {what} }}"


def empty(graph: ox.NamedNode, held: str) -> str:
    """Return the update that takes out all that a graph says, which need not be there."""
    what = _within(graph, "?s ?p ?o")
    return f"DELETE {{ {what} }} WHERE {{ {held} {what} }}"


def request(updates: Sequence[str]) -> str:
    """Return the one request that carries out updates in order."""
    return " ;\n".join(updates)


def _within(graph: _Graph, block: str) -> str:
    return block if graph is None else f"GRAPH {graph} {{ {block} }}"
