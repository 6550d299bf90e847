"""What configuration says of session keys, read once and validated: scopes, main key, agents, identity links, bindings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, Self

from trails.errors import InvalidInput
from trails.keys.building import DmScope, as_links, check_dm_scope
from trails.keys.configuration import section, text
from trails.keys.ids import DEFAULT_AGENT, normalize_agent_id, normalize_main_key
from trails.keys.script import trim
from trails.model import Value

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
        """Read `session`, `agents.list` and `bindings` of a configuration; bad fields raise `InvalidInput` with their path."""
        root = section(config, "configuration")
        session = section(root.get("session"), "session")
        scope = session.get("scope")
        if scope not in (None, "per-sender", "global"):
            raise InvalidInput(f"session.scope is {scope!r}; use per-sender or global")
        links = as_links(session.get("identityLinks")) or {}
        agents = tuple(_agents(root))
        return cls(
            scope=scope or "per-sender",
            main_key=normalize_main_key(text(session.get("mainKey"), "session.mainKey")),
            dm_scope=_scope(session.get("dmScope")),
            identity_links=tuple((name, tuple(ids)) for name, ids in links.items()),
            agents=tuple(agent for agent, _ in agents),
            default_agent=next(
                (agent for agent, default in agents if default), next((a for a, _ in agents), DEFAULT_AGENT)
            ),
            bindings=tuple(_bindings(root.get("bindings"))),
            fold_case=fold_case,
        )


def _scope(value: Any) -> DmScope:
    try:
        return check_dm_scope(text(value, "session.dmScope"))
    except InvalidInput as wrong:
        raise InvalidInput(f"session.dmScope: {wrong}") from None


def _listed(value: Any, path: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, (list, tuple)):
        raise InvalidInput(f"{path} must be a list, not {type(value).__name__}")
    return list(value)


def _agents(root: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    listed = _listed(section(root.get("agents"), "agents").get("list"), "agents.list")
    for place, one in enumerate(listed):
        agent = section(one, f"agents.list[{place}]")
        name = text(agent.get("id"), f"agents.list[{place}].id")
        yield normalize_agent_id(name), bool(agent.get("default"))


def _bindings(value: Any) -> Iterator[Binding]:
    for place, one in enumerate(_listed(value, "bindings")):
        path = f"bindings[{place}]"
        binding = section(one, path)
        match = section(binding.get("match"), f"{path}.match")
        peer = match.get("peer")
        about = section(peer, f"{path}.match.peer")
        yield Binding(
            agent_id=trim(text(binding.get("agentId"), f"{path}.agentId")),
            channel=trim(text(match.get("channel"), f"{path}.match.channel")).lower(),
            account_id=trim(text(match.get("accountId"), f"{path}.match.accountId")) or None,
            peer_kind=trim(text(about.get("kind"), f"{path}.match.peer.kind")).lower() or None,
            peer_id=trim(text(about.get("id"), f"{path}.match.peer.id")) or None,
            guild_id=trim(text(match.get("guildId"), f"{path}.match.guildId")) or None,
            team_id=trim(text(match.get("teamId"), f"{path}.match.teamId")) or None,
            has_peer=peer is not None,
        )
