"""Which agent answers a message, by the bindings of a configuration, and in which session."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

from trails.keys.building import agent_main_key, build_peer_key, check_peer_kind
from trails.keys.ids import DEFAULT_ACCOUNT, normalize_agent_id
from trails.keys.script import lower, trim
from trails.keys.settings import Binding, KeySettings
from trails.model import Value

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
