"""Upgrade stores of older formats.

Figures of model calls that an earlier version counted otherwise: found for doctor, and put right by an import or a vacuum.

Bringing stores of older formats up to this version's: the steps, with what they need to know of sessions.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import Final

import pyoxigraph as ox
from pyoxigraph import NamedNode, Quad

from trails.errors import TrailsError
from trails.files import as_path, in_words
from trails.history import log_history, log_leaves
from trails.history.reader import Reader
from trails.history.records import ledger_entries, subagent_runs
from trails.history.transaction import Transaction
from trails.integrity.leaves import Leaf
from trails.model import iris
from trails.model.validation import stored_object
from trails.model.values import Turn
from trails.rdf import vocab
from trails.rdf.turn_quads import Recount, find_recounts
from trails.store import format1, maintenance, marker
from trails.store import upgrade as upgrading
from trails.store.contract import Matching, PreconditionFailed, QuadStore
from trails.store.doctor import Check
from trails.store.embedded import EmbeddedStore
from trails.store.upgrade import Migration, Upgraded
from trails.usage import figures_of, older_figures_of, source_of

_MOST: Final = 10_000
"""Calls after which doctor counts no further."""
_REMEDY: Final = (
    "`trails import` of the same files counts them anew, `trails store vacuum` all; `trails cost` and `trails stats` have "
    "them right already, queries of the graph do not"
)


def recount_changes(store: Matching, turns: Iterable[Turn]) -> tuple[list[Quad], list[Quad]]:
    """Return the quads that go and those that come so that the model calls of some turns are counted as they are now."""
    calls = ((turn, turn.facts.model_call) for turn in turns)
    older = [turn for turn, call in calls if call and call.usage_json and _is_counted_otherwise(call.usage_json)]
    return _changes(
        store, ((NamedNode(iris.model_call(turn.iri)), NamedNode(iris.session(turn.session_id))) for turn in older)
    )


def _changes(store: Matching, calls: Iterable[tuple[NamedNode, NamedNode]]) -> tuple[list[Quad], list[Quad]]:
    gone, come = list[Quad](), list[Quad]()
    for node, graph in calls:
        quads = store.quads((node, None, None, graph))
        for each in find_recounts((quad.subject, quad.predicate, quad.object) for quad in quads):
            gone += [Quad(node, prop, value, graph) for prop, value in each.stored]
            come += [Quad(node, prop, value, graph) for prop, value in each.right]
    return gone, come


def recount_usage(store: QuadStore, session_ids: Iterable[str]) -> None:
    """Count the model calls of sessions as this version counts them, a commit for each session that needs it."""
    for session_id in session_ids:
        graph = NamedNode(iris.session(session_id))
        usages = store.quads((None, vocab.USAGE, None, graph))
        calls = [(quad.subject, graph) for quad in usages if _may_be_older(quad)]
        gone, come = _changes(store, calls)  # type: ignore[arg-type] # calls' IRIs
        if come:
            tx = Transaction()
            tx.take(gone)
            tx.add(come)
            with suppress(PreconditionFailed):  # it was deleted, or counted anew, meanwhile
                tx.commit(store)


def _is_counted_otherwise(usage_json: str) -> bool:
    usage = stored_object(usage_json)
    return figures_of(usage) != older_figures_of(usage)


def find_miscounted(folder: Path) -> Check:
    """Return what doctor says of how the store in a folder, which nobody has open, counts usage; nothing is changed."""
    try:
        store = ox.Store.read_only(str(folder / maintenance.QUADS))
        sources = Counter(source_of(stored_object(each.usage)) for each in islice(_older(store), _MOST))
    except (OSError, RuntimeError, TrailsError, ValueError) as error:
        return Check("usage", True, f"not looked at: {error}")
    if not sources:
        return Check("usage", True, "tokens are counted as this version counts them")
    named = ", ".join(f"{source} ({number:,})" for source, number in sorted(sources.items()))
    calls = sources.total()
    said = f"{calls:,}{' or more' if calls == _MOST else ''} model calls were counted otherwise by an earlier version"
    return Check("usage", False, f"{said}: {named}", _REMEDY)


def _older(store: ox.Store) -> Iterator[Recount]:
    usages = (quad for quad in store.quads_for_pattern(None, vocab.USAGE, None) if _may_be_older(quad))
    of_calls = (store.quads_for_pattern(quad.subject, None, None, quad.graph_name) for quad in usages)
    return chain.from_iterable(
        find_recounts((quad.subject, quad.predicate, quad.object) for quad in quads) for quads in of_calls
    )


def _may_be_older(quad: Quad) -> bool:
    try:
        return _is_counted_otherwise(str(getattr(quad.object, "value", "")))
    except (TrailsError, ValueError, TypeError):  # no usage that Trails writes
        return False


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
    known = log_history.logs_by_session(lines)
    made: list[Leaf] = []
    for kind in (vocab.SESSION, vocab.TOMBSTONE):
        for quad in store.quads((None, vocab.TYPE, kind, vocab.CATALOG)):
            row = log_leaves.row_of(store, iris.session_id(str(quad.subject.value)))  # type: ignore[union-attr] # an IRI
            made += _of_session(store, row, known.get(iris.session_id(row.node.value), log_history.SessionLog()))
    made += [leaf for leaf, _ in log_leaves.redaction_leaves(store) if leaf not in log_history.logged_redactions(lines)]
    return [*made, *_beside_sessions(store, lines)]


def _of_session(store: QuadStore, row: log_leaves.Row, log: log_history.SessionLog) -> list[Leaf]:
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
    return made if head is None else [*made, log_leaves.turns_leaf(iris.session_id(row.node.value), count, head)]


def _beside_sessions(store: QuadStore, lines: Sequence[str]) -> list[Leaf]:
    """Return the missing leaves of ledgers, of runs, and of runs that were removed."""
    entries = {
        (leaf.session_iri, leaf.count): leaf for leaf in ledger_entries.entry_leaves(store) if leaf.kind != "said"
    }
    known = ledger_entries.logged_entries(lines)
    made = [
        leaf
        for (session_iri, number), leaf in entries.items()
        if (log := known.get(session_iri, {}).get(number)) is None or log.digest != leaf.digest
    ]
    runs = subagent_runs.logged_runs(lines)
    return made + [
        leaf
        for leaf in subagent_runs.run_leaves(store)
        if (run := runs.get(leaf.session_iri)) is None or run.digest != leaf.digest
    ]


MIGRATIONS: Final[Mapping[int, Migration]] = {
    1: Migration("a commit log under everything", _to_commit_log),
    2: Migration("who did a thing is who was named; copies have no activities", _to_named_doers),
}
"""By the format that each starts from; it ends at the next one. Format 1 is the first that was released."""
