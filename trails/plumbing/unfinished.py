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

from pyoxigraph import Quad

from trails import vocab
from trails.store.contract import QuadStore

_BEGUN: Final[WeakKeyDictionary[QuadStore, Counter[Quad]]] = WeakKeyDictionary()
_COUNTING: Final = threading.Lock()


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
