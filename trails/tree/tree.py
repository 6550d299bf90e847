"""The session tree of a store, as its host sees it: mains, branches and workers, spawned, ended, swept, taken up again."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

from trails import iris, mapping, validate
from trails.errors import HeadConflict, InvalidInput
from trails.model import SessionRecord, Turn, Value
from trails.session import Repository, ledgerbook
from trails.session.feed import Notice, Subscription
from trails.session.session import Session
from trails.session.treeentries import ENDED, Brief, Cancellation, Transition, TreeState
from trails.tree import deciding, exporting, recovery, results
from trails.tree import limits as rules
from trails.tree.core import Clock, Core, told_of
from trails.tree.index import Live
from trails.tree.limits import GRACE, Limits
from trails.tree.node import Node
from trails.tree.results import ArtifactLike, SessionResult


class Tick(Value):
    """What one tick of the host's clock did."""

    ended: tuple[str, ...] = ()
    """The ids of the sessions whose time was over."""
    exported: Path | None = None
    """The file that the store was exported to; None where it was not time."""


class Tree:
    """The session tree of a store: mains that talk to people, branches and workers that they spawn for parts of the work.

    Nothing flows between sessions but what is said: a task and a summary down, a result up. All states, tasks and results
    are stored when they happen; several `Tree`s on one open store are one. The host calls the models, and `tick`.

    >>> import trails
    >>> with trails.open(":memory:") as store:
    ...     tree = trails.Tree(store)
    ...     main = tree.main("planner", "chat")
    ...     branch = main.spawn("branch", "Find a train", context_summary="Two friends want to see the sea.")
    ...     turn = branch.append("assistant", "The 9:04 goes there.")
    ...     done = branch.complete("Take the 9:04.")
    ...     [tree.incorporate(result).content for result in main.results()]
    ['The branch ...\\n\\nTake the 9:04.']
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
        export_every: timedelta = exporting.HOURLY,
    ) -> None:
        """Take up the tree of a store.

        The first time on a store that was opened, what an earlier process left at work is marked failed and its parents
        are told (`recovered` names it); mains and suspended branches are as they were. `clock` gives the time (aware;
        the system's by default). `limits` hold for all agents but those in `agent_limits`. `grace` is how long a session
        that was asked to end has to wrap up, 0 or more. `cheapest` is the tier of models that workers use. `tick` writes
        the store to the file `export_to`, where one is named, every `export_every` (more than 0).
        """
        self._core = Core(
            store,
            clock=clock,
            limits=Limits() if limits is None else limits,
            agent_limits=agent_limits or {},
            grace=grace,
            cheapest=cheapest,
        )
        self._exporter = None if export_to is None else exporting.Exporter(store, Path(export_to), export_every)
        self.recovered: tuple[str, ...] = tuple(recovery.recover(self._core, self._core.now()))
        """The ids of the sessions that were at work when an earlier process ended, and so have failed."""

    def __repr__(self) -> str:
        return f"<Tree of {self.store!r}: {len(self._core.runtime.index)} sessions have not ended>"

    @property
    def store(self) -> Repository:
        """The store of the sessions."""
        return self._core.repository

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

    def spawn(
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

        Raises `LimitReached`, which names the limit and the numbers, where the tree would grow too deep, too wide, or a
        second main would be made; `InvalidInput` for a summary for a worker, another agent's branch, or a parent that is
        not active. Nothing was changed then.

        >>> import trails
        >>> with trails.open(":memory:") as store:
        ...     tree = trails.Tree(store, limits=trails.Limits(children=1))
        ...     main = tree.main("planner", "chat", id="m")
        ...     worker = tree.spawn(main, "worker", "Count the words", id="w")
        ...     worker.ttl.total_seconds(), worker.tier, worker.depth
        ...     try:
        ...         tree.spawn(main, "worker", "Count them again")
        ...     except trails.LimitReached as refused:
        ...         refused.limit, refused.allowed, refused.wanted
        (300.0, 'cheapest', 1)
        ('children', 1, 2)
        """
        made, now = rules.kind(kind), self._core.now()
        common: dict[str, Any] = {
            "id": uuid4().hex if id is None else validate.session_id(id),
            "kind": made,
            "created": now,
            "expires": rules.expiry(made, ttl, now),
            "label": None if label is None else validate.label(label),
        }
        wanted = None if tier is None else validate.name(tier, "tier")
        if made == "main":
            return self._spawn_main(
                common, parent, task, context_summary, wanted, agent, channel, principal, system, by=by, now=now
            )
        told = self._told_child(made, task, context_summary, agent=agent, given=(channel, principal, system))
        if parent is None:
            raise InvalidInput(f"a {made} needs a parent; only a main has none")
        parent_id = self._id(parent)

        def row(above: Live, slot: str) -> SessionRecord:
            record = self._core.record(above.id)
            if agent is not None and agent != record.agent:
                raise InvalidInput(
                    f"session {above.id!r} belongs to agent {record.agent!r}, and the tree has no {made} of another agent "
                    f"({agent!r}) under it; spawn it from a session of {agent!r}, and let the two exchange messages"
                )
            tier_of = record.tier if made == "branch" else self._core.cheapest
            return SessionRecord(
                **common,
                slot=slot,
                spawned_by=above.id,
                agent=record.agent,
                principal=record.principal,
                tier=wanted or tier_of,
            )

        live = self._core.make_child(parent_id, row, told=told, by=by, now=now, kind=made)
        return self.get(live.id)
