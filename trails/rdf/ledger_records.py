"""Encode the entries of session ledgers as quads, and decode them.

A ledger is a graph beside the session's own, `<session>/ledger`; its entries are numbered from 1. A text that a redaction
may have to remove (a message, what was sent, an error) is salted, and the log covers only its digest: the text can be removed
and everything still verifies. The entry of a policy's decision holds no user's text. For a session of the tree, the first
entry is the transition that created it; its task or context summary follows, then each change of state, and with the last
one the result.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal, NamedTuple, Self

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
from trails.rdf.codec import AGENT, ENTRIES, ENTRY, IRI, SESSION, TEXTS, TURNS, WHO, Kept, Node, Properties, Table, one


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

    def without_text(self, *, withheld: bool, **changes: Any) -> Self:
        """Return the entry without its text, of which the digest stays, and with other changes."""
        words = None if self.words is None else self.words.gone(withheld=withheld)
        return self.model_copy(update=changes | {"words": words})

    @property
    def withheld(self) -> bool:
        """Whether a redaction took its text out."""
        return self.words is not None and self.words.withheld

    def _plain(self, *names: str, **more: Any) -> dict[str, Any]:
        """Return its place, some of its fields by their names, and further values, ready for JSON."""
        plain = {"number": self.number, "session": self.session_id, "iri": self.iri}
        plain |= {name: getattr(self, name) if name not in more else more[name] for name in (*names, *more)}
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

    action: Annotated[str, Kept(v.ACTION)]
    """What was to be done: send, history, message, reset."""
    allowed: Annotated[bool, Kept(v.ALLOWED, absent="false")]
    rule: Annotated[str, Kept(v.RULE)]
    """The rule that decided: a field of the entry, or a place in the configuration."""
    agent: Annotated[str, Kept(v.ASSOCIATED_WITH, AGENT, absent="")]
    time: Annotated[datetime, Kept(v.ENDED_AT)]
    used: Annotated[str | None, Kept(v.USED, SESSION)] = None
    """The id of the other session."""
    channel: Annotated[str | None, Kept(v.CHANNEL)] = None
    read_from: Annotated[int | None, Kept(v.READ_FROM)] = None
    """The index of the first turn that was read of the other session; None where none was."""
    read_through: Annotated[int | None, Kept(v.READ_THROUGH)] = None
    """The index of the last one, inclusive."""
    read_for_iri: Annotated[str | None, Kept(v.READ_FOR, IRI)] = None
    """The IRI of the principal whom the session that read runs for."""

    def to_dict(self) -> dict[str, Any]:
        """Return the decision as plain values, ready for JSON."""
        names = ("action", "allowed", "rule", "agent", "time", "used", "channel", "read_from", "read_through")
        return self._plain(*names, read_for=self.read_for_iri)


TreeState = Literal["active", "suspended", "completed", "failed", "expired"]
"""Where a session of the tree stands."""
Status = Literal["completed", "failed", "expired", "cancelled"]
"""How a session of the tree ended."""
ArtifactChange = Literal["created", "modified", "deleted"]
"""What a session did to an artifact."""
ENDED: Final = frozenset({"completed", "failed", "expired"})
"""The states that no session leaves any more."""


class _Act(LedgerEntry):
    """What somebody did to a session, or asked of it; the text is why."""

    by_iri: Annotated[str, Kept(v.ASSOCIATED_WITH, IRI)]
    time: Annotated[datetime, Kept(v.ENDED_AT)]
    rule: Annotated[str | None, Kept(v.RULE)] = None
    """The rule by which it fell due, where nobody asked for it."""

    @property
    def reason(self) -> str | None:
        """Why; None where nobody said so, or where that was taken out."""
        return None if self.words is None else self.words.text


class Transition(_Act):
    """A change of a session's state: from which (None: it was made), to which, who, when, and why."""

    before: Annotated[TreeState | None, Kept(v.FROM_STATE)] = None
    after: Annotated[TreeState, Kept(v.TO_STATE)]
    used: Annotated[tuple[int, ...], Kept(v.USED, ENTRIES)] = ()
    """The entries that the session was made with: its task and its context summary."""
    kept_as: Annotated[str | None, Kept(v.KEPT_AS, SESSION)] = None
    """The id of the fork that holds the turns that another writer's turns stood in the way of."""

    def to_dict(self) -> dict[str, Any]:
        """Return the transition as plain values, ready for JSON."""
        names = ("before", "after", "by", "time", "rule", "reason", "kept_as")
        return self._plain(*names, by=iris.author_name(self.by_iri))


class Cancellation(_Act):
    """The request to a session to end by a time."""

    ends_by: Annotated[datetime, Kept(v.ENDS_BY)]

    def to_dict(self) -> dict[str, Any]:
        """Return the request as plain values, ready for JSON."""
        return self._plain("by", "time", "rule", "ends_by", "reason", by=iris.author_name(self.by_iri))


class Brief(LedgerEntry):
    """What a session was told when it was made: its task, or the context that its parent summed up for it."""

    what: Literal["task", "context"]
    by_iri: Annotated[str, Kept(v.ATTRIBUTED_TO, IRI)]
    time: Annotated[datetime, Kept(v.TIME)]


class Result(LedgerEntry):
    """How a session ended, and what it has to say of that: the entry; `trails.SessionResult` is the whole."""

    status: Annotated[Status, Kept(v.STATUS)]
    memory_ids: Annotated[tuple[str, ...], Kept(v.MEMORY_ID, TEXTS)] = ()
    transition: Annotated[int, Kept(v.GENERATED_BY, ENTRY)]
    """The number of the transition that it came with."""
    time: Annotated[datetime, Kept(v.TIME)]


class ArtifactEntry(LedgerEntry):
    """Something that a session created, modified or deleted, as its result lists it."""

    result: Annotated[int, Kept(v.ARTIFACT_OF, ENTRY)]
    transition: Annotated[
        int,
        Kept(v.GENERATED_BY, ENTRY, when=lambda entry: entry.change != "deleted"),
        Kept(v.INVALIDATED_BY, ENTRY, when=lambda entry: entry.change == "deleted"),
    ]
    uri: Annotated[str, Kept(v.URI)]
    change: Annotated[ArtifactChange, Kept(v.ARTIFACT_CHANGE)]
    sha256: Annotated[str | None, Kept(v.SHA256)] = None


TreeEntry = Transition | Cancellation | Brief | Result | ArtifactEntry


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

    direction: Annotated[Literal["inbound", "outbound"], Kept(v.DIRECTION)]
    source: Annotated[str | None, Kept(v.SOURCE)] = None
    event_id: Annotated[str | None, Kept(v.EVENT_ID)] = None
    channel: Annotated[str | None, Kept(v.CHANNEL)] = None
    account: Annotated[str | None, Kept(v.ACCOUNT)] = None
    peer: Annotated[str | None, Kept(v.PEER)] = None
    mode: Annotated[Mode | None, Kept(v.QUEUE_MODE)] = None
    author_iri: Annotated[str | None, Kept(v.ATTRIBUTED_TO, IRI)] = None
    time: Annotated[datetime, Kept(v.TIME)]
    received: Annotated[datetime | None, Kept(v.RECEIVED_AT)] = None
    waiting: Annotated[bool, Kept(v.WAITING, when=lambda event: event.waiting)] = False
    turn_iris: Annotated[
        tuple[str, ...],
        Kept(v.RECORDED_AS, TURNS, when=lambda event: event.direction == "inbound"),
        Kept(v.DERIVED_FROM, TURNS, when=lambda event: event.direction == "outbound"),
    ] = ()
    """The turn that says what an inbound event brought (and one more for each time that a failed exchange was kept as
    a fork), or the turn that an outbound one brings out."""
    exchange: Annotated[int | None, Kept(v.GENERATED_BY, ENTRY)] = None
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
            *("direction", "source", "event_id", "channel", "account", "peer", "mode", "author", "time", "received"),
            *("waiting", "content", "withheld", "turns", "exchange"),
            author=None if self.author_iri is None else iris.author_name(self.author_iri),
            turns=list(self.turn_iris),
        )


class Exchange(LedgerEntry):
    """The work on a message (or on a few that were collected or steered in), up to the answer."""

    state: Annotated[State, Kept(v.STATE)]
    agent: Annotated[str, Kept(v.ASSOCIATED_WITH, WHO, absent="")]
    """The agent that worked on it; of a message that was dropped, who did that: an agent, or the IRI of a principal."""
    events: Annotated[tuple[int, ...], Kept(v.USED, ENTRIES)]
    """The numbers of the events that it took up, in order."""
    queued: Annotated[datetime, Kept(v.QUEUED_AT)]
    started: Annotated[datetime | None, Kept(v.STARTED_AT)] = None
    ended: Annotated[datetime | None, Kept(v.ENDED_AT)] = None
    head_before: Annotated[str | None, Kept(v.HEAD_BEFORE)] = None
    head_after: Annotated[str | None, Kept(v.HEAD_AFTER)] = None
    turn_iris: Annotated[tuple[str, ...], Kept(v.GENERATED, TURNS)] = ()
    """The turns that it added to the session, in order; those that say its messages included."""
    retry_of: Annotated[int | None, Kept(v.RETRY_OF, ENTRY)] = None
    kept_as: Annotated[str | None, Kept(v.KEPT_AS, SESSION)] = None
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
            *("state", "interrupted", "agent", "events", "queued", "started", "ended", "error"),
            *("head_before", "head_after", "turns", "retry_of", "kept_as"),
            events=list(self.events),
            turns=list(self.turn_iris),
        )


class Delivery(LedgerEntry):
    """One attempt to send a turn out over a channel."""

    turn_iri: Annotated[str, Kept(v.DERIVED_FROM, IRI)]
    event: Annotated[int | None, Kept(v.DELIVERY_OF, ENTRY)] = None
    """The number of the outbound event that was sent."""
    channel: Annotated[str, Kept(v.CHANNEL)]
    outcome: Annotated[Outcome, Kept(v.OUTCOME)]
    attempt: Annotated[int, Kept(v.ATTEMPT)]
    time: Annotated[datetime, Kept(v.TIME)]
    reason: Annotated[str | None, Kept(v.REASON)] = None

    @property
    def text(self) -> str | None:
        """What was really sent, where that is not the turn's own text."""
        return None if self.words is None else self.words.text

    def to_dict(self) -> dict[str, Any]:
        """Return the delivery as plain values, ready for JSON."""
        names = ("turn", "event", "channel", "outcome", "attempt", "time", "reason", "text", "withheld")
        return self._plain(*names, turn=self.turn_iri)


Entry = Event | Exchange | Delivery | Decision | TreeEntry


# --- kept


class _Form(NamedTuple):
    """How the entries of a class are stored and logged."""

    type: NamedNode
    table: Table
    text: NamedNode
    """The property of their text."""
    leaf: Kind
    """The kind of their leaves: of a message that came in, and of an exchange that waits."""


def _form(entry_class: type[Value], leaf: Kind, *types: NamedNode, text: NamedNode = v.VALUE) -> _Form:
    return _Form(types[0], Table.of(entry_class, *types), text, leaf)


_FORMS: Final[Mapping[type[LedgerEntry], _Form]] = {
    Event: _form(Event, "received", v.EVENT, v.ENTITY),
    Exchange: _form(Exchange, "pending", v.EXCHANGE, v.ACTIVITY, text=v.ERROR),
    Delivery: _form(Delivery, "delivered", v.DELIVERY, v.ENTITY),
    Decision: _form(Decision, "decision", v.DECISION, v.ACTIVITY),
    Transition: _form(Transition, "transition", v.TRANSITION, v.ACTIVITY, text=v.ERROR),
    Cancellation: _form(Cancellation, "cancel", v.CANCELLATION, v.ACTIVITY, text=v.ERROR),
    Result: _form(Result, "result", v.SESSION_RESULT, v.ENTITY),
    ArtifactEntry: _form(ArtifactEntry, "artifact", v.ARTIFACT, v.ENTITY),
    Brief: _form(Brief, "brief", v.ENTITY),
}
_BRIEFS: Final = {"task": v.TASK_BRIEF, "context": v.CONTEXT_SUMMARY}
"""The type that a brief has too, by what it is."""
_CLASSES: Final[Mapping[NamedNode, Any]] = {
    **{form.type: each for each, form in _FORMS.items() if each is not Brief},
    **dict.fromkeys(_BRIEFS.values(), Brief),
}
"""The class of each entry by the type that it is stored with."""


# --- to quads


def ledger_graph(session_id: str) -> NamedNode:
    """Return the graph of a session's ledger."""
    return NamedNode(iris.ledger(iris.session(session_id)))


def head_quads(session_id: str) -> list[Quad]:
    """Return what a ledger says of itself; written with its first entry."""
    graph = ledger_graph(session_id)
    return [Quad(graph, v.TYPE, v.LEDGER, graph), Quad(graph, v.LEDGER_OF, NamedNode(iris.session(session_id)), graph)]


def entry_quads(entry: Entry) -> list[Quad]:
    """Return the quads of an entry."""
    node, graph = NamedNode(entry.iri), ledger_graph(entry.session_id)
    quads = [Quad(node, v.NUMBER, v.integer(entry.number), graph)]
    if isinstance(entry, Brief):
        quads.append(Quad(node, v.TYPE, _BRIEFS[entry.what], graph))
    form = _FORMS[type(entry)]
    quads += form.table.quads(entry, node, graph)
    if entry.words is not None:
        quads += [Quad(node, p, o, graph) for p, o in _words(entry.words, form.text)]
    elif entry.leaf_salt is not None:
        quads.append(Quad(node, v.LEAF_SALT, RdfLiteral(entry.leaf_salt), graph))
    return quads


def _words(words: EntryTexts, predicate: NamedNode) -> Iterator[tuple[NamedNode, Node]]:
    yield v.DIGEST, RdfLiteral(words.digest)
    if words.withheld:
        yield predicate, RdfLiteral("", datatype=v.REDACTED)
    elif words.text is not None:
        yield predicate, RdfLiteral(words.text, datatype=v.JSON) if words.structured else RdfLiteral(words.text)
        yield v.SALT, RdfLiteral(words.salt or "")


def entry_row_digest(entry: Entry) -> str:
    """Return the digest of an entry without what may go or change: what its newest leaf holds."""
    return leaves.row_digest(quad for quad in entry_quads(entry) if quad.predicate not in _LOOSE)


def entry_leaf(entry: Entry) -> Leaf:
    """Return the leaf for an entry as it stands."""
    kind = _FORMS[type(entry)].leaf
    if isinstance(entry, Event):
        kind = kind if entry.direction == "inbound" else "sent"
    elif isinstance(entry, Exchange):
        kind = entry.state
    return Leaf(kind, iris.session(entry.session_id), entry.number, entry_row_digest(entry))


def entry_leaves(entry: Entry) -> list[Leaf]:
    """Return the leaves for an entry as it stands, and for the turns that say it."""
    leaf_of_turns = content_leaf(entry)
    return [entry_leaf(entry)] if leaf_of_turns is None else [entry_leaf(entry), leaf_of_turns]


def content_leaf(entry: Entry) -> Leaf | None:
    """Return the leaf for the turns that say an inbound event; None where none do, or it is none."""
    if isinstance(entry, Event) and entry.direction == "inbound" and entry.turn_iris:
        digest = leaves.row_digest(quad for quad in entry_quads(entry) if quad.predicate in _SAID)
        return Leaf("said", iris.session(entry.session_id), entry.number, digest)
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
    number, types = iris.entry_number(iri), properties.get(v.TYPE, [])
    stored_type = next((each for each in _CLASSES if each in types), None)
    if number is None or stored_type is None:
        raise IntegrityError(f"{iri} is no entry of the ledger of session {session_id!r}, and stands in its graph")
    entry_class = _CLASSES[stored_type]
    fields: dict[str, Any] = {"session_id": session_id, "number": number, "leaf_salt": one(properties, v.LEAF_SALT)}
    try:
        if entry_class is not Decision:
            fields["words"] = decode_words(properties, _FORMS[entry_class].text)
        if entry_class is Brief:
            fields["what"] = "task" if v.TASK_BRIEF in types else "context"
        entry: Entry = entry_class.model_validate(fields | _FORMS[entry_class].table.values(properties))
        return entry
    except (ValueError, TrailsError) as error:
        raise IntegrityError(
            f"entry {number} of the ledger of session {session_id!r} cannot be read ({error}): the store was altered; "
            "restore the session from an export or a backup"
        ) from error


def decode_ledger(session_id: str, quads: Iterable[Quad]) -> list[Entry]:
    """Return the entries that quads of a session's ledger say, in order; raise `IntegrityError` for what is none."""
    head = ledger_graph(session_id).value
    subjects = entries_by_subject(quads).items()
    return sorted((decode_entries(session_id, iri, each) for iri, each in subjects if iri != head), key=_number)


def _number(entry: Entry) -> int:
    return entry.number
