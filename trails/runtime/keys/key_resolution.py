"""Resolve messages, groups and provider keys to session keys.

From a message's envelope to a key: which group or sender it is of, and how a group is called.

Which agent answers a message, by the bindings of a configuration, and in which session.

Keys of the form `{provider}:{scope}:{identifier}`, and what they are among the agents' keys.

They stand in a published decision record and in no released system, whose keys begin with an agent; both say the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final, Literal, get_args

from trails.errors import InvalidInput
from trails.model.values import Value
from trails.runtime.config_values import lower, trim
from trails.runtime.keys.key_settings import Binding, KeySettings, to_store_key
from trails.runtime.keys.session_key import (
    DEFAULT_ACCOUNT,
    THREAD_MARKERS,
    DmScope,
    agent_main_key,
    build_peer_key,
    check_peer_kind,
    fold,
    normalize_agent_id,
    normalize_main_key,
    parse_key,
)

CHANNELS: Final = ("telegram", "whatsapp", "discord", "slack", "signal", "imessage", "googlechat")
"""The networks of the systems' own; a host with others passes its list."""
_SURFACES: Final = frozenset({*CHANNELS, "webchat"})
_UNSAFE: Final = re.compile(r"[^a-z0-9#@._+-]+")
_NOT_OF_A_NUMBER: Final = re.compile(r"[^0-9+]")


class GroupResolution(Value):
    """The group that a message is of: its short key, its network, its id, and whether it is a group or a channel."""

    key: str
    channel: str
    id: str
    chat_type: Literal["group", "channel"]


def resolve_group_key(
    context: Mapping[str, Any], *, channels: Collection[str] = _SURFACES, fold_case: bool = False
) -> GroupResolution | None:
    """Return the group or channel that a message's envelope names, or None for a direct message.

    `context` has the names of the systems' envelopes: `From` (`discord:group:123`, `123@g.us`), `ChatType`, `Provider`.
    `channels` are the networks that may stand before the id.

    >>> resolve_group_key({"From": "12345-678@g.us"}).key
    'whatsapp:group:12345-678@g.us'
    >>> resolve_group_key({"From": "+1555"}) is None
    True
    """
    sender, told = trim(_text(context.get("From"))), lower(_text(context.get("ChatType")))
    is_whatsapp = sender.lower().endswith("@g.us")
    marked = ":group:" in sender or ":channel:" in sender
    if not (told in ("group", "channel") or marked or is_whatsapp):
        return None
    parts = [part for part in sender.split(":") if part]
    head = lower(parts[0]) if parts else ""
    led = bool(head) and head in channels
    channel = head if led else _provider(context, is_whatsapp)
    if not channel:
        return None
    second = lower(parts[1]) if len(parts) > 1 else ""
    kind = (
        second
        if second in ("group", "channel")
        else ("channel" if ":channel:" in sender or told == "channel" else "group")
    )
    kept = parts[2:] if second in ("group", "channel") else parts[1:]
    name = fold(":".join(kept) if led else sender, fold_case=fold_case)
    if not name:
        return None
    return GroupResolution(
        key=f"{channel}:{kind}:{name}", channel=channel, id=name, chat_type="channel" if kind == "channel" else "group"
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _provider(context: Mapping[str, Any], is_whatsapp: bool) -> str:
    provider = context.get("Provider")
    if isinstance(provider, str):
        return lower(provider)
    return "whatsapp" if is_whatsapp else ""


def derive_session_key(scope: str, context: Mapping[str, Any], *, fold_case: bool = False) -> str:
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
    digits = _NOT_OF_A_NUMBER.sub("", trim(text.removeprefix("whatsapp:")))
    return digits if digits.startswith("+") else f"+{digits}"


def resolve_session_key(
    scope: str, context: Mapping[str, Any], *, main_key: str | None = None, fold_case: bool = False
) -> str:
    """Return the key of the session that a message belongs to, where direct messages share the main session.

    A `SessionKey` in the envelope wins. Groups and channels have sessions of their own.

    >>> resolve_session_key("per-sender", {"From": "+1555"}, main_key="primary")
    'agent:main:primary'
    """
    told = trim(_text(context.get("SessionKey")))
    if told:
        return fold(told, fold_case=fold_case)
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
    raw = detail or trim(group_id) or key
    token = _plain(raw) or _plain(_shortened(raw))
    if not group_channel and token.startswith("#"):
        token = token.lstrip("#")
    if token and token[0] not in "@#" and not token.startswith("g-") and "#" not in token:
        token = f"g-{token}"
    return f"{network}:{token}" if token else network


def _plain(text: str) -> str:
    dashed = re.sub(r"\s+", "-", lower(text))
    return re.sub(r"-{2,}", "-", _UNSAFE.sub("-", dashed)).strip("-.")


def _shortened(text: str) -> str:
    whole = trim(text)
    return whole if len(whole) <= 14 else f"{whole[:6]}...{whole[-4:]}"


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
    settings: KeySettings | Mapping[str, Any] | None,
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
    where, account = lower(channel), trim(account_id) or DEFAULT_ACCOUNT
    kind = None if peer_kind is None else check_peer_kind(peer_kind)
    who, guild, team = trim(peer_id), trim(guild_id), trim(team_id)
    here = [one for one in known.bindings if one.channel == where and one.channel and _for_account(one, account)]
    tests = _tests(kind, who, guild, team)
    agent, matched = _first(here, tests) or (known.default_agent, "default")
    agent = _existing(agent, known)
    key = build_peer_key(
        agent_id=agent,
        channel=where,
        account_id=account,
        peer_kind=kind,
        peer_id=None if kind is None else who or "unknown",
        main_key=known.main_key,
        dm_scope=known.dm_scope,
        identity_links=known.links,
        fold_case=known.fold_case,
    )
    return Route(
        agent_id=agent,
        channel=where,
        account_id=account,
        session_key=key,
        main_session_key=agent_main_key(agent, known.main_key),
        matched_by=matched,
    )


def _for_account(binding: Binding, account: str) -> bool:
    return binding.account_id in ("*", account) or (binding.account_id is None and account == DEFAULT_ACCOUNT)


Test = tuple[MatchedBy, Callable[[Binding], bool]]


def _tests(kind: str | None, who: str, guild: str, team: str) -> Iterator[Test]:
    """Return the rules that may match, in their order of precedence."""
    if kind is not None:
        yield "binding.peer", lambda one: _is_peer(one, kind, who)
    if guild:
        yield "binding.guild", lambda one: one.guild_id == guild
    if team:
        yield "binding.team", lambda one: one.team_id == team
    yield "binding.account", lambda one: one.account_id != "*" and _is_general(one)
    yield "binding.channel", lambda one: one.account_id == "*" and _is_general(one)


def _is_peer(binding: Binding, kind: str, who: str) -> bool:
    named = "dm" if binding.peer_kind == "direct" else binding.peer_kind
    return bool(who) and named == kind and binding.peer_id == who


def _is_general(binding: Binding) -> bool:
    return not (binding.has_peer or binding.guild_id or binding.team_id)


def _first(bindings: list[Binding], tests: Iterator[Test]) -> tuple[str, MatchedBy] | None:
    for name, fits in tests:
        for binding in bindings:
            if fits(binding):
                return binding.agent_id, name
    return None


def _existing(agent: str, settings: KeySettings) -> str:
    """Return an agent's id if it is configured, or if no agents are listed; else the default agent's."""
    name = normalize_agent_id(agent) if trim(agent) else settings.default_agent
    return name if not settings.agents or name in settings.agents else settings.default_agent


ProviderScope = Literal["dm", "group", "channel", "main"]
PROVIDER_SCOPES: Final[tuple[ProviderScope, ...]] = get_args(ProviderScope)
INTERNAL: Final = "internal"
_RESERVED: Final = frozenset(
    {"agent", "cron", "hook", "subagent", "acp", "node", "dm", "direct", "group", "channel", "global", "unknown"}
)


class ProviderKey(Value):
    """A network, a scope, and who or what in it; `str` of it is the key."""

    provider: str
    scope: ProviderScope
    identifier: str

    def __str__(self) -> str:
        """Return the key as text."""
        return f"{self.provider}:{self.scope}:{self.identifier}"


def provider_key(provider: str, scope: str, identifier: str, *, fold_case: bool = False) -> ProviderKey:
    """Return a key of a network's scope; an unknown scope or an empty part raises `InvalidInput`.

    >>> str(provider_key("WhatsApp", "dm", "+1234567890"))
    'whatsapp:dm:+1234567890'
    """
    where, who = lower(provider), fold(identifier, fold_case=fold_case)
    word = lower(scope)
    known = next((one for one in PROVIDER_SCOPES if one == ("dm" if word == "direct" else word)), None)
    if known is None:
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
    """Return the parts of a key `{provider}:{scope}:{identifier}`, or None for a text of any other form.

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
    """Return the provider's key of an agent's key; None where it says no network: a peer of all networks, a sub-agent, a job.

    Agent and account are left out, as such keys have no place for them.

    >>> str(session_to_provider_key("agent:main:discord:channel:987654"))
    'discord:channel:987654'
    >>> session_to_provider_key("agent:main:dm:alice") is None
    True
    """
    found, threads = parse_key(session_key, main_key=main_key), ""
    while found.parent is not None:
        threads = f":{found.thread_marker}:{found.thread_id}{threads}"
        found = parse_key(found.parent, main_key=main_key)
    if found.kind == "main":
        return ProviderKey(provider=INTERNAL, scope="main", identifier=f"main{threads}")
    if found.channel is None or found.id is None or found.kind not in PROVIDER_SCOPES:
        return None
    return ProviderKey(provider=lower(found.channel), scope=found.kind, identifier=found.id + threads)
