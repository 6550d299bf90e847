"""The entries of a session's ledger, frozen, and between them and quads: events, exchanges, deliveries. Pure.

Those that the session tree writes are in `trails.records.tree_entries`, those of policies in `policy_entries`.

A ledger is a graph of its own beside the session's, `<session>/ledger`, and its entries are numbered from 1. A text that
a redaction may have to take out (a message's, what was really sent, an error's) is salted, and what the log covers of an
entry is its text's digest, so that the text can go and everything still verifies.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from trails.records.entry import LedgerEntry, Words, decode_words
from trails.records.policy_entries import Decision
from trails.records.schema import (
    ENTRIES,
    ENTRY,
    FLAG,
    IRI,
    NUMBER,
    SESSION,
    TEXT,
    TIME,
    TURNS,
    WHO,
    Field,
    Node,
    Properties,
    Table,
    one,
)
from trails.records.tree_entries import SAYING_WHY, Brief, TreeEntry, brief_type, brief_what

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
    """The agent that worked on it; of a message that was dropped, who did that: an agent, or the IRI of a principal."""
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


# --- kept


_TYPES: Final[Mapping[NamedNode, type[Entry]]] = {
    v.EVENT: Event,
    v.EXCHANGE: Exchange,
    v.DELIVERY: Delivery,
    v.DECISION: Decision,
}
"""The class of each entry, but for those of the tree, by the type that it is stored with."""
_TABLES: Final[Mapping[type[LedgerEntry], Table]] = {
    Event: Table(
        (v.EVENT, v.ENTITY),
        (
            Field("direction", v.DIRECTION, TEXT),
            Field("source", v.SOURCE, TEXT),
            Field("event_id", v.EVENT_ID, TEXT),
            Field("channel", v.CHANNEL, TEXT),
            Field("account", v.ACCOUNT, TEXT),
            Field("peer", v.PEER, TEXT),
            Field("mode", v.QUEUE_MODE, TEXT),
            Field("author_iri", v.ATTRIBUTED_TO, IRI),
            Field("time", v.TIME, TIME),
            Field("received", v.RECEIVED_AT, TIME),
            Field("waiting", v.WAITING, FLAG, absent="false", when=lambda event: event.waiting),
            Field("turn_iris", v.RECORDED_AS, TURNS, when=lambda event: event.direction == "inbound"),
            Field("turn_iris", v.DERIVED_FROM, TURNS, when=lambda event: event.direction == "outbound"),
            Field("exchange", v.GENERATED_BY, ENTRY),
        ),
    ),
    Exchange: Table(
        (v.EXCHANGE, v.ACTIVITY),
        (
            Field("state", v.STATE, TEXT),
            Field("agent", v.ASSOCIATED_WITH, WHO, absent=""),
            Field("events", v.USED, ENTRIES),
            Field("queued", v.QUEUED_AT, TIME),
            Field("started", v.STARTED_AT, TIME),
            Field("ended", v.ENDED_AT, TIME),
            Field("head_before", v.HEAD_BEFORE, TEXT),
            Field("head_after", v.HEAD_AFTER, TEXT),
            Field("turn_iris", v.GENERATED, TURNS),
            Field("retry_of", v.RETRY_OF, ENTRY),
            Field("kept_as", v.KEPT_AS, SESSION),
        ),
    ),
    Delivery: Table(
        (v.DELIVERY, v.ENTITY),
        (
            Field("turn_iri", v.DERIVED_FROM, IRI),
            Field("event", v.DELIVERY_OF, ENTRY),
            Field("channel", v.CHANNEL, TEXT),
            Field("outcome", v.OUTCOME, TEXT),
            Field("attempt", v.ATTEMPT, NUMBER, absent=""),
            Field("time", v.TIME, TIME),
            Field("reason", v.REASON, TEXT),
        ),
    ),
    Decision: policy_entries.TABLE,
    **tree_entries.TABLES,
}


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
    made = [Quad(node, v.NUMBER, v.integer(entry.number), graph)]
    if isinstance(entry, Brief):
        made.append(Quad(node, v.TYPE, brief_type(entry), graph))
    made += _TABLES[type(entry)].quads(entry, node, graph)
    if entry.words is not None:
        made += [Quad(node, p, o, graph) for p, o in _words(entry.words, _text_of(type(entry)))]
    elif entry.leaf_salt is not None:
        made.append(Quad(node, v.LEAF_SALT, RdfLiteral(entry.leaf_salt), graph))
    return made


def _text_of(made: type[Entry]) -> NamedNode:
    """Return the property that the text of an entry of a class is kept under."""
    return v.ERROR if made is Exchange or made in SAYING_WHY else v.VALUE


def _words(words: Words, predicate: NamedNode) -> Iterator[tuple[NamedNode, Node]]:
    yield v.DIGEST, RdfLiteral(words.digest)
    if words.withheld:
        yield predicate, RdfLiteral("", datatype=v.REDACTED)
    elif words.text is not None:
        yield predicate, RdfLiteral(words.text, datatype=v.JSON) if words.structured else RdfLiteral(words.text)
        yield v.SALT, RdfLiteral(words.salt or "")


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
        if isinstance(quad.object, Node):
            subjects[str(getattr(quad.subject, "value", quad.subject))][quad.predicate].append(quad.object)
    return subjects


@decodes
def decode(session_id: str, iri: str, properties: Properties) -> Entry:
    """Return the entry that a subject of a ledger's graph is; raise `IntegrityError` for what is none."""
    return _decode(session_id, iri, properties, one(properties, v.LEAF_SALT))


def _decode(session_id: str, iri: str, properties: Properties, leaf_salt: str | None) -> Entry:
    number, types = iris.entry_number(iri), properties.get(v.TYPE, [])
    made = _class_of(types)
    try:
        if number is not None and made is not None:
            fields = {"session_id": session_id, "number": number, "leaf_salt": leaf_salt}
            return made.model_validate(fields | _fields(made, properties))
    except (ValueError, TrailsError) as error:
        raise IntegrityError(
            f"entry {number} of the ledger of session {session_id!r} cannot be read ({error}): the store was altered; "
            "restore the session from an export or a backup"
        ) from error
    raise IntegrityError(f"{iri} is no entry of the ledger of session {session_id!r}, and stands in its graph")


def _class_of(types: Sequence[Node]) -> type[Entry] | None:
    for each, made in _TYPES.items():
        if each in types:
            return made
    return next((tree_entries.TYPES[each] for each in types if each in tree_entries.TYPES), None)  # type: ignore[index] # IRIs


def _fields(made: type[Entry], properties: Properties) -> dict[str, Any]:
    fields: dict[str, Any] = {} if made is Decision else {"words": decode_words(properties, _text_of(made))}
    if made is Brief:
        fields["what"] = brief_what(properties[v.TYPE])
    return fields | _TABLES[made].values(properties)
