"""Patterns of quads: what a store is asked for, and what a commit forbids."""

from __future__ import annotations

import pyoxigraph as ox

Pattern = tuple[
    ox.NamedNode | None, ox.NamedNode | None, ox.NamedNode | ox.Literal | None, ox.NamedNode | ox.DefaultGraph | None
]
"""Subject, predicate, object, graph; None matches anything."""


def matches(quad: ox.Quad, pattern: Pattern) -> bool:
    """Tell whether a quad matches a pattern."""
    subject, predicate, value, graph = pattern
    return (
        (predicate is None or quad.predicate == predicate)
        and (subject is None or quad.subject == subject)
        and (value is None or quad.object == value)
        and (graph is None or quad.graph_name == graph)
    )
