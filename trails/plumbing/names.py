"""How people and programs name a session: the one place where a name becomes a session's id.

A name is looked up as, in this order,

1. a session's IRI (or a tag's, `urn:trails:tag:...`),
2. a session's id,
3. a session's label,
4. a tag, which stands for the session that it names,
5. the beginning of an id that a program made up (a UUID, or 16 hex digits and more), with at least 4 of its digits,
   where no other id begins so.

As in git, what was made up may be shortened and a name that somebody chose may not: whoever asks for "user-1" never gets
"user-10". What erases takes the first three alone. A name that is one session's id and another's label or tag is refused
by `resolve`; where an id is expected, as in `Repository.load`, the id comes first, and a session that is there by its id costs
no further look-up.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from heapq import nlargest
from typing import Final, Protocol, TypeVar, runtime_checkable

from pyoxigraph import NamedNode

from trails import iris, validate
from trails.errors import InvalidInput, SessionNotFound
from trails.lineage import Owner
from trails.model import SessionRecord
from trails.nearest import nearest
from trails.plumbing import marks
from trails.plumbing.index import figures
from trails.plumbing.shortening import MADE_UP, may_be_short_for
from trails.plumbing.workspace import Workspace

_SHORTENED: Final = re.compile(r"(?:^|[^0-9A-Za-z])[0-9a-f][0-9a-f-]{3,}$")
_UUID: Final = 32
_ENOUGH: Final = 1_000
_FEW: Final = 300
_SIMILAR: Final = 0.7
"""Labels and tags are like a name from here on; of ids, those that begin alike are compared, from 0.6 on."""


_Found = TypeVar("_Found")


@runtime_checkable
class HasRecord(Protocol):
    """What knows its session's row: a `Session`, a node of a `Tree`."""

    @property
    def record(self) -> SessionRecord:
        """The session's row."""
        ...


Name = str | SessionRecord | HasRecord
"""What a session may be named by: a text, its row, or a handle on it."""


def text_of(name: object) -> str:
    """Return the text that names a session; raise `InvalidInput` for what names none, saying what does."""
    if isinstance(name, str):
        return name
    if isinstance(name, SessionRecord):
        return name.id
    if isinstance(name, NamedNode):
        return name.value
    record = getattr(name, "record", None)
    if isinstance(record, SessionRecord):
        return record.id
    kind = "None" if name is None else f"a value of type {type(name).__name__}"
    raise InvalidInput(
        f"a session is named by its id, IRI, label or tag, a text, or by a Session; not by {kind}: "
        "`store.list()` shows the sessions there are, `store.create()` makes one"
    )


def record(workspace: Workspace, name: Name) -> SessionRecord:
    """Return the record of the session that a name stands for; raise `SessionNotFound` for none. An id is one query."""
    text = text_of(name)
    if validate.is_session_id(text) and (found := workspace.reader.records([text]).get(text)) is not None:
        return found
    return workspace.reader.record(resolve(workspace, text))


def lineage(workspace: Workspace, name: Name) -> tuple[SessionRecord, ...]:
    """Return the session that a name stands for, and its ancestors by forks, itself first. An id is one query."""
    return _by_name(workspace, name, workspace.reader.lineage)


def ancestry(workspace: Workspace, name: Name) -> tuple[SessionRecord, tuple[Owner, ...]]:
    """Return the session that a name stands for, and what its transcript needs of its ancestors: see `Reader.ancestry`."""
    return _by_name(workspace, name, workspace.reader.ancestry)


def _by_name(workspace: Workspace, name: Name, read: Callable[[str], _Found]) -> _Found:
    text = text_of(name)
    if text.startswith("urn:trails:") and iris.tag_name(text) is None:
        return read(workspace.session_id(text))
    if validate.is_session_id(text):
        try:
            return read(text)
        except SessionNotFound:
            pass
    return read(resolve(workspace, text))


def resolve(workspace: Workspace, name: Name, *, exact: bool = False) -> str:
    """Return the id of the session that a name stands for.

    With `exact`, as for what erases, tags and beginnings of ids are none. Raises `SessionNotFound` for a name of nothing,
    with the nearest there are, and `InvalidInput` for one of several things, naming them.
    """
    if not isinstance(name, str):
        return record(workspace, name).id
    found = whole(workspace, name, tags=not exact)
    if found is not None:
        return found[0]
    if not exact and (short := shortened(workspace, name)) is not None:
        return short
    raise unknown(workspace, name, exact=exact)


def whole(workspace: Workspace, name: str, *, tags: bool = True) -> tuple[str, int | None] | None:
    """Return the session that a whole name stands for, and for a tag how many of its turns; None for a name of nothing."""
    if name.startswith("urn:trails:") and iris.tag_name(name) is None:
        meant = workspace.session_id(name)
        return (meant, None) if meant in workspace.reader.records([meant]) else None
    text = validate.text(name, "the name")
    stored = validate.is_session_id(text) and text in workspace.reader.records([text])
    labelled = workspace.reader.labelled(text)
    if stored and labelled not in (None, text):
        raise InvalidInput(f"{text!r} is the id of one session and the label of {labelled!r}; name it by its IRI")
    session_id = text if stored else labelled
    tagged = marks.find_tag(workspace.store, text)
    if session_id is not None and tagged is not None:
        raise InvalidInput(
            f"{text!r} is the name of session {session_id!r} and of a tag; write {iris.session(session_id)} or {iris.tag(text)}"
        )
    if session_id is not None:
        return session_id, None
    return (tagged.session_id, tagged.length) if tagged is not None and tags else None


def shortened(workspace: Workspace, name: str) -> str | None:
    """Return the only id that a program made up and that begins with a name; None where there is none.

    Raises `SessionNotFound` for the whole id of a deleted session, and `InvalidInput` where several begin so.
    """
    if not validate.is_session_id(name):
        return None
    if workspace.reader.is_deleted(name):
        raise workspace.reader.not_found(name)
    if _SHORTENED.search(name) is None or _is_whole(name):
        return None
    begun = _beginning(workspace, name)
    found = [each for each in begun if may_be_short_for(name, each)]
    if len(found) > 1 or len(begun) == _ENOUGH:
        some = ", ".join(map(repr, sorted(found)[:4])) + (", ..." if len(found) > 4 else "")
        raise InvalidInput(f"{name!r} is the beginning of several ids: {some}; give more of the one that is meant")
    return found[0] if found else None


def near(workspace: Workspace, session_id: str) -> list[str]:
    """Return the ids before and after one, in order of text: what `shortening.short` must know. Read from the index."""
    return workspace.index.figures(lambda file: figures.neighbours(file, session_id))


def _is_whole(name: str) -> bool:
    """Tell whether a text ends in a whole UUID, so that no other id that was made up can begin with it."""
    made = list(MADE_UP.finditer(name))
    return bool(made) and made[-1].end() == len(name) and len(made[-1][0].replace("-", "")) == _UUID


def unknown(workspace: Workspace, name: str, *, exact: bool = False) -> SessionNotFound | InvalidInput:
    """Return the error for a name of nothing; `InvalidInput` where it could be no session's id."""
    if iris.is_session(name):
        return workspace.reader.not_found(iris.session_id(name))
    possible = validate.is_session_id(name)
    if possible and workspace.reader.is_deleted(name):
        return workspace.reader.not_found(name)
    if exact and (other := _left_out(workspace, name)) is not None:
        return SessionNotFound(f"there is no session with the id or label {name!r}; {other}")
    near = [repr(each) for each in near_names(workspace, name)]
    meant = f" (did you mean {' or '.join(near)}?)" if near else ""
    message = f"there is no session, label or tag {name!r}{meant}; `trails list` and `trails tags` show what there is"
    return SessionNotFound(message) if possible else InvalidInput(message)


def no_id(workspace: Workspace, name: str) -> SessionNotFound | InvalidInput:
    """Return the error for a text that is no stored session's id, where only ids will do."""
    found = whole(workspace, name)
    if found is None:
        return unknown(workspace, name)
    return SessionNotFound(f"no session has the id {name!r}; it names {found[0]!r}, which `store.load({name!r})` gives")


def near_names(workspace: Workspace, name: str) -> list[str]:
    """Return up to three labels, tags and ids that look like a name, the nearest first; none for an id that was made up."""
    if MADE_UP.search(name) is not None:
        return []
    wanted = validate.text(name, "the name").strip()
    if len(wanted) < 2:
        return []
    near = nearest(wanted, _alike(wanted, _given(workspace)), cutoff=_SIMILAR)
    return near or nearest(wanted, _beginning(workspace, wanted[: max(2, len(wanted) // 3)]))


def _left_out(workspace: Workspace, name: str) -> str | None:
    """Return what to say of a tag or of the beginning of an id where only a whole name will do."""
    tagged = marks.find_tag(workspace.store, name)
    found = tagged.session_id if tagged is not None else shortened(workspace, name)
    if found is None:
        return None
    what = "is a tag on" if tagged is not None else "is the beginning of"
    return f"it {what} {found!r}: what erases takes a session's whole id or its label"


def _beginning(workspace: Workspace, beginning: str) -> list[str]:
    """Return the ids that begin so, at most 1,000 of them."""
    rows = workspace.reader.select("ids_beginning", beginning=iris.session(beginning), limit=_ENOUGH)
    return [iris.session_id(row[0].value) for row in rows]


def _given(workspace: Workspace) -> list[str]:
    """Return the labels and tags there are, at most 4,000 of them."""
    rows = [row[0] for row in workspace.reader.select("names_given")]
    return [(iris.tag_name(term.value) or term.value) if isinstance(term, NamedNode) else term.value for term in rows]


def _alike(wanted: str, names: list[str]) -> list[str]:
    """Return up to 300 of the names that may be like a text: those that hold most of its first, middle and last third."""
    if len(names) <= _FEW:
        return names
    plain = wanted.lower()
    size = max(2, len(plain) // 3)
    middle = (len(plain) - size) // 2
    pieces = (plain[:size], plain[middle : middle + size], plain[-size:])

    def held(name: str) -> int:
        lower = name.lower()
        return sum(piece in lower for piece in pieces)

    return nlargest(_FEW, [name for name in names if held(name)], key=held)
