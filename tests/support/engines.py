"""One store, asked through three engines, and answers that were counted by hand."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pyoxigraph as ox
import pytest
import rdflib

from trails import Repository
from trails.model import iris
from trails.rdf import query_files, vocab
from trails.store.tsv import to_python

ENGINES = ("pyoxigraph", pytest.param("rdflib", marks=pytest.mark.slow), "view")
Rows = list[tuple[Any, ...]]
Answer = tuple[str, dict[str, Any], str, Rows]
"""A query, its parameters, the columns that are compared, and the rows expected in this order."""


class Engines:
    """One store, asked through this package, through the rdflib view of it ("view") or, dumped to N-Quads, through rdflib."""

    def __init__(self, store: Repository) -> None:
        self.store = store
        quads = ox.serialize(store.store.quads((None, None, None, None)), format=ox.RdfFormat.N_QUADS)
        self.dataset = rdflib.Dataset(default_union=False)
        self.dataset.parse(data=quads, format="nquads")

    def rows(self, engine: str, name: str, **parameters: Any) -> list[tuple[Any, ...]]:
        if engine == "pyoxigraph":
            found: Any = self.store.query(name, **parameters)
            return [tuple(short(value(term)) for term in row) for row in found]
        dataset = self.store.graph() if engine == "view" else self.dataset
        result = dataset.query(query_files.find(name).bind(**parameters))
        return [tuple(short(None if term is None else term.toPython()) for term in row) for row in result]  # type: ignore[union-attr] # rows


EnginesOf = Callable[[Callable[[Repository], None]], Engines]
"""Returns the engines over the store that a function fills."""


def value(term: Any) -> Any:
    """Return a term's Python value, but the text of JSON."""
    is_json = isinstance(term, ox.Literal) and term.datatype == vocab.JSON
    return term.value if is_json else to_python(term)


def short(value: Any) -> Any:
    """Return an IRI of ours as a person would write it: `plan`, `plan#3`, `plan#1/call/0`, `principal:alice`."""
    if isinstance(value, datetime):
        return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    if not isinstance(value, str):
        return value
    if not value.startswith("urn:trails:session:"):
        return value.removeprefix("urn:trails:").removeprefix(vocab.PROV)
    if iris.is_session(value):
        return iris.session_id(value)
    part = re.sub(r"^[^/]*/(\d+-[0-9a-f]{16})?", "", value)
    return (
        f"{iris.session_id(value)}#{iris.turn_index(value)}{part}"
        if "-" in value.partition("/")[2]
        else f"{iris.session_id(value)}/{part}"
    )


def answered(engines: Engines, engine: str, answer: Answer) -> tuple[Rows, Rows]:
    """Return the rows that were found and those that were expected, of a graph (which has no order) in the same order."""
    name, parameters, columns, expected = answer
    rows = engines.rows(engine, name, **parameters)
    declared = [column.name for column in query_files.find(name).columns]
    places = [(declared or ["0", "1", "2"]).index(column) for column in columns.split()]
    found = [tuple(row[place] for place in places) for row in rows]
    return (found, expected) if declared else (sorted(found, key=repr), sorted(expected, key=repr))
