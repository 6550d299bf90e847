"""What a host supplies, and what it is given: its model's steps, announcements, texts for channels, a configuration."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from uuid import uuid4

from trails.model.values import Turn
from trails.rdf.ledger_records import Event
from trails.rdf.subagent_records import Run, RunOrigin, SpawnMode
from trails.runtime.config_values import Section
from trails.runtime.keys import KeySettings
from trails.runtime.ledger.exchanges import Running
from trails.runtime.policy.entry_patches import ModelHost
from trails.runtime.policy.send_policy import SendPolicy
from trails.runtime.policy.subagents import AgentToAgentPolicy, SpawnSettings, SubagentBrief, subagent_prompt
from trails.runtime.runs.lanes import Lane
from trails.session.session import Session

Interrupted = Literal["fail", "retry", "refuse"]
"""What becomes of work that was under way when its process died."""


class Step:
    """One piece of a model's work in a session: what a host's `agent` gets.

    `session` has all that is stored, with the messages as its last turns. What the agent returns, unless None, is
    appended as its answer; what it does before that it appends with `append`.
    """

    def __init__(self, running: Running, lane: Lane, key: str, context: WorkContext, run: Run | None) -> None:
        """Not for callers."""
        self.running = running
        self.lane: Lane = lane
        self.session_key = key
        self.run = run
        """The run, where this is a sub-agent's work on its task."""
        self.system = context.system
        """What the model is told beside the session's own system prompt."""
        self.model = context.model
        """The model that was asked for; None for the session's usual one."""
        self.thinking = context.thinking
        self.timeout_seconds = context.timeout_seconds
        """How long it may take; 0 for as long as it likes."""
        self.cancelled = threading.Event()
        """Set once its time is up: the agent should stop."""

    def __repr__(self) -> str:
        return f"<Step {self.session_key[:60]!r}: {len(self.messages)} messages>"

    @property
    def session(self) -> Session:
        """The session, with the messages as its last turns."""
        return self.running.session

    @property
    def messages(self) -> tuple[Event, ...]:
        """The messages that this step answers."""
        return self.running.messages

    def append(self, role: str, content: str | Sequence[Any], **recorded: Any) -> Turn:
        """Append a turn to the session, as `Session.append` does."""
        return self.running.append(role, content, **recorded)

    def steered(self) -> tuple[Event, ...]:
        """Take up what was steered in meanwhile: append it as turns, and return it. An agent asks between its steps."""
        return self.running.steered()


Answer = str | Sequence[Any] | None
Agent = Callable[[Step], Answer | Awaitable[Answer]]
"""A host's model: a function, or a coroutine function."""


@dataclass(frozen=True, slots=True)
class Announcement:
    """Word to a session that one of its runs ended: in its inbox already, and now for the host to act on.

    The same announcement comes again after a failure (an exception, or False returned) or a crash, with the same
    `idempotency_key`.
    """

    run: Run
    how: SpawnMode
    session_id: str
    session_key: str
    event: Event
    text: str | None
    origin: RunOrigin
    idempotency_key: str


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A text for a channel. `idempotency_key` is the same whenever it is sent again."""

    channel: str
    to: str
    text: str
    session_key: str
    idempotency_key: str
    account_id: str | None = None
    thread_id: str | int | None = None


Waiter = Callable[[str, float], Mapping[str, Any] | None]
"""Waits up to some seconds for a run in another process, and returns its `status` (ok, error, or timeout for not yet) and, where
known, `startedAt`, `endedAt` (milliseconds since 1970) and `error`."""


def uuid() -> str:
    return str(uuid4())


@dataclass(frozen=True, slots=True)
class Host:
    """What a host supplies. Everything but a store may be left out."""

    agent: Agent | None = None
    announce: Callable[[Announcement], object] | None = None
    """Tells a requester; one that raises or returns False (nothing else does) is called again later."""
    wait: Waiter | None = None
    send: Callable[[Outgoing], object] | None = None
    active: Callable[[str], bool] | None = None
    models: ModelHost | None = None
    prompt: Callable[[SubagentBrief], str] = subagent_prompt
    new_id: Callable[[], str] = uuid


@dataclass(frozen=True, slots=True)
class Settings:
    """What a configuration says of runs, read and checked once."""

    keys: KeySettings
    spawn: SpawnSettings
    agents: AgentToAgentPolicy
    send: SendPolicy | None
    ping_pong: object
    queue_mode: str
    queue_modes: Mapping[str, str]
    sandbox_sees_all: bool

    @classmethod
    def from_json(cls, config: Mapping[str, Any] | None) -> Settings:
        """Read a configuration; what is wrong raises `InvalidInput` with its path."""
        root = Section(config)
        session = root.section("session")
        queue = root.section("messages").section("queue")
        sandbox = root.section("agents").section("defaults").section("sandbox")
        return cls(
            keys=KeySettings.from_json(root.fields),
            spawn=SpawnSettings.from_json(root.fields),
            agents=AgentToAgentPolicy.from_json(root.section("tools").get("agentToAgent")),
            send=SendPolicy.from_json(session.get("sendPolicy")),
            ping_pong=session.section("agentToAgent").get("maxPingPongTurns"),
            queue_mode=str(queue.get("mode") or "collect"),
            queue_modes={str(name): str(mode) for name, mode in queue.section("byChannel").fields.items()},
            sandbox_sees_all=sandbox.get("sessionToolsVisibility") == "all",
        )


@dataclass(slots=True)
class WorkContext:
    """What the work on a message goes by, beside the message itself."""

    lane: Lane = "main"
    system: str | None = None
    model: str | None = None
    thinking: str | None = None
    timeout_seconds: int = 0
