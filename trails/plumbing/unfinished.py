"""What this process has begun in a store and not finished yet: turns being copied, graphs of deleted sessions being swept.

Both leave a mark in the catalog while they last, which no leaf covers. A store belongs to one process, and opening it
finishes what an earlier one left: so a mark is honest where this process put it, and was put there by hand otherwise.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final
from weakref import WeakKeyDictionary

from pyoxigraph import NamedNode, Quad

from trails import iris, vocab
from trails.errors import StoreFailed
from trails.store.contract import QuadStore

_BEGUN: Final[WeakKeyDictionary[QuadStore, Counter[Quad]]] = WeakKeyDictionary()
_COUNTING: Final = threading.Lock()
STORE_COPY: Final = Quad(NamedNode(iris.STORE), vocab.TYPE, vocab.UNFINISHED_COPY, vocab.CATALOG)
"""What a store says of itself into which another is being copied, from before its first quad until all of it has arrived."""


def begin(store: QuadStore, marks: Iterable[Quad]) -> None:
    """Take note of marks, before the commit that puts them there."""
    with _COUNTING:
        _BEGUN.setdefault(store, Counter()).update(marks)


def end(store: QuadStore, marks: Iterable[Quad]) -> None:
    """Forget marks that are gone, or were refused: once for each time that they were begun."""
    with _COUNTING:
        begun = _BEGUN.get(store, Counter[Quad]())
        begun.subtract(mark for mark in marks if begun[mark] > 0)
        for mark in [mark for mark, times in begun.items() if times < 1]:
            del begun[mark]


def is_mark(quad: Quad) -> bool:
    """Tell whether a quad says that its subject's graph waits to be swept, or that turns are being copied there."""
    return quad.predicate == vocab.PENDING_SWEEP or quad.object == vocab.UNFINISHED_COPY


def marks(store: QuadStore) -> set[Quad]:
    """Return all marks that a store holds, whoever put them there."""
    sweeps = store.quads((None, vocab.PENDING_SWEEP, None, vocab.CATALOG))
    return {*sweeps, *store.quads((None, None, vocab.UNFINISHED_COPY, vocab.CATALOG))}


def is_half_copied(store: QuadStore) -> bool:
    """Tell whether a store is a copy of another that has not arrived whole."""
    mark = STORE_COPY
    return bool(store.quads((mark.subject, mark.predicate, mark.object, mark.graph_name)))  # type: ignore[arg-type] # an IRI


def refuse_half_copied(store: QuadStore) -> None:
    """Raise `StoreFailed` where a store is a copy of another that has not arrived whole."""
    if is_half_copied(store):
        raise StoreFailed(
            f"{store.location} is a copy that was not finished, and no store yet; `trails copy` from the same place to it again "
            "goes on with it, or remove it (`trails store discard` does, in a database)"
        )


@contextmanager
def believed(store: QuadStore, found: Iterable[Quad]) -> Iterator[None]:
    """Take marks for honest for a while."""
    taken = list(found)
    begin(store, taken)
    try:
        yield
    finally:
        end(store, taken)


def is_known(store: QuadStore, quad: Quad) -> bool:
    """Tell whether a quad is a mark that this process put into a store."""
    return is_mark(quad) and quad in _BEGUN.get(store, ())
