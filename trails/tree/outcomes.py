"""What a parent does with the results of its children, and who may write to whom."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pyoxigraph import Literal

from trails import iris, vocab
from trails.errors import InvalidInput
from trails.ledger import Ledger
from trails.ledger.writer import change
from trails.model import Turn
from trails.plumbing import draft
from trails.records.entries import Event, Exchange
from trails.store.contract import PreconditionFailed
from trails.tree.index import Live
from trails.tree.lifecycle import Lifecycle
from trails.tree.results import SessionResult
from trails.tree.transaction import SOURCE


def waiting(lifecycle: Lifecycle, parent_id: str) -> list[Event]:
    """Return the messages by which a session was told of results, and which it has not decided on, in order."""
    found = lifecycle.runtime.book.where(parent_id, vocab.WAITING)
    return [each for each in found if isinstance(each, Event) and each.source == SOURCE and each.mode == "hold"]


def _told_of(lifecycle: Lifecycle, result: SessionResult) -> Event:
    """Return the message that told of a result, or raise `InvalidInput` where it was decided on, or never told."""
    given: object = result  # whoever calls may not check types
    if not isinstance(given, SessionResult):
        raise InvalidInput(
            f"what is decided on is a result, as complete() or `node.results()` gives it, not {given!r:.80}"
        )
    if result.parent_id is None:
        raise InvalidInput(f"session {result.session_id!r} is a main: its result has no parent to decide on it")
    found = lifecycle.runtime.book.where(result.parent_id, vocab.EVENT_ID, Literal(result.session_id))
    events = [each for each in found if isinstance(each, Event) and each.source == SOURCE]
    if not events:
        raise InvalidInput(f"session {result.parent_id!r} was told of no result of {result.session_id!r}")
    if not events[0].waiting:
        raise InvalidInput(f"session {result.parent_id!r} has decided on the result of {result.session_id!r} before")
    return events[0]


def incorporate(
    lifecycle: Lifecycle, result: SessionResult, content: str | Sequence[Any] | None, *, role: str, now: datetime
) -> Turn:
    """Append a turn that is made from a result to its parent's chain; turn, message and exchange are one commit."""

    def work() -> Turn:
        event = _told_of(lifecycle, result)
        parent = _deciding(lifecycle, event.session_id)
        said = event.content if content is None else content
        if said is None:
            raise InvalidInput(
                f"the text of the result of {result.session_id!r} was taken out; say what to write instead"
            )
        author = None if event.author_iri is None else event.author_iri
        made = draft.derived(role, said, result.derivation, author=author, time=now)
        return _say(lifecycle, parent, made, event, now)

    return lifecycle.attempt(work)


def _deciding(lifecycle: Lifecycle, parent_id: str) -> Live:
    parent = lifecycle.runtime.index.get(parent_id)
    if parent is None or parent.state != "active":
        stands = lifecycle.record(parent_id).state if parent is None else parent.state
        raise InvalidInput(f"session {parent_id!r} is {stands}, and only an active one takes a result in")
    return parent


def _say(lifecycle: Lifecycle, parent: Live, made: draft.Draft, event: Event, now: datetime) -> Turn:
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
            session.worktree.persist(change(parent.id, [exchange], [(event, said)]))
        except BaseException as error:  # an interrupt too: the turn must not be persisted later, without its entries
            session.worktree.take_back()
            if not isinstance(error, PreconditionFailed) and parent.kind == "main":
                lifecycle.runtime.forget(parent.id)  # the handle is behind the store: the next one is loaded anew
            raise
        book.wrote(parent.id, [exchange])
    lifecycle.runtime.touched[parent.id] = now
    return turn


def dismiss(lifecycle: Lifecycle, ledger: Ledger, result: SessionResult, reason: str | None) -> None:
    """Decide against a result: its message is taken out of the inbox, with its text."""
    with lifecycle.runtime.lock:
        event = _told_of(lifecycle, result)
        ledger.drop(event.session_id, event.number, reason=reason)


def send(
    lifecycle: Lifecycle, ledger: Ledger, sender_id: str, recipient_id: str, content: str | Sequence[Any]
) -> Event:
    """Put a message of a session into the inbox of its parent or of its child; refuse all others."""
    with lifecycle.runtime.lock:
        sender, recipient = lifecycle.record(sender_id), lifecycle.record(recipient_id)
        if recipient.spawned_by != sender.id and sender.spawned_by != recipient.id:
            related = sender.spawned_by is not None and sender.spawned_by == recipient.spawned_by
            how = (
                f"are siblings; route it through their parent {sender.spawned_by!r}"
                if related
                else "are not parent and child; route it through what spawned them"
            )
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
