"""The pages of sessions and of the forest."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from trails.serve.access import view_of
from trails.serve.console.rendering import page, route
from trails.serve.service import Service


async def sessions_page(request: Request) -> Response:
    """Show the sessions of the store."""
    await view_of(request)
    return page(request, "message.html", section="sessions", title="Sessions", detail="There is nothing here yet.")


def routes(service: Service) -> Sequence[BaseRoute]:
    """Return the routes of the pages."""
    return [route("/", sessions_page)]
