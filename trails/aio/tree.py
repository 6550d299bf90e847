"""The await forms of the tree of sessions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from trails.aio.session import AsyncSession
from trails.aio.workers import Twin, in_thread
from trails.rdf.ledger_records import Event
from trails.runtime.tree import Tree
from trails.runtime.tree.tree_node import Node

if TYPE_CHECKING:
    from trails.rdf.ledger_records import Cancellation, Transition, TreeState
    from trails.runtime.tree import SessionResult
    from trails.runtime.tree.tree_index import Kind


def node_of(twin: Twin[Any], made: Node) -> AsyncNode:
    """Return the twin of a session of the tree."""
    return AsyncNode(made, twin.workers)


def nodes_of(twin: Twin[Any], made: list[Node]) -> list[AsyncNode]:
    """Return the twins of sessions of the tree."""
    return [AsyncNode(each, twin.workers) for each in made]


def _sync(given: AsyncNode | Node | str) -> Node | str:
    return given.sync if isinstance(given, AsyncNode) else given


class AsyncNode(Twin[Node]):
    """A session of the tree. What was said when it was made is there at once; what changes is awaited: `await node.state`."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AsyncNode) and self.sync == other.sync

    def __hash__(self) -> int:
        return hash(self.sync)

    @property
    def id(self) -> str:
        """The session's id."""
        return self.sync.id

    @property
    def agent(self) -> str:
        """The agent that runs it."""
        return self.sync.agent

    @property
    def parent_id(self) -> str | None:
        """The id of the session that made it; None for a main."""
        return self.sync.parent_id

    @property
    def kind(self) -> Kind:
        """`main`, `branch` or `worker`."""
        return self.sync.kind

    @property
    def channel(self) -> str | None:
        """The channel of a main."""
        return self.sync.channel

    @property
    def tier(self) -> str | None:
        """The tier of models that it is for."""
        return self.sync.tier

    @property
    def created(self) -> datetime | None:
        """When it was made."""
        return self.sync.created

    @property
    def expires(self) -> datetime | None:
        """When its time to live is over."""
        return self.sync.expires

    @property
    def ttl(self) -> timedelta | None:
        """Its time to live from its creation; None for no end."""
        return self.sync.ttl

    @property
    async def state(self) -> TreeState:
        """`active`, `suspended`, `completed`, `failed` or `expired`."""
        return await self.run(lambda node: node.state)

    @property
    async def depth(self) -> int:
        """How many spawns it is away from its main."""
        return await self.run(lambda node: node.depth)

    @property
    async def cancelled(self) -> Cancellation | None:
        """The request to end by a time; None while there is none."""
        return await self.run(lambda node: node.cancelled)

    @property
    async def task(self) -> str | None:
        """What it was made for; None where that was taken out, or for a main without a task."""
        return await self.run(lambda node: node.task)

    @property
    async def context_summary(self) -> str | None:
        """What its parent told it of itself; None for nothing, which is all that a worker gets."""
        return await self.run(lambda node: node.context_summary)

    @property
    async def result(self) -> SessionResult | None:
        """How it ended; None while it has not."""
        return await self.run(lambda node: node.result)

    @property
    async def history(self) -> list[Transition | Cancellation]:
        """Every change of its state, and the request to end, in order."""
        return await self.run(lambda node: node.history)

    @property
    async def session(self) -> AsyncSession:
        """The session with its turns: while it is active the one handle that holds those that are not stored."""
        return AsyncSession(await self.run(lambda node: node.session), self.workers)

    append = in_thread(Node.append)
    persist = in_thread(Node.persist)
    context = in_thread(Node.context)
    spawn = in_thread(Node.spawn, node_of)
    children = in_thread(Node.children, nodes_of)
    results = in_thread(Node.results)
    complete = in_thread(Node.complete)
    fail = in_thread(Node.fail)
    cancel = in_thread(Node.cancel)
    suspend = in_thread(Node.suspend)
    resume = in_thread(Node.resume)


class AsyncTree(Twin[Tree]):
    """The tree of a store's sessions. Get it by `await store.tree(limits=...)`, which takes up what was left at work."""

    @classmethod
    def of(cls, twin: Twin[Any], made: Tree) -> AsyncTree:
        """Not for callers: see `AsyncRepository.tree`."""
        return cls(made, twin.workers)

    @property
    def recovered(self) -> tuple[str, ...]:
        """The ids of the sessions that were at work when an earlier process ended, and so have failed."""
        return self.sync.recovered

    main = in_thread(Tree.main, node_of)
    on_cancel = in_thread(Tree.on_cancel)
    mains = in_thread(Tree.mains, nodes_of)
    at_work = in_thread(Tree.at_work, nodes_of)
    suspend_idlest = in_thread(Tree.suspend_idlest)
    sweep = in_thread(Tree.sweep)
    tick = in_thread(Tree.tick)
    incorporate = in_thread(Tree.incorporate)
    dismiss = in_thread(Tree.dismiss)

    async def spawn(
        self, parent: AsyncNode | Node | str | None, kind: str, task: str | None = None, **options: Any
    ) -> AsyncNode:
        """Make a session and return its handle, as `Tree.spawn` does with the same options."""
        above = None if parent is None else _sync(parent)
        return node_of(self, await self.run(lambda tree: tree.spawn(above, kind, task, **options)))

    async def get(self, session: AsyncNode | Node | str) -> AsyncNode:
        """Return the handle of a session of the tree, as `Tree.get` does."""
        return node_of(self, await self.run(lambda tree: tree.get(_sync(session))))

    async def send(
        self, sender: AsyncNode | Node | str, recipient: AsyncNode | Node | str, content: str | Sequence[Any]
    ) -> Event:
        """Put a message into the inbox of a session's parent or child, as `Tree.send` does."""
        return await self.run(lambda tree: tree.send(_sync(sender), _sync(recipient), content))

    async def withhold(
        self, session: AsyncNode | Node | str, *, by: str | None = None, reason: str | None = None
    ) -> int:
        """Take the texts of a session's task, summaries, reasons and result out for good, as `Tree.withhold` does."""
        return await self.run(lambda tree: tree.withhold(_sync(session), by=by, reason=reason))
