"""The await forms of a store's ledger."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from trails.aio.session import AsyncSession, session_of
from trails.aio.workers import Settle, Twin, here, in_thread
from trails.model import validation
from trails.rdf.ledger_records import Event, Exchange
from trails.runtime.ledger import Ledger
from trails.runtime.ledger.exchanges import Running
from trails.runtime.ledger.ledger import Unfinished

Answer = str | Sequence[Any] | None


class AsyncRunning(Twin[Running]):
    """An exchange that is being worked on: what a handler gets. See `trails.runtime.ledger.exchanges.Running`."""

    @property
    def exchange(self) -> Exchange:
        """The exchange as it is stored."""
        return self.sync.exchange

    @property
    def number(self) -> int:
        """The exchange's number in the ledger."""
        return self.sync.number

    @property
    def messages(self) -> tuple[Event, ...]:
        """The messages that it took up, those that were steered in included, in order."""
        return self.sync.messages

    @property
    def session(self) -> AsyncSession:
        """The session, with all that is stored of it; the messages are appended to it."""
        return AsyncSession(self.sync.session, self.workers)

    append = here(Running.append)
    steered = in_thread(Running.steered)


Handler = Callable[[AsyncRunning], Answer | Awaitable[Answer]]


class AsyncLedger(Twin[Ledger]):
    """What happens around turns: messages in, exchanges, answers out, deliveries. Get one by `await store.ledger()`."""

    @classmethod
    def of(cls, twin: Twin[Any], made: Ledger) -> AsyncLedger:
        """Not for callers: see `AsyncRepository.ledger`."""
        return cls(made, twin.workers)

    receive = in_thread(Ledger.receive)
    inbox = in_thread(Ledger.inbox)
    due = in_thread(Ledger.due)
    drop = in_thread(Ledger.drop)
    exchanges = in_thread(Ledger.exchanges)
    retry = in_thread(Ledger.retry)
    fail = in_thread(Ledger.fail)
    fork_from = in_thread(Ledger.fork_from, session_of)
    events = in_thread(Ledger.events)
    content = in_thread(Ledger.content)
    delivered = in_thread(Ledger.delivered)
    deliveries = in_thread(Ledger.deliveries)
    head = in_thread(Ledger.head)
    head_moves = in_thread(Ledger.head_moves)

    async def process(
        self,
        session: str,
        handler: Handler,
        *,
        interrupted: Unfinished = "refuse",
        keep_partial: bool = False,
        limit: int | None = None,
    ) -> list[Exchange]:
        """Work through a session's inbox as `Ledger.process` does; the handler may be a coroutine function.

        A coroutine runs in this event loop, a plain function on a worker thread. When this is cancelled, so is the
        coroutine: its exchange fails, no other begins, and all is over when this returns.
        """
        left = None if limit is None else validation.index(limit, "limit")

        def one(settle: Settle) -> list[Exchange]:
            def handle(running: Running) -> Answer:
                answer: Answer = settle(handler(AsyncRunning(running, self.workers)))
                return answer

            return self.sync.process(session, handle, interrupted=interrupted, keep_partial=keep_partial, limit=1)

        done: list[Exchange] = []
        while left is None or len(done) < left:
            found = await self.workers.run_hosting(one)
            if not found:
                break
            done += found
        return done
