"""The session tree of a store, as its host sees it: mains, branches and workers, spawned, ended, swept, taken up again."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, cast

from trails import iris, validate
from trails.errors import HeadConflict, InvalidInput
from trails.ledger import Ledger
from trails.model import Turn, Value
from trails.plumbing import briefs
from trails.plumbing.watch import Notice, Subscription
from trails.records.entries import Event
from trails.records.tree_entries import ENDED, Cancellation, Transition, TreeState
from trails.session import Repository
from trails.session.session import Session
from trails.tree import outcomes, recovery, results, spawning, standing
from trails.tree.lifecycle import Clock, Core
from trails.tree.limits import GRACE, Limits
from trails.tree.node import Node
from trails.tree.results import ArtifactLike, SessionResult
from trails.tree.snapshot import HOURLY, Exporter

_LONG_AGO: Final = datetime(1, 1, 1, tzinfo=UTC)


class Tick(Value):
    """What one tick of the host's clock did."""

    ended: tuple[str, ...] = ()
    """The ids of the sessions whose time was over, and of the suspended ones that went with them."""
    exported: Path | None = None
    """The file that the store was written to; None where it was not time."""


class Tree:
    """The session tree of a store: mains that talk to people, branches and workers that they spawn for parts of the work.

    Nothing flows between sessions but what is said: a task and a summary down, a result up. All states, tasks and results
    are stored when they happen; several `Tree`s on one open store are one. The host calls the models, and `tick`.

    >>> import trails
    >>> with trails.open(":memory:") as store:
    ...     tree = trails.Tree(store)
    ...     main = tree.main("planner", "chat")
    ...     branch = main.spawn("branch", "Find a train", "Two friends want to see the sea.", id="trains")
    ...     turn = branch.append("assistant", "The 9:04 goes there.")
    ...     done = branch.complete("Take the 9:04.")
    ...     [tree.incorporate(result).content for result in main.results()]
    ['The branch trains completed.\\n\\nTake the 9:04.']
    """

    def __init__(
        self,
        store: Repository,
        *,
        clock: Clock | None = None,
        limits: Limits | None = None,
        agent_limits: Mapping[str, Limits] | None = None,
        grace: timedelta = GRACE,
        cheapest: str = "cheapest",
        export_to: str | os.PathLike[str] | None = None,
        export_every: timedelta = HOURLY,
    ) -> None:
        """Take up the tree of a store.

        The first time on a store that was opened, what an earlier process left at work is marked failed and its parents
        are told (`recovered` names it); mains and suspended branches are as they were. `clock` gives the time (aware;
        the system's by default). `limits` hold for all agents but those in `agent_limits`. `grace` is how long a session
        that was asked to end has to wrap up, 0 or more. `cheapest` is the tier of models that workers use. `tick` writes
        the whole store to the file `export_to`, where one is named, every `export_every` (more than 0), as sorted N-Quads;
        compressed where its name ends in `.gz`.
        """
        self._core = Core(
            store,
            clock=clock,
            limits=Limits() if limits is None else limits,
            agent_limits=agent_limits or {},
            grace=grace,
            cheapest=cheapest,
        )
        self._ledger = Ledger(store, clock=self._core.now)
        self._exporter = None if export_to is None else Exporter(store, Path(export_to), export_every)
        self.recovered: tuple[str, ...] = tuple(recovery.recover(self._core, self._core.now()))
        """The ids of the sessions that were at work when an earlier process ended, and so have failed."""

    def __repr__(self) -> str:
        return f"<Tree of {self.store!r}: {len(self._core.runtime.index)} sessions have not ended>"

    @property
    def store(self) -> Repository:
        """The store of the sessions."""
        return self._core.repository

    def _id(self, session: Node | str) -> str:
        if isinstance(session, Node):
            return session.id
        return session if self._core.runtime.index.get(session) is not None else self.store.record(session).id

    # --- making sessions

    def main(
        self,
        agent: str,
        channel: str,
        *,
        principal: str | None = None,
        system: str | None = None,
        tier: str | None = None,
        id: str | None = None,  # noqa: A002 - as in `Repository.create`
    ) -> Node:
        """Return the main session of an agent on a channel; there is one at most, and it is made where there is none.

        `principal`, `system` (the persona that branches inherit), `tier` and `id` are for one that is made; for one that
        is there they are not looked at. A main that has ended leaves its place to another.
        """
        slot = iris.main_slot(validate.name(agent, "agent"), validate.name(channel, "channel"))
        with self._core.runtime.lock:
            held = self._core.main_of(slot)
            if held is not None:
                return self.get(held.id)
            return self.spawn(
                None, "main", agent=agent, channel=channel, principal=principal, system=system, tier=tier, id=id
            )

    def spawn(  # noqa: PLR0917 - a host says kind, task, summary, time to live and tier in this order
        self,
        parent: Node | str | None,
        kind: str,
        task: str | None = None,
        context_summary: str | None = None,
        ttl: timedelta | None = None,
        tier: str | None = None,
        *,
        agent: str | None = None,
        channel: str | None = None,
        principal: str | None = None,
        system: str | None = None,
        id: str | None = None,  # noqa: A002 - as in `Repository.create`
        label: str | None = None,
        by: str | None = None,
    ) -> Node:
        """Make a session and return its handle; its row, task and summary are stored in one commit.

        A "branch" or a "worker" has a parent, an active main or branch, and a task. All that a branch sees of its parent
        is the `context_summary`; it inherits its system prompt, agent and principal. A worker has neither summary nor
        system prompt. A "main" has no parent; it has an `agent`, a `channel`, and may have a `principal` and a `system`
        prompt of its own. `ttl` is its time to live, which goes on while it is suspended: 30 minutes for a branch, 5 for a
        worker, no end for a main unless given. `tier` is the tier of models: the parent's for a branch, the cheapest for
        a worker. `by` names who spawns (the agent unless given).

        Raises `LimitReached`, which names the limit and the numbers, where the tree would grow too deep or too wide, or
        have a second main; `InvalidInput` for a summary for a worker, another agent's branch, or a parent that is not
        active. Nothing was changed then.

        >>> import trails
        >>> with trails.open(":memory:") as store:
        ...     tree = trails.Tree(store, limits=trails.Limits(children=1))
        ...     main = tree.main("planner", "chat")
        ...     worker = tree.spawn(main, "worker", "Count the words")
        ...     worker.ttl.total_seconds(), worker.tier, worker.depth
        ...     try:
        ...         tree.spawn(main, "worker", "Count them again")
        ...     except trails.LimitReached as refused:
        ...         refused.limit, refused.allowed, refused.wanted
        (300.0, 'cheapest', 1)
        ('children', 1, 2)
        """
        wanted = spawning.Wanted(
            kind, task, context_summary, ttl, tier, agent, channel, principal, system, id, label, by
        )
        return Node(self, spawning.spawn(self._core, None if parent is None else self._id(parent), wanted))

    # --- finding sessions

    def get(self, session: Node | str) -> Node:
        """Return the handle of a session of the tree, ended or not; raise `SessionNotFound` or `InvalidInput` for others."""
        return Node(self, self._core.record(self._id(session)))

    def mains(self) -> list[Node]:
        """Return the mains that have not ended, by id."""
        return self._nodes(each.id for each in self._core.runtime.index if each.kind == "main")

    def children(self, session: Node | str) -> list[Node]:
        """Return the children of a session that have not ended, by id."""
        return self._nodes(each.id for each in self._core.runtime.index.children(self._id(session)))

    def at_work(self, agent: str) -> list[Node]:
        """Return the branches and workers of an agent that are active, by id: those that take its slots."""
        return self._nodes(each.id for each in self._core.runtime.index.at_work(validate.name(agent, "agent")))

    def _nodes(self, ids: Iterable[str]) -> list[Node]:
        with self._core.runtime.lock:
            found = self.store.reader.records(sorted(ids))
        return [Node(self, found[each]) for each in sorted(found)]

    def state(self, session: Node | str) -> TreeState:
        """Return the state that a session is in."""
        session_id = self._id(session)
        live = self._core.runtime.index.get(session_id)
        return live.state if live is not None else cast(TreeState, self._core.record(session_id).state)

    def depth(self, session: Node | str) -> int:
        """Return how many spawns a session is away from the top of its tree."""
        record, depth = self._core.record(self._id(session)), 0
        while record.spawned_by is not None and record.spawned_by in self.store:
            record, depth = self.store.record(record.spawned_by), depth + 1
        return depth

    def told(self, session: Node | str) -> dict[str, str]:
        """Return what a session was told when it was made: its "task", and the "context" that its parent summed up."""
        told = briefs.told(self.store.store, [self._core.record(self._id(session))])
        return {what: text for what, text in told._asdict().items() if text is not None}

    def history(self, session: Node | str) -> list[Transition | Cancellation]:
        """Return every change of a session's state, and the request to end, in order."""
        return standing.history(self.store.store, self._id(session))

    def cancellation(self, session: Node | str) -> Cancellation | None:
        """Return the request to a session to end by a time, or None."""
        session_id = self._id(session)
        live = self._core.runtime.index.get(session_id)
        if live is not None and live.ends_by is None:
            return None  # what is asked most often, and needs no look at the store
        found = [each for each in self.history(session_id) if isinstance(each, Cancellation)]
        return found[0] if found else None

    def result(self, session: Node | str) -> SessionResult | None:
        """Return how a session ended; None while it has not."""
        return standing.result(self._core, self._id(session))

    # --- turns

    def session(self, session: Node | str) -> Session:
        """Return a session with its turns: while it is active the one handle that holds those that are not stored."""
        session_id = self._id(session)
        with self._core.runtime.lock:
            live = self._core.runtime.index.get(session_id)
            if live is None or live.state != "active":
                return self.store.load(session_id)
            return self._core.session(live)

    def append(self, session: Node | str, role: str, content: str | Sequence[Any], **recorded: Any) -> Turn:
        """Append a turn to an active session and return it: see `Node.append`."""
        session_id = self._id(session)
        with self._core.runtime.lock:
            state = self.state(session_id)
            if state != "active":
                remedy = "resume it first" if state == "suspended" else "spawn another one"
                raise InvalidInput(f"session {session_id!r} is {state} and takes no turns; {remedy}")
            now = self._core.now()
            recorded.setdefault("time", now)
            handle = self.session(session_id)
            turn = handle.append(role, content, **recorded)
            self._core.runtime.touched[session_id] = now
            if handle.record.kind == "main":
                try:
                    handle.persist()
                except HeadConflict:
                    handle.worktree.take_back()
                    self._core.runtime.forget(session_id)  # the next handle is loaded anew
                    raise
            return turn

    def persist(self, session: Node | str) -> int:
        """Store the turns of a main or branch that are in memory, and return how many; raise `InvalidInput` for a worker."""
        session_id = self._id(session)
        with self._core.runtime.lock:
            if self._core.record(session_id).kind == "worker":
                raise InvalidInput(f"session {session_id!r} is a worker, and the turns of workers are never stored")
            return self.session(session_id).persist()

    # --- ends, and rests

    def complete(
        self,
        session: Node | str,
        summary: str | None = None,
        *,
        artifacts: Iterable[ArtifactLike] = (),
        memory_ids: Iterable[str] = (),
        by: str | None = None,
    ) -> SessionResult:
        """End an active session with success and return its result, which goes to its parent in the same commit.

        `summary` says what it found; `artifacts` are what it created, modified or deleted: (uri, change, sha256) or
        `Artifact`s; `memory_ids` name what it wrote into the agent's memory, and a worker has none. Its active children
        are asked to end within the grace, its suspended ones expire. A branch's turns are stored.

        Raises `IllegalTransition`, which names both states, for a session that is not active.
        """
        listed, ids = list(artifacts), memory_ids if isinstance(memory_ids, str) else list(memory_ids)
        return self._end(session, "completed", summary, listed, ids, error=None, by=by)

    def fail(
        self,
        session: Node | str,
        error: str,
        *,
        summary: str | None = None,
        artifacts: Iterable[ArtifactLike] = (),
        memory_ids: Iterable[str] = (),
        by: str | None = None,
    ) -> SessionResult:
        """End an active session without success and return its result; `error` says why. All else is as for `complete`.

        Raises `InvalidInput` for an error that says nothing.
        """
        if not validate.text(error, "error").strip():
            raise InvalidInput(f"the error of session {self._id(session)!r} is empty: say why it failed")
        listed, ids = list(artifacts), memory_ids if isinstance(memory_ids, str) else list(memory_ids)
        return self._end(session, "failed", summary, listed, ids, error=error, by=by)

    def _end(
        self,
        session: Node | str,
        after: TreeState,
        summary: str | None,
        artifacts: list[ArtifactLike],
        memory_ids: Iterable[str],
        *,
        error: str | None,
        by: str | None,
    ) -> SessionResult:
        return self._core.end(
            self._id(session),
            after,
            "completed" if after == "completed" else "failed",
            said=lambda live: results.report(live.kind, summary, artifacts, memory_ids, live.id),
            error=error,
            by=by,
            now=self._core.now(),
        )

    def cancel(self, session: Node | str, reason: str | None = None, *, by: str | None = None) -> None:
        """Ask an active session to end within the grace; a suspended one, which cannot wrap up, expires at once.

        The request is stored and goes to those who asked for it (`on_cancel`). The session may still complete or fail;
        else the first sweep after the grace ends it as failed, with the result "cancelled".
        """
        why = "cancelled" if reason is None else validate.text(reason, "reason")
        self._core.cancel(self._id(session), reason=why, by=by, now=self._core.now())

    def on_cancel(
        self, callback: Callable[[Cancellation], object], *, session: Node | str | None = None
    ) -> Subscription:
        """Call a function with every request to end from now on (or those to one session), as `Repository.subscribe` does."""

        def told(notice: Notice) -> None:
            found = [each for each in self.history(notice.session_id) if each.number == notice.count]
            for each in found:
                if isinstance(each, Cancellation):
                    callback(each)

        wanted = None if session is None else self._id(session)
        return self.store.subscribe(told, kinds=["cancel"], session=wanted)

    def suspend(self, session: Node | str, *, by: str | None = None) -> None:
        """Let an active branch rest: its turns are stored, its slot is free, and its time to live goes on.

        Raises `IllegalTransition` for another kind, another state, or a branch that was asked to end.
        """
        self._core.suspend(self._id(session), by=by, now=self._core.now())

    def resume(self, session: Node | str, *, by: str | None = None) -> None:
        """Let a suspended branch go on; raise `LimitReached` where its parent or agent has no slot free."""
        self._core.resume(self._id(session), by=by, now=self._core.now())

    def suspend_idlest(self, count: int, *, agent: str | None = None, by: str | None = None) -> list[str]:
        """Suspend the active branches (of an agent) that did nothing for the longest time; return their ids, idlest first.

        At most `count`, fewer where there are no more; those that were asked to end are left alone.
        """
        wanted, runtime = validate.index(count, "count"), self._core.runtime
        with runtime.lock:
            found = [
                each
                for each in runtime.index
                if each.kind == "branch"
                and each.state == "active"
                and each.ends_by is None
                and agent in (None, each.agent)
            ]
            found.sort(key=lambda each: (runtime.touched.get(each.id, _LONG_AGO), each.id))
            for each in found[:wanted]:
                self.suspend(each.id, by=by)
        return [each.id for each in found[:wanted]]

    # --- the clock

    def sweep(self, now: datetime | None = None) -> list[str]:
        """End every session whose time is over at `now` (default: the clock's time); return the ids, in order.

        A time to live that is over ends it as expired, a grace that is over as failed, with the result "cancelled". What
        is not due is not looked at.
        """
        return self._core.end_due(self._core.now(now))

    def tick(self, now: datetime | None = None) -> Tick:
        """Do all that is due at `now` (default: the clock's time): a sweep, and the export where it is time for one."""
        at = self._core.now(now)
        ended = self.sweep(at)
        return Tick(ended=tuple(ended), exported=None if self._exporter is None else self._exporter.tick(at))

    # --- between parent and child

    def results(self, parent: Node | str) -> list[SessionResult]:
        """Return the results that a session was told and has not decided on, in the order in which they came.

        One whose session was deleted meanwhile is a message in the inbox, and nothing here.
        """
        waiting = outcomes.waiting(self._core, self._id(parent))
        known = self.store.reader.records([each.event_id or "" for each in waiting])
        found = [standing.result(self._core, each.event_id) for each in waiting if each.event_id in known]
        return [each for each in found if each is not None]

    def incorporate(
        self, result: SessionResult, content: str | Sequence[Any] | None = None, *, role: str = "user"
    ) -> Turn:
        """Append a turn that is made from a result (prov:wasDerivedFrom) to the parent's chain, store it and return it.

        `content` is what the turn says, by default the result in words; its author is the child's agent. Raises
        `InvalidInput` where the parent is not active or has decided on the result before.
        """
        return outcomes.incorporate(self._core, result, content, role=role, now=self._core.now())

    def dismiss(self, result: SessionResult, reason: str | None = None) -> None:
        """Decide against a result: it leaves the parent's inbox and enters no chain; it stays with its own session."""
        outcomes.dismiss(self._core, self._ledger, result, reason)

    def send(self, sender: Node | str, recipient: Node | str, content: str | Sequence[Any]) -> Event:
        """Put a message into the inbox of a session's parent or child, and return it.

        Raises `InvalidInput` for any other pair: siblings route what they have to say through their parent.
        """
        return outcomes.send(self._core, self._ledger, self._id(sender), self._id(recipient), content)

    def withhold(self, session: Node | str) -> int:
        """Take the texts of a session's task, summaries, reasons and result out for good; return how many there were.

        The message that told its parent of the result loses its text too; a turn that was made from it is for `redact`.
        """
        with self._core.runtime.lock:
            return standing.withhold(self._core, self._id(session))


__all__ = ["ENDED", "Tick", "Tree"]
