"""Reading quads from an engine in this process: what all stores that have one do."""

from __future__ import annotations

import contextlib
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import IO, Any, Final, TypeVar
from weakref import WeakSet

import pyoxigraph as ox

from trails.errors import InvalidInput, StoreFailed, TrailsError
from trails.handles import Handle
from trails.rdf import query_guard, vocab
from trails.rdf.derived_quads import dump_with_derived
from trails.store import tsv
from trails.store.contract import Result, Solutions, Triples
from trails.store.log.commit_batch import matching
from trails.store.pattern import Pattern
from trails.store.queries.query_pool import Source

_TOGETHER: Final = 8
"""Locks that one frame takes: with a frame for each, a thousand threads would be more than Python nests."""


class Gate:
    """`with gate:` goes in beside others; `gate.alone(work)` waits until all are out, and keeps everyone out.

    Whoever asks to be alone must not be inside, and must be the only one who asks (the store's write lock sees to that).
    """

    def __init__(self) -> None:
        self._own = threading.local()
        self._locks: WeakSet[Any] = WeakSet()  # those of threads that have ended are gone
        self._entry = threading.RLock()
        """Held by whoever is alone, and to let a new thread's lock in."""
        self._turn: Any = None
        """Held by somebody who wants to be alone: no promise, only so that those who come later do not keep him waiting."""

    @property
    def __enter__(self) -> Callable[[], object]:
        """The method that takes this thread's lock. As a property it is the lock's own, with no Python around it."""
        lock = self._lock()
        if (turn := self._turn) is not None and not lock._is_owned():
            with turn:
                pass
        return lock.__enter__  # type: ignore[no-any-return] # of type Any

    @property
    def __exit__(self) -> Callable[..., None]:  # noqa: PLE0302 - the method itself, not what gets it
        """The method that gives this thread's lock back."""
        return self._lock().__exit__  # type: ignore[no-any-return]

    def _lock(self) -> Any:
        """Return this thread's lock; a new one waits until nobody is alone."""
        try:
            return self._own.lock
        except AttributeError:
            with self._entry:
                lock = threading.RLock()
                self._locks.add(lock)
                self._own.lock = lock
                return lock

    def alone(self, work: Callable[[], object]) -> None:
        """Do some work once everyone is out; new ones wait until it is done.

        It is no context manager: one that is made of a generator lives on with the traceback of an interrupt, closed gate
        and all, for as long as somebody looks at that.
        """
        turn = threading.RLock()
        try:
            with turn, self._entry:
                self._turn = turn
                _holding(list(self._locks), work)
        finally:
            self._turn = None


def _holding(locks: Sequence[Any], work: Callable[[], object]) -> None:
    """Do some work with locks held: each by a `with`, so that an interrupt at any point gives all of them back."""
    if not locks:
        work()
        return
    a, b, c, d, e, f, g, h = (locks[n % len(locks)] for n in range(_TOGETHER))  # again and again: they count themselves
    with a, b, c, d, e, f, g, h:
        _holding(locks[_TOGETHER:], work)


_Answer = TypeVar("_Answer")


class EngineReader(Handle):
    """A store that answers from an engine. Who subclasses it says which, and who waits for what before he reads."""

    _gate: Gate
    """Whoever reads is inside; whoever changes the engine for another, or loads into it in bulk, is alone."""

    @property
    def location(self) -> str:
        """The path that the store was opened with, or `:memory:`."""
        raise NotImplementedError

    def _engine(self) -> ox.Store:
        """Return the engine; raise `StoreFailed` where there is none to be used. Asked for inside the gate."""
        raise NotImplementedError

    def source(self, text: str, *, graph: ox.NamedNode | ox.BlankNode | None = None, union: bool = False) -> Source:
        """Return what a process of its own reads to answer a query: with everything that was committed before this call."""
        raise NotImplementedError

    def _quads_of(self, version: object, *, derives: bool = False) -> Source:
        """Return a source of which the quads are sent, and which is read again where the version is another one.

        With `derives`, what follows from the quads is sent too.
        """

        own = weakref.ref(self)  # whoever keeps the source keeps no store

        def dump(out: IO[bytes]) -> None:
            store = own()
            if store is None:
                raise StoreFailed("the store that a query is asked of is gone")
            store._dump(out, derives=derives)

        self._engine()
        return Source(self.location, self, version, dump=dump)

    def _settle(self, pattern: Pattern | None = None) -> None:
        """Wait until the engine has what must be seen, or what of that matches a pattern. Called before the gate is entered."""

    def with_engine(
        self,
        ask: Callable[[ox.Store], _Answer],
        pattern: Pattern | None = None,
        failure: Callable[[Exception], TrailsError] | None = None,
    ) -> _Answer:
        """Return what a function gives for the engine, once that has all that matches a pattern.

        It is called again if the engine's files are damaged or gone, and were made anew. `failure` words what else fails.
        """
        for is_last in (False, True):
            self._settle(pattern)
            try:
                with self._gate:
                    return ask(self._engine())
            except TrailsError:
                raise
            except (OSError, RuntimeError, ValueError, MemoryError) as error:
                if is_last or not self._is_repaired(error):
                    raise (failure or self._unreadable)(error) from error
        raise AssertionError("the last try returns or raises")

    def __len__(self) -> int:
        return self.with_engine(len)

    def query(
        self, text: str, *, union: bool = False, graph: ox.NamedNode | ox.BlankNode | ox.DefaultGraph | None = None
    ) -> Result:
        """Return all results of a SPARQL query, materialised: a live iterator on another thread aborts the process."""
        named: list[ox.NamedNode | ox.BlankNode] | None = None if graph is None else []
        # no named graphs: a default graph alone confines nothing
        return self._answer(
            lambda engine: _result(
                engine.query(
                    text,
                    prefixes=vocab.PREFIXES,
                    use_default_graph_as_union=union,
                    default_graph=graph,
                    named_graphs=named,
                )
            )
        )

    def table(self, text: str) -> list[list[str]]:
        return tsv.table(self._answer(lambda engine: query_guard.written(_select(engine, text))))

    def rows(self, text: str) -> Iterator[list[str]]:
        spool = tempfile.TemporaryFile()  # noqa: SIM115 - it is closed when the last row was read
        self._answer(lambda engine: _select(engine, text).serialize(spool, format=ox.QueryResultsFormat.TSV))
        spool.seek(0)
        return tsv.rows(spool)

    def _answer(self, ask: Callable[[ox.Store], _Answer]) -> _Answer:
        try:
            return self.with_engine(ask, failure=self._query_failed)
        except SyntaxError as error:
            raise InvalidInput(f"the query is not valid SPARQL: {error}") from error

    def _query_failed(self, error: Exception) -> TrailsError:
        return TrailsError(f"the query failed in the store {self.location}: {error}")

    def quads(self, pattern: Pattern) -> list[ox.Quad]:
        return self.with_engine(lambda engine: list(matching(engine, pattern)), pattern)

    def holds(self, quads: Sequence[ox.Quad]) -> list[bool]:
        """Tell of each of some quads whether it is there: in a third of the time of `quads`, which reads their terms again."""
        return self.with_engine(lambda engine: list(map(engine.__contains__, quads)))

    def _is_repaired(self, error: Exception) -> bool:
        """Have what an error says is damaged made anew; return whether that can be."""
        return False

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except (OSError, RuntimeError, MemoryError) as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> StoreFailed:
        return StoreFailed(f"the store {self.location} cannot be read: {error}; restore a backup")

    def dump(self, out: IO[bytes], *, derives: bool = False) -> None:
        """Write all quads, as they are at one moment, as N-Quads in no order; with `derives` what follows from them too."""
        self._settle()
        self._dump(out, derives=derives)

    def _dump(self, out: IO[bytes], *, derives: bool) -> None:
        with self._unchanged() if derives else contextlib.nullcontext(), self._gate, self._reading():
            if derives:
                dump_with_derived(self._engine(), out)
            else:
                self._engine().dump(out, ox.RdfFormat.N_QUADS)

    def _unchanged(self) -> AbstractContextManager[object]:
        """Return what keeps the engine as it is while it is read more than once. Held before the gate is entered."""
        return contextlib.nullcontext()


def _select(engine: ox.Store, text: str) -> ox.QuerySolutions:
    result = engine.query(text, prefixes=vocab.PREFIXES)
    assert isinstance(result, ox.QuerySolutions)  # noqa: S101 - only the project's own SELECTs come here
    return result


def _result(result: ox.QuerySolutions | ox.QueryBoolean | ox.QueryTriples) -> Result:
    if isinstance(result, ox.QuerySolutions):
        return Solutions(tuple(variable.value for variable in result.variables), query_guard.rows(result))
    return bool(result) if isinstance(result, ox.QueryBoolean) else Triples(query_guard.rows(result))
