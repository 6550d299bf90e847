"""Keeping a record of what is read out of a store: off unless the store was opened so, and then before anything is given out."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from trails.plumbing import leaves
from trails.plumbing.transaction import Transaction
from trails.plumbing.workspace import Workspace
from trails.records.acts import Reading, act_quads

ENVIRONMENT: Final = "TRAILS_RECORD_READS"
"""The variable of the environment that says, as "1", that reads are kept on record, where the program does not say."""
_WITHIN: Final = ContextVar("_WITHIN", default=False)


def are_recorded() -> bool:
    """Tell whether the environment says that reads are kept on record."""
    return os.environ.get(ENVIRONMENT) == "1"


@contextmanager
def recorded(workspace: Workspace, session_ids: Sequence[str] | None, action: str) -> Iterator[None]:
    """Note that sessions (None: all that there are) are read whole, where the store keeps a record of reads.

    What reads them again on the way, as an audit does that is packed, is not noted once more.
    """
    if not workspace.record_reads or _WITHIN.get():
        yield
        return
    _note(workspace, workspace.reader.ids() if session_ids is None else session_ids, action)
    token = _WITHIN.set(True)
    try:
        yield
    finally:
        _WITHIN.reset(token)


def _note(workspace: Workspace, session_ids: Sequence[str], action: str) -> None:
    deed, reader, tx = workspace.deed(None), workspace.reader, Transaction(workspace.reader)
    for session_id in session_ids:
        chain = reader.lineage(session_id)
        last = reader.last_index(chain)
        made = Reading(
            session_id=session_id,
            token=secrets.token_hex(8),
            by_iri=deed.by_iri,
            time=deed.time,
            action=action,
            used=tuple(sorted(record.id for record in chain)),
            read_from=None if last is None else 0,
            read_through=last,
        )
        tx.session(session_id)
        tx.add(act_quads(made))
    tx.log(leaves.rows("change", session_ids))
    tx.commit(workspace.store)
