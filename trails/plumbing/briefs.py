"""What a session was told when another one spawned it: its task, and what its parent summed up for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from trails import vocab
from trails.decoding import decodes
from trails.model import SessionRecord
from trails.plumbing import ledger_entries
from trails.records.tree_entries import Brief
from trails.store.contract import QuadStore


class Told(NamedTuple):
    """The texts that a session was told; None for one that it was not told, or that was taken out."""

    task: str | None = None
    context: str | None = None


@decodes
def told(store: QuadStore, chain: Sequence[SessionRecord]) -> Told:
    """Return what a session was told, given with its ancestors by forks: a fork was told what its nearest ancestor was."""
    for record in chain:
        if record.kind is None and record.spawned_by is None:
            continue  # nobody spawned it: nearly all sessions, and nothing is looked up for them
        found: list[Brief] = []
        for kind in (vocab.TASK_BRIEF, vocab.CONTEXT_SUMMARY):
            entries = ledger_entries.read_where(store, record.id, vocab.TYPE, kind)
            found += [entry for entry in entries if isinstance(entry, Brief)]
        if found:
            texts = {entry.what: None if entry.words is None else entry.words.text for entry in found}
            return Told(texts.get("task"), texts.get("context"))
    return Told()
