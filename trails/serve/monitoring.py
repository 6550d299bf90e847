"""Whether the server is well, and its figures: `/health` and `/metrics`."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from trails.serve.access import Forbidden, caller_of
from trails.serve.answers import MEDIA_TYPE, render
from trails.serve.service import Service
from trails.store.embedded import EmbeddedStore

if TYPE_CHECKING:
    from starlette.requests import Request


def _trouble(store: EmbeddedStore) -> str | None:
    """Return what is wrong with where the store's log is kept; None if nothing is."""
    return store.log.trouble


def routes(service: Service) -> Sequence[BaseRoute]:
    """Return the routes of monitoring."""

    async def health(request: Request) -> Response:
        """Say whether the store takes work."""
        request.scope["trails.route"] = "/health"
        quads = service.store.store
        failed = isinstance(quads, EmbeddedStore) and (
            quads.has_failed or await service.run(_trouble, quads) is not None
        )
        state = "failed" if failed else "stopping" if service.is_stopping else "ok"
        status = HTTPStatus.OK if state == "ok" else HTTPStatus.SERVICE_UNAVAILABLE
        return Response(render({"status": state}), status_code=status, media_type=MEDIA_TYPE)

    async def metrics(request: Request) -> Response:
        """Give the figures, in Prometheus' format."""
        request.scope["trails.route"] = "/metrics"
        if not caller_of(request).sees_all:
            raise Forbidden("the figures are of the whole store: ask for a token of an auditor")
        return Response(await service.run(service.metrics.text), media_type=CONTENT_TYPE_LATEST)

    return [Route("/health", health), Route("/metrics", metrics)]
