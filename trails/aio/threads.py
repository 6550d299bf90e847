"""Worker threads of a store in an event loop: one caller at a time, and no call outlives its task."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import partial
from inspect import isawaitable
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from anyio import (
    CancelScope,
    CapacityLimiter,
    Lock,
    create_task_group,
    get_cancelled_exc_class,
    sleep_forever,
    to_thread,
)
from anyio.from_thread import BlockingPortal
from anyio.lowlevel import checkpoint_if_cancelled

from trails.errors import StoreFailed
from trails.rdf import query_guard

_Result = TypeVar("_Result")


class Workers:
    """The worker threads of one open store, separate from those that the event loop has for others.

    One thread for calls and two for questions that may take long. Threads that compute hand the interpreter on every
    5 ms, and not always to the loop: with each more the loop waits longer.
    """

    def __init__(self) -> None:
        """Start nothing: threads come with calls, and anyio keeps them for the next ones."""
        self._calls, self._questions = CapacityLimiter(1), CapacityLimiter(2)
        self._locks: WeakKeyDictionary[Any, Lock] = WeakKeyDictionary()
        self._running: set[_Call[Any]] = set()

    def lock_of(self, owner: object) -> Lock:
        """Return the lock that calls on one object take in turn."""
        return self._locks.setdefault(owner, Lock())

    async def run(
        self,
        work: Callable[[], _Result],
        *,
        leave: bool = False,
        apart: bool = False,
        at_cancel: Callable[[], Awaitable[object]] | None = None,
    ) -> _Result:
        """Return the result of `work` on a worker thread, with this task's context variables.

        A task that is cancelled meanwhile ends when the call has ended, so nothing goes on behind it. With `leave` it
        ends at once: the thread then ends by itself, and a query there with its next row. A call that has not begun never
        does. `apart` is for a call that may wait for other calls: it takes none of the store's threads. `at_cancel` is
        called first if asyncio cancels the task.
        """
        call = _Call(work, self._running)
        try:
            limiter = CapacityLimiter(1) if apart else self._questions if leave else self._calls
            return await to_thread.run_sync(call, abandon_on_cancel=leave, limiter=limiter)
        except get_cancelled_exc_class():
            if at_cancel is not None:
                await at_cancel()
            if leave:
                call.left.set()
            else:
                await call.over()
            raise

    async def run_hosting(self, work: Callable[[Settle], _Result]) -> _Result:
        """Return the result of `work` on a worker thread that calls a host's functions, which may be coroutines.

        `work` gets a `Settle`, which awaits in this event loop what those functions return. A cancellation of this task
        cancels them; then the call ends.
        """
        failure: Exception | None = None
        async with create_task_group() as watching:
            async with BlockingPortal() as portal:
                settle = Settle(portal)
                watching.start_soon(settle.watch)
                try:
                    result = await self.run(partial(work, settle), apart=True, at_cancel=settle.stop)
                except Exception as error:  # noqa: BLE001 - raised below: here it would come out in a group
                    failure = error
            watching.cancel_scope.cancel()
        if failure is None:
            return result
        await checkpoint_if_cancelled()  # what a cancelled coroutine raises on the thread is no news
        raise failure

    async def finish(self) -> None:
        """Return once no call is running any more, not even one whose task has left it."""
        for call in list(self._running):
            await call.over()


class Settle:
    """Called on a worker thread with the result of a host's function: awaits it if necessary, and returns it."""

    def __init__(self, portal: BlockingPortal) -> None:
        """Await in the event loop that a portal leads to."""
        self._portal = portal
        self.stopped = threading.Event()
        """The task that waits for all of it was cancelled: begin nothing more."""

    def __call__(self, result: Any) -> Any:
        if not isawaitable(result):
            return result
        if self.stopped.is_set():
            if isinstance(result, Coroutine):
                result.close()
            raise CancelledError
        return self._portal.call(settled, result)

    async def watch(self) -> None:
        """Wait until this task is cancelled, and with it what is awaited here."""
        try:
            await sleep_forever()
        finally:
            self.stopped.set()

    async def stop(self) -> None:
        """Cancel what is awaited here."""
        self.stopped.set()
        await self._portal.stop(cancel_remaining=True)


async def settled(result: Any) -> Any:
    """Return a result, awaited if it has to be."""
    return await result if isawaitable(result) else result


class _Call(Generic[_Result]):
    """A call for a worker thread, which begins once at most, and knows when it is over."""

    def __init__(self, work: Callable[[], _Result], running: set[_Call[Any]]) -> None:
        self._work, self._running = work, running
        running.add(self)
        self._begun, self._over = threading.Lock(), threading.Event()
        self.left = threading.Event()
        """No task waits for it any more."""

    def __call__(self) -> _Result:
        if not self._begun.acquire(blocking=False):
            raise StoreFailed("the call was cancelled before it began")  # nobody sees it: the task is gone
        query_guard.left.set(self.left)
        try:
            return self._work()
        finally:
            self._end()

    def _end(self) -> None:
        self._over.set()
        self._running.discard(self)

    async def over(self) -> None:
        """Return once the call has ended or can never begin, even if this task is cancelled meanwhile.

        anyio does not shield a task that asyncio itself cancels: its call goes on in the thread.
        """
        if self._begun.acquire(blocking=False):
            self._end()
        while not self._over.is_set():
            with CancelScope(shield=True), suppress(get_cancelled_exc_class()):
                await to_thread.run_sync(self._over.wait, limiter=CapacityLimiter(1))
