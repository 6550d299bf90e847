"""Who did something, when, why and by which rule: what every activity that changes a store says of itself. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from pyoxigraph import Literal, NamedNode, Quad

from trails import iris
from trails import vocab as v
from trails.records.terms import known_node, time_literal


class Deed(NamedTuple):
    """That somebody did something."""

    by_iri: str
    time: datetime
    reason: str | None = None
    """Why, in the words of whoever did it."""
    rule: str | None = None
    """The rule by which it fell due, where one did."""


def deed_quads(node: NamedNode, deed: Deed) -> list[Quad]:
    """Return what the catalog says of an activity: who, when, why; and what the one who did it is."""
    who = known_node(deed.by_iri)
    rows: list[tuple[NamedNode, NamedNode | Literal]] = [
        (v.ENDED_AT, time_literal(deed.time)),
        (v.ASSOCIATED_WITH, who),
    ]
    if deed.reason is not None:
        rows.append((v.REASON, Literal(deed.reason)))
    if deed.rule is not None:
        rows.append((v.RULE, Literal(deed.rule)))
    return [*(Quad(node, predicate, term, v.CATALOG) for predicate, term in rows), author_type(deed.by_iri)]


def author_type(author_iri: str) -> Quad:
    """Return the quad that says what an author is."""
    kind = v.TOOL if iris.is_tool(author_iri) else v.AGENT if iris.is_agent(author_iri) else v.PRINCIPAL
    return Quad(known_node(author_iri), v.TYPE, kind, v.CATALOG)
