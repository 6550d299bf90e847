"""Entries of sessions with keys in a store: reading them, and taking fields out of them."""

from __future__ import annotations

from collections.abc import Iterable

from pyoxigraph import Quad

from trails.decoding import decodes
from trails.integrity import digests
from trails.records.overrides import SessionEntry, decode, difference, graph_of
from trails.store.contract import QuadStore


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
