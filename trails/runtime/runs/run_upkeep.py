"""Expire, recover, archive and resume runs: what time brings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from pydantic import Field

from trails.model.values import Value
from trails.rdf.subagent_records import Run
from trails.runtime.config_values import NEVER, from_ms, time_after, to_ms
from trails.runtime.policy.run_records import SWEEP_SECONDS, end_run, is_due, resume_action, run_outcome, time_out_run
from trails.runtime.runs import agent_messages, run_announcements, run_registry
from trails.runtime.runs.lanes import Lane
from trails.runtime.runs.run_announcements import Announced, Announcer
from trails.runtime.runs.run_engine import Engine

SWEEP: Final = timedelta(seconds=SWEEP_SECONDS)


class Ticked(Value):
    """What a tick, a sweep or a recovery did, by run id."""

    requeued: tuple[str, ...] = ()
    """Runs that wait for their turn in this process again."""
    waiting: tuple[str, ...] = ()
    """Runs that another process still works on, as far as is known."""
    ended: tuple[str, ...] = ()
    timed_out: tuple[str, ...] = ()
    announced: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    """Runs whose announcing failed; it is tried again."""
    unheard: tuple[str, ...] = ()
    """Runs that ended, of which nobody is there to be told."""
    archived: tuple[str, ...] = ()
    """Runs that were taken out of the registry, with their sessions."""
    kept: Mapping[str, str] = Field(default_factory=dict)
    """Runs whose session was to be deleted and was kept, with the reason."""

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, ready for JSON."""
        return self.model_dump()

    def __bool__(self) -> bool:
        """Tell whether anything happened."""
        return any(getattr(self, name) for name in type(self).model_fields if name != "waiting")


class Upkeep:
    """Does what is due."""

    def __init__(self, engine: Engine, announcer: Announcer) -> None:
        self._engine = engine
        self._announcer = announcer
        self._recovered = False
        self._swept: datetime | None = None

    def recover(self) -> Ticked:
        """Take up what an earlier process left: once in this process, and nothing the second time."""
        did = _Progress()
        self._recover(did)
        return did.report()

    def _recover(self, did: _Progress) -> None:
        if not self._recovered:
            self._recovered = True
            for run in self._engine.registry.unfinished():
                self._resume(run, did)
            self._take_up_messages()

    def _take_up_messages(self) -> None:
        """Let the agent work on what was announced or sent before the restart and still waits in inboxes."""
        engine = self._engine
        if engine.host.agent is None:
            return
        lanes: dict[str, Lane] = {agent_messages.SEND_SOURCE: "nested"}
        if engine.host.announce is None:
            lanes[run_announcements.ANNOUNCE_SOURCE] = "main"
        for session_id, source in sorted(engine.waiting()):
            if source in lanes:
                engine.lanes.submit(lanes[source], partial(engine.work, session_id, lanes[source]))

    def _resume(self, run: Run, did: _Progress) -> None:
        engine = self._engine
        if run.cleanup_handled and run.announced_as is not None:
            did.note_announced(run.run_id, self._announcer.announce(run.run_id, resume=True))
            return
        action = resume_action(run_registry.record_of(run))
        if action == "announce":
            did.note_announced(run.run_id, self._announcer.announce(run.run_id))
        elif action == "wait" and not engine.is_going(run.run_id):
            self._wait_again(run, did)

    def _wait_again(self, run: Run, did: _Progress) -> None:
        """Wait again for a run that has not ended: for its turn here, or for another process."""
        engine = self._engine
        engine.settle(run)  # its exchange may have ended just before the process died
        left = engine.registry.find(run.run_id)
        if left is None or left.ended is not None:
            did.note("ended", run.run_id)
        elif engine.host.agent is not None and engine.task_of(run) is not None:
            engine.queue_run(run)
            did.note("requeued", run.run_id)
        else:
            self._ask(run, 0, did)

    # --- waiting on another process

    def wait(self, run_id: str, timeout: float) -> Run | None:
        """Wait up to some seconds for a run in another process; return it as it stands then."""
        run = self._engine.registry.get(run_id)
        if run.ended is None:
            self._ask(run, timeout, _Progress())
        return self._engine.registry.find(run_id)

    def _ask(self, run: Run, timeout: float, did: _Progress) -> None:
        """Ask the host for a run. A status other than ok and error changes nothing: it may still end."""
        engine, before = self._engine, run_registry.record_of(run)
        told = None if engine.host.wait is None else engine.host.wait(run.run_id, timeout)
        after = end_run(before, told, now=_time(told, "endedAt") or engine.now())
        if after.outcome is None or after == before:
            did.note("waiting", run.run_id)
            return
        outcome = run_outcome(told)
        engine.end(
            run.run_id,
            after.outcome.status,
            error=None if outcome is None else outcome.error,
            started=_time(told, "startedAt"),
            ended=None if after.ended_at is None else from_ms(after.ended_at),
        )
        did.note("ended", run.run_id)

    # --- by the clock

    def tick(self) -> Ticked:
        """Do what is due now; a host calls it every few seconds, or oftener."""
        did, engine = _Progress(), self._engine
        self._recover(did)
        now = engine.now()
        engine.tell()
        for run in engine.registry.unfinished():
            if run.ended is None:
                self._look_after(run, now, did)
        if self._swept is None or now - self._swept >= SWEEP:
            self._sweep(did)
        return did.report()

    def _look_after(self, run: Run, now: datetime, did: _Progress) -> None:
        engine = self._engine
        if now >= _deadline(run):
            step = engine.going().get(run.run_id)
            if step is not None:
                step.cancelled.set()
            after = time_out_run(run_registry.record_of(run), now=now)
            if after.outcome is not None and engine.end(run.run_id, after.outcome.status, ended=now):
                did.note("timed_out", run.run_id)
        elif not engine.is_going(run.run_id):
            engine.settle(run)
            if engine.registry.get(run.run_id).ended is not None:
                did.note("ended", run.run_id)
            elif engine.host.wait is not None:
                self._ask(run, 0, did)

    def sweep(self) -> Ticked:
        """Try again to announce what could not be, and archive what is due; what still goes on here is left alone."""
        did = _Progress()
        self._recover(did)
        self._sweep(did)
        return did.report()

    def _sweep(self, did: _Progress) -> None:
        engine, tried = self._engine, {*did["failed"], *did["unheard"]}
        self._swept = now = engine.now()
        due = {run.run_id for run in engine.registry.due(now)}
        for run in engine.registry.unfinished():
            if run.ended is not None and not run.cleanup_handled and run.run_id not in due | tried:
                did.note_announced(run.run_id, self._announcer.announce(run.run_id))
        for run_id in sorted(due):
            found = engine.registry.find(run_id)
            if found is not None and is_due(run_registry.record_of(found), now):
                self._archive(found, now, did)

    def _archive(self, run: Run, now: datetime, did: _Progress) -> None:
        engine = self._engine
        if engine.is_going(run.run_id) or self._announcer.is_busy(run.run_id):
            return
        if run.ended is None:  # nothing was heard of it for so long: its requester is told that much
            engine.end(run.run_id, "unknown")
        told: Announced = "taken"
        left = engine.registry.find(run.run_id)
        if left is not None and left.cleanup_completed is None:
            told = self._announcer.announce(run.run_id)
            did.note_announced(run.run_id, told)
            left = engine.registry.find(run.run_id)
        if told == "failed" or left is None:
            return  # tried again with the next sweep; or gone with its own clean-up
        kept = self._announcer.archive(left, now)
        if kept is None:
            did.note("archived", run.run_id)
        else:
            did.note("kept", run.run_id, kept)


_ANNOUNCED: Final = {"announced": "announced", "failed": "failed", "nobody": "unheard"}


class _Progress(defaultdict[str, dict[str, str]]):
    """What is being done: for each field of a `Ticked`, the ids of runs, in order."""

    def __init__(self) -> None:
        super().__init__(dict)

    def note(self, field: str, run_id: str, text: str = "") -> None:
        """Note that something happened to a run."""
        self[field][run_id] = text

    def note_announced(self, run_id: str, announced: Announced) -> None:
        """Note what became of announcing a run."""
        if announced in _ANNOUNCED:
            self.note(_ANNOUNCED[announced], run_id)

    def report(self) -> Ticked:
        """Return what was done."""
        kept = self.pop("kept", {})
        return Ticked(**{field: tuple(runs) for field, runs in self.items()}, kept=kept)


def _deadline(run: Run) -> datetime:
    """Return when a run's time is up: counted from its beginning or, as long as nobody begins it, from its creation."""
    since = run.started or run.created
    if not run.run_timeout_seconds or since is None:
        return NEVER
    return time_after(since, run.run_timeout_seconds)


def _time(told: Any, name: str) -> datetime | None:
    value = told.get(name) if hasattr(told, "get") else None
    if isinstance(value, datetime):
        return from_ms(to_ms(value))
    return from_ms(int(value)) if isinstance(value, int | float) and not isinstance(value, bool) else None
