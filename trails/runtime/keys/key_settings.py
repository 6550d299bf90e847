"""Configure session keys and find their canonical form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from trails.errors import InvalidInput
from trails.model.values import Value
from trails.runtime.config_values import Section, lower, trim
from trails.runtime.keys.session_key import (
    DEFAULT_AGENT,
    DEFAULT_MAIN_KEY,
    DmScope,
    agent_main_key,
    build_key,
    check_dm_scope,
    normalize_agent_id,
    normalize_main_key,
    parse_agent_key,
    parse_key,
)

Scope = Literal["per-sender", "global"]


class Binding(Value):
    """Which agent answers where: in a channel, for an account ("*" for any), for a peer, a guild or a team."""

    agent_id: str
    channel: str
    account_id: str | None = None
    """None stands for the account "default"."""
    peer_kind: str | None = None
    peer_id: str | None = None
    guild_id: str | None = None
    team_id: str | None = None
    has_peer: bool = False
    """Whether a peer is named at all; a binding of half a peer matches nobody."""


class KeySettings(Value):
    """How keys are made and canonicalised; `KeySettings()` is the default of the systems that use them.

    >>> settings = KeySettings.from_json({"session": {"mainKey": "work"}, "agents": {"list": [{"id": "ops"}]}})
    >>> settings.main_key, settings.default_agent, settings.main_session_key
    ('work', 'ops', 'agent:ops:work')
    """

    scope: Scope = "per-sender"
    main_key: str = "main"
    dm_scope: DmScope = "main"
    identity_links: tuple[tuple[str, tuple[str, ...]], ...] = ()
    agents: tuple[str, ...] = ()
    """The configured agents' ids, normalised, in order."""
    default_agent: str = DEFAULT_AGENT
    bindings: tuple[Binding, ...] = ()
    fold_case: bool = False
    """Whether opaque ids are put in lower case; the systems did so, and merged people by it."""

    @property
    def links(self) -> dict[str, tuple[str, ...]]:
        """The identity links by name, in the order of declaration."""
        return dict(self.identity_links)

    @property
    def main_session_key(self) -> str:
        """The key of the default agent's main session, or "global" where all share one."""
        return "global" if self.scope == "global" else f"agent:{self.default_agent}:{self.main_key}"

    @property
    def alias(self) -> str:
        """What the word "main" stands for: "global" where all share one session, else the main key."""
        return "global" if self.scope == "global" else self.main_key

    @classmethod
    def from_json(cls, config: Mapping[str, Any] | None, *, fold_case: bool = False) -> Self:
        """Read `session`, `agents.list` and `bindings`; a bad field raises `InvalidInput` with its path."""
        root = Section(config)
        session = root.section("session")
        scope = session.get("scope")
        if scope not in (None, "per-sender", "global"):
            raise InvalidInput(f"session.scope is {scope!r}; use per-sender or global")
        try:
            dm_scope = check_dm_scope(session.text("dmScope"))
        except InvalidInput as wrong:
            raise InvalidInput(f"session.dmScope: {wrong}") from None
        agents = [
            (normalize_agent_id(agent.text("id")), agent.get("default"))
            for agent in root.section("agents").sections("list")
        ]
        return cls(
            scope=scope or "per-sender",
            main_key=normalize_main_key(session.text("mainKey")),
            dm_scope=dm_scope,
            identity_links=tuple(
                (str(name), tuple(map(str, ids)) if isinstance(ids, (list, tuple)) else ())
                for name, ids in session.section("identityLinks").fields.items()
            ),
            agents=tuple(agent for agent, _ in agents),
            default_agent=next(
                (agent for agent, default in agents if default), agents[0][0] if agents else DEFAULT_AGENT
            ),
            bindings=tuple(map(_binding, root.sections("bindings"))),
            fold_case=fold_case,
        )


def _binding(binding: Section) -> Binding:
    match = binding.section("match")
    peer = match.section("peer")
    return Binding(
        agent_id=trim(binding.text("agentId")),
        channel=lower(match.text("channel")),
        account_id=trim(match.text("accountId")) or None,
        peer_kind=lower(peer.text("kind")) or None,
        peer_id=trim(peer.text("id")) or None,
        guild_id=trim(match.text("guildId")) or None,
        team_id=trim(match.text("teamId")) or None,
        has_peer=match.get("peer") is not None,
    )


def main_session_key(config: Mapping[str, Any] | KeySettings | None = None) -> str:
    """Return the key of the main session: of the default agent, or "global" where all share one.

    The default agent is the one so marked, else the first in the list, else "main".

    >>> main_session_key({"agents": {"list": [{"id": "first"}, {"id": "Second", "default": True}]}})
    'agent:second:main'
    """
    return _settings(config).main_session_key


def _settings(config: Mapping[str, Any] | KeySettings | None) -> KeySettings:
    return config if isinstance(config, KeySettings) else KeySettings.from_json(config)


def canonicalize_main_alias(
    session_key: str, *, agent_id: str | None, config: Mapping[str, Any] | KeySettings | None
) -> str:
    """Return an agent's main session for every name of it, and any other key unchanged.

    >>> canonicalize_main_alias("main", agent_id="ops", config={"session": {"mainKey": "work"}})
    'agent:ops:work'
    """
    raw, settings = trim(session_key), _settings(config)
    whole = agent_main_key(agent_id, settings.main_key)
    if raw not in (DEFAULT_MAIN_KEY, settings.main_key, whole, agent_main_key(agent_id)):
        return raw
    return "global" if settings.scope == "global" else whole


def to_store_key(
    request_key: str | None, *, agent_id: str | None, main_key: str | None = None, fold_case: bool = False
) -> str:
    """Return the agent-prefixed key of what a request names: the agent's main session for "main" or nothing.

    Structure words are put in lower case; opaque ids only with `fold_case`.

    >>> to_store_key("Discord:Group:AbC", agent_id="Ops"), to_store_key("main", agent_id="ops", main_key="work")
    ('agent:ops:discord:group:AbC', 'agent:ops:work')
    """
    raw = trim(request_key)
    if not raw or raw == DEFAULT_MAIN_KEY:
        return agent_main_key(agent_id, main_key)
    key = raw if raw.lower().startswith("agent:") else f"agent:{normalize_agent_id(agent_id)}:{raw}"
    if fold_case:
        return key.lower()
    return build_key(parse_key("agent:" + key[len("agent:") :]))


def to_request_key(store_key: str | None) -> str | None:
    """Return a key without its agent; None for nothing.

    >>> to_request_key("agent:main:discord:group:1"), to_request_key("plain")
    ('discord:group:1', 'plain')
    """
    raw = trim(store_key)
    parsed = parse_agent_key(raw)
    return parsed.rest if parsed else raw or None


def canonical_key(session_key: str, config: Mapping[str, Any] | KeySettings | None = None) -> str:
    """Return the key under which a session is stored, for any name of it that a caller may use.

    "main" and the main key are the main session of the default agent (or "global"); a key without an agent is the default
    agent's; "global" and "unknown" stand alone. The agent's id is normalised, opaque ids are kept.

    >>> canonical_key("discord:group:123", {"agents": {"list": [{"id": "ops", "default": True}]}})
    'agent:ops:discord:group:123'
    """
    raw, settings = trim(session_key), _settings(config)
    if raw in ("", "global", "unknown"):
        return raw
    parsed = parse_agent_key(raw)
    if parsed is not None:
        whole = build_key(parse_key(raw))
        return canonicalize_main_alias(whole, agent_id=parsed.agent_id, config=settings)
    if raw in (DEFAULT_MAIN_KEY, settings.main_key):
        return settings.main_session_key
    stored = store_key_of_agent(raw, settings.default_agent)
    return stored if parse_agent_key(stored) is None else build_key(parse_key(stored))  # without empty segments


def store_key_of_agent(key: str, agent_id: str | None) -> str:
    """Return a key of an agent's own store as it stands among all agents' keys.

    >>> store_key_of_agent("main", "ops"), store_key_of_agent("global", "ops")
    ('agent:ops:main', 'global')
    """
    if key in ("global", "unknown") or key.startswith("agent:"):
        return key
    return f"agent:{normalize_agent_id(agent_id)}:{key}"


def display_key(key: str, *, alias: str, main_key: str) -> str:
    """Return a key as tools show it: "main" for the main session, under whatever name.

    >>> display_key("work", alias="work", main_key="work")
    'main'
    """
    return DEFAULT_MAIN_KEY if key in (alias, main_key) else key


def is_main_key(key: str, config: Mapping[str, Any] | KeySettings | None = None) -> bool:
    """Tell whether a key, under any of its names, is some agent's main session or the global one.

    >>> is_main_key("main"), is_main_key("agent:ops:main"), is_main_key("agent:main:discord:group:1")
    (True, True, False)
    """
    settings = _settings(config)
    whole = canonical_key(key, settings)
    parsed = parse_agent_key(whole)
    return whole == "global" or (parsed is not None and parsed.rest in (settings.main_key, DEFAULT_MAIN_KEY))
