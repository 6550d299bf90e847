"""Taking a tag or a note away: its quads go, and a record of who did it when comes in their place."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime

from trails.errors import InvalidInput
from trails.model import Note, Tag
from trails.plumbing import leaves
from trails.plumbing.transaction import Transaction
from trails.plumbing.workspace import Workspace
from trails.records.annotations import note_quads, removal_quads, tag_quads
from trails.records.deeds import author_type


def take_away(workspace: Workspace, gone: Tag | Note, by: str | None) -> None:
    """Remove a tag or a note that is stored; `by` is who does it, the process's own actor for None.

    Raises `InvalidInput` where another writer was first.
    """
    who = workspace.who(by)
    quads = tag_quads(gone) if isinstance(gone, Tag) else note_quads(gone)
    record = removal_quads(gone, who, datetime.now(UTC), secrets.token_hex(4))
    name = f"the tag {gone.name!r}" if isinstance(gone, Tag) else f"the note {gone.id!r}"
    tx = Transaction()
    tx.take(quads, lambda _: InvalidInput(f"{name} was removed by another writer meanwhile"))
    tx.add([*record, author_type(who)])
    tx.log(leaves.rows("change", [gone.session_id]))
    tx.commit(workspace.store)
