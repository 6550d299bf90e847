"""Running the server: uvicorn, limits on what a connection may take, and a stop that loses nothing."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
from collections.abc import Callable
from types import FrameType
from typing import Any, Final, cast

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from trails.serve.app import create_app
from trails.serve.guard import Ended
from trails.serve.service import Service, Settings
from trails.session.repository import Repository

_HEAD_BYTES: Final = 64 << 10
"""Bytes of a request's line and headers,"""
_HEAD_SECONDS: Final = 20.0
"""and how long they may take."""
_IDLE: Final = 30
"""Seconds that a connection is kept on which nothing is asked."""
_GRACE: Final = 30
"""Seconds that requests get to end once the server is stopped."""


def run_server(
    store: Repository, settings: Settings, *, is_ready: Callable[[str], None] = lambda address: None
) -> None:
    """Serve a store until SIGTERM or SIGINT comes; then answer what was asked, write what waits, and return.

    `is_ready` is called with the address once requests are taken.
    """

    def settle(address: str) -> None:
        gc.collect()
        gc.freeze()  # a collection that looks at every module would hold all requests up for some 50 ms
        is_ready(address)

    run_until_signal(make_server(store, settings, settle))


def run_until_signal(server: Server) -> None:
    """Run a server until SIGTERM or SIGINT comes."""
    before = {each: signal.signal(each, _take_note) for each in (signal.SIGTERM, signal.SIGINT)}
    try:  # once it has stopped, uvicorn raises the signal again: the store is still to be closed
        server.run()
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def make_server(store: Repository, settings: Settings, is_ready: Callable[[str], None]) -> Server:
    """Return a server of a store that is still to be run; `is_ready` is as for `run_server`."""
    config = uvicorn.Config(
        create_app(store, settings),
        host=settings.host,
        port=settings.port,
        http=_Connection,
        ws="none",
        lifespan="on",
        access_log=False,
        log_config=None,
        log_level="warning",
        server_header=False,
        proxy_headers=settings.is_behind_proxy,
        forwarded_allow_ips="127.0.0.1,::1" if settings.is_behind_proxy else "",
        limit_concurrency=settings.max_connections,
        timeout_keep_alive=_IDLE,
        timeout_graceful_shutdown=_GRACE,
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
    )
    logging.getLogger("uvicorn.error").addFilter(_is_fault)
    return Server(config, is_ready)


def _is_fault(record: logging.LogRecord) -> bool:
    """Tell whether an error is to be logged: a stream that the guard ended is in the access log, and is no fault."""
    return not record.exc_info or not isinstance(record.exc_info[1], Ended)


def _take_note(number: int, frame: FrameType | None) -> None:
    logging.getLogger("trails.serve").debug("signal %s while stopped", number)


class Server(uvicorn.Server):
    """A server that tells its address, and lets go of those who follow events when it stops."""

    def __init__(self, config: uvicorn.Config, is_ready: Callable[[str], None]) -> None:
        super().__init__(config)
        self._is_ready = is_ready

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        if self.started and not self.should_exit:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            scheme = "https" if self.config.is_ssl else "http"
            self._is_ready(f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}")

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Have those who follow events let go, who would wait for ever."""
        self.service.begin_stop()
        super().handle_exit(sig, frame)

    @property
    def service(self) -> Service:
        """What it serves."""
        app: Any = self.config.app
        return cast("Service", app.state.service)

    def stop(self) -> None:
        """Have it end as a signal does. From any thread."""
        self.service.begin_stop()
        self.should_exit = True


class _Connection(HttpToolsProtocol):
    """A connection that is closed where the head of a request takes too long, or is too large."""

    _timer: asyncio.TimerHandle | None = None
    _in_head = True
    _head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._begin_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        try:
            super().data_received(data)
        except httptools.HttpParserError:  # of a request that the URL parser refuses
            self.send_400_response("Invalid HTTP request received.")
        if self._in_head and not self.transport.is_closing():
            self._head_bytes += len(data)
            if self._head_bytes > _HEAD_BYTES:
                self._end_head()
                self.transport.write(b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n\r\n")
                self.transport.close()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._begin_head()

    def on_headers_complete(self) -> None:
        self._end_head()
        super().on_headers_complete()

    def _begin_head(self) -> None:
        self._end_head()
        self._in_head, self._head_bytes = True, 0
        self._timer = self.loop.call_later(_HEAD_SECONDS, self._give_up)

    def _end_head(self) -> None:
        self._in_head = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        if not self.transport.is_closing():
            self.transport.abort()


def loopback(host: str) -> bool:
    """Tell whether an address is of this machine alone."""
    return host in ("127.0.0.1", "::1", "localhost")
