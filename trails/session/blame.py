"""Blame: of each turn of a transcript, which session owns it, who wrote it, and where it stood first."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pyoxigraph import NamedNode

from trails import iris, validate, vocab
from trails.decoding import decodes
from trails.errors import InvalidInput
from trails.model import Quote, SessionRecord, Turn, Value
from trails.plumbing.worktree import Worktree
from trails.store.contract import QuadStore


class Blame(Value):
    """Where one turn of a transcript comes from."""

    index: int
    session_id: str
    """The session that owns the turn: the one that was asked about, or an ancestor."""
    principal: str
    """Whom that session runs for."""
    author: str
    role: str
    model: str | None
    time: datetime | None
    digest: str
    copied_from: str | None = None
    """The session that the turn was first written in, where the owner holds a copy (of detach or flatten)."""
    quoted_from: Quote | None = None
    """The turn that this one was cherry-picked from."""
    pending: bool = False
    """Whether the turn is not stored yet."""

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as plain values, ready for JSON."""
        plain = self.model_dump(exclude={"session_id", "time"})
        return plain | {"session": self.session_id, "time": self.time.isoformat() if self.time else None}


def of_worktree(tree: Worktree, start: int, end: int | None) -> list[Blame]:
    """Return where turns of a session come from, pending ones too; see `Session.blame`."""
    length = len(tree.turns)
    last = length if end is None else validate.index(end, "end")
    if not validate.index(start, "start") <= last <= length:
        raise InvalidInput(f"session {tree.id!r} has {length} turns, so no range from {start} to {last}")
    return blame(tree.workspace.store, tree.chain, tree.turns[start:last], stored=tree.first_pending)


@decodes
def blame(store: QuadStore, chain: Sequence[SessionRecord], turns: Sequence[Turn], *, stored: int) -> list[Blame]:
    """Return where turns of a transcript come from, given its session's lineage; those from index `stored` on are pending."""
    owners = {record.id: record for record in chain}
    originals = {owner: _originals(store, owner) for owner in {turn.session_id for turn in turns}}
    return [
        Blame(
            index=turn.index,
            session_id=turn.session_id,
            principal=owners[turn.session_id].principal,
            author=turn.author,
            role=turn.role,
            model=turn.model,
            time=turn.time,
            digest=turn.digest,
            copied_from=_first(store, originals, turn.iri),
            quoted_from=turn.quoted_from,
            pending=turn.index >= stored,
        )
        for turn in turns
    ]


def _originals(store: QuadStore, session_id: str) -> dict[str, str]:
    """Return which turn each copy in a session's graph is a copy of."""
    graph = NamedNode(iris.session(session_id))
    quads = store.quads((None, vocab.ALTERNATE_OF, None, graph))
    return {str(quad.subject.value): str(quad.object.value) for quad in quads}  # type: ignore[union-attr] # IRIs


def _first(store: QuadStore, originals: dict[str, dict[str, str]], turn_iri: str) -> str | None:
    """Return the session in which a turn stood first, following copies of copies; None for a turn that is no copy."""
    seen = {turn_iri}
    while True:
        owner = iris.session_id(turn_iri)
        if owner not in originals:
            originals[owner] = _originals(store, owner)
        original = originals[owner].get(turn_iri)
        if original is None or original in seen:
            return owner if len(seen) > 1 else None
        seen.add(original)
        turn_iri = original
