"""One exchange at work: what a handler sees of it, and how its turns and its end become one commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from trails import vocab
from trails.clock import Clock
from trails.errors import InvalidInput, TrailsError
from trails.handles import Handle
from trails.ledger.writer import Book, change
from trails.model import Turn
from trails.plumbing import draft
from trails.records.entries import Event, Exchange
from trails.records.entry import Words
from trails.session import Repository
from trails.session.session import Session
from trails.store.contract import PreconditionFailed

_NO_ANSWERS: Final = frozenset({"user", "tool", "system", "summary"})
"""The roles of turns that are not sent out."""
_ERROR: Final = 2000
"""Characters of an error's text that are kept."""


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
        self.session, self._rewrites = book.runtime.keeper.load(repository, exchange.session_id)
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
            waiting = [each for each in self._book.where(session_id, vocab.WAITING) if isinstance(each, Event)]
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
        said = draft.make("user", content, author=message.author_iri, time=message.time)
        self._said[message.number] = self.session.worktree.append(said)

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
            made = [] if answer is None else [answer]
            also = change(session_id, made, [(self.exchange, done), *self._spoken(turns)])
            try:
                self.session.worktree.persist(also)
            except PreconditionFailed as failure:
                raise self._book.refusal(session_id, failure) from failure
            self._book.wrote(session_id, made)
        self.session.worktree.held = None
        self._book.runtime.keeper.keep(self.session, turns, self._rewrites)
        return done

    def _spoken(self, turns: Sequence[Turn], *, keep_text: bool = False) -> list[tuple[Event, Event]]:
        """Return the messages as they are, and as they become once turns say them."""
        moved = []
        for message in self._messages:
            if message.words is not None and message.number in self._said:
                turn_iri = turns[self._said[message.number].index].iri
                words = message.words if keep_text else message.words.gone(withheld=False)
                said = {"turn_iris": (*message.turn_iris, turn_iri), "words": words}
                moved.append((message, message.model_copy(update=said)))
        return moved

    def _answer(self, number: int) -> Event | None:
        """Return the outbound event: the exchange's last turn, on its way back to where the last message came from."""
        said = {turn.index for turn in self._said.values()}
        new = [turn for turn in self.session.turns[self._began_at :] if turn.index not in said]
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
                "words": Words.of(told(error)),
                "kept_as": None if kept is None else kept.id,
            }
        )
        with self._book.at(self.exchange.session_id):
            self._book.write(self.exchange.session_id, [], [(self.exchange, failed), *moved])
        return failed


Handler = Callable[[Running], str | Sequence[Any] | None]
"""A host's model call. What it returns is appended as the assistant's turn; None, or nothing in it, makes no turn."""


def told(error: BaseException) -> str:
    """Return what is kept of an error: its kind and its message, cut to 2,000 characters."""
    text = f"{type(error).__name__}: {error}".encode("utf-8", "replace").decode()
    return text[:_ERROR]


def work(running: Running, handler: Handler, *, keep_partial: bool) -> Exchange:
    """Let a handler work on an exchange to its end, and return that; what it raises is noted and raised again."""
    running.begin()
    try:
        answer = handler(running)
        if answer is not None:
            made = draft.make("assistant", answer)
            if not made.says_nothing(answer):
                running.session.worktree.append(made)
        return running.complete()
    except BaseException as error:  # an interrupt too: the exchange is noted as failed
        try:
            running.fail(error, keep_partial=keep_partial)
        except TrailsError as second:
            error.add_note(f"the exchange stays as it is, streaming: {second}")
        raise
