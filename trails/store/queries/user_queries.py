"""Queries from outside, asked of a store: each in a process that is ended where it takes more than it may."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyoxigraph as ox

from trails.errors import InvalidInput
from trails.rdf import query_guard
from trails.rdf.derived_quads import DERIVED_NAMES, are_named_in
from trails.store.contract import QuadStore, Result
from trails.store.queries import query_pool
from trails.store.queries.query_pool import Answer, NoProcess, QueryLimits, Rows, Source
from trails.store.queries.written_answers import Formats
from trails.store.remote.store import RemoteStore

Graphs = tuple[Sequence[ox.NamedNode], Sequence[ox.NamedNode]]
"""The graphs that are the default graph together, and the named ones."""


def answer(
    store: QuadStore,
    text: str,
    limits: QueryLimits,
    *,
    union: bool = False,
    graph: ox.NamedNode | ox.BlankNode | None = None,
    is_ours: bool = False,
) -> Result:
    """Return the answer of a query, as `QuadStore.query` does; the union counts where the text names no graphs itself.

    A text that `is_ours` is not looked through. Where no process can be had, a query without limits runs in this one,
    unless it names what is derived.
    Raises what `query_guard.guard_answer` and `Answer` do.
    """
    if isinstance(store, RemoteStore):
        return store.outside(text, (limits.timeout, limits.max_rows, limits.memory), union=union, graph=graph)
    if not is_ours:
        query_guard.check_text(text)
    try:
        return query_pool.result(_asked(store, text, limits, union=union, graph=graph))
    except NoProcess as error:
        if limits.is_set:
            raise
        if not is_ours and are_named_in(text):
            what = ", ".join(f"trails:{name}" for name in DERIVED_NAMES)
            raise NoProcess(
                f"a query that names what is derived ({what}) runs in a process of its own: {error}"
            ) from error
    return query_guard.judged(
        text, lambda: store.query(text, union=union and not query_guard.names_graphs(text), graph=graph)
    )


def rows(store: QuadStore, text: str, limits: QueryLimits, *, union: bool = False, is_ours: bool = False) -> Rows:
    """Return the rows of a SELECT, to be read while they are found; raise as `answer` does, and where there is no process."""
    if not is_ours:
        query_guard.check_text(text)
    asked = _asked(store, text, limits, union=union)
    if isinstance(asked.form, tuple):
        return Rows(asked, asked.form)
    asked.close()
    raise InvalidInput(
        "rows() takes a SELECT: use store.ask() for an ASK, store.construct() for a CONSTRUCT or DESCRIBE"
    )


def written(
    store: QuadStore,
    text: str,
    limits: QueryLimits,
    formats: Formats,
    *,
    union: bool = False,
    graphs: Graphs | None = None,
    base: str | None = None,
    on_begin: Callable[[], object] | None = None,
    is_ours: bool = False,
) -> Answer:
    """Return an answer that is written in one of two formats, while it is found. Nothing of it is cut: where it has more
    rows than it may, its `more` is True in the end, and it is of no use.

    With `graphs` the query sees those alone, whatever it names itself; relative IRIs are relative to `base`. `on_begin`
    is called once it runs. Raises as `answer` does, and where there is no process.
    """
    if not is_ours:
        query_guard.check_text(text)
    dataset: dict[str, Any] = {"use_default_graph_as_union": union}
    if graphs is not None:
        dataset = {"default_graph": list(graphs[0]), "named_graphs": list(graphs[1])}
    source = _source(store, text, union=union or graphs is not None)
    return Answer(
        source, text, limits, dataset=dataset, is_free=graphs is None, formats=formats, base=base, on_begin=on_begin
    )


def of_source(source: Source, text: str, limits: QueryLimits, dataset: dict[str, Any], *, is_free: bool) -> Result:
    """Return the answer of a query that was looked through, over what a source has."""
    return query_pool.result(Answer(source, text, limits, dataset=dataset, is_free=is_free))


def _asked(
    store: QuadStore,
    text: str,
    limits: QueryLimits,
    *,
    union: bool,
    graph: ox.NamedNode | ox.BlankNode | None = None,
) -> Answer:
    source = _source(store, text, union=union, graph=graph)
    if graph is not None:
        return Answer(source, text, limits, dataset={"default_graph": graph, "named_graphs": []})
    return Answer(source, text, limits, dataset={"use_default_graph_as_union": union}, is_free=True)


def _source(store: QuadStore, text: str, *, union: bool, graph: ox.NamedNode | ox.BlankNode | None = None) -> Source:
    if not hasattr(store, "source"):
        raise NoProcess(f"the store {store.location} is of a kind whose queries have no limits")
    source: Source = store.source(text, union=union, graph=graph)
    return source
