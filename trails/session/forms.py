"""The answer of a query as the form that was asked for: rows, yes or no, triples."""

from __future__ import annotations

from itertools import chain

from pyoxigraph import Triple

from trails.errors import InvalidInput
from trails.queries import QueryFile
from trails.store import tsv
from trails.store.contract import QuadStore, Result, Solutions


def of_catalogue(store: QuadStore, query: QueryFile, bound: str) -> Result:
    """Return the answer of a query of the catalogue with its parameters set: rows as text, which is the quickest to read."""
    if query.folder == "core" or not query.columns:
        return store.query(bound)
    written = store.table(bound)
    if max(map(len, chain.from_iterable(written)), default=0) > tsv.LONGEST:
        return store.query(bound)
    return Solutions(tuple(column.name for column in query.columns), written=written)


def solutions(result: Result) -> Solutions:
    """Return the rows of a SELECT; raise `InvalidInput` for the answer of another form."""
    if isinstance(result, Solutions):
        return result
    raise _other(result, "select() takes a SELECT")


def answer(result: Result) -> bool:
    """Return the answer of an ASK; raise `InvalidInput` for that of another form."""
    if isinstance(result, bool):
        return result
    raise _other(result, "ask() takes an ASK")


def triples(result: Result) -> list[Triple]:
    """Return the triples of a CONSTRUCT or DESCRIBE; raise `InvalidInput` for the answer of another form."""
    if isinstance(result, list):
        return result
    raise _other(result, "construct() takes a CONSTRUCT or DESCRIBE")


def _other(result: Result, wanted: str) -> InvalidInput:
    if isinstance(result, Solutions):
        return InvalidInput(f"{wanted}, and this query is a SELECT: use store.select()")
    if isinstance(result, bool):
        return InvalidInput(f"{wanted}, and this query is an ASK: use store.ask()")
    return InvalidInput(f"{wanted}, and this query is a CONSTRUCT or DESCRIBE: use store.construct()")
