"""Taking a tag, a note or a score away: its quads go, and a record of who did it when comes in their place."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime

from pyoxigraph import Quad

from trails.errors import InvalidInput
from trails.model import Note, Tag
from trails.plumbing import leaves
from trails.plumbing.transaction import Transaction
from trails.plumbing.workspace import Workspace
from trails.records.annotations import note_quads, removal_quads, tag_quads
from trails.records.deeds import author_type
from trails.records.scores import Score, score_quads


def take_away(workspace: Workspace, gone: Tag | Note | Score, by: str | None) -> None:
    """Remove a tag, a note or a score that is stored; `by` is who does it, the process's own actor for None.

    Raises `InvalidInput` where another writer was first.
    """
    who = workspace.who(by)
    name, quads = _told(gone)
    record = removal_quads(gone, who, datetime.now(UTC), secrets.token_hex(4))
    tx = Transaction()
    tx.take(quads, lambda _: InvalidInput(f"{name} was removed by another writer meanwhile"))
    tx.add([*record, author_type(who)])
    tx.log(leaves.rows("change", [gone.session_id]))
    tx.commit(workspace.store)


def _told(gone: Tag | Note | Score) -> tuple[str, list[Quad]]:
    """Return what it is called, and its quads."""
    if isinstance(gone, Tag):
        return f"the tag {gone.name!r}", tag_quads(gone)
    if isinstance(gone, Score):
        return f"the score {gone.id!r}", score_quads(gone)
    return f"the note {gone.id!r}", note_quads(gone)
