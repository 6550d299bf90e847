"""The await forms of an open store, in an event loop."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from anyio import CancelScope

from trails.aio.facets import AsyncMaintenance, AsyncNotes, AsyncProofs, AsyncTags
from trails.aio.ledger import AsyncLedger
from trails.aio.router import AsyncRouter
from trails.aio.rows import AsyncRows
from trails.aio.runs import AsyncRuns
from trails.aio.session import AsyncSession, session_of, sync_session
from trails.aio.tree import AsyncTree
from trails.aio.workers import Twin, here, in_thread
from trails.errors import QueryEnded
from trails.runtime.ledger import Ledger
from trails.runtime.routing import Router
from trails.runtime.runs import Runs
from trails.runtime.tree import Tree
from trails.session.repository import Repository
from trails.session.session import Session
from trails.store import querypool

if TYPE_CHECKING:
    from trails.compare import Diff
    from trails.plumbing.asof.making import AsOf


def _store_of(twin: Twin[Any], made: Repository) -> AsyncRepository:
    """Return the twin of a store that a call gave: its calls run where those of the first one do."""
    return AsyncRepository(made, twin.workers)


class AsyncRepository(Twin[Repository]):
    """A store of sessions in an event loop. Get one from `trails.aio.open`, and close it with `async with` or `close`."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the store once the calls that are under way have ended, and whoever is cancelled meanwhile.

        Queries in SPARQL that are under way are ended: whoever awaits one gets `QueryEnded`.
        Turns that were appended and not persisted warn, as with `Repository.close`; they are not written.
        """
        with CancelScope(shield=True):
            store = self.sync.store
            querypool.end(store, QueryEnded(f"the query in {store.location} was ended: the store was closed"))
            await self.workers.finish()
            await self.call(self.sync.close)

    async def contains(self, session: object) -> bool:
        """Tell whether a session with this id is stored."""
        return await self.run(lambda store: session in store)

    # --- sessions

    create = in_thread(Repository.create, session_of)
    session = in_thread(Repository.session, session_of)
    load = in_thread(Repository.load, session_of)
    flatten = in_thread(Repository.flatten, session_of)
    replay = in_thread(Repository.replay)
    player = in_thread(Repository.player)
    record = in_thread(Repository.record)
    branches = in_thread(Repository.branches)
    resolve = in_thread(Repository.resolve)
    list = in_thread(Repository.list)
    set_label = in_thread(Repository.set_label)
    delete = in_thread(Repository.delete)
    detach = in_thread(Repository.detach)
    context = in_thread(Repository.context)
    score = in_thread(Repository.score)
    scores = in_thread(Repository.scores, leave=True)
    remove_score = in_thread(Repository.remove_score)
    score_all = in_thread(Repository.score_all, apart=True)
    agreement = in_thread(Repository.agreement, leave=True)

    # --- a store that is only read

    @property
    def read_only(self) -> bool:
        """Whether the store was opened to be read only."""
        return self.sync.read_only

    refresh = in_thread(Repository.refresh)

    # --- the store as it was

    at = in_thread(Repository.at, _store_of)

    @property
    def as_of(self) -> AsOf | None:
        """Of when a store is that `at` shows as it was; None for all others."""
        return self.sync.as_of

    # --- questions: who is cancelled leaves them at once

    search = in_thread(Repository.search, leave=True)
    compare = in_thread(Repository.compare, leave=True)
    query = in_thread(Repository.query, leave=True)
    select = in_thread(Repository.select, leave=True)
    ask = in_thread(Repository.ask, leave=True)
    construct = in_thread(Repository.construct, leave=True)
    rows = in_thread(Repository.rows, AsyncRows.of)
    verify = in_thread(Repository.verify, leave=True)
    info = in_thread(Repository.info)
    summaries = in_thread(Repository.summaries, leave=True)
    stats = in_thread(Repository.stats, leave=True)
    cost = in_thread(Repository.cost, leave=True)
    forest = in_thread(Repository.forest, leave=True)

    async def diff(self, a: AsyncSession | Session | str, b: AsyncSession | Session | str) -> Diff:
        """Return what differs between two sessions, as `Repository.diff` does."""
        return await self.run(lambda store: store.diff(sync_session(a), sync_session(b)))

    # --- who follows

    subscribe = in_thread(Repository.subscribe)
    changes = here(Repository.changes)

    # --- erasure

    redact = in_thread(Repository.redact)
    redact_matching = in_thread(Repository.redact_matching)
    prune = in_thread(Repository.prune)

    # --- facets

    @property
    def tags(self) -> AsyncTags:
        """The tags: names for a session at an index that stay where they are until they are taken away."""
        return AsyncTags(self.sync.tags, self.workers)

    @property
    def notes(self) -> AsyncNotes:
        """The notes on turns."""
        return AsyncNotes(self.sync.notes, self.workers)

    @property
    def maintenance(self) -> AsyncMaintenance:
        """The upkeep of the store: vacuum, backup, dump."""
        return AsyncMaintenance(self.sync.maintenance, self.workers)

    @property
    def proofs(self) -> AsyncProofs:
        """What can be proved of the store: verifying it, checkpoints, proofs for others."""
        return AsyncProofs(self.sync.proofs, self.workers)

    # --- what stands on top of sessions: made with the options of `Ledger`, `Tree`, `Runs` and `Router`

    ledger = in_thread(Ledger, AsyncLedger.of)
    tree = in_thread(Tree, AsyncTree.of)
    runs = in_thread(Runs, AsyncRuns.of)
    router = in_thread(Router, AsyncRouter.of)
