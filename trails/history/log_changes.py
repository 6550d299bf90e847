"""Which sessions lines of a store's log tell of, and how much of each is to be read again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final, Literal

from trails.errors import IntegrityError
from trails.integrity import leaves
from trails.model import iris

Extent = Literal["grown", "row", "redacted", "anew"]
"""`grown`: there are more turns. `row`: what the catalog says may differ, and there may be more turns. `redacted`: so may single
turns, of which `redacted_turns` says which. `anew`: anything may."""

_ORDER: Final[tuple[Extent, ...]] = ("grown", "row", "redacted", "anew")
_ANEW: Final = frozenset({"create", "fork", "detach", "delete"})
_MANY: Final = 1_000
"""Redacted turns of a session from which on all of it is read again: that takes less time."""
_NOTHING: Final = frozenset(leaves.LEDGER_KINDS) - {"transition", "cancel", "result"} | {
    "sync", "close", "said", "run", "task", "remove", "document", "discard",
}  # fmt: skip
"""What changes neither a session's row nor its turns."""


_EXTENTS: Final[dict[str, Extent]] = {"turns": "grown", "redact": "redacted", **dict.fromkeys(_ANEW, "anew")}


def redacted_turns(lines: Iterable[str]) -> dict[str, set[int]]:
    """Return by session id the indices of the turns that lines tell were redacted."""
    found: dict[str, set[int]] = defaultdict(set)
    for line in lines:
        if line.startswith("redact "):
            leaf, _ = leaves.parse_leaf(line)
            if iris.is_session(leaf.session_iri):
                found[iris.session_id(leaf.session_iri)].add(leaf.count)
    return found


def changed_sessions(lines: Iterable[str]) -> dict[str, Extent] | None:
    """Return by session id how much is to be read again; None where that is everything.

    That is so for a text that was taken out wherever it stood, and for a line that Trails never writes.

    >>> from trails.integrity.leaves import Leaf, START
    >>> changed_sessions([Leaf("turns", "urn:trails:session:a", 2, "ab" * 32).line(START)])
    {'a': 'grown'}
    """
    found: dict[str, Extent] = {}
    redacted = 0
    for line in lines:
        try:
            leaf, _ = leaves.parse_leaf(line)
        except IntegrityError:
            return None
        if leaf.kind in _NOTHING:
            continue
        if not iris.is_session(leaf.session_iri):
            return None
        extent = _EXTENTS.get(leaf.kind, "row")
        session_id = iris.session_id(leaf.session_iri)
        found[session_id] = max(found.get(session_id, extent), extent, key=_ORDER.index)
        redacted += extent == "redacted"
    if redacted > _MANY:
        return {session_id: "anew" if extent == "redacted" else extent for session_id, extent in found.items()}
    return found
