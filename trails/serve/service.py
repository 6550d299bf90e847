"""What all parts of the server share: the store, the settings, and the threads on which Trails is called."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import anyio
import anyio.to_thread

from trails.serve.appends import Appender
from trails.serve.commits import CommitFeed
from trails.serve.metrics import Metrics
from trails.serve.past import PastViews
from trails.serve.sign_ins import SignIns
from trails.serve.transcripts import KeptPages
from trails.session.repository import Repository

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

_Result = TypeVar("_Result")
_THREADS: Final = 32
"""Calls of Trails that go on at the same time; others wait for their turn."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How a server serves: where, to whom, and what a request may take."""

    host: str = "127.0.0.1"
    port: int = 8420
    tls_cert: str | None = None
    """The file with the certificate chain, as PEM,"""
    tls_key: str | None = None
    """and that with its key."""
    is_behind_proxy: bool = False
    """Whether a proxy in front of it ends TLS, and says in its headers who asks."""
    allowed_hosts: tuple[str, ...] = ()
    """The names by which it may be called, beside those of loopback."""
    allowed_origins: tuple[str, ...] = ()
    """The sites whose pages may ask in SPARQL from a browser."""
    has_tls: bool = False
    """Whether it has a certificate, and so talks TLS itself."""
    tokens: Path | None = None
    """The file with the tokens; by default that in the store's folder."""
    oidc: Path | None = None
    """The file that describes the issuer of OpenID Connect whose tokens count too, if one does."""
    needs_sign_in: bool = False
    """Whether it lets nobody in without a sign-in or a token, even from this machine."""
    max_body: int = 16 << 20
    """Bytes of a request's body."""
    max_connections: int = 1000
    """Connections at the same time; others are answered 503."""
    has_access_log: bool = False
    """Whether a line of JSON is printed for each request."""
    query_timeout: float = 30.0
    """Seconds that a query may take."""
    query_max_rows: int = 1_000_000
    query_memory: int = 256
    """MiB that a query may take."""
    query_max_bytes: int = 256 << 20
    """Bytes of a query's answer."""
    query_workers: int = 4
    """Queries that run at the same time; one place of them is for queries of up to a second."""
    query_wait: float = 5.0
    """Seconds that a query waits for others to end."""
    query_max_held: int = 1 << 30
    """Bytes of all answers together that their clients have not read yet."""


class Service:
    """A store that is served."""

    def __init__(self, store: Repository, settings: Settings) -> None:
        """Serve a store; whoever opened it closes it."""
        self.store = store
        """The whole store. What a caller may see of it is `access.view_of`."""
        self.settings = settings
        self.sign_ins = SignIns()
        """Who is signed in from a browser."""
        self._threads = anyio.CapacityLimiter(_THREADS)
        self._writer = anyio.CapacityLimiter(1)
        self.appender = Appender(store, self._run_writer)
        """Writes the appends of all clients."""
        self.pages = KeptPages(store)
        """Pages of transcripts as they are now."""
        self.past = PastViews()
        """Stores as they were."""
        self.feed = CommitFeed(store)
        """What is committed."""
        self.metrics = Metrics(store.store, self.appender)
        self._stopping: asyncio.Event | None = None
        self.is_stopping = False
        """Whether the server is about to stop: nothing that goes on for ever is begun."""

    async def run(self, function: Callable[..., _Result], *args: Any, **options: Any) -> _Result:
        """Return what a call of Trails gives, which runs on a worker thread: such calls block."""
        return await anyio.to_thread.run_sync(partial(function, *args, **options), limiter=self._threads)

    async def _run_writer(self, function: Callable[..., _Result], *args: Any) -> _Result:
        """Run on a thread that is kept for writing: readers who take long keep no writer waiting."""
        return await anyio.to_thread.run_sync(partial(function, *args), limiter=self._writer)

    def stopping(self) -> asyncio.Event:
        """Return what is set when the server is about to stop. In the event loop."""
        if self._stopping is None:
            self._stopping = asyncio.Event()
            self._loop = asyncio.get_running_loop()
            if self.is_stopping:
                self._stopping.set()
        return self._stopping

    def begin_stop(self) -> None:
        """Have what would go on for ever end. From any thread."""
        self.is_stopping = True
        if self._stopping is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)

    async def close(self) -> None:
        """Return once all that was asked to be written is written; let go of what is read through the store."""
        await self.appender.finish()
        self.feed.close()
        await self.run(self.past.close)


def service_of(request: HTTPConnection) -> Service:
    """Return what serves a request."""
    return cast("Service", request.app.state.service)
