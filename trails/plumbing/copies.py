"""What stands beside copied turns: by which copying they came, and where the calls that they keep were really made.

A copy repeats what its digest covers. That a model or a tool was called is none of it: that happened once, where the turn
stood first. So calls are counted by the first turn's digest, for the session and the principal that they were made for,
and deleting either of the two turns changes no bill.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from pyoxigraph import Literal, NamedNode, Quad

from trails import iris, vocab
from trails.model import Turn
from trails.records.acts import Copying, act_quads
from trails.store.contract import Matching

BESIDE: Final = frozenset({vocab.ALTERNATE_OF, vocab.CALL_DIGEST, vocab.CALLED_IN, vocab.CALLED_FOR})
"""What is said of a copied turn, or of the record of its model call, that no digest of a turn covers."""


class Origin(NamedTuple):
    """Where a model call was made: the digest of its first turn, that turn's session, and whom that ran for."""

    digest: str
    session_iri: str
    principal_iri: str


def is_beside(quad: Quad) -> bool:
    """Tell whether a quad says that a turn is a copy: it is logged with the session's row."""
    made_by = quad.predicate == vocab.GENERATED_BY and iris.act_token(_text(quad.object)) is not None
    return made_by or quad.predicate in BESIDE


def in_graph(store: Matching, node: NamedNode, copyings: Iterable[NamedNode]) -> list[Quad]:
    """Return all such quads of a session's graph, given the copyings that were done to it."""
    found = [quad for predicate in sorted(BESIDE, key=str) for quad in store.quads((None, predicate, None, node))]
    return found + [quad for act in copyings for quad in store.quads((None, vocab.GENERATED_BY, act, node))]


def origin(store: Matching, turn_iri: str, digest: str) -> Origin:
    """Return where the model call of a stored turn was made, as far as the store knows."""
    graph = NamedNode(iris.session(iris.session_id(turn_iri)))
    call, node = NamedNode(iris.model_call(turn_iri)), NamedNode(turn_iri)
    known = _one(store, call, vocab.CALL_DIGEST, graph)
    if known is not None:
        where = _one(store, call, vocab.CALLED_IN, graph) or graph.value
        return Origin(known, where, _one(store, call, vocab.CALLED_FOR, graph) or _principal(store, graph))
    # Up to format 2 a copy says no more than what it is a copy of.
    quoted = _one(store, node, vocab.QUOTED_FROM, graph)
    first = quoted or _one(store, node, vocab.ALTERNATE_OF, graph)
    home = graph if first is None else NamedNode(iris.session(iris.session_id(first)))
    said = _one(store, node, vocab.QUOTED_DIGEST, graph) or digest
    return Origin(said, home.value, _principal(store, home) or _principal(store, graph))


def _principal(store: Matching, session: NamedNode) -> str:
    return _one(store, session, vocab.ATTRIBUTED_TO, vocab.CATALOG) or ""


def _one(store: Matching, subject: NamedNode, predicate: NamedNode, graph: object) -> str | None:
    found = store.quads((subject, predicate, None, graph))  # type: ignore[arg-type] # a graph
    return _text(found[0].object) if found else None


def _text(term: object) -> str:
    return str(getattr(term, "value", term))


def copy_quads(store: Matching, original_iri: str, digest: str, copy: Turn, copying: Copying) -> list[Quad]:
    """Return what stands beside a copy of a stored turn, given that one's IRI and digest."""
    graph, node = NamedNode(iris.session(copy.session_id)), NamedNode(copy.iri)
    made = [Quad(node, vocab.GENERATED_BY, NamedNode(copying.iri), graph)]
    if copy.quoted_from is None or copy.quoted_from.iri != original_iri:
        made.append(Quad(node, vocab.ALTERNATE_OF, NamedNode(original_iri), graph))
    if copy.facts.model_call is None:
        return made
    call, found = NamedNode(iris.model_call(copy.iri)), origin(store, original_iri, digest)
    return [
        *made,
        Quad(call, vocab.CALL_DIGEST, Literal(found.digest), graph),
        Quad(call, vocab.CALLED_IN, NamedNode(found.session_iri), graph),
        Quad(call, vocab.CALLED_FOR, NamedNode(found.principal_iri), graph),
    ]


def picked_quads(store: Matching, picked: Sequence[Turn], by_iri: str, action: str) -> list[Quad]:
    """Return what stands beside turns that quote others, and the copying that they come by; the same each time."""
    quoting = [(turn, turn.quoted_from) for turn in picked if turn.quoted_from is not None]
    if not quoting:
        return []
    first = quoting[0][0]
    copying = Copying(
        session_id=first.session_id,
        token=first.digest[:16],
        by_iri=by_iri,
        time=first.time,  # type: ignore[arg-type] # a picked turn has the time of the pick
        action=action,
        used=tuple(sorted({quote.session_id for _, quote in quoting})),
    )
    quads = act_quads(copying)
    for turn, quote in quoting:
        quads += copy_quads(store, quote.iri, quote.digest, turn, copying)
    return quads
