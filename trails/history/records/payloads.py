"""The bytes of payloads, each stored once in a graph of its own, named by their SHA-256.

A turn refers to them (`trails:payloadBytes`). They are written by the commit of the first turn that does, and go with the last
one. The name is a digest of all that the graph holds, so no leaf of the log tells of it: the digests of turns do.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from pyoxigraph import Literal, NamedNode, Quad

from trails.errors import IntegrityError, InvalidInput
from trails.history.records.record_kind import Checks, Evidence, RecordKind
from trails.history.records.text_matcher import Erasure
from trails.history.transaction import LeafMaker, Transaction
from trails.integrity.digests import salted_digest
from trails.integrity.leaves import Leaf
from trails.model import iris
from trails.model.values import Finding, Payload, PayloadReference, SessionRecord, Turn
from trails.rdf import query_files, vocab
from trails.rdf.codec import subject_of, term_text
from trails.secrets.hidden_texts import holds_hidden, without_hidden
from trails.store.contract import Matching, QuadStore, Solutions
from trails.store.pattern import Preview

_PIECE: Final = 3 << 20
"""Bytes in one quad: the engine's parsers refuse a text of more than 16 MiB."""
_STEP: Final = 200
"""References that one commit takes out."""


# --- as quads


def payload_quads(payload: Payload, digest: str | None = None) -> list[Quad]:
    """Return the quads that keep the bytes of a payload, whose digest may be known."""
    node = NamedNode(iris.payload(digest or payload.digest))
    made = [_is_kept(node), Quad(node, vocab.BYTE_COUNT, vocab.integer(len(payload.data)), node)]
    for number, start in enumerate(range(0, len(payload.data), _PIECE)):
        piece = base64.b64encode(payload.data[start : start + _PIECE]).decode()
        part = NamedNode(f"{node.value}/{number}")
        made += [Quad(part, vocab.TYPE, vocab.ENTITY, node), Quad(part, vocab.BYTES_PART, Literal(piece), node)]
    return made


def withheld_payload(reference: Quad, salt: str) -> Quad:
    """Return what stands in the place of the name of a payload's bytes once it is redacted."""
    digest = iris.payload_digest(term_text(reference.object)) or ""
    value = Literal(salted_digest("payload", salt, digest), datatype=vocab.REDACTED)
    return Quad(reference.subject, vocab.PAYLOAD_DIGEST, value, reference.graph_name)


def payloads_among(quads: Iterable[Quad]) -> list[NamedNode]:
    """Return the payloads to which quads of turns refer."""
    return list(dict.fromkeys(node for quad in quads if (node := _bytes_of(quad)) is not None))


def _is_kept(node: NamedNode) -> Quad:
    return Quad(node, vocab.TYPE, vocab.PAYLOAD, node)


def _bytes_in(digest: str, quads: Iterable[Quad]) -> bytes | None:
    """Return the bytes that the quads of a payload's graph keep; None where they are other ones."""
    numbered: dict[int, str] = {}
    for quad in quads:
        number = subject_of(quad).rpartition("/")[2]
        if quad.predicate == vocab.BYTES_PART and number.isdecimal():
            numbered[int(number)] = term_text(quad.object)
    try:
        data = b"".join(base64.b64decode(numbered[number], validate=True) for number in sorted(numbered))
    except ValueError:
        return None
    return data if hashlib.sha256(data).hexdigest() == digest else None


# --- reading


def read_payload(store: Matching, wanted: PayloadReference | str) -> bytes:
    """Return the bytes of a payload, by its reference or its digest.

    Raises `InvalidInput` for a payload that the store has not, and `IntegrityError` for bytes that were altered.
    """
    digest = digest_of(wanted)
    node = NamedNode(iris.payload(digest))
    quads = store.quads((None, None, None, node))
    if not quads:
        raise InvalidInput(
            f"the store has no payload {digest[:16]}: it went with the last turn that referred to it, or never was here"
        )
    data = _bytes_in(digest, quads)
    if data is None:
        raise IntegrityError(
            f"the payload {digest[:16]} was altered: its bytes are not those that its digest says; restore the store from a "
            "backup"
        )
    return data


def digest_of(wanted: PayloadReference | str) -> str:
    """Return the digest that a reference or a caller names; raise `InvalidInput` for one that names none."""
    if isinstance(wanted, PayloadReference):
        if wanted.digest is None:
            raise InvalidInput("the payload was redacted: its bytes are gone, and only their salted digest is left")
        return wanted.digest
    if iris.payload_digest(iris.payload(wanted)) is None:
        raise InvalidInput(
            "a payload is named by one of a turn's payloads, or by its digest of 64 lower-case hexadecimal digits, not "
            f"{wanted!r:.80}"
        )
    return wanted


def carried_bytes(quads: Iterable[Quad]) -> Iterator[tuple[Quad, bytes]]:
    """Yield the bytes of each payload that stands among quads whole, with the first of the references to it there."""
    parts: dict[str, list[Quad]] = {}
    references: dict[str, Quad] = {}
    for quad in quads:
        if quad.predicate == vocab.BYTES_PART:
            parts.setdefault(term_text(quad.graph_name), []).append(quad)
        elif quad.predicate == vocab.PAYLOAD_OF:
            references.setdefault(term_text(quad.object), quad)
    for iri, reference in references.items():
        data = _bytes_in(iris.payload_digest(iri) or "", parts.get(iri, []))
        if data:
            yield reference, data


# --- coming and going


def keep_payloads(payloads: Iterable[Payload]) -> LeafMaker:
    """Return a maker of no leaves, which adds to a commit the bytes that the store has not."""
    coming = {each.digest: each for each in payloads}

    def made(after: Preview) -> list[Leaf]:
        for digest, payload in coming.items():
            kept = _is_kept(NamedNode(iris.payload(digest)))
            if not after.quads((kept.subject, kept.predicate, kept.object, kept.graph_name)):  # type: ignore[arg-type] # an IRI
                after.add(payload_quads(payload, digest))
        return []

    return made


def payloads_of(turn: Turn) -> list[Quad]:
    """Return the quads by which the bytes of a turn's payloads are in a store."""
    return [_is_kept(NamedNode(iris.payload(each.digest))) for each in turn.payloads if each.digest is not None]


def drop_unreferenced(nodes: Iterable[NamedNode]) -> LeafMaker:
    """Return a maker of no leaves, which drops those payloads to which nothing refers once the commit is written."""
    leaving = dict.fromkeys(nodes)

    def made(after: Preview) -> list[Leaf]:
        for node in leaving:
            if not after.quads((None, vocab.PAYLOAD_OF, node, None)):
                after.drop(node)
        return []

    return made


def bring_payloads(tx: Transaction, source: Matching, turns: Iterable[Quad]) -> None:
    """Let a commit add the payloads to which quads of turns refer: those of another store, or those that must be here."""
    brought, here = list[Payload](), list[Quad]()
    for node in payloads_among(turns):
        if source.quads((None, None, None, node)):
            brought.append(Payload(data=read_payload(source, iris.payload_digest(node.value) or "")))
        else:
            here.append(_is_kept(node))
    tx.require(here)
    tx.log(keep_payloads(brought))


def without_payloads(quads: Iterable[Quad]) -> list[Quad]:
    """Return quads but for those that keep the bytes of payloads."""
    return [quad for quad in quads if iris.payload_digest(term_text(quad.graph_name)) is None]


def exported(store: QuadStore, session: NamedNode) -> list[Quad]:
    """Return the bytes of the payloads to which the turns of a session refer."""
    nodes = payloads_among(store.quads((None, vocab.PAYLOAD_OF, None, session)))
    return [quad for node in nodes for quad in store.quads((None, None, None, node))]


def sweep_references(store: QuadStore, graph: NamedNode) -> None:
    """Take out the references to payloads in the graph of a deleted session, with the payloads to which no turn refers then.

    Both go in one commit, some at a time: nothing is left behind where a sweep is cut short.
    """
    references = store.quads((None, vocab.PAYLOAD_OF, None, graph))
    for first in range(0, len(references), _STEP):
        going = references[first : first + _STEP]
        tx = Transaction()
        tx.remove(going)
        tx.log(drop_unreferenced(payloads_among(going)))
        tx.commit(store)


def byte_count(store: Matching, graph: NamedNode) -> int:
    """Return how many bytes the payloads have to which the turns in a graph refer, each counted once."""
    nodes = {quad.object for quad in store.quads((None, vocab.PAYLOAD_OF, None, graph))}
    sizes = (store.quads((node, vocab.BYTE_COUNT, None, node)) for node in nodes if isinstance(node, NamedNode))
    return sum(int(term_text(quad.object)) for quads in sizes for quad in quads)


def kept_payloads(store: QuadStore) -> list[NamedNode]:
    """Return all payloads whose bytes a store has."""
    rows = store.query(query_files.find("graphs").bind())
    assert isinstance(rows, Solutions)  # noqa: S101 - a SELECT
    return [row[0] for row in rows if iris.payload_digest(row[0].value) is not None]


# --- verifying


def _checks(evidence: Evidence) -> Checks:
    store = evidence.store

    def of_store(records: Mapping[str, SessionRecord], every: bool) -> Iterator[Finding]:
        references = _references(store, records)
        for digest, (session_id, index) in references.items():
            yield from _faults_of(store, digest, session_id, index)
        if every:
            yield from _strays(store, references)

    return Checks(store=of_store)


def _references(store: QuadStore, records: Collection[str]) -> dict[str, tuple[str, int]]:
    """Return the first turn, by session and index, that refers to each payload."""
    found: dict[str, tuple[str, int]] = {}
    for quad in store.quads((None, vocab.PAYLOAD_OF, None, None)):
        graph, digest = term_text(quad.graph_name), iris.payload_digest(term_text(quad.object))
        if digest is None or not iris.is_session(graph) or iris.session_id(graph) not in records:
            continue
        place = iris.session_id(graph), iris.turn_index(subject_of(quad))
        found[digest] = min(place, found.get(digest, place))
    return found


def _faults_of(store: QuadStore, digest: str, session_id: str, index: int) -> Iterator[Finding]:
    quads = store.quads((None, None, None, NamedNode(iris.payload(digest))))
    data = _bytes_in(digest, quads)
    where = f"session {session_id!r}: turn {index} refers to the payload {digest[:16]}"
    if not quads:
        what = f"{where}, and its bytes are gone"
        yield Finding(code="missing-payload", session_id=session_id, index=index, message=what)
    elif data is None or {*payload_quads(Payload(data=data))} != {*quads}:
        what = f"{where}, and its bytes were altered"
        yield Finding(code="digest-mismatch", session_id=session_id, index=index, message=what)


def _strays(store: QuadStore, references: Collection[str]) -> Iterator[Finding]:
    for node in kept_payloads(store):
        if iris.payload_digest(node.value) in references or not store.quads((None, None, None, node)):
            continue
        if not store.quads((None, vocab.PAYLOAD_OF, node, None)):  # else of a deleted session that is being swept
            yield Finding(code="stray-graph", message=f"no turn refers to the payload {node.value}")


# --- taking texts out


def find_texts(store: QuadStore, taking: Erasure, nodes: Iterable[NamedNode]) -> None:
    """Work out what takes the place of the payloads that hold a text; the turns that refer to them are changed with them."""
    for node in nodes:
        digest = iris.payload_digest(node.value)
        if digest is None:
            continue
        quads = store.quads((None, None, None, node))
        data = _bytes_in(digest, quads)
        if data is None:
            why = "its bytes were altered, so they are not read (`trails verify` says more): restore the store from a backup"
            taking.leave(None, "payload", node.value, why)
        elif holds_hidden(data, taking.needle.within):
            without = without_hidden(data, taking.needle.within, taking.needle.overwritten, iris.UNNAMED)
            taking.payloads[node] = Payload(data=without)
            if not store.quads((None, vocab.PAYLOAD_OF, node, None)):
                taking.place(None, "payload", node.value)


def replace_in(taking: Erasure, quads: Iterable[Quad]) -> list[Quad]:
    """Return the quads of a turn with other payloads in the place of those out of which a text is taken."""
    every = list(quads)
    new = {}
    for quad in every:
        if (node := _bytes_of(quad)) is not None and node in taking.payloads:
            new[quad.subject] = taking.payloads[node]
    made = []
    for quad in every:
        value = quad.object
        if quad.subject in new and quad.predicate == vocab.PAYLOAD_OF:
            value = NamedNode(iris.payload(new[quad.subject].digest))
        elif quad.subject in new and quad.predicate == vocab.BYTE_COUNT:
            value = vocab.integer(len(new[quad.subject].data))
        made.append(Quad(quad.subject, quad.predicate, value, quad.graph_name))
    return made


def _bytes_of(quad: Quad) -> NamedNode | None:
    """Return the payload to whose bytes a quad refers; None for any other quad."""
    return quad.object if quad.predicate == vocab.PAYLOAD_OF and isinstance(quad.object, NamedNode) else None


def put_in_place(taking: Erasure) -> None:
    """Add the payloads to which changed turns refer; where only turns did whose content goes too, there is none to add."""
    named = {*payloads_among(taking.found.add)}
    for new in taking.payloads.values():
        if NamedNode(iris.payload(new.digest)) in named:
            taking.found.add += payload_quads(new)


PAYLOADS: Final = RecordKind(
    name="payloads",
    owns=lambda graph: iris.payload_digest(graph) is not None,
    checks=_checks,
    exported=exported,
)
