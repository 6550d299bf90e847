"""The public handle on the sub-agent runs of a store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from trails.errors import InvalidInput
from trails.handles import Handle
from trails.history.records import subagent_runs
from trails.model import validation
from trails.rdf.subagent_records import Cleanup, Run, RunStatus
from trails.runtime.config_values import moment_of
from trails.runtime.policy.run_rules import SpawnRequest
from trails.runtime.policy.session_entry import ModelHost
from trails.runtime.policy.subagents import SubagentBrief, subagent_prompt
from trails.runtime.runs import agent_tools, run_registry
from trails.runtime.runs.agent_tools import DEFAULT_TIMEOUT, SendRequest, Sent, Spawned
from trails.runtime.runs.host import (
    Agent,
    Announcement,
    Host,
    Interrupted,
    Lane,
    Lanes,
    LaneThreads,
    Outgoing,
    Settings,
    Waiter,
    uuid,
)
from trails.runtime.runs.run_announcements import Ticked, Upkeep
from trails.runtime.runs.run_engine import Engine
from trails.runtime.runs.run_registry import Imported
from trails.runtime.timer import Clock, Ticking, Wait
from trails.session import Repository, opened


class Runs(Handle, public=True):
    """Sub-agents' runs over a store: started, followed, announced to whoever asked for them, and cleaned up.

    All of it is stored and survives the process. The host supplies the model (`agent`) and the clock, and says when to
    work: `work`, `work_wide` or `threads` for what waits in the lanes, `tick` for what time brings.

    >>> import trails
    >>> def agent(step):
    ...     return "Two trains an hour." if step.run else "I have looked: two an hour."
    >>> with trails.open(":memory:") as store:
    ...     runs = trails.Runs(store, agent=agent)
    ...     answer = runs.spawn("agent:main:main", "How often do trains go?")
    ...     done = runs.work()
    ...     run = runs.get(answer.run_id)
    ...     told, said = store.load(runs.session_of("agent:main:main")).turns
    ...     answer.status, run.state, run.outcome, said.content
    ('accepted', 'done', 'ok', 'I have looked: two an hour.')
    >>> print(told.content.splitlines()[0])
    A background task "How often do trains go?" just completed successfully.
    """

    def __init__(
        self,
        store: Repository,
        *,
        agent: Agent | None = None,
        announce: Callable[[Announcement], object] | None = None,
        wait: Waiter | None = None,
        send: Callable[[Outgoing], object] | None = None,
        active: Callable[[str], bool] | None = None,
        models: ModelHost | None = None,
        prompt: Callable[[SubagentBrief], str] = subagent_prompt,
        config: Mapping[str, Any] | None = None,
        lanes: Mapping[Lane, int] | None = None,
        clock: Clock | None = None,
        interrupted: Interrupted = "fail",
        new_id: Callable[[], str] = uuid,
    ) -> None:
        """Open the registry of runs of a store.

        Nothing is done before `recover`, `tick` or a spawn.

        `agent` answers for a model: it gets a `Step`, and its answer is appended; without it, runs go on elsewhere, and
        `on_event` or `wait` tells how they end. `wait(run id, seconds)` asks for a run in another process. `announce` is
        called once an announcement stands in the requester's inbox, and again later if it raises or returns False; without
        it, `agent` answers there, in the main lane.
        `send` posts to a channel. `active(session id)` tells whether a session is at work; by default, as the ledger knows.
        `models` checks models, `prompt` builds the sub-agents' system prompt. `config` is a configuration as of the systems
        of session keys: `agents`, `session`, `tools`, `messages`. `lanes` are limits: main 4, subagent 8 (or the
        configuration's `agents.defaults.subagents.maxConcurrent`), nested 1. `clock` gives the time (aware). `interrupted`
        says what becomes of work that was under way when its process died: "fail", "retry", or "refuse".

        Raises `InvalidInput` for a configuration that cannot be read, with the path of what is wrong.
        """
        if interrupted not in ("fail", "retry", "refuse"):
            raise InvalidInput(f'interrupted is "fail", "retry" or "refuse", not {interrupted!r}')
        opened(store, "Runs")
        settings = Settings.from_json(config)
        limits: dict[Lane, int] = dict(lanes or {})
        if settings.spawn.defaults.max_concurrent is not None:
            limits.setdefault("subagent", settings.spawn.defaults.max_concurrent)
        host = Host(agent, announce, wait, send, active, models, prompt, new_id)
        self.lanes = Lanes(limits)
        """What waits and what goes on, lane by lane."""
        self._engine = Engine(store, host, settings, config, self.lanes, clock, interrupted)
        self._upkeep = Upkeep(self._engine)
        self._engine.ended = self._upkeep.announce

    def __repr__(self) -> str:
        return f"<Runs of {self._engine.repository!r}>"

    # --- looking

    def get(self, run_id: str) -> Run:
        """Return a run.

        Raise `InvalidInput` if the registry has none with that id.
        """
        return self._engine.registry.get(run_id)

    def list(self, *, active: bool = False, session: str | None = None) -> list[Run]:
        """Return the runs, in the order in which they were registered.

        `active` leaves out those that are announced and done; `session` (a key, an id or an IRI) leaves out those that
        neither run in it nor were asked for by it.
        """
        store = self._engine.repository.store
        if session is None:
            runs = subagent_runs.read_runs(store)
        else:
            record = self._engine.places.named(session)[1]
            runs = [] if record is None else subagent_runs.runs_of_session(store, record.id)
        return [run for run in runs if not active or run.cleanup_completed is None]

    def session_of(self, key: str) -> str | None:
        """Return the id of the session that a key names now.

        None if there is none.
        """
        return self._engine.places.session_of(self._engine.places.named(key)[0])

    def system_prompt(self, run_id: str) -> str:
        """Return what a run's sub-agent is told beside its task."""
        return self._engine.prompt(self.get(run_id))

    # --- starting

    def spawn(
        self,
        requester: str,
        task: str,
        *,
        label: str | None = None,
        agent_id: str | None = None,
        model: str | None = None,
        thinking: str | None = None,
        run_timeout_seconds: float = 0,
        cleanup: Cleanup = "keep",
        origin: Mapping[str, Any] | None = None,
    ) -> Spawned:
        """Start a sub-agent for the session of a key (or with an id).

        Return at once, with how that went.

        `task` is its first message. `label` names it for people (1 to 64 characters). `agent_id` is the agent that runs it:
        the requester's own, or one that its configuration allows. `model` comes before the agent's and the default one.
        `run_timeout_seconds`, floored (a fraction of a second is 1), is how long it may take, from its beginning or, unless
        it begins in that time, from this call: at most ten years; 0 or less is without end. `cleanup` says what becomes of
        its session once it is announced. `origin` (channel, to, accountId, threadId) says where the answer goes.

        A sub-agent's session may not spawn: status "forbidden". What is refused changes nothing.

        Raises `RequestRefused` for parameters that cannot be read.
        """
        parameters = {
            "task": task,
            "label": label,
            "agentId": agent_id,
            "model": model,
            "thinking": thinking,
            "runTimeoutSeconds": run_timeout_seconds,
            "cleanup": cleanup,
        }
        return self.spawn_tool(requester, parameters, origin=origin)

    def spawn_tool(
        self, requester: str, parameters: Mapping[str, Any], *, origin: Mapping[str, Any] | None = None
    ) -> Spawned:
        """Start a sub-agent by the parameters of a `sessions_spawn` call."""
        return agent_tools.spawn_subagent(self._engine, requester, SpawnRequest.from_json(parameters), origin)

    # --- working

    def work(self, limit: int | None = None) -> int:
        """Work on what waits in the lanes, on this thread, until nothing may begin; return how many pieces were done."""
        return self.lanes.drain(limit)

    def work_wide(self, settle: Callable[[Any], Any] | None = None, stopped: Callable[[], bool] = lambda: False) -> int:
        """Do the same with as many at once as the lanes let, on threads; return once nothing is left.

        `settle` returns what an agent gave, once it was awaited if it has to be: `trails.aio` hands in the event loop.
        Once `stopped` tells so, nothing more begins.
        """
        before = self._engine.awaited
        self._engine.awaited = settle or before
        try:
            return self.lanes.drain_wide(stopped)
        finally:
            self._engine.awaited = before

    def threads(self) -> LaneThreads:
        """Return threads that work on what comes into the lanes until they are closed: `with runs.threads(): ...`."""
        return LaneThreads(self.lanes)

    # --- what is heard of runs

    def on_event(self, event: Mapping[str, Any]) -> bool:
        """Note an event of a run's life, as hosts have them.

        Return whether it changed anything.

        An event has `runId`, `stream` ("lifecycle"; others are none of ours) and `data`: `phase` (start, end or error),
        `startedAt` and `endedAt` in milliseconds since 1970, `error`, and `aborted` for a run whose time was up.
        """
        data = event.get("data")
        run_id = event.get("runId")
        if event.get("stream") != "lifecycle" or not isinstance(data, Mapping) or not isinstance(run_id, str):
            return False
        error = data.get("error") if isinstance(data.get("error"), str) else None
        match data.get("phase"):
            case "start":
                return self.started(run_id, at=moment_of(data.get("startedAt")))
            case "end":
                status: RunStatus = "timeout" if data.get("aborted") is True else "ok"
                return self.ended(run_id, status, at=moment_of(data.get("endedAt")))
            case "error":
                return self.ended(run_id, "error", error=error, at=moment_of(data.get("endedAt")))
        return False

    def started(self, run_id: str, *, at: datetime | None = None) -> bool:
        """Note that a run began (`at`, by default now).

        Return whether that is news.
        """
        moment = self._engine.now() if at is None else _cut(at)
        return self._engine.registry.change(run_id, lambda run: None if run.ended else {"started": moment}) is not None

    def ended(self, run_id: str, status: RunStatus, *, error: str | None = None, at: datetime | None = None) -> bool:
        """Note how a run ended (`at`, by default now) and announce it.

        Return whether that is news: the first end stands.
        """
        if status not in ("ok", "error", "timeout", "unknown"):
            raise InvalidInput(f"a run ends ok, error, timeout or unknown, not {status!r}")
        why = None if error is None else validation.text(error, "error")
        return self._engine.end(run_id, status, error=why, ended=None if at is None else _cut(at))

    def wait(self, run_id: str, *, timeout: float = 30) -> Run | None:
        """Wait up to `timeout` seconds for a run in another process.

        Return it as it stands, None once it is cleaned up.
        """
        return self._upkeep.wait(run_id, timeout)

    # --- upkeep

    def recover(self) -> Ticked:
        """Take up what an earlier process left: announcements go on once, runs wait for their turn or are asked for again."""
        return self._upkeep.recover()

    def tick(self) -> Ticked:
        """Do what is due by the clock: time-outs, news of other processes, and every 60 seconds `sweep`."""
        return self._upkeep.tick()

    def ticking(self, every: float = 1.0, *, wait: Wait | None = None) -> Ticking:
        """Return a `with` block in which the runs tick on a thread of their own, every so many seconds (more than 0).

        Time-outs hold then without a host that calls `tick`; see `Tree.ticking`, which works the same way.

        >>> import trails
        >>> with trails.open(":memory:") as store:
        ...     runs = trails.Runs(store, agent=lambda step: "Done.")
        ...     with runs.ticking(every=5):
        ...         answer = runs.spawn("agent:main:main", "How often do trains go?"); done = runs.work()
        """
        return Ticking(self.tick, lambda: self._engine.repository.workspace.closed, every, wait)

    def sweep(self) -> Ticked:
        """Try again to announce what could not be announced, and archive what is due, now."""
        return self._upkeep.sweep()

    def withhold(self, run_id: str, *, by: str | None = None, reason: str | None = None) -> bool:
        """Take a run's task and error out of the registry for good.

        Return whether they were there.

        `by` and `reason` are as for `Repository.redact`, which is for where else they stand (the sub-agent's turns, the
        announcement).
        """
        workspace = self._engine.repository.workspace
        is_done = self._engine.registry.withhold(run_id, workspace.deed(by, reason))
        workspace.note_held()
        return is_done

    # --- messages between sessions

    def send(
        self,
        requester: str | None,
        message: str,
        *,
        session_key: str | None = None,
        label: str | None = None,
        agent_id: str | None = None,
        timeout_seconds: float = DEFAULT_TIMEOUT,
        sandboxed: bool = False,
        channel: str | None = None,
    ) -> Sent:
        """Send a message from one session to another, and wait for the answer up to `timeout_seconds` (floored; 0: not at all).

        The target is named by its key (or id), by its label, or by label and agent. Another agent's session needs the
        configuration's leave. `sandboxed` requesters see only what they spawned. `channel` is the requester's.

        After an answer the two go on, in the nested lane: up to five turns, until one says REPLY_SKIP; then the target may
        tell its channel, unless it says ANNOUNCE_SKIP.

        Raises `RequestRefused` for parameters that cannot be read, `SessionNotFound` for a requester that is not there.
        """
        parameters = {
            "message": message,
            "sessionKey": session_key,
            "label": label,
            "agentId": agent_id,
            "timeoutSeconds": timeout_seconds,
        }
        return self.send_tool(requester, parameters, sandboxed=sandboxed, channel=channel)

    def send_tool(
        self,
        requester: str | None,
        parameters: Mapping[str, Any],
        *,
        sandboxed: bool = False,
        channel: str | None = None,
    ) -> Sent:
        """Send a message by the parameters of a `sessions_send` call."""
        request = SendRequest.from_json(parameters, sandboxed=sandboxed, channel=channel)
        return agent_tools.send_message(self._engine, requester, request)

    # --- files

    def import_file(self, value: Any) -> Imported:
        """Enter the runs of a parsed `runs.json` (version 1 or 2).

        All their fields are kept. Known runs stay as they are.
        """
        return run_registry.import_file(self._engine.places, value)

    def export_file(self) -> dict[str, Any]:
        """Return all runs as a `runs.json` of version 2."""
        return run_registry.export_file(self._engine.repository.store)


def _cut(at: datetime) -> datetime:
    moment = validation.time(at, "at")
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)
