"""Bringing stores of older formats up to this version's: the steps, with what they need to know of sessions."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from trails import iris, vocab
from trails.files import as_path, in_words
from trails.integrity.leaves import Leaf
from trails.plumbing import leaves, ledger_entries, logged, run_rows
from trails.plumbing.reader import Reader
from trails.store import format1, marker
from trails.store import upgrade as upgrading
from trails.store.contract import QuadStore
from trails.store.embedded import EmbeddedStore
from trails.store.upgrade import Migration, Upgraded


def upgrade(
    folder: str | os.PathLike[str],
    *,
    backup: str | os.PathLike[str] | None = None,
    migrations: Mapping[int, Migration] | None = None,
) -> Upgraded:
    """Bring a store up to the newest format, after a backup; a store that is there already is left as it is.

    What `trails.store.upgrade.upgrade` says holds here; `migrations` are those of this version unless given.
    """
    place = as_path(folder, "the store's folder")
    kept = None if backup is None else as_path(backup, "the place of the backup")
    with in_words(place, "upgraded"):
        return upgrading.upgrade(place, backup=kept, migrations=MIGRATIONS if migrations is None else migrations)


def _to_commit_log(folder: Path) -> str:
    """From format 1 to 2: begin a commit log, and write the leaves that a crash kept from the log of leaves."""
    closed = format1.ended_well(folder)
    format1.begin_commit_log(folder)
    if closed:
        return ""
    store = EmbeddedStore(folder, accept=1)
    try:
        store.flush()  # a record makes the next opening drop what the engine has not flushed
        missing = _missing_leaves(store)
        store.take_as_found(missing)
    finally:
        store.close()
    if not missing:
        return ""
    return (
        f"the store was not closed well, and {len(missing)} commits that its log lacked were taken as they were found"
    )


def _to_named_doers(folder: Path) -> str:
    """From format 2 to 3: nothing is rewritten; the marker says how far the log was until then."""
    note = marker.read(folder)
    if "older" not in note:
        store = EmbeddedStore(folder, accept=2)
        try:
            lines = len(store.log.lines())
        finally:
            store.close()
        marker.write(folder, marker.raised(note, lines) | {"format": note["format"]})
    return ""


def _missing_leaves(store: QuadStore) -> list[Leaf]:
    """Return the leaves that a crash kept from a log of format 1, as that format wrote them: rows as a whole, without salt."""
    lines = store.log.lines()
    known = logged.by_session(lines)
    made: list[Leaf] = []
    for kind in (vocab.SESSION, vocab.TOMBSTONE):
        for quad in store.quads((None, vocab.TYPE, kind, vocab.CATALOG)):
            row = leaves.row_of(store, iris.session_id(str(quad.subject.value)))  # type: ignore[union-attr] # an IRI
            made += _of_session(store, row, known.get(iris.session_id(row.node.value), logged.SessionLog()))
    made += [leaf for leaf, _ in leaves.redactions(store) if leaf not in logged.redactions(lines)]
    return [*made, *_beside_sessions(store, lines)]


def _of_session(store: QuadStore, row: leaves.Row, log: logged.SessionLog) -> list[Leaf]:
    if row.is_tombstone:
        return [] if log.deleted and log.made_with == row.whole else [Leaf("delete", row.node.value, 0, row.whole)]
    made: list[Leaf] = []
    if log.made_with is None or log.deleted:
        first = row.first_leaf()
        made.append(Leaf(first.kind, row.node.value, first.count, row.whole))
    elif log.row != row.whole:
        made.append(Leaf("change", row.node.value, 0, row.whole))
    count = log.heads[-1][0] if log.heads else row.first_leaf().count
    reader, head = Reader(store), None
    while (digest := reader.digest_at(iris.session_id(row.node.value), count)) is not None:
        head, count = digest, count + 1
    return made if head is None else [*made, leaves.turns(iris.session_id(row.node.value), count, head)]


def _beside_sessions(store: QuadStore, lines: Sequence[str]) -> list[Leaf]:
    """Return the missing leaves of ledgers, of runs, and of runs that were removed."""
    entries = {(leaf.session_iri, leaf.count): leaf for leaf in ledger_entries.all_leaves(store) if leaf.kind != "said"}
    known = ledger_entries.logged(lines)
    made = [
        leaf
        for (session_iri, number), leaf in entries.items()
        if (log := known.get(session_iri, {}).get(number)) is None or log.digest != leaf.digest
    ]
    runs = run_rows.logged(lines)
    return made + [
        leaf
        for leaf in run_rows.all_leaves(store)
        if (run := runs.get(leaf.session_iri)) is None or run.digest != leaf.digest
    ]


MIGRATIONS: Final[Mapping[int, Migration]] = {
    1: Migration("a commit log under everything", _to_commit_log),
    2: Migration("who did a thing is who was named; copies have no activities", _to_named_doers),
}
"""By the format that each starts from; it ends at the next one. Format 1 is the first that was released."""
