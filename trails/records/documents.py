"""PROV documents of others that a store keeps, frozen, and between them and quads of the catalog. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from pyoxigraph import NamedNode, Quad

from trails import iris
from trails import vocab as v
from trails.decoding import decodes
from trails.errors import IntegrityError
from trails.model import Value
from trails.records.deeds import author_type
from trails.records.schema import FLAG, IRI, NUMBER, TEXT, TEXTS, TIME, Field, Node, Table


class ImportedDocument(Value):
    """A PROV document that was brought into a store: what it is, who brought it and when, and the verdict on it."""

    sha256: str
    """The SHA-256 of the file, in 64 hex digits; the document's IRI is made of it."""
    size: int
    """Bytes of the file."""
    format: str
    """What the file is: a name of `trails.prov.reading.FORMATS`."""
    statements: int
    valid: bool
    """Whether it kept W3C's PROV-CONSTRAINTS when it was brought in."""
    broken: tuple[str, ...] = ()
    """The names of the constraints that it broke, where it was kept all the same."""
    name: str | None = None
    """The file's name, without folders; None where there was none."""
    by_iri: str
    time: datetime
    digest: str
    """Over all quads that stand in the document's graphs."""
    leaf_salt: str

    @property
    def iri(self) -> str:
        """The document's IRI, which is that of the graph of its own statements too."""
        return iris.document(self.sha256)


_TABLE: Final = Table(
    (v.PROV_DOCUMENT, v.ENTITY),
    (
        Field("sha256", v.SHA256, TEXT, required=True),
        Field("size", v.FILE_SIZE, NUMBER, required=True),
        Field("format", v.PROV_FORMAT, TEXT, required=True),
        Field("statements", v.STATEMENT_COUNT, NUMBER, required=True),
        Field("valid", v.IS_VALID, FLAG, required=True),
        Field("broken", v.BROKEN_RULE, TEXTS),
        Field("name", v.FILE_NAME, TEXT),
        Field("by_iri", v.ATTRIBUTED_TO, IRI, required=True),
        Field("time", v.TIME, TIME, required=True),
        Field("digest", v.DIGEST, TEXT, required=True),
        Field("leaf_salt", v.LEAF_SALT, TEXT, required=True),
    ),
)


def document_quads(document: ImportedDocument) -> list[Quad]:
    """Return the quads of a document's record, with what the one who brought it is."""
    return [*_TABLE.quads(document, NamedNode(document.iri), v.CATALOG), author_type(document.by_iri)]


@decodes
def document_of(subject: str, quads: Iterable[Quad]) -> ImportedDocument:
    """Return the record that quads with one subject say; raise `IntegrityError` for what Trails never writes."""
    said: dict[NamedNode, list[Node]] = defaultdict(list)
    for quad in quads:
        if isinstance(quad.object, Node):
            said[quad.predicate].append(quad.object)
    values = {name: value for name, value in _TABLE.values(said).items() if value is not None}
    try:
        found = ImportedDocument.model_validate(values)
    except ValueError as error:
        raise IntegrityError(f"<{subject}> cannot be read ({error}): the store was altered") from error
    if found.iri != subject:
        raise IntegrityError(f"<{subject}> is not the IRI of its document: the store was altered")
    return found
