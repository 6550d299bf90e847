"""What principals signed of sessions, in the catalog: logged with the session's row by name, and held against its turns.

A signature of a head covers all turns before it, inherited ones too. A copy of a turn is nobody's: whoever signed the
original did not sign the session that the copy stands in.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Final

from pyoxigraph import Literal, NamedNode, Quad

from trails.errors import TrailsError
from trails.history.annotations import annotation_digest_at
from trails.history.reader import Reader
from trails.history.records.record_kind import Arriving, Checks, Evidence, Growth, Leaving, RecordKind
from trails.history.transcript import stored_length
from trails.integrity.signed_notes import HeadSignature, is_signature_true
from trails.model import iris, lineage
from trails.model.values import Finding, SessionRecord, Unsigned
from trails.rdf import vocab
from trails.rdf.activity_records import author_type
from trails.rdf.annotation_records import signature_of, signature_quads_as_written
from trails.store.contract import Matching, QuadStore

_TAKEN_OUT: Final = Literal(iris.UNNAMED)

# --- found


def read_signatures(store: Matching, session_id: str) -> list[HeadSignature]:
    """Return what was signed of a session itself, in order of index and time."""
    found = [signature_of(_iri(quad), _about(store, quad)) for quad in _of(store, session_id)]
    return sorted(found, key=lambda each: (each.index, each.time, each.key))


def has_signatures(store: Matching) -> bool:
    """Tell whether anything in a store is signed."""
    return bool(store.quads((None, vocab.TYPE, vocab.HEAD_SIGNATURE, vocab.CATALOG)))


def _of(store: Matching, session_id: str | None) -> list[Quad]:
    node = None if session_id is None else NamedNode(iris.session(session_id))
    return store.quads((None, vocab.SIGNATURE_OF, node, vocab.CATALOG))


def _about(store: Matching, quad: Quad) -> list[Quad]:
    return store.quads((quad.subject, None, None, vocab.CATALOG))  # type: ignore[arg-type] # an IRI


def _iri(quad: Quad) -> str:
    return str(getattr(quad.subject, "value", quad.subject))


# --- what nobody signed


def unsigned_sessions(
    store: QuadStore, reader: Reader, session_ids: Collection[str] | None, keys: Collection[str] | None
) -> list[Unsigned]:
    """Return the own turns of sessions, or (None) of all, that no true signature covers, by one of some keys or (None) by any."""
    chain_of = cache(partial(_read_chain, reader))
    signed: dict[str, int] = defaultdict(int)
    for quad in _of(store, None):
        said = _readable(store, quad)
        chain = None if said is None else chain_of(said.session_id)
        if said is None or chain is None or _wrong(reader, chain, said) or said.is_taken_out:
            continue
        if keys is None or said.key in keys:
            for run in lineage.segments(chain, said.index + 1):
                signed[run.record.id] = max(signed[run.record.id], said.index + 1 if run.end is None else run.end)
    found = []
    for session_id in sorted(_session_ids(store) if session_ids is None else session_ids):
        chain = chain_of(session_id)
        if chain is not None:
            first, end = max(signed[session_id], chain[0].starts_at), stored_length(reader, chain)
            found += [Unsigned(session_id=session_id, first=first, last=end - 1)] if first < end else []
    return found


def missing_signatures(ranges: Iterable[Unsigned]) -> list[Finding]:
    """Return turns that nobody signed as findings, for those who demand that all are."""
    return [
        Finding(
            code="unsigned",
            session_id=each.session_id,
            index=each.first,
            message=f"session {each.session_id!r}: nobody signed its turns {each.first} to {each.last}",
        )
        for each in ranges
    ]


def _session_ids(store: Matching) -> list[str]:
    rows = store.quads((None, vocab.TYPE, vocab.SESSION, vocab.CATALOG))
    return [iris.session_id(_iri(row)) for row in rows]


def _readable(store: Matching, quad: Quad) -> HeadSignature | None:
    try:
        return signature_of(_iri(quad), _about(store, quad))
    except (TrailsError, ValueError):
        return None  # named by the check of the catalog


def _read_chain(reader: Reader, session_id: str) -> tuple[SessionRecord, ...] | None:
    try:
        return reader.lineage(session_id)
    except TrailsError:
        return None  # named by the check of the lineage


# --- held against the turns


def _findings(store: QuadStore, records: Mapping[str, SessionRecord], *, every: bool) -> Iterator[Finding]:
    reader = Reader(store)
    for quad in _of(store, None):
        said = _readable(store, quad)
        if said is None:
            continue
        if said.session_id in records:
            chain = _chain(records, said.session_id)
            what = None if chain is None else _wrong(reader, chain, said)
            if what is not None:
                yield _finding(said, what)
        elif every:
            yield _finding(said, "is of a session that is not stored")


def _chain(records: Mapping[str, SessionRecord], session_id: str) -> tuple[SessionRecord, ...] | None:
    try:
        return lineage.lineage(session_id, records)
    except TrailsError:
        return None  # named by the check of the lineage


def _wrong(reader: Reader, chain: Sequence[SessionRecord], said: HeadSignature) -> str | None:
    """Return what is wrong with a signature, given the lineage of its session; None where nothing is."""
    if not said.is_taken_out and not is_signature_true(said):
        return "does not hold: it was forged, or something of it was altered"
    if annotation_digest_at(reader, chain, said.index) != said.head:
        return "is over a turn that is not there, or has another digest now"
    return None


def _finding(said: HeadSignature, what: str) -> Finding:
    return Finding(
        code="bad-signature",
        session_id=said.session_id,
        index=said.index,
        message=f"session {said.session_id!r}: the signature of {said.principal!r} over turn {said.index} {what}",
    )


def _checks(evidence: Evidence) -> Checks:
    return Checks(store=lambda records, every: _findings(evidence.store, records, every=every))


# --- with the session


def _logged(store: Matching, node: NamedNode, _: Sequence[Quad] = ()) -> list[Quad]:
    """Return what the log covers: which signatures there are, by names that are their digests, which covers the rest.

    Of one whose key was taken out, nothing else says how the rest was. A session may have as many as turns.
    """
    of_session = store.quads((None, vocab.SIGNATURE_OF, node, vocab.CATALOG))
    gone = (
        {quad.subject for quad in store.quads((None, vocab.SIGNER_KEY, _TAKEN_OUT, vocab.CATALOG))}
        if of_session
        else ()
    )
    return [*of_session, *(each for quad in of_session if quad.subject in gone for each in _about(store, quad))]


def _whole(store: Matching, node: NamedNode) -> list[Quad]:
    return [
        each for quad in store.quads((None, vocab.SIGNATURE_OF, node, vocab.CATALOG)) for each in _about(store, quad)
    ]


def _exported(store: QuadStore, node: NamedNode) -> list[Quad]:
    quads = _whole(store, node)
    who = {str(getattr(q.object, "value", "")) for q in quads if q.predicate == vocab.ATTRIBUTED_TO}
    return [*quads, *map(author_type, sorted(who))]


def _leaving(store: QuadStore, doomed: Collection[str], _: set[str]) -> Leaving:
    return Leaving(remove=[q for each in doomed for q in _whole(store, NamedNode(iris.session(each)))])


def _arriving(store: QuadStore, _: str, quads: Sequence[Quad]) -> Arriving:
    """Return quads of an arriving session without the signatures that are here already."""
    subjects = {quad.subject for quad in quads if quad.object == vocab.HEAD_SIGNATURE}
    known = {subject for subject in subjects if store.quads((subject, None, None, vocab.CATALOG))}  # type: ignore[arg-type] # an IRI
    return Arriving([quad for quad in quads if quad.subject not in known])


def _growing(store: QuadStore, file: QuadStore, session_id: str, _: bool) -> Growth:
    """Return what was signed of a session in the file's store and is not known here."""
    found = _arriving(store, session_id, _exported(file, NamedNode(iris.session(session_id))))
    is_new = any(quad.object == vocab.HEAD_SIGNATURE for quad in found.quads)
    return Growth(add=found.quads if is_new else ())


SIGNATURES: Final = RecordKind(
    name="signatures",
    types=frozenset({vocab.HEAD_SIGNATURE}),
    links=frozenset({vocab.SIGNATURE_OF}),
    logged=_logged,
    as_written=signature_quads_as_written,
    checks=_checks,
    leaving=_leaving,
    exported=_exported,
    arriving=_arriving,
    growing=_growing,
    places={vocab.SIGNER_KEY: "signer's key"},
)
