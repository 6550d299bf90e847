"""Decide on the results of children, and send messages between parents and children."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pyoxigraph import Literal

from trails.errors import InvalidInput
from trails.history import turn_builder
from trails.history.records import ledger_entries
from trails.history.removal import redaction
from trails.history.transaction import Transaction
from trails.model import iris
from trails.model.values import Turn
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
)
from trails.runtime.ledger import Ledger
from trails.runtime.ledger.ledger_writer import change_entries
from trails.runtime.tree.lifecycle import Lifecycle
from trails.runtime.tree.tree_index import Live
from trails.runtime.tree.tree_transaction import SOURCE, SessionResult, read_result
from trails.store.contract import PreconditionFailed, QuadStore

_ENTRIES = (vocab.TO_STATE, vocab.STATUS, vocab.ARTIFACT_OF)


def state_history(store: QuadStore, session_id: str) -> list[Transition | Cancellation]:
    """Return every change of a session's state and the request to end, in order."""
    found: list[LedgerEntry] = []
    for kind in (vocab.TRANSITION, vocab.CANCELLATION):
        found += ledger_entries.read_entries_where(store, session_id, vocab.TYPE, kind)
    both = [each for each in found if isinstance(each, Transition | Cancellation)]
    return sorted(both, key=lambda entry: entry.number)


def session_result(lifecycle: Lifecycle, session_id: str) -> SessionResult | None:
    """Return how a session ended, or None where it has not."""
    store, found = lifecycle.repository.store, list[LedgerEntry]()
    for predicate in _ENTRIES:
        found += ledger_entries.read_entries_where(store, session_id, predicate)
    return read_result(lifecycle.record(session_id).spawned_by, found)


def withhold_texts(lifecycle: Lifecycle, session_id: str, deed: Deed) -> int:
    """Take the texts of what a session was told and of how it ended out for good; return how many there were."""
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
    """Return the message that told of a result, or raise `InvalidInput` where it was decided on, or never told."""
    given: object = result  # whoever calls may not check types
    if not isinstance(given, SessionResult):
        raise InvalidInput(
            f"what is decided on is a result, as complete() or `node.results()` gives it, not {given!r:.80}"
        )
    if result.parent_id is None:
        raise InvalidInput(f"session {result.session_id!r} is a main: its result has no parent to decide on it")
    same_id = lifecycle.runtime.book.where(Event, result.parent_id, vocab.EVENT_ID, Literal(result.session_id))
    events = [event for event in same_id if event.source == SOURCE]
    if not events:
        raise InvalidInput(f"session {result.parent_id!r} was told of no result of {result.session_id!r}")
    if not events[0].waiting:
        raise InvalidInput(f"session {result.parent_id!r} has decided on the result of {result.session_id!r} before")
    return events[0]


def incorporate_result(
    lifecycle: Lifecycle, result: SessionResult, content: str | Sequence[Any] | None, *, role: str, now: datetime
) -> Turn:
    """Append a turn that is made from a result to its parent's chain; turn, message and exchange are one commit."""

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
        words = None if event.words is None else event.words.gone(withheld=event.words.withheld)
        said = event.model_copy(update={"waiting": False, "turn_iris": (turn.iri,), "words": words})
        try:
            session.worktree.persist(change_entries(parent.id, [exchange], [(event, said)]))
        except BaseException as error:  # an interrupt too: the turn must not be persisted later, without its entries
            session.worktree.take_back()
            if not isinstance(error, PreconditionFailed) and parent.kind == "main":
                lifecycle.runtime.forget(parent.id)  # the handle is behind the store: the next one is loaded anew
            raise
        book.wrote(parent.id, [exchange])
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
