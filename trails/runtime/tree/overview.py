"""Looking at the session tree from outside, without taking it up: what stands where, what is stuck, what costs most."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from trails.model import iris
from trails.model.values import Value
from trails.rdf.ledger_records import ENDED
from trails.runtime.tree.tree_index import Limits
from trails.session import Repository
from trails.store.contract import Solutions
from trails.usage import total

_CLOSE: Final = 1
"""So few children fewer than the limit are near it."""


class TreeRow(Value):
    """A session of the tree as it is stored."""

    id: str
    parent_id: str | None
    depth: int
    kind: str
    state: str
    agent: str
    tier: str | None
    created: datetime
    expires: datetime | None
    ends_by: datetime | None
    children: int
    """How many active children it has."""
    last: datetime
    """When it was last heard of: a turn of its own that is stored, a message to it, a change of its state."""
    tokens: int | None
    """The tokens of its own turns that are stored, in and out; None where no call reported any."""
    orphan: bool
    """Whether it goes on although what spawned it has ended, or is not there."""

    @property
    def due(self) -> datetime | None:
        """When it is ended, unless it ends before; None for never, and once it has ended."""
        if self.state in ENDED:
            return None
        return min((each for each in (self.ends_by, self.expires) if each is not None), default=None)

    def is_stuck(self, now: datetime, silence: timedelta) -> bool:
        """Tell whether it is active, no main, and was not heard of for a span of time."""
        return self.state == "active" and self.kind != "main" and now - self.last >= silence

    def near(self, limits: Limits) -> tuple[str, ...]:
        """Return which limits it has reached, or is one child away from, as `children 7/8`; none for one that has ended."""
        if self.state in ENDED:
            return ()
        near = []
        if self.children >= limits.children - _CLOSE:
            near.append(f"children {self.children}/{limits.children}")
        if self.kind == "branch" and self.depth >= limits.branch_depth:
            near.append(f"depth {self.depth}/{limits.branch_depth}")
        return tuple(near)

    def to_dict(self) -> dict[str, Any]:
        """Return what is seen as plain values, ready for JSON."""
        plain = self.model_dump() | {"due": self.due}
        return {name: each.isoformat() if isinstance(each, datetime) else each for name, each in plain.items()}


def overview(store: Repository, session: str | None = None) -> list[TreeRow]:
    """Return the sessions of the tree (or one and those below it), every parent before its children; write nothing.

    Mains come first, in the order in which they were made; a session that was spawned by one outside the tree comes
    where its own tree begins.
    """
    rows = _rows(store, "session-tree", {} if session is None else {"session": session})
    lasts: dict[str, list[datetime]] = defaultdict(list)
    for name in ("last_times", "tree_last"):
        for row in _rows(store, name, {}):
            lasts[row["session"]].append(row["last"])
    usage = _rows(store, "token-usage-by-session", {})
    tokens = {row["session"]: total((row["input"], row["output"])) for row in usage}
    orphans = {row["session"] for row in _rows(store, "tree-orphans", {})}
    found = [
        TreeRow(
            id=iris.session_id(row["session"]),
            parent_id=None if row["parent"] is None else iris.session_id(row["parent"]),
            depth=int(row["depth"]),
            kind=row["kind"],
            state=row["state"],
            agent=iris.author_name(row["agent"]),
            tier=row["tier"],
            created=row["created"],
            expires=row["expires"],
            ends_by=row["ends"],
            children=int(row["children"]),
            last=max([row["created"], *lasts[row["session"]]]),
            tokens=tokens.get(row["session"]),
            orphan=row["session"] in orphans,
        )
        for row in rows
    ]
    return _in_order(found)


def _rows(store: Repository, name: str, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
    found = store.query(name, **parameters)
    return found.to_dicts() if isinstance(found, Solutions) else []


def _in_order(found: Sequence[TreeRow]) -> list[TreeRow]:
    below: dict[str | None, list[TreeRow]] = defaultdict(list)
    known = {each.id for each in found}
    for each in found:
        below[each.parent_id if each.parent_id in known else None].append(each)
    ordered: list[TreeRow] = []
    waiting = list(reversed(below[None]))
    while waiting:
        each = waiting.pop()
        ordered.append(each)
        waiting += reversed(below[each.id])
    return ordered


def with_ancestors(found: Sequence[TreeRow], wanted: Iterable[TreeRow]) -> list[TreeRow]:
    """Return the sessions that are wanted and all above them, in the order of `found`."""
    by_id = {each.id: each for each in found}
    kept: set[str] = set()
    for each in wanted:
        at: TreeRow | None = each
        while at is not None and at.id not in kept:
            kept.add(at.id)
            at = by_id.get(at.parent_id or "")
    return [each for each in found if each.id in kept]
