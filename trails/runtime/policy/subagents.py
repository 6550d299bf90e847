"""Rules and prompts for agents that spawn sub-agents or message each other."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import Final, Literal, NamedTuple, Self

from trails.errors import InvalidInput, RequestRefused
from trails.model.values import Value
from trails.runtime.config_values import Json, Section, is_number, js_text, single_spaced, trim
from trails.runtime.keys.session_key import agent_id_from_key, may_spawn, normalize_agent_id

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
    def from_json(cls, value: Json | None) -> Self:
        """Read `tools.agentToAgent`: enabled by `true` alone.

        An `allow` that is no list is an empty one, as documented.
        """
        fields = Section(value, "tools.agentToAgent")
        allow = fields.get("allow")
        patterns = allow if isinstance(allow, (list, tuple)) else ()
        return cls(enabled=fields.get("enabled") is True, allow=tuple(trim(js_text(each)) for each in patterns))

    def matches(self, agent_id: str) -> bool:
        """Return whether an agent is named by the patterns, or there are none."""
        return not self.allow or any(matches_pattern(pattern, agent_id) for pattern in self.allow)

    def allows(self, requester: str, target: str) -> bool:
        """Return whether one agent may send to another: both must be named."""
        return requester == target or (self.enabled and self.matches(requester) and self.matches(target))


def matches_pattern(pattern: str, agent_id: str) -> bool:
    """Return whether an agent's id fits a pattern: exact, with case.

    With `*` for any run of characters, without case.

    >>> matches_pattern("Work-*", "work-1"), matches_pattern("Work", "work"), matches_pattern("", "work")
    (True, False, False)
    """
    if "*" not in pattern:
        return bool(pattern) and pattern == agent_id
    return bool(re.fullmatch(".*".join(map(re.escape, pattern.lower().split("*"))), agent_id.lower(), re.DOTALL))


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
    def from_json(cls, config: Json | None) -> Self:
        """Read `agents.defaults.subagents` and each `agents.list[].subagents`.

        >>> settings = SpawnSettings.from_json({"agents": {"list": [{"id": "Main", "subagents": {"allowAgents": ["beta"]}}]}})
        >>> settings.of("main").allow_agents
        ('beta',)
        """
        agents = Section(config).section("agents")
        return cls(
            defaults=_subagents(agents.section("defaults").section("subagents")),
            agents=tuple(
                (normalize_agent_id(agent.text("id")), _subagents(agent.section("subagents")))
                for agent in agents.sections("list")
            ),
        )

    def of(self, agent_id: str | None) -> SubagentSettings:
        """Return what is configured for an agent itself, without the defaults."""
        name = normalize_agent_id(agent_id)
        return next((settings for known, settings in self.agents if known == name), SubagentSettings())

    def model_for(self, agent_id: str | None, parameter: str | None = None) -> str | None:
        """Return the model of an agent's sub-agent: the parameter, else the agent's, else the default; None for none."""
        return choose_model(parameter, self.of(agent_id).model, self.defaults.model)


def _subagents(fields: Section) -> SubagentSettings:
    allowed = []
    for path, agent in fields.items("allowAgents"):
        if not isinstance(agent, str):
            raise InvalidInput(f"{path} must be a text, not {type(agent).__name__}")
        allowed.append(agent)
    minutes, most = fields.number("archiveAfterMinutes"), fields.number("maxConcurrent")
    model = fields.get("model")
    return SubagentSettings(
        allow_agents=tuple(allowed),
        model=trim(fields.section("model").text("primary") if isinstance(model, Mapping) else fields.text("model"))
        or None,
        thinking=trim(fields.text("thinking")) or None,
        archive_after_minutes=None if minutes is None else float(minutes),
        max_concurrent=None if most is None or not math.isfinite(most) else max(1, math.floor(most)),
    )


def choose_model(parameter: str | None, agent: str | None, default: str | None) -> str | None:
    """Return the model that counts: what was asked for, else the agent's, else the default; None if none is set.

    >>> choose_model(None, " small ", "large"), choose_model("", None, None) is None
    ('small', True)
    """
    return next((model for model in map(trim, (parameter, agent, default)) if model), None)


def spawn_target(
    requester_key: str | None, agent_id: str | None = None, *, settings: SpawnSettings | None = None
) -> str:
    """Return the agent that a session may start a sub-agent of.

    Raise `RequestRefused` with the code FORBIDDEN.

    No sub-agent starts another, at any depth. Without `agent_id` it is the requester's own agent; another one must be in
    the requester's agent's `allowAgents`.

    >>> spawn_target("agent:ops:main")
    'ops'
    >>> spawn_target("agent:ops:subagent:1")
    Traceback (most recent call last):
    trails.errors.RequestRefused: sessions_spawn is not allowed from sub-agent sessions (trails guide errors/request-refused)
    """
    if not may_spawn(requester_key):
        raise RequestRefused("sessions_spawn is not allowed from sub-agent sessions", code="FORBIDDEN")
    requester = agent_id_from_key(requester_key)
    target = normalize_agent_id(agent_id) if trim(agent_id) else requester
    allowed = [trim(one) for one in (settings or SpawnSettings()).of(requester).allow_agents if trim(one)]
    names = list(dict.fromkeys(normalize_agent_id(one) for one in allowed if one != "*"))
    if target != requester and "*" not in allowed and target not in names:
        listed = ", ".join(names) or "none"
        raise RequestRefused(f"agentId is not allowed for sessions_spawn (allowed: {listed})", code="FORBIDDEN")
    return target


def ping_pong_turns(value: object) -> int:
    """Return how many turns two agents may answer each other: floored, 0 to 5; 5 for what is no finite number.

    >>> ping_pong_turns(None), ping_pong_turns(2.9), ping_pong_turns(99), ping_pong_turns(-1), ping_pong_turns("3")
    (5, 2, 5, 0, 5)
    """
    return max(0, min(MAX_PING_PONG_TURNS, math.floor(value))) if is_number(value) else MAX_PING_PONG_TURNS


def is_reply_skip(reply: str | None) -> bool:
    """Return whether an agent's answer ends the exchange: it is exactly REPLY_SKIP."""
    return trim(reply) == REPLY_SKIP


def is_announce_skip(reply: str | None) -> bool:
    """Return whether an agent wants nothing posted: its answer is exactly ANNOUNCE_SKIP."""
    return trim(reply) == ANNOUNCE_SKIP


def ends_ping_pong(reply: str | None) -> bool:
    """Return whether an exchange of two agents ends with this answer: it is empty, or REPLY_SKIP.

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

    There are none without a requester, or if it is the target.

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


DEFAULT_TASK: Final = "the task that you are given in the first message"


class SubagentBrief(Value):
    """What a sub-agent's prompt is made of."""

    task: str | None = None
    child_session_key: str
    requester_session_key: str | None = None
    requester_channel: str | None = None
    label: str | None = None

    @property
    def task_text(self) -> str:
        """The task on one line."""
        return single_spaced(self.task or "") or DEFAULT_TASK


_PROMPT: Final = Template(Path(__file__).with_name("subagent_prompt.txt").read_text("utf-8").rstrip())


def subagent_prompt(brief: SubagentBrief) -> str:
    """Return the system prompt of a sub-agent.

    >>> print(subagent_prompt(SubagentBrief(task="Find trains", child_session_key="agent:main:subagent:1")))
    # Subagent Context
    <BLANKLINE>
    You are a **subagent** spawned by the main agent.
    <BLANKLINE>
    ## Your Role
    - You were created to handle: Find trains
    ...
    ## Session Context
    - Your session: agent:main:subagent:1
    """
    facts = {
        "Label": trim(brief.label),
        "Requester session": brief.requester_session_key,
        "Requester channel": brief.requester_channel,
        "Your session": brief.child_session_key,
    }
    session = "\n".join(f"- {name}: {value}" for name, value in facts.items() if value)
    return _PROMPT.substitute(task=brief.task_text, session=session)


class Parties(Value):
    """Two agents that talk: who asked, who was asked, and the channels on which they are heard."""

    target_session_key: str
    requester_session_key: str | None = None
    requester_channel: str | None = None
    target_channel: str | None = None


def message_context(exchange: Parties) -> str:
    """Return what an agent is told with the first message of another agent."""
    return "\n".join(["Agent-to-agent message:", *_parties(exchange, target_channel=False)])


def reply_context(exchange: Parties, *, role: Literal["requester", "target"], turn: int, turns: int) -> str:
    """Return what an agent is told for one turn of an exchange, from 1 to `turns`: whose it is, and how to end it.

    >>> print(reply_context(Parties(target_session_key="agent:b:main"), role="target", turn=2, turns=5))
    Agent-to-agent reply:
    You are agent 2 (target). This is turn 2 of 5.
    Agent 2 (target) session: agent:b:main.
    To end the exchange, reply exactly "REPLY_SKIP".
    """
    you = "agent 1 (requester)" if role == "requester" else "agent 2 (target)"
    return "\n".join(
        [
            "Agent-to-agent reply:",
            f"You are {you}. This is turn {turn} of {turns}.",
            *_parties(exchange),
            f'To end the exchange, reply exactly "{REPLY_SKIP}".',
        ]
    )


def announce_context(
    exchange: Parties, *, original: str, first_reply: str | None = None, latest_reply: str | None = None
) -> str:
    """Return what the target is told at the end: its answer is posted to its channel, unless it is ANNOUNCE_SKIP."""
    return "\n".join(
        [
            "Agent-to-agent announcement:",
            *_parties(exchange),
            f"Original request: {original}",
            f"First reply: {trim(first_reply) or '(not available)'}",
            f"Latest reply: {trim(latest_reply) or '(not available)'}",
            f'To stay silent, reply exactly "{ANNOUNCE_SKIP}".',
            "Any other reply is posted to the target's channel, and the exchange is over.",
        ]
    )


def _parties(exchange: Parties, *, target_channel: bool = True) -> list[str]:
    lines = [
        ("Agent 1 (requester) session", exchange.requester_session_key),
        ("Agent 1 (requester) channel", exchange.requester_channel),
        ("Agent 2 (target) session", exchange.target_session_key),
        ("Agent 2 (target) channel", exchange.target_channel if target_channel else None),
    ]
    return [f"{what}: {who}." for what, who in lines if who]
