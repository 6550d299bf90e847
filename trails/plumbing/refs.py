"""References: how people and programs name a session, or the first turns of one.

A reference is a name of a session (see `names`); or such a name, an `@`, and the exclusive end of its transcript that is meant:
`plan@5` is the first five turns of `plan`. A tag means the turns that it stands for. Instead of a number, the beginning of a
turn's digest may stand there, at least 4 hex digits of which one is a letter: `plan@9f3a` ends with that turn. A whole name comes
first, so an id that holds an `@` stays what it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from trails import lineage, validate
from trails.errors import InvalidInput
from trails.plumbing import names, tails
from trails.plumbing.workspace import Workspace

_PLACE: Final = re.compile(r"[0-9]{1,12}|(?=[0-9]*[a-f])[0-9a-f]{4,64}")
_DIGEST: Final = re.compile(r"[0-9a-f]{4,64}")


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
    if (whole := names.whole(workspace, wanted)) is not None:
        return Revision(wanted, *whole)
    name, at, end = wanted.rpartition("@")
    if at and name and _PLACE.fullmatch(end):
        found = names.whole(workspace, name) or _shortened(workspace, name)
        if found is None:
            raise names.unknown(workspace, name)
        return Revision(wanted, found[0], _end(workspace, Revision(name, *found), end))
    short = _shortened(workspace, wanted)
    if short is None:
        raise names.unknown(workspace, wanted)
    return Revision(wanted, *short)


def _shortened(workspace: Workspace, name: str) -> tuple[str, int | None] | None:
    found = names.shortened(workspace, name)
    return None if found is None else (found, None)


def _end(workspace: Workspace, found: Revision, end: str) -> int:
    """Return the exclusive end that stands behind an `@`, if the place reaches that far."""
    if not end.isdecimal():
        return turn_index(workspace, found, end) + 1
    index = int(end)
    runs = lineage.segments(workspace.reader.lineage(found.session_id), found.end)
    owner = None if index == 0 else tails.owner_at(runs, index - 1)
    if index == 0 or (owner is not None and workspace.reader.owns(owner, index - 1)):
        return index
    length = tails.length(workspace.reader, runs)
    turns = f"{length} turn{'' if length == 1 else 's'}"
    raise InvalidInput(f"{found.ref!r} has {turns}, so there is no {found.ref}@{index}: @0 to @{length} is possible")


def turn_index(workspace: Workspace, place: Revision, digest: str) -> int:
    """Return the index of the turn whose digest begins so, with at least 4 hex digits, in the transcript at a place.

    Raises `InvalidInput` where no turn's or several turns' digests begin so, naming those.
    """
    wanted = validate.text(digest, "the beginning of a digest")
    if not _DIGEST.fullmatch(wanted):
        raise InvalidInput(f"{wanted!r} is no beginning of a digest: that has 4 to 64 hex digits in lower case")
    found = [
        (index, known)
        for run in lineage.segments(workspace.reader.lineage(place.session_id), place.end)
        for index, known in workspace.reader.digests(run)
        if known.startswith(wanted)
    ]
    if len(found) == 1:
        return found[0][0]
    if not found:
        raise InvalidInput(
            f"no turn of {place.ref!r} has a digest that begins with {wanted!r}; `trails show` lists them"
        )
    which = ", ".join(f"{known[:16]} (turn {index})" for index, known in found[:4])
    raise InvalidInput(f"{wanted!r} is the beginning of several digests in {place.ref!r}: {which}; give more of it")
