"""What surrounds each request: it is counted, the access log has a line of it, and its body must come in time."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sys
import threading
import time
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, TextIO
from urllib.parse import parse_qs

import orjson
from starlette.exceptions import HTTPException

from trails.errors import TrailsError
from trails.history.lookup import names
from trails.history.read_records import PART_OF_READ
from trails.model import iris, validation

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from trails.serve.service import Service
    from trails.session.repository import Repository

_BODY_SECONDS: Final = 60.0
"""How long a client may take for the next part of a body."""
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"})


class Observed:
    """Counts requests, and prints a line of each."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service
        self._log = AccessLog(sys.stdout) if service.settings.has_access_log else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status, size = time.perf_counter(), 0, 0

        async def sent(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
            elif message["type"] == "http.response.body":
                size += len(message.get("body", b""))
            await send(message)

        token = PART_OF_READ.set(True)
        try:
            await self._app(scope, receive, sent)
        finally:
            PART_OF_READ.reset(token)
            if 0 < status < HTTPStatus.BAD_REQUEST and self._service.store.workspace.reads.is_on:
                _note_read(self._service.store, scope)
            seconds = time.perf_counter() - began
            method = scope["method"] if scope["method"] in _METHODS else "OTHER"
            route = scope.get("trails.route") or _first_part(scope["path"], status)
            self._service.metrics.observe(method, route, status, seconds)
            if self._log is not None:
                self._log.put(_line(scope, status, size, seconds))


_READ_BY_POST: Final = ("/sparql", "/queries/", "/store/read", "/api/queries")
_PARTS: Final = {"api": "api", "sparql": "endpoint", "graphs": "endpoint", "queries": "endpoint", "store": "remote"}
_NO_RECORDS: Final = frozenset({"health", "metrics", "login", "login.js", "logout", "static", "favicon.ico"})


def _note_read(store: Repository, scope: Scope) -> None:
    """Take note of a request that read records: by whom, through which part of the server, and what was named."""
    path = scope["path"]
    part = path.removeprefix("/").partition("/")[0]
    is_read = scope["method"] in ("GET", "HEAD") or path.startswith(_READ_BY_POST)
    if not is_read or part in _NO_RECORDS or path == "/api":
        return
    principal = getattr(scope.get("trails.caller"), "principal", None)
    given = dict(scope.get("path_params") or {})
    asked = parse_qs(scope["query_string"].decode("latin-1"))
    is_query = path.startswith(("/queries/", "/audit/questions/"))
    query = str(given.pop("name", "")) or None if is_query else None
    named = [str(given[each]) for each in ("session", "id") if each in given]
    named += [value for name in _NAMING if part not in _PARTS or name != "id" for value in asked.get(name, [])]
    store.workspace.reads.note(
        store.workspace.who(principal),
        scope.get("trails.route") or path if part not in ("queries", "audit") else f"/{part}",
        [each for value in named if (each := _session_of(store, value)) is not None],
        through=_PARTS.get(part, "console"),
        query=query,
        text=scope.get("trails.query"),
    )


_NAMING: Final = ("session", "sessions", "left", "right", "graph", "ref", "id")
"""The parameters of requests that name sessions."""


def _session_of(store: Repository, name: str) -> str | None:
    """Return the id of a session by any of its names; one that is not stored is the id itself, if it can be one."""
    plain = name.removeprefix(iris.session(""))
    with contextlib.suppress(TrailsError):
        return names.parse_revision(store.workspace, plain).session_id
    return plain if validation.is_session_id(plain) else None


def _first_part(path: str, status: int) -> str:
    """Return what a request counts as that says no route: never what a client made up."""
    first = path.removeprefix("/").partition("/")[0]  # `OPTIONS *` has no slash
    return "other" if status >= HTTPStatus.BAD_REQUEST or not first.isalnum() else f"/{first}"


def _line(scope: Scope, status: int, size: int, seconds: float) -> bytes:
    caller = scope.get("trails.caller")
    told: dict[str, Any] = {
        "time": datetime.now(UTC),
        "method": scope["method"],
        "path": scope["path"],
        "status": status,
        "bytes": size,
        "ms": round(seconds * 1000, 2),
        "client": (scope.get("client") or ("",))[0],
        "principal": getattr(caller, "principal", None),
    }
    return orjson.dumps(told, option=orjson.OPT_APPEND_NEWLINE)


class AccessLog:
    """Lines for a stream, written by a thread: a reader that is slow keeps no request waiting, it loses lines."""

    _MOST = 10_000

    def __init__(self, stream: TextIO) -> None:
        self._lines: queue.Queue[bytes] = queue.Queue(self._MOST)
        self._stream = stream
        threading.Thread(target=self._write, name="trails-access-log", daemon=True).start()

    def put(self, line: bytes) -> None:
        """Have a line written."""
        with contextlib.suppress(queue.Full):
            self._lines.put_nowait(line)

    def _write(self) -> None:
        while True:
            lines = [self._lines.get()]
            while not self._lines.empty():
                lines.append(self._lines.get())
            try:
                self._stream.write(b"".join(lines).decode())
                self._stream.flush()
            except (OSError, ValueError):  # nobody reads it
                return


class TimedBody:
    """Gives up on a body that does not come; how large it may be is the guard's business."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD"):
            await self._app(scope, receive, send)
            return
        has_more = True

        async def timed() -> Message:
            nonlocal has_more
            if not has_more:
                return await receive()
            try:
                async with asyncio.timeout(_BODY_SECONDS):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(HTTPStatus.REQUEST_TIMEOUT, "the body did not come in time") from None
            has_more = message.get("more_body", False)
            return message

        await self._app(scope, timed, send)
