"""Tags, notes and what stays of those that were removed, between values and quads of the catalog. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from pyoxigraph import Literal, NamedNode, Quad

from trails import iris, vocab
from trails.decoding import decodes
from trails.model import Note, Tag
from trails.records.schema import IRI, NUMBER, SESSION, TEXT, TIME, Codec, Field, Table
from trails.records.scores import Score
from trails.records.terms import Row, time_literal

REMOVAL: Final = frozenset(
    {vocab.TYPE, vocab.ENDED_AT, vocab.ASSOCIATED_WITH, vocab.REMOVED_FROM, vocab.REMOVED_TAG, vocab.REMOVED_NOTE}
    | {vocab.REMOVED_SCORE, vocab.SCORED_UP_TO, vocab.TAG_LENGTH, vocab.NOTE_INDEX, vocab.NAMED_DIGEST}
)
"""What the catalog may say of the removal of a tag, a note or a score; the log says whether it is as it was."""


# --- kept


def _note_text(text: str, note: Note) -> Literal:
    return Literal("", datatype=vocab.REDACTED) if note.redacted else Literal(text)


_TAG: Final = Table(
    (vocab.TAG,),
    (
        Field("name", vocab.TAG_NAME, TEXT),
        Field("session_id", vocab.TAG_OF, SESSION, required=True),
        Field("length", vocab.TAG_LENGTH, NUMBER, required=True),
        Field("digest", vocab.NAMED_DIGEST, TEXT, required=True),
        Field("author_iri", vocab.ATTRIBUTED_TO, IRI, required=True),
        Field("time", vocab.TIME, TIME, required=True),
    ),
)
_NOTE: Final = Table(
    (vocab.NOTE,),
    (
        Field("session_id", vocab.NOTE_ON, SESSION, required=True),
        Field("index", vocab.NOTE_INDEX, NUMBER, required=True),
        Field("turn_digest", vocab.NAMED_DIGEST, TEXT, required=True),
        Field("text", vocab.VALUE, Codec(_note_text, of_record=True), required=True),
        Field("digest", vocab.DIGEST, TEXT, required=True),
        Field("salt", vocab.SALT, TEXT, required=True),
        Field("author_iri", vocab.ATTRIBUTED_TO, IRI, required=True),
        Field("time", vocab.TIME, TIME, required=True),
    ),
)


# --- as quads


def _quads(rows: Iterable[Row]) -> list[Quad]:
    return [Quad(s, p, o, vocab.CATALOG) for s, p, o in rows]


def tag_quads(tag: Tag) -> list[Quad]:
    """Return the quads of a tag, without that of its author's type."""
    return _TAG.quads(tag, NamedNode(iris.tag(tag.name)), vocab.CATALOG)


def note_quads(note: Note) -> list[Quad]:
    """Return the quads of a note, without that of its author's type."""
    return _NOTE.quads(note, NamedNode(iris.note(note.id)), vocab.CATALOG)


def removal_quads(removed: Tag | Note | Score, by_iri: str, time: datetime, token: str) -> list[Quad]:
    """Return what stays of a tag, a note or a score that was removed: who did it, when, and what it named; no text."""
    if isinstance(removed, Tag):
        named, what = iris.tag(removed.name), (vocab.REMOVED_TAG, removed.name)
        place, digest = (vocab.TAG_LENGTH, removed.length), removed.digest
    elif isinstance(removed, Score):
        named, what = iris.score(removed.id), (vocab.REMOVED_SCORE, removed.id)
        place, digest = (vocab.SCORED_UP_TO, removed.end), removed.turn_digest
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


@decodes
def tag_of(subject: str, quads: Iterable[Quad]) -> Tag:
    """Return the tag that quads with one subject say; raise `IntegrityError` for what Trails never writes."""
    row = _TAG.row(subject, quads)
    return Tag(**_TAG.values(row) | {"name": iris.tag_name(subject) or ""})


@decodes
def note_of(subject: str, quads: Iterable[Quad]) -> Note:
    """Return the note that quads with one subject say; raise `IntegrityError` for what Trails never writes."""
    row = _NOTE.row(subject, quads)
    redacted = any(getattr(term, "datatype", None) == vocab.REDACTED for terms in row.values() for term in terms)
    return Note(id=iris.note_id(subject) or "", redacted=redacted, **_NOTE.values(row))


@decodes
def quads_as_written(subject: str, quads: Sequence[Quad]) -> list[Quad]:
    """Return the quads that a tag or a note would have if it were written from what it says."""
    if iris.tag_name(subject) is not None:
        return tag_quads(tag_of(subject, quads))
    return note_quads(note_of(subject, quads))
