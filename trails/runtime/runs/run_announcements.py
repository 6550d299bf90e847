"""Announce, expire, recover and archive runs.

The claim (a compare-and-set on the run) and the message in the requester's inbox are one commit. What then goes
outward has the same idempotency key each time. If that fails, the claim is given back, and a later try goes on from
the message that is there.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, Literal

from pydantic import Field

from trails.errors import HasChildren, OnHold, SessionNotFound
from trails.history.records.subagent_runs import archive_times, unfinished_runs
from trails.history.transaction import is_stored
from trails.model import iris
from trails.model.values import Value
from trails.rdf.activity_records import Deed
from trails.rdf.ledger_records import Event, Mode
from trails.rdf.subagent_records import Run, SpawnMode
from trails.runtime import inbox
from trails.runtime.config_values import NEVER, moment_of, time_after
from trails.runtime.inbox import change_entries
from trails.runtime.policy.run_rules import SWEEP_SECONDS, RunOutcome, announce_route, announce_text
from trails.runtime.runs import run_engine, run_registry
from trails.runtime.runs.host import Announcement, Lane
from trails.runtime.runs.run_engine import Engine, agent_of
from trails.store.contract import PreconditionFailed

ANNOUNCE_SOURCE: Final = "sessions_announce"
"""The source of the messages that say how runs ended."""
Announced = Literal["announced", "taken", "nobody", "failed"]
"""What became of announcing a run: done; done or being done elsewhere; nobody is there to tell; to be tried again."""
_HOWS: Final[dict[str, SpawnMode]] = {"steer": "steered", "queue": "queued", "direct": "direct"}
_CLEANUP: Final = "runs: cleanup delete"
_ARCHIVE: Final = "runs: archive when due"
"""The rules by which sessions of runs go."""
_report = logging.getLogger("trails.runtime.runs")


def idempotency_key(run: Run) -> str:
    """Return the key under which a run is announced: always the same."""
    return f"announce:{run.child_session_key}:{run.run_id}"


def _claim_fields(run: Run) -> dict[str, Any] | None:
    """Return the claim on a run.

    None if it is claimed.
    """
    is_free = run.ended is not None and run.cleanup_completed is None and not run.cleanup_handled
    return {"cleanup_handled": True} if is_free else None


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
        """Return whether anything happened."""
        return any(getattr(self, name) for name in type(self).model_fields if name != "waiting")


class Upkeep:
    """Announces runs that ended, cleans up after them, and does what is due."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._busy: set[str] = set()
        self._recovered = False
        self._swept: datetime | None = None

    def announce(self, run_id: str, *, resume: bool = False) -> Announced:
        """Announce a run that ended, unless somebody did.

        Then clean up.

        `resume` goes on with an announcement that a process began before it died.
        """
        with self._lock:
            if run_id in self._busy:
                return "taken"
            self._busy.add(run_id)
        try:
            claimed = self._claim(run_id, resume=resume)
            if not isinstance(claimed, Run):
                return claimed
            is_told = self._tell(claimed)
            self._finish(claimed.run_id, announced=is_told)
            return "announced" if is_told else "failed"
        finally:
            with self._lock:
                self._busy.discard(run_id)

    # --- the claim, and the message

    def _claim(self, run_id: str, *, resume: bool) -> Run | Announced:
        """Return the run once it is claimed and its message stands in the requester's inbox."""
        run = self._engine.registry.find(run_id)
        if run is None or run.ended is None or run.cleanup_completed is not None:
            return "taken"
        if run.cleanup_handled:
            return run if resume and run.announced_as is not None else "taken"
        if run.announced_as is not None:  # its message is there: an earlier try failed outward
            return self._engine.registry.change(run_id, _claim_fields) or "taken"
        requester = self._requester(run)
        return "nobody" if requester is None else self._put(run, requester)

    def _requester(self, run: Run) -> str | None:
        """Return the id of the session to tell: the one that the requester's key names now."""
        engine = self._engine
        session_id = engine.places.session_of(run.requester_session_key) if run.requester_session_key else None
        if session_id is not None:
            return session_id
        return run.requester_session if run.requester_session and run.requester_session in engine.repository else None

    def _put(self, run: Run, session_id: str) -> Run | Announced:
        """Claim a run and put the message into the requester's inbox, in one commit."""
        engine = self._engine
        how, mode = self._way(run, session_id)
        origin = run.requester_origin
        message = inbox.inbound_event(
            session_id,
            self.text(run),
            now=engine.now(),
            source=ANNOUNCE_SOURCE,
            event_id=idempotency_key(run),
            channel=origin.channel,
            account=origin.account_id,
            peer=origin.to,
            author=agent_of(run.child_session_key) if run.agent is None else f"agent:{run.agent}",
            mode=mode,
        )
        with engine.book.at(session_id) as number:
            event = message.model_copy(update={"number": number})
            received = change_entries(session_id, [event])

            def step(run: Run) -> dict[str, Any] | None:
                fields = _claim_fields(run)
                return None if fields is None else fields | {"announced_as": event.iri, "announced_how": how}

            try:
                return engine.registry.change(run.run_id, step, lambda _: received) or "taken"
            except PreconditionFailed as failure:
                if failure.missing == is_stored(session_id):
                    return "nobody"  # it was deleted just now
                raise engine.book.refusal(session_id, failure) from failure

    def _way(self, run: Run, session_id: str) -> tuple[SpawnMode, Mode]:
        """Return how the message reaches the requester, and in which mode it stands in the inbox."""
        engine = self._engine
        entry = engine.places.entry(run.requester_session_key or "")
        channel = entry.get("channel") or entry.get("lastChannel") or run.requester_origin.channel or ""
        queue_mode = entry.get("queueMode") or engine.settings.queue_modes.get(channel) or engine.settings.queue_mode
        route = announce_route(queue_mode, active=engine.is_active(session_id))
        if route == "steer":
            return "steered", "steer"
        return _HOWS[route], "collect" if route == "queue" and queue_mode == "collect" else "followup"

    def text(self, run: Run) -> str:
        """Return what the requester is told of a run."""
        turns = run_engine.turns_of(self._engine.repository, run.child_session)
        outcome = None if run.outcome is None else RunOutcome(status=run.outcome, error=run.error)
        return announce_text(
            task=run.task or "",
            label=run.label,
            outcome=outcome,
            findings=run_engine.answer_of(turns),
            stats=run_engine.stats_of(run, turns),
        )

    # --- outward

    def _tell(self, run: Run) -> bool:
        """Let the host act on the message.

        Return whether it could.
        """
        engine = self._engine
        event = None if run.announced_as is None else self._message(run.announced_as)
        if event is None:
            return True  # the requester is gone, and the message with it: there is nobody to tell
        session_id = event.session_id
        if engine.host.announce is not None:
            word = Announcement(
                run=run,
                how=run.announced_how or "direct",
                session_id=session_id,
                session_key=run.requester_session_key or "",
                event=event,
                text=engine.ledger.content(event),
                origin=run.requester_origin,
                idempotency_key=idempotency_key(run),
            )
            try:
                answer = engine.host.announce(word)
            except Exception:  # noqa: BLE001 - whatever a host's own code raises, the run is announced again later
                _report.exception("announcing the run %r failed; it is tried again", run.run_id)
                return False
            if answer is False:
                _report.warning("the host could not announce the run %r; it is tried again", run.run_id)
                return False
        elif engine.host.agent is not None and event.waiting:
            engine.lanes.submit("main", lambda: engine.work(session_id))
        return True

    def _message(self, iri: str) -> Event | None:
        session_id, number = iris.session_id(iri), iris.entry_number(iri)
        if session_id not in self._engine.repository or number is None:
            return None
        return self._engine.book.entry(session_id, number, Event)

    # --- cleaning up

    def _finish(self, run_id: str, *, announced: bool) -> None:
        """Do what is left once a run was announced, or give the claim back."""
        engine, now = self._engine, self._engine.now()
        run = engine.registry.find(run_id)
        if run is None:
            return
        if not announced:  # it keeps its record, whatever is to become of its session: it is tried again
            engine.registry.change(run_id, lambda _: {"cleanup_handled": False})
            return
        if run.cleanup != "delete":
            engine.registry.change(run_id, lambda _: {"cleanup_completed": now})
            return
        self._remove(run, _CLEANUP, now, cleanup_completed=now)

    def _remove(self, run: Run, rule: str, now: datetime, **noted: Any) -> str | None:
        """Delete a run's session under the one rule of deleting, and take the run out of the registry.

        Return why the session was kept, if it was: the run is kept then, with that and what is to be `noted`.
        """
        engine = self._engine
        deed = Deed(engine.repository.workspace.keeper(), now, rule=rule)
        kept = None
        if run.child_session is not None:
            try:
                engine.repository.delete(run.child_session, by=deed.by_iri, rule=rule)
            except SessionNotFound:
                pass
            except (HasChildren, OnHold) as refused:
                kept = f"{refused}"
        if kept is None:
            engine.registry.remove(run.run_id, deed)
        elif noted or run.kept_because != kept:
            engine.registry.change(run.run_id, lambda _: noted | {"kept_because": kept})
        return kept

    # --- after a restart

    def recover(self) -> Ticked:
        """Take up what an earlier process left: once in this process, and nothing the second time."""
        did = _Progress()
        self._recover(did)
        return did.report()

    def _recover(self, did: _Progress) -> None:
        if not self._recovered:
            self._recovered = True
            for run in unfinished_runs(self._engine.repository.store):
                self._resume(run, did)
            self._take_up_messages()

    def _take_up_messages(self) -> None:
        """Let the agent work on what was announced or sent before the restart and still waits in inboxes."""
        engine = self._engine
        if engine.host.agent is None:
            return
        lanes: dict[str, Lane] = {run_engine.SEND_SOURCE: "nested"}
        if engine.host.announce is None:
            lanes[ANNOUNCE_SOURCE] = "main"
        for session_id, source in sorted(engine.waiting()):
            if source in lanes:
                engine.lanes.submit(lanes[source], partial(engine.work, session_id, lanes[source]))

    def _resume(self, run: Run, did: _Progress) -> None:
        engine = self._engine
        if run.cleanup_handled and run.announced_as is not None:
            did.note_announced(run.run_id, self.announce(run.run_id, resume=True))
            return
        if run.state == "ended":
            did.note_announced(run.run_id, self.announce(run.run_id))
        elif run.state == "running" and not engine.is_going(run.run_id):
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
        """Wait up to some seconds for a run in another process.

        Return it as it stands then.
        """
        run = self._engine.registry.get(run_id)
        if run.ended is None:
            self._ask(run, timeout, _Progress())
        return self._engine.registry.find(run_id)

    def _ask(self, run: Run, timeout: float, did: _Progress) -> None:
        """Ask the host for a run.

        A status other than ok and error changes nothing: it may still end.
        """
        engine = self._engine
        news = None if engine.host.wait is None else engine.host.wait(run.run_id, timeout)
        status, error = run_registry.outcome_of(news)
        if news is None or status not in ("ok", "error") or run.ended is not None:
            did.note("waiting", run.run_id)
            return
        ended = moment_of(news.get("endedAt")) or engine.now()
        engine.end(run.run_id, status, error=error, started=moment_of(news.get("startedAt")), ended=ended)
        did.note("ended", run.run_id)

    # --- by the clock

    def tick(self) -> Ticked:
        """Do what is due now.

        A host calls it every few seconds, or oftener.
        """
        did, engine = _Progress(), self._engine
        self._recover(did)
        now = engine.now()
        engine.tell()
        for run in unfinished_runs(engine.repository.store):
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
            if engine.end(run.run_id, "timeout", ended=now):
                did.note("timed_out", run.run_id)
        elif not engine.is_going(run.run_id):
            engine.settle(run)
            if engine.registry.get(run.run_id).ended is not None:
                did.note("ended", run.run_id)
            elif engine.host.wait is not None:
                self._ask(run, 0, did)

    def sweep(self) -> Ticked:
        """Try again to announce what could not be, and archive what is due.

        What still goes on here is left alone.
        """
        did = _Progress()
        self._recover(did)
        self._sweep(did)
        return did.report()

    def _sweep(self, did: _Progress) -> None:
        engine, tried = self._engine, {*did["failed"], *did["unheard"]}
        self._swept = now = engine.now()
        store = engine.repository.store
        due = {run_id for run_id, moment in archive_times(store) if moment <= now}
        for run in unfinished_runs(store):
            if run.ended is not None and not run.cleanup_handled and run.run_id not in due | tried:
                did.note_announced(run.run_id, self.announce(run.run_id))
        for run_id in sorted(due):
            due_run = engine.registry.find(run_id)
            if due_run is not None and due_run.archive_at is not None and due_run.archive_at <= now:
                self._archive(due_run, now, did)

    def _archive(self, run: Run, now: datetime, did: _Progress) -> None:
        engine = self._engine
        if engine.is_going(run.run_id) or run.run_id in self._busy:
            return
        if run.ended is None:  # nothing was heard of it for so long: its requester is told that much
            engine.end(run.run_id, "unknown")
        announced: Announced = "taken"
        left = engine.registry.find(run.run_id)
        if left is not None and left.cleanup_completed is None:
            announced = self.announce(run.run_id)
            did.note_announced(run.run_id, announced)
            left = engine.registry.find(run.run_id)
        if announced == "failed" or left is None:
            return  # tried again with the next sweep; or gone with its own clean-up
        kept = self._remove(left, _ARCHIVE, now)
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
