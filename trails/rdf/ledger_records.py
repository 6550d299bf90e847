"""Encode the entries of session ledgers as quads.

What all entries of a session's ledger share: their place, a text that can be taken out, and reading them from quads.

The entry that a policy's decision leaves in the ledger of a session, frozen, and between it and quads. Pure.

It holds no text of anybody's: what was decided about, by which rule, who asked, and which session was read.

The entries that the session tree writes into the ledger of a session, frozen, and between them and quads. Pure.

The first entry of a session of the tree is the transition by which it was made; what it was told (its task, a context
summary) follows, then every change of its state, and with the last one its result and what that lists.

The entries of a session's ledger, frozen, and between them and quads: events, exchanges, deliveries. Pure.

Those that the session tree writes are in `trails.rdf.ledger_records`, those of policies in `policy_entries`.

A ledger is a graph of its own beside the session's, `<session>/ledger`, and its entries are numbered from 1. A text that
a redaction may have to take out (a message's, what was really sent, an error's) is salted, and what the log covers of an
entry is its text's digest, so that the text can go and everything still verifies.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal, Self

from pydantic import Field
from pyoxigraph import Literal as RdfLiteral
from pyoxigraph import NamedNode, Quad

from trails.errors import IntegrityError, TrailsError
from trails.integrity import digests, leaves
from trails.integrity.leaves import Kind, Leaf
from trails.model import iris
from trails.model.validation import decodes
from trails.model.values import Value
from trails.rdf import vocab as v
from trails.rdf.codec import (
    AGENT,
    ENTRIES,
    ENTRY,
    FLAG,
    IRI,
    NUMBER,
    SESSION,
    TEXT,
    TEXTS,
    TIME,
    TURNS,
    WHO,
    Node,
    Properties,
    Table,
    TableField,
    one,
)


class EntryTexts(Value):
    """A text that may have to go: itself, or (`text` None) its salted digest alone; `withheld` once redacted."""

    text: str | None
    structured: bool = False
    salt: str | None = None
    digest: str
    withheld: bool = False

    @classmethod
    def of(cls, text: str, *, structured: bool = False) -> Self:
        """Return a text, salted."""
        salt = digests.new_salt()
        digest = digests.content_digest(text, salt, structured=structured)
        return cls(text=text, structured=structured, salt=salt, digest=digest)

    def gone(self, *, withheld: bool) -> EntryTexts:
        """Return what stays when the text goes: to the turn that says it, or (`withheld`) for good."""
        return EntryTexts(text=None, digest=self.digest, withheld=withheld)

    @property
    @decodes
    def content(self) -> Any:
        """The text, or the list of parts; None once it is gone."""
        return json.loads(self.text) if self.structured and self.text is not None else self.text

    def salted_anew(self) -> EntryTexts:
        """Return them with another digest: of the same text with another salt, or random where only the digest is left."""
        if self.text is not None:
            return EntryTexts.of(self.text, structured=self.structured)
        return self.model_copy(update={"digest": digests.salted_digest("words", digests.new_salt(), self.digest)})

    def is_true(self) -> bool:
        """Tell whether a text that is there has the digest that it should have."""
        if self.text is None:
            return True
        return self.digest == digests.content_digest(self.text, self.salt or "", structured=self.structured)


class LedgerEntry(Value):
    """An entry of a session's ledger, by its number from 1."""

    session_id: str
    number: int
    words: EntryTexts | None = None
    leaf_salt: str | None = Field(default_factory=lambda said: None if said.get("words") else digests.new_salt())
    """What salts the leaf of an entry without a text, whose own salted digest would do so. None from older versions."""

    @property
    def iri(self) -> str:
        """The entry's IRI."""
        return iris.ledger_entry(iris.session(self.session_id), self.number)

    def salted_anew(self) -> Self:
        """Return the entry with other random bits for its leaf: with the old ones goes what could be guessed of that."""
        if self.words is None:
            return self.model_copy(update={"leaf_salt": digests.new_salt()})
        return self.model_copy(update={"words": self.words.salted_anew()})

    def _plain(self, **more: Any) -> dict[str, Any]:
        plain = {"number": self.number, "session": self.session_id, "iri": self.iri, **more}
        return {key: value.isoformat() if isinstance(value, datetime) else value for key, value in plain.items()}


def decode_words(properties: Properties, predicate: NamedNode) -> EntryTexts | None:
    """Return the text of an entry, or what stands for it, or None for an entry without one."""
    digest = one(properties, v.DIGEST)
    if digest is None:
        return None
    values = properties.get(predicate, [])
    text = one(properties, predicate)
    datatype = values[0].datatype if values and isinstance(values[0], RdfLiteral) else None
    if datatype == v.REDACTED:
        return EntryTexts(text=None, digest=digest, withheld=True)
    return EntryTexts(text=text, structured=datatype == v.JSON, salt=one(properties, v.SALT), digest=digest)


class Decision(LedgerEntry):
    """What a policy decided about something that a session was to do.

    A decision may be about another session: one whose history was asked for, or the one that a reset ended.
    """

    action: str
    """What was to be done: send, history, message, reset."""
    allowed: bool
    rule: str
    """The rule that decided: a field of the entry, or a place in the configuration."""
    agent: str
    time: datetime
    used: str | None = None
    """The id of the other session."""
    channel: str | None = None
    read_from: int | None = None
    """The index of the first turn that was read of the other session; None where none was."""
    read_through: int | None = None
    """The index of the last one, inclusive."""
    read_for_iri: str | None = None
    """The IRI of the principal whom the session that read runs for."""

    def to_dict(self) -> dict[str, Any]:
        """Return the decision as plain values, ready for JSON."""
        return self._plain(
            action=self.action,
            allowed=self.allowed,
            rule=self.rule,
            agent=self.agent,
            time=self.time,
            used=self.used,
            channel=self.channel,
            read_from=self.read_from,
            read_through=self.read_through,
            read_for=self.read_for_iri,
        )


DECISION_TABLE: Final = Table(
    (v.DECISION, v.ACTIVITY),
    (
        TableField("action", v.ACTION, TEXT),
        TableField("allowed", v.ALLOWED, FLAG, absent="false"),
        TableField("rule", v.RULE, TEXT),
        TableField("agent", v.ASSOCIATED_WITH, AGENT, absent=""),
        TableField("time", v.ENDED_AT, TIME),
        TableField("used", v.USED, SESSION),
        TableField("channel", v.CHANNEL, TEXT),
        TableField("read_from", v.READ_FROM, NUMBER),
        TableField("read_through", v.READ_THROUGH, NUMBER),
        TableField("read_for_iri", v.READ_FOR, IRI),
    ),
)


TreeState = Literal["active", "suspended", "completed", "failed", "expired"]
"""Where a session of the tree stands."""
Status = Literal["completed", "failed", "expired", "cancelled"]
"""How a session of the tree ended."""
ArtifactChange = Literal["created", "modified", "deleted"]
"""What a session did to an artifact."""
ENDED: Final = frozenset({"completed", "failed", "expired"})
"""The states that no session leaves any more."""


class Transition(LedgerEntry):
    """A change of a session's state: from which (None: it was made), to which, who, when, and why."""

    before: TreeState | None
    after: TreeState
    by_iri: str
    time: datetime
    rule: str | None = None
    """The rule by which it fell due, where nobody asked for it."""
    used: tuple[int, ...] = ()
    """The entries that the session was made with: its task and its context summary."""
    kept_as: str | None = None
    """The id of the fork that holds the turns that another writer's turns stood in the way of."""

    @property
    def reason(self) -> str | None:
        """Why it happened; None where nobody said so, or where that was taken out."""
        return None if self.words is None else self.words.text

    def to_dict(self) -> dict[str, Any]:
        """Return the transition as plain values, ready for JSON."""
        by = iris.author_name(self.by_iri)
        return self._plain(
            before=self.before,
            after=self.after,
            by=by,
            time=self.time,
            rule=self.rule,
            reason=self.reason,
            kept_as=self.kept_as,
        )


class Cancellation(LedgerEntry):
    """The request to a session to end by a time."""

    by_iri: str
    time: datetime
    rule: str | None = None
    """The rule by which it fell due, where nobody asked for it."""
    ends_by: datetime

    @property
    def reason(self) -> str | None:
        """Why; None where nobody said so, or where that was taken out."""
        return None if self.words is None else self.words.text

    def to_dict(self) -> dict[str, Any]:
        """Return the request as plain values, ready for JSON."""
        by = iris.author_name(self.by_iri)
        return self._plain(by=by, time=self.time, rule=self.rule, ends_by=self.ends_by, reason=self.reason)


class Brief(LedgerEntry):
    """What a session was told when it was made: its task, or the context that its parent summed up for it."""

    what: Literal["task", "context"]
    by_iri: str
    time: datetime


class Result(LedgerEntry):
    """How a session ended, and what it has to say of that: the entry; `trails.tree.SessionResult` is the whole."""

    status: Status
    memory_ids: tuple[str, ...] = ()
    transition: int
    """The number of the transition that it came with."""
    time: datetime


class ArtifactEntry(LedgerEntry):
    """Something that a session created, modified or deleted, as its result lists it."""

    result: int
    transition: int
    uri: str
    change: ArtifactChange
    sha256: str | None = None


TreeEntry = Transition | Cancellation | Brief | Result | ArtifactEntry

TREE_ENTRY_TYPES: Final[Mapping[NamedNode, type[TreeEntry]]] = {
    v.TRANSITION: Transition,
    v.CANCELLATION: Cancellation,
    v.TASK_BRIEF: Brief,
    v.CONTEXT_SUMMARY: Brief,
    v.SESSION_RESULT: Result,
    v.ARTIFACT: ArtifactEntry,
}
"""The class of each entry by the type that it is stored with."""
TYPES_WITH_REASON: Final = (Transition, Cancellation)
"""The entries whose text is a reason."""


# --- kept


_MADE_BY: Final = (
    TableField("by_iri", v.ASSOCIATED_WITH, IRI),
    TableField("time", v.ENDED_AT, TIME),
    TableField("rule", v.RULE, TEXT),
)
TREE_TABLES: Final[Mapping[type[LedgerEntry], Table]] = {
    Transition: Table(
        (v.TRANSITION, v.ACTIVITY),
        (
            *_MADE_BY,
            TableField("before", v.FROM_STATE, TEXT),
            TableField("after", v.TO_STATE, TEXT),
            TableField("used", v.USED, ENTRIES),
            TableField("kept_as", v.KEPT_AS, SESSION),
        ),
    ),
    Cancellation: Table((v.CANCELLATION, v.ACTIVITY), (*_MADE_BY, TableField("ends_by", v.ENDS_BY, TIME))),
    Brief: Table((v.ENTITY,), (TableField("by_iri", v.ATTRIBUTED_TO, IRI), TableField("time", v.TIME, TIME))),
    Result: Table(
        (v.SESSION_RESULT, v.ENTITY),
        (
            TableField("status", v.STATUS, TEXT),
            TableField("memory_ids", v.MEMORY_ID, TEXTS),
            TableField("transition", v.GENERATED_BY, ENTRY),
            TableField("time", v.TIME, TIME),
        ),
    ),
    ArtifactEntry: Table(
        (v.ARTIFACT, v.ENTITY),
        (
            TableField("result", v.ARTIFACT_OF, ENTRY),
            TableField("transition", v.GENERATED_BY, ENTRY, when=lambda entry: entry.change != "deleted"),
            TableField("transition", v.INVALIDATED_BY, ENTRY, when=lambda entry: entry.change == "deleted"),
            TableField("uri", v.URI, TEXT),
            TableField("change", v.ARTIFACT_CHANGE, TEXT),
            TableField("sha256", v.SHA256, TEXT),
        ),
    ),
}
"""How each class is kept; what of a brief is its type, beside."""


def tree_entry_kind(entry: TreeEntry) -> Kind:
    """Return the kind of the leaf for an entry."""
    match entry:
        case Transition():
            return "transition"
        case Cancellation():
            return "cancel"
        case Brief():
            return "brief"
        case Result():
            return "result"
        case ArtifactEntry():
            return "artifact"


def brief_type(brief: Brief) -> NamedNode:
    """Return the type that says what a brief is."""
    return v.TASK_BRIEF if brief.what == "task" else v.CONTEXT_SUMMARY


def brief_what(types: Collection[Node]) -> Literal["task", "context"]:
    """Return what a brief is, by its types."""
    return "task" if v.TASK_BRIEF in types else "context"


# --- what must fit


def tree_entry_faults(entry: TreeEntry, found: Mapping[int, LedgerEntry]) -> Iterator[str]:
    """Give what of an entry does not fit the other entries of its ledger."""
    match entry:
        case Transition():
            yield from _transition_faults(entry, found)
        case Result() | ArtifactEntry():
            end = found.get(entry.transition)
            if not isinstance(end, Transition) or end.after not in ENDED:
                yield "came with no transition to an end"
            if isinstance(entry, ArtifactEntry) and not isinstance(found.get(entry.result), Result):
                yield "belongs to no result"


def _transition_faults(entry: Transition, found: Mapping[int, LedgerEntry]) -> Iterator[str]:
    earlier = [each for each in found.values() if isinstance(each, Transition) and each.number < entry.number]
    before = max(earlier, key=lambda each: each.number, default=None)
    if entry.before != (None if before is None else before.after):
        stood = "no state" if before is None else before.after
        yield f"leaves the state {entry.before}, and the session was in {stood}"
    if not all(isinstance(found.get(number), Brief) for number in entry.used):
        yield "names a task or context summary that is not there"
    results = [each for each in found.values() if isinstance(each, Result) and each.transition == entry.number]
    if len(results) != (entry.after in ENDED):
        yield f"has {len(results)} results: a result is lost or doubled"


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
            TableField("direction", v.DIRECTION, TEXT),
            TableField("source", v.SOURCE, TEXT),
            TableField("event_id", v.EVENT_ID, TEXT),
            TableField("channel", v.CHANNEL, TEXT),
            TableField("account", v.ACCOUNT, TEXT),
            TableField("peer", v.PEER, TEXT),
            TableField("mode", v.QUEUE_MODE, TEXT),
            TableField("author_iri", v.ATTRIBUTED_TO, IRI),
            TableField("time", v.TIME, TIME),
            TableField("received", v.RECEIVED_AT, TIME),
            TableField("waiting", v.WAITING, FLAG, absent="false", when=lambda event: event.waiting),
            TableField("turn_iris", v.RECORDED_AS, TURNS, when=lambda event: event.direction == "inbound"),
            TableField("turn_iris", v.DERIVED_FROM, TURNS, when=lambda event: event.direction == "outbound"),
            TableField("exchange", v.GENERATED_BY, ENTRY),
        ),
    ),
    Exchange: Table(
        (v.EXCHANGE, v.ACTIVITY),
        (
            TableField("state", v.STATE, TEXT),
            TableField("agent", v.ASSOCIATED_WITH, WHO, absent=""),
            TableField("events", v.USED, ENTRIES),
            TableField("queued", v.QUEUED_AT, TIME),
            TableField("started", v.STARTED_AT, TIME),
            TableField("ended", v.ENDED_AT, TIME),
            TableField("head_before", v.HEAD_BEFORE, TEXT),
            TableField("head_after", v.HEAD_AFTER, TEXT),
            TableField("turn_iris", v.GENERATED, TURNS),
            TableField("retry_of", v.RETRY_OF, ENTRY),
            TableField("kept_as", v.KEPT_AS, SESSION),
        ),
    ),
    Delivery: Table(
        (v.DELIVERY, v.ENTITY),
        (
            TableField("turn_iri", v.DERIVED_FROM, IRI),
            TableField("event", v.DELIVERY_OF, ENTRY),
            TableField("channel", v.CHANNEL, TEXT),
            TableField("outcome", v.OUTCOME, TEXT),
            TableField("attempt", v.ATTEMPT, NUMBER, absent=""),
            TableField("time", v.TIME, TIME),
            TableField("reason", v.REASON, TEXT),
        ),
    ),
    Decision: DECISION_TABLE,
    **TREE_TABLES,
}


# --- to quads


def ledger_graph(session_id: str) -> NamedNode:
    """Return the graph of a session's ledger."""
    return NamedNode(iris.ledger(iris.session(session_id)))


def head_quads(session_id: str) -> list[Quad]:
    """Return what a ledger says of itself; written with its first entry."""
    graph = ledger_graph(session_id)
    return [
        Quad(graph, v.TYPE, v.LEDGER, graph),
        Quad(graph, v.LEDGER_OF, NamedNode(iris.session(session_id)), graph),
    ]


def entry_quads(entry: Entry) -> list[Quad]:
    """Return the quads of an entry."""
    node, graph = NamedNode(entry.iri), ledger_graph(entry.session_id)
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
    return v.ERROR if made is Exchange or made in TYPES_WITH_REASON else v.VALUE


def _words(words: EntryTexts, predicate: NamedNode) -> Iterator[tuple[NamedNode, Node]]:
    yield v.DIGEST, RdfLiteral(words.digest)
    if words.withheld:
        yield predicate, RdfLiteral("", datatype=v.REDACTED)
    elif words.text is not None:
        yield predicate, RdfLiteral(words.text, datatype=v.JSON) if words.structured else RdfLiteral(words.text)
        yield v.SALT, RdfLiteral(words.salt or "")


def entry_row_digest(entry: Entry, said: Iterable[Quad] | None = None) -> str:
    """Return the digest of an entry (`said`: its quads) without what may go or change: what its newest leaf holds."""
    return leaves.row_digest(
        quad for quad in (entry_quads(entry) if said is None else said) if quad.predicate not in _LOOSE
    )


def entry_leaf(entry: Entry, said: Iterable[Quad] | None = None) -> Leaf:
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
            kind = tree_entry_kind(entry)
    return Leaf(kind, iris.session(entry.session_id), entry.number, entry_row_digest(entry, said))


def content_digest(event: Event) -> str:
    """Return the digest of the turns that say an inbound event: what its newest `said` leaf holds."""
    return leaves.row_digest(quad for quad in entry_quads(event) if quad.predicate in _SAID)


def entry_leaves(entry: Entry) -> list[Leaf]:
    """Return the leaves for an entry as it stands, and for the turns that say it."""
    said = content_leaf(entry)
    return [entry_leaf(entry)] if said is None else [entry_leaf(entry), said]


def content_leaf(entry: Entry) -> Leaf | None:
    """Return the leaf for the turns that say an inbound event; None where none do, or it is none."""
    if isinstance(entry, Event) and entry.direction == "inbound" and entry.turn_iris:
        return Leaf("said", iris.session(entry.session_id), entry.number, content_digest(entry))
    return None


# --- from quads


@decodes
def entries_by_subject(found: Iterable[Quad]) -> dict[str, dict[NamedNode, list[Node]]]:
    """Return quads of a ledger's graph by the subject's IRI and the property."""
    subjects: dict[str, dict[NamedNode, list[Node]]] = defaultdict(lambda: defaultdict(list))
    for quad in found:
        if isinstance(quad.object, Node):
            subjects[str(getattr(quad.subject, "value", quad.subject))][quad.predicate].append(quad.object)
    return subjects


@decodes
def decode_entries(session_id: str, iri: str, properties: Properties) -> Entry:
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
    return next((TREE_ENTRY_TYPES[each] for each in types if each in TREE_ENTRY_TYPES), None)  # type: ignore[index] # IRIs


def _fields(made: type[Entry], properties: Properties) -> dict[str, Any]:
    fields: dict[str, Any] = {} if made is Decision else {"words": decode_words(properties, _text_of(made))}
    if made is Brief:
        fields["what"] = brief_what(properties[v.TYPE])
    return fields | _TABLES[made].values(properties)
