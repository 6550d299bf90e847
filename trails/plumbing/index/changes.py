"""Which sessions lines of a store's log tell of, and how much of each is to be read again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

from trails import iris
from trails.errors import IntegrityError
from trails.integrity import leaves

Extent = Literal["grown", "row", "anew"]
"""`grown`: there are more turns. `row`: what the catalog says may differ, and there may be more turns. `anew`: anything may."""

_ORDER: Final[tuple[Extent, ...]] = ("grown", "row", "anew")
_ANEW: Final = frozenset({"create", "fork", "detach", "redact", "delete"})
_NOTHING: Final = frozenset(leaves.LEDGER_KINDS) - {"transition", "cancel", "result"} | {
    "sync", "close", "said", "run", "task", "remove", "document", "discard",
}  # fmt: skip
"""What changes neither a session's row nor its turns."""


def of_lines(lines: Iterable[str]) -> dict[str, Extent] | None:
    """Return by session id how much is to be read again; None where that is everything.

    That is so for a text that was taken out wherever it stood, and for a line that Trails never writes.

    >>> from trails.integrity.leaves import Leaf, START
    >>> of_lines([Leaf("turns", "urn:trails:session:a", 2, "ab" * 32).line(START)])
    {'a': 'grown'}
    """
    found: dict[str, Extent] = {}
    for line in lines:
        try:
            leaf, _ = leaves.parse(line)
        except IntegrityError:
            return None
        if leaf.kind in _NOTHING:
            continue
        if not iris.is_session(leaf.session_iri):
            return None
        extent: Extent = "grown" if leaf.kind == "turns" else "anew" if leaf.kind in _ANEW else "row"
        session_id = iris.session_id(leaf.session_iri)
        found[session_id] = max(found.get(session_id, extent), extent, key=_ORDER.index)
    return found
