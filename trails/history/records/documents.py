"""PROV documents of others, each in graphs of its own: its statements, one graph for each bundle, and its file as it came.

A document is none of a session's records, and nothing that it says is Trails' own: what a graph of a document holds is
about other names than Trails has for anything (`trails.provenance.document_import` sees to that). Its IRI is made
of the SHA-256 of its file.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from pyoxigraph import Literal, NamedNode, Quad

from trails.errors import IntegrityError, InvalidInput, TrailsError
from trails.history import transaction
from trails.history.records.record_kind import Checks, Evidence, RecordKind, about
from trails.history.records.text_matcher import Erasure
from trails.history.transaction import Transaction
from trails.integrity import digests, leaves
from trails.integrity.leaves import Leaf
from trails.model import iris
from trails.model.values import Finding, SessionRecord
from trails.rdf import query_files, vocab
from trails.rdf.activity_records import Deed, ImportedDocument, deed_quads, document_of, document_quads
from trails.rdf.codec import subject_of
from trails.store.contract import Matching, PreconditionFailed, QuadStore, Solutions

_PIECE: Final = 3 << 20
"""Bytes of the file in one quad: the engine's parsers refuse a text of more than 16 MiB."""
_REMOVAL: Final = frozenset(
    {vocab.TYPE, vocab.REMOVED_DOCUMENT, vocab.LEAF_SALT, vocab.ENDED_AT, vocab.ASSOCIATED_WITH, vocab.REASON}
)
_STAYS: Final = (
    "it is part of a PROV document that was brought in, which is kept as it came or not at all: delete the document"
)


# --- the file


def file_quads(document_iri: str, data: bytes) -> list[Quad]:
    """Return the quads that keep a file as it came, in pieces, in a graph of its own."""
    graph = NamedNode(iris.document_file(document_iri))
    made = []
    for number, start in enumerate(range(0, len(data), _PIECE)):
        node, piece = NamedNode(f"{graph.value}/{number}"), base64.b64encode(data[start : start + _PIECE])
        made += [
            Quad(node, vocab.TYPE, vocab.ENTITY, graph),
            Quad(node, vocab.FILE_PART, Literal(piece.decode()), graph),
        ]
    return made


def file_of(store: Matching, document: ImportedDocument) -> bytes:
    """Return a document's file as it came; raise `IntegrityError` where it is another one now."""
    graph = NamedNode(iris.document_file(document.iri))
    found = {
        int(subject_of(quad).rpartition("/")[2]): str(getattr(quad.object, "value", ""))
        for quad in store.quads((None, vocab.FILE_PART, None, graph))
        if subject_of(quad).rpartition("/")[2].isdecimal()
    }
    try:
        data = b"".join(base64.b64decode(found[number], validate=True) for number in sorted(found))
    except ValueError:
        data = b""
    if hashlib.sha256(data).hexdigest() != document.sha256:
        raise IntegrityError(
            f"the file of the PROV document {document.sha256[:16]} was altered in the store; restore the store from a backup"
        )
    return data


# --- what there is


def read_documents(store: Matching) -> list[ImportedDocument]:
    """Return all documents, in the order in which they were brought in."""
    found = [document_of(subject_of(quad), about(store, subject_of(quad))) for quad in _typed(store)]
    return sorted(found, key=lambda each: (each.time, each.sha256))


def find_document(store: Matching, name: str) -> ImportedDocument:
    """Return the document that an IRI, the beginning of a SHA-256 or the name of a file says.

    Raises `InvalidInput` where none has it, or several have.
    """
    given = name.removeprefix(iris.document(""))
    every = read_documents(store)
    found = [each for each in every if each.sha256.startswith(given) or each.name == name] if given else []
    if len(found) == 1:
        return found[0]
    if not found:
        raise InvalidInput(f"there is no PROV document {name!r} in the store; `trails documents` lists those there are")
    shown = ", ".join(each.sha256[:16] for each in found[:5])
    raise InvalidInput(f"{name!r} says {len(found)} PROV documents ({shown}); give more of the SHA-256 of one")


def document_graphs(store: QuadStore, document_iri: str | None = None) -> list[NamedNode]:
    """Return the graphs of a document, or of all of them."""
    rows = store.query(query_files.find("graphs").bind())
    assert isinstance(rows, Solutions)  # noqa: S101 - a SELECT
    found = [(row[0], iris.document_of_graph(row[0].value)) for row in rows]
    return [graph for graph, owner in found if owner is not None and document_iri in (None, owner)]


def document_digest(quads: Iterable[Quad]) -> str:
    """Return the digest of all that stands in a document's graphs: SHA-256 over its sorted N-Quads."""
    made = hashlib.sha256()
    for line in sorted(map(str, quads)):
        made.update(f"{line} .\n".encode())
    return made.hexdigest()


def _typed(store: Matching) -> list[Quad]:
    return store.quads((None, vocab.TYPE, vocab.PROV_DOCUMENT, vocab.CATALOG))


# --- bringing in, taking out


def keep_document(store: QuadStore, document: ImportedDocument, quads: Sequence[Quad]) -> bool:
    """Write a document with the quads of its graphs; return False where it is there already."""
    tx = Transaction()
    rows = document_quads(document)
    tx.new(rows)
    tx.add(quads)
    tx.log_leaves([_leaf(document.iri, rows)])
    try:
        return tx.commit(store)
    except PreconditionFailed:
        return False


def discard_document(store: QuadStore, document: ImportedDocument, deed: Deed) -> None:
    """Take a document out, with all its graphs, leaving word of who did it, when and why."""
    node = NamedNode(iris.document_removal(document.iri, secrets.token_hex(8)))
    rows: list[tuple[NamedNode, NamedNode | Literal]] = [
        (vocab.TYPE, vocab.DELETION),
        (vocab.REMOVED_DOCUMENT, Literal(document.sha256)),
        (vocab.LEAF_SALT, Literal(digests.new_salt())),
    ]
    made = [*(Quad(node, predicate, term, vocab.CATALOG) for predicate, term in rows), *deed_quads(node, deed)]
    record = about(store, document.iri)
    tx = Transaction()
    tx.add(made)
    tx.take(record, lambda _: InvalidInput(f"the PROV document {document.sha256[:16]} was deleted meanwhile"))
    for graph in document_graphs(store, document.iri):
        tx.remove(store.quads((None, None, None, graph)))
    tx.log_leaves([_leaf(node.value, made)])
    tx.commit(store)
    transaction.sweep_names(store, transaction.names_in(record))


# --- the log


def _leaf(iri: str, quads: Iterable[Quad]) -> Leaf:
    """Return the leaf of a document's record, or of that of its removal."""
    own = [quad for quad in quads if subject_of(quad) == iri]
    return Leaf("discard" if iris.removed_document(iri) else "document", iri, 0, leaves.row_digest(own))


def _removals(store: Matching) -> list[str]:
    return sorted(subject_of(quad) for quad in store.quads((None, vocab.REMOVED_DOCUMENT, None, vocab.CATALOG)))


def _all_leaves(store: Matching) -> list[Leaf]:
    """Return the leaves of all documents, for a log that begins with them: those of removals first."""
    every = [*_removals(store), *(subject_of(quad) for quad in _typed(store))]
    return [_leaf(iri, about(store, iri)) for iri in every]


class _Log:
    """What the log says of documents: the digest of each record that is to be there, and what it never says."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.digests: dict[str, str] = {}
        self.again: set[str] = set()
        for line in lines:
            if not line.startswith(("document ", "discard ")):
                continue
            fields = line.split(" ")
            if len(fields) == 5:
                self._take(fields[1], fields[3])

    def _take(self, iri: str, digest: str) -> None:
        gone = iris.removed_document(iri)
        if iri in self.digests:
            self.again.add(iri)
        elif gone is not None:
            self.digests.pop(gone, None)
            self.again.discard(gone)
        self.digests[iri] = digest


def _checks(evidence: Evidence) -> Checks:
    def found(_: Mapping[str, SessionRecord], every: bool) -> Iterator[Finding]:
        for code, what in _findings(evidence.store, _Log(evidence.lines)) if every else ():
            yield Finding(code=code, message=what)

    return Checks(store=found)


def _findings(store: QuadStore, log: _Log) -> Iterator[tuple[str, str]]:
    typed = [subject_of(quad) for quad in _typed(store)]
    owned: dict[str, list[NamedNode]] = {}
    for graph in document_graphs(store):
        owned.setdefault(iris.document_of_graph(graph.value) or "", []).append(graph)
    for iri in [*typed, *_removals(store)]:
        what = f"the record of the {'removal of the ' if iris.removed_document(iri) else ''}PROV document {_short(iri)}"
        record = about(store, iri)
        logged = log.digests.get(iri)
        if logged is None:
            yield "unlogged", f"{what} is in the store and not in its log"
        elif logged != leaves.row_digest(record):
            yield "row-altered", f"{what} is not as it was logged"
        if iri in log.again and not any(iris.is_unnamed(str(getattr(q.object, "value", ""))) for q in record):
            yield "logged-twice", f"{what} was logged again, and nothing was redacted in it"
    for iri in log.digests.keys() - {*typed, *_removals(store)}:
        yield "rolled-back", f"the record of {_short(iri)}, a PROV document or its removal, was logged and is gone"
    for iri in typed:
        yield from _contents(store, iri, owned.get(iri, []))
    for iri in owned.keys() - set(typed):
        if any(store.quads((None, None, None, graph)) for graph in owned[iri]):
            yield "stray-graph", f"the graphs of {_short(iri)} belong to no PROV document"


def _contents(store: QuadStore, iri: str, owned: Iterable[NamedNode]) -> Iterator[tuple[str, str]]:
    try:
        document = document_of(iri, about(store, iri))
    except TrailsError:
        return  # named by the check of the catalog
    if document_digest(quad for graph in owned for quad in store.quads((None, None, None, graph))) != document.digest:
        yield "digest-mismatch", f"what stands in the graphs of the PROV document {_short(iri)} was altered"
    try:
        file_of(store, document)
    except IntegrityError as error:
        yield "digest-mismatch", f"{error}"


def _short(iri: str) -> str:
    return iri.removeprefix(iris.document(""))[:16]


def _as_written(subject: str, quads: Sequence[Quad]) -> list[Quad]:
    return [quad for quad in document_quads(document_of(subject, quads)) if subject_of(quad) == subject]


# --- taking texts out


def _purge(taking: Erasure, subject: str, before: Sequence[Quad], hits: Sequence[Quad]) -> None:
    """Take a name out of a document's record or that of its removal; what a document says stays, and is told."""
    owner = iris.document_of_graph(subject)
    if not before:
        return  # a graph that is empty since its document was deleted: the engine may still list it
    if before[0].graph_name != vocab.CATALOG:
        if hits or _in_file(taking, before):
            taking.leave(None, "PROV document", owner or subject, _STAYS)
        return
    after = [quad for quad in taking.without(before) if quad.predicate != vocab.LEAF_SALT]
    node = NamedNode(subject)
    after.append(Quad(node, vocab.LEAF_SALT, Literal(digests.new_salt()), vocab.CATALOG))
    taking.place(None, "PROV document", subject)
    taking.found.swap(before, after)
    taking.found.leaves.append(_leaf(subject, after))


def _in_file(taking: Erasure, quads: Sequence[Quad]) -> bool:
    """Tell whether the pieces of a file hold the text, wherever one piece ends."""
    pieces = {
        subject_of(quad): str(getattr(quad.object, "value", "")) for quad in quads if quad.predicate == vocab.FILE_PART
    }
    try:
        data = b"".join(base64.b64decode(pieces[each]) for each in sorted(pieces, key=lambda iri: (len(iri), iri)))
    except ValueError:
        return False
    return bool(data) and taking.needle.within(data.decode(errors="replace"))


DOCUMENTS: Final = RecordKind(
    name="PROV documents",
    types=frozenset({vocab.PROV_DOCUMENT}),
    owns=lambda graph: iris.document_of_graph(graph) is not None,
    leaves=_all_leaves,
    as_written=_as_written,
    own_leaf=lambda quad: quad.object == vocab.PROV_DOCUMENT or quad.predicate == vocab.REMOVED_DOCUMENT,
    removal=lambda iri: _REMOVAL if iris.removed_document(iri) else frozenset(),
    checks=_checks,
    purges=lambda iri: iris.document_of_graph(iri) is not None,
    purge=_purge,
)
