"""Tags, notes and what stays of those that were removed, between values and quads of the catalog. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

from pyoxigraph import Literal, NamedNode, Quad

from trails import iris, vocab
from trails.decoding import decodes
from trails.errors import IntegrityError
from trails.model import Note, Tag
from trails.records.terms import Row, parse_time, time_literal

REMOVAL: Final = frozenset(
    {vocab.TYPE, vocab.ENDED_AT, vocab.ASSOCIATED_WITH, vocab.REMOVED_FROM, vocab.REMOVED_TAG, vocab.REMOVED_NOTE}
    | {vocab.TAG_LENGTH, vocab.NOTE_INDEX, vocab.NAMED_DIGEST}
)
"""What the catalog may say of the removal of a tag or a note; the log says whether it is as it was."""


# --- as quads


def _quads(rows: Iterable[Row]) -> list[Quad]:
    return [Quad(s, p, o, vocab.CATALOG) for s, p, o in rows]


def author_type(author_iri: str) -> Quad:
    """Return the quad that says what an author is."""
    kind = vocab.AGENT if iris.is_agent(author_iri) else vocab.PRINCIPAL
    return Quad(NamedNode(author_iri), vocab.TYPE, kind, vocab.CATALOG)


def tag_quads(tag: Tag) -> list[Quad]:
    """Return the quads of a tag, without that of its author's type."""
    node = NamedNode(iris.tag(tag.name))
    return _quads(
        [
            (node, vocab.TYPE, vocab.TAG),
            (node, vocab.TAG_NAME, Literal(tag.name)),
            (node, vocab.TAG_OF, NamedNode(iris.session(tag.session_id))),
            (node, vocab.TAG_LENGTH, vocab.integer(tag.length)),
            (node, vocab.NAMED_DIGEST, Literal(tag.digest)),
            (node, vocab.ATTRIBUTED_TO, NamedNode(tag.author_iri)),
            (node, vocab.TIME, time_literal(tag.time)),
        ]
    )


def note_quads(note: Note) -> list[Quad]:
    """Return the quads of a note, without that of its author's type."""
    node = NamedNode(iris.note(note.id))
    return _quads(
        [
            (node, vocab.TYPE, vocab.NOTE),
            (node, vocab.NOTE_ON, NamedNode(iris.session(note.session_id))),
            (node, vocab.NOTE_INDEX, vocab.integer(note.index)),
            (node, vocab.NAMED_DIGEST, Literal(note.turn_digest)),
            (node, vocab.VALUE, Literal("", datatype=vocab.REDACTED) if note.redacted else Literal(note.text)),
            (node, vocab.DIGEST, Literal(note.digest)),
            (node, vocab.SALT, Literal(note.salt)),
            (node, vocab.ATTRIBUTED_TO, NamedNode(note.author_iri)),
            (node, vocab.TIME, time_literal(note.time)),
        ]
    )


def removal_quads(removed: Tag | Note, by_iri: str, time: datetime, token: str) -> list[Quad]:
    """Return what stays of a tag or a note that was removed: who did it, when, and what it named; no text."""
    if isinstance(removed, Tag):
        named, what = iris.tag(removed.name), (vocab.REMOVED_TAG, removed.name)
        place, digest = (vocab.TAG_LENGTH, removed.length), removed.digest
    else:
        named, what = iris.note(removed.id), (vocab.REMOVED_NOTE, removed.id)
        place, digest = (vocab.NOTE_INDEX, removed.index), removed.turn_digest
    node = NamedNode(iris.removal(named, token))
    return _quads(
        [
            (node, vocab.TYPE, vocab.DELETION),
            (node, what[0], Literal(what[1])),
            (node, vocab.REMOVED_FROM, NamedNode(iris.session(removed.session_id))),
            (node, place[0], vocab.integer(place[1])),
            (node, vocab.NAMED_DIGEST, Literal(digest)),
            (node, vocab.ENDED_AT, time_literal(time)),
            (node, vocab.ASSOCIATED_WITH, NamedNode(by_iri)),
        ]
    )


# --- and back


def _values(quads: Iterable[Quad]) -> dict[NamedNode, str]:
    found: dict[NamedNode, str] = {}
    for quad in quads:
        if quad.predicate in found:
            raise IntegrityError(f"{quad.subject} says two things of {quad.predicate}: the store was altered")
        found[quad.predicate] = str(getattr(quad.object, "value", quad.object))
    return found


def _whole(subject: str, values: Mapping[NamedNode, str], wanted: Iterable[NamedNode]) -> None:
    missing = next((predicate for predicate in wanted if predicate not in values), None)
    if missing is not None:
        raise IntegrityError(f"<{subject}> lacks {missing}: the store was altered; restore it from a backup")


@decodes
def tag_of(subject: str, quads: Iterable[Quad]) -> Tag:
    """Return the tag that quads with one subject say; raise `IntegrityError` for what Trails never writes."""
    values = _values(quads)
    _whole(subject, values, (vocab.TAG_OF, vocab.TAG_LENGTH, vocab.NAMED_DIGEST, vocab.ATTRIBUTED_TO, vocab.TIME))
    return Tag(
        name=iris.tag_name(subject) or "",
        session_id=iris.session_id(values[vocab.TAG_OF]),
        length=int(values[vocab.TAG_LENGTH]),
        digest=values[vocab.NAMED_DIGEST],
        author_iri=values[vocab.ATTRIBUTED_TO],
        time=parse_time(values[vocab.TIME]),
    )


@decodes
def note_of(subject: str, quads: Iterable[Quad]) -> Note:
    """Return the note that quads with one subject say; raise `IntegrityError` for what Trails never writes."""
    quads = list(quads)
    values = _values(quads)
    parts = (vocab.NOTE_ON, vocab.NOTE_INDEX, vocab.NAMED_DIGEST, vocab.VALUE, vocab.DIGEST, vocab.SALT)
    _whole(subject, values, (*parts, vocab.ATTRIBUTED_TO, vocab.TIME))
    return Note(
        id=iris.note_id(subject) or "",
        session_id=iris.session_id(values[vocab.NOTE_ON]),
        index=int(values[vocab.NOTE_INDEX]),
        turn_digest=values[vocab.NAMED_DIGEST],
        text=values[vocab.VALUE],
        author_iri=values[vocab.ATTRIBUTED_TO],
        time=parse_time(values[vocab.TIME]),
        digest=values[vocab.DIGEST],
        salt=values[vocab.SALT],
        redacted=any(getattr(quad.object, "datatype", None) == vocab.REDACTED for quad in quads),
    )


@decodes
def quads_as_written(subject: str, quads: Sequence[Quad]) -> list[Quad]:
    """Return the quads that a tag or a note would have if it were written from what it says."""
    if iris.tag_name(subject) is not None:
        return tag_quads(tag_of(subject, quads))
    return note_quads(note_of(subject, quads))
