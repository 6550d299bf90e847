"""How a call is awaited: it runs on a worker thread, and its handle stays one caller's until it has ended."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import partial, wraps
from inspect import isawaitable
from typing import Any, Concatenate, Final, Generic, ParamSpec, TypeVar, cast, overload
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
from trails.handles import Handle
from trails.rdf import query_guard

_Params = ParamSpec("_Params")
_Result = TypeVar("_Result")
_Given = TypeVar("_Given")
_Sync = TypeVar("_Sync")


CALLS: Final = 1
QUESTIONS: Final = 2
"""Calls at a time on worker threads, and questions that may take long: few, so that the loop has its turn."""


class Workers:
    """The worker threads of one open store, apart from those that the event loop has for others.

    Threads that compute hand the interpreter on every 5 ms, and not always to the loop: with each more it waits longer.
    """

    def __init__(self) -> None:
        """Nothing is started: threads come with calls, and anyio keeps them for the next ones."""
        self._calls = CapacityLimiter(CALLS)
        self._questions = CapacityLimiter(QUESTIONS)
        self._locks: WeakKeyDictionary[Any, Lock] = WeakKeyDictionary()
        self._going: set[_Call[Any]] = set()

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
        """Return what `work` gives on a worker thread, with this task's context variables.

        Whoever is cancelled meanwhile gets that once the call has ended, so nothing goes on behind it; with `leave`, at
        once: the thread then ends by itself, and a query there with its next row. A call that has not begun never does.
        `apart` is for what may wait for others' calls: it takes none of the store's threads. `at_cancel` is called first
        where asyncio cancels the task.
        """
        call = _Call(work, self._going)
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
        """Return what `work` gives on a worker thread, where a host's functions are called that may be coroutines.

        It gets a `Settle`, by which what they give is awaited in this event loop.
        Whoever is cancelled, so are those; then the call ends.
        """
        failure: Exception | None = None
        async with create_task_group() as watching:
            async with BlockingPortal() as portal:
                settle = Settle(portal)
                watching.start_soon(settle.watch)
                try:
                    found = await self.run(partial(work, settle), apart=True, at_cancel=settle.stop)
                except Exception as error:  # noqa: BLE001 - raised below: here it would come out in a group
                    failure = error
            watching.cancel_scope.cancel()
        if failure is None:
            return found
        await checkpoint_if_cancelled()  # what a cancelled coroutine raises on the thread is no news
        raise failure

    async def finish(self) -> None:
        """Return once no call is under way any more, those that were left included."""
        for call in list(self._going):
            await call.over()


class Settle:
    """Called on a worker thread with what a host's function gave: returns it, once it was awaited where it has to be."""

    def __init__(self, portal: BlockingPortal) -> None:
        """Await in the event loop that a portal leads to."""
        self._portal = portal
        self.stopped = threading.Event()
        """Whoever waits for all of it was cancelled: begin nothing more."""

    def __call__(self, given: Any) -> Any:
        if not isawaitable(given):
            return given
        if self.stopped.is_set():
            if isinstance(given, Coroutine):
                given.close()
            raise CancelledError
        return self._portal.call(_awaited, given)

    async def watch(self) -> None:
        """Wait for being cancelled, which what is awaited here is too."""
        try:
            await sleep_forever()
        finally:
            self.stopped.set()

    async def stop(self) -> None:
        """Cancel what is awaited here."""
        self.stopped.set()
        await self._portal.stop(cancel_remaining=True)


async def _awaited(given: Awaitable[_Result]) -> _Result:
    return await given


class _Call(Generic[_Result]):
    """A call for a worker thread, which begins once at most, and is known to be over."""

    def __init__(self, work: Callable[[], _Result], going: set[_Call[Any]]) -> None:
        """Make it one of those that are going on, until it is over."""
        self._work = work
        self._going = going
        going.add(self)
        self._begun = threading.Lock()
        self._over = threading.Event()
        self.left = threading.Event()
        """Nobody waits for it any more."""

    def __call__(self) -> _Result:
        if not self._begun.acquire(blocking=False):
            raise StoreFailed("the call was cancelled before it began")  # for nobody: who asked has gone
        query_guard.left.set(self.left)
        try:
            return self._work()
        finally:
            self._end()

    def _end(self) -> None:
        self._over.set()
        self._going.discard(self)

    async def over(self) -> None:
        """Return once it has ended, or is sure never to begin, whoever is cancelled meanwhile.

        A task that asyncio itself cancels is not shielded by anyio: its call goes on in the thread.
        """
        if self._begun.acquire(blocking=False):
            self._end()
        while not self._over.is_set():
            with CancelScope(shield=True), suppress(get_cancelled_exc_class()):
                await to_thread.run_sync(self._over.wait, limiter=CapacityLimiter(1))


class Twin(Handle, Generic[_Sync]):
    """The await forms of a handle. `sync` is the handle itself, which works on the same store."""

    def __init__(self, sync: _Sync, workers: Workers) -> None:
        """Not for callers: `trails.aio.open` gives the store, and the store all else."""
        self.sync = sync
        self.workers = workers
        """What runs its calls (internal)."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.sync!r}>"

    async def run(self, work: Callable[[_Sync], _Result]) -> _Result:
        """Return what a function of the sync handle gives on a worker thread: for several calls in one, or any other.

        What it gives is not wrapped: a `Session` stays one.
        """
        return await self.call(lambda: work(self.sync), apart=True)

    async def call(self, work: Callable[[], _Result], *, leave: bool = False, apart: bool = False) -> _Result:
        """Return what a function gives on a worker thread (internal); see `Workers.run`."""
        return await self.workers.run(work, leave=leave, apart=apart)


@overload
def in_thread(
    method: Callable[Concatenate[_Sync, _Params], _Result], /, *, leave: bool = ..., apart: bool = ...
) -> Callable[Concatenate[Twin[_Sync], _Params], Coroutine[Any, Any, _Result]]: ...
@overload
def in_thread(
    method: Callable[Concatenate[_Sync, _Params], _Result], gives: Callable[[Twin[Any], _Result], _Given], /
) -> Callable[Concatenate[Twin[_Sync], _Params], Coroutine[Any, Any, _Given]]: ...
def in_thread(
    method: Callable[..., Any],
    gives: Callable[..., Any] | None = None,
    /,
    *,
    leave: bool = False,
    apart: bool = False,
) -> Any:
    """Return the await form of a method of a sync handle, for the class of its twin.

    It has the method's name, parameters and docstring. `gives` makes what is given of the result, where that is a handle.
    `leave` is for what only reads and may take long, `apart` for what waits for others; see `Workers.run`.
    """

    @wraps(method, updated=())  # of a class, too, which is called: its attributes are not the function's
    async def call(self: Twin[Any], /, *args: Any, **options: Any) -> Any:
        found = await self.call(lambda: method(self.sync, *args, **options), leave=leave, apart=apart)
        return found if gives is None else gives(self, found)

    return call


def here(
    method: Callable[Concatenate[_Sync, _Params], _Result],
) -> Callable[Concatenate[Twin[_Sync], _Params], _Result]:
    """Return a method of a sync handle that works in memory as a method of its twin: it is not awaited."""

    @wraps(method)
    def call(self: Twin[_Sync], /, *args: _Params.args, **options: _Params.kwargs) -> _Result:
        return method(self.sync, *args, **options)

    return cast("Callable[Concatenate[Twin[_Sync], _Params], _Result]", call)
