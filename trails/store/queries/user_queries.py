"""Queries from outside, asked of a store: each in a process that is ended where it takes more than it may."""

from __future__ import annotations

from typing import Any

import pyoxigraph as ox

from trails.errors import InvalidInput
from trails.rdf import query_guard
from trails.store.contract import QuadStore, Result
from trails.store.queries import query_pool
from trails.store.queries.query_pool import Answer, NoProcess, QueryLimits, Rows, Source


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

    A text that `is_ours` is not looked through. Where no process can be had, a query without limits runs in this one.
    Raises what `query_guard.guard_answer` and `Answer` do.
    """
    if not is_ours:
        query_guard.check_text(text)
    try:
        return query_pool.result(_asked(store, text, limits, union=union, graph=graph))
    except NoProcess:
        if limits.is_set:
            raise
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
    if not hasattr(store, "source"):
        raise NoProcess(f"the store {store.location} is of a kind whose queries have no limits")
    source = store.source(text, union=union, graph=graph)
    if graph is not None:
        return Answer(source, text, limits, dataset={"default_graph": graph, "named_graphs": []})
    return Answer(source, text, limits, dataset={"use_default_graph_as_union": union}, is_free=True)
