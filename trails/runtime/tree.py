"""The public handle on the session tree of a store, and the view from outside.

After a restart, mains and suspended branches come back. What an active branch or worker had in memory was lost with its
process: it has failed, and its parent is told in the same commit. A restart that is cut short goes on with the next one.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from pyoxigraph import Literal

from trails.errors import InvalidInput
from trails.files import as_path
from trails.handles import Handle
from trails.history import turn_builder
from trails.history.records import ledger_entries
from trails.history.removal import redaction
from trails.history.transaction import Transaction
from trails.history.watch import Notice, Subscription
from trails.model import iris, validation
from trails.model.values import Turn, Value
from trails.rdf import ledger_records, vocab
from trails.rdf.codec import subject_of
from trails.rdf.ledger_records import ENDED, Cancellation, Event, Exchange, TreeEntry
from trails.runtime import tree_node
from trails.runtime.config_values import time_after
from trails.runtime.inbox import change_entries
from trails.runtime.ledger import Ledger
from trails.runtime.timer import Clock, Ticking, Wait
from trails.runtime.tree_lifecycle import Lifecycle, SpawnOptions
from trails.runtime.tree_node import Node, nodes
from trails.runtime.tree_state import (
    GRACE,
    SOURCE,
    Artifact,
    Limits,
    Live,
    SessionResult,
    check_span,
    notified_sessions,
)
from trails.session import Repository, opened
from trails.session.maintenance import embedded_store
from trails.store import dumping
from trails.store.contract import PreconditionFailed, Solutions
from trails.usage import total

_BATCH: Final = 100
"""Sessions that fail in one commit."""
_WHY: Final = "it was at work when its process ended, and what it had not stored is gone"
_RULE: Final = "restart: what was at work has failed"


def recover(lifecycle: Lifecycle, now: datetime) -> list[str]:
    """Read the tree from the store, once per open store.

    Return the ids of the sessions that have failed.
    """
    with lifecycle.runtime.lock:
        if lifecycle.runtime.recovered:
            return []
        lifecycle.runtime.reload()
        lifecycle.runtime.recovered = True
        return lifecycle.attempt(lambda: _fail_interrupted(lifecycle, now))


def _fail_interrupted(lifecycle: Lifecycle, now: datetime) -> list[str]:
    runtime = lifecycle.runtime
    working = (each for each in runtime.index.values() if each.state == "active" and each.kind != "main")
    interrupted = sorted(working, key=lambda each: (each.depth, each.id))
    for start in range(0, len(interrupted), _BATCH):
        batch = interrupted[start : start + _BATCH]
        sessions = {each for live in batch for each in notified_sessions(runtime.index, live)}
        with lifecycle.step(sessions, lifecycle.deed(lifecycle.keeper(), now, _RULE)) as step:
            for live in batch:
                step.end(live, "failed", "failed", grace=lifecycle.grace, error=_WHY, doomed=True)
            lifecycle.commit(step)
    return [each.id for each in interrupted]


HOURLY: Final = timedelta(hours=1)


class SnapshotExporter:
    """Writes a store to a file whenever a span of time has gone by since it did so last; the first time at once."""

    def __init__(self, repository: Repository, file: Path, every: timedelta) -> None:
        self._repository = repository
        self._file = file
        self._every = check_span(every, "export_every")
        self._last: datetime | None = None

    def tick(self, now: datetime) -> Path | None:
        """Write the file if it is time, whole or not at all, and return it; None if it is not time."""
        if self._last is not None and self._last <= now < time_after(self._last, self._every):
            return None
        store = embedded_store(self._repository.store, "export")
        dumping.dump(store, self._file, replace=True, packed=self._file.suffix == ".gz")
        self._last = now
        return self._file


_LONG_AGO: Final = datetime(1, 1, 1, tzinfo=UTC)


class Tick(Value):
    """What one tick of the host's clock did."""

    ended: tuple[str, ...] = ()
    """The ids of the sessions whose time was over, and of the suspended ones that went with them."""
    exported: Path | None = None
    """The file that the store was written to; None if it was not time."""


class Tree(Handle, public=True):
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
        the whole store to the file `export_to`, if one is named, every `export_every` (more than 0), as sorted N-Quads;
        compressed if its name ends in `.gz`.
        """
        self._lifecycle = Lifecycle(
            opened(store, "Tree"),
            clock=clock,
            limits=Limits() if limits is None else limits,
            agent_limits=agent_limits or {},
            grace=grace,
            cheapest=cheapest,
        )
        self._ledger = Ledger(store, clock=self._lifecycle.now)
        self._exporter = (
            None if export_to is None else SnapshotExporter(store, as_path(export_to, "export_to"), export_every)
        )
        self.recovered: tuple[str, ...] = tuple(recover(self._lifecycle, self._lifecycle.now()))
        """The ids of the sessions that were at work when an earlier process ended, and so have failed."""

    def __repr__(self) -> str:
        return f"<Tree of {self.store!r}: {len(self._lifecycle.runtime.index)} sessions have not ended>"

    @property
    def store(self) -> Repository:
        """The store of the sessions."""
        return self._lifecycle.repository

    def _id(self, session: Node | str) -> str:
        if isinstance(session, Node):
            return session.id
        return session if session in self._lifecycle.runtime.index else self.store.record(session).id

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
        by: str | None = None,
    ) -> Node:
        """Return the main session of an agent on a channel.

        There is one at most, and it is made if there is none.

        `principal`, `system` (the persona that branches inherit), `tier`, `id` and `by` are for one that is made; for one
        that is there they are not looked at. A main that has ended leaves its place to another.
        """
        slot = iris.main_slot(validation.name(agent, "agent"), validation.name(channel, "channel"))
        with self._lifecycle.runtime.lock:
            held = self._lifecycle.main_of(slot)
            if held is not None:
                return self.get(held.id)
            named: dict[str, Any] = {"principal": principal, "system": system, "tier": tier, "id": id, "by": by}
            return self.spawn(None, "main", agent=agent, channel=channel, **named)

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
        """Make a session and return its handle.

        Its row, task and summary are stored in one commit.

        A "branch" or a "worker" has a parent, an active main or branch, and a task. All that a branch sees of its parent
        is the `context_summary`; it inherits its system prompt, agent and principal. A worker has neither summary nor
        system prompt. A "main" has no parent; it has an `agent`, a `channel`, and may have a `principal` and a `system`
        prompt of its own. `ttl` is its time to live, which goes on while it is suspended: 30 minutes for a branch, 5 for a
        worker, no end for a main unless given. `tier` is the tier of models: the parent's for a branch, the cheapest for
        a worker. `by` names who spawns (the agent unless given).

        Raises `LimitReached`, which names the limit and the numbers, if the tree would grow too deep or too wide, or
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
        options = SpawnOptions(kind, task, context_summary, ttl, tier, agent, channel, principal, system, id, label, by)
        parent_id = None if parent is None else self._id(parent)
        return Node(self._lifecycle, self._lifecycle.spawn(parent_id, options))

    # --- finding sessions

    def get(self, session: Node | str) -> Node:
        """Return the handle of a session of the tree, ended or not.

        Raise `SessionNotFound` or `InvalidInput` for others.
        """
        return Node(self._lifecycle, self._lifecycle.record(self._id(session)))

    def mains(self) -> list[Node]:
        """Return the mains that have not ended, by id."""
        return nodes(
            self._lifecycle, (each.id for each in self._lifecycle.runtime.index.values() if each.kind == "main")
        )

    def at_work(self, agent: str) -> list[Node]:
        """Return the branches and workers of an agent that are active, by id: those that take its slots."""
        working = self._lifecycle.runtime.index.at_work(validation.name(agent, "agent"))
        return nodes(self._lifecycle, (each.id for each in working))

    # --- ends, and rests

    def on_cancel(
        self, callback: Callable[[Cancellation], object], *, session: Node | str | None = None
    ) -> Subscription:
        """Call a function with every request to end from now on (or those to one session), as `Repository.subscribe` does."""

        def notify(notice: Notice) -> None:
            for each in tree_node.state_history(self.store.store, notice.session_id):
                if isinstance(each, Cancellation) and each.number == notice.count:
                    callback(each)

        wanted = None if session is None else self._id(session)
        return self.store.subscribe(notify, kinds=["cancel"], session=wanted)

    def suspend_idlest(self, count: int, *, agent: str | None = None, by: str | None = None) -> list[str]:
        """Suspend the active branches (of an agent) that did nothing for the longest time; return their ids, idlest first.

        At most `count`, fewer if there are no more; those that were asked to end are left alone.
        """
        wanted, runtime = validation.index(count, "count"), self._lifecycle.runtime
        with runtime.lock:
            branches = [
                each
                for each in runtime.index.values()
                if each.kind == "branch"
                and each.state == "active"
                and each.ends_by is None
                and agent in (None, each.agent)
            ]
            branches.sort(key=lambda each: (runtime.touched.get(each.id, _LONG_AGO), each.id))
            for each in branches[:wanted]:
                self._lifecycle.suspend(each.id, by=by)
        return [each.id for each in branches[:wanted]]

    # --- the clock

    def sweep(self, now: datetime | None = None) -> list[str]:
        """End every session whose time is over at `now` (default: the clock's time).

        Return the ids, in order.

        A time to live that is over ends it as expired, a grace that is over as failed, with the result "cancelled". What
        is not due is not looked at.
        """
        return self._lifecycle.end_due(self._lifecycle.now(now))

    def tick(self, now: datetime | None = None) -> Tick:
        """Do all that is due at `now` (default: the clock's time): a sweep, and the export if it is time for one."""
        at = self._lifecycle.now(now)
        ended = self.sweep(at)
        return Tick(ended=tuple(ended), exported=None if self._exporter is None else self._exporter.tick(at))

    def ticking(self, every: float = 1.0, *, wait: Wait | None = None) -> Ticking:
        """Return a `with` block in which the tree ticks on a thread of its own, every so many seconds (more than 0).

        The first tick comes at once. Times to live hold then without a host that calls `tick`. What a tick raises warns at
        once, and is raised when the block ends, which waits for a tick that is under way and no longer. `wait` waits in
        place of the thread: called with the seconds and an event that ends the waiting.

        >>> import trails
        >>> with trails.open(":memory:") as store:
        ...     tree = trails.Tree(store)
        ...     with tree.ticking():
        ...         main = tree.main("planner", "chat")
        """
        return Ticking(self.tick, lambda: self.store.workspace.closed, every, wait)

    # --- between parent and child

    def incorporate(
        self, result: SessionResult, content: str | Sequence[Any] | None = None, *, role: str = "user"
    ) -> Turn:
        """Append a turn that is made from a result (prov:wasDerivedFrom) to the parent's chain, store it and return it.

        `content` is what the turn says, by default the result in words; its author is the child's agent. Raises
        `InvalidInput` if the parent is not active or has decided on the result before.
        """
        lifecycle, now = self._lifecycle, self._lifecycle.now()

        def work() -> Turn:
            event = self._word_of(result)
            parent = lifecycle.runtime.index.get(event.session_id)
            if parent is None or parent.state != "active":
                state = lifecycle.record(event.session_id).state if parent is None else parent.state
                raise InvalidInput(f"session {event.session_id!r} is {state}, and only an active one takes a result in")
            text = event.content if content is None else content
            if text is None:
                raise InvalidInput(
                    f"the text of the result of {result.session_id!r} was taken out; say what to write instead"
                )
            draft = turn_builder.check_derivation(role, text, result.derivation, author=event.author_iri, time=now)
            return self._append_result(parent, draft, event, now)

        return lifecycle.attempt(work)

    def _append_result(self, parent: Live, draft: turn_builder.Draft, event: Event, now: datetime) -> Turn:
        """Append a turn made from a result; turn, message and exchange are one commit."""
        runtime, session = self._lifecycle.runtime, self._lifecycle.session(parent)
        before = session.head
        with runtime.book.at(parent.id) as number:
            turn = session.worktree.append(draft)
            exchange = Exchange(
                session_id=parent.id,
                number=number,
                state="completed",
                agent=parent.agent,
                events=(event.number,),
                queued=now,
                started=now,
                ended=now,
                head_before=before,
                head_after=session.head,
                turn_iris=(turn.iri,),
            )
            decided = event.without_text(withheld=event.withheld, waiting=False, turn_iris=(turn.iri,))
            try:
                session.worktree.persist(change_entries(parent.id, [exchange], [(event, decided)]))
            except (
                BaseException
            ) as error:  # an interrupt too: the turn must not be persisted later, without its entries
                session.worktree.take_back()
                if not isinstance(error, PreconditionFailed) and parent.kind == "main":
                    runtime.forget(parent.id)  # the handle is behind the store: the next one is loaded anew
                raise
        runtime.touched[parent.id] = now
        return turn

    def _word_of(self, result: SessionResult) -> Event:
        """Return the message that told of a result.

        Raise `InvalidInput` if it was decided on, or never told.
        """
        given: object = result  # whoever calls may not check types
        if not isinstance(given, SessionResult):
            raise InvalidInput(
                f"what is decided on is a result, as complete() or `node.results()` gives it, not {given!r:.80}"
            )
        session_id, parent_id = result.session_id, result.parent_id
        if parent_id is None:
            raise InvalidInput(f"session {session_id!r} is a main: its result has no parent to decide on it")
        same_id = self._lifecycle.runtime.book.where(Event, parent_id, vocab.EVENT_ID, Literal(session_id))
        events = [event for event in same_id if event.source == SOURCE]
        if not events:
            raise InvalidInput(f"session {parent_id!r} was told of no result of {session_id!r}")
        if not events[0].waiting:
            raise InvalidInput(f"session {parent_id!r} has decided on the result of {session_id!r} before")
        return events[0]

    def dismiss(self, result: SessionResult, reason: str | None = None) -> None:
        """Decide against a result: it leaves the parent's inbox and enters no chain.

        It stays with its own session.
        """
        with self._lifecycle.runtime.lock:
            event = self._word_of(result)
            self._ledger.drop(event.session_id, event.number, reason=reason)

    def send(self, sender: Node | str, recipient: Node | str, content: str | Sequence[Any]) -> Event:
        """Put a message into the inbox of a session's parent or child, and return it.

        Raises `InvalidInput` for any other pair: siblings route what they have to say through their parent.
        """
        with self._lifecycle.runtime.lock:
            one, other = (self._lifecycle.record(self._id(each)) for each in (sender, recipient))
            if other.spawned_by != one.id and one.spawned_by != other.id:
                how = "are not parent and child; route it through what spawned them"
                if one.spawned_by is not None and one.spawned_by == other.spawned_by:
                    how = f"are siblings; route it through their parent {one.spawned_by!r}"
                raise InvalidInput(
                    f"sessions {one.id!r} and {other.id!r} {how}. Nothing was sent: in the tree messages go between parent "
                    "and child only"
                )
            if "worker" in (one.kind, other.kind):
                raise InvalidInput(
                    "a worker gets its task and gives its result, and no messages; spawn a branch for more"
                )
            for each in (one, other):
                if self._lifecycle.runtime.index.get(each.id) is None:
                    raise InvalidInput(f"session {each.id!r} is {each.state}, and takes part in nothing any more")
            return self._ledger.receive(other.id, content, source="tree", author=iris.agent(one.agent))

    def withhold(self, session: Node | str, *, by: str | None = None, reason: str | None = None) -> int:
        """Remove the texts of a session's task, summaries, reasons and result for good.

        Return how many there were.

        The message that told its parent of the result loses its text too; a turn that was made from it is for `redact`.
        `by` and `reason` are as for `Repository.redact`.
        """
        deed = self.store.workspace.deed(by, reason)

        def work() -> int:
            store, record = self.store.store, self._lifecycle.record(self._id(session))
            doomed = [each for each in ledger_entries.read_entries(store, record.id) if isinstance(each, TreeEntry)]
            texts = [quad for each in doomed for quad in ledger_records.entry_quads(each)]
            if record.spawned_by is not None:
                messages = self._lifecycle.runtime.book.where(
                    Event, record.spawned_by, vocab.EVENT_ID, Literal(record.id)
                )
                texts += [
                    quad for each in messages if each.source == SOURCE for quad in ledger_records.entry_quads(each)
                ]
            remove, add = ledger_entries.withhold_entry(texts)
            if add:
                tx = Transaction()
                tx.take(remove)
                tx.add(add)
                redaction.redaction_record(tx, list(map(subject_of, add)), deed, place="ledger text")
                tx.commit(store)
            return len(add)

        count = self._lifecycle.attempt(work)
        self.store.workspace.note_held()
        return count


__all__ = ["ENDED", "Tick", "Tree"]


__all__ = ["Artifact", "Limits", "Node", "SessionResult", "Tree"]


_CLOSE: Final = 1
"""So few children fewer than the limit are near it."""


class TreeRow(Value):
    """A session of the tree as it is stored."""

    id: str
    parent_id: str | None
    depth: int
    kind: str
    state: str
    agent: str
    tier: str | None
    created: datetime
    expires: datetime | None
    ends_by: datetime | None
    children: int
    """How many active children it has."""
    last: datetime
    """When it was last heard of: a turn of its own that is stored, a message to it, a change of its state."""
    tokens: int | None
    """The tokens of its own turns that are stored, in and out; None if no call reported any."""
    orphan: bool
    """Whether it goes on although what spawned it has ended, or is not there."""

    @property
    def due(self) -> datetime | None:
        """When it is ended, unless it ends before.

        None for never, and once it has ended.
        """
        if self.state in ENDED:
            return None
        return min((each for each in (self.ends_by, self.expires) if each is not None), default=None)

    def is_stuck(self, now: datetime, silence: timedelta) -> bool:
        """Return whether it is active, no main, and was not heard of for a span of time."""
        return self.state == "active" and self.kind != "main" and now - self.last >= silence

    def near(self, limits: Limits) -> tuple[str, ...]:
        """Return which limits it has reached, or is one child away from, as `children 7/8`; none for one that has ended."""
        if self.state in ENDED:
            return ()
        near = []
        if self.children >= limits.children - _CLOSE:
            near.append(f"children {self.children}/{limits.children}")
        if self.kind == "branch" and self.depth >= limits.branch_depth:
            near.append(f"depth {self.depth}/{limits.branch_depth}")
        return tuple(near)

    def to_dict(self) -> dict[str, Any]:
        """Return what is seen as plain values, ready for JSON."""
        plain = self.model_dump() | {"due": self.due}
        return {name: each.isoformat() if isinstance(each, datetime) else each for name, each in plain.items()}


def tree_overview(store: Repository, session: str | None = None) -> list[TreeRow]:
    """Return the sessions of the tree (or one and those below it), every parent before its children; write nothing.

    Mains come first, in the order in which they were made; a session that was spawned by one outside the tree comes
    where its own tree begins.
    """
    rows = _rows(store, "session-tree", {} if session is None else {"session": session})
    lasts: dict[str, list[datetime]] = defaultdict(list)
    for name in ("last_times", "tree_last"):
        for row in _rows(store, name, {}):
            lasts[row["session"]].append(row["last"])
    usage = _rows(store, "token-usage-by-session", {})
    tokens = {row["session"]: total((row["input"], row["output"])) for row in usage}
    orphans = {row["session"] for row in _rows(store, "tree-orphans", {})}
    sessions = [
        TreeRow(
            id=iris.session_id(row["session"]),
            parent_id=None if row["parent"] is None else iris.session_id(row["parent"]),
            depth=int(row["depth"]),
            kind=row["kind"],
            state=row["state"],
            agent=iris.author_name(row["agent"]),
            tier=row["tier"],
            created=row["created"],
            expires=row["expires"],
            ends_by=row["ends"],
            children=int(row["children"]),
            last=max([row["created"], *lasts[row["session"]]]),
            tokens=tokens.get(row["session"]),
            orphan=row["session"] in orphans,
        )
        for row in rows
    ]
    return _in_order(sessions)


def _rows(store: Repository, name: str, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
    result = store.query(name, **parameters)
    return result.to_dicts() if isinstance(result, Solutions) else []


def _in_order(found: Sequence[TreeRow]) -> list[TreeRow]:
    below: dict[str | None, list[TreeRow]] = defaultdict(list)
    known = {each.id for each in found}
    for each in found:
        below[each.parent_id if each.parent_id in known else None].append(each)
    ordered: list[TreeRow] = []
    waiting = list(reversed(below[None]))
    while waiting:
        each = waiting.pop()
        ordered.append(each)
        waiting += reversed(below[each.id])
    return ordered


def with_ancestors(found: Sequence[TreeRow], wanted: Iterable[TreeRow]) -> list[TreeRow]:
    """Return the sessions that are wanted and all above them, in the order of `found`."""
    by_id = {each.id: each for each in found}
    kept: set[str] = set()
    for each in wanted:
        at: TreeRow | None = each
        while at is not None and at.id not in kept:
            kept.add(at.id)
            at = by_id.get(at.parent_id or "")
    return [each for each in found if each.id in kept]
