"""What is found wrong, as it is gathered."""

from __future__ import annotations

from collections.abc import Iterable

from pyoxigraph import Quad

from trails.model import iris
from trails.model.values import Finding


class Findings:
    """What was found so far, and the subjects of the catalog that a leaf of the log is about."""

    def __init__(self) -> None:
        """Nothing is found yet."""
        self.all: list[Finding] = []
        self.covered: set[str] = set()

    def add(self, code: str, session_id: str | None, what: str, index: int | None = None) -> None:
        """Note what is wrong with a session, or with the store."""
        where = f"session {session_id!r}: " if session_id is not None else ""
        self.all.append(Finding(code=code, session_id=session_id, index=index, message=where + what))

    def stray(self, quad: Quad) -> None:
        """Note a quad that belongs to nothing."""
        self.add("stray", owner(quad), f"a quad that belongs to nothing: {quad}")

    def missing(self, quad: Quad) -> None:
        """Note a quad that should be there."""
        self.add("missing", owner(quad), f"a quad is missing: {quad}")

    def unproven(self, session_id: str, what: str, index: int | None = None) -> None:
        """Note what a checkpoint does not prove any more."""
        why = "since the checkpoint, so what stands there now is not proven by it; sign a new one"
        self.add("unproven", session_id, f"{what} {why}", index)

    def cover(self, quads: Iterable[Quad]) -> None:
        """Note that a leaf of the log is about the subjects of some quads."""
        self.covered.update(subject(quad) for quad in quads)


def subject(quad: Quad) -> str:
    """Return the name of what a quad is about."""
    return str(getattr(quad.subject, "value", quad.subject))


def owner(quad: Quad) -> str | None:
    """Return the id of the session that a quad belongs to, by its graph or its subject."""
    for node in (quad.graph_name, quad.subject):
        name = str(getattr(node, "value", ""))
        if iris.is_session(name):
            return iris.session_id(name)
    return None
