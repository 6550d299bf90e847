"""Giving a session its label, which no other session of the store has, or taking it away."""

from __future__ import annotations

from dataclasses import replace

from pyoxigraph import Literal, NamedNode, Quad

from trails import validate, vocab
from trails.errors import InvalidInput
from trails.plumbing import conversations, leaves
from trails.plumbing.workspace import Workspace
from trails.store.contract import Change, PreconditionFailed


def set_label(workspace: Workspace, session: str, label: str | None) -> None:
    """Give a stored session a label, or take its label away with None; raise `InvalidInput` for one in use."""
    wanted = None if label is None else validate.label(label)
    record = workspace.record(session)
    if record.label == wanted:
        return
    node, reader = NamedNode(record.iri), workspace.reader
    old = [] if record.label is None else [Quad(node, vocab.LABEL, Literal(record.label), vocab.CATALOG)]
    change = Change(
        add=[] if wanted is None else [Quad(node, vocab.LABEL, Literal(wanted), vocab.CATALOG)],
        remove=old,
        require=[Quad(node, vocab.TYPE, vocab.SESSION, vocab.CATALOG), *old],
        forbid=[] if wanted is None else [(None, vocab.LABEL, Literal(wanted), vocab.CATALOG)],
        leaves=leaves.rows("change", [record.id]),
    )
    if (named := reader.conversation(record.id)) is not None:
        change = replace(conversations.relabelling(named, wanted), leaves=change.leaves)
    try:
        workspace.store.commit(change)
    except PreconditionFailed as failure:
        if failure.present is None:
            raise InvalidInput(f"session {record.id!r} was changed by another writer; try again") from failure
        owner = reader.labelled(wanted or "")
        raise InvalidInput(f"the label {wanted!r} belongs to session {owner!r}; choose another") from failure
