"""Read and write the keys of a store and the entries of their sessions.

Every change of a key requires the session that it named when it was read, in the same commit: of two writers who make,
reset or move one key at once, one wins and the other looks again.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any, Final, Literal, Self, TypeVar
from uuid import uuid4

from pyoxigraph import Literal as RdfLiteral
from pyoxigraph import NamedNode, Quad

from trails.errors import InvalidInput, RequestRefused
from trails.history import import_records, log_leaves
from trails.history.records import conversations
from trails.history.transaction import Proposal, Refusal, Transaction, is_stored
from trails.model import iris, validation
from trails.model.validation import decodes
from trails.model.values import SessionRecord, Value
from trails.rdf import conversation_records, vocab
from trails.rdf.codec import parse_time
from trails.rdf.conversation_records import Conversation, SessionEntry, belongs_quad, conversation_quads, current_quad
from trails.rdf.ledger_records import Entry, Event, Mode
from trails.runtime import keys
from trails.runtime.config_values import Section, zone_of
from trails.runtime.inbox import Book, put_entries
from trails.runtime.keys import KeySettings, PeerKind
from trails.runtime.policy import AgentToAgentPolicy, Freshness, ResetConfig, ResetPolicy, SendPolicy
from trails.session import Repository, Session
from trails.store.contract import PreconditionFailed


class RouterSettings(Value):
    """The configuration of a router, in the shape of OpenClaw's: `session`, `agents`, `bindings`, `tools`."""

    keys: KeySettings = KeySettings()
    reset: ResetConfig = ResetConfig()
    send: SendPolicy | None = None
    agent_to_agent: AgentToAgentPolicy = AgentToAgentPolicy()
    zone: str | tzinfo = "UTC"
    """Where the hour of a daily reset is told."""

    model_config = Value.model_config | {"arbitrary_types_allowed": True}

    @classmethod
    def from_json(
        cls, config: Mapping[str, Any] | None, *, zone: str | tzinfo | None = None, fold_case: bool = False
    ) -> Self:
        """Read a configuration.

        What is wrong in it raises `InvalidInput` with its path.

        The time zone is `zone`, else `agents.defaults.userTimezone`, else UTC.

        >>> RouterSettings.from_json({"session": {"dmScope": "per-peer"}}).keys.dm_scope
        'per-peer'
        """
        root = Section(config)
        session, agents, tools = root.section("session"), root.section("agents"), root.section("tools")
        place = zone or agents.section("defaults").text("userTimezone") or "UTC"
        zone_of(place)
        return cls(
            keys=KeySettings.from_json(root.fields, fold_case=fold_case),
            reset=ResetConfig.from_json(session.fields),
            send=SendPolicy.from_json(session.get("sendPolicy")),
            agent_to_agent=AgentToAgentPolicy.from_json(tools.get("agentToAgent")),
            zone=place,
        )


ResetCause = Literal["asked", "daily", "idle"]
"""Why a conversation began anew: somebody asked, the hour came, or it was idle for too long."""


class Inbound(Value):
    """A message (or a heartbeat, a job's prompt) on its way to a session.

    Its session is told by where it comes from (`channel`, `account`, `kind` and `peer`; a `thread` of that), or by `key`.
    """

    content: Any = None
    """A text, or a list of parts; None looks the session up, or makes it, and puts nothing into it."""
    channel: str | None = None
    """The network, such as "telegram"."""
    account: str | None = None
    """Which of the agent's accounts on the network."""
    kind: PeerKind = "dm"
    peer: str | None = None
    """Whom an answer goes to: who writes in a direct chat, else the group or channel."""
    sender: str | None = None
    """Who writes, if that is not the peer."""
    principal: str | None = None
    """The name of the person who writes, if the host knows it; else it is told from identity links or the sender's id."""
    thread: str | None = None
    topic: bool = False
    """Whether `thread` is a topic of a group, as Telegram has them: it begins empty."""
    parent: str | None = None
    """The key of the session that a thread was started from, if that is not the session that it is a thread of."""
    guild: str | None = None
    team: str | None = None
    key: str | None = None
    """The session key, for what comes from no chat: a job, a hook, a window of the host."""
    agent: str | None = None
    """The agent, for `key` names that leave it out; the default agent unless given."""
    by_user: bool = True
    """Whether a person wrote it. What a machine writes (a heartbeat, a job) never keeps a session fresh, nor renews one."""
    authorised: bool = False
    """Whether the sender may give commands: only then do "/new" and "/reset" begin anew."""
    source: str | None = None
    event_id: str | None = None
    """The source's own id of the message: one that comes twice is one message."""
    time: datetime | None = None
    mode: Mode = "followup"
    facts: Mapping[str, Any] = {}
    """Fields for the session's entry that the message brings, such as `subject` or `displayName`; kept unchecked."""


class Routed(Value):
    """Where a message went, and what happened to the session on the way."""

    key: str
    session_id: str
    event: Event | None = None
    """The message in the session's inbox; None if there was nothing to put there."""
    principal: str | None = None
    """The person who wrote, if that is known."""
    created: bool = False
    """Whether the session is new: the key's first, or begun anew."""
    reset: ResetCause | None = None
    previous: str | None = None
    """The id of the session that the key named before, where it began anew."""
    forked_from: str | None = None
    """The id of the session whose turns a thread's session shares."""
    duplicate: bool = False
    """Whether the message had come before: nothing was written."""
    alias: str | None = None
    """The key that led here, if that is an alias of the session's."""
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, ready for JSON."""
        return self.model_dump(exclude={"event"}) | {"event": None if self.event is None else self.event.to_dict()}


class SessionInfo(Value):
    """One session of a list: what its key, its entry and its row say."""

    key: str
    session_id: str
    kind: str
    label: str | None = None
    display_name: str | None = None
    agent: str | None = None
    state: str = "active"
    channel: str | None = None
    updated: datetime | None = None
    """When anything last happened to it."""
    last_user_activity: datetime | None = None
    total_tokens: int = 0
    entry: Mapping[str, Any] = {}
    """All fields of the entry, under the names of `sessions.json`."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, ready for JSON."""
        times = {"updated": _iso(self.updated), "last_user_activity": _iso(self.last_user_activity)}
        return self.model_dump() | times | {"entry": dict(self.entry)}


class Permission(Value):
    """Whether something is allowed, and which rule decided."""

    allowed: bool
    rule: str
    """A field of the entry, a place in the configuration, or "default"."""

    def __bool__(self) -> bool:
        return self.allowed


class PolicyCheck(Value):
    """What would happen to a key now, and which rule decides each thing.

    Nothing was written for it.
    """

    key: str
    session_id: str | None
    """None for a key that names no session yet."""
    send: Permission
    responds: Permission
    """Whether a message that mentions nobody would be answered."""
    reset: ResetPolicy
    reset_rule: str
    freshness: Freshness | None
    """None if there is no session that could be stale."""
    may_spawn: bool
    deletable: bool
    """Whether it may be deleted by its key."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, ready for JSON."""
        return self.model_dump()


class MovedSession(Value):
    """A session that went from one key to another."""

    session_id: str
    from_key: str
    to_key: str
    current: bool
    """Whether messages for the new key go to it."""


class Unplaced(Value):
    """A session that stays where it is, why, and who wrote to it."""

    session_id: str
    key: str
    reason: str
    senders: tuple[str, ...] = ()
    """Those who wrote to it, as `CHANNEL/ACCOUNT/PEER`, and "unknown" for turns of which nobody knows the sender."""


class Moving(Value):
    """What an operation on keys did, or would do.

    `operation` takes it back (`Router.undo`).
    """

    operation: str
    reason: str
    moved: tuple[MovedSession, ...] = ()
    unplaced: tuple[Unplaced, ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()
    """(alias, key) of the aliases that were made, or removed in taking it back."""
    undoes: str | None = None
    """The operation that this one took back."""
    from_scope: str | None = None
    to_scope: str | None = None
    dry_run: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, ready for JSON."""
        return self.model_dump()


def _iso(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat()


OWN: Final = ("sessionId", "label")
"""The fields of an entry that are kept as what they are: the session's own id, the conversation's label."""
_TRIES: Final = 20
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class HeldKey:
    """A key as it was read: its conversation, and the entry of its current session."""

    conversation: Conversation
    entry: SessionEntry
    source_id: str
    """The id that the session has in the system that it came from; else its own."""

    @property
    def key(self) -> str:
        """The key."""
        return self.conversation.key

    @property
    def session_id(self) -> str:
        """The id of the current session."""
        return self.conversation.session_id

    def to_json(self) -> dict[str, Any]:
        """Return the entry in the shape of `sessions.json`."""
        label = {} if self.conversation.label is None else {"label": self.conversation.label}
        return {"sessionId": self.source_id} | self.entry.to_json() | label


def new_id() -> str:
    """Return an id for a new session: a UUID, which cannot be taken for a key."""
    return str(uuid4())


def source_id(session_id: str, source_session: str | None) -> str:
    """Return the id that a session has where it was imported from, else its own.

    >>> source_id("pi:01", "pi:01"), source_id("s-1", None)
    ('01', 's-1')
    """
    return session_id if source_session is None else source_session.partition(":")[2] or session_id


class Keyring:
    """The keys of one store."""

    def __init__(self, repository: Repository) -> None:
        self.repository = repository
        self.book = Book.of(repository)

    # --- reading

    @decodes
    def find(self, key: str) -> tuple[Conversation, str | None] | None:
        """Return the conversation that a key names, and the key itself if that is an alias: direct, then alias."""
        store = self.repository.store
        names = keys.spellings(key)
        for name in names:
            direct = conversations.find_conversation(store, name)
            if direct is not None:
                return direct, None
        for name in names:
            alias = conversations.find_alias(store, name)
            conversation = None if alias is None else conversations.find_conversation(store, alias.key)
            if conversation is not None:
                return conversation, name
        return None

    @decodes
    def held(self, conversation: Conversation) -> HeldKey:
        """Return a key with the entry of its session."""
        reader = self.repository.reader
        record = reader.record(conversation.session_id)
        name = source_id(record.id, record.source_session)
        return HeldKey(conversation, reader.entry(conversation.session_id), name)

    @decodes
    def every(self) -> list[HeldKey]:
        """Return all keys with the entries of their sessions, in two queries."""
        reader = self.repository.reader
        facts: dict[str, list[Quad]] = defaultdict(list)
        for row in reader.select("entry_facts"):
            facts[row[0].value].append(Quad(row[0], row[1], row[2], vocab.CATALOG))
        held_keys = []
        for row in reader.select("keys"):
            session_id = iris.session_id(row["session"].value)
            conversation = Conversation(
                key=iris.conversation_key(row["conversation"].value) or "",
                session_id=session_id,
                label=None if row["label"] is None else row["label"].value,
                created=parse_time(row["created"].value),
                revision=int(row["revision"].value),
            )
            source = None if row["source"] is None else row["source"].value
            entry = conversation_records.decode_overrides(session_id, facts[row["session"].value])
            held_keys.append(HeldKey(conversation, entry, source_id(session_id, source)))
        return held_keys

    @decodes
    def named(self, name: str) -> list[HeldKey]:
        """Return the keys that are a name themselves, or whose session has it as its id, here or where it came from."""
        wanted = name.strip()
        matches = []
        for row in self.repository.reader.select("keys"):
            session_id = iris.session_id(row["session"].value)
            key = iris.conversation_key(row["conversation"].value)
            source = None if row["source"] is None else row["source"].value
            if wanted in (key, session_id, source_id(session_id, source)):
                matches.append(conversations.find_conversation(self.repository.store, key or ""))
        return [self.held(each) for each in matches if each is not None]

    @decodes
    def labelled(self, label: str) -> list[HeldKey]:
        """Return the keys with a label, those included whose entry brought it along if it was in use."""
        store, wanted = self.repository.store, RdfLiteral(label.strip())
        apart = RdfLiteral(json.dumps(label.strip(), ensure_ascii=False), datatype=vocab.JSON)
        quads = store.quads((None, vocab.LABEL, wanted, vocab.CATALOG))
        quads += store.quads((None, NamedNode(iris.entry_field("label")), apart, None))
        held_keys = {}
        for quad in quads:
            subject = str(getattr(quad.subject, "value", ""))
            key = iris.conversation_key(subject)
            named = (
                conversations.find_conversation(store, key)
                if key
                else conversations.conversations_of_session(store, NamedNode(subject))
            )
            if named is not None:
                held_keys[named.key] = self.held(named)
        return list(held_keys.values())

    @decodes
    def known_event(self, key: str, source: str | None, event_id: str) -> Event | None:
        """Return a message with an id that any session of a key has got before, or None."""
        store = self.repository.store
        for quad in store.quads((None, vocab.EVENT_ID, RdfLiteral(event_id), None)):
            session_id = iris.session_id(str(getattr(quad.subject, "value", "")))
            belongs = Quad(NamedNode(iris.session(session_id)), vocab.KEY, RdfLiteral(key), vocab.CATALOG)
            if store.quads((belongs.subject, belongs.predicate, belongs.object, belongs.graph_name)):  # type: ignore[arg-type] # IRIs
                for event in self.book.where(Event, session_id, vocab.EVENT_ID, RdfLiteral(event_id)):
                    if event.source == source:
                        return event
        return None

    def orphan(self, key: str) -> SessionRecord | None:
        """Return the one session that was made with a key by other means than a router; raise for several of them."""
        store, reader = self.repository.store, self.repository.reader
        session_ids = []
        for name in keys.spellings(key):
            for quad in store.quads((None, vocab.KEY, RdfLiteral(name), vocab.CATALOG)):
                node = quad.subject
                if isinstance(node, NamedNode) and iris.is_session(node.value):
                    bound = store.quads((node, vocab.SPECIALIZATION_OF, None, vocab.CATALOG))
                    session_ids += [] if bound else [iris.session_id(node.value)]
        if len(session_ids) > 1:
            raise InvalidInput(
                f"{len(session_ids)} sessions have the key {key!r} "
                f"({', '.join(sorted(session_ids))}), and none is the current one of it; "
                "delete or fork those that are not meant"
            )
        return reader.record(session_ids[0]) if session_ids else None

    # --- writing

    def begin(
        self,
        key: str,
        session: Session,
        fields: Mapping[str, Any],
        *,
        now: datetime,
        user_activity: datetime | None = None,
        label: str | None = None,
        replaces: Conversation | None = None,
        made: Sequence[Entry] = (),
        stored: bool = False,
        also: Proposal | None = None,
    ) -> bool:
        """Make a session the current one of a key, in one commit with its entry and its ledger's first entries.

        The session is new (or `stored`, and had no conversation). `also` is what else goes into the commit. False if
        another writer did so first: nothing of it was written then.
        """
        entry = SessionEntry(session_id=session.id).changed(_fields(fields), last_user_activity=user_activity)
        tx = Transaction()
        tx.add(belongs_quad(session.id, key))
        if replaces is not None:
            tx.move([current_quad(key, replaces.session_id)], [current_quad(key, session.id)])
            tx.log(log_leaves.row_states("change", [replaces.session_id]))
        else:
            begun = Conversation(key=key, session_id=session.id, label=label, created=now)
            begin_conversation(tx, begun, lambda _: _label_in_use(label))
        tx.add(conversation_records.override_quads(entry))
        if made:
            put_entries(tx, session.id, made, new_session=True)
        if stored:
            tx.require([is_stored(session.id)])
            tx.log(log_leaves.row_states("change", [session.id]))
        change = tx.change() if also is None else tx.change().joined(also)
        try:
            if stored:
                change.commit(self.repository.store)
            else:
                session.worktree.persist(change)
        except PreconditionFailed as failure:
            _raise_refusal(tx, failure)
            return False
        return True

    def rewrite(
        self,
        held: HeldKey,
        fields: Mapping[str, Any],
        *,
        user_activity: datetime | None = None,
        spawner: str | None = None,
        made: Sequence[Entry] = (),
        told: Sequence[Quad] = (),
    ) -> bool:
        """Let the entry of a key's session say exactly this, with entries of its ledger in the same commit.

        `fields` are in the shape of `sessions.json`; its label becomes the conversation's. `spawner` is the id of the session
        that spawned this one, `told` says who altered what. False if the key or the entry was changed by another writer
        meanwhile.

        Raises `RequestRefused` for a label in use.
        """
        apart = held.conversation.label is None and fields.get("label") == held.entry.get("label")
        kept = _fields(fields) | ({"label": fields["label"]} if apart and "label" in fields else {})
        if "sessionId" in held.entry.fields:  # imported under another name than its own
            kept["sessionId"] = held.entry.get("sessionId")
        after = held.entry.changed(kept, last_user_activity=user_activity)
        gone, come = conversation_records.overrides_difference(held.entry, after)
        node, graph = NamedNode(iris.session(held.session_id)), conversation_records.overrides_graph(held.session_id)
        tx = Transaction()
        tx.take(gone)
        tx.add([*come, *told])
        tx.require([current_quad(held.key, held.session_id)])
        if not held.entry.salt:
            tx.forbid((node, vocab.SALT, None, graph))
        tx.log(log_leaves.row_states("change", [held.session_id]))
        label = fields.get("label")
        if not apart:
            wanted = None if label is None else validation.label(label)
            conversations.relabel_conversation(tx, held.conversation, wanted, lambda _: _label_in_use(label))
        if spawner is not None:
            import_records.add_spawn_links(tx, held.session_id, spawner)
        if made:
            put_entries(tx, held.session_id, made)
        try:
            tx.commit(self.repository.store)
        except PreconditionFailed:
            return False
        return True


@dataclass(slots=True)
class Routing:
    """What all parts of a router share."""

    keyring: Keyring
    settings: RouterSettings
    now: Callable[[], datetime]


def until_written(key: str, attempt: Callable[[], _Result | None]) -> _Result:
    """Return the result of an attempt.

    Repeat it while other writers change the key meanwhile (None).
    """
    for _ in range(_TRIES):
        result = attempt()
        if result is not None:
            return result
    raise InvalidInput(f"the session of the key {key!r} is changed by others all the time; try again")


def _raise_refusal(tx: Transaction, failure: PreconditionFailed) -> None:
    """Raise the error that a failed precondition stands for, if it stands for one."""
    error = tx.error(failure)  # a local name in the frame of the caller would keep the session alive
    if error is not failure:
        raise error from failure


def begin_conversation(tx: Transaction, conversation: Conversation, refusal: Refusal | None = None) -> None:
    """Make a conversation for a key that has none, in no spelling.

    `refusal` is for a label in use.
    """
    tx.add(conversation_quads(conversation))
    for name in keys.spellings(conversation.key):
        tx.forbid((NamedNode(iris.conversation(name)), vocab.CURRENT_SESSION, None, vocab.CATALOG))
        tx.forbid((NamedNode(iris.alias(name)), vocab.TYPE, None, vocab.CATALOG))
    if conversation.label is not None:
        tx.label(conversation.label, refusal)


def _label_in_use(label: Any) -> RequestRefused:
    return RequestRefused(f"label already in use: {label}")


def _fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of an entry is kept in its graph: not the session's id, nor the label, which is the conversation's."""
    return {name: value for name, value in fields.items() if name not in OWN}
