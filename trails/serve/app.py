"""The application: the routes of all parts, and what surrounds each request."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from importlib import import_module
from importlib.util import find_spec
from typing import Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import BaseRoute

from trails.errors import InvalidInput
from trails.history import encryption
from trails.serve import console, problems
from trails.serve.access import Access
from trails.serve.guard import Guard
from trails.serve.service import Service, Settings
from trails.serve.surroundings import Observed, TimedBody
from trails.session.repository import Repository

_PARTS: Final = ("access", "monitoring", "api", "sparql", "store_protocol", "console")
"""The modules that have routes, those of the narrowest paths first."""
_LEVEL: Final = 4
"""Of gzip: of 20 kB of turns, 9 takes twice as long for a hundredth less."""


def create_app(store: Repository, settings: Settings | None = None) -> Starlette:
    """Return an ASGI application that serves a store; whoever opened the store closes it.

    >>> import trails
    >>> with trails.open(":memory:") as store:
    ...     app = create_app(store)
    """
    encryption.refuse_any_encrypted(
        store.store, "a server gives text to others", "read it in a process that has the keys"
    )
    if store.workspace.encryption is not None:
        raise InvalidInput("a store that was opened with keys cannot be served: leave keys and TRAILS_KEYS out")
    service = Service(store, settings or Settings())

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        await service.close()

    access = Access(service)
    app = Starlette(
        lifespan=lifespan,
        routes=[route for part in _PARTS if find_spec(f"trails.serve.{part}") for route in _routes(part, service)],
        middleware=[
            Middleware(Observed, service=service),
            Middleware(Guard, access),
            Middleware(GZipMiddleware, minimum_size=1024, compresslevel=_LEVEL),
            Middleware(TimedBody),
        ],
        exception_handlers=problems.HANDLERS | {HTTPStatus.NOT_FOUND: console.on_not_found},
    )
    app.state.service, app.state.access = service, access
    return app


def _routes(part: str, service: Service) -> list[BaseRoute]:
    return list(import_module(f"trails.serve.{part}").routes(service))
