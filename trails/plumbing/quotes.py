"""Quoted turns at the commit that stores what quotes them: they must still stand there as they were read."""

from __future__ import annotations

from collections.abc import Iterable

from pyoxigraph import NamedNode, Quad

from trails import iris, vocab
from trails.errors import InvalidInput
from trails.model import Turn
from trails.records.turns import content_literal
from trails.store.contract import PreconditionFailed


def sources(quoting: Iterable[Turn]) -> list[Quad]:
    """Return the quads by which the turns that new ones quote are as they were read: none was redacted meanwhile."""
    return [
        Quad(
            NamedNode(turn.quoted_from.iri),
            vocab.VALUE,
            content_literal(turn),
            NamedNode(iris.session(turn.quoted_from.session_id)),
        )
        for turn in quoting
        if turn.quoted_from is not None
    ]


def source_gone(failure: PreconditionFailed) -> InvalidInput:
    """Return the error for a quoted turn that is not there any more as it was when picked."""
    turn = str(getattr(getattr(failure.missing, "subject", None), "value", ""))
    return InvalidInput(
        f"turn {iris.turn_index(turn)} of session {iris.session_id(turn)!r}, which was picked, was redacted or deleted "
        "meanwhile; nothing was written. Give the picked turns up with discard_pending()"
    )
