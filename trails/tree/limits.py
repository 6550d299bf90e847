"""How large the session tree may grow, how long its sessions live, and which changes of state there are: pure rules."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final, Literal, get_args

from trails import validate
from trails.errors import IllegalTransition, InvalidInput, LimitReached
from trails.model import Value
from trails.records.tree_entries import TreeState

Kind = Literal["main", "branch", "worker"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
TTL: Final[Mapping[Kind, timedelta | None]] = {
    "main": None,
    "branch": timedelta(minutes=30),
    "worker": timedelta(minutes=5),
}
"""How long a session lives unless its spawn says otherwise (ADR-0002, "Lifecycle")."""
GRACE: Final = timedelta(seconds=30)
"""How long a session that was asked to end has to wrap up (ADR-0002, "Tree constraints")."""

_LEGAL: Final[Mapping[tuple[TreeState, TreeState], tuple[Kind, ...]]] = {
    ("active", "suspended"): ("branch",),
    ("suspended", "active"): ("branch",),
    ("active", "completed"): KINDS,
    ("active", "failed"): KINDS,
    ("active", "expired"): KINDS,
    ("suspended", "expired"): ("branch",),
}


class Limits(Value):
    """How large the trees of an agent's sessions may grow."""

    depth: int = 4
    """How many spawns deep any session may be; a main is at 0."""
    branch_depth: int = 3
    """How many spawns deep a branch may be."""
    children: int = 8
    """How many active children a session may have; suspended and ended ones do not count."""
    slots: int | None = None
    """How many branches and workers of the agent may be active at one time, in all its trees; None for any number."""

    def checked(self) -> Limits:
        """Return the limits, or raise `InvalidInput` for one that is no whole number from 0."""
        for name in ("depth", "branch_depth", "children"):
            validate.index(getattr(self, name), f"the limit {name}")
        if self.slots is not None:
            validate.index(self.slots, "the limit slots")
        return self


def kind(value: object) -> Kind:
    """Return a kind of session, or raise `InvalidInput` for what is none."""
    if value not in KINDS:
        raise InvalidInput(f"kind is one of {', '.join(KINDS)}, not {value!r}")
    return value


def span(value: object, what: str, *, zero: bool = False) -> timedelta:
    """Return a span of time greater than 0 (or, with `zero`, 0 or greater), or raise `InvalidInput`."""
    if not isinstance(value, timedelta) or value < timedelta(0) or (not zero and not value):
        raise InvalidInput(f"{what} must be a timedelta {'of 0 or more' if zero else 'greater than 0'}, not {value!r}")
    return value


def expiry(kind: Kind, ttl: timedelta | None, now: datetime) -> datetime | None:
    """Return when a session that is made now expires, or None for never; raise `InvalidInput` for a time to live of 0 or less.

    >>> from datetime import UTC
    >>> expiry("worker", None, datetime(2026, 3, 1, 12, tzinfo=UTC)).minute
    5
    """
    lives = TTL[kind] if ttl is None else span(ttl, "ttl")
    if lives is None:
        return None
    try:
        return now + lives
    except OverflowError as error:
        raise InvalidInput(f"a ttl of {lives} ends after the year 9999") from error


# --- refusals


def check_depth(limits: Limits, kind: Kind, parent: str, parent_kind: str, parent_depth: int) -> None:
    """Raise `LimitReached` where a child of this kind would be too deep, or its parent is a worker."""
    if parent_kind == "worker":
        raise LimitReached(
            f"session {parent!r} is a worker, and workers are leaves: it may have 0 children, this would be 1; let its "
            "parent spawn",
            limit="leaf",
            allowed=0,
            wanted=1,
        )
    depth = parent_depth + 1
    if depth > limits.depth:
        raise LimitReached(
            f"a {kind} of session {parent!r} would be {depth} spawns deep, and depth is limited to {limits.depth}; "
            "do the work here, or give the parent less to delegate",
            limit="depth",
            allowed=limits.depth,
            wanted=depth,
        )
    if kind == "branch" and depth > limits.branch_depth:
        raise LimitReached(
            f"a branch of session {parent!r} would be {depth} spawns deep, and branch_depth is limited to "
            f"{limits.branch_depth}; spawn a worker, or do the work here",
            limit="branch_depth",
            allowed=limits.branch_depth,
            wanted=depth,
        )


def check_children(limits: Limits, parent: str, active: int) -> None:
    """Raise `LimitReached` where a session with so many active children may have no other."""
    if active >= limits.children:
        raise LimitReached(
            f"session {parent!r} has {active} active children, and children is limited to {limits.children}; wait for one "
            "to end, or suspend a branch",
            limit="children",
            allowed=limits.children,
            wanted=active + 1,
        )


def check_slots(limits: Limits, agent: str, active: int) -> None:
    """Raise `LimitReached` where so many of an agent's sessions are active that no other may be."""
    if limits.slots is not None and active >= limits.slots:
        raise LimitReached(
            f"agent {agent!r} has {active} active branches and workers, and slots is limited to {limits.slots}; wait for "
            "one to end, or suspend idle branches (suspend_idlest)",
            limit="slots",
            allowed=limits.slots,
            wanted=active + 1,
        )


def check_transition(session: str, kind: str, before: TreeState, after: TreeState) -> None:
    """Raise `IllegalTransition`, which names both states, for a change of state that there is not."""
    kinds = _LEGAL.get((before, after))
    if kinds is None:
        raise IllegalTransition(
            f"session {session!r} is {before} and cannot become {after}; "
            + ("resume it first" if before == "suspended" else "nothing was changed"),
            before=before,
            after=after,
        )
    if kind not in kinds:
        raise IllegalTransition(
            f"session {session!r} is a {kind}, and only a {' or a '.join(kinds)} goes from {before} to {after}",
            before=before,
            after=after,
        )
