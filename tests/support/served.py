"""A server of a store on a thread of this process, at an address of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from trails import Repository

uvicorn = pytest.importorskip("uvicorn")


@contextmanager
def served(store: Repository, settings: Any = None) -> Iterator[str]:
    """Serve a store until the block ends; give the address."""
    from trails.serve.app import create_app

    server = uvicorn.Server(uvicorn.Config(create_app(store, settings), host="127.0.0.1", port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.005)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join(10)
