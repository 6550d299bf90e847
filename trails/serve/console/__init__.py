"""The console: pages for people who would rather look than read.

Each module of pages has a function `routes(service)`, whose routes are made by `rendering.route`.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Final

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from trails.display.html import THEME
from trails.errors import TrailsError
from trails.serve import problems
from trails.serve.console.rendering import STATIC, page
from trails.serve.service import Service

_PAGES: Final = (
    *("sessions", "transcript", "turn_page", "forest_page"),
    *("side_by_side", "scores", "audit_pages", "editor", "actions"),
)
"""The modules of pages."""


def routes(service: Service) -> Sequence[BaseRoute]:
    """Return the routes of the console's pages and of its files."""
    names = [f"{__name__}.{name}" for name in _PAGES]
    parts = [import_module(name).routes(service) for name in names if find_spec(name)]
    own = [Route("/static/theme.css", _theme), Mount("/static", StaticFiles(directory=STATIC))]
    return [*(route for part in parts for route in part), *own]


async def _theme(_: Request) -> Response:
    """Answer with the style that the console shares with the pages that are exported."""
    return FileResponse(THEME)


async def on_not_found(request: Request, error: Exception) -> Response:
    """Answer what no route takes: a browser that goes there with a page, others with a problem document."""
    if request.method == "GET" and "text/html" in request.headers.get("accept", ""):
        try:
            return page(
                request, "message.html", status=404, title="Not Found", detail="There is no page at this address."
            )
        except TrailsError:  # nobody knows who asks
            pass
    return await problems.on_http_error(request, error)
