"""Spawn tree sessions and change their states, each time in one commit that checks what it builds on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, TypeVar, cast
from uuid import uuid4

from pyoxigraph import NamedNode, Quad

from trails.errors import HeadConflict, IllegalTransition, InvalidInput, LimitReached, SessionNotFound, TrailsError
from trails.history.pending_session import Worktree, new_prompt
from trails.history.records import ledger_entries
from trails.history.transaction import is_mentioned
from trails.model import iris, validation
from trails.model.values import SessionRecord, SystemPrompt
from trails.rdf import vocab
from trails.rdf.activity_records import Deed
from trails.rdf.ledger_records import ENDED, Cancellation, Status, TreeState
from trails.rdf.session_records import DEFAULT_AGENT, DEFAULT_PRINCIPAL, decode_records, prompt_quads, session_quads
from trails.runtime import tree_state as rules
from trails.runtime.config_values import time_after
from trails.runtime.timer import Clock, clock_time
from trails.runtime.tree_state import Live, SessionResult
from trails.session import Repository, Session
from trails.store.contract import PreconditionFailed

_TRIES: Final = 5
"""How often something is tried again after another writer came between."""
_INHERITED: Final = frozenset({vocab.ATTRIBUTED_TO, vocab.SESSION_AGENT, vocab.TIER})
"""What a row says that the rows of children repeat."""
_GRACE: Final = "sweep: the grace after a request to end"
_TTL: Final = "sweep: time to live"
"""The rules by which sessions end whose time is over."""
_Result = TypeVar("_Result")


Briefing = Mapping[str, str]
"""What a session is told when it is made: its "task" and its "context"."""


class Lifecycle:
    """The tree of one store under one host's settings.

    Every method that changes something holds the runtime's lock.
    """

    def __init__(
        self,
        repository: Repository,
        *,
        clock: Clock | None,
        limits: rules.Limits,
        agent_limits: Mapping[str, rules.Limits],
        grace: timedelta,
        cheapest: str,
    ) -> None:
        self.repository = repository
        self.runtime: rules.Runtime = rules.runtime_of(repository)
        self.grace = rules.check_span(grace, "grace", zero=True)
        self.cheapest = validation.name(cheapest, "cheapest")
        self._clock = clock
        self._limits = limits.checked()
        self._agent_limits = {name: each.checked() for name, each in agent_limits.items()}

    def now(self, given: datetime | None = None) -> datetime:
        """Return the time: the one given, or the clock's."""
        return clock_time(self._clock) if given is None else validation.time(given, "now")

    # --- finding

    def record(self, session_id: str) -> SessionRecord:
        """Return the row of a session of the tree.

        Raise `InvalidInput` for a session that is none of it.
        """
        store, node = self.repository.store, NamedNode(iris.session(session_id))
        quads = store.quads((node, None, None, vocab.CATALOG))  # a look-up takes a fifth of a query's time
        rows = decode_records((node.value, quad.predicate.value, quad.object) for quad in quads)
        record = rows.get(session_id) or self.repository.record(session_id)  # which raises for one that is not there
        if record.kind not in rules.KINDS:
            raise InvalidInput(
                f"session {record.id!r} is not part of the session tree; `Tree.main` makes a main session, `spawn` the others"
            )
        return record

    def live(self, session_id: str, after: TreeState) -> Live:
        """Return a session that has not ended and is to go to a state; raise `IllegalTransition` for one that has."""
        live = self.runtime.index.get(session_id)
        if live is not None:
            return live
        record = self.record(session_id)
        remedy = (
            "an end is final: spawn another one" if record.state in ENDED else "it takes no slot of the session tree"
        )
        message = f"session {record.id!r} is {record.state} and cannot become {after}; {remedy}"
        raise IllegalTransition(message, before=record.state, after=after)

    def session(self, live: Live) -> Session:
        """Return the handle of an active session, which holds its turns that are not stored.

        One that holds nothing is loaded anew if others (a message loop) have stored turns meanwhile.
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
    def step(self, sessions: set[str], deed: Deed) -> Iterator[rules.TreeTransaction]:
        """Yield a commit to put together, with the ledgers of sessions held until it is done."""
        with rules.lock_ledgers(self.runtime.book, sessions) as numbers:
            yield rules.TreeTransaction(self.runtime.index, self.repository.store, numbers, deed)

    def commit(self, step: rules.TreeTransaction, *, flush: Live | None = None) -> None:
        """Do a commit, with the turns of the session `flush` that are not stored, and take note of what it did."""
        session = None if flush is None else self.runtime.sessions.get(flush.id)
        if session is None or flush is None or flush.kind == "worker":
            step.change().commit(self.repository.store)
        else:
            try:
                session.worktree.persist(step.change())
            except HeadConflict:  # another writer's turns are where these were to go: they are kept beside
                step.kept_as(flush.id, session.keep_as_fork().id)
                step.change().commit(self.repository.store)
        for session_id, live in step.moved.items():
            self.runtime.index.pop(session_id, None)
            if live is not None:
                self.runtime.index[session_id] = live
            if live is None or live.state != "active":
                handle = self.runtime.sessions.get(session_id)
                if handle is not None:
                    handle.discard_pending()  # a worker's, which are never stored; any other's are by now
                self.runtime.forget(session_id)

    # --- making sessions

    def spawn(self, parent_id: str | None, options: SpawnOptions) -> SessionRecord:
        """Make a session and return its row, or raise with nothing changed: see `Tree.spawn`."""
        kind, now = rules.check_kind(options.kind), self.now()
        if kind == "main" and parent_id is not None:
            raise InvalidInput(f"a main has no parent, and {parent_id!r} was given")
        brief = (_main_brief if kind == "main" else _child_brief)(options)
        if kind != "main" and parent_id is None:
            raise InvalidInput(f"a {kind} needs a parent; only a main has none")
        record = SessionRecord(
            id=uuid4().hex if options.id is None else validation.session_id(options.id),
            kind=kind,
            created=now,
            expires=rules.expiry_time(kind, options.ttl, now),
            label=None if options.label is None else validation.label(options.label),
            tier=None if options.tier is None else validation.name(options.tier, "tier"),
            principal=DEFAULT_PRINCIPAL
            if options.principal is None
            else validation.name(options.principal, "principal"),
            agent=DEFAULT_AGENT,
        )
        deed = self.deed(options.by, now)
        if parent_id is not None:
            return self.attempt(lambda: self._spawn_child(parent_id, record, options.agent, brief, deed))
        agent, channel = validation.name(options.agent, "agent"), validation.name(options.channel, "channel")
        system = None if options.system is None else validation.text(options.system, "system")
        slot = iris.main_slot(agent, channel)
        record = record.model_copy(update={"agent": agent, "channel": channel, "slot": slot})
        return self.attempt(lambda: self._spawn_main(record, system, brief, deed))

    def _spawn_main(self, record: SessionRecord, system: str | None, brief: Briefing, deed: Deed) -> SessionRecord:
        held = self.main_of(record.slot or "")
        if held is not None:
            message = (
                f"agent {record.agent!r} has the main session {held.id!r} on channel {record.channel!r}, and there is "
                "one main at most: this would be the second; use that one, or end it first"
            )
            raise LimitReached(message, limit="mains", allowed=1, wanted=2)
        return self._make(record, 0, system, brief, deed)

    def main_of(self, slot: str) -> Live | None:
        """Return the main session that takes a slot, or None."""
        held = self.runtime.index.holder(slot)
        if held is not None and not self.is_stored(held):
            self.runtime.reload()
            held = self.runtime.index.holder(slot)
        return held

    def is_stored(self, live: Live) -> bool:
        """Return whether a session is stored in the state that the index has it in."""
        quad = rules.state_quad(live.id, live.state)
        return bool(self.repository.store.quads((quad.subject, quad.predicate, quad.object, quad.graph_name)))  # type: ignore[arg-type] # IRIs

    def _spawn_child(
        self, parent_id: str, record: SessionRecord, agent: str | None, brief: Briefing, deed: Deed
    ) -> SessionRecord:
        kind, parent = rules.check_kind(record.kind), self._active_parent(parent_id, deed.time)
        rules.check_depth(self._agent_limits.get(parent.agent, self._limits), kind, parent)
        slot, above = self.free_slot(parent.id, parent.agent), self.record(parent.id)
        if agent not in (None, above.agent):
            raise InvalidInput(
                f"session {above.id!r} belongs to agent {above.agent!r}, and nothing in the tree under it may belong to "
                f"another agent ({agent!r}); spawn from a session of that agent, and let the two exchange messages"
            )
        tier = record.tier or (above.tier if kind == "branch" else self.cheapest)
        ours = {"slot": slot, "spawned_by": above.id, "agent": above.agent, "principal": above.principal, "tier": tier}
        persona = self._persona(parent) if kind == "branch" else None
        # what the child takes over must still be said: names and prompts are redacted, maybe by another process
        inherited = [quad for quad in session_quads(above) if quad.predicate in _INHERITED]
        if persona is not None:
            inherited += [quad for quad in prompt_quads(persona) if quad.predicate == vocab.VALUE]
        inherits = is_mentioned(self.repository.store, inherited)
        system = None if persona is None else persona.text
        record = record.model_copy(update=ours)
        return self._make(record, parent.depth + 1, system, brief, deed, inherits=inherits)

    def _persona(self, live: Live) -> SystemPrompt | None:
        """Return the system prompt in force for a session, also one that is set and not stored yet; none that was redacted."""
        known, reader = self.runtime.sessions.get(live.id), self.repository.reader
        prompt = reader.prompt(reader.lineage(live.id)) if known is None else known.system_prompt
        return None if prompt is None or prompt.redacted else prompt

    def _active_parent(self, parent_id: str, now: datetime) -> Live:
        """Return a session that may spawn, or raise for one that is not active, was asked to end, or is due."""
        parent = self.runtime.index.get(parent_id)
        if parent is None or parent.state != "active":
            state = self.record(parent_id).state if parent is None else parent.state
            raise InvalidInput(f"session {parent_id!r} is {state}, and only an active one spawns; nothing was spawned")
        if parent.due is not None and (parent.ends_by is not None or parent.due <= now):
            why = "was asked to end" if parent.ends_by is not None else "is over its time to live"
            raise InvalidInput(
                f"session {parent_id!r} {why} (by {parent.due.isoformat()}) and spawns nothing any more; spawn from its parent"
            )
        return parent

    def free_slot(self, parent_id: str, agent: str) -> str:
        """Return a slot of a parent that is free.

        Raise `LimitReached` if there is none, for it or for its agent.
        """
        limits = self._agent_limits.get(agent, self._limits)
        for last in (False, True):
            index = self.runtime.index
            children = [each for each in index.children(parent_id) if each.state == "active"]
            working = index.at_work(agent)
            try:
                rules.check_slots(limits, parent_id, len(children), agent, len(working))
            except LimitReached:
                if last:
                    raise
                self.runtime.reload()  # something else may have deleted one
            else:
                break
        slots = (iris.child_slot(iris.session(parent_id), number) for number in range(len(children) + 1))
        taken = {each.slot for each in index.values()}
        return next(slot for slot in slots if slot not in taken)

    def _make(
        self,
        record: SessionRecord,
        depth: int,
        system: str | None,
        brief: Briefing,
        deed: Deed,
        *,
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
        workspace, prompt = self.repository.workspace, None
        if system is not None:
            prompt = new_prompt(workspace, record.id, system, 1, 0, by_iri=deed.by_iri)
        with self.step(set(), deed) as step:
            if record.spawned_by is not None:
                step.only_under(record.spawned_by, "active", inherits=inherits)
            step.make(record, live, prompt=prompt, brief=brief)
            try:
                self.commit(step)
            except PreconditionFailed as failure:
                self._refuse_known(record, failure)
                raise
        self.runtime.sessions[record.id] = Session(Worktree(workspace, record, stored=True))
        self.runtime.touched[record.id] = deed.time
        return record

    def _refuse_known(self, record: SessionRecord, failure: PreconditionFailed) -> None:
        """Raise `InvalidInput` for an id or a label in use.

        What else stood in the way may have gone by the next try.
        """
        reader = self.repository.reader
        owner = None if record.label is None or failure.present is None else reader.labelled(record.label)
        if owner is not None:
            raise InvalidInput(f"the label {record.label!r} belongs to session {owner!r}; choose another") from failure
        if reader.is_deleted(record.id) or record.id in reader.records([record.id]):
            raise InvalidInput(f"there is, or was, a session {record.id!r}; choose another id") from failure

    # --- changing states

    def suspend(self, session_id: str, *, by: str | None) -> None:
        """Store a branch's turns, free its slot and let it rest."""
        now = self.now()

        def work() -> None:
            live = self.live(session_id, "suspended")
            rules.check_transition(live, "suspended")
            if live.ends_by is not None:
                when = live.ends_by.isoformat()
                message = f"session {live.id!r} was asked to end by {when} and cannot become suspended; complete it or fail it"
                raise IllegalTransition(message, before=live.state, after="suspended")
            with self.step({live.id}, self.deed(by, now)) as step:
                step.suspend(live)
                self.commit(step, flush=live)

        self.attempt(work)

    def resume(self, session_id: str, *, by: str | None) -> None:
        """Let a suspended branch go on, in a slot that is free."""
        now = self.now()

        def work() -> None:
            live = self.live(session_id, "active")
            rules.check_transition(live, "active")
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
        said: Callable[[], rules.Report] = rules.Report,
        error: str | None = None,
        by: str | None = None,
        rule: str | None = None,
        now: datetime | None = None,
    ) -> SessionResult:
        """End a session: store its turns, hand over its result, and see to its children; return the result."""
        at = self.now(now)

        def work() -> SessionResult:
            live = self.live(session_id, after)
            rules.check_transition(live, after)
            with self.step(rules.notified_sessions(self.runtime.index, live), self.deed(by, at, rule)) as step:
                step.end(live, after, status, grace=self.grace, said=said(), error=error)
                self.commit(step, flush=live)
            return cast(SessionResult, rules.read_result(live.parent, step.entries[live.id]))

        return self.attempt(work)

    def cancel(self, session_id: str, *, reason: str, by: str | None) -> None:
        """Ask an active session to end within the grace.

        A suspended one, which cannot wrap up, expires at once.
        """
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
        """End the sessions whose time is over.

        Return their ids, and those of the suspended ones that went with them.
        """
        ended: list[str] = []
        faults: list[TrailsError] = []
        with self.runtime.lock:
            for due in self.runtime.index.due(now):
                live = self.runtime.index.get(due.id)
                if live is None or live.due is None or live.due > now:
                    continue  # it went with its parent, in this sweep
                below = sorted(each.id for each in self._suspended_below(due.id))
                try:
                    if self._end_one(live, now):
                        ended += [due.id, *below]
                except TrailsError as error:  # one that fails must not keep the others alive
                    faults.append(error)
        if faults:
            raise faults[0]
        return ended

    def _end_one(self, live: Live, now: datetime) -> bool:
        is_cancelled = live.ends_by is not None and live.ends_by <= now and live.state == "active"
        try:
            if is_cancelled:
                store = self.repository.store
                asked = ledger_entries.read_entries_where(store, live.id, vocab.TYPE, vocab.CANCELLATION)
                reason = next((each.reason for each in asked if isinstance(each, Cancellation)), None)
                error = "it did not wrap up in time after it was asked to end" + (f" ({reason})" if reason else "")
                self.end(live.id, "failed", "cancelled", error=error, by=self.keeper(), rule=_GRACE, now=now)
            else:
                error = "its time to live was over"
                self.end(live.id, "expired", "expired", error=error, by=self.keeper(), rule=_TTL, now=now)
        except (IllegalTransition, SessionNotFound):
            return False  # another writer ended or deleted it meanwhile
        return True

    def _suspended_below(self, session_id: str) -> list[Live]:
        suspended = [each for each in self.runtime.index.children(session_id) if each.state == "suspended"]
        return [*suspended, *(below for each in suspended for below in self._suspended_below(each.id))]


@dataclass(frozen=True, slots=True)
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


def _main_brief(options: SpawnOptions) -> dict[str, str]:
    """Return what a main is told, or raise for what it may not be given."""
    if options.context_summary is not None:
        raise InvalidInput("a main has no parent that could give it a context_summary; say it in its system prompt")
    if options.agent is None or options.channel is None:
        raise InvalidInput("a main needs the agent that it belongs to and the channel that it is for")
    return {} if options.task is None else {"task": validation.text(options.task, "the task")}


def _child_brief(options: SpawnOptions) -> dict[str, str]:
    """Return what a branch or a worker is told, or raise for what it may not be given."""
    kind = options.kind
    for name in ("channel", "principal", "system"):
        if getattr(options, name) is not None:
            whence = "has none" if name == "channel" or (kind, name) == ("worker", "system") else "has its parent's"
            raise InvalidInput(f"{name} is for mains; a {kind} {whence}")
    if options.task is None or not options.task.strip():
        raise InvalidInput(f"a {kind} needs a task that says something")
    brief = {"task": validation.text(options.task, "the task")}
    if options.context_summary is not None:
        if kind == "worker":
            raise InvalidInput(
                "a worker gets no context_summary: all that it is told is its task; say what it needs there, or spawn a "
                "branch"
            )
        brief["context"] = validation.text(options.context_summary, "context_summary")
    return brief
