"""Spawn tree sessions and change their states.

What happens to the sessions of the tree, each time in one commit that checks what it builds on.

What is asked of a spawn, checked, and made into the row of a session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, TypeVar, cast
from uuid import uuid4

from pyoxigraph import NamedNode, Quad

from trails.errors import HeadConflict, IllegalTransition, InvalidInput, LimitReached, SessionNotFound, TrailsError
from trails.history.records import ledger_entries
from trails.history.transaction import is_mentioned
from trails.history.worktree import Worktree, new_prompt
from trails.model import iris, validation
from trails.model.values import SessionRecord, SystemPrompt
from trails.rdf import vocab
from trails.rdf.activity_records import Deed
from trails.rdf.ledger_records import ENDED, Cancellation, Status, TreeState
from trails.rdf.session_records import DEFAULT_AGENT, DEFAULT_PRINCIPAL, decode_records, prompt_quads, session_quads
from trails.runtime.config_values import time_after
from trails.runtime.timer import Clock, clock_time
from trails.runtime.tree import tree_index as rules
from trails.runtime.tree.tree_index import Kind, Limits, Live, Runtime, runtime_of
from trails.runtime.tree.tree_transaction import (
    Report,
    SessionResult,
    TreeTransaction,
    lock_ledgers,
    notified_sessions,
    read_result,
    state_quad,
)
from trails.session import Repository
from trails.session.session import Session
from trails.store.contract import PreconditionFailed

_TRIES: Final = 5
"""How often something is tried again after another writer came between."""
_INHERITED: Final = frozenset({vocab.ATTRIBUTED_TO, vocab.SESSION_AGENT, vocab.TIER})
"""What a row says that the rows of children repeat."""
_GRACE: Final = "sweep: the grace after a request to end"
_TTL: Final = "sweep: time to live"
"""The rules by which sessions end whose time is over."""
_Result = TypeVar("_Result")


class Lifecycle:
    """The tree of one store under one host's settings. Every method that changes something holds the runtime's lock."""

    def __init__(
        self,
        repository: Repository,
        *,
        clock: Clock | None,
        limits: Limits,
        agent_limits: Mapping[str, Limits],
        grace: timedelta,
        cheapest: str,
    ) -> None:
        self.repository = repository
        self.runtime: Runtime = runtime_of(repository)
        self.grace = rules.check_span(grace, "grace", zero=True)
        self.cheapest = validation.name(cheapest, "cheapest")
        self._clock = clock
        self._limits = limits.checked()
        self._agent_limits = {name: each.checked() for name, each in agent_limits.items()}

    def now(self, given: datetime | None = None) -> datetime:
        """Return the time: the one given, or the clock's."""
        return clock_time(self._clock) if given is None else validation.time(given, "now")

    def limits_of(self, agent: str) -> Limits:
        """Return the limits of an agent's trees."""
        return self._agent_limits.get(agent, self._limits)

    # --- finding

    def record(self, session_id: str) -> SessionRecord:
        """Return the row of a session of the tree, or raise `InvalidInput` for a session that is none of it."""
        store, node = self.repository.store, NamedNode(iris.session(session_id))
        quads = store.quads((node, None, None, vocab.CATALOG))  # a look-up takes a fifth of a query's time
        rows = decode_records((node.value, quad.predicate.value, quad.object) for quad in quads)
        found = rows.get(session_id) or self.repository.record(session_id)  # which raises for one that is not there
        if found.kind not in rules.KINDS:
            raise InvalidInput(
                f"session {found.id!r} is not part of the session tree; `Tree.main` makes a main session, `spawn` the others"
            )
        return found

    def live(self, session_id: str, after: TreeState) -> Live:
        """Return a session that has not ended and is to go to a state; raise `IllegalTransition` for one that has."""
        found = self.runtime.index.get(session_id)
        if found is not None:
            return found
        record = self.record(session_id)
        stands = record.state
        raise IllegalTransition(
            f"session {record.id!r} is {stands} and cannot become {after}; "
            + ("an end is final: spawn another one" if stands in ENDED else "it takes no slot of the session tree"),
            before=stands,
            after=after,
        )

    def session(self, live: Live) -> Session:
        """Return the handle of an active session, which holds its turns that are not stored.

        One that holds nothing is loaded anew where others (a message loop) have stored turns meanwhile.
        """
        known = self.runtime.sessions.get(live.id)
        if known is None or (not known.worktree.has_news and self.repository.reader.owns(live.id, len(known))):
            known = self.runtime.sessions[live.id] = self.repository.load(live.id)
        return known

    def deed(self, by: str | None, time: datetime, rule: str | None = None) -> Deed:
        """Return that somebody does something: a principal by name, `agent:NAME`, or by default the process's own actor."""
        return Deed(self.repository.workspace.who(by), time, rule=rule)

    def keeper(self) -> str:
        """Return the IRI of who does what falls due by a rule."""
        return self.repository.workspace.keeper()

    # --- committing

    def attempt(self, work: Callable[[], _Result]) -> _Result:
        """Do something under the lock, again after another writer came between."""
        with self.runtime.lock:
            for _ in range(_TRIES):
                try:
                    return work()
                except PreconditionFailed:
                    self.runtime.reload()
        raise TrailsError("other writers kept changing the same sessions; nothing was changed, try again")

    @contextmanager
    def step(self, sessions: set[str], deed: Deed) -> Iterator[TreeTransaction]:
        """Give a commit to put together, with the ledgers of sessions held until it is done."""
        with lock_ledgers(self.runtime.book, sessions) as numbers:
            yield TreeTransaction(self.runtime.index, self.repository.store, numbers, deed)

    def commit(self, step: TreeTransaction, *, flush: Live | None = None) -> None:
        """Do a commit, with the turns of the session `flush` that are not stored, and take note of what it did."""
        session = None if flush is None else self.runtime.sessions.get(flush.id)
        if session is None or flush is None or flush.kind == "worker":
            step.change().commit(self.repository.store)
        else:
            self._flush(step, flush, session)
        for session_id, made in step.entries.items():
            self.runtime.book.wrote(session_id, made)
        for session_id, live in step.moved.items():
            if live is None:
                self.runtime.index.drop(session_id)
            else:
                self.runtime.index.put(live)
            if live is None or live.state != "active":
                self._let_go(session_id)

    def _flush(self, step: TreeTransaction, live: Live, session: Session) -> None:
        try:
            session.worktree.persist(step.change())
        except HeadConflict:  # another writer's turns stand where these were to go: they are kept beside
            step.kept_as(live.id, session.keep_as_fork().id)
            step.change().commit(self.repository.store)

    def _let_go(self, session_id: str) -> None:
        session = self.runtime.sessions.get(session_id)
        if session is not None:
            session.discard_pending()  # a worker's, which are never stored; any other's are by now
        self.runtime.forget(session_id)

    # --- making sessions

    def make_main(
        self, record: SessionRecord, *, system: str | None, told: Mapping[str, str], by: str | None, now: datetime
    ) -> SessionRecord:
        """Make a main session; raise `LimitReached` where its agent has one on its channel."""

        def work() -> SessionRecord:
            held = self.main_of(record.slot or "")
            if held is not None:
                raise LimitReached(
                    f"agent {record.agent!r} has the main session {held.id!r} on channel {record.channel!r}, and there is "
                    "one main at most: this would be the second; use that one, or end it first",
                    limit="mains",
                    allowed=1,
                    wanted=2,
                )
            return self._make(record, depth=0, system=system, told=told, by=by, now=now)

        return self.attempt(work)

    def main_of(self, slot: str) -> Live | None:
        """Return the main session that takes a slot, or None."""
        held = self.runtime.index.holder(slot)
        if held is not None and not self.is_true(held):
            self.runtime.reload()
            held = self.runtime.index.holder(slot)
        return held

    def is_true(self, live: Live) -> bool:
        """Tell whether a session is stored in the state that the index has it in."""
        quad = state_quad(live.id, live.state)
        return bool(self.repository.store.quads((quad.subject, quad.predicate, quad.object, quad.graph_name)))  # type: ignore[arg-type] # IRIs

    def make_child(
        self,
        parent_id: str,
        record: Callable[[Live, str], SessionRecord],
        *,
        kind: Kind,
        told: Mapping[str, str],
        by: str | None,
        now: datetime,
    ) -> SessionRecord:
        """Make a branch or a worker; `record` makes its row, given its parent and a slot that is free."""

        def work() -> SessionRecord:
            parent = self._spawner(parent_id, now)
            limits = self.limits_of(parent.agent)
            rules.check_depth(limits, kind, parent.id, parent.kind, parent.depth)
            slot = self.free_slot(parent.id, parent.agent)
            made = record(parent, slot)
            persona = self._persona(parent) if kind == "branch" else None
            system = None if persona is None else persona.text
            inherits = self._said_of(parent, persona)
            depth = parent.depth + 1
            return self._make(made, depth=depth, system=system, told=told, by=by, now=now, inherits=inherits)

        return self.attempt(work)

    def _persona(self, live: Live) -> SystemPrompt | None:
        """Return the system prompt in force for a session, also one that is set and not stored yet; none that was redacted."""
        known, reader = self.runtime.sessions.get(live.id), self.repository.reader
        prompt = reader.prompt(reader.lineage(live.id)) if known is None else known.system_prompt
        return None if prompt is None or prompt.redacted else prompt

    def _said_of(self, parent: Live, persona: SystemPrompt | None) -> list[Quad]:
        """Return what is stored of what a child takes over: names and prompts are taken out, maybe by another process."""
        said = [quad for quad in session_quads(self.record(parent.id)) if quad.predicate in _INHERITED]
        if persona is not None:
            said += [quad for quad in prompt_quads(persona) if quad.predicate == vocab.VALUE]
        return is_mentioned(self.repository.store, said)

    def _spawner(self, parent_id: str, now: datetime) -> Live:
        """Return a session that may spawn, or raise for one that is not active, was asked to end, or is due."""
        parent = self.runtime.index.get(parent_id)
        if parent is None or parent.state != "active":
            stands = self.record(parent_id).state if parent is None else parent.state
            raise InvalidInput(f"session {parent_id!r} is {stands}, and only an active one spawns; nothing was spawned")
        if parent.due is not None and (parent.ends_by is not None or parent.due <= now):
            why = "was asked to end" if parent.ends_by is not None else "is over its time to live"
            raise InvalidInput(
                f"session {parent_id!r} {why} (by {parent.due.isoformat()}) and spawns nothing any more; spawn from its parent"
            )
        return parent

    def free_slot(self, parent_id: str, agent: str) -> str:
        """Return a slot of a parent that is free; raise `LimitReached` where there is none, for it or for its agent."""
        limits = self.limits_of(agent)
        for last in (False, True):
            index = self.runtime.index
            children, at_work = index.active_children(parent_id), index.at_work(agent)
            try:
                rules.check_children(limits, parent_id, len(children))
                rules.check_slots(limits, agent, len(at_work))
            except LimitReached:
                if last or all(map(self.is_true, children if len(children) >= limits.children else at_work)):
                    raise
                self.runtime.reload()  # something else deleted one
            else:
                break
        parent = iris.session(parent_id)
        names = (iris.child_slot(parent, number) for number in range(len(children) + 1))
        return next(name for name in names if index.holder(name) is None)

    def _make(
        self,
        record: SessionRecord,
        *,
        depth: int,
        system: str | None,
        told: Mapping[str, str],
        by: str | None,
        now: datetime,
        inherits: Sequence[Quad] = (),
    ) -> SessionRecord:
        live = Live(
            id=record.id,
            kind=rules.check_kind(record.kind),
            state="active",
            agent=record.agent,
            parent=record.spawned_by,
            depth=depth,
            slot=record.slot,
            expires=record.expires,
            ends_by=None,
        )
        deed = self.deed(by, now)
        workspace, prompt = self.repository.workspace, None
        if system is not None:
            prompt = new_prompt(workspace, record.id, validation.text(system, "system"), 1, 0, by_iri=deed.by_iri)
        with self.step(set(), deed) as step:
            if record.spawned_by is not None:
                step.only_under(record.spawned_by, "active", inherits=inherits)
            step.make(record, live, prompt=prompt, told=told)
            try:
                self.commit(step)
            except PreconditionFailed as failure:
                self._refuse_known(record, failure)
                raise
        self.runtime.sessions[record.id] = Session(Worktree(self.repository.workspace, record, stored=True))
        self.runtime.touched[record.id] = now
        return record

    def _refuse_known(self, record: SessionRecord, failure: PreconditionFailed) -> None:
        """Raise `InvalidInput` where an id or a label is in use; what else stood in the way may have gone by the next try."""
        reader, graph = self.repository.reader, failure.present
        if graph is not None and record.label is not None and reader.labelled(record.label) is not None:
            owner = reader.labelled(record.label)
            raise InvalidInput(f"the label {record.label!r} belongs to session {owner!r}; choose another") from failure
        if reader.is_deleted(record.id) or record.id in reader.records([record.id]):
            raise InvalidInput(f"there is, or was, a session {record.id!r}; choose another id") from failure

    # --- changing states

    def suspend(self, session_id: str, *, by: str | None) -> None:
        """Store a branch's turns, free its slot and let it rest."""
        now = self.now()

        def work() -> None:
            live = self.live(session_id, "suspended")
            rules.check_transition(live.id, live.kind, live.state, "suspended")
            if live.ends_by is not None:
                raise IllegalTransition(
                    f"session {live.id!r} was asked to end by {live.ends_by.isoformat()} and cannot become suspended; "
                    "complete it or fail it",
                    before=live.state,
                    after="suspended",
                )
            with self.step({live.id}, self.deed(by, now)) as step:
                step.suspend(live)
                self.commit(step, flush=live)

        self.attempt(work)

    def resume(self, session_id: str, *, by: str | None) -> None:
        """Let a suspended branch go on, in a slot that is free."""
        now = self.now()

        def work() -> None:
            live = self.live(session_id, "active")
            rules.check_transition(live.id, live.kind, live.state, "active")
            if live.due is not None and live.due <= now:
                raise InvalidInput(
                    f"session {live.id!r} expired at {live.due.isoformat()} while it was suspended; the next sweep ends it"
                )
            slot = self.free_slot(live.parent or "", live.agent)
            with self.step({live.id}, self.deed(by, now)) as step:
                step.resume(live, slot)
                self.commit(step)
            self.runtime.touched[live.id] = now

        self.attempt(work)

    def end(
        self,
        session_id: str,
        after: TreeState,
        status: Status,
        *,
        said: Callable[[], Report] = Report,
        error: str | None = None,
        by: str | None = None,
        rule: str | None = None,
        now: datetime | None = None,
    ) -> SessionResult:
        """End a session: store its turns, hand over its result, and see to its children; return the result."""
        at = self.now(now)

        def work() -> SessionResult:
            live = self.live(session_id, after)
            rules.check_transition(live.id, live.kind, live.state, after)
            with self.step(notified_sessions(self.runtime.index, live), self.deed(by, at, rule)) as step:
                step.end(live, after, status, grace=self.grace, said=said(), error=error)
                self.commit(step, flush=live)
            return cast(SessionResult, read_result(live.parent, step.entries[live.id]))

        return self.attempt(work)

    def cancel(self, session_id: str, *, reason: str, by: str | None) -> None:
        """Ask an active session to end within the grace; a suspended one, which cannot wrap up, expires at once."""
        now = self.now()

        def work() -> None:
            live = self.live(session_id, "failed")
            if live.state == "suspended":
                self.end(live.id, "expired", "cancelled", error=reason, by=by, now=now)
                return
            with self.step({live.id}, self.deed(by, now)) as step:
                step.cancel(live, time_after(now, self.grace), reason)
                if step.moved:
                    self.commit(step)

        self.attempt(work)

    def end_due(self, now: datetime) -> list[str]:
        """End the sessions whose time is over; return their ids, and those of the suspended ones that went with them."""
        ended: list[str] = []
        faults: list[TrailsError] = []
        with self.runtime.lock:
            for due in self.runtime.index.take_due(now):
                before = {each.id for each in _suspended_below(self.runtime, due)}
                try:
                    if self._end_one(due, now):
                        ended += [due.id, *sorted(before)]
                except TrailsError as error:  # one that fails must not keep the others alive
                    faults.append(error)
                    self._put_back(due)
        if faults:
            raise faults[0]
        return ended

    def _end_one(self, due: Live, now: datetime) -> bool:
        live = self.runtime.index.get(due.id)
        if live is None or live.due is None or live.due > now:
            return False  # it went with its parent, in this sweep
        cancelled = live.ends_by is not None and live.ends_by <= now and live.state == "active"
        after: TreeState = "failed" if cancelled else "expired"
        status: Status = "cancelled" if cancelled else "expired"
        why = self._why_cancelled(live.id) if cancelled else "its time to live was over"
        try:
            rule = _GRACE if cancelled else _TTL
            self.end(live.id, after, status, error=why, by=self.keeper(), rule=rule, now=now)
        except (IllegalTransition, SessionNotFound):
            return False  # another writer ended or deleted it meanwhile
        return True

    def _why_cancelled(self, session_id: str) -> str:
        found = ledger_entries.read_entries_where(self.repository.store, session_id, vocab.TYPE, vocab.CANCELLATION)
        reason = next((each.reason for each in found if isinstance(each, Cancellation)), None)
        return "it did not wrap up in time after it was asked to end" + (f" ({reason})" if reason else "")

    def _put_back(self, due: Live) -> None:
        live = self.runtime.index.get(due.id)
        if live is not None:
            self.runtime.index.put(live)


def _suspended_below(runtime: Runtime, live: Live) -> list[Live]:
    found = [each for each in runtime.index.children(live.id) if each.state == "suspended"]
    return [*found, *(below for each in found for below in _suspended_below(runtime, each))]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpawnOptions:
    """What a host asks of a spawn."""

    kind: str
    task: str | None = None
    context_summary: str | None = None
    ttl: timedelta | None = None
    tier: str | None = None
    agent: str | None = None
    channel: str | None = None
    principal: str | None = None
    system: str | None = None
    id: str | None = None
    label: str | None = None
    by: str | None = None


def spawn_session(lifecycle: Lifecycle, parent_id: str | None, wanted: SpawnOptions) -> SessionRecord:
    """Make a session and return its row, or raise with nothing changed: see `Tree.spawn`."""
    kind, now = rules.check_kind(wanted.kind), lifecycle.now()
    if kind == "main":
        return _main(lifecycle, parent_id, wanted, _row(kind, wanted, now), now)
    told = _told(kind, wanted)
    if parent_id is None:
        raise InvalidInput(f"a {kind} needs a parent; only a main has none")
    blank = _row(kind, wanted, now)

    def row(parent: Live, slot: str) -> SessionRecord:
        above = lifecycle.record(parent.id)
        if wanted.agent not in (None, above.agent):
            raise InvalidInput(
                f"session {above.id!r} belongs to agent {above.agent!r}, and nothing in the tree under it may belong to "
                f"another agent ({wanted.agent!r}); spawn from a session of that agent, and let the two exchange messages"
            )
        tier = wanted.tier or (above.tier if kind == "branch" else lifecycle.cheapest)
        ours = {"slot": slot, "spawned_by": above.id, "agent": above.agent, "principal": above.principal, "tier": tier}
        return blank.model_copy(update=ours)

    return lifecycle.make_child(parent_id, row, kind=kind, told=told, by=wanted.by, now=now)


def _row(kind: Kind, wanted: SpawnOptions, now: datetime) -> SessionRecord:
    """Return the row of a session as far as its parent plays no part in it."""
    return SessionRecord(
        id=uuid4().hex if wanted.id is None else validation.session_id(wanted.id),
        kind=kind,
        created=now,
        expires=rules.expiry_time(kind, wanted.ttl, now),
        label=None if wanted.label is None else validation.label(wanted.label),
        tier=None if wanted.tier is None else validation.name(wanted.tier, "tier"),
        principal=DEFAULT_PRINCIPAL,
        agent=DEFAULT_AGENT,
    )


def _main(
    lifecycle: Lifecycle, parent_id: str | None, wanted: SpawnOptions, blank: SessionRecord, now: datetime
) -> SessionRecord:
    if parent_id is not None:
        raise InvalidInput(f"a main has no parent, and {parent_id!r} was given")
    if wanted.context_summary is not None:
        raise InvalidInput("a main has no parent that could give it a context_summary; say it in its system prompt")
    if wanted.agent is None or wanted.channel is None:
        raise InvalidInput("a main needs the agent that it belongs to and the channel that it is for")
    agent, channel = validation.name(wanted.agent, "agent"), validation.name(wanted.channel, "channel")
    ours = {"agent": agent, "channel": channel, "slot": iris.main_slot(agent, channel)}
    if wanted.principal is not None:
        ours["principal"] = validation.name(wanted.principal, "principal")
    told = {} if wanted.task is None else {"task": validation.text(wanted.task, "the task")}
    system = None if wanted.system is None else validation.text(wanted.system, "system")
    return lifecycle.make_main(blank.model_copy(update=ours), system=system, told=told, by=wanted.by, now=now)


def _told(kind: Kind, wanted: SpawnOptions) -> dict[str, str]:
    """Return what a branch or a worker is told, or raise for what it may not be given."""
    for name in ("channel", "principal", "system"):
        if getattr(wanted, name) is not None:
            whence = "has none" if kind == "worker" and name == "system" else "has its parent's"
            raise InvalidInput(f"{name} is for mains; a {kind} {whence if name != 'channel' else 'has none'}")
    if wanted.task is None:
        raise InvalidInput(f"a {kind} needs a task")
    told = {"task": validation.text(wanted.task, "the task")}
    if wanted.context_summary is not None:
        if kind == "worker":
            raise InvalidInput(
                "a worker gets no context_summary: all that it is told is its task; say what it needs there, or spawn a "
                "branch"
            )
        told["context"] = validation.text(wanted.context_summary, "context_summary")
    return told
