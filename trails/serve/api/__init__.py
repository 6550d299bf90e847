"""The API under `/api`: a table of operations, from which requests are routed, checked and described."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route, Router

from trails.serve.answers import MEDIA_TYPE, render
from trails.serve.api import checking, comparing, events, marks, sessions, turns
from trails.serve.api.description import describe
from trails.serve.api.operations import SLASH, Operation, api_routes
from trails.serve.service import Service

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

OPERATIONS: Final[tuple[Operation, ...]] = (
    *turns.OPERATIONS,
    *sessions.OPERATIONS,
    *comparing.OPERATIONS,
    *marks.OPERATIONS,
    *checking.OPERATIONS,
    *events.OPERATIONS,
)


def routes(service: Service) -> Sequence[BaseRoute]:
    """Return the routes of the API."""
    import trails  # noqa: PLC0415 - for its version

    document = render(describe(OPERATIONS, trails.__version__))

    async def description(request: Request) -> Response:
        return Response(document, media_type=MEDIA_TYPE)

    router = Router(api_routes(OPERATIONS), redirect_slashes=False)

    async def api(scope: Scope, receive: Receive, send: Send) -> None:
        await router(_with_whole_segments(scope), receive, send)

    return [Route("/api", description), Mount("/api", app=api)]


def _with_whole_segments(scope: Scope) -> Scope:
    """Return a request whose path has as many segments as were sent: an id may hold a slash, which comes as `%2F`."""
    raw: bytes = scope.get("raw_path") or b""
    if b"%2f" not in raw.lower():
        return scope
    parts = [unquote(part.decode("ascii", "replace")) for part in raw.partition(b"?")[0].split(b"/")]
    return {**scope, "path": "/".join(part.replace("/", SLASH) for part in parts)}
