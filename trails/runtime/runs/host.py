"""What a host supplies to runs, and the lanes in which work waits.

Lanes limit how much work of a kind goes on at once, so that sub-agents never keep the main agent waiting. `Lanes` starts
no thread: it says what may begin now. `LaneThreads` and `drain_wide` work on it with threads.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Self, get_args
from uuid import uuid4

from trails.errors import InvalidInput
from trails.model import validation
from trails.model.values import Turn
from trails.rdf.ledger_records import Event
from trails.rdf.subagent_records import Run, RunOrigin, SpawnMode
from trails.runtime.config_values import Section
from trails.runtime.message_exchanges import Running
from trails.runtime.policy.session_entry import ModelHost
from trails.runtime.policy.subagents import SpawnSettings, SubagentBrief, subagent_prompt
from trails.runtime.routing.key_directory import RouterSettings
from trails.session import Session

Lane = Literal["main", "subagent", "nested"]
"""Where work goes on: answers to people, sub-agents' runs, and steps that sessions ask of one another."""
LANES: Final[tuple[Lane, ...]] = get_args(Lane)
DEFAULT_LIMITS: Final[Mapping[Lane, int]] = {"main": 4, "subagent": 8, "nested": 1}

Job = Callable[[], object]
_report = logging.getLogger("trails.runtime.runs")


@dataclass(frozen=True, slots=True)
class Ticket:
    """A piece of work that has its place in a lane: `run` does it, once, and gives the place back."""

    lanes: Lanes
    lane: Lane
    job: Job

    def run(self) -> None:
        """Do the work on this thread.

        What it raises is raised.
        """
        try:
            self.job()
        finally:
            self.lanes.leave(self.lane)


class Lanes:
    """Work that waits in lanes, first come first served in each, and how much of it goes on.

    >>> lanes = Lanes({"subagent": 1})
    >>> for name in ("a", "b"):
    ...     lanes.submit("subagent", lambda name=name: print(name))
    >>> first = lanes.take()
    >>> lanes.take() is None, lanes.active("subagent"), lanes.waiting("subagent")
    (True, 1, 1)
    >>> first.run()
    a
    >>> lanes.drain()
    b
    1
    """

    def __init__(self, limits: Mapping[Lane, int] | None = None) -> None:
        """Make lanes with limits, 1 or more each.

        Those left out have the usual ones: main 4, subagent 8, nested 1.
        """
        self._limits = dict(DEFAULT_LIMITS)
        for lane, limit in (limits or {}).items():
            if lane not in LANES:
                raise InvalidInput(f"a lane is one of {', '.join(LANES)}, not {lane!r}")
            if validation.index(limit, f"the limit of the lane {lane}") < 1:
                raise InvalidInput(f"the limit of the lane {lane} must be 1 or more, not {limit}")
            self._limits[lane] = limit
        self._lock = threading.Lock()
        self._queues: dict[Lane, deque[Job]] = {lane: deque() for lane in LANES}
        self._active: dict[Lane, int] = dict.fromkeys(LANES, 0)
        self.listener: Callable[[Lane], None] | None = None
        """Called when work of a lane may begin."""

    def limit(self, lane: Lane) -> int:
        """Return how many pieces of work may go on in a lane at once."""
        return self._limits[lane]

    def active(self, lane: Lane) -> int:
        """Return how many pieces of work go on in a lane."""
        return self._active[lane]

    def waiting(self, lane: Lane) -> int:
        """Return how many pieces of work wait in a lane."""
        return len(self._queues[lane])

    def submit(self, lane: Lane, job: Job) -> None:
        """Let a piece of work wait in a lane."""
        with self._lock:
            self._queues[lane].append(job)
        self._tell(lane)

    def take(self, lanes: Collection[Lane] = LANES) -> Ticket | None:
        """Return the next piece of work that may begin, its place taken.

        None if nothing may. Main goes first.
        """
        with self._lock:
            for lane in LANES:
                if lane in lanes and self._queues[lane] and self._active[lane] < self._limits[lane]:
                    self._active[lane] += 1
                    return Ticket(self, lane, self._queues[lane].popleft())
        return None

    def leave(self, lane: Lane) -> None:
        """Give a place in a lane back."""
        with self._lock:
            self._active[lane] -= 1
            more = bool(self._queues[lane])
        if more:
            self._tell(lane)

    def _tell(self, lane: Lane) -> None:
        listener = self.listener
        if listener is not None:
            listener(lane)

    def drain(self, limit: int | None = None, lanes: Collection[Lane] = LANES) -> int:
        """Work on what may begin, one after the other on this thread, until nothing may; return how many were done."""
        done = 0
        while (limit is None or done < limit) and (ticket := self.take(lanes)) is not None:
            ticket.run()
            done += 1
        return done

    def drain_wide(self, stopped: Callable[[], bool] = lambda: False) -> int:
        """Do the same with as many at once as the lanes let, on threads; return once nothing is left, or it is `stopped`."""
        with LaneThreads(self, stopped) as threads:
            threads.wait_until_idle()
        if threads.error is not None:
            raise threads.error
        return threads.done


class LaneThreads:
    """Threads that work on what comes into lanes, until `close`.

    Also a context manager.

    Each lane has threads of its own, as many as its limit at most, so that a full one keeps no other waiting. What a
    piece of work raises is logged, and the last one is in `error`. Nothing more begins once `stopped` says so.
    """

    def __init__(self, lanes: Lanes, stopped: Callable[[], bool] = lambda: False) -> None:
        """Begin to work on lanes, which no other threads work on."""
        if lanes.listener is not None:
            raise InvalidInput("threads or an event loop work on these lanes already")
        self._lanes = lanes
        self._stopped = stopped
        self._pools = {
            lane: ThreadPoolExecutor(max_workers=lanes.limit(lane), thread_name_prefix=f"trails-{lane}")
            for lane in LANES
        }
        self._idle = threading.Condition()
        self.done = 0
        """How many pieces of work were done."""
        self.error: BaseException | None = None
        """What the last piece of work that failed raised."""
        lanes.listener = self._wake
        for lane in LANES:
            for _ in range(lanes.waiting(lane)):
                self._wake(lane)

    def _wake(self, lane: Lane) -> None:
        with contextlib.suppress(RuntimeError):  # closed meanwhile: what waits stays where it is
            self._pools[lane].submit(copy_context().run, self._work, lane)

    def _work(self, lane: Lane) -> None:
        ticket = None if self._stopped() else self._lanes.take([lane])
        error: BaseException | None = None
        try:
            if ticket is not None:
                ticket.run()
        except BaseException as failure:  # noqa: BLE001 - a thread has nobody to raise it to, whatever it is
            error = failure
            _report.exception("work in the lane %s failed", lane)
        with self._idle:
            self.done += ticket is not None
            self.error = error or self.error
            self._idle.notify_all()

    def wait_until_idle(self) -> None:
        """Return once nothing goes on, and nothing waits that may begin."""

        def is_idle() -> bool:
            waits = any(self._lanes.waiting(lane) for lane in LANES) and not self._stopped()
            return not waits and not any(self._lanes.active(lane) for lane in LANES)

        with self._idle:
            self._idle.wait_for(is_idle)

    def close(self) -> None:
        """Take up no more, and return once what goes on has ended.

        What waits stays where it is.
        """
        self._lanes.listener = None
        for pool in self._pools.values():
            pool.shutdown(wait=True, cancel_futures=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


Interrupted = Literal["fail", "retry", "refuse"]
"""What becomes of work that was under way when its process died."""


@dataclass(slots=True, kw_only=True)
class WorkContext:
    """What the work on a message goes by, beside the message itself."""

    lane: Lane = "main"
    system: str | None = None
    """What the model is told beside the session's own system prompt."""
    model: str | None = None
    """The model that was asked for; None for the session's usual one."""
    thinking: str | None = None
    timeout_seconds: int = 0
    """How long it may take; 0 for as long as it likes."""


@dataclass(slots=True, kw_only=True, repr=False, eq=False)
class Step(WorkContext):
    """One piece of a model's work in a session: what a host's `agent` gets.

    `session` has all that is stored, with the messages as its last turns. What the agent returns, unless None, is
    appended as its answer; what it does before that it appends with `append`.
    """

    running: Running
    """The exchange that is being worked on."""
    session_key: str
    run: Run | None
    """The run, if this is a sub-agent's work on its task."""
    cancelled: threading.Event = field(default_factory=threading.Event)
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
    """A text for a channel.

    `idempotency_key` is the same whenever it is sent again.
    """

    channel: str
    to: str
    text: str
    session_key: str
    idempotency_key: str
    account_id: str | None = None
    thread_id: str | int | None = None


Waiter = Callable[[str, float], Mapping[str, Any] | None]
"""Waits up to some seconds for a run in another process, and returns its `status` (ok, error, or timeout for not yet) and, if
known, `startedAt`, `endedAt` (milliseconds since 1970) and `error`."""


def uuid() -> str:
    return str(uuid4())


@dataclass(frozen=True, slots=True)
class Host:
    """What a host supplies.

    Everything but a store may be left out.
    """

    agent: Agent | None = None
    announce: Callable[[Announcement], object] | None = None
    """Tells a requester; one that raises or returns False (nothing else does) is called again later."""
    wait: Waiter | None = None
    send: Callable[[Outgoing], object] | None = None
    active: Callable[[str], bool] | None = None
    models: ModelHost | None = None
    prompt: Callable[[SubagentBrief], str] = subagent_prompt
    new_id: Callable[[], str] = uuid


class Settings(RouterSettings):
    """What a configuration says of runs, read and checked once."""

    spawn: SpawnSettings = SpawnSettings()
    ping_pong: object = None
    queue_mode: str = "collect"
    queue_modes: Mapping[str, str] = {}
    sandbox_sees_all: bool = False

    @classmethod
    def from_json(cls, config: Mapping[str, Any] | None, **options: Any) -> Self:
        """Read a configuration.

        What is wrong raises `InvalidInput` with its path.
        """
        root = Section(config)
        queue = root.section("messages").section("queue")
        sandbox = root.section("agents").section("defaults").section("sandbox")
        settings = super().from_json(root.fields, **options)
        return settings.model_copy(
            update={
                "spawn": SpawnSettings.from_json(root.fields),
                "ping_pong": root.section("session").section("agentToAgent").get("maxPingPongTurns"),
                "queue_mode": str(queue.get("mode") or "collect"),
                "queue_modes": {str(name): str(mode) for name, mode in queue.section("byChannel").fields.items()},
                "sandbox_sees_all": sandbox.get("sessionToolsVisibility") == "all",
            }
        )
