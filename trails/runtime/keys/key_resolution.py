"""Configure session keys, find canonical forms, and resolve messages to keys.

Provider keys, `{provider}:{scope}:{identifier}`, stand in a published decision record and in no released system.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, Final, Literal, Self, get_args

from trails.errors import InvalidInput
from trails.model.values import Value
from trails.runtime.config_values import Json, Section, lower, trim
from trails.runtime.keys.session_key import (
    DEFAULT_ACCOUNT,
    DEFAULT_AGENT,
    DEFAULT_MAIN_KEY,
    THREAD_MARKERS,
    DmScope,
    agent_main_key,
    build_key,
    build_peer_key,
    check_dm_scope,
    check_peer_kind,
    fold,
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
    """How keys are made and canonicalised.

    `KeySettings()` is the default of the systems that use them.

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
        """The key of the default agent's main session, or "global" if all share one."""
        return "global" if self.scope == "global" else f"agent:{self.default_agent}:{self.main_key}"

    @property
    def alias(self) -> str:
        """What the word "main" stands for: "global" if all share one session, else the main key."""
        return "global" if self.scope == "global" else self.main_key

    @classmethod
    def from_json(cls, config: Json | None, *, fold_case: bool = False) -> Self:
        """Read `session`, `agents.list` and `bindings`.

        A bad field raises `InvalidInput` with its path.
        """
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


Config = Json | KeySettings | None
"""A configuration as JSON, or read."""


def main_session_key(config: Config = None) -> str:
    """Return the key of the main session: of the default agent, or "global" if all share one.

    The default agent is the one so marked, else the first in the list, else "main".

    >>> main_session_key({"agents": {"list": [{"id": "first"}, {"id": "Second", "default": True}]}})
    'agent:second:main'
    """
    return _settings(config).main_session_key


def _settings(config: Config) -> KeySettings:
    return config if isinstance(config, KeySettings) else KeySettings.from_json(config)


def canonicalize_main_alias(session_key: str, *, agent_id: str | None, config: Config) -> str:
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


def canonical_key(session_key: str, config: Config = None) -> str:
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


def is_main_key(key: str, config: Config = None) -> bool:
    """Return whether a key, under any of its names, is some agent's main session or the global one.

    >>> is_main_key("main"), is_main_key("agent:ops:main"), is_main_key("agent:main:discord:group:1")
    (True, True, False)
    """
    settings = _settings(config)
    whole = canonical_key(key, settings)
    parsed = parse_agent_key(whole)
    return whole == "global" or (parsed is not None and parsed.rest in (settings.main_key, DEFAULT_MAIN_KEY))


CHANNELS: Final = ("telegram", "whatsapp", "discord", "slack", "signal", "imessage", "googlechat")
"""The networks of the systems' own; a host with others passes its list."""
_SURFACES: Final = frozenset({*CHANNELS, "webchat"})


class GroupResolution(Value):
    """The group that a message is of: its short key, its network, its id, and whether it is a group or a channel."""

    key: str
    channel: str
    id: str
    chat_type: Literal["group", "channel"]


def resolve_group_key(
    context: Json, *, channels: Collection[str] = _SURFACES, fold_case: bool = False
) -> GroupResolution | None:
    """Return the group or channel that a message's envelope names.

    None for a direct message.

    `context` has the names of the systems' envelopes: `From` (`discord:group:123`, `123@g.us`), `ChatType`, `Provider`.
    `channels` are the networks that may stand before the id.

    >>> resolve_group_key({"From": "12345-678@g.us"}).key
    'whatsapp:group:12345-678@g.us'
    >>> resolve_group_key({"From": "+1555"}) is None
    True
    """
    sender, chat_type = trim(_text(context.get("From"))), lower(_text(context.get("ChatType")))
    is_whatsapp = sender.lower().endswith("@g.us")
    marked = ":group:" in sender or ":channel:" in sender
    if not (chat_type in ("group", "channel") or marked or is_whatsapp):
        return None
    parts = [part for part in sender.split(":") if part]
    head = lower(parts[0]) if parts else ""
    led = bool(head) and head in channels
    provider = context.get("Provider")
    network = lower(provider) if isinstance(provider, str) else "whatsapp" if is_whatsapp else ""
    channel = head if led else network
    second = lower(parts[1]) if len(parts) > 1 else ""
    has_kind = second in ("group", "channel")
    is_channel = second == "channel" if has_kind else ":channel:" in sender or chat_type == "channel"
    name = fold(":".join(parts[2 if has_kind else 1 :]) if led else sender, fold_case=fold_case)
    if not channel or not name:
        return None
    kind: Literal["group", "channel"] = "channel" if is_channel else "group"
    return GroupResolution(key=f"{channel}:{kind}:{name}", channel=channel, id=name, chat_type=kind)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def derive_session_key(scope: str, context: Json, *, fold_case: bool = False) -> str:
    """Return the short key of a message: "global", its group's, its sender's number, or "unknown".

    >>> derive_session_key("per-sender", {"From": "whatsapp:+1 555"}), derive_session_key("per-sender", {})
    ('+1555', 'unknown')
    """
    if scope == "global":
        return "global"
    group = resolve_group_key(context, fold_case=fold_case)
    if group is not None:
        return group.key
    sender = _text(context.get("From"))
    return phone_number(sender) if sender else "unknown"


def phone_number(text: str) -> str:
    """Return a sender as a number of digits with a plus before it, as E.164 has it.

    >>> phone_number("whatsapp:+49 (170) 123"), phone_number("0049")
    ('+49170123', '+0049')
    """
    digits = re.sub(r"[^0-9+]", "", trim(text.removeprefix("whatsapp:")))
    return digits if digits.startswith("+") else f"+{digits}"


def resolve_session_key(scope: str, context: Json, *, main_key: str | None = None, fold_case: bool = False) -> str:
    """Return the key of the session that a message belongs to when direct messages share the main session.

    A `SessionKey` in the envelope wins. Groups and channels have sessions of their own.

    >>> resolve_session_key("per-sender", {"From": "+1555"}, main_key="primary")
    'agent:main:primary'
    """
    key = trim(_text(context.get("SessionKey")))
    if key:
        return fold(key, fold_case=fold_case)
    short = derive_session_key(scope, context, fold_case=fold_case)
    if scope == "global":
        return short
    if ":group:" in short or ":channel:" in short:
        return to_store_key(short, agent_id=None, fold_case=fold_case)
    return agent_main_key(None, main_key)


def group_display_name(
    *,
    key: str,
    provider: str | None = None,
    subject: str | None = None,
    group_channel: str | None = None,
    space: str | None = None,
    group_id: str | None = None,
) -> str:
    """Return how lists call a group: its network, and its room, subject or id in plain characters.

    >>> group_display_name(key="k", provider="discord", group_channel="#general", space="friends")
    'discord:friends#general'
    >>> group_display_name(key="k", provider="telegram", group_id="-100123")
    'telegram:g-100123'
    """
    network = lower(provider) or "group"
    room, where = trim(group_channel), trim(space)
    detail = room or trim(subject) or where
    if room and where:
        detail = f"{where}{'' if room.startswith('#') else '#'}{room}"
    raw = detail or trim(group_id) or trim(key)
    short = raw if len(raw) <= 14 else f"{raw[:6]}...{raw[-4:]}"
    token = _plain(raw) or _plain(short)
    if not group_channel:
        token = token.lstrip("#")
    if token and token[0] not in "@#" and not token.startswith("g-") and "#" not in token:
        token = f"g-{token}"
    return f"{network}:{token}" if token else network


def _plain(text: str) -> str:
    dashed = re.sub(r"\s+", "-", lower(text))
    return re.sub(r"-{2,}", "-", re.sub(r"[^a-z0-9#@._+-]+", "-", dashed)).strip("-.")


MatchedBy = Literal["binding.peer", "binding.guild", "binding.team", "binding.account", "binding.channel", "default"]


class Route(Value):
    """The agent that answers, its session for the message, its main session, and which rule decided."""

    agent_id: str
    channel: str
    account_id: str
    session_key: str
    main_session_key: str
    matched_by: MatchedBy


def resolve_route(
    settings: Config,
    *,
    channel: str,
    account_id: str | None = None,
    peer_kind: str | None = None,
    peer_id: str | None = None,
    guild_id: str | None = None,
    team_id: str | None = None,
) -> Route:
    """Return the agent and the session for a message.

    Bindings of the channel and account are tried in this order, the first in the list of each: for the peer, for the guild,
    for the team, for the account, for any account ("*"); else the default agent. A binding without an account is for the
    account "default". An agent that is not in a list of agents gives way to the default agent. A peer without an id has the
    id "unknown"; without a kind, no peer is there.

    >>> config = {"bindings": [{"agentId": "home", "match": {"channel": "whatsapp", "accountId": "*"}}]}
    >>> route = resolve_route(config, channel="whatsapp", account_id="biz", peer_kind="dm", peer_id="+1")
    >>> route.agent_id, route.session_key, route.matched_by
    ('home', 'agent:home:main', 'binding.channel')
    """
    known = settings if isinstance(settings, KeySettings) else KeySettings.from_json(settings)
    network, account = lower(channel), trim(account_id) or DEFAULT_ACCOUNT
    kind = None if peer_kind is None else check_peer_kind(peer_kind)
    peer, guild, team = trim(peer_id), trim(guild_id), trim(team_id)
    bindings = [
        each
        for each in known.bindings
        if network and each.channel == network and (each.account_id or DEFAULT_ACCOUNT) in ("*", account)
    ]
    general = [each for each in bindings if not (each.has_peer or each.guild_id or each.team_id)]
    fitting: dict[MatchedBy, list[Binding]] = {
        "binding.peer": [
            each
            for each in bindings
            if peer
            and kind is not None
            and (each.peer_kind or "").replace("direct", "dm") == kind
            and each.peer_id == peer
        ],
        "binding.guild": [each for each in bindings if guild and each.guild_id == guild],
        "binding.team": [each for each in bindings if team and each.team_id == team],
        "binding.account": [each for each in general if each.account_id != "*"],
        "binding.channel": [each for each in general if each.account_id == "*"],
    }
    matched: MatchedBy = next((rule for rule, matches in fitting.items() if matches), "default")
    named = fitting[matched][0].agent_id if matched != "default" else ""
    agent = normalize_agent_id(named) if trim(named) else known.default_agent
    if known.agents and agent not in known.agents:
        agent = known.default_agent
    key = build_peer_key(
        agent_id=agent,
        channel=network,
        account_id=account,
        peer_kind=kind,
        peer_id=None if kind is None else peer or "unknown",
        main_key=known.main_key,
        dm_scope=known.dm_scope,
        identity_links=known.links,
        fold_case=known.fold_case,
    )
    return Route(
        agent_id=agent,
        channel=network,
        account_id=account,
        session_key=key,
        main_session_key=agent_main_key(agent, known.main_key),
        matched_by=matched,
    )


ProviderScope = Literal["dm", "group", "channel", "main"]
PROVIDER_SCOPES: Final[tuple[ProviderScope, ...]] = get_args(ProviderScope)
INTERNAL: Final = "internal"
_RESERVED: Final = frozenset(
    {"agent", "cron", "hook", "subagent", "acp", "node", "dm", "direct", "group", "channel", "global", "unknown"}
)


class ProviderKey(Value):
    """A network, a scope, and who or what in it.

    `str` of it is the key.
    """

    provider: str
    scope: ProviderScope
    identifier: str

    def __str__(self) -> str:
        """Return the key as text."""
        return f"{self.provider}:{self.scope}:{self.identifier}"


def provider_key(provider: str, scope: str, identifier: str, *, fold_case: bool = False) -> ProviderKey:
    """Return a key of a network's scope.

    An unknown scope or an empty part raises `InvalidInput`.

    >>> str(provider_key("WhatsApp", "dm", "+1234567890"))
    'whatsapp:dm:+1234567890'
    """
    where, who = lower(provider), fold(identifier, fold_case=fold_case)
    known = "dm" if lower(scope) == "direct" else lower(scope)
    if known not in PROVIDER_SCOPES:
        raise InvalidInput(f"{scope!r} is no scope of a session key; use one of {', '.join(PROVIDER_SCOPES)}")
    if not where or not who or ":" in where:
        raise InvalidInput(
            f"a session key needs a provider without colons and an identifier: {provider!r}, {identifier!r}"
        )
    if where in _RESERVED:
        raise InvalidInput(f"{where!r} begins another kind of session key, so that no provider can have this name")
    if (known == "main") != (where == INTERNAL):
        raise InvalidInput(f"the scope main is the provider internal's alone, and its only one: {where}:{known}:{who}")
    return ProviderKey(provider=where, scope=known, identifier=who)


def parse_provider_key(text: str, *, fold_case: bool = False) -> ProviderKey | None:
    """Return the parts of a key `{provider}:{scope}:{identifier}`.

    None for a text of any other form.

    >>> parse_provider_key("telegram:group:123456")
    ProviderKey(provider='telegram', scope='group', identifier='123456')
    >>> parse_provider_key("agent:main:main") is None
    True
    """
    provider, _, rest = trim(text).partition(":")
    scope, _, identifier = rest.partition(":")
    if lower(provider) == "agent":
        return None
    try:
        return provider_key(provider, scope, identifier, fold_case=fold_case)
    except InvalidInput:
        return None


def provider_to_session_key(
    key: ProviderKey,
    *,
    agent_id: str | None = None,
    dm_scope: DmScope = "per-channel-peer",
    main_key: str | None = None,
) -> str:
    """Return the agent's key of what a provider's key names.

    `whatsapp:dm:X` names one sender on one network, so its key has the scope "per-channel-peer" unless told otherwise.

    >>> provider_to_session_key(provider_key("whatsapp", "dm", "+123"), agent_id="main")
    'agent:main:whatsapp:dm:+123'
    >>> provider_to_session_key(provider_key("internal", "main", "main"))
    'agent:main:main'
    """
    place = min((at for mark in THREAD_MARKERS if (at := key.identifier.find(mark)) > 0), default=len(key.identifier))
    if key.scope == "main":
        if lower(key.identifier[:place]) not in ("main", normalize_main_key(main_key)):
            raise InvalidInput(
                f"{key} names a main session of another name than main or {normalize_main_key(main_key)}"
            )
        return agent_main_key(agent_id, main_key) + key.identifier[place:]
    base = build_peer_key(
        agent_id=agent_id,
        channel=key.provider,
        peer_kind=key.scope,
        peer_id=key.identifier[:place],
        main_key=main_key,
        dm_scope=dm_scope,
    )
    return base + key.identifier[place:]


def session_to_provider_key(session_key: str, *, main_key: str | None = None) -> ProviderKey | None:
    """Return the provider's key of an agent's key.

    None if it says no network: a peer of all networks, a sub-agent, a job.

    Agent and account are left out, as such keys have no place for them.

    >>> str(session_to_provider_key("agent:main:discord:channel:987654"))
    'discord:channel:987654'
    >>> session_to_provider_key("agent:main:dm:alice") is None
    True
    """
    parts, threads = parse_key(session_key, main_key=main_key), ""
    while parts.parent is not None:
        threads = f":{parts.thread_marker}:{parts.thread_id}{threads}"
        parts = parse_key(parts.parent, main_key=main_key)
    if parts.kind == "main":
        return ProviderKey(provider=INTERNAL, scope="main", identifier=f"main{threads}")
    if parts.channel is None or parts.id is None or parts.kind not in PROVIDER_SCOPES:
        return None
    return ProviderKey(provider=lower(parts.channel), scope=parts.kind, identifier=parts.id + threads)
