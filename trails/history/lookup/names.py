"""Resolve names and revisions of sessions, and set labels.

This is the one place where a name becomes a session's id. A name is looked up as, in this order,

1. a session's IRI (or a tag's, `urn:trails:tag:...`),
2. a session's id,
3. a session's label,
4. a tag or a ref, which stands for the session that it names,
5. the beginning of an id that a program generated (a UUID, or 16 hex digits and more): at least 4 digits, if no other id
   begins so but those of its own forks and of the sessions that it spawned. What stands before a colon in an id, such as the
   name of an importer, may be left out, of the whole id too.

As in git, a generated id may be shortened; a name that somebody chose may not: "user-1" never finds "user-10". Erasing takes
only the first three. `resolve` refuses a name that is the id of one session and the label or tag of another. Where an id is
expected, as in `Repository.load`, the id comes first and needs no other look-up.

A revision is a name, an `@`, and the exclusive end of the part of the transcript that is meant: `plan@5` is the first five
turns of `plan`. A tag or a ref means the turns that it stands for. Instead of a number, the beginning of a turn's digest may
follow, at least 4 hex digits with one letter: `plan@9f3a` ends with that turn, and `plan#4` with the turn that has the index 4.
A whole name comes first, so an id with an `@` stays an id. Where turns are meant themselves, as those that are scored, both
signs stand before an index: `split_turns`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from heapq import nlargest
from typing import Final, Protocol, runtime_checkable

from pyoxigraph import Literal, NamedNode, Quad

from trails.errors import InvalidInput, NeedsWholeStore, SessionNotFound
from trails.history import annotation_kinds, log_leaves
from trails.history.records import activities, conversations, refs
from trails.history.transaction import Refusal, Transaction, is_stored
from trails.history.workspace import Workspace
from trails.model import iris, lineage, validation
from trails.model.values import SessionRecord
from trails.rdf import vocab
from trails.rdf.activity_records import Deed
from trails.rows import session_lists
from trails.suggestions import did_you_mean, nearest

_SHOWN: Final = 8
"""So many are shown, as they are of digests."""
SHORTEST_ID: Final = 4
"""So many digits of an id that was made up must be given, as in git."""
GENERATED_ID: Final = re.compile(
    r"(?<![0-9A-Za-z])(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{16,})(?![0-9A-Za-z])"
)


def may_abbreviate(beginning: str, session_id: str) -> bool:
    """Tell whether an id may be named by its beginning: that ends inside a part that was made up, 4 of its digits in.

    >>> made = "7f3a9c1e5b2d48f6a0c4e8d2b6f1a3c5"
    >>> [may_abbreviate(short, f"pi:{made}") for short in ("pi:7f3a", "pi:7f3", "pi:", f"pi:{made}")]
    [True, False, False, False]
    >>> may_abbreviate("user-1", "user-10"), may_abbreviate("claude", "claude-code:plan")
    (False, False)
    """
    if not session_id.startswith(beginning):
        return False
    return any(
        made.start() + SHORTEST_ID <= len(beginning) < made.end() and any(letter in "abcdef-" for letter in made[0])
        for made in GENERATED_ID.finditer(session_id)
    )


def short_id(session_id: str, near: Iterable[str]) -> str:
    """Return the beginning of an id, with 8 made-up digits or more, that none of those near it has; the id where none is.

    >>> short_id("pi:7f3a9c1e5b2d48f6", []), short_id("pi:7f3a9c1e5b2d48f6", ["pi:7f3a9c1e5bffffff"]), short_id("plan", [])
    ('pi:7f3a9c1e', 'pi:7f3a9c1e5b2', 'plan')
    """
    common = max((_shared(session_id, other) for other in near), default=0)
    for made in GENERATED_ID.finditer(session_id):
        end = max(made.start() + _SHOWN, common + 1)
        beginning = session_id[: end + 1] if session_id[end - 1 : end] == "-" else session_id[:end]
        if may_abbreviate(beginning, session_id):
            return beginning
    return session_id


def _shared(one: str, other: str) -> int:
    """Return with how many characters two texts begin alike."""
    ends = (number for number, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(ends, min(len(one), len(other)))


def is_named(session_id: str, name: str) -> bool:
    """Tell whether a name is the beginning of an id, or the whole or the beginning of what was made up behind a colon in it.

    >>> made = "claude-code:7f3a9c1e-5b2d-48f6-a0c4-e8d2b6f1a3c5"
    >>> [is_named(made, name) for name in ("claude-code:7f3a", "7f3a", made.partition(":")[2], "9c1e", "claude")]
    [True, True, True, False, False]
    """
    start = session_id.find(f":{name}") + 1
    if start and GENERATED_ID.fullmatch(name) and session_id[start:] == name:
        return True
    return may_abbreviate(session_id[:start] + name, session_id)


_SHORTENED: Final = re.compile(r"(?:^|[^0-9A-Za-z])[0-9a-f][0-9a-f-]{3,}$")
_ENOUGH: Final = 1_000
_FEW: Final = 300
_SIMILAR: Final = 0.7
"""Labels and tags are like a name from here on; of ids, those that begin alike are compared, from 0.6 on."""


@runtime_checkable
class HasRecord(Protocol):
    """What knows its session's row: a `Session`, a node of a `Tree`."""

    @property
    def record(self) -> SessionRecord:
        """The session's row."""
        ...


Name = str | SessionRecord | HasRecord
"""What a session may be named by: a text, its row, or a handle on it."""


def name_text(name: object) -> str:
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


def find_record(workspace: Workspace, session: Name) -> SessionRecord:
    """Return a session's record without its turns; raise `SessionNotFound` where there is none."""
    text = name_text(session)
    if validation.is_session_id(text) and (found := workspace.reader.records([text]).get(text)) is not None:
        return found
    return workspace.reader.record(resolve_name(workspace, text))


def find_lineage(workspace: Workspace, name: Name) -> tuple[SessionRecord, ...]:
    """Return the session that a name stands for, and its ancestors by forks, itself first. An id is one query."""
    read = workspace.reader.lineage
    text = name_text(name)
    if text.startswith("urn:trails:") and iris.tag_name(text) is None:
        return read(workspace.session_id(text))
    if validation.is_session_id(text):
        try:
            return read(text)
        except SessionNotFound:
            pass
    return read(resolve_name(workspace, text))


def resolve_name(workspace: Workspace, name: Name, *, exact: bool = False) -> str:
    """Return the id of the session that a name stands for: an id, IRI, label or tag, or the beginning of an id.

    Only an id that a program made up (a UUID, or 16 hex digits and more) has a beginning that stands for it: at least
    4 of its digits, where no other id begins so but those of its forks. An importer's name before it, as in
    `codex:UUID`, may be left out. A tag stands for the session that it names, with all of its turns.
    With `exact`, as for `delete` and `redact`, tags and beginnings stand for nothing.

    Raises `SessionNotFound` for a name of nothing, with the nearest there are, and `InvalidInput` for one of several
    things, naming them.

    >>> import trails
    >>> with trails.open(":memory:") as store:
    ...     plan = store.create(label="trip"); _ = plan.persist()
    ...     store.resolve("trip") == store.resolve(plan.id[:8]) == plan.id
    True
    """
    if not isinstance(name, str):
        return find_record(workspace, name).id
    found = whole_id(workspace, name, tags=not exact)
    if found is not None:
        return found[0]
    if not exact and (short := shortened_id(workspace, name)) is not None:
        return short
    raise unknown_session(workspace, name, exact=exact)


def whole_id(workspace: Workspace, name: str, *, tags: bool = True) -> tuple[str, int | None] | None:
    """Return the session that a whole name stands for, and for a tag how many of its turns; None for a name of nothing."""
    if name.startswith("urn:trails:") and iris.tag_name(name) is None:
        meant = workspace.session_id(name)
        return (meant, None) if meant in workspace.reader.records([meant]) else None
    text = validation.text(name, "the name")
    stored = validation.is_session_id(text) and text in workspace.reader.records([text])
    labelled = workspace.reader.labelled(text)
    if stored and labelled not in (None, text):
        raise InvalidInput(f"{text!r} is the id of one session and the label of {labelled!r}; name it by its IRI")
    session_id = text if stored else labelled
    named = _tag_or_ref(workspace, text)
    if session_id is not None and named is not None:
        raise InvalidInput(
            f"{text!r} is the name of session {session_id!r} and of a tag; write {iris.session(session_id)} or {iris.tag(text)}"
        )
    if session_id is not None:
        return session_id, None
    return named if tags else None


def refuse_taken(workspace: Workspace, name: str) -> None:
    """Raise `InvalidInput` for the name of a tag or a ref that is to be made, where a session has it."""
    labelled = workspace.reader.labelled(name)
    if labelled is not None:
        raise InvalidInput(f"{name!r} is the label of session {labelled!r}; choose another name")
    if validation.is_session_id(name) and workspace.reader.records([name]):
        raise InvalidInput(f"{name!r} is the id of a session; choose another name")


def _tag_or_ref(workspace: Workspace, name: str) -> tuple[str, int | None] | None:
    """Return the session that a tag or a ref with a name or an IRI names, and how many of its turns; None for neither."""
    plain = iris.tag_name(name) or name
    if (ref := refs.find_ref(workspace.store, plain)) is not None:
        return ref.session_id, ref.at
    tag = annotation_kinds.find_tag(workspace.store, plain)
    return None if tag is None else (tag.session_id, tag.length)


def shortened_id(workspace: Workspace, name: str) -> str | None:
    """Return the only id that a program made up and that a name stands for by its beginning; None where there is none.

    Raises `SessionNotFound` for the whole id of a deleted session, and `InvalidInput` where several begin so.
    """
    if not validation.is_session_id(name):
        return None
    if workspace.reader.is_deleted(name):
        raise workspace.reader.not_found(name)
    if _SHORTENED.search(name) is None:
        return None
    try:
        holding = _holding(workspace, name)
    except NeedsWholeStore:
        if GENERATED_ID.search(name) is None:
            raise
        return None  # a whole id that is not there: few would mean one with an importer's name before it
    found = [each for each in holding if is_named(each, name)]
    if len(found) > 1 and len(holding) < _ENOUGH:  # forks of one of them, and what it spawned, stand back
        records = workspace.reader.records(found)
        found = [each.id for each in records.values() if not {each.parent_session_id, each.spawned_by} & records.keys()]
    if len(found) > 1 or len(holding) == _ENOUGH:
        some = ", ".join(map(repr, sorted(found)[:4])) + (", ..." if len(found) > 4 else "")
        raise InvalidInput(f"{name!r} is the beginning of several ids: {some}; give more of the one that is meant")
    return found[0] if found else None


def near_ids(workspace: Workspace, session_id: str) -> list[str]:
    """Return the ids before and after one, in order of text: what `short_id` must know. Read from the index."""
    with workspace.rows.reading() as rows:
        return session_lists.neighbours(rows, session_id)


def unknown_session(workspace: Workspace, name: str, *, exact: bool = False) -> SessionNotFound | InvalidInput:
    """Return the error for a name of nothing; `InvalidInput` where it could be no session's id."""
    if iris.is_session(name):
        return workspace.reader.not_found(iris.session_id(name))
    possible = validation.is_session_id(name)
    if possible and workspace.reader.is_deleted(name):
        return workspace.reader.not_found(name)
    if exact and (other := _left_out(workspace, name)) is not None:
        return SessionNotFound(f"there is no session with the id or label {name!r}; {other}")
    near = [repr(each) for each in near_names(workspace, name)]
    meant = f" (did you mean {' or '.join(near)}?)" if near else ""
    message = f"there is no session, label or tag {name!r}{meant}; `trails list` and `trails tags` show what there is"
    return SessionNotFound(message) if possible else InvalidInput(message)


def not_an_id(workspace: Workspace, name: str) -> SessionNotFound | InvalidInput:
    """Return the error for a text that is no stored session's id, where only ids will do."""
    found = whole_id(workspace, name)
    if found is None:
        return unknown_session(workspace, name)
    return SessionNotFound(f"no session has the id {name!r}; it names {found[0]!r}, which `store.load({name!r})` gives")


def near_names(workspace: Workspace, name: str) -> list[str]:
    """Return up to three labels, tags and ids that look like a name, the nearest first; none for an id that was made up."""
    if GENERATED_ID.search(name) is not None:
        return []
    wanted = validation.text(name, "the name").strip()
    if len(wanted) < 2:
        return []
    with suppress(NeedsWholeStore):
        near = nearest(wanted, _alike(wanted, _given(workspace)), cutoff=_SIMILAR)
        return near or nearest(wanted, _holding(workspace, wanted[: max(2, len(wanted) // 3)]))
    return []


def hint(name: str, list_names: Callable[[], Iterable[str]]) -> str:
    """Return the question whether a name like one that is not there was meant; nothing if the store does not tell all names."""
    with suppress(NeedsWholeStore):
        return did_you_mean(name, list_names())
    return ""


def _left_out(workspace: Workspace, name: str) -> str | None:
    """Return what to say of a tag or of the beginning of an id where only a whole name will do."""
    named = _tag_or_ref(workspace, name)
    found = named[0] if named is not None else shortened_id(workspace, name)
    if found is None:
        return None
    what = "is a tag or a ref on" if named is not None else "is the beginning of"
    return f"it {what} {found!r}: what erases takes a session's whole id or its label"


def _holding(workspace: Workspace, beginning: str) -> list[str]:
    """Return the ids that begin so, or go on so after a colon, at most 1,000 of them."""
    part = iris.session(beginning).removeprefix(iris.session(""))
    rows = workspace.reader.select("ids_holding", part=f":{part}", limit=_ENOUGH)
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


_REVISION: Final = re.compile(r"(.+)([@#])([0-9]{1,12}|(?=[0-9]*[a-f])[0-9a-f]{4,64})", re.DOTALL)
_TURNS: Final = re.compile(r"(.+)[@#]([0-9]{1,12}(?:[:,][0-9:,]*)?|:[0-9]{1,12})", re.DOTALL)
_DIGEST: Final = re.compile(r"[0-9a-f]{4,64}")


@dataclass(frozen=True, slots=True)
class Revision:
    """What a reference names: a session, up to an index (exclusive; None is all of it), and the reference itself."""

    ref: str
    session_id: str
    end: int | None = None


def parse_revision(workspace: Workspace, ref: str) -> Revision:
    """Return the place that a reference names.

    Raises `SessionNotFound` where no session, label or tag has the name, and `InvalidInput` for an index past the end or
    for what could be no session's id; all say what there is.

    >>> import trails
    >>> with trails.open(":memory:") as store:
    ...     plan = store.create(id="plan", label="trip"); _ = plan.append("user", "Plan a trip"); written = plan.persist()
    ...     parse_revision(store.workspace, "trip@1")
    Revision(ref='trip@1', session_id='plan', end=1)
    """
    wanted = validation.text(ref, "a reference")
    if (whole := whole_id(workspace, wanted)) is not None:
        return Revision(wanted, *whole)
    if (match := _REVISION.fullmatch(wanted)) is not None:
        name, sign, end = match.groups()
        found = whole_id(workspace, name) or _shortened(workspace, name)
        if found is None:
            raise unknown_session(workspace, name)
        return Revision(wanted, found[0], _end(workspace, Revision(name, *found), sign, end))
    short = _shortened(workspace, wanted)
    if short is None:
        raise unknown_session(workspace, wanted)
    return Revision(wanted, *short)


def _shortened(workspace: Workspace, name: str) -> tuple[str, int | None] | None:
    found = shortened_id(workspace, name)
    return None if found is None else (found, None)


def split_turns(ref: str) -> tuple[str, str]:
    """Return the name of a session, and which of its turns are meant: an index, or a range and more; none for a name alone.

    >>> split_turns("plan#3"), split_turns("plan@3"), split_turns("a@b#2:5"), split_turns("plan")
    (('plan', '3'), ('plan', '3'), ('a@b', '2:5'), ('plan', ''))
    """
    match = _TURNS.fullmatch(ref)
    return (ref, "") if match is None else (match[1], match[2])


def _end(workspace: Workspace, found: Revision, sign: str, end: str) -> int:
    """Return the exclusive end that stands behind an `@`, or the last turn's behind a `#`, if the place reaches that far."""
    if not end.isdecimal():
        return turn_index(workspace, found, end) + 1
    index = int(end) + (sign == "#")
    runs = lineage.segments(workspace.reader.lineage(found.session_id), found.end)
    owner = None if index == 0 else lineage.owner_at(runs, index - 1)
    if index == 0 or (owner is not None and workspace.reader.owns(owner, index - 1)):
        return index
    length = workspace.reader.length_of(runs)
    turns = f"{length} turn{'' if length == 1 else 's'}"
    possible = f"@0 to @{length}" if sign == "@" else f"#0 to #{length - 1}" if length else "nothing"
    raise InvalidInput(f"{found.ref!r} has {turns}, so there is no {found.ref}{sign}{end}: {possible} is possible")


def turn_index(workspace: Workspace, place: Revision, digest: str) -> int:
    """Return the index of the turn whose digest begins so, with at least 4 hex digits, in the transcript at a place.

    Raises `InvalidInput` where no turn's or several turns' digests begin so, naming those.
    """
    wanted = validation.text(digest, "the beginning of a digest")
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


def set_label(workspace: Workspace, session: Name, label: str | None, *, by: str | None = None) -> None:
    """Give a session a label that no other session has, or take its label away with None; `by` is as for `delete`.

    The old label and the new one stay on record, with who changed it and when.
    """
    wanted = None if label is None else validation.label(label)
    record = find_record(workspace, session)
    if record.label != wanted:
        tx, changed = label_transaction(workspace, record, wanted, workspace.deed(by))
        tx.commit(workspace.store, changed)


def label_transaction(
    workspace: Workspace, record: SessionRecord, wanted: str | None, deed: Deed
) -> tuple[Transaction, Refusal]:
    """Return the commit that gives a stored session another label or takes it away, and what makes the error otherwise."""
    tx = Transaction(workspace.reader)
    tx.add(activities.altered_sessions(record.id, deed, "label", record.label, wanted))
    if (named := workspace.reader.conversation(record.id)) is not None:
        conversations.relabel_conversation(tx, named, wanted)
    else:
        tx.require([is_stored(record.id)])
        tx.take(_label(record.iri, record.label))
        if record.label is None:
            tx.forbid((NamedNode(record.iri), vocab.LABEL, None, vocab.CATALOG))
        tx.add(_label(record.iri, wanted))
        if wanted is not None:
            tx.label(wanted)
    tx.log(log_leaves.row_states("change", [record.id]))
    return tx, lambda _: InvalidInput(f"session {record.id!r} was changed by another writer; try again")


def _label(session_iri: str, label: str | None) -> list[Quad]:
    return [] if label is None else [Quad(NamedNode(session_iri), vocab.LABEL, Literal(label), vocab.CATALOG)]
