"""Let so many queries run at a time, in a way that slow ones never keep the others out, and end those that nobody waits for."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Final, TypeVar
from weakref import WeakKeyDictionary

import anyio
import anyio.from_thread
from prometheus_client import Counter, Gauge

from trails.errors import TrailsError
from trails.rdf import query_guard
from trails.serve.access import caller_of
from trails.serve.service import Service, service_of
from trails.serve.sparql.places import Places
from trails.store.queries import query_pool

if TYPE_CHECKING:
    from starlette.requests import Request

_Result = TypeVar("_Result")
LONG: Final = 1.0
"""Seconds after which a query is a long one. One place is never held longer than that."""


_OTHERS: Final = 2
"""Queries at a time of other parts of the server, which these places are not for."""


class Busy(TrailsError):
    """As many queries run as may; this one was not answered, and may be later."""


class Gone(TrailsError):
    """Whoever asked has left."""


class Turnstile:
    """The places for queries: each waits for one, and long ones may have all but one of them. `turnstile_of` gives it."""

    def __init__(self, service: Service) -> None:
        """Have as many places as the settings say."""
        self._settings = service.settings
        query_pool.allow(service.settings.query_workers + _OTHERS)
        self._places = Places(service.settings.query_workers)
        self._long = anyio.Semaphore(max(1, service.settings.query_workers - 1))
        registry = service.metrics.registry
        self._running = Gauge("trails_queries_running", "SPARQL queries that run.", registry=registry)
        self._outcomes = Counter("trails_queries", "SPARQL queries, by their outcome.", ("outcome",), registry=registry)

    async def run(self, request: Request, ask: Callable[[Callable[[], object]], _Result]) -> _Result:
        """Return what a function gives that asks a query, called on a worker thread once there is a place for it. It is
        given what it is to call once the query runs.

        The query is ended once the client leaves. Raises `Busy` where no place gets free in time, or where it is long and as
        many long ones run already.
        """
        run = _Run()
        result: list[_Result] = []
        failure: TrailsError = Gone("the server stops")
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run.watch, request, tasks.cancel_scope)
                try:
                    async with self._place(caller_of(request).principal):
                        tasks.start_soon(run.become_long, self._long)
                        result.append(await service_of(request).run(run.call, ask))
                except TrailsError as error:  # within: a group of tasks would wrap it
                    failure = run.reason or error
                tasks.cancel_scope.cancel()
        finally:
            if run.is_long:
                self._long.release()
            failure = run.reason or failure
            self._outcomes.labels("answered" if result else type(failure).__name__).inc()
        if result:
            return result[0]
        raise failure

    @asynccontextmanager
    async def _place(self, who: str | None) -> AsyncIterator[None]:
        patience = self._settings.query_wait
        async with AsyncExitStack() as held:
            with anyio.move_on_after(patience) as waiting:
                await held.enter_async_context(self._places.place(who))
            if waiting.cancelled_caught:
                raise Busy(
                    f"{self._settings.query_workers} queries run already, and none of them ended within "
                    f"{patience:g} seconds (query_workers, query_wait): ask again later"
                )
            with self._running.track_inprogress():
                yield


_turnstiles: Final[WeakKeyDictionary[Service, Turnstile]] = WeakKeyDictionary()


def turnstile_of(service: Service) -> Turnstile:
    """Return the one turnstile of a server, which all its parts that ask queries share."""
    if service not in _turnstiles:
        _turnstiles[service] = Turnstile(service)
    return _turnstiles[service]


def _crowded() -> Busy:
    return Busy(
        f"the query was ended after {LONG:g} second, because as many long queries run as may (query_workers less one): "
        "ask again later, or name more in it"
    )


class _Run:
    """One query that waits or runs, and what became of it."""

    def __init__(self) -> None:
        self._left = threading.Event()
        self._begun = anyio.Event()
        self.is_long = False
        self.reason: Busy | Gone | None = None
        """Why it was ended, if it was."""

    def call(self, ask: Callable[[Callable[[], object]], _Result]) -> _Result:
        """Ask, on a worker thread."""
        query_guard.left.set(self._left)  # in the context of this call alone
        return ask(lambda: anyio.from_thread.run_sync(self._begun.set))

    async def watch(self, request: Request, scope: anyio.CancelScope) -> None:
        """Have the query end once its client has left."""
        while (await request.receive())["type"] != "http.disconnect":
            pass
        self.reason = Gone("the client left before the query was answered")
        self._left.set()
        scope.cancel()

    async def become_long(self, places: anyio.Semaphore) -> None:
        """Take a place for long queries after a while; have the query end where there is none."""
        await self._begun.wait()
        await anyio.sleep(LONG)
        try:
            places.acquire_nowait()
            self.is_long = True
        except anyio.WouldBlock:
            self.reason = _crowded()
            self._left.set()
