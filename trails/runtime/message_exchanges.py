"""Run an exchange, and list how heads moved."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final

from pyoxigraph import Literal

from trails.errors import InvalidInput, TrailsError
from trails.handles import Handle
from trails.history import turn_builder
from trails.integrity import digests
from trails.model import iris, lineage
from trails.model.values import Turn, Value
from trails.rdf import vocab
from trails.rdf.ledger_records import EntryTexts, Event, Exchange
from trails.runtime.inbox import Book, change_entries
from trails.runtime.timer import Clock
from trails.session import Repository, Session
from trails.store.contract import PreconditionFailed

_NO_ANSWERS: Final = frozenset({"user", "tool", "system", "summary"})
"""The roles of turns that are not sent out."""
_ERROR: Final = 2000
"""Characters of an error's text that are kept."""


_LAST: Final = 32
"""How many of a session's last turns an exchange reads when it begins."""


class Running(Handle, public=True):
    """An exchange that is being worked on: what a handler gets.

    `session` holds all that is stored by now, with the messages as its last turns. The handler appends what it makes
    there (or with `append`) and leaves persisting to the ledger: `persist` and `fork` are refused meanwhile, and the
    summary of a `compact` is one of the exchange's turns, so that the head moves once it is completed, and not before.
    """

    def __init__(
        self, repository: Repository, book: Book, clock: Clock, exchange: Exchange, messages: Sequence[Event]
    ) -> None:
        """Not for callers: see `Ledger.process`."""
        self._book = book
        self._clock = clock
        self._messages = list(messages)
        self._said: dict[int, Turn] = {}
        self.exchange = exchange
        """The exchange as it is stored."""
        self.session: Session
        """The session, with all that is stored of it; the messages are appended to it."""
        self.session = repository.load(exchange.session_id, last=_LAST)  # others are read if the handler asks for them
        self.session.worktree.held = f"exchange {exchange.number}"
        self._began_at = len(self.session)
        self._head_before = self.session.head
        for message in messages:
            self._say(message)

    def begin(self) -> None:
        """Note that the handler is called now."""
        streaming = self.exchange.model_copy(update={"state": "streaming", "started": self._clock()})
        with self._book.at(self.exchange.session_id):
            self._book.write(self.exchange.session_id, [], [(self.exchange, streaming)])
        self.exchange = streaming

    @property
    def number(self) -> int:
        """The exchange's number in the ledger."""
        return self.exchange.number

    @property
    def messages(self) -> tuple[Event, ...]:
        """The messages that it took up, those that were steered in included, in order."""
        return tuple(self._messages)

    def append(self, /, role: str, content: str | Sequence[Any], **recorded: Any) -> Turn:
        """Append a turn to the session, as `Session.append` does."""
        return self.session.append(role, content, **recorded)

    def steered(self) -> tuple[Event, ...]:
        """Take up the messages in the mode "steer" that came meanwhile: append them as turns, and return them.

        A handler asks between its steps. Whatever it does not take up becomes an exchange of its own afterwards.
        """
        session_id = self.exchange.session_id
        with self._book.at(session_id):
            waiting = self._book.where(Event, session_id, vocab.WAITING)
            taken = [event for event in waiting if event.mode == "steer"]
            if not taken:
                return ()
            numbers = (*self.exchange.events, *(event.number for event in taken))
            grown = self.exchange.model_copy(update={"events": tuple(sorted(numbers))})
            moved = [(event, event.model_copy(update={"waiting": False})) for event in taken]
            self._book.write(session_id, [], [(self.exchange, grown), *moved])
        self.exchange = grown
        now = [event.model_copy(update={"waiting": False}) for event in taken]
        for event in now:
            self._messages.append(event)
            self._say(event)
        return tuple(now)

    def _say(self, message: Event) -> None:
        """Append the turn that says a message."""
        content = message.content
        if content is None:
            raise InvalidInput(f"the text of message {message.number} of session {self.session.id!r} was taken out")
        turn_draft = turn_builder.make_draft("user", content, author=message.author_iri, time=message.time)
        self._said[message.number] = self.session.worktree.append(turn_draft)

    # --- its end

    def complete(self) -> Exchange:
        """Store the turns, the exchange's end, its messages' turns and the outbound event in one commit."""
        session_id, turns = self.exchange.session_id, self.session.turns
        if any(turns[said.index : said.index + 1] != (said,) for said in self._said.values()):
            raise InvalidInput(
                f"exchange {self.exchange.number} of session {session_id!r} cannot be completed: its handler took back the "
                "turns that say its messages (discard_pending, keep_as_fork)"
            )
        done = self.exchange.model_copy(
            update={
                "state": "completed",
                "ended": self._clock(),
                "head_before": self._head_before,
                "head_after": self.session.head,
                "turn_iris": tuple(turn.iri for turn in turns[self._began_at :]),
            }
        )
        with self._book.at(session_id) as number:
            answer = self._answer(number)
            new_events = [] if answer is None else [answer]
            also = change_entries(session_id, new_events, [(self.exchange, done), *self._spoken(turns)])
            try:
                self.session.worktree.persist(also)
            except PreconditionFailed as failure:
                raise self._book.refusal(session_id, failure) from failure
        self.session.worktree.held = None
        return done

    def _spoken(self, turns: Sequence[Turn], *, keep_text: bool = False) -> list[tuple[Event, Event]]:
        """Return the messages as they are, and as they become once turns say them."""
        moved = []
        for message in self._messages:
            if message.words is not None and message.number in self._said:
                turn_iri = turns[self._said[message.number].index].iri
                changes = {"turn_iris": (*message.turn_iris, turn_iri)}
                said = message if keep_text else message.without_text(withheld=False)
                moved.append((message, said.model_copy(update=changes)))
        return moved

    def _answer(self, number: int) -> Event | None:
        """Return the outbound event: the exchange's last turn, on its way back to where the last message came from."""
        message_indices = {turn.index for turn in self._said.values()}
        new = [turn for turn in self.session.turns[self._began_at :] if turn.index not in message_indices]
        answer = next((turn for turn in reversed(new) if turn.role not in _NO_ANSWERS), None)
        if answer is None or not self._messages:
            return None
        to = self._messages[-1]
        return Event(
            session_id=self.exchange.session_id,
            number=number,
            direction="outbound",
            channel=to.channel,
            account=to.account,
            peer=to.peer,
            time=self._clock(),
            turn_iris=(answer.iri,),
            exchange=self.exchange.number,
        )

    def fail(self, error: BaseException, *, keep_partial: bool) -> Exchange:
        """Note that the exchange failed: the head stays where it was, the messages stay with the exchange.

        With `keep_partial`, what it had done until then is kept as a fork.
        """
        kept: Session | None = None
        moved: list[tuple[Event, Event]] = []
        if keep_partial and self.session.pending:
            kept = self.session.keep_as_fork()
            moved = self._spoken(kept.turns, keep_text=True)
        self.session.discard_pending()
        self.session.worktree.held = None
        failed = self.exchange.model_copy(
            update={
                "state": "failed",
                "ended": self._clock(),
                "words": EntryTexts.of(error_text(error)),
                "kept_as": None if kept is None else kept.id,
            }
        )
        with self._book.at(self.exchange.session_id):
            self._book.write(self.exchange.session_id, [], [(self.exchange, failed), *moved])
        return failed


Handler = Callable[[Running], str | Sequence[Any] | None]
"""A host's model call. What it returns is appended as the assistant's turn; None, or nothing in it, makes no turn."""


def error_text(error: BaseException) -> str:
    """Return what is kept of an error: its kind and its message, cut to 2,000 characters."""
    text = f"{type(error).__name__}: {error}".encode("utf-8", "replace").decode()
    return text[:_ERROR]


def run_exchange(running: Running, handler: Handler, *, keep_partial: bool) -> Exchange:
    """Let a handler work on an exchange to its end, and return that.

    What it raises is noted and raised again.
    """
    running.begin()
    try:
        answer = handler(running)
        if answer is not None:
            answer_draft = turn_builder.make_draft("assistant", answer)
            if not answer_draft.says_nothing(answer):
                running.session.worktree.append(answer_draft)
        return running.complete()
    except BaseException as error:  # an interrupt too: the exchange is noted as failed
        try:
            running.fail(error, keep_partial=keep_partial)
        except TrailsError as second:
            error.add_note(f"the exchange stays as it is, streaming: {second}")
        raise


class HeadMove(Value):
    """One step of a session's head: from one digest to another, over the turns of one commit."""

    before: str
    """The head digest before; for a session's first move, that of no turns, or of its fork point."""
    after: str
    length: int
    """How many turns the transcript had after it."""
    time: datetime | None
    """When the exchange completed; for a move by no exchange, the time of its last turn."""
    exchange: int | None
    """The number of the exchange that moved the head; None where turns were simply persisted."""

    def to_dict(self) -> dict[str, Any]:
        """Return the move as plain values, ready for JSON."""
        return self.model_dump() | {"time": self.time and self.time.isoformat()}


def head_turn(repository: Repository, session_id: str) -> Turn | None:
    """Return the last turn that is stored of a session's transcript, inherited ones included; None if there is none."""
    reader = repository.reader
    for run in reversed(lineage.segments(reader.lineage(session_id))):
        rows = reader.select("last_index", session=run.record.id, start=run.start, end=run.end or 2**53)
        if rows:
            index = int(rows[0]["last"].value)
            return reader.own_turns(lineage.Segment(run.record, index, index + 1))[0]
    return None


def head_moves(repository: Repository, book: Book, session_id: str) -> list[HeadMove]:
    """Return how a session's head moved since it was made, in order.

    The borders come from the exchanges and from the store's log, which has a line for every batch of turns; what a dump
    did not keep of the log stands in as one move.
    """
    reader = repository.reader
    chain = reader.lineage(session_id)
    turns = reader.turns(chain)
    start = chain[0].starts_at
    length_after = {turn.digest: turn.index + 1 for turn in turns}
    completed = book.where(Exchange, session_id, vocab.STATE, Literal("completed"))
    exchanges = {length_after[each.head_after]: each for each in completed if each.head_after in length_after}
    batches = _batches(repository, session_id)
    borders = sorted({length for length in {*exchanges, *batches, len(turns)} if start < length <= len(turns)})
    moves: list[HeadMove] = []
    at = start
    for length in borders:
        exchange = exchanges.get(length)
        moves.append(
            HeadMove(
                before=turns[at - 1].digest if at else digests.GENESIS,
                after=turns[length - 1].digest,
                length=length,
                time=turns[length - 1].time if exchange is None else exchange.ended,
                exchange=None if exchange is None else exchange.number,
            )
        )
        at = length
    return moves


def _batches(repository: Repository, session_id: str) -> set[int]:
    """Return the lengths of the transcript that the log has lines for."""
    line = re.compile(rf"^turns {re.escape(iris.session(session_id))} ([0-9]+) ", re.MULTILINE)
    return {int(length) for length in line.findall(repository.store.log.text())}
