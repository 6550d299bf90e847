"""The handle on one session of the tree, and what its parent decides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, cast

from trails.errors import HeadConflict, InvalidInput
from trails.handles import Handle
from trails.history.records import ledger_entries
from trails.model import validation
from trails.model.values import SessionRecord, Turn
from trails.rdf import vocab
from trails.rdf.ledger_records import (
    Cancellation,
    Event,
    LedgerEntry,
    Transition,
    TreeState,
)
from trails.runtime import tree_state
from trails.runtime.tree_lifecycle import Lifecycle, SpawnOptions
from trails.runtime.tree_state import SOURCE, ArtifactLike, Kind, SessionResult, read_result
from trails.session import Session
from trails.store.contract import QuadStore

if TYPE_CHECKING:
    from trails.context import Context
    from trails.context.messages import Counter

_ENTRIES = (vocab.TO_STATE, vocab.STATUS, vocab.ARTIFACT_OF)


def state_history(store: QuadStore, session_id: str) -> list[Transition | Cancellation]:
    """Return every change of a session's state and the request to end, in order."""
    entries: list[LedgerEntry] = []
    for kind in (vocab.TRANSITION, vocab.CANCELLATION):
        entries += ledger_entries.read_entries_where(store, session_id, vocab.TYPE, kind)
    both = [each for each in entries if isinstance(each, Transition | Cancellation)]
    return sorted(both, key=lambda entry: entry.number)


def session_result(lifecycle: Lifecycle, session_id: str) -> SessionResult | None:
    """Return how a session ended.

    None if it has not.
    """
    store, entries = lifecycle.repository.store, list[LedgerEntry]()
    for predicate in _ENTRIES:
        entries += ledger_entries.read_entries_where(store, session_id, predicate)
    return read_result(lifecycle.record(session_id).spawned_by, entries)


class Node(Handle, public=True):
    """A session of the tree. Made by `Tree.main`, `Tree.spawn` and `Tree.get`.

    Two handles on one session are equal.

    What a session is never changes, and its state is looked up each time.
    """

    __slots__ = ("_id", "_lifecycle", "_row")

    def __init__(self, lifecycle: Lifecycle, session: SessionRecord | str) -> None:
        """Not for callers: see `Tree.get`. The row of a session that is given by its id is read when it is first needed."""
        self._lifecycle = lifecycle
        self._id = session if isinstance(session, str) else session.id
        self._row: SessionRecord | None = None if isinstance(session, str) else session

    @property
    def _record(self) -> SessionRecord:
        if self._row is None:
            with self._lifecycle.runtime.lock:
                self._row = self._lifecycle.record(self._id)
        return self._row

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Node):
            return False
        return other.id == self.id and other._lifecycle.repository is self._lifecycle.repository

    def __hash__(self) -> int:
        return hash(self._id)

    def __repr__(self) -> str:
        return f"<Node {self.id!r}: {self.kind} of {self.agent!r}, {self.state}>"

    # --- what it is

    @property
    def id(self) -> str:
        """The session's id."""
        return self._id

    @property
    def agent(self) -> str:
        """The agent that owns the session."""
        return self._record.agent

    @property
    def parent_id(self) -> str | None:
        """The id of the session that spawned it.

        None for a main.
        """
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
        """The tier of models that it is to use.

        None leaves that to the host.
        """
        return self._record.tier

    @property
    def created(self) -> datetime | None:
        """When it was made."""
        return self._record.created

    @property
    def expires(self) -> datetime | None:
        """When its time to live is over, suspended or not.

        None for never.
        """
        return self._record.expires

    @property
    def ttl(self) -> timedelta | None:
        """Its time to live from its creation.

        None for no end.
        """
        created = self._record.created
        return None if created is None or self._record.expires is None else self._record.expires - created

    @property
    def state(self) -> TreeState:
        """`active`, `suspended`, `completed`, `failed` or `expired`."""
        live = self._lifecycle.runtime.index.get(self.id)
        return live.state if live is not None else cast(TreeState, self._lifecycle.record(self.id).state)

    @property
    def depth(self) -> int:
        """How many spawns it is away from its main."""
        store = self._lifecycle.repository
        record, depth = self._lifecycle.record(self.id), 0
        while record.spawned_by is not None and record.spawned_by in store:
            record, depth = store.record(record.spawned_by), depth + 1
        return depth

    @property
    def cancelled(self) -> Cancellation | None:
        """The request to end by a time.

        None while there is none. A session at work asks for it between its steps.
        """
        live = self._lifecycle.runtime.index.get(self.id)
        if live is not None and live.ends_by is None:
            return None  # what is asked most often, and needs no look at the store
        return next((each for each in self.history if isinstance(each, Cancellation)), None)

    @property
    def task(self) -> str | None:
        """What it was made for.

        None if that was removed, or for a main without a task.
        """
        return self._told().task

    @property
    def context_summary(self) -> str | None:
        """What its parent told it of itself.

        None for nothing, which is all that a worker gets.
        """
        return self._told().context

    @property
    def result(self) -> SessionResult | None:
        """How it ended; None while it has not."""
        return session_result(self._lifecycle, self.id)

    @property
    def history(self) -> list[Transition | Cancellation]:
        """Every change of its state, and the request to end, in order."""
        return state_history(self._lifecycle.repository.store, self.id)

    def _told(self) -> ledger_entries.SpawnContext:
        return ledger_entries.spawn_context(self._lifecycle.repository.store, [self._lifecycle.record(self.id)])

    # --- its turns

    @property
    def session(self) -> Session:
        """The session with its turns: while it is active the one handle that holds those that are not stored."""
        with self._lifecycle.runtime.lock:
            live = self._lifecycle.runtime.index.get(self.id)
            if live is None or live.state != "active":
                return self._lifecycle.repository.load(self.id)
            return self._lifecycle.session(live)

    def append(self, /, role: str, content: str | Sequence[Any], **recorded: Any) -> Turn:
        """Append a turn, as `Session.append` does, and return it.

        A main stores it at once. A branch keeps it in memory until it is suspended, ends, or `persist` is called; a
        worker's turns are never stored. Raises `InvalidInput` for a session that is not active.
        """
        runtime = self._lifecycle.runtime
        with runtime.lock:
            state = self.state
            if state != "active":
                remedy = "resume it first" if state == "suspended" else "spawn another one"
                raise InvalidInput(f"session {self.id!r} is {state} and takes no turns; {remedy}")
            now = self._lifecycle.now()
            recorded.setdefault("time", now)
            handle = self.session
            turn = handle.append(role, content, **recorded)
            runtime.touched[self.id] = now
            if handle.record.kind == "main":
                try:
                    handle.persist()
                except HeadConflict:
                    handle.worktree.take_back()
                    runtime.forget(self.id)  # the next handle is loaded anew
                    raise
            return turn

    def persist(self) -> int:
        """Store the turns that are in memory, and return how many.

        Raise `InvalidInput` for a worker.
        """
        with self._lifecycle.runtime.lock:
            if self._lifecycle.record(self.id).kind == "worker":
                raise InvalidInput(f"session {self.id!r} is a worker, and the turns of workers are never stored")
            return self.session.persist()

    def context(
        self, query: object = None, *, max_tokens: int | None = None, counter: Counter | None = None
    ) -> Context:
        """Return what a model is shown: system prompt, task, context summary, its own turns; nothing of its parent's.

        The parameters are those of `Session.context`.
        """
        brief = self._told()
        return self.session.context(
            query, max_tokens=max_tokens, brief=brief.task, background=brief.context, counter=counter
        )

    # --- its children

    def spawn(
        self,
        /,
        kind: str,
        task: str,
        context_summary: str | None = None,
        ttl: timedelta | None = None,
        tier: str | None = None,
        **more: Any,
    ) -> Node:
        """Make a child and return its handle: all else is as for `Tree.spawn`."""
        options = SpawnOptions(kind, task, context_summary, ttl, tier, **more)
        return Node(self._lifecycle, self._lifecycle.spawn(self.id, options))

    def children(self) -> list[Node]:
        """Return its children that have not ended, by id."""
        return nodes(self._lifecycle, (each.id for each in self._lifecycle.runtime.index.children(self.id)))

    def results(self) -> list[SessionResult]:
        """Return the results of its children that it has not decided on, in the order in which they came.

        One whose session was deleted meanwhile is a message in the inbox, and nothing here.
        """
        held = self._lifecycle.runtime.book.where(Event, self.id, vocab.WAITING)
        waiting = [event for event in held if event.source == SOURCE and event.mode == "hold"]
        known = self._lifecycle.repository.reader.records([each.event_id or "" for each in waiting])
        child_results = [session_result(self._lifecycle, each.event_id) for each in waiting if each.event_id in known]
        return [each for each in child_results if each is not None]

    # --- ends, and rests

    def complete(
        self,
        summary: str | None = None,
        *,
        artifacts: Iterable[ArtifactLike] = (),
        memory_ids: Iterable[str] = (),
        by: str | None = None,
    ) -> SessionResult:
        """End it with success and return its result, which goes to its parent in the same commit.

        `summary` says what it found; `artifacts` are what it created, modified or deleted: (uri, change, sha256) or
        `Artifact`s; `memory_ids` name what it wrote into the agent's memory, and a worker has none. Its active children
        are asked to end within the grace, its suspended ones expire. A branch's turns are stored.

        Raises `IllegalTransition`, which names both states, for a session that is not active.
        """
        fields = {"summary": summary, "artifacts": artifacts, "memory_ids": memory_ids}
        return self._end("completed", fields, error=None, by=by)

    def fail(
        self,
        error: str,
        *,
        summary: str | None = None,
        artifacts: Iterable[ArtifactLike] = (),
        memory_ids: Iterable[str] = (),
        by: str | None = None,
    ) -> SessionResult:
        """End it without success and return its result.

        `error` says why. All else is as for `complete`.

        Raises `InvalidInput` for an error that says nothing.
        """
        if not validation.text(error, "error").strip():
            raise InvalidInput(f"the error of session {self.id!r} is empty: say why it failed")
        fields = {"summary": summary, "artifacts": artifacts, "memory_ids": memory_ids}
        return self._end("failed", fields, error=error, by=by)

    def _end(
        self, how: Literal["completed", "failed"], fields: Mapping[str, Any], *, error: str | None, by: str | None
    ) -> SessionResult:
        def read(name: str, value: Any) -> Any:
            return value if name == "summary" or isinstance(value, str) else list(value)

        given = {name: read(name, value) for name, value in fields.items()}  # once: another try reads them again

        def report() -> tree_state.Report:
            return tree_state.check_report(self.kind, self.id, **given)

        return self._lifecycle.end(self.id, how, how, said=report, error=error, by=by)

    def cancel(self, reason: str | None = None, *, by: str | None = None) -> None:
        """Ask it to end within the grace while it is active.

        A suspended one, which cannot wrap up, expires at once.

        The request is stored and goes to those who asked for it (`Tree.on_cancel`). The session may still complete or
        fail; else the first sweep after the grace ends it as failed, with the result "cancelled".
        """
        why = "cancelled" if reason is None else validation.text(reason, "reason")
        self._lifecycle.cancel(self.id, reason=why, by=by)

    def suspend(self, *, by: str | None = None) -> None:
        """Let an active branch rest: its turns are stored, its slot is free, and its time to live goes on.

        Raises `IllegalTransition` for another kind, another state, or a branch that was asked to end.
        """
        self._lifecycle.suspend(self.id, by=by)

    def resume(self, *, by: str | None = None) -> None:
        """Let a suspended branch go on.

        Raise `LimitReached` if its parent or agent has no slot free.
        """
        self._lifecycle.resume(self.id, by=by)


def nodes(lifecycle: Lifecycle, session_ids: Iterable[str]) -> list[Node]:
    """Return the handles of sessions that have not ended, by id."""
    return [Node(lifecycle, each) for each in sorted(session_ids)]
