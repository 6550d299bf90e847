"""The limits, live sessions, results and commits of the session tree."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, Literal, NamedTuple, cast, get_args

from pyoxigraph import Literal as RdfLiteral
from pyoxigraph import NamedNode, Quad

from trails.errors import IllegalTransition, InvalidInput, LimitReached
from trails.history import log_leaves, transaction
from trails.history.reader import Reader
from trails.history.transaction import Proposal, Transaction
from trails.integrity.leaves import Leaf
from trails.model import iris, validation
from trails.model.values import Derivation, SessionRecord, SystemPrompt, Value
from trails.rdf import ledger_records, vocab
from trails.rdf.activity_records import Deed
from trails.rdf.codec import parse_time, time_literal
from trails.rdf.ledger_records import Status, TreeState
from trails.rdf.session_records import prompt_quads, session_quads
from trails.runtime.config_values import time_after
from trails.runtime.inbox import Book, put_entries, shared_state
from trails.session import Repository, Session
from trails.store.contract import QuadStore
from trails.store.pattern import Pattern, Preview

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
        """Return the limits.

        Raise `InvalidInput` for one that is no whole number from 0.
        """
        for name, limit in vars(self).items():
            if name != "slots" or limit is not None:
                validation.index(limit, f"the limit {name}")
        return self


def check_kind(value: object) -> Kind:
    """Return a kind of session.

    Raise `InvalidInput` for what is none.
    """
    if value not in KINDS:
        raise InvalidInput(f"kind is one of {', '.join(KINDS)}, not {value!r}")
    return value


def check_span(value: object, what: str, *, zero: bool = False) -> timedelta:
    """Return a span of time greater than 0 (or, with `zero`, 0 or greater), or raise `InvalidInput`."""
    if not isinstance(value, timedelta) or value < timedelta(0) or (not zero and not value):
        raise InvalidInput(f"{what} must be a timedelta {'of 0 or more' if zero else 'greater than 0'}, not {value!r}")
    return value


def expiry_time(kind: Kind, ttl: timedelta | None, now: datetime) -> datetime | None:
    """Return when a session that is made now expires.

    None for never; raise `InvalidInput` for a time to live of 0 or less.

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
    """Raise `LimitReached` if a session may not have a child of a kind, for where it is in the tree."""
    depth = parent.depth + 1
    what = f"of session {parent.id!r} would be {depth} spawns deep"
    if parent.kind == "worker":
        what = f"session {parent.id!r} is a worker, and workers are leaves: it may have 0 children, this would be 1"
        raise LimitReached(f"{what}; let its parent spawn", limit="leaf", allowed=0, wanted=1)
    if depth > limits.depth:
        what = f"a {kind} {what}, and depth is limited to {limits.depth}"
        remedy = "do the work here, or give the parent less to delegate"
        raise LimitReached(f"{what}; {remedy}", limit="depth", allowed=limits.depth, wanted=depth)
    if kind == "branch" and depth > limits.branch_depth:
        what = f"a branch {what}, and branch_depth is limited to {limits.branch_depth}"
        remedy = "spawn a worker, or do the work here"
        raise LimitReached(f"{what}; {remedy}", limit="branch_depth", allowed=limits.branch_depth, wanted=depth)


def check_slots(limits: Limits, parent: str, children: int, agent: str, working: int) -> None:
    """Raise `LimitReached` if a session or its agent has no slot left; the numbers are of what is active now."""
    if children >= limits.children:
        what = f"session {parent!r} has {children} active children, and children is limited to {limits.children}"
        remedy = "wait for one to end, or suspend a branch"
        raise LimitReached(f"{what}; {remedy}", limit="children", allowed=limits.children, wanted=children + 1)
    if limits.slots is not None and working >= limits.slots:
        what = f"agent {agent!r} has {working} active branches and workers, and slots is limited to {limits.slots}"
        remedy = "wait for one to end, or suspend idle branches (suspend_idlest)"
        raise LimitReached(f"{what}; {remedy}", limit="slots", allowed=limits.slots, wanted=working + 1)


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
        """When it is ended, unless it ends before.

        None for never.
        """
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
        """Return the session that takes a slot.

        None if it is free.
        """
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
    """Return how many spawns deep a session is.

    One whose parent has ended spawns nothing: its depth plays no part.
    """
    above = {live.id}
    while live.parent is not None and live.parent not in above:
        above.add(live.parent)
        if live.parent not in index:
            break
        live = index[live.parent]
    return len(above) - 1


class Runtime:
    """What a process holds of the tree of one open store.

    All `Tree`s on that store share it.
    """

    def __init__(self, repository: Repository) -> None:
        self.repository = repository
        self.book = Book.of(repository)
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
    return shared_state(repository, Runtime)


_CHANGES: Final = get_args(ledger_records.ArtifactChange)


class Artifact(Value):
    """Something that a session created, modified or deleted: its URI, and its SHA-256 as 64 hex digits, if known."""

    uri: str
    change: ledger_records.ArtifactChange
    sha256: str | None = None


class SessionResult(Value):
    """How a session of the tree ended, and what it has to say of that. Its parent decides what becomes of it."""

    session_id: str
    parent_id: str | None
    """Whom it is for; None for a main."""
    status: Status
    summary: str | None
    """What it found, in words; None if it said nothing, or if that was removed."""
    artifacts: tuple[Artifact, ...]
    memory_ids: tuple[str, ...]
    error: str | None
    """Why it did not complete."""
    time: datetime
    derivation: Derivation
    """How a turn names this result that is made from it."""

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values, ready for JSON."""
        plain = self.model_dump(exclude={"derivation", "session_id", "parent_id", "time"})
        head = {"session": self.session_id, "parent": self.parent_id, "iri": self.derivation.iri}
        return head | plain | {"time": self.time.isoformat()}


class Report(NamedTuple):
    """What a result says, checked."""

    summary: str | None = None
    artifacts: tuple[Artifact, ...] = ()
    memory_ids: tuple[str, ...] = ()


ArtifactLike = Artifact | Mapping[str, Any] | Sequence[str]
"""An artifact, a mapping with its fields, or (uri, change, sha256)."""


def check_report(
    kind: str, session: str, summary: str | None, artifacts: Iterable[ArtifactLike], memory_ids: Iterable[str]
) -> Report:
    """Return what a result says.

    Raise `InvalidInput` for what cannot be kept, or for a worker's memory ids.
    """
    if isinstance(memory_ids, str) or isinstance(artifacts, str):
        raise InvalidInput("artifacts and memory_ids are lists, not one string")
    ids = tuple(sorted({validation.name(each, "a memory id") for each in memory_ids}))
    if ids and kind == "worker":
        raise InvalidInput(f"session {session!r} is a worker, and workers write no memory: it may return no memory ids")
    return Report(
        summary=None if summary is None else validation.text(summary, "summary"),
        artifacts=tuple(_artifact(each) for each in artifacts),
        memory_ids=ids,
    )


def _artifact(given: ArtifactLike) -> Artifact:
    fields: Any = given
    if isinstance(given, Artifact):
        fields = dict(given)
    elif not isinstance(given, Mapping):
        if isinstance(given, str) or len(given) not in (2, 3):
            raise InvalidInput(f"an artifact is (uri, change, sha256), not {given!r}")
        fields = dict(zip(Artifact.model_fields, given, strict=False))
    if not {"uri", "change"} <= fields.keys() <= {"uri", "change", "sha256"}:
        raise InvalidInput(f"an artifact has uri, change and sha256, not {', '.join(map(str, fields))}")
    uri, change, sha256 = fields["uri"], fields["change"], fields.get("sha256")
    if not validation.text(uri, "an artifact's uri"):
        raise InvalidInput("an artifact's uri must not be empty")
    if change not in _CHANGES:
        raise InvalidInput(f"what happened to the artifact {uri!r} is one of {', '.join(_CHANGES)}, not {change!r}")
    if sha256 is not None and not re.fullmatch("[0-9a-f]{64}", sha256 if isinstance(sha256, str) else ""):
        raise InvalidInput(f"the sha256 of the artifact {uri!r} must be 64 lower-case hex digits, not {sha256!r}")
    return Artifact(uri=uri, change=change, sha256=sha256)


def result_text(session: str, kind: str, status: Status, said: Report, error: str | None) -> str:
    """Return a result in words, as a parent is shown it.

    >>> report = Report("Take the train.", (Artifact(uri="a.md", change="created"),))
    >>> print(result_text("s1", "branch", "completed", report, None))
    The branch s1 completed.
    <BLANKLINE>
    Take the train.
    <BLANKLINE>
    Artifacts: a.md (created)
    """
    how = {"completed": "completed", "failed": "failed", "expired": "expired", "cancelled": "was cancelled"}[status]
    parts = [f"The {kind} {session} {how}{'.' if error is None else f': {error}'}"]
    if said.summary:
        parts.append(said.summary)
    if said.artifacts:
        parts.append("Artifacts: " + ", ".join(f"{each.uri} ({each.change})" for each in said.artifacts))
    if said.memory_ids:
        parts.append("Memories: " + ", ".join(said.memory_ids))
    return "\n\n".join(parts)


def read_result(parent: str | None, found: Iterable[ledger_records.LedgerEntry]) -> SessionResult | None:
    """Return the result that a session's ledger holds.

    None if it has not ended.
    """
    by_number = {entry.number: entry for entry in found}
    result = next((entry for entry in by_number.values() if isinstance(entry, ledger_records.Result)), None)
    if result is None:
        return None
    end = by_number.get(result.transition)
    return SessionResult(
        session_id=result.session_id,
        parent_id=parent,
        status=result.status,
        summary=None if result.words is None else result.words.text,
        artifacts=tuple(
            Artifact(uri=each.uri, change=each.change, sha256=each.sha256)
            for _, each in sorted(by_number.items())
            if isinstance(each, ledger_records.ArtifactEntry)
        ),
        memory_ids=result.memory_ids,
        error=end.reason if isinstance(end, ledger_records.Transition) else None,
        time=result.time,
        derivation=Derivation(
            session_id=result.session_id, number=result.number, digest=ledger_records.entry_row_digest(result)
        ),
    )


SOURCE: Final = "trails:tree"
"""The source of the messages by which a parent is told; their event id is the id of the session that ended."""
_WITH_PARENT: Final = "tree: children end with their parent"


class TreeTransaction:
    """A commit in the making.

    Everything in it happens at one time and is done by one agent or principal.
    """

    def __init__(self, index: Index, store: QuadStore, numbers: Mapping[str, int], deed: Deed) -> None:
        """`numbers` are the numbers that the next entries get, by session.

        The caller holds those ledgers.
        """
        self._index = index
        self._store = store
        self._next = dict(numbers)
        self._deed = deed
        self._tx = Transaction()
        self._new: list[str] = []
        self._rows: dict[str, None] = {}
        self.entries: dict[str, list[ledger_records.Entry]] = {}
        """The entries that are written, by session."""
        self.moved: dict[str, Live | None] = {}
        """What becomes of the index: sessions as they are then, or None if they have ended."""

    # --- its parts

    def _write(self, kind: type[ledger_records.Entry], session_id: str, **fields: Any) -> int:
        """Write an entry, with the next number of its ledger, and return that."""
        number = self._next[session_id]
        self._next[session_id] = number + 1
        entry = kind.model_validate({"session_id": session_id, "number": number} | fields)
        self.entries.setdefault(session_id, []).append(entry)
        return number

    def _change_row(self, session_id: str, add: list[Quad], remove: list[Quad]) -> None:
        self._tx.add(add)
        self._tx.take(remove)
        self._rows[session_id] = None

    def _transition(
        self, session_id: str, before: TreeState | None, after: TreeState, reason: str | None = None, **more: Any
    ) -> int:
        words = None if reason is None else ledger_records.EntryTexts.of(reason)
        deed = {"by_iri": self._deed.by_iri, "time": self._deed.time, "rule": self._deed.rule} | more
        return self._write(ledger_records.Transition, session_id, before=before, after=after, words=words, **deed)

    # --- what may happen to a session

    def make(self, record: SessionRecord, live: Live, *, prompt: SystemPrompt | None, brief: Mapping[str, str]) -> None:
        """Make a session: its row, its system prompt, and what it is told (by "task" and "context")."""
        self._tx.add(session_quads(record))
        if prompt is not None:
            self._tx.add(prompt_quads(prompt))
        self._new.append(record.id)
        self._tx.forbid_id(record.id)
        self._tx.forbid(transaction.take_slot(record.slot or ""))
        if record.label is not None:
            self._tx.label(record.label)
        self._next[record.id] = 1
        self._transition(record.id, None, "active", used=tuple(range(2, 2 + len(brief))))
        for what, text in brief.items():
            by = {"by_iri": self._deed.by_iri, "time": self._deed.time}
            self._write(ledger_records.Brief, record.id, what=what, words=ledger_records.EntryTexts.of(text), **by)
        self.moved[record.id] = live

    def suspend(self, live: Live) -> None:
        """Let a branch rest, and free its slot."""
        self._change_row(live.id, [state_quad(live.id, "suspended")], _occupied_quads(live))
        self._transition(live.id, live.state, "suspended")
        self.moved[live.id] = replace(live, state="suspended", slot=None)

    def resume(self, live: Live, slot: str) -> None:
        """Let a branch go on, in a slot that is free."""
        self._change_row(
            live.id,
            [state_quad(live.id, "active"), _quad(live.id, vocab.SLOT, RdfLiteral(slot))],
            _occupied_quads(live),
        )
        self._tx.forbid(transaction.take_slot(slot))
        self._transition(live.id, live.state, "active")
        self.moved[live.id] = replace(live, state="active", slot=slot)

    def cancel(self, live: Live, ends_by: datetime, reason: str, rule: str | None = None) -> None:
        """Ask an active session to end by a time, unless it has been asked already."""
        if live.ends_by is not None:
            return
        self._change_row(
            live.id, [Quad(NamedNode(iris.session(live.id)), vocab.ENDS_BY, time_literal(ends_by), vocab.CATALOG)], []
        )
        self._tx.require([state_quad(live.id, "active")])
        self._tx.forbid(_pattern(live.id, vocab.ENDS_BY))
        self._write(
            ledger_records.Cancellation,
            live.id,
            by_iri=self._deed.by_iri,
            time=self._deed.time,
            rule=rule or self._deed.rule,
            ends_by=ends_by,
            words=ledger_records.EntryTexts.of(reason),
        )
        self.moved[live.id] = replace(live, ends_by=ends_by)

    def end(
        self,
        live: Live,
        after: TreeState,
        status: Status,
        *,
        grace: timedelta,
        said: Report = Report(),  # noqa: B008 - a frozen value
        error: str | None = None,
        doomed: bool = False,
        rule: str | None = None,
    ) -> None:
        """End a session: its result goes to its parent, its children are asked to end, its suspended ones expire.

        With `doomed`, its active children are not asked: they end in this commit too, or in one that is sure to come.
        """
        self._change_row(live.id, [state_quad(live.id, after)], _occupied_quads(live))
        transition = self._transition(live.id, live.state, after, error, rule=rule or self._deed.rule)
        result = self._write(
            ledger_records.Result,
            live.id,
            status=status,
            memory_ids=said.memory_ids,
            transition=transition,
            time=self._deed.time,
            words=None if said.summary is None else ledger_records.EntryTexts.of(said.summary),
        )
        for each in said.artifacts:
            self._write(ledger_records.ArtifactEntry, live.id, result=result, transition=transition, **dict(each))
        self.moved[live.id] = None
        self._tell(live, status, said, error)
        for child in self._index.children(live.id):
            why = f"its parent {live.id} ended"
            if child.state == "suspended":
                self.end(child, "expired", "expired", grace=grace, error=why, doomed=doomed, rule=_WITH_PARENT)
            elif not doomed:
                self.cancel(child, time_after(self._deed.time, grace), why, _WITH_PARENT)

    def _tell(self, live: Live, status: Status, said: Report, error: str | None) -> None:
        """Put the result into the parent's inbox, where it is held for the parent to decide."""
        if live.parent is None or not self._store.quads(_pattern(live.parent, vocab.TYPE, vocab.SESSION)):
            return  # a session that was imported without the one that spawned it has nobody to tell
        self._write(
            ledger_records.Event,
            live.parent,
            direction="inbound",
            source=SOURCE,
            event_id=live.id,
            mode="hold",
            author_iri=iris.agent(live.agent),
            time=self._deed.time,
            received=self._deed.time,
            waiting=True,
            words=ledger_records.EntryTexts.of(result_text(live.id, live.kind, status, said, error)),
        )

    # --- the commit

    def kept_as(self, session_id: str, fork: str) -> None:
        """Note with a session's transition which fork holds the turns that could not be stored in it."""
        self.entries[session_id] = [
            each.model_copy(update={"kept_as": fork}) if isinstance(each, ledger_records.Transition) else each
            for each in self.entries[session_id]
        ]

    def only_under(self, parent: str, *states: TreeState, inherits: Sequence[Quad] = ()) -> None:
        """Let the commit happen only while a session is there, in a state (if one is given), and not asked to end.

        `inherits` is what must still be said of it.
        """
        self._tx.session(parent)
        self._tx.require(inherits)
        self._tx.require(state_quad(parent, each) for each in states)
        self._tx.forbid(_pattern(parent, vocab.ENDS_BY))

    def change(self) -> Proposal:
        """Return the whole as a commit, which happens only while all is as the index has it."""
        whole = Transaction()
        whole.join(self._tx)
        whole.log(self._row_leaves)
        for session_id, new_entries in self.entries.items():
            put_entries(whole, session_id, new_entries, new_session=session_id in self._new)
        return whole.change()

    def _row_leaves(self, store: Preview) -> list[Leaf]:
        created = log_leaves.row_states("create", self._new)(store)
        return [*created, *log_leaves.row_states("change", list(self._rows))(store)]


def _quad(session_id: str, predicate: NamedNode, value: RdfLiteral) -> Quad:
    return Quad(NamedNode(iris.session(session_id)), predicate, value, vocab.CATALOG)


def _pattern(session_id: str, predicate: NamedNode, value: NamedNode | None = None) -> Pattern:
    return NamedNode(iris.session(session_id)), predicate, value, vocab.CATALOG


def state_quad(session_id: str, value: TreeState) -> Quad:
    """Return the quad that says which state a session is in."""
    return _quad(session_id, vocab.STATE, RdfLiteral(value))


def _occupied_quads(live: Live) -> list[Quad]:
    """Return what is removed from a session's row when it leaves its state: that, and its slot."""
    return [
        state_quad(live.id, live.state),
        *([] if live.slot is None else [_quad(live.id, vocab.SLOT, RdfLiteral(live.slot))]),
    ]


def notified_sessions(index: Index, live: Live) -> set[str]:
    """Return the sessions whose ledgers are written when a session ends, as far as the tree knows."""
    session_ids = {live.id} if live.parent is None else {live.id, live.parent}
    for child in index.children(live.id):
        session_ids |= notified_sessions(index, child) if child.state == "suspended" else {child.id}
    return session_ids


@contextmanager
def lock_ledgers(book: Book, session_ids: set[str]) -> Iterator[dict[str, int]]:
    """Hold the ledgers of sessions, and give the number that the next entry of each gets."""
    with ExitStack() as stack:
        yield {each: stack.enter_context(book.at(each)) for each in sorted(session_ids)}
