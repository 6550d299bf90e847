"""What can be checked over the API: the verdict on a session or the store, and how much it holds."""

from __future__ import annotations

from typing import Any, Final

from trails.serve.api import shapes
from trails.serve.api.operations import Asked, Operation


def verify(asked: Asked) -> dict[str, Any]:
    """Return the verdict on a session, or on the whole store."""
    session = None if asked.query.session is None else asked.view.resolve(asked.query.session)
    return asked.view.verify(session).to_dict()


OPERATIONS: Final = (
    Operation(
        "GET", "/verification", "verify", "Check digests, indices and lineage of a session, or of the whole store.", verify,
        shapes.Verdict, query=shapes.OfSession,
    ),
)  # fmt: skip
