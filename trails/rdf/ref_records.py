"""Encode refs and their moves as quads.

A ref has the node that a tag of its name would have: a name is a tag's or a ref's. Each move is an activity, which stays when
the ref moves on. Each move has a line in the log, with a digest over it and all moves before it, and over random bits: the
log tells of the ref by an id that was made up for it.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Annotated, Any, Final

from pydantic import Field
from pyoxigraph import NamedNode, Quad

from trails.integrity import digests
from trails.integrity.leaves import Leaf
from trails.model import iris
from trails.model.validation import decodes
from trails.model.values import Value
from trails.rdf import vocab as v
from trails.rdf.codec import IRI, SESSION, TEXT, Codec, Kept, Table

_REF: Final = Codec(lambda name: NamedNode(iris.tag(name)), lambda iri: iris.tag_name(iri) or "")


class _Place(Value):
    """Where a ref is, or went."""

    name: str
    session_id: str
    at: int | None
    author_iri: str
    time: datetime

    @property
    def author(self) -> str:
        """The plain name of whoever moved it."""
        return iris.author_name(self.author_iri)

    @property
    def revision(self) -> str:
        """What it stands for, as other commands take it: `plan`, or `plan@5`."""
        return self.session_id if self.at is None else f"{self.session_id}@{self.at}"

    def _plain(self) -> dict[str, Any]:
        plain = {"name": self.name, "session": self.session_id, "at": self.at}
        return plain | {"by": self.author, "time": self.time.isoformat()}


class Ref(_Place):
    """A name that moves: it stands for a session, or for the first `at` turns of its transcript."""

    name: Annotated[str, Kept(v.TAG_NAME, TEXT)]
    session_id: Annotated[str, Kept(v.TAG_OF, SESSION)]
    at: Annotated[int | None, Kept(v.TAG_LENGTH)] = None
    """How many turns of the transcript it stands for; None: all of them, those that are appended later too."""
    digest: Annotated[str | None, Kept(v.NAMED_DIGEST)] = None
    """The digest of the last of these turns; None where `at` is None."""
    author_iri: Annotated[str, Kept(v.ATTRIBUTED_TO, IRI)]
    """The IRI of whoever moved it last."""
    time: Annotated[datetime, Kept(v.TIME)]
    """When it was moved last."""
    id: Annotated[str, Kept(v.REF_ID)]
    """By which the log tells of it."""
    salt: Annotated[str, Kept(v.LEAF_SALT)] = Field(repr=False)
    """The random bits that the digest over its moves covers."""
    moves: Annotated[int, Kept(v.REF_MOVES)]
    """How often it was moved, the first time included."""
    moves_digest: Annotated[str, Kept(v.MOVES_DIGEST)] = Field(repr=False)
    """A digest over all its moves, the last one included: no two states of a ref have the same."""

    def to_dict(self) -> dict[str, Any]:
        """Return the ref as plain values, ready for JSON."""
        return self._plain() | {"digest": self.digest, "moves": self.moves}

    @property
    def last_move(self) -> RefMove:
        """The move that brought it where it is."""
        names = ("name", "session_id", "at", "digest", "author_iri", "time")
        return RefMove(number=self.moves, **{each: getattr(self, each) for each in names})


class RefMove(_Place):
    """One move of a ref: where it went, who moved it and when. The first one made the ref."""

    name: Annotated[str, Kept(v.MOVE_OF, _REF)]
    number: Annotated[int, Kept(v.NUMBER)]
    session_id: Annotated[str, Kept(v.MOVED_TO, SESSION)]
    at: Annotated[int | None, Kept(v.TAG_LENGTH)] = None
    digest: Annotated[str | None, Kept(v.NAMED_DIGEST)] = None
    author_iri: Annotated[str, Kept(v.ASSOCIATED_WITH, IRI)]
    time: Annotated[datetime, Kept(v.ENDED_AT)]

    def to_dict(self) -> dict[str, Any]:
        """Return the move as plain values, ready for JSON."""
        return self._plain() | {"digest": self.digest, "number": self.number}


_REFS: Final = Table.of(Ref, v.REF)
_MOVES: Final = Table.of(RefMove, v.REF_MOVE)


def moved_ref(
    name: str, before: Ref | None, session_id: str, at: int | None, digest: str | None, *, by_iri: str, time: datetime
) -> Ref:
    """Return a ref as it is after a move, or as it is made by its first one."""
    moves = 1 if before is None else before.moves + 1
    made = Ref(
        id=secrets.token_hex(8) if before is None else before.id,
        salt=digests.new_salt() if before is None else before.salt,
        name=name,
        session_id=session_id,
        at=at,
        digest=digest,
        author_iri=by_iri,
        time=time,
        moves=moves,
        moves_digest="",
    )
    chained = chain_moves(made.salt if before is None else before.moves_digest, [made.last_move])
    return made.model_copy(update={"moves_digest": chained})


def chain_moves(before: str, moves: Iterable[RefMove]) -> str:
    """Return the digest over moves, given that over those before them, or the ref's salt. The name is not in it."""
    for move in moves:
        fields = (before, move.number, move.session_id, move.at, move.digest, move.author_iri, move.time.isoformat())
        before = sha256(" ".join(map(str, fields)).encode()).hexdigest()
    return before


def ref_leaf(ref: Ref) -> Leaf:
    """Return the leaf for a ref after a move."""
    return Leaf("ref", iris.ref_log(ref.id), ref.moves, ref.moves_digest)


def removal_leaf(ref: Ref) -> Leaf:
    """Return the leaf for a ref that is removed."""
    return Leaf("ref", iris.ref_log(ref.id), ref.moves + 1)


def ref_quads(ref: Ref) -> list[Quad]:
    """Return the quads of a ref, without those of its moves and of its author's type."""
    return _REFS.quads(ref, NamedNode(iris.tag(ref.name)), v.CATALOG)


def state_quad(ref: Ref) -> Quad:
    """Return the quad that is there while a ref is not moved."""
    return Quad(NamedNode(iris.tag(ref.name)), v.MOVES_DIGEST, TEXT.write(ref.moves_digest), v.CATALOG)


def move_quads(move: RefMove) -> list[Quad]:
    """Return the quads of a move, without that of its author's type."""
    return _MOVES.quads(move, NamedNode(iris.ref_move(move.name, move.number)), v.CATALOG)


@decodes
def ref_of(subject: str, quads: Iterable[Quad]) -> Ref:
    """Return the ref that quads with one subject say; raise `IntegrityError` for what Trails never writes."""
    return Ref(**_REFS.values(_REFS.row(subject, quads)) | {"name": iris.tag_name(subject) or ""})


@decodes
def move_of(subject: str, quads: Iterable[Quad]) -> RefMove:
    """Return the move that quads with one subject say; raise `IntegrityError` for what Trails never writes."""
    name, number = iris.moved_ref(subject) or ("", 0)
    return RefMove(**_MOVES.values(_MOVES.row(subject, quads)) | {"name": name, "number": number})


def quads_as_written(subject: str, quads: Sequence[Quad]) -> list[Quad]:
    """Return the quads that a ref or a move would have if it were written from what it says."""
    if iris.moved_ref(subject) is not None:
        return move_quads(move_of(subject, quads))
    return ref_quads(ref_of(subject, quads))
