"""Encode tags, notes, removals of annotations, and signatures of heads as quads, and decode them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Final

from pyoxigraph import Literal, NamedNode, Quad

from trails.errors import IntegrityError
from trails.integrity.signed_notes import HeadSignature
from trails.model import iris
from trails.model.validation import decodes
from trails.model.values import Note, Tag
from trails.rdf import vocab
from trails.rdf import vocab as v
from trails.rdf.activity_records import author_type
from trails.rdf.codec import IRI, NUMBER, SESSION, TEXT, TIME, Codec, Kept, Row, Table, time_literal
from trails.rdf.ref_records import Ref
from trails.rdf.score_records import Score

ANNOTATION_REMOVAL: Final = frozenset(
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
        ("name", Kept(vocab.TAG_NAME, TEXT)),
        ("session_id", Kept(vocab.TAG_OF, SESSION, required=True)),
        ("length", Kept(vocab.TAG_LENGTH, NUMBER, required=True)),
        ("digest", Kept(vocab.NAMED_DIGEST, TEXT, required=True)),
        ("author_iri", Kept(vocab.ATTRIBUTED_TO, IRI, required=True)),
        ("time", Kept(vocab.TIME, TIME, required=True)),
    ),
)
_NOTE: Final = Table(
    (vocab.NOTE,),
    (
        ("session_id", Kept(vocab.NOTE_ON, SESSION, required=True)),
        ("index", Kept(vocab.NOTE_INDEX, NUMBER, required=True)),
        ("turn_digest", Kept(vocab.NAMED_DIGEST, TEXT, required=True)),
        ("text", Kept(vocab.VALUE, Codec(_note_text, of_record=True), required=True)),
        ("digest", Kept(vocab.DIGEST, TEXT, required=True)),
        ("salt", Kept(vocab.SALT, TEXT, required=True)),
        ("author_iri", Kept(vocab.ATTRIBUTED_TO, IRI, required=True)),
        ("time", Kept(vocab.TIME, TIME, required=True)),
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


def removal_quads(removed: Tag | Ref | Note | Score, by_iri: str, time: datetime, token: str) -> list[Quad]:
    """Return what stays of a tag, a ref, a note or a score that was removed: who did it, when, what it named; no text."""
    place: tuple[NamedNode, int | None]
    digest: str | None
    if isinstance(removed, Tag | Ref):
        named, what = iris.tag(removed.name), (vocab.REMOVED_TAG, removed.name)
        place, digest = (vocab.TAG_LENGTH, removed.at if isinstance(removed, Ref) else removed.length), removed.digest
    elif isinstance(removed, Score):
        named, what = iris.score(removed.id), (vocab.REMOVED_SCORE, removed.id)
        place, digest = (vocab.SCORED_UP_TO, removed.end), removed.turn_digest
    else:
        named, what = iris.note(removed.id), (vocab.REMOVED_NOTE, removed.id)
        place, digest = (vocab.NOTE_INDEX, removed.index), removed.turn_digest
    node = NamedNode(iris.removal(named, token))
    rows: list[Row] = [
        (node, vocab.TYPE, vocab.DELETION),
        (node, what[0], Literal(what[1])),
        (node, vocab.REMOVED_FROM, NamedNode(iris.session(removed.session_id))),
        (node, vocab.ENDED_AT, time_literal(time)),
        (node, vocab.ASSOCIATED_WITH, NamedNode(by_iri)),
    ]
    if place[1] is not None and digest is not None:  # else it was a ref that followed its session's end
        rows += [(node, place[0], vocab.integer(place[1])), (node, vocab.NAMED_DIGEST, Literal(digest))]
    return _quads(rows)


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
def annotation_quads_as_written(subject: str, quads: Sequence[Quad]) -> list[Quad]:
    """Return the quads that a tag or a note would have if it were written from what it says."""
    if iris.tag_name(subject) is not None:
        return tag_quads(tag_of(subject, quads))
    return note_quads(note_of(subject, quads))


_TABLE: Final = Table(
    (v.HEAD_SIGNATURE,),
    (
        ("session_id", Kept(v.SIGNATURE_OF, SESSION, required=True)),
        ("index", Kept(v.SIGNED_INDEX, NUMBER, required=True)),
        ("head", Kept(v.SIGNED_HEAD, TEXT, required=True)),
        ("by_iri", Kept(v.ATTRIBUTED_TO, IRI, required=True)),
        ("time", Kept(v.TIME, TIME, required=True)),
        ("key", Kept(v.SIGNER_KEY, TEXT, required=True)),
        ("signature", Kept(v.SIGNATURE, TEXT, required=True)),
    ),
)


def signature_node(said: HeadSignature) -> NamedNode:
    """Return the node of a signature: its name is a digest of that, and so says all that was signed."""
    token = sha256(said.signature.encode()).hexdigest()
    return NamedNode(iris.signature(iris.session(said.session_id), token))


def signature_quads(said: HeadSignature) -> list[Quad]:
    """Return the quads of a signature, with what the one who signed is."""
    return [*_TABLE.quads(said, signature_node(said), v.CATALOG), author_type(said.by_iri)]


@decodes
def signature_of(subject: str, quads: Iterable[Quad]) -> HeadSignature:
    """Return the signature that quads with one subject say; raise `IntegrityError` for what Trails never writes."""
    said = HeadSignature(**_TABLE.values(_TABLE.row(subject, quads)))
    if signature_node(said).value != subject:
        raise IntegrityError(
            f"<{subject}> is no signature of that name: the store was altered; restore it from a backup"
        )
    return said


def signature_quads_as_written(subject: str, quads: Sequence[Quad]) -> list[Quad]:
    """Return the quads that a signature would have if it were written from what it says."""
    return [quad for quad in signature_quads(signature_of(subject, quads)) if quad.subject == NamedNode(subject)]
