"""Values that routing takes and returns.

What a configuration says of routing and policies, read once and validated.

What routing takes and gives: a message on its way in, where it went, what a list and a check say. Frozen values.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, tzinfo
from typing import Any, Literal

from trails.model.values import Value
from trails.rdf.ledger_records import Event, Mode
from trails.runtime.config_values import Section, zone_of
from trails.runtime.keys import KeySettings, PeerKind
from trails.runtime.policy import AgentToAgentPolicy, Freshness, ResetConfig, ResetPolicy, SendPolicy


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
    ) -> RouterSettings:
        """Read a configuration; what is wrong in it raises `InvalidInput` with its path.

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
    """Who writes, where that is not the peer."""
    principal: str | None = None
    """The name of the person who writes, where the host knows it; else it is told from identity links or the sender's id."""
    thread: str | None = None
    topic: bool = False
    """Whether `thread` is a topic of a group, as Telegram has them: it begins empty."""
    parent: str | None = None
    """The key of the session that a thread was started from, where that is not the session that it is a thread of."""
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
    """The message in the session's inbox; None where there was nothing to put there."""
    principal: str | None = None
    """The person who wrote, where that is known."""
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
    """The key that led here, where that is an alias of the session's."""
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
    """What would happen to a key now, and which rule decides each thing; nothing was written for it."""

    key: str
    session_id: str | None
    """None for a key that names no session yet."""
    send: Permission
    responds: Permission
    """Whether a message that mentions nobody would be answered."""
    reset: ResetPolicy
    reset_rule: str
    freshness: Freshness | None
    """None where there is no session that could be stale."""
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
    """What an operation on keys did, or would do; `operation` takes it back (`Router.undo`)."""

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
