"""The handle on one session of the tree: what it was told, what it may do, and how it ends."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from trails.model import SessionRecord, Turn
from trails.records.tree_entries import Cancellation, Transition, TreeState
from trails.session.session import Session
from trails.tree.limits import Kind
from trails.tree.results import ArtifactLike, SessionResult

if TYPE_CHECKING:
    from trails.context import Context
    from trails.context.tokens import Counter
    from trails.tree.tree import Tree


class Node:
    """A session of the tree. Made by `Tree.main`, `Tree.spawn` and `Tree.get`; two handles on one session are equal.

    What a session is never changes, and its state is looked up each time.
    """

    __slots__ = ("_record", "_tree")

    def __init__(self, tree: Tree, record: SessionRecord) -> None:
        """Not for callers: see `Tree.get`."""
        self._tree = tree
        self._record = record

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and other._record.id == self._record.id and other._tree.store is self._tree.store

    def __hash__(self) -> int:
        return hash(self._record.id)

    def __repr__(self) -> str:
        return f"<Node {self.id!r}: {self.kind} of {self.agent!r}, {self.state}>"

    # --- what it is

    @property
    def id(self) -> str:
        """The session's id."""
        return self._record.id

    @property
    def agent(self) -> str:
        """The agent that owns the session."""
        return self._record.agent

    @property
    def parent_id(self) -> str | None:
        """The id of the session that spawned it; None for a main."""
        return self._record.spawned_by

    @property
    def kind(self) -> Kind:
        """`main`, `branch` or `worker`."""
        return self._record.kind  # type: ignore[return-value] # checked by `Tree.get`

    @property
    def channel(self) -> str | None:
        """The channel of a main; None for the others."""
        return self._record.channel

    @property
    def tier(self) -> str | None:
        """The tier of models that it is to use; None leaves that to the host."""
        return self._record.tier

    @property
    def created(self) -> datetime | None:
        """When it was made."""
        return self._record.created

    @property
    def expires(self) -> datetime | None:
        """When its time to live is over, suspended or not; None for never."""
        return self._record.expires

    @property
    def ttl(self) -> timedelta | None:
        """Its time to live from its creation; None for no end."""
        made = self._record.created
        return None if made is None or self._record.expires is None else self._record.expires - made

    @property
    def state(self) -> TreeState:
        """`active`, `suspended`, `completed`, `failed` or `expired`."""
        return self._tree.state(self)

    @property
    def depth(self) -> int:
        """How many spawns it is away from its main."""
        return self._tree.depth(self)

    @property
    def cancelled(self) -> Cancellation | None:
        """The request to end by a time; None while there is none. A session at work asks for it between its steps."""
        return self._tree.cancellation(self)

    @property
    def task(self) -> str | None:
        """What it was made for; None where that was taken out, or for a main without a task."""
        return self._tree.told(self).get("task")

    @property
    def context_summary(self) -> str | None:
        """What its parent told it of itself; None for nothing, which is all that a worker gets."""
        return self._tree.told(self).get("context")

    @property
    def result(self) -> SessionResult | None:
        """How it ended; None while it has not."""
        return self._tree.result(self)

    @property
    def history(self) -> list[Transition | Cancellation]:
        """Every change of its state, and the request to end, in order."""
        return self._tree.history(self)

    # --- its turns

    @property
    def session(self) -> Session:
        """The session with its turns: while it is active the one handle that holds those that are not stored."""
        return self._tree.session(self)

    def append(self, role: str, content: str | Sequence[Any], **recorded: Any) -> Turn:
        """Append a turn, as `Session.append` does, and return it.

        A main stores it at once. A branch keeps it in memory until it is suspended, ends, or `persist` is called; a
        worker's turns are never stored. Raises `InvalidInput` for a session that is not active.
        """
        return self._tree.append(self, role, content, **recorded)

    def persist(self) -> int:
        """Store the turns that are in memory, and return how many; raise `InvalidInput` for a worker."""
        return self._tree.persist(self)

    def context(
        self, query: object = None, *, max_tokens: int | None = None, counter: Counter | None = None
    ) -> Context:
        """Return what a model is shown: system prompt, task, context summary, its own turns; nothing of its parent's.

        The parameters are those of `Session.context`.
        """
        told = self._tree.told(self)
        return self.session.context(
            query, max_tokens=max_tokens, brief=told.get("task"), background=told.get("context"), counter=counter
        )

    # --- what it may do

    def spawn(
        self,
        kind: str,
        task: str,
        context_summary: str | None = None,
        ttl: timedelta | None = None,
        tier: str | None = None,
        **more: Any,
    ) -> Node:
        """Make a child, as `Tree.spawn` does."""
        return self._tree.spawn(self, kind, task, context_summary, ttl, tier, **more)

    def children(self) -> list[Node]:
        """Return its children that have not ended, by id."""
        return self._tree.children(self)

    def results(self) -> list[SessionResult]:
        """Return the results of its children that it has not decided on, in the order in which they came."""
        return self._tree.results(self)

    def complete(
        self,
        summary: str | None = None,
        *,
        artifacts: Iterable[ArtifactLike] = (),
        memory_ids: Iterable[str] = (),
        by: str | None = None,
    ) -> SessionResult:
        """End it with success, as `Tree.complete` does."""
        return self._tree.complete(self, summary, artifacts=artifacts, memory_ids=memory_ids, by=by)

    def fail(
        self,
        error: str,
        *,
        summary: str | None = None,
        artifacts: Iterable[ArtifactLike] = (),
        memory_ids: Iterable[str] = (),
        by: str | None = None,
    ) -> SessionResult:
        """End it without success, as `Tree.fail` does."""
        return self._tree.fail(self, error, summary=summary, artifacts=artifacts, memory_ids=memory_ids, by=by)

    def suspend(self, *, by: str | None = None) -> None:
        """Let a branch rest, as `Tree.suspend` does."""
        self._tree.suspend(self, by=by)

    def resume(self, *, by: str | None = None) -> None:
        """Let a suspended branch go on, as `Tree.resume` does."""
        self._tree.resume(self, by=by)

    def cancel(self, reason: str | None = None, *, by: str | None = None) -> None:
        """Ask it to end, as `Tree.cancel` does."""
        self._tree.cancel(self, reason, by=by)
