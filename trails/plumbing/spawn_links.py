"""Links from sessions to those that spawned them, added after both are stored."""

from __future__ import annotations

from typing import Final

from pyoxigraph import NamedNode, Quad

from trails import iris, vocab
from trails.plumbing import leaves
from trails.plumbing.transaction import Transaction, there
from trails.records.terms import meta_literal
from trails.store.contract import Matching, QuadStore

AWAITED: Final = "spawnedBy"
"""The metadata of a session that names its spawner while that is not stored."""


def add(tx: Transaction, session_id: str, spawner: str) -> None:
    """Say in a session's row which one spawned it."""
    node, parent = NamedNode(iris.session(session_id)), NamedNode(iris.session(spawner))
    tx.require([there(spawner)])
    tx.add([Quad(node, vocab.SPAWNED_BY, parent, vocab.CATALOG)])
    tx.forbid((node, vocab.SPAWNED_BY, None, vocab.CATALOG))


def link(store: QuadStore, session_id: str, spawner: str) -> None:
    """Link a stored session that has no spawner to a stored one, in a commit of its own."""
    tx = Transaction()
    tx.require([there(session_id)])
    add(tx, session_id, spawner)
    tx.log(leaves.rows("change", [session_id]))
    tx.commit(store)


def waiting_for(store: Matching, spawner: str) -> list[str]:
    """Return the ids of the stored sessions that name a session as their spawner and have no link."""
    named = (None, NamedNode(iris.meta(AWAITED)), meta_literal(spawner), vocab.CATALOG)
    nodes = [quad.subject for quad in store.quads(named)]
    waiting = [
        node
        for node in nodes
        if isinstance(node, NamedNode) and not store.quads((node, vocab.SPAWNED_BY, None, vocab.CATALOG))
    ]
    return sorted(iris.session_id(node.value) for node in waiting)
