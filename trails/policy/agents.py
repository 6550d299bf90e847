"""Which agents may talk to each other, which may start each other, and how long two may go on."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple, Self, cast

from trails.errors import RequestRefused
from trails.keys.configuration import listed, number, section, text
from trails.keys.ids import normalize_agent_id
from trails.keys.parsing import agent_id_from_key, may_spawn
from trails.keys.script import is_number, trim, written
from trails.model import Value

MAX_PING_PONG_TURNS: Final = 5
REPLY_SKIP: Final = "REPLY_SKIP"
ANNOUNCE_SKIP: Final = "ANNOUNCE_SKIP"


class AgentToAgentPolicy(Value):
    """Whether agents may talk across: off by default, and always allowed within one agent.

    >>> policy = AgentToAgentPolicy.from_json({"enabled": True, "allow": ["work-*"]})
    >>> policy.allows("work-1", "work-2"), policy.allows("work-1", "home"), policy.allows("home", "home")
    (True, False, True)
    """

    enabled: bool = False
    allow: tuple[str, ...] = ()
    """Patterns of agent ids; none at all means everybody."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any] | None) -> Self:
        """Read `tools.agentToAgent`: enabled by `true` alone; an `allow` that is no list is an empty one, as documented."""
        fields = section(value, "tools.agentToAgent")
        allow = fields.get("allow")
        patterns = allow if isinstance(allow, (list, tuple)) else ()
        return cls(enabled=fields.get("enabled") is True, allow=tuple(trim(written(one)) for one in patterns))

    def matches(self, agent_id: str) -> bool:
        """Tell whether an agent is named by the patterns, or there are none."""
        return not self.allow or any(matches_pattern(pattern, agent_id) for pattern in self.allow)

    def allows(self, requester: str, target: str) -> bool:
        """Tell whether one agent may send to another: both must be named."""
        return requester == target or (self.enabled and self.matches(requester) and self.matches(target))


def matches_pattern(pattern: str, agent_id: str) -> bool:
    """Tell whether an agent's id fits a pattern: exact, with case; with `*` for any run of characters, without case.

    >>> matches_pattern("Work-*", "work-1"), matches_pattern("Work", "work"), matches_pattern("", "work")
    (True, False, False)
    """
    if "*" not in pattern:
        return bool(pattern) and pattern == agent_id
    first, *middle, last = pattern.lower().split("*")
    name = agent_id.lower()
    if not name.startswith(first) or not name.endswith(last) or len(name) < len(first) + len(last):
        return False
    place, end = len(first), len(name) - len(last)
    for piece in middle:
        found = name.find(piece, place, end)
        if found < 0:
            return False
        place = found + len(piece)
    return True


class SubagentSettings(Value):
    """What is configured for the sub-agents of one agent, or of all (under `agents.defaults`)."""

    allow_agents: tuple[str, ...] = ()
    """The other agents that it may start; `*` for all."""
    model: str | None = None
    thinking: str | None = None
    archive_after_minutes: float | None = None
    max_concurrent: int | None = None


class SpawnSettings(Value):
    """What a configuration says of sub-agents: for each agent, and the defaults."""

    defaults: SubagentSettings = SubagentSettings()
    agents: tuple[tuple[str, SubagentSettings], ...] = ()

    @classmethod
    def from_json(cls, config: Mapping[str, Any] | None) -> Self:
        """Read `agents.defaults.subagents` and each `agents.list[].subagents`.

        >>> settings = SpawnSettings.from_json({"agents": {"list": [{"id": "Main", "subagents": {"allowAgents": ["beta"]}}]}})
        >>> settings.of("main").allow_agents
        ('beta',)
        """
        agents = section(section(config, "configuration").get("agents"), "agents")
        defaults = section(agents.get("defaults"), "agents.defaults")
        return cls(
            defaults=_subagents(defaults.get("subagents"), "agents.defaults.subagents"),
            agents=tuple(_listed_agents(agents.get("list"))),
        )

    def of(self, agent_id: str | None) -> SubagentSettings:
        """Return what is configured for an agent itself, without the defaults."""
        name = normalize_agent_id(agent_id)
        return next((settings for known, settings in self.agents if known == name), SubagentSettings())

    def model_for(self, agent_id: str | None, parameter: str | None = None) -> str | None:
        """Return the model of an agent's sub-agent: the parameter, else the agent's, else the default; None for none."""
        return choose_model(parameter, self.of(agent_id).model, self.defaults.model)


def _listed_agents(value: Any) -> Iterator[tuple[str, SubagentSettings]]:
    for place, one in enumerate(listed(value, "agents.list")):
        agent = section(one, f"agents.list[{place}]")
        name = normalize_agent_id(text(agent.get("id"), f"agents.list[{place}].id"))
        yield name, _subagents(agent.get("subagents"), f"agents.list[{place}].subagents")


def _subagents(value: Any, path: str) -> SubagentSettings:
    fields = section(value, path)
    allowed = listed(fields.get("allowAgents"), f"{path}.allowAgents")
    minutes = number(fields.get("archiveAfterMinutes"), f"{path}.archiveAfterMinutes")
    most = number(fields.get("maxConcurrent"), f"{path}.maxConcurrent")
    return SubagentSettings(
        allow_agents=tuple(text(one, f"{path}.allowAgents[{place}]") or "" for place, one in enumerate(allowed)),
        model=model_selection(fields.get("model"), f"{path}.model"),
        thinking=trim(text(fields.get("thinking"), f"{path}.thinking")) or None,
        archive_after_minutes=None if minutes is None else float(minutes),
        max_concurrent=None if most is None or not math.isfinite(most) else max(1, math.floor(most)),
    )


def model_selection(value: Any, path: str = "model") -> str | None:
    """Return a configured model: a text, or an object's `primary`; None for none.

    >>> model_selection({"primary": "openai/gpt-5.2"}), model_selection("  ")
    ('openai/gpt-5.2', None)
    """
    if isinstance(value, Mapping):
        return trim(text(value.get("primary"), f"{path}.primary")) or None
    return trim(text(value, path)) or None


def choose_model(parameter: str | None, agent: str | None, default: str | None) -> str | None:
    """Return the model that counts: what was asked for, else the agent's, else the default; None where none is set.

    >>> choose_model(None, " small ", "large"), choose_model("", None, None) is None
    ('small', True)
    """
    return next((found for found in map(trim, (parameter, agent, default)) if found), None)


def spawn_target(
    requester_key: str | None, agent_id: str | None = None, *, settings: SpawnSettings | None = None
) -> str:
    """Return the agent that a session may start a sub-agent of, or raise `RequestRefused` with the code FORBIDDEN.

    No sub-agent starts another, at any depth. Without `agent_id` it is the requester's own agent; another one must be in
    the requester's agent's `allowAgents`.

    >>> spawn_target("agent:ops:main")
    'ops'
    >>> spawn_target("agent:ops:subagent:1")
    Traceback (most recent call last):
    trails.errors.RequestRefused: sessions_spawn is not allowed from sub-agent sessions
    """
    if not may_spawn(requester_key):
        raise RequestRefused("sessions_spawn is not allowed from sub-agent sessions", code="FORBIDDEN")
    requester = agent_id_from_key(requester_key)
    target = normalize_agent_id(agent_id) if trim(agent_id) else requester
    allowed = [trim(one) for one in (settings or SpawnSettings()).of(requester).allow_agents if trim(one)]
    names = list(dict.fromkeys(normalize_agent_id(one) for one in allowed if one != "*"))
    if target != requester and "*" not in allowed and target not in names:
        told = ", ".join(names) or "none"
        raise RequestRefused(f"agentId is not allowed for sessions_spawn (allowed: {told})", code="FORBIDDEN")
    return target


def ping_pong_turns(value: object) -> int:
    """Return how many turns two agents may answer each other: floored, 0 to 5; 5 for what is no finite number.

    >>> ping_pong_turns(None), ping_pong_turns(2.9), ping_pong_turns(99), ping_pong_turns(-1), ping_pong_turns("3")
    (5, 2, 5, 0, 5)
    """
    return (
        max(0, min(MAX_PING_PONG_TURNS, math.floor(cast("float", value)))) if is_number(value) else MAX_PING_PONG_TURNS
    )


def is_reply_skip(reply: str | None) -> bool:
    """Tell whether an agent's answer ends the exchange: it is exactly REPLY_SKIP."""
    return trim(reply) == REPLY_SKIP


def is_announce_skip(reply: str | None) -> bool:
    """Tell whether an agent wants nothing posted: its answer is exactly ANNOUNCE_SKIP."""
    return trim(reply) == ANNOUNCE_SKIP


def ends_ping_pong(reply: str | None) -> bool:
    """Tell whether an exchange of two agents ends with this answer: it is empty, or REPLY_SKIP.

    >>> ends_ping_pong(""), ends_ping_pong(" REPLY_SKIP "), ends_ping_pong("REPLY_SKIP it")
    (True, True, False)
    """
    return not trim(reply) or is_reply_skip(reply)


class PingPongTurn(NamedTuple):
    """One turn of an exchange, from 1: who answers, in which session, and to whom."""

    number: int
    role: Literal["requester", "target"]
    session_key: str
    partner_key: str


def ping_pong_order(requester_key: str | None, target_key: str, turns: int) -> tuple[PingPongTurn, ...]:
    """Return who answers when, after the target's first reply: the requester begins, and the roles swap each turn.

    There are none without a requester, or where it is the target.

    >>> [turn.role for turn in ping_pong_order("agent:a:main", "agent:b:main", 3)]
    ['requester', 'target', 'requester']
    >>> ping_pong_order("agent:a:main", "agent:a:main", 3)
    ()
    """
    if not requester_key or requester_key == target_key:
        return ()
    return tuple(
        PingPongTurn(number, "requester", requester_key, target_key)
        if number % 2
        else PingPongTurn(number, "target", target_key, requester_key)
        for number in range(1, ping_pong_turns(turns) + 1)
    )
