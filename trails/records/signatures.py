"""Signatures of heads, between values and quads of the catalog. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Final

from pyoxigraph import NamedNode, Quad

from trails import iris
from trails import vocab as v
from trails.decoding import decodes
from trails.errors import IntegrityError
from trails.integrity.head_signatures import HeadSignature
from trails.records.deeds import author_type
from trails.records.schema import IRI, NUMBER, SESSION, TEXT, TIME, Field, Table

_TABLE: Final = Table(
    (v.HEAD_SIGNATURE,),
    (
        Field("session_id", v.SIGNATURE_OF, SESSION, required=True),
        Field("index", v.SIGNED_INDEX, NUMBER, required=True),
        Field("head", v.SIGNED_HEAD, TEXT, required=True),
        Field("by_iri", v.ATTRIBUTED_TO, IRI, required=True),
        Field("time", v.TIME, TIME, required=True),
        Field("key", v.SIGNER_KEY, TEXT, required=True),
        Field("signature", v.SIGNATURE, TEXT, required=True),
    ),
)


def node_of(said: HeadSignature) -> NamedNode:
    """Return the node of a signature: its name is a digest of that, and so says all that was signed."""
    token = sha256(said.signature.encode()).hexdigest()
    return NamedNode(iris.signature(iris.session(said.session_id), token))


def signature_quads(said: HeadSignature) -> list[Quad]:
    """Return the quads of a signature, with what the one who signed is."""
    return [*_TABLE.quads(said, node_of(said), v.CATALOG), author_type(said.by_iri)]


@decodes
def signature_of(subject: str, quads: Iterable[Quad]) -> HeadSignature:
    """Return the signature that quads with one subject say; raise `IntegrityError` for what Trails never writes."""
    said = HeadSignature(**_TABLE.values(_TABLE.row(subject, quads)))
    if node_of(said).value != subject:
        raise IntegrityError(
            f"<{subject}> is no signature of that name: the store was altered; restore it from a backup"
        )
    return said


def quads_as_written(subject: str, quads: Sequence[Quad]) -> list[Quad]:
    """Return the quads that a signature would have if it were written from what it says."""
    return [quad for quad in signature_quads(signature_of(subject, quads)) if quad.subject == NamedNode(subject)]
