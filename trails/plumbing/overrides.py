"""Entries of sessions with keys in a store: reading them, and what the rules of sessions do with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from pyoxigraph import Literal, NamedNode, Quad

from trails import iris, queries, vocab
from trails.decoding import decodes
from trails.integrity import digests
from trails.model import Finding, SessionRecord
from trails.plumbing.kind import Beside, Checks, Evidence, Kind, Withheld
from trails.plumbing.taking import Taking
from trails.records.overrides import SessionEntry, decode, difference, faults, graph_of, holding, repeating
from trails.store.contract import Matching, QuadStore, Solutions


@decodes
def read(store: QuadStore, session_id: str) -> SessionEntry:
    """Return a session's entry; an empty one where nothing was written."""
    return decode(session_id, store.quads((None, None, None, graph_of(session_id))))


def without(store: QuadStore, session_id: str, names: Iterable[str]) -> tuple[list[Quad], list[Quad]]:
    """Return what goes and what comes when fields are taken out of a session's entry."""
    before = read(store, session_id)
    gone = set(names)
    fields = {name: text for name, text in before.fields.items() if name not in gone}
    after = before.model_copy(update={"fields": fields, "salt": digests.new_salt()})
    return difference(before, after)


# --- with the session whose entry it is


def _logged(store: Matching, node: NamedNode, row: Sequence[Quad]) -> list[Quad]:
    """Return the entry of a session, which is logged with its row; nothing unless it has a key."""
    return _exported(store, node) if any(quad.predicate == vocab.KEY for quad in row) else []


def _exported(store: Matching, node: NamedNode) -> list[Quad]:
    return store.quads((None, None, None, NamedNode(iris.session_entry(node.value))))


def _checks(evidence: Evidence) -> Checks:
    return Checks(store=lambda records, _: _findings(evidence.store, records))


def _findings(store: QuadStore, records: Mapping[str, SessionRecord]) -> Iterator[Finding]:
    for record in records.values():
        graph = store.quads((None, None, None, graph_of(record.id))) if record.key is not None else []
        for what in faults(record.id, graph):
            message = f"session {record.id!r}: its entry is altered: {what}"
            yield Finding(code="bad-key", session_id=record.id, message=message)


def _withheld(store: QuadStore, _: Sequence[NamedNode], needles: Sequence[str]) -> Withheld:
    """Take out the fields that hold one of the texts of redacted turns."""
    remove: list[Quad] = []
    add: list[Quad] = []
    fields: dict[str, list[str]] = {}
    for session_id in _holders(store, needles):
        if names := holding(read(store, session_id), needles):
            fields[session_id] = names
            gone, kept = without(store, session_id, names)
            remove += gone
            add += kept
    report = [(session_id, name) for session_id, names in fields.items() for name in names]
    return Withheld(remove, add, rows=fields.keys(), report={"fields": report})


def _holders(store: QuadStore, needles: Sequence[str]) -> list[str]:
    """Return the sessions whose entries hold one of some texts."""
    query = queries.find("entries_holding")
    found = [store.query(query.bind(text=batch)) for batch in queries.batches(needles)]
    held = {iris.session_id(row[0].value) for rows in found if isinstance(rows, Solutions) for row in rows}
    return sorted(held)


def _purge(taking: Taking, graph: str, quads: Sequence[Quad], hits: Sequence[Quad]) -> None:
    """Take out the fields of a session's entry that hold a text."""
    session_id = iris.session_id(graph)
    for quad in hits:
        taking.place(session_id, "entry field", quad.predicate.value)
    after = [quad for quad in quads if quad not in set(hits) and quad.predicate != vocab.SALT]
    node, salt = NamedNode(iris.session(session_id)), Literal(digests.new_salt())
    taking.found.swap(quads, [*after, Quad(node, vocab.SALT, salt, NamedNode(graph))])
    taking.found.note(session_id, graph)
    if taking.is_live(session_id):
        taking.found.rows.add(session_id)


OVERRIDES: Final = Kind(
    name="entries of sessions with keys",
    beside=Beside("entry", needs_key=True),
    logged=_logged,
    checks=_checks,
    withheld=_withheld,
    purge=_purge,
    exported=_exported,
    repeating=repeating,
)
