"""References: how people and programs name a session, or the first turns of one.

A reference is a session's id, IRI or label, or a tag; or such a name, an `@`, and the exclusive end of its transcript that is
meant: `plan@5` is the first five turns of `plan`. A whole name comes first, so an id that holds an `@` stays what it is.
"""

from __future__ import annotations

from dataclasses import dataclass

from trails import iris, lineage, validate
from trails.errors import InvalidInput, SessionNotFound
from trails.plumbing import marks, tails
from trails.plumbing.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Revision:
    """What a reference names: a session, up to an index (exclusive; None is all of it), and the reference itself."""

    ref: str
    session_id: str
    end: int | None = None


def place(workspace: Workspace, ref: str) -> Revision:
    """Return the place that a reference names.

    Raises `SessionNotFound` where no session, label or tag has the name, and `InvalidInput` for an index past the end or
    for what could be no session's id; all say what there is.

    >>> import trails
    >>> with trails.open(":memory:") as store:
    ...     plan = store.create(id="plan", label="trip"); _ = plan.append("user", "Plan a trip"); written = plan.persist()
    ...     place(store.workspace, "trip@1")
    Revision(ref='trip@1', session_id='plan', end=1)
    """
    wanted = validate.text(ref, "a reference")
    whole = _named(workspace, wanted)
    if whole is not None:
        return whole
    name, at, index = wanted.rpartition("@")
    if not at or not name or not (index.isascii() and index.isdecimal()):
        raise _unknown(workspace, wanted)
    found = _named(workspace, name)
    if found is None:
        raise _unknown(workspace, name)
    return Revision(wanted, found.session_id, _end(workspace, found, int(index)))


def _named(workspace: Workspace, name: str) -> Revision | None:
    """Return the place that a name alone stands for: a session or a tag; one that is both is not guessed at."""
    session_id, tagged = _session(workspace, name), _tagged(workspace, name)
    if session_id is not None and tagged is not None:
        raise InvalidInput(
            f"{name!r} is the name of session {session_id!r} and of a tag; write {iris.session(session_id)} or "
            f"{iris.tag(name)}"
        )
    if session_id is not None:
        return Revision(name, session_id)
    return None if tagged is None else Revision(name, *tagged)


def _session(workspace: Workspace, name: str) -> str | None:
    try:
        return workspace.resolve(name)
    except SessionNotFound:
        return None
    except InvalidInput:
        if validate.is_session_id(name):  # the id of one session and the label of another: nothing to guess
            raise
        return None


def _tagged(workspace: Workspace, name: str) -> tuple[str, int] | None:
    """Return the session and the index that a tag names, or None where there is no such tag."""
    found = marks.find_tag(workspace.store, name)
    return None if found is None else (found.session_id, found.length)


def _end(workspace: Workspace, found: Revision, index: int) -> int:
    """Return an index if the place reaches that far."""
    runs = lineage.segments(workspace.reader.lineage(found.session_id), found.end)
    owner = None if index == 0 else tails.owner_at(runs, index - 1)
    if index == 0 or (owner is not None and workspace.reader.owns(owner, index - 1)):
        return index
    length = tails.length(workspace.reader, runs)
    turns = f"{length} turn{'' if length == 1 else 's'}"
    raise InvalidInput(f"{found.ref!r} has {turns}, so there is no {found.ref}@{index}: @0 to @{length} is possible")


def _unknown(workspace: Workspace, name: str) -> SessionNotFound | InvalidInput:
    possible = validate.is_session_id(name)
    if possible and workspace.reader.is_deleted(name):
        return workspace.reader.not_found(name)
    newest = [record.label or record.id for record in workspace.reader.page(limit=5)]
    there = f"the newest sessions are {', '.join(map(repr, newest))}" if newest else "the store holds no sessions"
    message = f"there is no session, label or tag {name!r}; {there}; `trails list` and `trails tags` show what there is"
    return SessionNotFound(message) if possible else InvalidInput(message)
