"""The registry of runs on disk goes through random steps, with a crash between any two of them, and a plain model beside it."""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import trails
from tests.support.machines import Size, walk
from trails import Ledger, Runs, SessionRecord, Step
from trails.runtime.policy.run_rules import Cleanup
from trails.runtime.runs import Announcement
from trails.runtime.runs.host import LANES, Lane, Ticket
from trails.runtime.runs.run_announcements import ANNOUNCE_SOURCE
from trails.runtime.runs.run_engine import TASK_SOURCE

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
DEATHS = st.none() | st.tuples(st.integers(0, 9), st.booleans())
"""After how many writes and calls outward the process dies, and whether that one still gets through."""
REQUESTERS = ("agent:main:main", "agent:main:slack:channel:c1")
LIMITS: dict[Lane, int] = {"main": 2, "subagent": 2, "nested": 1}


class CrashError(BaseException):
    """Stands for the death of the process: nothing that comes after it is done."""


class Fuse:
    """Lets a process die at one of its next writes or calls outward, just before or just after; then nothing gets out."""

    def __init__(self) -> None:
        self.left: int | None = None
        self.after = False
        self.blown = False

    def guard(self, action: Any, *given: Any) -> Any:
        if self.blown:
            raise CrashError
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                self.blown = True
                if self.after:
                    action(*given)
                raise CrashError
        return action(*given)


@dataclass
class Known:
    """What the model knows of a run: how its agent ends it, and whether it was told outside that it ended."""

    requester: str
    cleanup: Cleanup
    plan: str


class RunsMachine(RuleBasedStateMachine):
    """Steps of a host: it starts, works, crashes, comes back. The model knows only what it asked for."""

    @initialize(mode=st.sampled_from(["steer", "collect", "followup"]))
    def begin(self, mode: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="trails-runs-"))
        self.now = START
        self.mode = mode
        self.known: dict[str, Known] = {}
        self.delivered: Counter[str] = Counter()
        self.busy: set[str] = set()
        self.deaf = False
        self.made = 0
        self._open(create=True)

    def teardown(self) -> None:
        if not hasattr(self, "store"):
            return
        self._settle()
        report = self.store.verify()
        self.store.close()
        shutil.rmtree(self.folder)
        assert report.ok, report.findings

    # --- the process

    def _open(self, *, create: bool = False) -> None:
        self.store = trails.open(self.folder / "store", create=create, durability="process")
        self.fuse = Fuse()
        self.tickets: list[Ticket] = []
        write = self.store.store.commit
        self.store.store.commit = lambda change: self.fuse.guard(write, change)  # type: ignore[method-assign] # the fuse
        self.runs = Runs(
            self.store,
            agent=self._agent,
            announce=self._announce,
            active=lambda session_id: session_id in self.busy,
            config={"messages": {"queue": {"mode": self.mode}}},
            lanes=LIMITS,
            clock=lambda: self.now,
            new_id=self._new_id,
        )

    def _new_id(self) -> str:
        self.made += 1
        return f"id-{self.made}"

    def _agent(self, step: Step) -> str:
        assert step.run is not None
        plan = self.known[step.run.run_id].plan
        if plan == "fails":
            raise RuntimeError("no model")
        if plan == "slow":
            self.now += timedelta(seconds=10)
        return f"answer to {step.run.run_id}"

    def _announce(self, word: Announcement) -> None:
        if self.deaf:
            raise ConnectionError("nobody listens")
        self.fuse.guard(self.delivered.update, [word.idempotency_key])

    def _do(self, death: tuple[int, bool] | None, action: Any, *given: Any, **named: Any) -> Any:
        """Do something. `death` says at which write the process dies in it, if at all; then it comes back as another one."""
        self.fuse.left, self.fuse.after = death or (None, False)
        try:
            return action(*given, **named)
        except CrashError:
            self.store.close()
            self._open()
            self.runs.recover()
            return None
        finally:
            self.fuse.left = None

    def _settle(self) -> None:
        """Let the host do all there is to do, with nothing in its way."""
        self.busy.clear()
        self.deaf = False
        for ticket in self.tickets:
            ticket.run()
        self.tickets.clear()
        self.runs.recover()
        self.runs.work()
        self.runs.sweep()
        for run in self.runs.list():
            assert run.state == "done", run
        assert set(self._messages()) >= set(self.known)
        theirs = {run.child_session for run in self.runs.list()}
        assert {record.id for record in self._sessions() if record.kind == "subagent"} <= theirs

    # --- steps

    @rule(
        requester=st.sampled_from(REQUESTERS),
        cleanup=st.sampled_from(["keep", "delete"]),
        plan=st.sampled_from(["answers", "fails", "slow"]),
        death=DEATHS,
        death_at_work=DEATHS,
    )
    def spawn(self, requester: str, cleanup: Cleanup, plan: str, death: Any, death_at_work: Any) -> None:
        run_id = f"id-{self.made + 2}"
        self.known[run_id] = Known(requester, cleanup, plan)
        task = f"task {run_id}"
        answer = self._do(death, self.runs.spawn, requester, task, cleanup=cleanup, run_timeout_seconds=10)
        if answer is not None:
            assert (answer.status, answer.run_id) == ("accepted", run_id)
        elif run_id not in {run.run_id for run in self.runs.list()} | set(self._messages()):
            del self.known[run_id]  # the process died before any of it was stored
        if not self.tickets:
            self._do(death_at_work, self.runs.work, 1)

    @rule(requester=st.sampled_from(["agent:main:subagent:x", "subagent:y"]))
    def refuse(self, requester: str) -> None:
        before = len(self.store.store)
        assert self.runs.spawn(requester, "x").status == "forbidden"
        assert len(self.store.store) == before

    @rule()
    def take(self) -> None:
        ticket = self.runs.lanes.take()
        if ticket is not None:
            self.tickets.append(ticket)

    @precondition(lambda self: self.tickets)
    @rule(data=st.data(), death=DEATHS)
    def work(self, data: st.DataObject, death: Any) -> None:
        ticket = self.tickets.pop(data.draw(st.integers(0, len(self.tickets) - 1), label="ticket"))
        self._do(death, ticket.run)

    @precondition(lambda self: self.known)
    @rule(data=st.data(), status=st.sampled_from(["ok", "error", "timeout"]), death=DEATHS)
    def hear(self, data: st.DataObject, status: Any, death: Any) -> None:
        """An event says that a run ended, whatever goes on here."""
        run_id = data.draw(st.sampled_from(sorted(self.known)), label="run")
        self._do(death, self.runs.ended, run_id, status)

    @rule(seconds=st.sampled_from([1, 11, 61, 3601]), death=DEATHS)
    def wait(self, seconds: int, death: Any) -> None:
        self.now += timedelta(seconds=seconds)
        self._do(death, self.runs.tick)

    @rule(requester=st.sampled_from(REQUESTERS))
    def turn(self, requester: str) -> None:
        """A requester begins or ends some work of its own."""
        session_id = self.runs.session_of(requester)
        if session_id is not None:
            self.busy ^= {session_id}

    @rule(requester=st.sampled_from(REQUESTERS), death=DEATHS)
    def read(self, requester: str, death: Any) -> None:
        """A requester works through its inbox."""
        session_id = self.runs.session_of(requester)
        if session_id is not None:
            self._do(death, self._read, session_id)

    def _read(self, session_id: str) -> None:
        ledger = Ledger(self.store, clock=lambda: self.now, debounce=timedelta(0))
        ledger.process(session_id, lambda running: "I see.", interrupted="retry")

    @rule(requester=st.sampled_from(REQUESTERS))
    def renew(self, requester: str) -> None:
        if self.runs.session_of(requester) is not None:
            self._do(None, trails.Router(self.store, clock=lambda: self.now).reset, requester)

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def depend(self, data: st.DataObject) -> None:
        """Somebody forks a sub-agent's session, which is kept from then on."""
        children = {run.run_id: run.child_session for run in self.runs.list() if run.child_session in self.store}
        if children:
            run_id = data.draw(st.sampled_from(sorted(children)), label="run")
            self._do(None, self._fork, children[run_id])

    def _fork(self, child: str) -> None:
        self.store.load(child).fork().persist()

    @rule()
    def restart(self) -> None:
        self.store.close()
        self._open()
        self.runs.recover()

    @rule()
    def listen_or_not(self) -> None:
        """What goes outward fails from now on, or no longer."""
        self.deaf = not self.deaf

    # --- what holds

    def _sessions(self) -> list[SessionRecord]:
        return [record for record in self.store.list(limit=1000) if record.parent_session_id is None]

    def _messages(self) -> Counter[str]:
        """Return how often the inboxes of all requesters' sessions hold word of each run."""
        found: Counter[str] = Counter()
        for record in self._sessions():
            if record.key in REQUESTERS:
                for event in Ledger(self.store).events(record.id, direction="inbound"):
                    if event.source == ANNOUNCE_SOURCE:
                        found[(event.event_id or "").rpartition(":")[2]] += 1
        return found

    @invariant()
    def each_run_is_announced_at_most_once_and_none_is_lost(self) -> None:
        if not hasattr(self, "runs"):
            return
        messages = self._messages()
        assert max(messages.values(), default=0) <= 1
        registered = {run.run_id: run for run in self.runs.list()}
        for run_id in self.known:
            run = registered.get(run_id)
            if run is None or run.state == "done":
                assert messages[run_id] == 1, run_id
            elif run.announced_as is None:
                assert messages[run_id] == 0, run_id
        reached = {key.rpartition(":")[2] for key in self.delivered}
        assert reached <= set(messages)
        assert {run_id for run_id in self.known if run_id not in registered} <= reached

    @invariant()
    def each_task_is_in_one_inbox(self) -> None:
        if not hasattr(self, "runs"):
            return
        for run in self.runs.list():
            if run.child_session is not None and run.child_session in self.store:
                events = Ledger(self.store).events(run.child_session, direction="inbound")
                assert [event.event_id for event in events if event.source == TASK_SOURCE] == [run.run_id]

    @invariant()
    def no_lane_is_over_its_limit(self) -> None:
        if not hasattr(self, "runs"):
            return
        held = Counter(ticket.lane for ticket in self.tickets)
        for lane in LANES:
            assert held[lane] == self.runs.lanes.active(lane) <= LIMITS[lane]


@pytest.mark.filterwarnings("ignore::trails.PendingTurnsWarning")
def test_whatever_breaks_in_between_each_run_is_announced_once(size: Size, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger("trails.runtime.runs"), "disabled", True)  # what fails outward is told there
    walk(RunsMachine, size, quick=(4, 20), all=(15, 20), long=(200, 50))
