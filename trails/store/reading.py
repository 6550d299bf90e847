"""Reading quads from an engine in this process: what the store that owns it and a view beside the owner have in common."""

from __future__ import annotations

import contextlib
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import IO, TypedDict

import pyoxigraph as ox

from trails.errors import InvalidInput, StoreFailed, TrailsError
from trails.handles import Handle
from trails.rdf import query_guard, vocab
from trails.store import endless, engines, tsv
from trails.store.committing import matching
from trails.store.contract import Result, Solutions, Triples
from trails.store.gate import Gate
from trails.store.pattern import Pattern
from trails.store.querypool import Source
from trails.store.tables import Tables


class _How(TypedDict, total=False):
    """How the engine is asked, beside the query."""

    use_default_graph_as_union: bool
    default_graph: ox.NamedNode | ox.BlankNode | ox.DefaultGraph | None
    named_graphs: list[ox.NamedNode | ox.BlankNode] | None


class EngineReader(Handle):
    """A store that answers from an engine. Who subclasses it says which, and who waits for what before he reads."""

    _gate: Gate
    """Whoever reads is inside; whoever changes the engine for another, or loads into it in bulk, is alone."""

    _tables: Tables | None = None
    """What is known of the engine's tables; None for one in memory."""

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

    def _quads_of(self, version: object) -> Source:
        """Return a source of which the quads are sent, and which is read again where the version is another one."""

        own = weakref.ref(self)  # whoever keeps the source keeps no store

        def dump(out: IO[bytes]) -> None:
            store = own()
            if store is None:
                raise StoreFailed("the store that a query is asked of is gone")
            with store._gate, store._reading():
                store._engine().dump(out, ox.RdfFormat.N_QUADS)

        self._engine()
        return Source(self.location, self, version, dump=dump)

    def _settle(self, pattern: Pattern | None = None) -> None:
        """Wait until the engine has what must be seen, or what of that matches a pattern. Called before the gate is entered."""

    @engines.let_go
    def __len__(self) -> int:
        self._settle()
        with self._gate:
            return len(self._engine())

    @engines.let_go
    def query(
        self, text: str, *, union: bool = False, graph: ox.NamedNode | ox.BlankNode | ox.DefaultGraph | None = None
    ) -> Result:
        """Return all results of a SPARQL query, materialised: a live iterator on another thread aborts the process."""
        named: list[ox.NamedNode | ox.BlankNode] | None = None if graph is None else []
        # no named graphs: a default graph alone confines nothing
        how = _How(use_default_graph_as_union=union, default_graph=graph, named_graphs=named)
        with self._asking() as asked:
            self._settle()  # before the gate: a bulk load waits until everybody is out
            with self._gate:
                asked(partial(self._go_through, text, how))
                result = self._engine().query(text, prefixes=vocab.PREFIXES, **how)
                if isinstance(result, ox.QuerySolutions):
                    return Solutions(tuple(variable.value for variable in result.variables), query_guard.rows(result))
                return bool(result) if isinstance(result, ox.QueryBoolean) else Triples(query_guard.rows(result))

    @engines.let_go
    def table(self, text: str) -> list[list[str]]:
        with self._asking() as asked:
            self._settle()
            with self._gate:
                asked(partial(self._go_through, text))
                result = self._engine().query(text, prefixes=vocab.PREFIXES)
                assert isinstance(result, ox.QuerySolutions)  # noqa: S101 - only the project's own SELECTs come here
                data = query_guard.written(result)
        return tsv.table(data)

    def rows(self, text: str) -> Iterator[list[str]]:
        spool = tempfile.TemporaryFile()  # noqa: SIM115 - it is closed when the last row was read
        with self._asking() as asked:
            self._settle()
            with self._gate:
                asked(partial(self._go_through, text))
                result = self._engine().query(text, prefixes=vocab.PREFIXES)
                assert isinstance(result, ox.QuerySolutions)  # noqa: S101 - only the project's own SELECTs come here
                result.serialize(spool, format=ox.QueryResultsFormat.TSV)
        spool.seek(0)
        return tsv.rows(spool)

    def _go_through(self, text: str, how: _How | None = None) -> None:
        """Ask a query for nothing but to see whether it ends."""
        with self._gate:
            result = self._engine().query(text, prefixes=vocab.PREFIXES, **(how or _How()))
            for _ in () if isinstance(result, ox.QueryBoolean) else result:
                pass

    @contextlib.contextmanager
    def _asking(self) -> Iterator[Callable[[Callable[[], object]], None]]:
        try:
            with endless.watched(self.location, self._tables) as asked:
                yield asked
        except SyntaxError as error:
            raise InvalidInput(f"the query is not valid SPARQL: {error}") from error
        except (OSError, RuntimeError, ValueError, MemoryError) as error:
            raise TrailsError(f"the query failed in the store {self.location}: {error}") from error

    @engines.let_go
    def quads(self, pattern: Pattern) -> list[ox.Quad]:
        self._settle(pattern)
        with self._gate:
            return self._matching(pattern)

    @engines.let_go
    def holds(self, quads: Sequence[ox.Quad]) -> list[bool]:
        """Tell of each of some quads whether it is there: in a third of the time of `quads`, which reads their terms again."""
        self._settle()
        with self._gate, self._reading():
            return list(map(self._engine().__contains__, quads))

    def _matching(self, pattern: Pattern) -> list[ox.Quad]:
        """Return what the engine has; asked for inside a gate. It is asked very often, so that every call counts."""
        try:
            return list(matching(self._engine(), pattern))
        except (OSError, RuntimeError, MemoryError) as error:
            raise self._unreadable(error) from error

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except (OSError, RuntimeError, MemoryError) as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> StoreFailed:
        return StoreFailed(f"the store {self.location} cannot be read: {error}; restore a backup")

    @engines.let_go
    def dump(self, out: IO[bytes]) -> None:
        """Write all quads, as they are at one moment, as N-Quads in no order."""
        self._settle()
        with self._gate, self._reading():
            self._engine().dump(out, ox.RdfFormat.N_QUADS)
