"""Commit changes of several tree sessions: their rows, ledger entries and results."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple, TypeVar, get_args

from pyoxigraph import Literal, NamedNode, Quad

from trails.errors import InvalidInput
from trails.history import log_leaves, transaction
from trails.history.transaction import Proposal, Transaction
from trails.integrity.leaves import Leaf
from trails.model import iris, validation
from trails.model.values import Derivation, SessionRecord, SystemPrompt, Value
from trails.rdf import ledger_records, vocab
from trails.rdf.activity_records import Deed
from trails.rdf.codec import time_literal
from trails.rdf.ledger_records import (
    ArtifactChange,
    ArtifactEntry,
    Brief,
    Cancellation,
    Entry,
    EntryTexts,
    Event,
    LedgerEntry,
    Result,
    Status,
    Transition,
    TreeState,
)
from trails.rdf.session_records import prompt_quads, session_quads
from trails.runtime.config_values import time_after
from trails.runtime.ledger.ledger_writer import Book, enter_entries, put_entries
from trails.runtime.tree.tree_index import Index, Live
from trails.store.contract import QuadStore
from trails.store.pattern import Pattern
from trails.store.preview import Preview

_CHANGES: Final = get_args(ArtifactChange)


class Artifact(Value):
    """Something that a session created, modified or deleted: its URI, and its SHA-256 as 64 hex digits, where known."""

    uri: str
    change: ArtifactChange
    sha256: str | None = None


class SessionResult(Value):
    """How a session of the tree ended, and what it has to say of that. Its parent decides what becomes of it."""

    session_id: str
    parent_id: str | None
    """Whom it is for; None for a main."""
    status: Status
    summary: str | None
    """What it found, in words; None where it said nothing, or where that was taken out."""
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
    kind: str, summary: str | None, artifacts: Iterable[ArtifactLike], memory_ids: Iterable[str], session: str
) -> Report:
    """Return what a result says, or raise `InvalidInput` for what cannot be kept, or for a worker's memory ids."""
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
    uri: object
    change: object
    sha256: object
    if isinstance(given, Artifact):
        uri, change, sha256 = given.uri, given.change, given.sha256
    elif isinstance(given, Mapping):
        if not {"uri", "change"} <= given.keys() <= {"uri", "change", "sha256"}:
            raise InvalidInput(f"an artifact has uri, change and sha256, not {', '.join(map(str, given))}")
        uri, change, sha256 = given["uri"], given["change"], given.get("sha256")
    elif isinstance(given, str) or len(given) not in (2, 3):
        raise InvalidInput(f"an artifact is (uri, change, sha256), not {given!r}")
    else:
        uri, change, sha256 = (*given, None)[:3]
    if not validation.text(uri, "an artifact's uri"):
        raise InvalidInput("an artifact's uri must not be empty")
    if change not in _CHANGES:
        raise InvalidInput(f"what happened to the artifact {uri!r} is one of {', '.join(_CHANGES)}, not {change!r}")
    if sha256 is not None and not re.fullmatch("[0-9a-f]{64}", sha256 if isinstance(sha256, str) else ""):
        raise InvalidInput(f"the sha256 of the artifact {uri!r} must be 64 lower-case hex digits, not {sha256!r}")
    return Artifact.model_validate({"uri": uri, "change": change, "sha256": sha256})


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


def read_result(parent: str | None, found: Iterable[LedgerEntry]) -> SessionResult | None:
    """Return the result that a session's ledger holds, or None where it has not ended."""
    by_number = {entry.number: entry for entry in found}
    result = next((entry for entry in by_number.values() if isinstance(entry, Result)), None)
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
            if isinstance(each, ArtifactEntry)
        ),
        memory_ids=result.memory_ids,
        error=end.reason if isinstance(end, Transition) else None,
        time=result.time,
        derivation=Derivation(
            session_id=result.session_id, number=result.number, digest=ledger_records.entry_row_digest(result)
        ),
    )


SOURCE: Final = "trails:tree"
"""The source of the messages by which a parent is told; their event id is the id of the session that ended."""
_Entry = TypeVar("_Entry", Transition, Brief, Cancellation, Result, ArtifactEntry, Event)
_WITH_PARENT: Final = "tree: children end with their parent"


class TreeTransaction:
    """A commit in the making. Everything in it happens at one time and is done by one agent or principal."""

    def __init__(self, index: Index, store: QuadStore, numbers: Mapping[str, int], deed: Deed) -> None:
        """`numbers` are the numbers that the next entries get, by session; the caller holds those ledgers."""
        self._index = index
        self._store = store
        self._next = dict(numbers)
        self._deed = deed
        self._tx = Transaction()
        self._new: list[str] = []
        self._rows: dict[str, None] = {}
        self.entries: dict[str, list[Entry]] = {}
        """The entries that are written, by session."""
        self.moved: dict[str, Live | None] = {}
        """What becomes of the index: sessions as they are then, or None if they have ended."""

    # --- its parts

    def _write(self, kind: type[_Entry], session_id: str, **fields: Any) -> int:
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
        words = None if reason is None else EntryTexts.of(reason)
        deed = {"by_iri": self._deed.by_iri, "time": self._deed.time, "rule": self._deed.rule} | more
        return self._write(Transition, session_id, before=before, after=after, words=words, **deed)

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
            self._write(Brief, record.id, what=what, words=EntryTexts.of(text), **by)
        self.moved[record.id] = live

    def suspend(self, live: Live) -> None:
        """Let a branch rest, and free its slot."""
        self._change_row(live.id, [state_quad(live.id, "suspended")], _occupied_quads(live))
        self._transition(live.id, live.state, "suspended")
        self.moved[live.id] = replace(live, state="suspended", slot=None)

    def resume(self, live: Live, slot: str) -> None:
        """Let a branch go on, in a slot that is free."""
        self._change_row(
            live.id, [state_quad(live.id, "active"), _quad(live.id, vocab.SLOT, Literal(slot))], _occupied_quads(live)
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
            Cancellation,
            live.id,
            by_iri=self._deed.by_iri,
            time=self._deed.time,
            rule=rule or self._deed.rule,
            ends_by=ends_by,
            words=EntryTexts.of(reason),
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
            Result,
            live.id,
            status=status,
            memory_ids=said.memory_ids,
            transition=transition,
            time=self._deed.time,
            words=None if said.summary is None else EntryTexts.of(said.summary),
        )
        for each in said.artifacts:
            self._write(ArtifactEntry, live.id, result=result, transition=transition, **dict(each))
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
            Event,
            live.parent,
            direction="inbound",
            source=SOURCE,
            event_id=live.id,
            mode="hold",
            author_iri=iris.agent(live.agent),
            time=self._deed.time,
            received=self._deed.time,
            waiting=True,
            words=EntryTexts.of(result_text(live.id, live.kind, status, said, error)),
        )

    # --- the commit

    def kept_as(self, session_id: str, fork: str) -> None:
        """Note with a session's transition which fork holds the turns that could not be stored in it."""
        self.entries[session_id] = [
            each.model_copy(update={"kept_as": fork}) if isinstance(each, Transition) else each
            for each in self.entries[session_id]
        ]

    def only_under(self, parent: str, *states: TreeState, inherits: Sequence[Quad] = ()) -> None:
        """Let the commit happen only while a session is there, in a state (where one is given), and not asked to end.

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
        for session_id, made in self.entries.items():
            (enter_entries if session_id in self._new else put_entries)(whole, session_id, made)
        return whole.change()

    def _row_leaves(self, store: Preview) -> list[Leaf]:
        made = log_leaves.row_states("create", self._new)(store)
        return [*made, *log_leaves.row_states("change", list(self._rows))(store)]


def _quad(session_id: str, predicate: NamedNode, value: Literal) -> Quad:
    return Quad(NamedNode(iris.session(session_id)), predicate, value, vocab.CATALOG)


def _pattern(session_id: str, predicate: NamedNode, value: NamedNode | None = None) -> Pattern:
    return NamedNode(iris.session(session_id)), predicate, value, vocab.CATALOG


def state_quad(session_id: str, value: TreeState) -> Quad:
    """Return the quad that says which state a session is in."""
    return _quad(session_id, vocab.STATE, Literal(value))


def _occupied_quads(live: Live) -> list[Quad]:
    """Return what is removed from a session's row when it leaves its state: that, and its slot."""
    return [
        state_quad(live.id, live.state),
        *([] if live.slot is None else [_quad(live.id, vocab.SLOT, Literal(live.slot))]),
    ]


def notified_sessions(index: Index, live: Live) -> set[str]:
    """Return the sessions whose ledgers are written when a session ends, as far as the tree knows."""
    found = {live.id} if live.parent is None else {live.id, live.parent}
    for child in index.children(live.id):
        found |= notified_sessions(index, child) if child.state == "suspended" else {child.id}
    return found


@contextmanager
def lock_ledgers(book: Book, session_ids: set[str]) -> Iterator[dict[str, int]]:
    """Hold the ledgers of sessions, and give the number that the next entry of each gets."""
    with ExitStack() as stack:
        yield {each: stack.enter_context(book.at(each)) for each in sorted(session_ids)}
