"""The entries of a session's ledger, frozen, and between them and quads: events, exchanges, deliveries. Pure.

Those that the session tree writes are in `trails.records.tree_entries`, those of policies in `policyentries`.

A ledger is a graph of its own beside the session's, `<session>/ledger`, and its entries are numbered from 1. A text that
a redaction may have to take out (a message's, what was really sent, an error's) is salted, and what the log covers of an
entry is its text's digest, so that the text can go and everything still verifies.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final, Literal

from pyoxigraph import Literal as RdfLiteral
from pyoxigraph import NamedNode, Quad

from trails import iris
from trails import vocab as v
from trails.decoding import decodes
from trails.errors import IntegrityError, TrailsError
from trails.integrity import leaves
from trails.integrity.leaves import Kind, Leaf
from trails.records import policy_entries, tree_entries
from trails.records.entry import (
    LedgerEntry,
    Node,
    Pairs,
    Properties,
    Words,
    decode_words,
    entry_node,
    entry_number,
    moment,
    one,
    time_of,
)
from trails.records.policy_entries import Decision
from trails.records.terms import time_literal
from trails.records.tree_entries import SAYING_WHY, TreeEntry

Mode = Literal["steer", "followup", "collect", "hold"]
"""What becomes of a message that comes while the session is at work; "hold" leaves it for somebody to decide."""
State = Literal["pending", "streaming", "completed", "failed"]
"""Where an exchange stands."""
Outcome = Literal["sent", "failed", "skipped"]
"""How an attempt to deliver ended."""

_SAID: Final = frozenset({v.RECORDED_AS, v.DIGEST, v.LEAF_SALT})
_LOOSE: Final = frozenset({v.VALUE, v.ERROR, v.SALT, v.WAITING, v.RECORDED_AS})
"""What changes of an entry, or goes, without a new leaf: its text, and what shows in the exchange that took it up."""


class Event(LedgerEntry):
    """A message that came to a session, or the answer that went out."""

    direction: Literal["inbound", "outbound"]
    source: str | None = None
    event_id: str | None = None
    channel: str | None = None
    account: str | None = None
    peer: str | None = None
    mode: Mode | None = None
    author_iri: str | None = None
    time: datetime
    received: datetime | None = None
    waiting: bool = False
    turn_iris: tuple[str, ...] = ()
    """The turn that says what an inbound event brought (and one more for each time that a failed exchange was kept as
    a fork), or the turn that an outbound one brings out."""
    exchange: int | None = None
    """The number of the exchange that generated an outbound event."""

    @property
    def content(self) -> Any:
        """The message's text or parts while it stands here; None once a turn says it, or it was taken out."""
        return None if self.words is None else self.words.content

    @property
    def address(self) -> tuple[str | None, ...]:
        """Where a message came from: what an answer to it goes back to."""
        return self.source, self.channel, self.account, self.peer

    def to_dict(self) -> dict[str, Any]:
        """Return the event as plain values, ready for JSON."""
        return self._plain(
            direction=self.direction,
            source=self.source,
            event_id=self.event_id,
            channel=self.channel,
            account=self.account,
            peer=self.peer,
            mode=self.mode,
            author=None if self.author_iri is None else iris.author_name(self.author_iri),
            time=self.time,
            received=self.received,
            waiting=self.waiting,
            content=self.content,
            withheld=self.words is not None and self.words.withheld,
            turns=list(self.turn_iris),
            exchange=self.exchange,
        )


class Exchange(LedgerEntry):
    """The work on a message (or on a few that were collected or steered in), up to the answer."""

    state: State
    agent: str
    events: tuple[int, ...]
    """The numbers of the events that it took up, in order."""
    queued: datetime
    started: datetime | None = None
    ended: datetime | None = None
    head_before: str | None = None
    head_after: str | None = None
    turn_iris: tuple[str, ...] = ()
    """The turns that it added to the session, in order; those that say its messages included."""
    retry_of: int | None = None
    kept_as: str | None = None
    """The id of the fork that holds what it had done before it failed, where that was to be kept."""
    interrupted: bool = False
    """Streaming, and nobody in this process works on it: its process died. Not stored."""

    @property
    def error(self) -> str | None:
        """Why it failed; None where it did not, or where that was taken out."""
        return None if self.words is None else self.words.text

    def to_dict(self) -> dict[str, Any]:
        """Return the exchange as plain values, ready for JSON."""
        return self._plain(
            state=self.state,
            interrupted=self.interrupted,
            agent=self.agent,
            events=list(self.events),
            queued=self.queued,
            started=self.started,
            ended=self.ended,
            error=self.error,
            head_before=self.head_before,
            head_after=self.head_after,
            turns=list(self.turn_iris),
            retry_of=self.retry_of,
            kept_as=self.kept_as,
        )


class Delivery(LedgerEntry):
    """One attempt to send a turn out over a channel."""

    turn_iri: str
    event: int | None = None
    """The number of the outbound event that was sent."""
    channel: str
    outcome: Outcome
    attempt: int
    time: datetime
    reason: str | None = None

    @property
    def text(self) -> str | None:
        """What was really sent, where that is not the turn's own text."""
        return None if self.words is None else self.words.text

    def to_dict(self) -> dict[str, Any]:
        """Return the delivery as plain values, ready for JSON."""
        return self._plain(
            turn=self.turn_iri,
            event=self.event,
            channel=self.channel,
            outcome=self.outcome,
            attempt=self.attempt,
            time=self.time,
            reason=self.reason,
            text=self.text,
            withheld=self.words is not None and self.words.withheld,
        )


Entry = Event | Exchange | Delivery | Decision | TreeEntry


# --- to quads


def graph_of(session_id: str) -> NamedNode:
    """Return the graph of a session's ledger."""
    return NamedNode(iris.ledger(iris.session(session_id)))


def head_quads(session_id: str) -> list[Quad]:
    """Return what a ledger says of itself; written with its first entry."""
    graph = graph_of(session_id)
    return [
        Quad(graph, v.TYPE, v.LEDGER, graph),
        Quad(graph, v.LEDGER_OF, NamedNode(iris.session(session_id)), graph),
    ]


def quads(entry: Entry) -> list[Quad]:
    """Return the quads of an entry."""
    node, graph = NamedNode(entry.iri), graph_of(entry.session_id)
    return [Quad(node, predicate, term, graph) for predicate, term in _pairs(entry) if term is not None]


def _pairs(entry: Entry) -> Pairs:
    yield v.NUMBER, v.integer(entry.number)
    match entry:
        case Event():
            yield from _event(entry)
        case Exchange():
            yield from _exchange(entry)
        case Delivery():
            yield from _delivery(entry)
        case Decision():
            yield from policy_entries.pairs(entry)
        case _:
            yield from tree_entries.pairs(entry)
    if entry.words is None:
        yield v.LEAF_SALT, None if entry.leaf_salt is None else RdfLiteral(entry.leaf_salt)
    else:
        yield from _words(entry.words, v.ERROR if isinstance(entry, (Exchange, *SAYING_WHY)) else v.VALUE)


def _words(words: Words, predicate: NamedNode) -> Pairs:
    yield v.DIGEST, RdfLiteral(words.digest)
    if words.withheld:
        yield predicate, RdfLiteral("", datatype=v.REDACTED)
    elif words.text is not None:
        yield predicate, RdfLiteral(words.text, datatype=v.JSON) if words.structured else RdfLiteral(words.text)
        yield v.SALT, RdfLiteral(words.salt or "")


def _event(event: Event) -> Pairs:
    yield v.TYPE, v.EVENT
    yield v.TYPE, v.ENTITY
    yield v.DIRECTION, RdfLiteral(event.direction)
    for predicate, text in (
        (v.SOURCE, event.source),
        (v.EVENT_ID, event.event_id),
        (v.CHANNEL, event.channel),
        (v.ACCOUNT, event.account),
        (v.PEER, event.peer),
        (v.QUEUE_MODE, event.mode),
    ):
        yield predicate, None if text is None else RdfLiteral(text)
    yield v.ATTRIBUTED_TO, None if event.author_iri is None else NamedNode(event.author_iri)
    yield v.TIME, time_literal(event.time)
    yield v.RECEIVED_AT, time_of(event.received)
    yield v.WAITING, RdfLiteral(True) if event.waiting else None
    for turn in event.turn_iris:
        yield v.RECORDED_AS if event.direction == "inbound" else v.DERIVED_FROM, NamedNode(turn)
    yield v.GENERATED_BY, entry_node(event, event.exchange)


def _exchange(exchange: Exchange) -> Pairs:
    yield v.TYPE, v.EXCHANGE
    yield v.TYPE, v.ACTIVITY
    yield v.STATE, RdfLiteral(exchange.state)
    yield v.ASSOCIATED_WITH, NamedNode(iris.agent(exchange.agent))
    for number in exchange.events:
        yield v.USED, entry_node(exchange, number)
    yield v.QUEUED_AT, time_literal(exchange.queued)
    yield v.STARTED_AT, time_of(exchange.started)
    yield v.ENDED_AT, time_of(exchange.ended)
    yield v.HEAD_BEFORE, None if exchange.head_before is None else RdfLiteral(exchange.head_before)
    yield v.HEAD_AFTER, None if exchange.head_after is None else RdfLiteral(exchange.head_after)
    for turn in exchange.turn_iris:
        yield v.GENERATED, NamedNode(turn)
    yield v.RETRY_OF, entry_node(exchange, exchange.retry_of)
    yield v.KEPT_AS, None if exchange.kept_as is None else NamedNode(iris.session(exchange.kept_as))


def _delivery(delivery: Delivery) -> Pairs:
    yield v.TYPE, v.DELIVERY
    yield v.TYPE, v.ENTITY
    yield v.DERIVED_FROM, NamedNode(delivery.turn_iri)
    yield v.DELIVERY_OF, entry_node(delivery, delivery.event)
    yield v.CHANNEL, RdfLiteral(delivery.channel)
    yield v.OUTCOME, RdfLiteral(delivery.outcome)
    yield v.ATTEMPT, v.integer(delivery.attempt)
    yield v.TIME, time_literal(delivery.time)
    yield v.REASON, None if delivery.reason is None else RdfLiteral(delivery.reason)


def row_digest(entry: Entry, said: Iterable[Quad] | None = None) -> str:
    """Return the digest of an entry (`said`: its quads) without what may go or change: what its newest leaf holds."""
    return leaves.row_digest(quad for quad in (quads(entry) if said is None else said) if quad.predicate not in _LOOSE)


def leaf(entry: Entry, said: Iterable[Quad] | None = None) -> Leaf:
    """Return the leaf for an entry as it stands; `said` are its quads, where they are at hand."""
    kind: Kind
    match entry:
        case Event():
            kind = "received" if entry.direction == "inbound" else "sent"
        case Exchange():
            kind = entry.state
        case Delivery():
            kind = "delivered"
        case Decision():
            kind = "decision"
        case _:
            kind = tree_entries.kind(entry)
    return Leaf(kind, iris.session(entry.session_id), entry.number, row_digest(entry, said))


def said_digest(event: Event) -> str:
    """Return the digest of the turns that say an inbound event: what its newest `said` leaf holds."""
    return leaves.row_digest(quad for quad in quads(event) if quad.predicate in _SAID)


def leaves_of(entry: Entry) -> list[Leaf]:
    """Return the leaves for an entry as it stands, and for the turns that say it."""
    said = said_leaf(entry)
    return [leaf(entry)] if said is None else [leaf(entry), said]


def said_leaf(entry: Entry) -> Leaf | None:
    """Return the leaf for the turns that say an inbound event; None where none do, or it is none."""
    if isinstance(entry, Event) and entry.direction == "inbound" and entry.turn_iris:
        return Leaf("said", iris.session(entry.session_id), entry.number, said_digest(entry))
    return None


# --- from quads


@decodes
def by_subject(found: Iterable[Quad]) -> dict[str, dict[NamedNode, list[Node]]]:
    """Return quads of a ledger's graph by the subject's IRI and the property."""
    subjects: dict[str, dict[NamedNode, list[Node]]] = defaultdict(lambda: defaultdict(list))
    for quad in found:
        if isinstance(quad.object, NamedNode | RdfLiteral):
            subjects[str(getattr(quad.subject, "value", quad.subject))][quad.predicate].append(quad.object)
    return subjects


@decodes
def decode(session_id: str, iri: str, properties: Properties) -> Entry:
    """Return the entry that a subject of a ledger's graph is; raise `IntegrityError` for what is none."""
    found = _decode(session_id, iri, properties)
    return found.model_copy(update={"leaf_salt": one(properties, v.LEAF_SALT)})


def _decode(session_id: str, iri: str, properties: Properties) -> Entry:
    number = iris.entry_number(iri)
    types = properties.get(v.TYPE, [])
    try:
        if number is not None and v.EVENT in types:
            return _decode_event(session_id, number, properties)
        if number is not None and v.EXCHANGE in types:
            return _decode_exchange(session_id, number, properties)
        if number is not None and v.DELIVERY in types:
            return _decode_delivery(session_id, number, properties)
        if number is not None and v.DECISION in types:
            return policy_entries.decode(session_id, number, properties)
        made = next((tree_entries.TYPES[each] for each in types if each in tree_entries.TYPES), None)  # type: ignore[index] # IRIs
        if number is not None and made is not None:
            return tree_entries.decode(made, session_id, number, properties)
    except (ValueError, TrailsError) as error:
        raise IntegrityError(
            f"entry {number} of the ledger of session {session_id!r} cannot be read ({error}): the store was altered; "
            "restore the session from an export or a backup"
        ) from error
    raise IntegrityError(f"{iri} is no entry of the ledger of session {session_id!r}, and stands in its graph")


def _decode_event(session_id: str, number: int, properties: Properties) -> Event:
    return Event.model_validate(
        {
            "session_id": session_id,
            "number": number,
            "words": decode_words(properties, v.VALUE),
            "direction": one(properties, v.DIRECTION),
            "source": one(properties, v.SOURCE),
            "event_id": one(properties, v.EVENT_ID),
            "channel": one(properties, v.CHANNEL),
            "account": one(properties, v.ACCOUNT),
            "peer": one(properties, v.PEER),
            "mode": one(properties, v.QUEUE_MODE),
            "author_iri": one(properties, v.ATTRIBUTED_TO),
            "time": moment(properties, v.TIME),
            "received": moment(properties, v.RECEIVED_AT),
            "waiting": one(properties, v.WAITING) == "true",
            "turn_iris": _turns(properties, v.RECORDED_AS) or _turns(properties, v.DERIVED_FROM),
            "exchange": entry_number(properties, v.GENERATED_BY),
        }
    )


def _decode_exchange(session_id: str, number: int, properties: Properties) -> Exchange:
    kept_as = one(properties, v.KEPT_AS)
    return Exchange.model_validate(
        {
            "session_id": session_id,
            "number": number,
            "words": decode_words(properties, v.ERROR),
            "state": one(properties, v.STATE),
            "agent": iris.author_name(one(properties, v.ASSOCIATED_WITH) or ""),
            "events": tuple(sorted(iris.entry_number(each.value) or 0 for each in properties.get(v.USED, []))),
            "queued": moment(properties, v.QUEUED_AT),
            "started": moment(properties, v.STARTED_AT),
            "ended": moment(properties, v.ENDED_AT),
            "head_before": one(properties, v.HEAD_BEFORE),
            "head_after": one(properties, v.HEAD_AFTER),
            "turn_iris": _turns(properties, v.GENERATED),
            "retry_of": entry_number(properties, v.RETRY_OF),
            "kept_as": None if kept_as is None else iris.session_id(kept_as),
        }
    )


def _decode_delivery(session_id: str, number: int, properties: Properties) -> Delivery:
    return Delivery.model_validate(
        {
            "session_id": session_id,
            "number": number,
            "words": decode_words(properties, v.VALUE),
            "turn_iri": one(properties, v.DERIVED_FROM),
            "event": entry_number(properties, v.DELIVERY_OF),
            "channel": one(properties, v.CHANNEL),
            "outcome": one(properties, v.OUTCOME),
            "attempt": int(one(properties, v.ATTEMPT) or ""),
            "time": moment(properties, v.TIME),
            "reason": one(properties, v.REASON),
        }
    )


def _turns(properties: Properties, predicate: NamedNode) -> tuple[str, ...]:
    return tuple(sorted((each.value for each in properties.get(predicate, [])), key=_turn_place))


def _turn_place(turn_iri: str) -> tuple[int, str]:
    return iris.turn_index(turn_iri), turn_iri
