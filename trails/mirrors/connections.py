"""Connections that stay open from one request to the next, for the standard library's openers.

`urllib.request` begins each request with a connection of its own. A server that has a thread for each connection then meets
every update in a new one: Oxigraph's takes 17 s for 200 updates of 2,000 triples so, and 6 s over one connection.
"""

from __future__ import annotations

import io
import selectors
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPSConnection
from typing import Final, NamedTuple
from urllib.response import addinfourl

_IDLE: Final = 4.0
"""Seconds after which a connection that nobody used is not used again: many servers close theirs after five."""


class _Kept(NamedTuple):
    connection: HTTPConnection
    since: float


class Connections:
    """Connections to servers that wait for the next request, each for one thread at a time."""

    def __init__(self) -> None:
        """Begin with none."""
        self._kept: dict[tuple[str, str], list[_Kept]] = {}
        self._lock = threading.Lock()

    def send(self, scheme: str, request: urllib.request.Request) -> addinfourl:
        """Send a request and return its answer, which is read whole by then: the connection waits for another one.

        Nothing is sent twice: who sends what changes a server must know whether it may arrive twice. Raises what
        `urllib.request` does where the server is not reached, and what `http.client` does where it breaks off.
        """
        place = scheme, request.host
        connection = self._take(place, request.timeout)
        try:
            try:
                connection.request(request.get_method(), request.selector, request.data, _headers(request))
            except OSError as error:
                raise urllib.error.URLError(error) from error
            answer = connection.getresponse()
            body = answer.read()
        except BaseException:
            connection.close()
            raise
        if answer.will_close:
            connection.close()
        else:
            with self._lock:
                self._kept.setdefault(place, []).append(_Kept(connection, time.monotonic()))
        found = addinfourl(io.BytesIO(body), answer.headers, request.full_url, answer.status)
        found.msg = answer.reason  # type: ignore[attr-defined] # as `urllib.request` has it, for its errors
        return found

    def close(self) -> None:
        """Close all that wait; what is sent afterwards opens others."""
        with self._lock:
            kept, self._kept = self._kept, {}
        for each in (one for many in kept.values() for one in many):
            each.connection.close()

    def _take(self, place: tuple[str, str], timeout: float | None) -> HTTPConnection:
        while (kept := self._waiting(place)) is not None:
            if time.monotonic() - kept.since < _IDLE and not _is_over(kept.connection):
                if kept.connection.sock is not None:
                    kept.connection.sock.settimeout(timeout)
                return kept.connection
            kept.connection.close()
        scheme, host = place
        return (HTTPSConnection if scheme == "https" else HTTPConnection)(host, timeout=timeout)

    def _waiting(self, place: tuple[str, str]) -> _Kept | None:
        with self._lock:
            many = self._kept.get(place)
            return many.pop() if many else None


class Keeping(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    """Sends what an opener is given over connections that are kept; through a proxy's tunnel each has its own."""

    def __init__(self, connections: Connections) -> None:
        """Take where connections are kept."""
        super().__init__()
        self._connections = connections

    def http_open(self, req: urllib.request.Request) -> addinfourl:  # type: ignore[override]
        """Send a request."""
        return self._connections.send("http", req)

    def https_open(self, req: urllib.request.Request) -> addinfourl:  # type: ignore[override]
        """Send a request."""
        if getattr(req, "_tunnel_host", None):
            return super().https_open(req)  # type: ignore[return-value]
        return self._connections.send("https", req)


def _headers(request: urllib.request.Request) -> Mapping[str, str]:
    """Return a request's headers as they are sent."""
    return {name.title(): value for name, value in {**request.headers, **request.unredirected_hdrs}.items()}


def _is_over(connection: HTTPConnection) -> bool:
    """Whether a server closed a connection that waits, or said something on it that nobody asked for."""
    if connection.sock is None:
        return True
    with selectors.DefaultSelector() as watch:
        watch.register(connection.sock, selectors.EVENT_READ)
        return bool(watch.select(timeout=0))
