"""Names that are in use: over a server, the id of one session is never the label of another."""

from __future__ import annotations

from trails.errors import InvalidInput
from trails.model import iris, validation
from trails.session.repository import Repository


def check_free(store: Repository, session_id: str | None, label: str | None) -> None:
    """Raise `InvalidInput` if a new session's id is another one's label, or its label another one's id.

    Whoever takes the name need not see the other session, and would keep its owner from it: a store finds neither by a name
    that stands for two, but by their IRIs.
    """
    if session_id is not None and store.workspace.reader.labelled(session_id) is not None:
        raise _in_use(session_id)
    check_label(store, session_id, label)


def check_label(store: Repository, session_id: str | None, label: str | None) -> None:
    """Raise `InvalidInput` if the label that a session is to have is another one's id."""
    if label is None or label == session_id:
        return
    name = iris.session_id(label) if label.startswith(iris.session("")) else label
    if validation.is_session_id(name) and store.workspace.reader.records([name]):
        raise _in_use(label)


def _in_use(name: str) -> InvalidInput:
    return InvalidInput(f"the name {name!r:.200} is in use; choose another")
