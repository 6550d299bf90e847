"""Principals, agents and tools that nothing mentions any more: what the catalog says of them goes with their last mention."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from pyoxigraph import NamedNode, Quad

from trails import iris, vocab
from trails.plumbing.transaction import Transaction
from trails.store.contract import PreconditionFailed, QuadStore

_LINKS = (vocab.ATTRIBUTED_TO, vocab.ASSOCIATED_WITH, vocab.TOOL_USED, vocab.APPROVED_BY, vocab.REFUSED_BY)


def sweep_names(store: QuadStore, names: Iterable[NamedNode] | None = None) -> int:
    """Take out what the catalog says of those principals, agents and tools (None: of all) that nothing mentions; return how many.

    Each goes only while nothing does, so a session that another thread makes for one meanwhile is not left without it.
    """
    gone = 0
    for quad in _types(store, names):
        tx = Transaction()
        tx.take(store.quads((quad.subject, None, None, vocab.CATALOG)) if quad.object == vocab.TOOL else [quad])  # type: ignore[arg-type] # an IRI
        tx.forbid((None, None, quad.subject, None))  # type: ignore[arg-type] # an IRI
        with suppress(PreconditionFailed):  # it is mentioned, or gone
            gone += tx.commit(store)
    return gone


def names_in(quads: Iterable[Quad]) -> set[NamedNode]:
    """Return the principals, agents and tools that quads mention."""
    return {node for quad in quads if isinstance(node := quad.object, NamedNode) and iris.is_author(node.value)}


def names_in_graphs(store: QuadStore, graphs: Iterable[NamedNode]) -> set[NamedNode]:
    """Return the principals, agents and tools that graphs mention."""
    return {name for graph in graphs for link in _LINKS for name in names_in(store.quads((None, link, None, graph)))}


def _types(store: QuadStore, names: Iterable[NamedNode] | None) -> list[Quad]:
    if names is None:
        kinds = (vocab.PRINCIPAL, vocab.AGENT, vocab.TOOL)
        return [quad for kind in kinds for quad in store.quads((None, vocab.TYPE, kind, vocab.CATALOG))]
    return [quad for name in names for quad in store.quads((name, vocab.TYPE, None, vocab.CATALOG))]
