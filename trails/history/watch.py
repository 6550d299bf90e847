"""Tell subscribers of new turns, forks and changes of state, in the order of the commits.

A notice is made of what a commit wrote into the store's log. Callbacks run one after the other on a thread of the feed.
A slow one delays the others, and never a writer. Without a subscriber there is no thread and no work.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Sequence
from types import TracebackType
from typing import Any, Final, Self, get_args

from trails.errors import InvalidInput
from trails.handles import Handle
from trails.integrity.leaves import Kind, Leaf
from trails.model import iris
from trails.model.values import Value
from trails.store.leaflog import LeafLog

_SILENT: Final = frozenset({"sync", "close", "said", "task", "document", "discard", "ref", "register"})
NOTICE_KINDS: Final[tuple[str, ...]] = tuple(kind for kind in get_args(Kind) if kind not in _SILENT)
"""The kinds of notices: `trails.integrity.leaves` says what each stands for."""
_PATIENCE: Final = 5.0
"""Seconds that closing waits for callbacks that are still at work."""

_report = logging.getLogger("trails.feed")


class Notice(Value):
    """One thing that happened to a session: what a line of the store's log says of it."""

    kind: str
    """`create`, `fork`, `turns`, `change` (of the session's row), `detach`, `redact`, `delete`; of the session's ledger
    `received`, `sent`, `delivered`, an exchange's states `pending`, `streaming`, `completed`, `failed`, and of the session
    tree `brief`, `transition`, `cancel`, `result`, `artifact`; `run` of a sub-agent's run in the session, `remove` once that
    is taken out of the registry."""
    session_id: str
    count: int
    """For `turns`, the length of the transcript; for `fork` and `detach`, the fork index; for `redact`, the turn's index;
    for an entry of the ledger, its number; for a run, its revision; else 0."""
    digest: str
    """For `turns`, the new head; else the digest of the row or entry."""

    @property
    def iri(self) -> str:
        """The IRI of what happened: the last turn, the ledger's entry, or the session."""
        session = iris.session(self.session_id)
        if self.kind == "turns":
            return iris.turn(session, self.count - 1, self.digest)
        in_session = self.kind in ("create", "fork", "change", "detach", "redact", "delete", "run", "remove")
        return session if in_session else iris.ledger_entry(session, self.count)

    def to_dict(self) -> dict[str, Any]:
        """Return the notice as plain values, ready for JSON."""
        return {"kind": self.kind, "session": self.session_id, "count": self.count, "digest": self.digest}


def is_told(leaf: Leaf) -> bool:
    """Tell whether a line of a store's log tells of more than the line before it, and of a session."""
    return leaf.kind not in _SILENT and not (leaf.kind == "change" and leaf.count == 1)


def notice_of(leaf: Leaf) -> Notice:
    """Return what a line of a store's log, which is of a session, tells.

    That a text was taken out of what is said of a session, and not out of a turn, shows as a change of its row.
    """
    kind = "change" if iris.is_redaction(leaf.session_iri) else leaf.kind
    return Notice(kind=kind, session_id=iris.session_id(leaf.session_iri), count=leaf.count, digest=leaf.digest)


Callback = Callable[[Notice], object]


class Subscription(Handle):
    """A callback that is called for every notice it asked for, until `close`. Also a context manager."""

    def __init__(
        self,
        feed: Feed,
        callback: Callback,
        *,
        kinds: Collection[str] | None,
        session_id: str | None,
        start: int,
        at_end: Callable[[], None] | None,
    ) -> None:
        """Not for callers: see `Repository.subscribe`."""
        self.at_end = at_end
        self._feed = feed
        self._callback = callback
        self._kinds = None if kinds is None else frozenset(kinds)
        self._session_id = session_id
        self._start = start

    def close(self) -> None:
        """Call the callback no more; closing twice is allowed."""
        self._feed.drop(self)

    def drain(self, timeout: float = _PATIENCE) -> bool:
        """Return once the callbacks were called for all that is stored now; False where `timeout` seconds were not enough."""
        return self._feed.drain(timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def give(self, number: int, notice: Notice) -> None:
        """Call the callback where it asked for this notice; what it raises is logged."""
        if number < self._start or (self._session_id is not None and notice.session_id != self._session_id):
            return
        if self._kinds is not None and notice.kind not in self._kinds:
            return
        try:
            self._callback(notice)
        except Exception:  # noqa: BLE001 - one subscriber's fault must not keep the others from their notices
            _report.exception("a subscriber failed on %s of session %r", notice.kind, notice.session_id)


class Feed:
    """Hands the lines of a log to subscribers, in order, on a thread of its own."""

    def __init__(self, log: LeafLog) -> None:
        self._log = log
        self._wake = threading.Condition()
        self._queue: deque[Notice] = deque()
        self._queued = 0
        self._given = 0
        self._subscriptions: list[Subscription] = []
        self._thread: threading.Thread | None = None
        self._closed = False

    def subscribe(
        self,
        callback: Callback,
        *,
        kinds: Collection[str] | None = None,
        session_id: str | None = None,
        at_end: Callable[[], None] | None = None,
    ) -> Subscription:
        """Call `callback` for all that is committed from now on; `at_end` is called when the store closes."""
        if not callable(callback):
            raise InvalidInput(f"a subscriber is a function that takes a notice, not {type(callback).__name__}")
        if isinstance(kinds, str) or not set(kinds or ()) <= set(NOTICE_KINDS):
            raise InvalidInput(f"kinds is a list of {', '.join(NOTICE_KINDS)}, not {kinds!r}")
        with self._wake:
            if self._closed:
                raise InvalidInput("the store is closed; subscribe while it is open")
            made = Subscription(self, callback, kinds=kinds, session_id=session_id, start=self._queued, at_end=at_end)
            self._subscriptions.append(made)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="trails-feed", daemon=True)
                self._thread.start()
            self._log.listener = self._put
        return made

    def drop(self, subscription: Subscription) -> None:
        """Forget a subscription; without any, the log is listened to no more."""
        with self._wake, contextlib.suppress(ValueError):
            self._subscriptions.remove(subscription)
            if not self._subscriptions:
                self._log.listener = None

    def _put(self, leaves: Sequence[Leaf]) -> None:
        with self._wake:
            made = [notice_of(leaf) for leaf in leaves if is_told(leaf)]
            self._queue.extend(made)
            self._queued += len(made)
            self._wake.notify_all()

    def _run(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._queue or self._closed)
                if not self._queue:
                    return
                notice, number = self._queue.popleft(), self._given
                listeners = list(self._subscriptions)
            for each in listeners:
                each.give(number, notice)
            with self._wake:
                self._given += 1
                self._wake.notify_all()

    def drain(self, timeout: float = _PATIENCE) -> bool:
        """Return once the callbacks were called for all that is queued now, or False after `timeout` seconds."""
        if threading.current_thread() is self._thread:
            return False  # a callback cannot wait for itself
        with self._wake:
            target = self._queued
            return self._wake.wait_for(lambda: self._given >= target, timeout)

    def close(self) -> None:
        """Hand out what is queued, then end; callbacks that take longer than a few seconds are not waited for."""
        self._log.listener = None
        with self._wake:
            self._closed = True
            self._wake.notify_all()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(_PATIENCE)
            if thread.is_alive():
                _report.warning("a subscriber is still at work while its store closes; it is not waited for")
        for each in self._subscriptions:
            if each.at_end is not None:
                each.at_end()


class Changes(Handle):
    """An async iterator over notices, from when it was made until the store closes.

    It belongs to the event loop that it was made in. Leave it with `aclose`, or use it in `async with`.
    """

    def __init__(self, feed: Feed, *, kinds: Collection[str] | None = None, session_id: str | None = None) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError as error:
            raise InvalidInput("changes() is for code that runs in an event loop; elsewhere use subscribe()") from error
        queue: asyncio.Queue[Notice | None] = asyncio.Queue()

        def put(notice: Notice | None) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended, and whoever read this with it
                loop.call_soon_threadsafe(queue.put_nowait, notice)

        self._queue = queue
        self._subscription = feed.subscribe(put, kinds=kinds, session_id=session_id, at_end=lambda: put(None))

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Notice:
        notice = await self._queue.get()
        if notice is None:
            self._queue.put_nowait(None)  # for whoever asks again
            raise StopAsyncIteration
        return notice

    async def aclose(self) -> None:
        """Take no more notices: the iteration ends after those that are there."""
        self._subscription.close()
        self._queue.put_nowait(None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        subscription = getattr(self, "_subscription", None)
        if subscription is not None:
            subscription.close()
