"""Limits of the session tree, and its live sessions.

How large the session tree may grow, how long its sessions live, and which changes of state there are: pure rules.

What a process keeps in memory of the session tree: the ids and states of the sessions that have not ended.
"""

from __future__ import annotations

import heapq
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Literal, cast, get_args

from trails.errors import IllegalTransition, InvalidInput, LimitReached
from trails.history.reader import Reader
from trails.model import iris, validation
from trails.model.values import Value
from trails.rdf.codec import parse_time
from trails.rdf.ledger_records import TreeState
from trails.runtime.ledger.ledger_writer import Book
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
        for name in ("depth", "branch_depth", "children"):
            validation.index(getattr(self, name), f"the limit {name}")
        if self.slots is not None:
            validation.index(self.slots, "the limit slots")
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
    >>> expiry("worker", None, datetime(2026, 3, 1, 12, tzinfo=UTC)).minute
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


class Index:
    """The sessions that have not ended, by id, by parent, by slot, and by when they are due."""

    def __init__(self, sessions: Iterable[Live] = ()) -> None:
        self._live: dict[str, Live] = {}
        self._children: dict[str, set[str]] = defaultdict(set)
        self._at_work: dict[str, set[str]] = defaultdict(set)
        self._slots: dict[str, str] = {}
        self._due: list[tuple[datetime, str]] = []
        for each in sessions:
            self.put(each)

    def __len__(self) -> int:
        return len(self._live)

    def __iter__(self) -> Iterator[Live]:
        return iter(list(self._live.values()))

    def get(self, session_id: str) -> Live | None:
        """Return a session that has not ended, or None."""
        return self._live.get(session_id)

    def put(self, live: Live) -> None:
        """Take note of a session as it is now."""
        self.drop(live.id)
        self._live[live.id] = live
        if live.parent is not None:
            self._children[live.parent].add(live.id)
        if live.slot is not None:
            self._slots[live.slot] = live.id
        if live.state == "active" and live.kind != "main":
            self._at_work[live.agent].add(live.id)
        if live.due is not None:
            heapq.heappush(self._due, (live.due, live.id))

    def drop(self, session_id: str) -> None:
        """Forget a session; its place among those due is forgotten when its time comes."""
        live = self._live.pop(session_id, None)
        if live is None:
            return
        if live.parent is not None:
            self._children[live.parent].discard(session_id)
            if not self._children[live.parent]:
                del self._children[live.parent]
        if live.slot is not None and self._slots.get(live.slot) == session_id:
            del self._slots[live.slot]
        self._at_work[live.agent].discard(session_id)

    def children(self, session_id: str) -> list[Live]:
        """Return the children of a session that have not ended, by id."""
        return [self._live[each] for each in sorted(self._children.get(session_id, ()))]

    def active_children(self, session_id: str) -> list[Live]:
        """Return the children of a session that are active, by id."""
        return [each for each in self.children(session_id) if each.state == "active"]

    def at_work(self, agent: str) -> list[Live]:
        """Return an agent's branches and workers that are active, by id."""
        return [self._live[each] for each in sorted(self._at_work.get(agent, ()))]

    def holder(self, slot: str) -> Live | None:
        """Return the session that takes a slot, or None where it is free."""
        session_id = self._slots.get(slot)
        return None if session_id is None else self._live[session_id]

    def take_due(self, now: datetime) -> list[Live]:
        """Take out and return the sessions that are due, the longest due first: a look at the others is not needed."""
        found = []
        while self._due and self._due[0][0] <= now:
            due, session_id = heapq.heappop(self._due)
            live = self._live.get(session_id)
            if live is not None and live.due == due:
                found.append(live)
        return list(dict.fromkeys(found))


def read_index(reader: Reader) -> Index:
    """Return the index of what is stored."""
    rows = {iris.session_id(row[0].value): row for row in reader.select("tree_live")}
    depths: dict[str, int] = {}
    return Index(_live(session_id, row, _depth(session_id, rows, depths)) for session_id, row in rows.items())


def _live(session_id: str, row: Any, depth: int) -> Live:
    _, kind, state, agent, parent, slot, expires, ends = row
    return Live(
        id=session_id,
        kind=cast(Kind, kind.value),
        state=cast(TreeState, state.value),
        agent=iris.author_name(agent.value),
        parent=None if parent is None else iris.session_id(parent.value),
        depth=depth,
        slot=None if slot is None else slot.value,
        expires=None if expires is None else parse_time(expires.value),
        ends_by=None if ends is None else parse_time(ends.value),
    )


def _depth(session_id: str, rows: dict[str, Any], depths: dict[str, int]) -> int:
    """Return how many spawns deep a session is. One whose parent has ended spawns nothing: its depth plays no part."""
    path = []
    at: str | None = session_id
    while at is not None and at not in depths and at in rows and at not in path:
        path.append(at)
        parent = rows[at][4]
        at = None if parent is None else iris.session_id(parent.value)
    depth = -1 if at is None else depths.get(at, 0)
    for each in reversed(path):
        depth += 1
        depths[each] = depth
    return depths[session_id]


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
        for session_id in self.sessions.keys() - {each.id for each in self.index}:
            self.forget(session_id)

    def forget(self, session_id: str) -> None:
        """Let go of a session that is not at work any more."""
        self.sessions.pop(session_id, None)
        self.touched.pop(session_id, None)


_KEY = "_tree"
_LOCK = threading.Lock()


def runtime_of(repository: Repository) -> Runtime:
    """Return what this process holds of the tree of a store. It hangs on the store, and goes with it."""
    with _LOCK:
        return cast(Runtime, vars(repository).setdefault(_KEY, None) or _new_runtime(repository))


def _new_runtime(repository: Repository) -> Runtime:
    made = vars(repository)[_KEY] = Runtime(repository)
    return made
