"""The handle on one session of the tree, and what its parent decides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, cast

from pyoxigraph import Literal as RdfLiteral

from trails.errors import HeadConflict, InvalidInput
from trails.handles import Handle
from trails.history import turn_builder
from trails.history.records import ledger_entries
from trails.history.removal import redaction
from trails.history.transaction import Transaction
from trails.model import iris, validation
from trails.model.values import SessionRecord, Turn
from trails.rdf import vocab
from trails.rdf.activity_records import Deed
from trails.rdf.ledger_records import (
    ArtifactEntry,
    Brief,
    Cancellation,
    Event,
    Exchange,
    LedgerEntry,
    Result,
    Transition,
    TreeState,
)
from trails.runtime import tree_state
from trails.runtime.inbox import change_entries
from trails.runtime.ledger import Ledger
from trails.runtime.tree_lifecycle import Lifecycle, SpawnOptions
from trails.runtime.tree_state import SOURCE, ArtifactLike, Kind, Live, SessionResult, read_result
from trails.session import Session
from trails.store.contract import PreconditionFailed, QuadStore

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


def withhold_texts(lifecycle: Lifecycle, session_id: str, deed: Deed) -> int:
    """Remove the texts of what a session was told and of how it ended for good; return how many there were."""
    store, record = lifecycle.repository.store, lifecycle.record(session_id)
    texts = ledger_entries.read_entries(store, record.id)
    doomed: list[LedgerEntry] = [
        each for each in texts if isinstance(each, Transition | Cancellation | Brief | Result | ArtifactEntry)
    ]
    if record.spawned_by is not None:
        doomed += [
            each
            for each in ledger_entries.read_entries(store, record.spawned_by)
            if getattr(each, "source", None) == SOURCE and getattr(each, "event_id", None) == record.id
        ]
    quads = [quad for each in doomed for quad in ledger_entries.entry_quads(store, each)]
    remove, add = ledger_entries.withhold_entry(quads)
    if add:
        tx = Transaction()
        tx.take(remove)
        tx.add(add)
        parts = [str(getattr(quad.subject, "value", "")) for quad in add]
        redaction.redaction_record(tx, parts, deed, place="ledger text")
        tx.commit(store)
    return len(add)


def waiting_results(lifecycle: Lifecycle, parent_id: str) -> list[Event]:
    """Return the messages by which a session was told of results, and which it has not decided on, in order."""
    events = lifecycle.runtime.book.where(Event, parent_id, vocab.WAITING)
    return [event for event in events if event.source == SOURCE and event.mode == "hold"]


def _told_of(lifecycle: Lifecycle, result: SessionResult) -> Event:
    """Return the message that told of a result.

    Raise `InvalidInput` if it was decided on, or never told.
    """
    given: object = result  # whoever calls may not check types
    if not isinstance(given, SessionResult):
        raise InvalidInput(
            f"what is decided on is a result, as complete() or `node.results()` gives it, not {given!r:.80}"
        )
    if result.parent_id is None:
        raise InvalidInput(f"session {result.session_id!r} is a main: its result has no parent to decide on it")
    same_id = lifecycle.runtime.book.where(Event, result.parent_id, vocab.EVENT_ID, RdfLiteral(result.session_id))
    events = [event for event in same_id if event.source == SOURCE]
    if not events:
        raise InvalidInput(f"session {result.parent_id!r} was told of no result of {result.session_id!r}")
    if not events[0].waiting:
        raise InvalidInput(f"session {result.parent_id!r} has decided on the result of {result.session_id!r} before")
    return events[0]


def incorporate_result(
    lifecycle: Lifecycle, result: SessionResult, content: str | Sequence[Any] | None, *, role: str, now: datetime
) -> Turn:
    """Append a turn that is made from a result to its parent's chain.

    Turn, message and exchange are one commit.
    """

    def work() -> Turn:
        event = _told_of(lifecycle, result)
        parent = lifecycle.runtime.index.get(event.session_id)
        if parent is None or parent.state != "active":
            state = lifecycle.record(event.session_id).state if parent is None else parent.state
            raise InvalidInput(f"session {event.session_id!r} is {state}, and only an active one takes a result in")
        text = event.content if content is None else content
        if text is None:
            raise InvalidInput(
                f"the text of the result of {result.session_id!r} was taken out; say what to write instead"
            )
        turn = turn_builder.check_derivation(role, text, result.derivation, author=event.author_iri, time=now)
        return _say(lifecycle, parent, turn, event, now)

    return lifecycle.attempt(work)


def _say(lifecycle: Lifecycle, parent: Live, made: turn_builder.Draft, event: Event, now: datetime) -> Turn:
    session, book = lifecycle.session(parent), lifecycle.runtime.book
    before = session.head
    with book.at(parent.id) as number:
        turn = session.worktree.append(made)
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
        except BaseException as error:  # an interrupt too: the turn must not be persisted later, without its entries
            session.worktree.take_back()
            if not isinstance(error, PreconditionFailed) and parent.kind == "main":
                lifecycle.runtime.forget(parent.id)  # the handle is behind the store: the next one is loaded anew
            raise
    lifecycle.runtime.touched[parent.id] = now
    return turn


def dismiss_result(lifecycle: Lifecycle, ledger: Ledger, result: SessionResult, reason: str | None) -> None:
    """Decide against a result: its message is taken out of the inbox, with its text."""
    with lifecycle.runtime.lock:
        event = _told_of(lifecycle, result)
        ledger.drop(event.session_id, event.number, reason=reason)


def send_tree_message(
    lifecycle: Lifecycle, ledger: Ledger, sender_id: str, recipient_id: str, content: str | Sequence[Any]
) -> Event:
    """Put a message of a session into the inbox of its parent or of its child; refuse all others."""
    with lifecycle.runtime.lock:
        sender, recipient = lifecycle.record(sender_id), lifecycle.record(recipient_id)
        if recipient.spawned_by != sender.id and sender.spawned_by != recipient.id:
            how = "are not parent and child; route it through what spawned them"
            if sender.spawned_by is not None and sender.spawned_by == recipient.spawned_by:
                how = f"are siblings; route it through their parent {sender.spawned_by!r}"
            raise InvalidInput(
                f"sessions {sender.id!r} and {recipient.id!r} {how}. Nothing was sent: in the tree messages go between "
                "parent and child only"
            )
        if "worker" in (sender.kind, recipient.kind):
            raise InvalidInput("a worker gets its task and gives its result, and no messages; spawn a branch for more")
        for each in (sender, recipient):
            if lifecycle.runtime.index.get(each.id) is None:
                raise InvalidInput(f"session {each.id!r} is {each.state}, and takes part in nothing any more")
        return ledger.receive(recipient.id, content, source="tree", author=iris.agent(sender.agent))


class Node(Handle, public=True):
    """A session of the tree. Made by `Tree.main`, `Tree.spawn` and `Tree.get`.

    Two handles on one session are equal.

    What a session is never changes, and its state is looked up each time.
    """

    __slots__ = ("_lifecycle", "_record")

    def __init__(self, lifecycle: Lifecycle, record: SessionRecord) -> None:
        """Not for callers: see `Tree.get`."""
        self._lifecycle = lifecycle
        self._record = record

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Node):
            return False
        return other.id == self.id and other._lifecycle.repository is self._lifecycle.repository

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
        options = SpawnOptions(kind=kind, task=task, context_summary=context_summary, ttl=ttl, tier=tier, **more)
        return Node(self._lifecycle, self._lifecycle.spawn(self.id, options))

    def children(self) -> list[Node]:
        """Return its children that have not ended, by id."""
        return nodes(self._lifecycle, (each.id for each in self._lifecycle.runtime.index.children(self.id)))

    def results(self) -> list[SessionResult]:
        """Return the results of its children that it has not decided on, in the order in which they came.

        One whose session was deleted meanwhile is a message in the inbox, and nothing here.
        """
        waiting = waiting_results(self._lifecycle, self.id)
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
        return self._end("completed", summary, artifacts, memory_ids, error=None, by=by)

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
        return self._end("failed", summary, artifacts, memory_ids, error=error, by=by)

    def _end(
        self,
        how: Literal["completed", "failed"],
        summary: str | None,
        artifacts: Iterable[ArtifactLike],
        memory_ids: Iterable[str],
        *,
        error: str | None,
        by: str | None,
    ) -> SessionResult:
        artifact_list = list(artifacts)  # read once: another try reads them again
        ids = memory_ids if isinstance(memory_ids, str) else list(memory_ids)

        def report() -> tree_state.Report:
            return tree_state.check_report(self.kind, summary, artifact_list, ids, self.id)

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
    """Return the handles of those sessions that are there, by id."""
    with lifecycle.runtime.lock:
        records = lifecycle.repository.reader.records(sorted(session_ids))
    return [Node(lifecycle, records[each]) for each in sorted(records)]
