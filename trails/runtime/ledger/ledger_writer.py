"""Write ledger entries: one at a time per session, each commit whole and logged."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from pyoxigraph import Literal, NamedNode

from trails.errors import InvalidInput
from trails.history.records import ledger_entries
from trails.history.removal import redaction
from trails.history.transaction import Proposal, Transaction, is_stored
from trails.integrity.leaves import Leaf
from trails.model import iris, validation
from trails.rdf import ledger_records, vocab
from trails.rdf.activity_records import Deed
from trails.rdf.ledger_records import Entry, LedgerEntry
from trails.session import Repository
from trails.store.contract import PreconditionFailed


class LedgerRuntime:
    """What a process does with the ledgers of one store, shared by all `Ledger`s on it. Nothing here needs to survive."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._locks: dict[str, threading.RLock] = {}
        self._numbers: dict[str, int] = {}
        self._busy: set[str] = set()
        self._asked: set[str] = set()
        self.intake = threading.RLock()
        """Held while a message with a source's id is looked for and put in; taken before the lock of a session."""
        self.at_work: dict[str, int] = {}
        """The number of the exchange that is being worked on, by session."""

    def lock(self, session_id: str) -> threading.RLock:
        """Return the lock under which entries of a session's ledger are read and written; never held during a handler."""
        with self._lock:
            return self._locks.setdefault(session_id, threading.RLock())

    def enter(self, session_id: str) -> bool:
        """Tell whether the caller is now the one who works on a session; if not, whoever is looks for messages again."""
        with self._lock:
            if session_id in self._busy:
                self._asked.add(session_id)
                return False
            self._busy.add(session_id)
            return True

    def was_asked(self, session_id: str) -> bool:
        """Tell whether there is reason to look again; if not, the session is free for others from now on."""
        with self._lock:
            if session_id in self._asked:
                self._asked.discard(session_id)
                return True
            self._busy.discard(session_id)
            return False

    def leave(self, session_id: str) -> None:
        """Let others work on a session."""
        with self._lock:
            self._busy.discard(session_id)
            self._asked.discard(session_id)

    def next_number(self, session_id: str, read: Callable[[], int]) -> int:
        """Return the number that a session's next entry gets; `read` gives the last one where it is not known."""
        if session_id not in self._numbers:
            self._numbers[session_id] = read()
        return self._numbers[session_id] + 1

    def wrote(self, session_id: str, number: int | None) -> None:
        """Take note of the last number; None where it must be read again."""
        if number is None:
            self._numbers.pop(session_id, None)
        else:
            self._numbers[session_id] = max(number, self._numbers.get(session_id, 0))


_Kind = TypeVar("_Kind", bound=LedgerEntry)
_State = TypeVar("_State")
_LOCK = threading.RLock()


def shared_state(repository: Repository, kind: Callable[..., _State], *arguments: Any) -> _State:
    """Return what this process keeps of a kind for one open store, made when it is first asked for."""
    with _LOCK:
        states: dict[Callable[..., Any], Any] = vars(repository).setdefault("_runtime_states", {})
        if kind not in states:
            states[kind] = kind(*arguments)
        state: _State = states[kind]
        return state


class Book:
    """The ledgers of a store, as they are read and written."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self.runtime = shared_state(repository, LedgerRuntime)

    def where(
        self, kind: type[_Kind], session_id: str, predicate: NamedNode, value: NamedNode | Literal | None = None
    ) -> list[_Kind]:
        """Return the entries of a kind with a property (and value), in order."""
        entries_of = ledger_entries.read_entries_where(self._repository.store, session_id, predicate, value)
        return [entry for entry in entries_of if isinstance(entry, kind)]

    def entry(self, session_id: str, number: int, kind: type[_Kind]) -> _Kind:
        """Return an event or exchange by its number, or raise `InvalidInput`."""
        number = validation.index(number, "an entry's number")
        node = NamedNode(iris.ledger_entry(iris.session(session_id), number))
        entry = ledger_entries.read_entry(self._repository.store, session_id, node)
        if not isinstance(entry, kind):
            what = kind.__name__.lower()
            raise InvalidInput(
                f"entry {number} of the ledger of session {session_id!r} is no {what}; see `trails {what}s`"
            )
        return entry

    @contextmanager
    def at(self, session_id: str) -> Iterator[int]:
        """Hold a session's ledger, and give the number that its next entry gets."""
        with self.runtime.lock(session_id):
            try:
                yield self.runtime.next_number(session_id, partial(self._last, session_id))
            except BaseException:  # whether the entry was written is not known: the next number is read anew
                self.runtime.wrote(session_id, None)
                raise

    def _last(self, session_id: str) -> int:
        rows = self._repository.reader.select("last_entry", session=session_id)
        return int(rows[0]["last"].value) if rows else 0

    def write(
        self,
        session_id: str,
        made: Sequence[Entry],
        moved: Sequence[tuple[Entry, Entry]] = (),
        *,
        taken_out: Deed | None = None,
    ) -> None:
        """Write entries in one commit (inside `at`); raise `SessionNotFound` where the session is gone.

        With `taken_out`, those that move on lose their texts for good: that is recorded.
        """
        tx = Transaction()
        if taken_out is not None:
            redaction.redaction_record(tx, [old.iri for old, _ in moved], taken_out, place="ledger text")
        put_entries(tx, session_id, made, moved)
        tx.commit(self._repository.store, otherwise=lambda failure: self.refusal(session_id, failure))
        self.wrote(session_id, made)

    def wrote(self, session_id: str, made: Sequence[Entry]) -> None:
        """Take note of entries that were written."""
        if made:
            self.runtime.wrote(session_id, max(entry.number for entry in made))

    def refusal(self, session_id: str, failure: PreconditionFailed) -> Exception:
        """Return the error that a failed precondition means to the caller."""
        self.runtime.wrote(session_id, None)
        if failure.missing == is_stored(session_id):
            return self._repository.reader.not_found(session_id)
        return InvalidInput(
            f"the ledger of session {session_id!r} was changed by another writer meanwhile ({failure}); nothing was "
            "written: try again, and an exchange that failed by this with `retry`"
        )


def change_entries(session_id: str, made: Sequence[Entry], moved: Sequence[tuple[Entry, Entry]] = ()) -> Proposal:
    """Return the commit that makes entries and moves others on, each only from the state that it was read in."""
    tx = Transaction()
    put_entries(tx, session_id, made, moved)
    return tx.change()


def put_entries(
    tx: Transaction, session_id: str, made: Sequence[Entry], moved: Sequence[tuple[Entry, Entry]] = ()
) -> None:
    """Make entries and move others on, each only from the state that it was read in, while their session is there."""
    tx.session(session_id)
    enter_entries(tx, session_id, made, moved)


def enter_entries(
    tx: Transaction, session_id: str, made: Sequence[Entry], moved: Sequence[tuple[Entry, Entry]] = ()
) -> None:
    """Do the same in the ledger of a session that comes with the same commit."""
    leaves: list[Leaf] = []
    for entry in made:
        if entry.number == 1:
            tx.add(ledger_records.head_quads(session_id))
        quads = ledger_records.entry_quads(entry)
        tx.new(quads)
        leaves += [ledger_records.entry_leaf(entry, quads), *ledger_records.entry_leaves(entry)[1:]]
    for old, new in moved:
        before = set(ledger_records.entry_quads(old))
        tx.move(before, ledger_records.entry_quads(new))
        tx.require(quad for quad in before if quad.predicate == vocab.STATE)
    leaves += [
        ledger_records.entry_leaf(new)
        for old, new in moved
        if ledger_records.entry_row_digest(old) != ledger_records.entry_row_digest(new)
    ]
    said = ((ledger_records.content_leaf(old), ledger_records.content_leaf(new)) for old, new in moved)
    leaves += [after for before, after in said if after is not None and after != before]
    tx.log_leaves(leaves)
