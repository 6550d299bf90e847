"""Taking a tag or a note away: its quads go, and a record of who did it when comes in their place."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime

from trails import iris
from trails.errors import InvalidInput
from trails.model import Note, Tag
from trails.plumbing import draft, leaves
from trails.plumbing.workspace import Workspace
from trails.records.annotations import author_type, note_quads, removal_quads, tag_quads
from trails.store.contract import Change, PreconditionFailed


def take_away(workspace: Workspace, gone: Tag | Note, by: str | None) -> None:
    """Remove a tag or a note that is stored; `by` is who does it, the principal of the session that it names for None.

    Raises `InvalidInput` where another writer was first.
    """
    who = draft.author_iri(by) or iris.principal(workspace.record(gone.session_id).principal)
    quads = tag_quads(gone) if isinstance(gone, Tag) else note_quads(gone)
    record = removal_quads(gone, who, datetime.now(UTC), secrets.token_hex(4))
    change = Change(
        add=[*record, author_type(who)],
        remove=quads,
        require=quads,
        leaves=leaves.rows("change", [gone.session_id]),
    )
    try:
        workspace.store.commit(change)
    except PreconditionFailed as failure:
        name = f"the tag {gone.name!r}" if isinstance(gone, Tag) else f"the note {gone.id!r}"
        raise InvalidInput(f"{name} was removed by another writer meanwhile") from failure
