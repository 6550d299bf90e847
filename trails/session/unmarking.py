"""Taking a tag or a note away: its quads go, and a record of who did it when comes in their place."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime

from trails import iris
from trails.errors import InvalidInput
from trails.model import Note, Tag
from trails.plumbing import draft, leaves
from trails.plumbing.transaction import Transaction
from trails.plumbing.workspace import Workspace
from trails.records.annotations import author_type, note_quads, removal_quads, tag_quads


def take_away(workspace: Workspace, gone: Tag | Note, by: str | None) -> None:
    """Remove a tag or a note that is stored; `by` is who does it, the principal of the session that it names for None.

    Raises `InvalidInput` where another writer was first.
    """
    who = draft.author_iri(by) or iris.principal(workspace.record(gone.session_id).principal)
    quads = tag_quads(gone) if isinstance(gone, Tag) else note_quads(gone)
    record = removal_quads(gone, who, datetime.now(UTC), secrets.token_hex(4))
    name = f"the tag {gone.name!r}" if isinstance(gone, Tag) else f"the note {gone.id!r}"
    tx = Transaction()
    tx.take(quads, lambda _: InvalidInput(f"{name} was removed by another writer meanwhile"))
    tx.add([*record, author_type(who)])
    tx.log(leaves.rows("change", [gone.session_id]))
    tx.commit(workspace.store)
