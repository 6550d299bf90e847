"""The public handle on the ledger of a store: messages in, exchanges, answers out, deliveries."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, Literal, get_args

from pyoxigraph import Literal as RdfLiteral
from pyoxigraph import NamedNode

from trails.errors import ExchangeInterrupted, InvalidInput
from trails.handles import Handle
from trails.history.transaction import Transaction
from trails.model import iris, validation
from trails.model.values import Turn
from trails.rdf import vocab
from trails.rdf.ledger_records import Delivery, Entry, EntryTexts, Event, Exchange, Mode, Outcome, State
from trails.runtime import inbox, message_exchanges
from trails.runtime.inbox import Book, put_entries
from trails.runtime.message_exchanges import Handler, HeadMove, Running, run_exchange
from trails.runtime.timer import Clock, clock_time
from trails.session import Repository, Session, opened

Unfinished = Literal["refuse", "retry", "fail"]
"""What `process` does about an exchange that was under way when its process died."""
_CUT_SHORT: Final = "interrupted: the process that worked on it ended"


class Ledger(Handle, public=True):
    """What happens around the turns of a store's sessions: inbox, exchanges, events, deliveries.

    All of it is stored beside the turns, in one graph a session, and survives the process; several `Ledger`s on one
    store are one.

    >>> import trails
    >>> with trails.open(":memory:") as store:
    ...     store.create(id="desk").persist()
    ...     ledger = trails.Ledger(store)
    ...     event = ledger.receive("desk", "Where is my parcel?", source="mail", event_id="m-1")
    ...     done = ledger.process("desk", lambda running: "On its way.")
    ...     [(turn.role, turn.content) for turn in store.load("desk").turns], done[0].state
    0
    ([('user', 'Where is my parcel?'), ('assistant', 'On its way.')], 'completed')
    """

    def __init__(
        self, store: Repository, *, clock: Clock | None = None, debounce: timedelta = timedelta(seconds=1)
    ) -> None:
        """Open the ledger of a store.

        `clock` gives the time (aware; the system's by default). `debounce` is how long messages in the mode "collect"
        wait for more to come, 0 or more.
        """
        if debounce < timedelta(0):
            raise InvalidInput(f"debounce must not be negative, and is {debounce}")
        self._repository = opened(store, "Ledger")
        self._now = partial(clock_time, clock)
        self._debounce = debounce
        self._book = Book.of(store)

    def __repr__(self) -> str:
        return f"<Ledger of {self._repository!r}>"

    def _id(self, session: str) -> str:
        return self._repository.record(session).id

    # --- the head

    def head(self, session: str) -> Turn | None:
        """Return a session's current turn: the last one stored, inherited ones included.

        None if there is none.

        It is looked up each time; what a handle holds and has not persisted does not count.
        """
        return message_exchanges.head_turn(self._repository, self._id(session))

    def head_moves(self, session: str) -> list[HeadMove]:
        """Return how a session's head moved since it was made, in order: from where, to where, when, by which exchange."""
        return message_exchanges.head_moves(self._repository, self._book, self._id(session))

    # --- messages in

    def receive(
        self,
        session: str,
        content: str | Sequence[Any],
        *,
        source: str | None = None,
        event_id: str | None = None,
        channel: str | None = None,
        account: str | None = None,
        peer: str | None = None,
        author: str | None = None,
        time: datetime | None = None,
        mode: Mode = "followup",
    ) -> Event:
        """Put a message into a session's inbox and return it.

        Once this returns, it is processed or still there.

        `event_id` is the source's own id: a second message with the same `source` and `event_id` adds nothing, and the
        first one is returned, also if another session has it (its `session_id` says which): what is delivered again
        after a reset or by another route is not answered twice. What is meant for several sessions needs an id, or a
        source, for each. Without a `source`, an id is the session's own.

        `channel`, `account` and `peer` say where an answer goes. `author` and `time` are the turn's (see
        `Session.append`); `time` defaults to now. `mode` says what becomes of it while the session is at work: "followup"
        makes it the next exchange; "collect" joins it with others from the same address that come within the debounce;
        "steer" gives it to the exchange under way, if that asks, else it is a followup; "hold" leaves it in the inbox
        until somebody decides on it (`drop`; for results, `Tree.incorporate`).

        Raises `SessionNotFound`, or `InvalidInput` for what cannot be kept, and for another content under a known id.
        """
        session_id = self._id(session)
        message = inbox.inbound_event(
            session_id,
            content,
            source=source,
            event_id=event_id,
            channel=channel,
            account=account,
            peer=peer,
            author=author,
            time=time,
            mode=mode,
            now=self._now(),
        )
        with self._intake(message), self._book.at(session_id) as number:
            known = inbox.existing_event(self._repository, self._book, message)
            if known is not None:
                return known
            event = message.model_copy(update={"number": number})
            self._book.write(session_id, [event])
            return event

    def _intake(self, made: Event) -> AbstractContextManager[object]:
        """Return what keeps others from putting in the same message elsewhere meanwhile."""
        return nullcontext() if made.event_id is None or made.source is None else self._book.intake

    def inbox(self, session: str) -> list[Event]:
        """Return the messages that no exchange has taken up yet, in the order in which they came."""
        return self._book.where(Event, self._id(session), vocab.WAITING)

    def due(self, session: str) -> datetime | None:
        """Return when `process` will find something to do: now or earlier, or the end of a debounce; None for nothing."""
        session_id, now = self._id(session), self._now()
        if self._in_state(session_id, "pending"):
            return now
        upcoming = inbox.next_messages(self.inbox(session_id), now, self._debounce)
        return now if upcoming.events else upcoming.due

    def drop(self, session: str, number: int, *, by: str | None = None, reason: str | None = None) -> Event:
        """Remove the text of a message that no turn says, for good.

        Return what stays of it.

        `number` is the event's. One that waits is not processed any more: it stands as a failed exchange.
        `by` is as for `Repository.delete`.

        Raises `InvalidInput` for a message that a turn says (redact that) or that is being worked on.
        """
        session_id = self._id(session)
        why = None if reason is None else validation.text(reason, "reason")
        with self._book.at(session_id) as entry:
            event = self._book.entry(session_id, number, Event)
            users = self._book.where(Exchange, session_id, vocab.USED, NamedNode(event.iri))
            if event.direction != "inbound" or any(each.state == "completed" for each in users):
                raise InvalidInput(f"a turn says message {number} of session {session_id!r}; take that out (redact)")
            if any(each.state in ("pending", "streaming") for each in users):
                raise InvalidInput(f"message {number} of session {session_id!r} is in an open exchange; fail it first")
            deed = self._repository.workspace.deed(by, why)._replace(time=self._now())
            failed = Exchange(
                session_id=session_id,
                number=entry,
                state="failed",
                agent=iris.author_name(deed.by_iri) if iris.is_agent(deed.by_iri) else deed.by_iri,
                events=(number,),
                queued=deed.time,
                ended=deed.time,
                words=EntryTexts.of("dropped" if why is None else f"dropped: {why}"),
            )
            moved: list[tuple[Entry, Entry]] = [(event, event.without_text(withheld=True, waiting=False))]
            moved += [(each, each.without_text(withheld=True)) for each in users]
            self._book.write(session_id, [failed] if event.waiting else [], moved, deed=deed)
        self._repository.workspace.note_held()
        return self._book.entry(session_id, number, Event)

    # --- exchanges

    def process(
        self,
        session: str,
        handler: Handler,
        *,
        interrupted: Unfinished = "refuse",
        keep_partial: bool = False,
        limit: int | None = None,
    ) -> list[Exchange]:
        """Work through a session's inbox, one exchange at a time, and return those that were completed.

        For each, the session is loaded anew, the messages are appended as turns of the user, and `handler` is called
        with the exchange (a `Running`): it appends turns, or returns the assistant's answer as text or parts, or None.
        The turns, the exchange's end and the outbound event are one commit. Where the handler raises, the exchange
        fails: its turns are not kept (with `keep_partial`, as a fork), the head stays, and the error is raised on.

        Where another thread works on the session already, that one goes on to what waits now, and this returns [] at
        once; what that one leaves, because it fails or has reached its limit, is for the next call. `limit` is how many
        exchanges at most. `interrupted` says what happens to one that was under way when its
        process died: "refuse" raises `ExchangeInterrupted`, "retry" takes its messages up again, "fail" leaves them.
        """
        if interrupted not in ("refuse", "retry", "fail"):
            raise InvalidInput(f'interrupted is "refuse", "retry" or "fail", not {interrupted!r}')
        left = None if limit is None else validation.index(limit, "limit")
        if not callable(handler):
            raise InvalidInput(f"a handler is called with each exchange, and {handler!r:.80} cannot be called")
        session_id, book = self._id(session), self._book
        done: list[Exchange] = []
        if not book.enter(session_id):
            return done
        try:
            self._settle(session_id, interrupted)
            while left is None or len(done) < left:
                exchange = self._claim(session_id)
                if exchange is not None:
                    done += self._work(exchange, handler, keep_partial=keep_partial)
                elif not book.was_asked(session_id):
                    return done
        except BaseException:  # an interrupt too: others must be let in
            book.leave(session_id)
            raise
        book.leave(session_id)
        return done

    def _settle(self, session_id: str, interrupted: Unfinished) -> None:
        """Deal with exchanges that were under way when their process died."""
        for exchange in self._in_state(session_id, "streaming"):
            if interrupted == "refuse":
                raise ExchangeInterrupted(
                    f"exchange {exchange.number} of session {session_id!r} was under way when its process died; what it "
                    f"did outside is not known. Take it up again with retry({session_id!r}, {exchange.number}), or leave "
                    f"it with fail({session_id!r}, {exchange.number})"
                )
            (self.retry if interrupted == "retry" else self.fail)(session_id, exchange.number)

    def _in_state(self, session_id: str, state: State) -> list[Exchange]:
        return self._book.where(Exchange, session_id, vocab.STATE, RdfLiteral(state))

    def _claim(self, session_id: str) -> Exchange | None:
        """Return the next exchange to work on: one that pends, or a new one for what comes next in the inbox."""
        with self._book.at(session_id) as number:
            if pending := self._in_state(session_id, "pending"):
                return pending[0]
            now = self._now()
            events = inbox.next_messages(self.inbox(session_id), now, self._debounce).events
            if not events:
                return None
            exchange = Exchange(
                session_id=session_id,
                number=number,
                state="pending",
                agent=self._repository.record(session_id).agent,
                events=tuple(event.number for event in events),
                queued=now,
            )
            taken = [(event, event.model_copy(update={"waiting": False})) for event in events]
            self._book.write(session_id, [exchange], taken)
            return exchange

    def _work(self, exchange: Exchange, handler: Handler, *, keep_partial: bool) -> list[Exchange]:
        """Return the exchange once it is completed.

        Nothing for one whose messages were taken out, which has failed then.
        """
        session_id, book = exchange.session_id, self._book
        messages = [self._book.entry(session_id, number, Event) for number in exchange.events]
        gone = next((message.number for message in messages if message.content is None), None)
        if gone is not None:
            self.fail(session_id, exchange.number, error=f"the text of message {gone} was taken out")
            return []
        running = Running(self._repository, self._book, self._now, exchange, messages)
        book.at_work[session_id] = exchange.number
        try:
            return [run_exchange(running, handler, keep_partial=keep_partial)]
        finally:
            del book.at_work[session_id]

    def exchanges(self, session: str, *, state: State | None = None) -> list[Exchange]:
        """Return a session's exchanges (in one state), in order.

        `interrupted` marks those whose process died.
        """
        session_id = self._id(session)
        at_work = self._book.at_work.get(session_id)
        value = None if state is None else RdfLiteral(state)
        return [
            each.model_copy(update={"interrupted": each.state == "streaming" and each.number != at_work})
            for each in self._book.where(Exchange, session_id, vocab.STATE, value)
        ]

    def retry(self, session: str, number: int) -> Exchange:
        """Let the next `process` take up the messages of an exchange that failed or was interrupted; return the new exchange.

        The old one stays as it failed. Raises `InvalidInput` for one in another state, or that was taken up again before.
        """
        session_id = self._id(session)
        with self._book.at(session_id) as entry:
            old = self._unfinished(session_id, number, "failed")
            if self._book.where(Exchange, session_id, vocab.RETRY_OF, NamedNode(old.iri)):
                raise InvalidInput(f"exchange {number} of session {session_id!r} was taken up again before")
            for each in old.events:
                if self._book.entry(session_id, each, Event).content is None:
                    raise InvalidInput(f"the text of message {each} of session {session_id!r} was taken out")
            again = Exchange(
                session_id=session_id,
                number=entry,
                state="pending",
                agent=old.agent,
                events=old.events,
                queued=self._now(),
                retry_of=number,
            )
            self._book.write(session_id, [again], [(old, self._failed(old, _CUT_SHORT))] if old.ended is None else [])
            return again

    def fail(self, session: str, number: int, *, error: str = _CUT_SHORT) -> Exchange:
        """Mark a pending or interrupted exchange as failed, and return it.

        `retry` takes its messages up again.
        """
        session_id, why = self._id(session), validation.text(error, "error")
        with self._book.at(session_id):
            old = self._unfinished(session_id, number, "pending")
            failed = self._failed(old, why)
            self._book.write(session_id, [], [(old, failed)])
            return failed

    def _failed(self, exchange: Exchange, why: str) -> Exchange:
        return exchange.model_copy(update={"state": "failed", "ended": self._now(), "words": EntryTexts.of(why)})

    def _unfinished(self, session_id: str, number: int, state: State) -> Exchange:
        """Return an exchange in a state, or one that was interrupted.

        Raise `InvalidInput` for any other.
        """
        exchange = self._book.entry(session_id, number, Exchange)
        if exchange.state == "streaming" and self._book.at_work.get(session_id) == number:
            raise InvalidInput(f"exchange {number} of session {session_id!r} is being worked on right now")
        if exchange.state not in (state, "streaming"):
            raise InvalidInput(
                f"exchange {number} of session {session_id!r} is {exchange.state}; this needs one that is {state} or was "
                "interrupted"
            )
        return exchange

    # --- forks

    def fork_from(
        self,
        /,
        turn: Turn | str | tuple[str, int],
        content: str | Sequence[Any] | None = None,
        *,
        id: str | None = None,  # noqa: A002 - as in `Session.fork`
        label: str | None = None,
        principal: str | None = None,
        agent: str | None = None,
        **message: Any,
    ) -> Session:
        """Return a new session that is forked right after a turn, with a first message in its inbox; stored in one commit.

        `turn` is a turn, its IRI, or a session and an index in its transcript; that other turns follow it does not
        matter. `content` is the message (none if it is left out), and `message` what `receive` takes beside it; a
        message that is known by its source and id makes no second fork there. Unless labelled, the session is called by
        its branch, `fork-` and 8 hex digits.

        Raises `SessionNotFound` or `InvalidInput` for a turn that is not there; nothing is written then.
        """
        source, index = self._place(turn)
        fork = source.fork(at=index + 1, id=id, label=label, principal=principal, agent=agent)
        if label is None:
            fork.worktree.change_record(label=fork.branch)
        if content is None:
            fork.persist()
            return fork
        event = inbox.inbound_event(fork.id, content, now=self._now(), **message)
        with self._intake(event):
            known = inbox.existing_event(self._repository, self._book, event)
            if known is not None:
                return self._forked_before(fork, known)
            tx = Transaction()
            put_entries(tx, fork.id, [event.model_copy(update={"number": 1})], new_session=True)
            fork.worktree.persist(tx.change())
        return fork

    def _forked_before(self, wanted: Session, known: Event) -> Session:
        """Return the fork that a message was put into before, if it is the one that is wanted again."""
        fork = self._repository.record(known.session_id)
        if (fork.parent_session_id, fork.forked_at_index) != (wanted.parent_session_id, wanted.forked_at_index):
            raise InvalidInput(
                f"the message {known.event_id!r} of {known.source!r} is in session {fork.id!r} already (entry "
                f"{known.number}); nothing was forked. Give this one an id of its own"
            )
        return self._repository.load(fork.id)

    def _place(self, turn: Turn | str | tuple[str, int]) -> tuple[Session, int]:
        """Return the session that a turn is in, loaded, and its index there."""
        if isinstance(turn, tuple):
            source, index = self._repository.load(turn[0]), validation.index(turn[1], "the turn's index")
            if index >= len(source):
                raise InvalidInput(f"session {source.id!r} has no turn {index}: it has {len(source)}")
            return source, index
        iri = turn.iri if isinstance(turn, Turn) else validation.text(turn, "the turn")
        source = self._repository.load(iris.session_id(iri))
        turn_there = next((each for each in source.turns if each.iri == iri), None)
        if turn_there is None:
            raise InvalidInput(f"there is no turn {iri} in session {source.id!r}")
        return source, turn_there.index

    # --- events and deliveries

    def events(self, session: str, *, direction: Literal["inbound", "outbound"] | None = None) -> list[Event]:
        """Return the events of a session, in order: the messages that came, and the answers that went out."""
        value = None if direction is None else RdfLiteral(direction)
        return self._book.where(Event, self._id(session), vocab.DIRECTION, value)

    def content(self, event: Event) -> Any:
        """Return what an event says, from its own text or its turn's.

        None if that was removed.
        """
        words = inbox.event_words(self._repository, event)
        return None if words is None else words.content

    def delivered(
        self,
        what: Event | Turn | str,
        *,
        channel: str | None = None,
        outcome: Outcome = "sent",
        text: str | None = None,
        at: datetime | None = None,
        reason: str | None = None,
    ) -> Delivery:
        """Note an attempt to send an answer out, and return the record.

        Attempts of a turn over a channel are counted.

        `what` is an outbound event, a turn or a turn's IRI. `channel` defaults to the event's. `outcome` is "sent",
        "failed" or "skipped", and `reason` (1 to 200 characters, nothing of the text) says why. `text` is what was really
        sent; it is kept only if it is not the turn's own text. `at` is aware and defaults to now.

        Raises `InvalidInput` for a turn that is not there.
        """
        moment = self._now() if at is None else validation.time(at, "at")
        if outcome not in get_args(Outcome):
            raise InvalidInput(f"outcome is one of {', '.join(get_args(Outcome))}, not {outcome!r}")
        turn_iri, event = self._sent(what)
        over = channel if channel is not None or event is None else event.channel
        if over is None:
            raise InvalidInput("a delivery needs the channel that it went over")
        stored = inbox.turn_value(self._repository, turn_iri)
        if stored is None:
            raise InvalidInput(f"there is no turn {turn_iri}; only what is stored can be delivered")
        is_other = text is not None and validation.text(text, "text") != stored.value
        session_id, node = iris.session_id(turn_iri), NamedNode(turn_iri)
        with self._book.at(session_id) as number:
            before = self._book.where(Delivery, session_id, vocab.DERIVED_FROM, node)
            delivery = Delivery(
                session_id=session_id,
                number=number,
                turn_iri=turn_iri,
                event=None if event is None else event.number,
                channel=validation.name(over, "channel"),
                outcome=outcome,
                attempt=1 + sum(each.channel == over for each in before),
                time=moment,
                reason=None if reason is None else validation.name(reason, "reason"),
                words=EntryTexts.of(text or "") if is_other else None,
            )
            tx = Transaction()
            if is_other and stored.datatype == vocab.REDACTED:  # what was sent in its place is not kept either
                delivery = delivery.without_text(withheld=True)
            elif is_other:
                graph = NamedNode(iris.session(session_id))
                tx.forbid((node, vocab.VALUE, RdfLiteral("", datatype=vocab.REDACTED), graph))
            put_entries(tx, session_id, [delivery])
            tx.commit(self._repository.store, otherwise=lambda failure: self._book.refusal(session_id, failure))
            return delivery

    def _sent(self, what: Event | Turn | str) -> tuple[str, Event | None]:
        """Return the turn that is sent, and the outbound event that it is sent for, if there is one."""
        if not isinstance(what, Event):
            node = inbox.turn_node(what)
            events = self._book.where(Event, iris.session_id(node.value), vocab.DERIVED_FROM, node)
            return node.value, next(iter(events), None)
        if what.direction != "outbound":
            raise InvalidInput(
                f"event {what.number} of session {what.session_id!r} came in; what goes out is delivered"
            )
        return what.turn_iris[0], what

    def deliveries(self, session: str, *, turn: Turn | str | None = None) -> list[Delivery]:
        """Return the attempts to send a session's answers out (of one turn), in order."""
        if turn is None:
            return self._book.where(Delivery, self._id(session), vocab.OUTCOME)
        return self._book.where(Delivery, self._id(session), vocab.DERIVED_FROM, inbox.turn_node(turn))


__all__ = ["HeadMove", "Ledger", "Running"]
