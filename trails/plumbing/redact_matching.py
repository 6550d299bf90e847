"""Taking one text out of a store wherever it stands: turns and all that is said with them, rows, ledgers, runs, names.

Every quad of the store is looked at, so that nothing is forgotten because nobody thought of it. What holds the text is
replaced in one commit; what cannot be (ids of sessions and runs, which the log names) is told. Each kind of thing is
changed as `verify` expects it: see `Walk`.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from typing import Any, Final

from pyoxigraph import NamedNode, Quad

from trails import iris, queries, vocab
from trails.errors import InvalidInput, TrailsError
from trails.integrity.leaves import Leaf
from trails.model import Value
from trails.plumbing import actors, leaves, redaction_records
from trails.plumbing.needle import Needle
from trails.plumbing.redact_matching_walk import OF_TURNS, Walk
from trails.plumbing.substitution import Substitution
from trails.plumbing.taking import Changed, Place, Taking
from trails.plumbing.transaction import Transaction
from trails.records.deeds import Deed
from trails.store.contract import PreconditionFailed, QuadStore, Solutions
from trails.store.preview import Preview

_ROUNDS: Final = 20
"""How often a store that others write to meanwhile is gone through again."""


class TextRedaction(Value):
    """What `redact_matching` took out, or would take out."""

    places: tuple[Place, ...]
    """Where the text stood (stands, in a dry run), in order of session, kind and index."""
    left: tuple[Place, ...] = ()
    """Where it still stands, because it cannot be taken out there: why is in each one's `why`."""
    dry_run: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, ready for JSON."""
        return self.model_dump()


def redact_matching(store: QuadStore, text: str, deed: Deed, *, dry_run: bool = False) -> TextRedaction:
    """Take a text out wherever it stands, in one commit, and record it; with `dry_run`, only say where it stands.

    Raises `InvalidInput` for a text that cannot be looked for, or where who does it, or the reason, holds it, and
    `IntegrityError` where a turn that would lose more than its texts does not verify; nothing is changed then.
    """
    needle = Needle(text)
    by = None if deed.by_iri == actors.UNKNOWN else iris.author_name(deed.by_iri)
    for said, what in ((by, "by"), (deed.reason, "the reason")):
        if said is not None and needle.within(said):
            raise InvalidInput(f"{what} holds the text that is to be taken out, and would be kept")
    substitution, places = Substitution(needle), dict[Place, None]()
    for _ in range(_ROUNDS):
        found = _found(store, needle, substitution)
        places |= dict.fromkeys(found.places)
        if dry_run or not found.places:
            return TextRedaction(places=_ordered(places), left=_ordered(found.left), dry_run=dry_run)
        try:
            _transaction(store, found, deed).commit(store)
        except PreconditionFailed:
            continue  # another thread changed some of it: look again
    raise TrailsError(
        f"the store {store.location} was written to again and again while a text was to be taken out of it, which may "
        "still be there: do it again when less is going on"
    )


def _ordered(places: Iterable[Place]) -> tuple[Place, ...]:
    return tuple(sorted(places, key=lambda each: (each.session_id or "", each.kind, each.index or 0, each.iri)))


def _found(store: QuadStore, needle: Needle, substitution: Substitution) -> Changed:
    found = Changed()
    walk = Walk(store, Taking(needle, substitution, found))
    walk.catalog(store.quads((None, None, None, vocab.CATALOG)))
    graphs = store.query(queries.find("graphs").bind())
    for (graph,) in graphs if isinstance(graphs, Solutions) else []:
        walk.graph(graph, store.quads((None, None, None, graph)))
    return found


def _transaction(store: QuadStore, found: Changed, deed: Deed) -> Transaction:
    """Return the commit for what was found, with what says who did it."""
    records: list[tuple[NamedNode, list[Quad]]] = []
    for turn in found.turns:
        node = redaction_records.next_of(store, turn.iri)
        rows = redaction_records.of_turn(node, turn.digest, deed, places=turn.kinds, stands_as=turn.stands_as)
        records.append((node, rows))
    for session_id, parts in found.parts.items():
        node = NamedNode(iris.redaction(iris.session(session_id), secrets.token_hex(8)))
        kinds = {place.kind for place in found.places if place.session_id == session_id} - OF_TURNS
        records.append((node, redaction_records.of_parts(node, deed, places=kinds, parts=parts)))
    made = [leaves.redaction_leaf(node, [row for row in rows if row.subject == node]) for node, rows in records]
    add = dict.fromkeys([*found.add, *(row for _, rows in records for row in rows)])
    tx = Transaction()
    tx.require(dict.fromkeys(found.remove))
    tx.remove(quad for quad in dict.fromkeys(found.remove) if quad not in add)
    tx.add(add)
    tx.log_leaves([*made, *found.leaves])
    tx.log(_made_anew(store, sorted(found.rows)))
    tx.log(leaves.rows("change", sorted(found.rows)))
    tx.log(_deleted_anew(sorted(found.tombstones)))
    return tx


def _made_anew(store: QuadStore, session_ids: Sequence[str]) -> leaves.LeafMaker:
    """Return the maker of leaves for what sessions were made with, where a name in it goes: else it has one leaf for ever."""
    before = {each: leaves.row_of(store, each) for each in session_ids}

    def made(after: Preview) -> list[Leaf]:
        found: list[Leaf] = []
        for session_id, old in before.items():
            new = leaves.row_of(after, session_id)
            if old.is_salted and new.made_with != old.made_with:
                found.append(leaves.resalted(after, new).first_leaf())
        return found

    return made


def _deleted_anew(session_ids: Sequence[str]) -> leaves.LeafMaker:
    """Return the maker of leaves for tombstones out of which a name goes."""

    def made(after: Preview) -> list[Leaf]:
        for session_id in session_ids:
            leaves.resalted(after, leaves.row_of(after, session_id))
        return list(leaves.rows("delete", session_ids)(after))

    return made
