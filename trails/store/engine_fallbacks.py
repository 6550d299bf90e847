"""What a store whose engine is in this process can do, and one at a distance cannot: how it is done with either."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import pyoxigraph as ox

from trails.errors import StoreFailed
from trails.store.contract import Change, QuadStore
from trails.store.embedded import EmbeddedStore
from trails.store.index.reading import EngineReader

_Found = TypeVar("_Found")
_PAUSES: Final = (0.0, 0.01, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Seconds between two looks at a store that others write to."""


def at_one_moment(store: QuadStore, look: Callable[[], _Found]) -> _Found:
    """Return what a function finds in a store while nobody writes there.

    A store that can be held is held. Another is looked at again where somebody committed meanwhile; raises `StoreFailed`
    where that never ends.
    """
    if isinstance(store, EmbeddedStore):
        return store.at_rest(look)
    for pause in _PAUSES:
        number, found = store.number, look()
        if store.number == number:
            return found
        time.sleep(pause)
    raise StoreFailed(
        f"the store {store.location} is written to without a pause, and was never seen at rest; try again later"
    )


def holds(store: QuadStore, quads: Sequence[ox.Quad]) -> list[bool]:
    """Tell of each of some quads whether a store has it."""
    if isinstance(store, EngineReader):
        return store.holds(quads)
    return [bool(store.quads((each.subject, each.predicate, each.object, each.graph_name))) for each in quads]  # type: ignore[arg-type] # no triple is a subject here


def drop_graph(store: QuadStore, graph: ox.NamedNode) -> int:
    """Remove a graph in one commit, which says of it no more than its name; return how many quads it had."""
    removed = len(store.quads((None, None, None, graph)))
    if removed:
        store.commit(Change(drop=[graph]))
    return removed
