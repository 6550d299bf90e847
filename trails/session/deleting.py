"""Deleting a session with what depends on it: refused, taken along, or cut loose first."""

from __future__ import annotations

from contextlib import suppress
from typing import Literal

from trails import validate
from trails.errors import HasChildren, InvalidInput, SessionNotFound
from trails.model import SessionRecord
from trails.plumbing import deletion, detach
from trails.plumbing.workspace import Workspace
from trails.records.deeds import Deed

Children = Literal["refuse", "cascade", "detach"]


def delete(
    workspace: Workspace,
    session_id: str,
    *,
    children: Children,
    by: str | None,
    reason: str | None,
    rule: str | None = None,
) -> list[str]:
    """Delete a session by its id; return the ids of all that were deleted. See `Repository.delete`."""
    if children not in ("refuse", "cascade", "detach"):
        raise InvalidInput(f'children is "refuse", "cascade" or "detach", not {children!r}')
    record = workspace.reader.record(session_id)
    deed = workspace.deed(by, reason, None if rule is None else validate.text(rule, "rule"))
    with workspace.erasing():
        return _delete(workspace, record, children, by, deed)


def _delete(workspace: Workspace, record: SessionRecord, children: Children, by: str | None, deed: Deed) -> list[str]:
    store, reader = workspace.store, workspace.reader
    while True:
        if children == "detach":
            deletion.refuse_tagged(store, record.id)
            for branch in reader.branches(record.id):
                with suppress(SessionNotFound):  # deleted meanwhile
                    detach.detach(store, reader, branch.id, workspace.deed(by))
        try:
            deleted = deletion.delete(store, reader, record.id, deed=deed, cascade=children == "cascade")
            break
        except HasChildren:
            if children != "detach" or not reader.branches(record.id):
                raise  # else another fork was made meanwhile
    deletion.sweep_pending(store)
    workspace.rewrites += 1
    return deleted
