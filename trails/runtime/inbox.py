"""Write entries into ledgers; receive, order and drop messages; record deliveries.

Entries are written one at a time per session, and each commit is whole and logged.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple, Self, TypeVar, get_args

from pyoxigraph import Literal, NamedNode

from trails.errors import InvalidInput
from trails.history.records import ledger_entries
from trails.history.removal import redaction
from trails.history.transaction import Proposal, Transaction, is_stored
from trails.integrity.leaves import Leaf
from trails.model import content_parts, iris, validation
from trails.model.values import Turn
from trails.rdf import activity_records, ledger_records, vocab
from trails.rdf.activity_records import Deed
from trails.rdf.ledger_records import Entry, EntryTexts, Event, LedgerEntry, Mode
from trails.runtime.config_values import time_after
from trails.session import Repository
from trails.store.contract import PreconditionFailed

_Kind = TypeVar("_Kind", bound=LedgerEntry)
_State = TypeVar("_State")
_LOCK = threading.RLock()
Moved = Sequence[tuple[Entry, Entry]]
"""Entries as they are stored, and as they become."""


def shared_state(repository: Repository, kind: Callable[[Repository], _State]) -> _State:
    """Return what this process keeps of a kind for one open store, made when it is first asked for."""
    with _LOCK:
        states: dict[Callable[..., Any], Any] = vars(repository).setdefault("_runtime_states", {})
        if kind not in states:
            states[kind] = kind(repository)
        state: _State = states[kind]
        return state


class Book:
    """The ledgers of a store, as they are read and written.

    A process has one for each open store (`Book.of`): all handles on the store share its locks.
    """

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._lock = threading.Lock()
        self._locks: dict[str, threading.RLock] = {}
        self._busy: dict[str, bool] = {}
        """The sessions that somebody works on, and whether others asked for work on them meanwhile."""
        self.intake = threading.RLock()
        """Held while a message with a source's id is looked for and put in; taken before the lock of a session."""
        self.at_work: dict[str, int] = {}
        """The number of the exchange that is being worked on, by session."""

    @classmethod
    def of(cls, repository: Repository) -> Self:
        """Return the book of an open store."""
        return shared_state(repository, cls)

    # --- who works on a session

    def enter(self, session_id: str) -> bool:
        """Return whether the caller is now the one who works on a session.

        If not, whoever is looks for messages again.
        """
        with self._lock:
            is_free = session_id not in self._busy
            self._busy[session_id] = not is_free
            return is_free

    def was_asked(self, session_id: str) -> bool:
        """Return whether there is reason to look again.

        If not, the session is free for others from now on.
        """
        with self._lock:
            if not self._busy[session_id]:
                del self._busy[session_id]
                return False
            self._busy[session_id] = False
            return True

    def leave(self, session_id: str) -> None:
        """Let others work on a session."""
        with self._lock:
            self._busy.pop(session_id, None)

    # --- reading

    def where(
        self, kind: type[_Kind], session_id: str, predicate: NamedNode, value: NamedNode | Literal | None = None
    ) -> list[_Kind]:
        """Return the entries of a kind with a property (and value), in order."""
        entries_of = ledger_entries.read_entries_where(self._repository.store, session_id, predicate, value)
        return [entry for entry in entries_of if isinstance(entry, kind)]

    def entry(self, session_id: str, number: int, kind: type[_Kind]) -> _Kind:
        """Return an event or exchange by its number.

        Raise `InvalidInput`.
        """
        node = _entry_node(session_id, validation.index(number, "an entry's number"))
        entry = ledger_entries.read_entry(self._repository.store, session_id, node)
        if not isinstance(entry, kind):
            what = kind.__name__.lower()
            raise InvalidInput(
                f"entry {number} of the ledger of session {session_id!r} is no {what}; see `trails {what}s`"
            )
        return entry

    def _last(self, session_id: str) -> int:
        """Return the number of a ledger's last entry: they are numbered from 1 without gaps, so it is looked up by halves."""
        store, graph = self._repository.store, ledger_records.ledger_graph(session_id)
        above = 1
        while store.quads((_entry_node(session_id, above), vocab.NUMBER, None, graph)):
            above *= 2
        last = above // 2
        while above - last > 1:
            middle = (last + above) // 2
            if store.quads((_entry_node(session_id, middle), vocab.NUMBER, None, graph)):
                last = middle
            else:
                above = middle
        return last

    # --- writing

    @contextmanager
    def at(self, session_id: str) -> Iterator[int]:
        """Hold a session's ledger, and give the number that its next entry gets; never during a handler."""
        with self._lock:
            lock = self._locks.setdefault(session_id, threading.RLock())
        with lock:
            yield self._last(session_id) + 1

    def write(self, session_id: str, made: Sequence[Entry], moved: Moved = (), *, deed: Deed | None = None) -> None:
        """Write entries in one commit (inside `at`).

        Raise `SessionNotFound` if the session is gone.

        With `deed`, those that move on lose their texts for good: that is recorded.
        """
        tx = Transaction()
        if deed is not None:
            redaction.redaction_record(tx, [old.iri for old, _ in moved], deed, place="ledger text")
        put_entries(tx, session_id, made, moved)
        tx.commit(self._repository.store, otherwise=lambda failure: self.refusal(session_id, failure))

    def refusal(self, session_id: str, failure: PreconditionFailed) -> Exception:
        """Return the error that a failed precondition means to the caller."""
        if failure.missing == is_stored(session_id):
            return self._repository.reader.not_found(session_id)
        return InvalidInput(
            f"the ledger of session {session_id!r} was changed by another writer meanwhile ({failure}); nothing was "
            "written: try again, and an exchange that failed by this with `retry`"
        )


def _entry_node(session_id: str, number: int) -> NamedNode:
    return NamedNode(iris.ledger_entry(iris.session(session_id), number))


def change_entries(session_id: str, made: Sequence[Entry], moved: Moved = ()) -> Proposal:
    """Return the commit that makes entries and moves others on, each only from the state that it was read in."""
    tx = Transaction()
    put_entries(tx, session_id, made, moved)
    return tx.change()


def put_entries(
    tx: Transaction, session_id: str, made: Sequence[Entry], moved: Moved = (), *, new_session: bool = False
) -> None:
    """Make entries and move others on, each only from the state that it was read in, while their session is there.

    A `new_session` comes with the same commit.
    """
    if not new_session:
        tx.session(session_id)
    leaves: list[Leaf] = []
    for entry in made:
        if entry.number == 1:
            tx.add(ledger_records.head_quads(session_id))
        tx.new(ledger_records.entry_quads(entry))
        leaves += ledger_records.entry_leaves(entry)
    for old, new in moved:
        before, logged = set(ledger_records.entry_quads(old)), ledger_records.entry_leaves(old)
        tx.move(before, ledger_records.entry_quads(new))
        tx.require(quad for quad in before if quad.predicate == vocab.STATE)
        leaves += [leaf for leaf in ledger_records.entry_leaves(new) if leaf not in logged]
    tx.log_leaves(leaves)


class NextMessages(NamedTuple):
    """The messages that the next exchange takes up.

    Without any, when there will be some (None: nothing waits).
    """

    events: tuple[Event, ...]
    due: datetime | None


def next_messages(waiting: Sequence[Event], now: datetime, debounce: timedelta) -> NextMessages:
    """Return what the next exchange takes up of the events that wait, given in order.

    What is held is left where it is. Of the others the first one alone, unless it is to be collected: then also those
    right after it that came from the same address within `debounce` of one another, once nothing more came for that
    long, or something else did.
    """
    group: list[Event] = []
    for event in (each for each in waiting if each.mode != "hold"):
        is_other = event.mode != "collect" or any(each.address != event.address for each in group)
        if group and (is_other or _received(event) - _received(group[-1]) > debounce):
            return NextMessages(tuple(group), None)
        group.append(event)
        if is_other:
            return NextMessages(tuple(group), None)
    if not group:
        return NextMessages((), None)
    due = time_after(_received(group[-1]), debounce)
    return NextMessages(tuple(group), None) if now >= due else NextMessages((), due)


def _received(event: Event) -> datetime:
    return event.received or event.time


_LONGEST_ID: Final = 1000
"""Characters of an event's id: a Message-ID may be that long (RFC 5322 has 998 a line)."""


# --- in


def inbound_event(
    session_id: str,
    content: str | Sequence[Any],
    *,
    now: datetime,
    source: str | None = None,
    event_id: str | None = None,
    channel: str | None = None,
    account: str | None = None,
    peer: str | None = None,
    author: str | None = None,
    time: datetime | None = None,
    mode: Mode = "followup",
) -> Event:
    """Return a message, checked, that has no number yet (0)."""
    if mode not in get_args(Mode):
        raise InvalidInput(f"mode is one of {', '.join(get_args(Mode))}, not {mode!r}")
    if event_id is not None and not 1 <= len(validation.text(event_id, "event_id")) <= _LONGEST_ID:
        raise InvalidInput(f"event_id must have 1 to {_LONGEST_ID} characters, not {len(event_id)}")
    text, structured = validation.content(content)
    if not content_parts.holds_anything(content):
        raise InvalidInput(f"the message for session {session_id!r} is empty: give it a text or parts")
    return Event(
        session_id=session_id,
        number=0,
        direction="inbound",
        source=_name(source, "source"),
        event_id=event_id,
        channel=_name(channel, "channel"),
        account=_name(account, "account"),
        peer=_name(peer, "peer"),
        mode=mode,
        author_iri=activity_records.named_actor(author),
        time=now if time is None else validation.time(time),
        received=now,
        waiting=True,
        words=EntryTexts.of(text, structured=structured),
    )


def _name(value: str | None, what: str) -> str | None:
    return None if value is None else validation.name(value, what)


def existing_event(repository: Repository, book: Book, made: Event) -> Event | None:
    """Return the event with the same source and id that the store has already, or None; without a source, the session.

    Raises `InvalidInput` if it says something else.
    """
    if made.event_id is None:
        return None
    earlier = next((each for each in _with_id(repository, book, made) if each.source == made.source), None)
    if earlier is None:
        return None
    before, now = event_words(repository, earlier), made.words
    if before is not None and now is not None and (before.text, before.structured) != (now.text, now.structured):
        raise InvalidInput(
            f"session {earlier.session_id!r} has another message with the id {made.event_id!r} of {made.source!r} "
            f"(entry {earlier.number}); an id stands for one message: give this one an id of its own"
        )
    return earlier


def _with_id(repository: Repository, book: Book, made: Event) -> Iterator[Event]:
    """Yield the entries with the id of a message: those of its session, then those of others if a source gave the id."""
    wanted = Literal(made.event_id or "")
    yield from book.where(Event, made.session_id, vocab.EVENT_ID, wanted)
    if made.source is None:
        return
    for quad in repository.store.quads((None, vocab.EVENT_ID, wanted, None)):
        session_id = iris.session_id(str(quad.subject.value))  # type: ignore[union-attr] # an IRI
        if session_id != made.session_id and session_id in repository:  # else deleted, and still to be swept
            yield from book.where(Event, session_id, vocab.EVENT_ID, wanted)


def event_words(repository: Repository, event: Event) -> EntryTexts | None:
    """Return what an event says, from its own text or from its turn.

    None if that was removed.
    """
    if event.words is not None and event.words.text is not None:
        return event.words
    for turn_iri in event.turn_iris:
        value = turn_value(repository, turn_iri)
        if value is not None and value.datatype != vocab.REDACTED:
            return EntryTexts(text=value.value, structured=value.datatype == vocab.JSON, digest="")
    return None


def turn_value(repository: Repository, turn_iri: str) -> Literal | None:
    """Return a stored turn's content as it is stored.

    None if there is no such turn.
    """
    graph = NamedNode(iris.session(iris.session_id(turn_iri)))
    for quad in repository.store.quads((NamedNode(turn_iri), vocab.VALUE, None, graph)):
        if isinstance(quad.object, Literal):
            return quad.object
    return None


def turn_node(what: Turn | str) -> NamedNode:
    """Return the node of a turn that is given itself or by its IRI; whether it is there is not looked up."""
    iri = what.iri if isinstance(what, Turn) else validation.text(what, "the turn")
    try:
        iris.turn_index(iri)
        iris.session_id(iri)
        return NamedNode(iri)
    except ValueError as error:
        raise InvalidInput(f"{iri!r} is not the IRI of a turn") from error
