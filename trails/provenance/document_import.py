"""Import PROV documents, read them back and delete them.

What a document says is stored as PROV-O in the graph of its IRI, `urn:trails:prov:SHA256`, and in a graph for each of its
bundles; its file is kept as it came. A name that only Trails gives (a term of Trails, an IRI that begins with `urn:trails:`)
is stored under the document's own IRI. So whatever a document claims of sessions, no query takes it for a record.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache
from os import PathLike
from typing import Final, cast

import pyoxigraph as ox

from trails.errors import InvalidInput
from trails.history.records import documents as kept
from trails.history.workspace import Workspace
from trails.integrity import digests
from trails.model import iris, validation
from trails.provenance.constraints import OpenStore, Validation, check_constraints
from trails.provenance.serializations import read_prov, read_source, write_prov
from trails.provenance.statements import ELEMENTS, Document
from trails.rdf import vocab
from trails.rdf.activity_records import ImportedDocument

_OWN: Final = ("urn:trails:", vocab.TRAILS)
"""How names begin that only Trails gives."""
_SHOWN: Final = 5


def import_document(
    store: OpenStore,
    source: str | PathLike[str] | bytes,
    *,
    format: str | None = None,  # noqa: A002 - the public name
    name: str | None = None,
    keep_invalid: bool = False,
    by: str | None = None,
) -> ImportedDocument:
    """Bring a PROV document into a store, in graphs of its own, and return its record; the same file again adds nothing.

    `source` is a file (its path) or the bytes of one, which need `format`: provn, json, jsonld, xml, turtle, trig, ntriples or
    nquads; by default the end of the file's name says which. `name` is kept with it, by default the file's. Who brings it
    (`by`, as for `Repository.delete`) and when is on record, with its SHA-256, its size and the verdict of W3C's
    PROV-CONSTRAINTS. Nothing of it is taken for what Trails recorded: see the module.

    Raises `InvalidInput` for what cannot be read as PROV, and for a document that is not valid, unless `keep_invalid` says to
    keep it with that verdict.

    >>> import trails
    >>> text = b"document prefix ex <http://example.org/> wasDerivedFrom(ex:chart, ex:table) endDocument"
    >>> with trails.open(":memory:") as store:
    ...     made = import_document(store, text, format="provn", name="chart.provn", by="alice")
    ...     made.statements, made.valid, len(store.query("SELECT ?s { ?s prov:wasDerivedFrom ?o }"))
    (1, True, 1)
    """
    data, chosen, place = read_source(source, format)
    file_name = name or (None if place is None else place.name)
    named = None if file_name is None else validation.text(file_name, "the document's name")
    work = store.workspace
    by_iri = work.who(by)
    sha256 = hashlib.sha256(data).hexdigest()
    existing = _known(work, sha256)
    if existing is not None:
        return existing
    where = "the document" if named is None else named
    try:
        document = read_prov(data, chosen)
        verdict = check_constraints(document)
        if verdict.findings and not keep_invalid:
            raise InvalidInput(f"it is no valid PROV ({_in_short(verdict)}); `keep_invalid` keeps it all the same")
        stated = _stated(document, iris.document(sha256))
    except InvalidInput as error:
        raise InvalidInput(f"{where}: {error}") from error
    quads = _as_stored([*stated, *kept.file_quads(iris.document(sha256), data)])
    record = ImportedDocument(
        sha256=sha256,
        size=len(data),
        format=chosen,
        statements=document.statements,
        valid=not verdict.findings,
        broken=tuple(sorted({finding.name for finding in verdict.findings})),
        name=named,
        by_iri=by_iri,
        time=datetime.now(UTC),
        digest=kept.document_digest(quads),
        leaf_salt=digests.new_salt(),
    )
    kept.keep_document(work.store, record, quads)
    return _known(work, sha256) or record


def documents(store: OpenStore) -> list[ImportedDocument]:
    """Return the records of all PROV documents that were brought in, the oldest first."""
    return kept.read_documents(store.workspace.store)


def document_bytes(store: OpenStore, document: str) -> bytes:
    """Return the file of a PROV document as it came; `document` is its IRI, its SHA-256 or the beginning of that, or its name.

    Raises `InvalidInput` if there is no such document, `IntegrityError` if it was altered in the store.
    """
    work = store.workspace
    return kept.file_of(work.store, kept.find_document(work.store, document))


def read_document(store: OpenStore, document: str) -> Document:
    """Return what a PROV document says, statement by statement; `document` and errors are as for `document_bytes`."""
    work = store.workspace
    document_record = kept.find_document(work.store, document)
    return read_prov(kept.file_of(work.store, document_record), document_record.format)


def delete_document(
    store: OpenStore, document: str, *, by: str | None = None, reason: str | None = None
) -> ImportedDocument:
    """Take a PROV document out of a store, with all that it says; return its record.

    Who did it and when stays, with the `reason`; `by` is as for `Repository.delete`. What it said stays in the store's files
    until `vacuum`, and in backups. Raises `InvalidInput` if there is no such document.
    """
    work = store.workspace
    document_record = kept.find_document(work.store, document)
    kept.discard_document(work.store, document_record, work.deed(by, reason))
    work.note_held()
    return document_record


# --- what is read


def _known(work: Workspace, sha256: str) -> ImportedDocument | None:
    return next((each for each in kept.read_documents(work.store) if each.sha256 == sha256), None)


def _in_short(verdict: Validation) -> str:
    findings = verdict.findings
    shown = "; ".join(f"{each.name}: {each.message}" for each in findings[:_SHOWN])
    return f"{len(findings)} findings: {shown}" if len(findings) > 1 else shown


# --- what is stored


def _stated(document: Document, document_iri: str) -> Iterable[ox.Quad]:
    """Return what a document says as quads of PROV-O in its own graphs, about no name that is Trails' own.

    What RDF cannot say, a relation of nothing, stays in the file alone: only what is not valid has it.
    """
    out = io.BytesIO()
    sayable = [[s for s in each.statements if s.kind in ELEMENTS or s.arguments[0]] for each in document.bundles]
    bundles = [(each.name, statements) for each, statements in zip(document.bundles, sayable, strict=True)]
    write_prov(bundles, "trig", out, document.prefixes)
    own = lru_cache(maxsize=1 << 16)(lambda term: _owned(term, document_iri))
    graph_of = lru_cache(maxsize=1 << 10)(lambda term: _graph(term, document_iri))
    quads = []
    try:
        for quad in ox.parse(out.getvalue(), format=ox.RdfFormat.TRIG):
            value, is_literal = quad.object, isinstance(quad.object, ox.Literal)
            object_ = value if is_literal and not value.datatype.value.startswith(_OWN) else own(value)
            quads.append(ox.Quad(own(quad.subject), own(quad.predicate), object_, graph_of(quad.graph_name)))
        return quads
    except (SyntaxError, ValueError, MemoryError) as error:
        raise InvalidInput(f"it cannot be kept as RDF: {f'{error}'[:300]}") from error


def _owned(term: ox.NamedNode | ox.BlankNode | ox.Literal | ox.Triple, document_iri: str) -> ox.NamedNode:
    """Return a term as it stands in a document's graphs: blank nodes and Trails' own names under the document's IRI."""
    if isinstance(term, ox.BlankNode):
        return ox.NamedNode(iris.document_node(document_iri, term.value))
    if isinstance(term, ox.Literal):  # of a datatype of Trails
        return ox.Literal(term.value, datatype=_owned(term.datatype, document_iri))  # type: ignore[return-value] # a literal
    named = cast(ox.NamedNode, term)
    return ox.NamedNode(iris.document_name(document_iri, named.value)) if named.value.startswith(_OWN) else named


def _graph(name: ox.NamedNode | ox.BlankNode | ox.DefaultGraph, document_iri: str) -> ox.NamedNode:
    if isinstance(name, ox.DefaultGraph):
        return ox.NamedNode(document_iri)
    return ox.NamedNode(iris.document_bundle(document_iri, str(name) if isinstance(name, ox.BlankNode) else name.value))


def _as_stored(quads: Iterable[ox.Quad]) -> list[ox.Quad]:
    """Return quads as the engine keeps them, each once: it writes numbers and times in its own way."""
    engine = ox.Store()
    engine.extend(quads)
    return list(engine)
