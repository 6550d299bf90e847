"""Who asks, and what they may see and do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from trails.errors import TrailsError
from trails.serve.service import Service, service_of
from trails.session.repository import Repository

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection
    from starlette.routing import BaseRoute

Role = Literal["reader", "writer", "auditor", "admin"]
Right = Literal["read", "write", "admin"]
_RIGHTS: Final[dict[Role, frozenset[Right]]] = {
    "reader": frozenset({"read"}),
    "auditor": frozenset({"read"}),
    "writer": frozenset({"read", "write"}),
    "admin": frozenset({"read", "write", "admin"}),
}


class Unauthorized(TrailsError):
    """Nobody knows who asks."""


class Forbidden(TrailsError):
    """Who asks may not do this."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: a principal, None for whoever is at this machine, and in which role."""

    principal: str | None
    role: Role


def caller_of(request: HTTPConnection) -> Caller:
    """Return who asks; raise `Unauthorized`."""
    return Caller(None, "admin")


async def view_of(request: HTTPConnection) -> Repository:
    """Return the store as whoever asks may see it; raise `Unauthorized`."""
    caller_of(request)
    return service_of(request).store


def require(request: HTTPConnection, right: Right) -> Caller:
    """Return who asks if they have a right; raise `Unauthorized` or `Forbidden`."""
    caller = caller_of(request)
    if right not in _RIGHTS[caller.role]:
        raise Forbidden(f"the role {caller.role!r} has no right to {right} here; ask for a token with another role")
    return caller


def routes(service: Service) -> Sequence[BaseRoute]:
    """Return the routes of signing in and out."""
    return []
