"""The console for whoever sits at this machine: on a free port of loopback, opened by a link that signs in once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final

from trails.errors import StoreFailed
from trails.serve import tokens
from trails.serve.callers import Caller
from trails.serve.server import make_server, run_until_signal
from trails.serve.service import Service, Settings
from trails.session.repository import Repository

_SECONDS: Final = 30.0
"""How long the server may take to start."""


def start_console(store: Repository) -> tuple[str, Callable[[], str], Callable[[], None]]:
    """Serve a store on a thread; return the address, what makes a link that signs in, and what ends it.

    Raises `StoreFailed` if the server does not start.
    """
    addresses: SimpleQueue[str | None] = SimpleQueue()
    server = make_server(store, Settings(port=0, needs_sign_in=True), addresses.put)

    def serve() -> None:
        try:
            server.run()
        finally:
            addresses.put(None)

    thread = threading.Thread(target=serve, name="trails console", daemon=True)
    thread.start()
    address = addresses.get(timeout=_SECONDS)
    if address is None:
        raise StoreFailed("the console could not be served: its server ended at once; its log says why")

    def stop() -> None:
        server.stop()
        thread.join()

    return address, lambda: entry_link(server.service, address), stop


def run_console(store: Repository, port: int, is_ready: Callable[[str], None]) -> None:
    """Serve a store until Ctrl-C or SIGTERM; `is_ready` is called with a link that signs in once."""
    settings = Settings(port=port, needs_sign_in=True)
    server = make_server(store, settings, lambda address: is_ready(entry_link(server.service, address)))
    run_until_signal(server)


def entry_link(service: Service, address: str) -> str:
    """Return a link to the console that signs in once, as whoever sits at this machine."""
    return f"{address}/login#{tokens.one_time(service, Caller(None, 'admin'))}"
