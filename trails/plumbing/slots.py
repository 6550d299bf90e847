"""The slots of the session tree in the catalog: each is taken by one session at most, also by one that is imported."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from pyoxigraph import Literal, NamedNode

from trails import iris, vocab
from trails.model import SessionRecord
from trails.store.contract import QuadStore
from trails.store.pattern import Pattern


def findings(records: Iterable[SessionRecord]) -> Iterator[tuple[str, str, str]]:
    """Give (code, session, what) for each session that takes a slot that another one takes too."""
    holders: dict[str, list[str]] = defaultdict(list)
    for record in records:
        if record.slot is not None:
            holders[record.slot].append(record.id)
    for slot, ids in holders.items():
        for each in ids[1:]:
            yield "bad-row", each, f"takes the slot {slot!r} of the session tree, which {ids[0]!r} takes too"


def taking(slot: str) -> Pattern:
    """Return the pattern that matches while a slot is taken."""
    return None, vocab.SLOT, Literal(slot), vocab.CATALOG


def holder(store: QuadStore, slot: str) -> str | None:
    """Return the id of the session that takes a slot, or None where it is free."""
    found = [quad.subject for quad in store.quads(taking(slot)) if isinstance(quad.subject, NamedNode)]
    return iris.session_id(found[0].value) if found else None
