"""Who asks a server, in which role, and what each role may do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args

from trails.errors import InvalidInput, TrailsError
from trails.rdf import activity_records

Role = Literal["reader", "writer", "auditor", "admin"]
ROLES: Final[tuple[Role, ...]] = get_args(Role)
Right = Literal["read", "write", "admin"]
RIGHTS: Final[dict[Role, frozenset[Right]]] = {
    "reader": frozenset({"read"}),
    "auditor": frozenset({"read"}),
    "writer": frozenset({"read", "write"}),
    "admin": frozenset({"read", "write", "admin"}),
}
"""What each role may do. Readers and writers do it to the sessions of their principal, the others to all."""


class Unauthorized(TrailsError):
    """Nobody knows who asks."""


class Forbidden(TrailsError):
    """Who asks may not do this."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: a principal, None for whoever is at this machine, and in which role."""

    principal: str | None
    role: Role
    is_for_all: bool = False
    """Whether a reader or a writer was given the sessions of all principals."""

    @property
    def sees_all(self) -> bool:
        """Whether the caller sees the whole store."""
        return self.is_for_all or self.role in ("auditor", "admin")

    def by(self, given: str | None = None) -> str | None:
        """Return who is on record as doing something: whoever is given, else the caller.

        Raises `Forbidden` if the caller has a principal, is no admin, and another one is given.
        """
        own = self.principal
        if given is None or own is None or self.role == "admin":
            return own if given is None else given
        if activity_records.named_actor(given, "by") != activity_records.named_actor(own):
            shown = given.removeprefix("urn:trails:")
            raise Forbidden(
                f"{own!r} cannot act as {shown!r:.80}; leave `by` out, or ask for an admin's token; nothing was written"
            )
        return own


def role_of(text: object) -> Role:
    """Return the role of a name; raise `InvalidInput` for any other text."""
    for role in ROLES:
        if text == role:
            return role
    raise InvalidInput(f"{text!r:.80} is no role: it is one of {', '.join(ROLES)}")
