"""What the ledger of a session of the tree says of it: its changes of state, its result."""

from __future__ import annotations

from trails import vocab
from trails.plumbing import ledger_entries, redaction_records
from trails.plumbing.transaction import Transaction
from trails.records.deeds import Deed
from trails.records.entry import LedgerEntry
from trails.records.tree_entries import ArtifactEntry, Brief, Cancellation, Result, Transition
from trails.store.contract import QuadStore
from trails.tree.lifecycle import Lifecycle
from trails.tree.results import SessionResult, of_entries
from trails.tree.transaction import SOURCE

_ENTRIES = (vocab.TO_STATE, vocab.STATUS, vocab.ARTIFACT_OF)


def history(store: QuadStore, session_id: str) -> list[Transition | Cancellation]:
    """Return every change of a session's state and the request to end, in order."""
    found: list[LedgerEntry] = []
    for kind in (vocab.TRANSITION, vocab.CANCELLATION):
        found += ledger_entries.read_where(store, session_id, vocab.TYPE, kind)
    both = [each for each in found if isinstance(each, Transition | Cancellation)]
    return sorted(both, key=lambda entry: entry.number)


def result(lifecycle: Lifecycle, session_id: str) -> SessionResult | None:
    """Return how a session ended, or None where it has not."""
    store, found = lifecycle.repository.store, list[LedgerEntry]()
    for predicate in _ENTRIES:
        found += ledger_entries.read_where(store, session_id, predicate)
    return of_entries(lifecycle.record(session_id).spawned_by, found)


def withhold(lifecycle: Lifecycle, session_id: str, deed: Deed) -> int:
    """Take the texts of what a session was told and of how it ended out for good; return how many there were."""
    store, record = lifecycle.repository.store, lifecycle.record(session_id)
    texts = ledger_entries.read(store, record.id)
    doomed: list[LedgerEntry] = [
        each for each in texts if isinstance(each, Transition | Cancellation | Brief | Result | ArtifactEntry)
    ]
    if record.spawned_by is not None:
        doomed += [
            each
            for each in ledger_entries.read(store, record.spawned_by)
            if getattr(each, "source", None) == SOURCE and getattr(each, "event_id", None) == record.id
        ]
    quads = [quad for each in doomed for quad in ledger_entries.quads_of(store, each)]
    remove, add = ledger_entries.withhold(quads)
    if add:
        tx = Transaction()
        tx.take(remove)
        tx.add(add)
        parts = [str(getattr(quad.subject, "value", "")) for quad in add]
        redaction_records.record(tx, parts, deed, place="ledger text")
        tx.commit(store)
    return len(add)
