"""Telling a requester how a run ended: once, whatever breaks in between, and cleaning up after it.

The claim (a compare-and-set on the run) and the message in the requester's inbox are one commit. What then goes
outward has the same idempotency key each time; where it fails, the claim is given back and a later try goes on from
the message that is there.
"""

from __future__ import annotations

import logging
import threading
from datetime import datetime
from typing import Any, Final, Literal

from trails.errors import HasChildren, SessionNotFound
from trails.history.transaction import is_stored
from trails.model import iris
from trails.rdf.activity_records import Deed
from trails.rdf.ledger_records import Event, Mode
from trails.rdf.subagent_records import Run, SpawnMode
from trails.runtime.ledger import inbox
from trails.runtime.ledger.ledger_writer import change_entries
from trails.runtime.policy.run_records import RunStats, announce_route, announce_text, begin_cleanup, finish_cleanup
from trails.runtime.runs import run_engine, run_registry
from trails.runtime.runs.host import Announcement
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


class Announcer:
    """Announces runs that ended, and cleans up after them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._busy: set[str] = set()
        self.kept: dict[str, str] = {}
        """Why sessions of runs were kept although they were to be deleted, by run id."""

    def is_busy(self, run_id: str) -> bool:
        """Tell whether a run is being announced in this process."""
        return run_id in self._busy

    def announce(self, run_id: str, *, resume: bool = False) -> Announced:
        """Announce a run that ended, unless somebody did; then clean up.

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
            told = self._tell(claimed)
            self._finish(claimed.run_id, announced=told)
            return "announced" if told else "failed"
        finally:
            with self._lock:
                self._busy.discard(run_id)

    # --- the claim, and the message

    def _claim(self, run_id: str, *, resume: bool) -> Run | Announced:
        """Return the run once it is claimed and its message stands in the requester's inbox."""
        run = self._engine.registry.find(run_id)
        if run is None or run.ended is None:
            return "taken"
        if run.cleanup_handled and run.announced_as is not None and run.cleanup_completed is None:
            return run if resume else "taken"
        if begin_cleanup(run_registry.record_of(run)) is None:
            return "taken"
        if run.announced_as is not None:  # its message is there: an earlier try failed outward
            return self._engine.registry.change(run_id, _claimed) or "taken"
        requester = self._requester(run)
        return "nobody" if requester is None else self._put(run, requester)

    def _requester(self, run: Run) -> str | None:
        """Return the id of the session to tell: the one that the requester's key names now."""
        engine = self._engine
        found = engine.places.session_of(run.requester_session_key) if run.requester_session_key else None
        if found is not None:
            return found
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
                fields = _claimed(run)
                return None if fields is None else fields | {"announced_as": event.iri, "announced_how": how}

            try:
                claimed = engine.registry.change(run.run_id, step, lambda _: received)
            except PreconditionFailed as failure:
                if failure.missing == is_stored(session_id):
                    return "nobody"  # it was deleted just now
                raise engine.book.refusal(session_id, failure) from failure
            if claimed is not None:
                engine.book.wrote(session_id, [event])
        return claimed or "taken"

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
        record = run_registry.record_of(run)
        stats = run_engine.stats_of(run, turns) if turns else RunStats(run_engine.stats_of(run, ()).runtime_ms)
        return announce_text(
            task=run.task or "",
            label=run.label,
            outcome=record.outcome,
            findings=run_engine.answer_of(turns),
            stats=stats,
        )

    # --- outward

    def _tell(self, run: Run) -> bool:
        """Let the host act on the message; tell whether it could."""
        engine = self._engine
        found = None if run.announced_as is None else self._message(run.announced_as)
        if found is None:
            return True  # the requester is gone, and the message with it: there is nobody to tell
        event, how = found, run.announced_how or "direct"
        if engine.host.announce is not None:
            word = Announcement(
                run=run,
                how=how,
                session_id=event.session_id,
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
            engine.lanes.submit("main", lambda: engine.work(event.session_id))
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
        before = run_registry.record_of(run)
        # A run whose word did not get out keeps its record, whatever is to become of its session: it is tried again.
        rule = before if announced else before.model_copy(update={"cleanup": "keep"})
        after = finish_cleanup(rule, announced=announced, now=now)
        if after is not None:
            engine.registry.change(run_id, lambda _: run_registry.run_changes(before, after))
            return
        deed = self._deed(_CLEANUP, now)
        kept = self.delete_session(run, deed)
        if kept is None:
            engine.registry.remove(run_id, deed)
            return
        engine.registry.change(run_id, lambda _: {"cleanup_completed": now, "kept_because": kept})

    def _deed(self, rule: str, now: datetime) -> Deed:
        return Deed(self._engine.repository.workspace.keeper(), now, rule=rule)

    def delete_session(self, run: Run, deed: Deed) -> str | None:
        """Delete a run's session under the one rule of deleting; return why it was kept, where it was."""
        if run.child_session is None:
            return None
        try:
            self._engine.repository.delete(run.child_session, by=deed.by_iri, rule=deed.rule)
        except SessionNotFound:
            return None
        except HasChildren as refused:
            self.kept[run.run_id] = f"{refused}"
            return f"{refused}"
        return None

    def archive(self, run: Run, now: datetime) -> str | None:
        """Take a run whose time is over out of the registry, and its session; return why it was kept, where it was."""
        deed = self._deed(_ARCHIVE, now)
        kept = self.delete_session(run, deed)
        if kept is None:
            self._engine.registry.remove(run.run_id, deed)
        elif run.kept_because != kept:
            self._engine.registry.change(run.run_id, lambda _: {"kept_because": kept})
        return kept


def _claimed(run: Run) -> dict[str, Any] | None:
    """Return the claim on a run, or None where it is claimed."""
    before = run_registry.record_of(run)
    after = begin_cleanup(before)
    return None if after is None or run.ended is None else run_registry.run_changes(before, after)
