"""Limits of the session tree, and the sessions of it that have not ended."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, Literal, cast, get_args

from trails.errors import IllegalTransition, InvalidInput, LimitReached
from trails.history.reader import Reader
from trails.model import iris, validation
from trails.model.values import Value
from trails.rdf.codec import parse_time
from trails.rdf.ledger_records import TreeState
from trails.runtime.ledger.ledger_writer import Book, shared_state
from trails.session import Repository
from trails.session.session import Session

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
        for name, limit in vars(self).items():
            if name != "slots" or limit is not None:
                validation.index(limit, f"the limit {name}")
        return self


def check_kind(value: object) -> Kind:
    """Return a kind of session, or raise `InvalidInput` for what is none."""
    if value not in KINDS:
        raise InvalidInput(f"kind is one of {', '.join(KINDS)}, not {value!r}")
    return value


def check_span(value: object, what: str, *, zero: bool = False) -> timedelta:
    """Return a span of time greater than 0 (or, with `zero`, 0 or greater), or raise `InvalidInput`."""
    if not isinstance(value, timedelta) or value < timedelta(0) or (not zero and not value):
        raise InvalidInput(f"{what} must be a timedelta {'of 0 or more' if zero else 'greater than 0'}, not {value!r}")
    return value


def expiry_time(kind: Kind, ttl: timedelta | None, now: datetime) -> datetime | None:
    """Return when a session that is made now expires, or None for never; raise `InvalidInput` for a time to live of 0 or less.

    >>> from datetime import UTC
    >>> expiry_time("worker", None, datetime(2026, 3, 1, 12, tzinfo=UTC)).minute
    5
    """
    lives = TTL[kind] if ttl is None else check_span(ttl, "ttl")
    if lives is None:
        return None
    try:
        return now + lives
    except OverflowError as error:
        raise InvalidInput(f"a ttl of {lives} ends after the year 9999") from error


# --- refusals


def check_depth(limits: Limits, kind: Kind, parent: Live) -> None:
    """Raise `LimitReached` if a child of this kind would be too deep, or its parent is a worker."""
    depth = parent.depth + 1
    if parent.kind == "worker":
        message = (
            f"session {parent.id!r} is a worker, and workers are leaves: it may have 0 children, this would be 1; let its "
            "parent spawn"
        )
        raise LimitReached(message, limit="leaf", allowed=0, wanted=1)
    if depth > limits.depth:
        message = (
            f"a {kind} of session {parent.id!r} would be {depth} spawns deep, and depth is limited to {limits.depth}; "
            "do the work here, or give the parent less to delegate"
        )
        raise LimitReached(message, limit="depth", allowed=limits.depth, wanted=depth)
    if kind == "branch" and depth > limits.branch_depth:
        message = (
            f"a branch of session {parent.id!r} would be {depth} spawns deep, and branch_depth is limited to "
            f"{limits.branch_depth}; spawn a worker, or do the work here"
        )
        raise LimitReached(message, limit="branch_depth", allowed=limits.branch_depth, wanted=depth)


def check_slots(limits: Limits, parent: str, children: int, agent: str, working: int) -> None:
    """Raise `LimitReached` if a session has no room for another active child, or its agent for another active session."""
    if children >= limits.children:
        message = (
            f"session {parent!r} has {children} active children, and children is limited to {limits.children}; wait for one "
            "to end, or suspend a branch"
        )
        raise LimitReached(message, limit="children", allowed=limits.children, wanted=children + 1)
    if limits.slots is not None and working >= limits.slots:
        message = (
            f"agent {agent!r} has {working} active branches and workers, and slots is limited to {limits.slots}; wait for "
            "one to end, or suspend idle branches (suspend_idlest)"
        )
        raise LimitReached(message, limit="slots", allowed=limits.slots, wanted=working + 1)


def check_transition(live: Live, after: TreeState) -> None:
    """Raise `IllegalTransition`, which names both states, for a change of state that is not allowed."""
    before, kinds = live.state, _LEGAL.get((live.state, after))
    if kinds is not None and live.kind in kinds:
        return
    if kinds is None:
        remedy = "resume it first" if before == "suspended" else "nothing was changed"
        message = f"session {live.id!r} is {before} and cannot become {after}; {remedy}"
    else:
        who = " or a ".join(kinds)
        message = f"session {live.id!r} is a {live.kind}, and only a {who} goes from {before} to {after}"
    raise IllegalTransition(message, before=before, after=after)


@dataclass(frozen=True, slots=True)
class Live:
    """A session of the tree that has not ended."""

    id: str
    kind: Kind
    state: TreeState
    agent: str
    parent: str | None
    depth: int
    slot: str | None
    expires: datetime | None
    ends_by: datetime | None

    @property
    def due(self) -> datetime | None:
        """When it is ended, unless it ends before; None for never."""
        return min((each for each in (self.ends_by, self.expires) if each is not None), default=None)


class Index(dict[str, Live]):
    """The sessions that have not ended, by id."""

    def children(self, session_id: str) -> list[Live]:
        """Return the children of a session that have not ended, by id."""
        return sorted((each for each in self.values() if each.parent == session_id), key=lambda each: each.id)

    def at_work(self, agent: str) -> list[Live]:
        """Return an agent's branches and workers that are active, by id."""
        working = (each for each in self.values() if each.agent == agent and each.state == "active")
        return sorted((each for each in working if each.kind != "main"), key=lambda each: each.id)

    def holder(self, slot: str) -> Live | None:
        """Return the session that takes a slot, or None if it is free."""
        return next((each for each in self.values() if each.slot == slot), None)

    def due(self, now: datetime) -> list[Live]:
        """Return the sessions that are due, the longest due first."""
        found = [(each.due, each.id) for each in self.values() if each.due is not None and each.due <= now]
        return [self[session_id] for _, session_id in sorted(found)]


def read_index(reader: Reader) -> Index:
    """Return the index of what is stored."""
    index = Index()
    for row in reader.select("tree_live"):
        node, kind, state, agent, parent, slot, expires, ends = row
        session_id = iris.session_id(node.value)
        index[session_id] = Live(
            id=session_id,
            kind=cast(Kind, kind.value),
            state=cast(TreeState, state.value),
            agent=iris.author_name(agent.value),
            parent=None if parent is None else iris.session_id(parent.value),
            depth=0,
            slot=None if slot is None else slot.value,
            expires=None if expires is None else parse_time(expires.value),
            ends_by=None if ends is None else parse_time(ends.value),
        )
    for live in list(index.values()):
        index[live.id] = replace(live, depth=_depth(index, live))
    return index


def _depth(index: Index, live: Live) -> int:
    """Return how many spawns deep a session is. One whose parent has ended spawns nothing: its depth plays no part."""
    above = {live.id}
    while live.parent is not None and live.parent not in above:
        above.add(live.parent)
        if live.parent not in index:
            break
        live = index[live.parent]
    return len(above) - 1


class Runtime:
    """What a process holds of the tree of one open store; all `Tree`s on that store share it."""

    def __init__(self, repository: Repository) -> None:
        self.repository = repository
        self.book = Book(repository)
        self.lock = threading.RLock()
        self.index = Index()
        self.recovered = False
        """Whether what an earlier process left behind has been dealt with."""
        self.sessions: dict[str, Session] = {}
        """The handles of active sessions, which hold the turns that are not stored yet."""
        self.touched: dict[str, datetime] = {}
        """When a session of this process last did something, by id."""

    def reload(self) -> None:
        """Read the index again, after something else changed the store."""
        self.index = read_index(self.repository.reader)
        for session_id in self.sessions.keys() - self.index.keys():
            self.forget(session_id)

    def forget(self, session_id: str) -> None:
        """Let go of a session that is not at work any more."""
        self.sessions.pop(session_id, None)
        self.touched.pop(session_id, None)


def runtime_of(repository: Repository) -> Runtime:
    """Return what this process holds of the tree of a store."""
    return shared_state(repository, Runtime, repository)
