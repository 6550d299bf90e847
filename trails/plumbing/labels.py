"""Giving a session its label, which no other session of the store has, or taking it away."""

from __future__ import annotations

from pyoxigraph import Literal, NamedNode, Quad

from trails import validate, vocab
from trails.errors import InvalidInput
from trails.plumbing import acts, conversations, leaves, names
from trails.plumbing.transaction import Transaction, there
from trails.plumbing.workspace import Workspace


def set_label(workspace: Workspace, session: names.Name, label: str | None, by: str | None = None) -> None:
    """Give a stored session a label, or take its label away with None; raise `InvalidInput` for one in use."""
    wanted = None if label is None else validate.label(label)
    record = names.record(workspace, session)
    if record.label == wanted:
        return
    deed = workspace.deed(by)
    tx = Transaction(workspace.reader)
    tx.add(acts.altered(record.id, deed, "label", record.label, wanted))
    if (named := workspace.reader.conversation(record.id)) is not None:
        conversations.relabel(tx, named, wanted)
    else:
        tx.require([there(record.id)])
        tx.take(_label(record.iri, record.label))
        tx.add(_label(record.iri, wanted))
        if wanted is not None:
            tx.label(wanted)
    tx.log(leaves.rows("change", [record.id]))
    changed = f"session {record.id!r} was changed by another writer; try again"
    tx.commit(workspace.store, otherwise=lambda _: InvalidInput(changed))


def _label(session_iri: str, label: str | None) -> list[Quad]:
    return [] if label is None else [Quad(NamedNode(session_iri), vocab.LABEL, Literal(label), vocab.CATALOG)]
