"""The system prompt of a sub-agent, and what two agents are told that talk to each other. Every part can be replaced."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, Literal

from trails.keys.script import single_spaced, trim
from trails.model import Value
from trails.policy.agents import ANNOUNCE_SKIP, REPLY_SKIP

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


Part = Callable[[SubagentBrief], str | None]
"""Returns one part of a prompt, or None to leave it out."""


def _context(brief: SubagentBrief) -> str:
    return "# Subagent Context\n\nYou are a **subagent** spawned by the main agent."


def _role(brief: SubagentBrief) -> str:
    return (
        "## Your Role\n"
        f"- You were created to handle: {brief.task_text}\n"
        "- Complete this task. That's your entire purpose.\n"
        "- You are not the main agent. Do not act in its place."
    )


def _rules(brief: SubagentBrief) -> str:
    return (
        "## Rules\n"
        "1. Stay focused - Do your assigned task, nothing else\n"
        "2. Complete the task - Your final message will be reported to the main agent\n"
        "3. Don't initiate - No heartbeats, no proactive actions, no side quests\n"
        "4. Be short-lived - Your session may end once the task is complete"
    )


def _output(brief: SubagentBrief) -> str:
    return (
        "## Output\n"
        "Your final message should say:\n"
        "- What you did or found\n"
        "- What the main agent needs to know of it\n"
        "Keep it short, and leave nothing important out."
    )


def _limits(brief: SubagentBrief) -> str:
    return (
        "## What you do not do\n"
        "- You do not talk to the user; that is the main agent's work\n"
        "- You do not send messages to others unless the task asks for it and names them\n"
        "- You do not create scheduled jobs or lasting state\n"
        "- You do not start sub-agents"
    )


def _session(brief: SubagentBrief) -> str:
    lines = [
        f"- Label: {trim(brief.label)}" if trim(brief.label) else None,
        f"- Requester session: {brief.requester_session_key}" if brief.requester_session_key else None,
        f"- Requester channel: {brief.requester_channel}" if brief.requester_channel else None,
        f"- Your session: {brief.child_session_key}",
    ]
    return "\n".join(["## Session Context", *(line for line in lines if line)])


PROMPT_PARTS: Final[Mapping[str, Part | None]] = MappingProxyType(
    {
        "context": _context,
        "role": _role,
        "rules": _rules,
        "output": _output,
        "limits": _limits,
        "session": _session,
    }
)
"""The parts by name, in their order."""


def subagent_prompt(brief: SubagentBrief, *, parts: Mapping[str, Part | None] | None = None) -> str:
    """Return the system prompt of a sub-agent.

    `parts` replaces parts by their names (`PROMPT_PARTS`), leaves out those that are None, and adds others at the end.

    >>> brief = SubagentBrief(task="Find trains", child_session_key="agent:main:subagent:1")
    >>> print(subagent_prompt(brief, parts={"rules": lambda brief: "Be quick.", "role": None, "output": None, "limits": None}))
    # Subagent Context
    <BLANKLINE>
    You are a **subagent** spawned by the main agent.
    <BLANKLINE>
    Be quick.
    <BLANKLINE>
    ## Session Context
    - Your session: agent:main:subagent:1
    """
    made = (part(brief) for part in {**PROMPT_PARTS, **(parts or {})}.values() if part is not None)
    return "\n\n".join(text for text in made if text)


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
