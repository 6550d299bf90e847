"""One commit over several sessions of the tree: their rows and the entries of their ledgers, put together step by step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from pyoxigraph import Literal, NamedNode, Quad

from trails import iris, vocab
from trails.integrity.leaves import Leaf
from trails.ledger.writer import Book, enter, put
from trails.model import SessionRecord, SystemPrompt
from trails.plumbing import leaves, slots
from trails.plumbing.transaction import Proposal, Transaction
from trails.policy.times import time_after
from trails.records.deeds import Deed
from trails.records.entries import Entry, Event
from trails.records.entry import Words
from trails.records.sessions import prompt_quads, session_quads
from trails.records.terms import time_literal
from trails.records.tree_entries import ArtifactEntry, Brief, Cancellation, Result, Status, Transition, TreeState
from trails.store.contract import QuadStore
from trails.store.pattern import Pattern
from trails.store.preview import Preview
from trails.tree import results
from trails.tree.index import Index, Live
from trails.tree.results import Report

SOURCE: Final = "trails:tree"
"""The source of the messages by which a parent is told; their event id is the id of the session that ended."""
_FIRST: Final = 1
_WITH_PARENT: Final = "tree: children end with their parent"


class TreeTransaction:
    """A commit in the making. Everything in it happens at one time and is done by one agent or principal."""

    def __init__(self, index: Index, store: QuadStore, numbers: Mapping[str, int], deed: Deed) -> None:
        """`numbers` are the numbers that the next entries get, by session; the caller holds those ledgers."""
        self._index = index
        self._store = store
        self._next = dict(numbers)
        self._now, self._by, self._rule = deed.time, deed.by_iri, deed.rule
        self._tx = Transaction()
        self._new: list[str] = []
        self._rows: dict[str, None] = {}
        self._entries: dict[str, list[Entry]] = {}
        self.moved: dict[str, Live | None] = {}
        """What becomes of the index: sessions as they are then, or None where they have ended."""

    # --- its parts

    def _write(self, entry: Entry) -> None:
        self._entries.setdefault(entry.session_id, []).append(entry)

    def _number(self, session_id: str) -> int:
        number = self._next[session_id]
        self._next[session_id] = number + 1
        return number

    def _change_row(self, session_id: str, add: list[Quad], remove: list[Quad]) -> None:
        self._tx.add(add)
        self._tx.take(remove)
        self._rows[session_id] = None

    def _transition(
        self,
        session_id: str,
        before: TreeState | None,
        after: TreeState,
        reason: str | None = None,
        *,
        used: tuple[int, ...] = (),
        rule: str | None = None,
    ) -> int:
        number = self._number(session_id)
        self._write(
            Transition(
                session_id=session_id,
                number=number,
                before=before,
                after=after,
                by_iri=self._by,
                time=self._now,
                rule=rule or self._rule,
                used=used,
                words=None if reason is None else Words.of(reason),
            )
        )
        return number

    # --- what may happen to a session

    def make(self, record: SessionRecord, live: Live, *, prompt: SystemPrompt | None, told: Mapping[str, str]) -> None:
        """Make a session: its row, its system prompt, and what it is told (by "task" and "context")."""
        self._tx.add(session_quads(record))
        if prompt is not None:
            self._tx.add(prompt_quads(prompt))
        self._new.append(record.id)
        self._tx.forbid_id(record.id)
        self._tx.forbid(slots.taking(record.slot or ""))
        if record.label is not None:
            self._tx.label(record.label)
        self._next[record.id] = _FIRST
        self._transition(record.id, None, "active", used=tuple(range(_FIRST + 1, _FIRST + 1 + len(told))))
        for what, text in told.items():
            self._write(
                Brief.model_validate(
                    {
                        "session_id": record.id,
                        "number": self._number(record.id),
                        "what": what,
                        "by_iri": self._by,
                        "time": self._now,
                        "words": Words.of(text),
                    }
                )
            )
        self.moved[record.id] = live

    def suspend(self, live: Live) -> None:
        """Let a branch rest, and free its slot."""
        self._change_row(live.id, [state(live.id, "suspended")], occupied(live))
        self._transition(live.id, live.state, "suspended")
        self.moved[live.id] = replace(live, state="suspended", slot=None)

    def resume(self, live: Live, slot: str) -> None:
        """Let a branch go on, in a slot that is free."""
        self._change_row(live.id, [state(live.id, "active"), slot_quad(live.id, slot)], occupied(live))
        self._tx.forbid(slots.taking(slot))
        self._transition(live.id, live.state, "active")
        self.moved[live.id] = replace(live, state="active", slot=slot)

    def cancel(self, live: Live, ends_by: datetime, reason: str, rule: str | None = None) -> None:
        """Ask an active session to end by a time, unless it has been asked already."""
        if live.ends_by is not None:
            return
        self._change_row(live.id, [_ends_by(live.id, ends_by)], [])
        self._tx.require([state(live.id, "active")])
        self._tx.forbid(asked_to_end(live.id))
        self._write(
            Cancellation(
                session_id=live.id,
                number=self._number(live.id),
                by_iri=self._by,
                time=self._now,
                rule=rule or self._rule,
                ends_by=ends_by,
                words=Words.of(reason),
            )
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
        self._change_row(live.id, [state(live.id, after)], occupied(live))
        self._result(live, self._transition(live.id, live.state, after, error, rule=rule), status, said)
        self.moved[live.id] = None
        self._tell(live, status, said, error)
        for child in self._index.children(live.id):
            why = f"its parent {live.id} ended"
            if child.state == "suspended":
                self.end(child, "expired", "expired", grace=grace, error=why, doomed=doomed, rule=_WITH_PARENT)
            elif not doomed:
                self.cancel(child, time_after(self._now, grace), why, _WITH_PARENT)

    def _result(self, live: Live, transition: int, status: Status, said: Report) -> None:
        number = self._number(live.id)
        words = None if said.summary is None else Words.of(said.summary)
        self._write(
            Result(
                session_id=live.id,
                number=number,
                status=status,
                memory_ids=said.memory_ids,
                transition=transition,
                time=self._now,
                words=words,
            )
        )
        for each in said.artifacts:
            self._write(
                ArtifactEntry(
                    session_id=live.id,
                    number=self._number(live.id),
                    result=number,
                    transition=transition,
                    uri=each.uri,
                    change=each.change,
                    sha256=each.sha256,
                )
            )

    def _tell(self, live: Live, status: Status, said: Report, error: str | None) -> None:
        """Put the result into the parent's inbox, where it is held for the parent to decide."""
        if live.parent is None or not self._store.quads(_type_of(live.parent)):
            return  # a session that was imported without the one that spawned it has nobody to tell
        self._write(
            Event(
                session_id=live.parent,
                number=self._number(live.parent),
                direction="inbound",
                source=SOURCE,
                event_id=live.id,
                mode="hold",
                author_iri=iris.agent(live.agent),
                time=self._now,
                received=self._now,
                waiting=True,
                words=Words.of(results.told(live.id, live.kind, status, said, error)),
            )
        )

    # --- the commit

    @property
    def entries(self) -> Mapping[str, list[Entry]]:
        """The entries that are written, by session."""
        return self._entries

    def kept_as(self, session_id: str, fork: str) -> None:
        """Note with a session's transition which fork holds the turns that could not be stored in it."""
        self._entries[session_id] = [
            each.model_copy(update={"kept_as": fork}) if isinstance(each, Transition) else each
            for each in self._entries[session_id]
        ]

    def only_under(self, parent: str, *states: TreeState, inherits: Sequence[Quad] = ()) -> None:
        """Let the commit happen only while a session is there, in a state (where one is given), and not asked to end.

        `inherits` is what must still be said of it.
        """
        self._tx.session(parent)
        self._tx.require(inherits)
        self._tx.require(state(parent, each) for each in states)
        self._tx.forbid(asked_to_end(parent))

    def change(self) -> Proposal:
        """Return the whole as a commit, which happens only while all is as the index has it."""
        whole = Transaction()
        whole.join(self._tx)
        whole.log(self._row_leaves)
        for session_id, made in self._entries.items():
            (enter if session_id in self._new else put)(whole, session_id, made)
        return whole.change()

    def _row_leaves(self, store: Preview) -> list[Leaf]:
        made = leaves.rows("create", self._new)(store)
        return [*made, *leaves.rows("change", list(self._rows))(store)]


def state(session_id: str, value: TreeState) -> Quad:
    """Return the quad that says which state a session is in."""
    return Quad(NamedNode(iris.session(session_id)), vocab.STATE, Literal(value), vocab.CATALOG)


def slot_quad(session_id: str, slot: str) -> Quad:
    """Return the quad that says which slot a session takes."""
    return Quad(NamedNode(iris.session(session_id)), vocab.SLOT, Literal(slot), vocab.CATALOG)


def occupied(live: Live) -> list[Quad]:
    """Return what goes from a session's row when it leaves its state: that, and its slot."""
    slot = [] if live.slot is None else [slot_quad(live.id, live.slot)]
    return [state(live.id, live.state), *slot]


def asked_to_end(session_id: str) -> Pattern:
    """Return the pattern that matches once a session was asked to end."""
    return NamedNode(iris.session(session_id)), vocab.ENDS_BY, None, vocab.CATALOG


def _ends_by(session_id: str, time: datetime) -> Quad:
    return Quad(NamedNode(iris.session(session_id)), vocab.ENDS_BY, time_literal(time), vocab.CATALOG)


def _type_of(session_id: str) -> Pattern:
    return NamedNode(iris.session(session_id)), vocab.TYPE, vocab.SESSION, vocab.CATALOG


def told_by(index: Index, live: Live) -> set[str]:
    """Return the sessions whose ledgers are written when a session ends, as far as the tree knows."""
    found = {live.id} if live.parent is None else {live.id, live.parent}
    for child in index.children(live.id):
        found |= told_by(index, child) if child.state == "suspended" else {child.id}
    return found


@contextmanager
def holding(book: Book, session_ids: set[str]) -> Iterator[dict[str, int]]:
    """Hold the ledgers of sessions, and give the number that the next entry of each gets."""
    with ExitStack() as stack:
        yield {each: stack.enter_context(book.at(each)) for each in sorted(session_ids)}
