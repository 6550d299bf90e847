"""LangGraph's long-term store on a store of sessions, sync and async."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from random import random
from threading import RLock
from time import sleep
from typing import Any, Final

from langgraph.store.base import (
    BaseStore,
    GetOp,
    IndexConfig,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchOp,
    TTLConfig,
    validate_op_namespace,
)
from langgraph.store.memory import InMemoryStore

import trails
from trails.adapters.langgraph.items import (
    STORE,
    Namespace,
    Shelf,
    StoredItem,
    append_use,
    append_value,
    check_item,
    item_record,
    namespace_meta,
    namespace_of,
)
from trails.adapters.langgraph.threads import Moment, session_records
from trails.errors import HeadConflict, SessionNotFound
from trails.session.repository import Repository
from trails.session.session import Session

_KIND: Final = "langgraph-store"
_TRIES: Final = 200
_SWEEP: Final = timedelta(minutes=1)
"""How often what expired is deleted beside other writes."""
_USE: Final = 0.1
"""The part of its time to live after which another reading of an item is stored."""
_Batch = Callable[[Iterable[Op]], list[Result]]


class TrailsStore(BaseStore):
    """A long-term store whose namespaces are sessions: each value that was put is a turn, so older values stay readable.

    >>> import trails
    >>> with trails.open(":memory:") as repository:
    ...     store = TrailsStore(repository)
    ...     store.put(("users", "alice"), "diet", {"likes": "fish"})
    ...     store.get(("users", "alice"), "diet").value, [item.key for item in store.search(("users",), filter={"likes": "fish"})]
    ({'likes': 'fish'}, ['diet'])
    """

    supports_ttl = True

    def __init__(
        self,
        store: Repository | str | os.PathLike[str],
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        principal: str | None = None,
        agent: str | None = None,
    ) -> None:
        """Keep items in an open store, or in the one at a location, which is made if it is not there.

        `index` says how items are embedded, for searches by a query; the vectors are in memory, and are made again by each
        process. Items whose time in `ttl` is over are never given out, and are deleted with a later `put` or by `sweep_ttl`.
        `principal` and `agent` are those of new sessions. A store that was opened here is closed by `close`, or by a `with`
        block.
        """
        self._owns_store = not isinstance(store, Repository)
        self.repository = store if isinstance(store, Repository) else trails.open(store, create=True)
        """The store of sessions, for what LangGraph has no call for."""
        self.ttl_config = ttl
        self._index = index
        self._options = {"principal": principal, "agent": agent, "kind": _KIND}
        self._lock = RLock()
        self._shelves: dict[Namespace, Shelf] = {}
        self._memory = InMemoryStore(index=index)
        self._seen: Moment | None = None
        self._swept = datetime.now(UTC)

    @classmethod
    @contextmanager
    def from_path(cls, location: str | os.PathLike[str], **options: Any) -> Iterator[TrailsStore]:
        """Give a store for the block at a location, which is made if it is not there, and close it; `options` are the class's."""
        with cls(location, **options) as store:
            yield store

    @classmethod
    @asynccontextmanager
    async def afrom_path(cls, location: str | os.PathLike[str], **options: Any) -> Any:
        """Do as `from_path`, for an event loop."""
        store = await asyncio.to_thread(cls, location, **options)
        try:
            yield store
        finally:
            await asyncio.to_thread(store.close)

    def close(self) -> None:
        """Close the store of sessions if it was opened here."""
        if self._owns_store:
            self.repository.close()

    def __enter__(self) -> TrailsStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> TrailsStore:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.close)

    # --- operations

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry out operations: those that read see what was there before; all that are put are stored in one commit."""
        return self._batch(list(ops), self._run)

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Do as `batch`, on another thread."""
        given = list(ops)
        return await asyncio.to_thread(self._batch, given, self._run_async)

    def _run(self, ops: Iterable[Op]) -> list[Result]:
        return self._memory.batch(ops)

    def _run_async(self, ops: Iterable[Op]) -> list[Result]:
        """Carry operations out in memory, with embeddings that are awaited."""
        return asyncio.run(self._memory.abatch(ops))

    def _batch(self, ops: Sequence[Op], run: _Batch) -> list[Result]:
        ops = [_checked(op) for op in ops]
        puts = {(op.namespace, op.key): op for op in ops if isinstance(op, PutOp)}
        with self._lock:
            self._sync(run)
            self._hide_expired()
            reads = [op for op in ops if not isinstance(op, PutOp)]
            answers = iter(run(reads) if reads else [])
            results: list[Result] = [None if isinstance(op, PutOp) else next(answers) for op in ops]
            self._note_uses(ops, results)
            if puts:
                self._put(list(puts.values()), run)
            return results

    # --- what is stored

    def _sync(self, run: _Batch) -> None:
        """Bring in what others committed."""
        self.repository.refresh()
        moment = Moment.of(self.repository)
        if self._seen == moment:
            return
        if self._seen is None or self._seen.removals != moment.removals:
            self._forget()
        changed: list[Op] = []
        for record in reversed(list(session_records(self.repository, STORE))):
            namespace = namespace_of(record.meta)
            if namespace is None:
                continue
            shelf = self._shelves.setdefault(namespace, Shelf(namespace))
            try:
                self._bring_in(shelf, record.id)
            except SessionNotFound:
                continue
            changed += [_put_op(namespace, shelf.items[key]) for key in shelf.read()]
        if changed:
            run(changed)
            self._correct_times(changed)
        self._seen = moment

    def _bring_in(self, shelf: Shelf, session_id: str) -> None:
        session = shelf.sessions.get(session_id)
        if session is None:
            shelf.sessions[session_id] = self.repository.load(session_id)
        else:
            session.refresh()

    def _forget(self) -> None:
        self._shelves.clear()
        self._memory = InMemoryStore(index=self._index)
        self._seen = None

    def _correct_times(self, ops: Iterable[Op]) -> None:
        """Give the items in memory the times that are stored."""
        for op in ops:
            if isinstance(op, PutOp) and op.value is not None:
                stored = self._shelves[op.namespace].items[op.key]
                self._memory._data[op.namespace][op.key] = Item(
                    value=stored.value,
                    key=op.key,
                    namespace=op.namespace,
                    created_at=stored.created,
                    updated_at=stored.updated,
                )

    # --- writing

    def _put(self, puts: Sequence[PutOp], run: _Batch) -> None:
        """Store values in one commit, and again behind what others committed meanwhile; then delete what is to go."""
        values = [op for op in puts if op.value is not None]
        if values:
            run(values)  # which embeds them, and may fail
            self._commit(lambda: self._append(values), run, values)
            self._correct_times(values)
        self._remove([(op.namespace, op.key) for op in puts if op.value is None])
        if datetime.now(UTC) - self._swept > _SWEEP:
            self.sweep_ttl()

    def _commit(self, append: Callable[[], dict[Namespace, Session]], run: _Batch, values: Sequence[Op] = ()) -> None:
        for attempt in range(_TRIES):
            sessions: dict[Namespace, Session] = {}
            try:
                with self.repository.commit() as batch:
                    sessions = append()
                    for session in sessions.values():
                        batch.add(session)
                break
            except BaseException as error:
                for session in sessions.values():
                    session.discard_pending()
                self._forget()
                if not isinstance(error, HeadConflict | SessionNotFound) or attempt == _TRIES - 1:
                    raise
                sleep(random() * 0.002 * min(attempt, 20))  # noqa: S311 - so that writers do not meet again
                self._sync(run)
                run(values)
        for namespace, session in sessions.items():
            self._shelves.setdefault(namespace, Shelf(namespace)).note_appended(session)
        moment = Moment.of(self.repository)
        if self._seen is not None and moment.follows(self._seen):
            self._seen = moment

    def _append(self, puts: Iterable[PutOp]) -> dict[Namespace, Session]:
        sessions: dict[Namespace, Session] = {}
        try:
            for op in puts:
                session = sessions.get(op.namespace) or sessions.setdefault(op.namespace, self._session(op.namespace))
                before = self._live(op.namespace, op.key)
                created = before.created if before else datetime.now(UTC)
                about = item_record(op.key, created, op.ttl, op.index)
                append_value(session, about, dict(op.value or {}))
        except BaseException:
            for session in sessions.values():
                session.discard_pending()
            raise
        return sessions

    def _session(self, namespace: Namespace) -> Session:
        shelf = self._shelves.get(namespace)
        session = shelf.session() if shelf else None
        return session or self.repository.create(**self._options, meta=namespace_meta(namespace))  # type: ignore[arg-type]

    def _live(self, namespace: Namespace, key: str) -> StoredItem | None:
        shelf = self._shelves.get(namespace)
        return shelf.items.get(key) if shelf else None

    def _remove(self, places: Iterable[tuple[Namespace, str]]) -> None:
        for namespace, key in places:
            item = self._live(namespace, key)
            if item is not None:
                for session_id, index in item.turns:  # the oldest first: until the last is gone, the item is there
                    self.repository.redact(session_id, index)
                self._hide(namespace, key)
                del self._shelves[namespace].items[key]
                self._seen = Moment.of(self.repository)

    # --- time to live

    def sweep_ttl(self) -> int:
        """Delete the items whose time is over; return how many."""
        with self._lock:
            self._sync(self._run)
            expired = [(shelf.namespace, item.key) for shelf, item in self._expired()]
            self._remove(expired)
            self._swept = datetime.now(UTC)
            return len(expired)

    def _expired(self) -> list[tuple[Shelf, StoredItem]]:
        now = datetime.now(UTC)
        return [
            (shelf, item) for shelf in self._shelves.values() for item in shelf.items.values() if item.is_expired(now)
        ]

    def _hide_expired(self) -> None:
        for shelf, item in self._expired():
            self._hide(shelf.namespace, item.key)

    def _hide(self, namespace: Namespace, key: str) -> None:
        self._memory.batch([PutOp(namespace, key, None)])

    def _note_uses(self, ops: Sequence[Op], results: Sequence[Result]) -> None:
        """Count the time to live of the items that were read from now on; a tenth of it later at the earliest, store that."""
        now, due = datetime.now(UTC), dict[Namespace, set[str]]()
        for op, result in zip(ops, results, strict=True):
            if isinstance(op, GetOp | SearchOp) and op.refresh_ttl:
                for read in result if isinstance(result, list) else [result]:
                    item = self._live(read.namespace, read.key) if isinstance(read, Item) else None
                    if item and item.ttl is not None and now - item.used > timedelta(minutes=item.ttl * _USE):
                        due.setdefault(read.namespace, set()).add(item.key)  # type: ignore[union-attr] # an Item, see above
        if due:
            self._commit(lambda: self._append_uses(due), self._run)

    def _append_uses(self, due: Mapping[Namespace, set[str]]) -> dict[Namespace, Session]:
        sessions = {namespace: self._session(namespace) for namespace in due}
        for namespace, keys in due.items():
            for key in sorted(keys):
                append_use(sessions[namespace], key)
        return sessions


def _checked(op: Op) -> Op:
    """Return an operation with its namespace as a tuple; raise `ValueError` for what is refused."""
    if not isinstance(op, GetOp | SearchOp | ListNamespacesOp | PutOp):
        raise ValueError(f"Unknown operation type: {type(op)}")
    validate_op_namespace(op)
    if isinstance(op, PutOp) and op.value is not None:
        check_item(op.key, op.value, op.ttl)
    if isinstance(op, SearchOp):
        return op._replace(namespace_prefix=tuple(op.namespace_prefix))
    return op if isinstance(op, ListNamespacesOp) else op._replace(namespace=tuple(op.namespace))


def _put_op(namespace: Namespace, item: StoredItem) -> PutOp:
    return PutOp(namespace, item.key, item.value, index=item.fields)  # type: ignore[arg-type] # as `put` was told
