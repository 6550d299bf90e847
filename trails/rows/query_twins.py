"""Answers queries of the catalogue by the SQL that stands beside them: `queries/FOLDER/NAME.sql`, with the same rows.

Such a query would take longest where it reads every turn, so the SQL is asked of all sessions only. Its parameters are JSON lists
of values, NULL for what is left out.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import pyoxigraph as ox

from trails.rdf import query_files, vocab
from trails.rdf.codec import time_literal
from trails.rdf.query_files import QueryFile
from trails.rows import row_schema, text_index
from trails.rows.row_codec import moment
from trails.store.contract import Solutions

_ODD: Final = "SELECT EXISTS (SELECT 1 FROM sessions WHERE odd)"


def names() -> list[str]:
    """Return the names of the queries that have a twin."""
    return sorted(path.stem for path in query_files.folder().glob("*/*.sql"))


@cache
def _twin(folder: str, name: str) -> str | None:
    path: Path = query_files.folder() / folder / f"{name}.sql"
    return path.read_text("utf-8") if path.is_file() else None


def answer(connection: Callable[[], Any], query: QueryFile, values: Mapping[str, Any]) -> Solutions | None:
    """Return the rows of a query with its parameters as `QueryFile.bind` takes them.

    `connection` gives one to the rows, as a context. None for a query without a twin, for one that names sessions, and if rows
    hold what Trails never writes: the query itself is asked then.
    """
    text = _twin(query.folder, query.name)
    if text is None:
        return None
    given = query.terms(**values)
    if given.get("session") is not None or not all(map(_is_plain, given.values())):
        return None
    with connection() as rows:
        if rows.execute(_ODD).fetchone()[0]:
            return None
        row_schema.create_functions(rows)
        bound: dict[str, Any] = {name: _bound(terms) for name, terms in given.items()}
        if "text" in given:
            candidates = _candidates(rows, given["text"] or [])
            if candidates is None:
                return None
            bound["candidates"] = json.dumps(candidates)
        try:
            found = rows.execute(text, bound).fetchall()
        except sqlite3.Error:  # sums that SQLite cannot hold
            return None
    kinds = [_TERMS[column.kind] for column in query.columns]
    names = tuple(column.name for column in query.columns)
    return Solutions(names, written=[list(_line(kinds, row)) for row in found])


def _is_plain(terms: list[ox.NamedNode | ox.Literal] | None) -> bool:
    """Tell whether each value is given once, and is no number below 1."""
    if terms is None:
        return True
    numbers = [each for each in terms if isinstance(each, ox.Literal) and each.datatype == vocab.INTEGER]
    return len(set(terms)) == len(terms) and all(int(each.value) > 0 for each in numbers)


def _bound(terms: list[ox.NamedNode | ox.Literal] | None) -> str | None:
    if terms is None:
        return None
    return json.dumps(
        [int(each.value) if getattr(each, "datatype", None) == vocab.INTEGER else each.value for each in terms]
    )


def _candidates(rows: sqlite3.Connection, terms: list[Any]) -> list[int] | None:
    """Return the turns that may hold a text; None for more texts than one, and for one that the engine may fold otherwise."""
    text = terms[0].value if len(terms) == 1 else ""
    if not text.isascii() or "\0" in text or len(text) < text_index.GRAM:
        return None
    return text_index.candidates(rows, text)


def _line(kinds: list[Callable[[Any], str]], row: tuple[Any, ...]) -> Iterator[str]:
    for term, value in zip(kinds, row, strict=True):
        yield "" if value is None else term(value)


def _decimal(value: int | str) -> str:
    return str(vocab.integer(value) if isinstance(value, int) else ox.Literal(value, datatype=vocab.DECIMAL))


_TERMS: Final[Mapping[str, Callable[[Any], str]]] = {
    "iri": lambda value: f"<{value}>",
    "text": lambda value: str(ox.Literal(value)),
    "integer": lambda value: str(vocab.integer(value)),
    "decimal": _decimal,
    "boolean": lambda value: str(ox.Literal(bool(value))),
    "time": lambda value: str(time_literal(moment(value))),
    "term": lambda value: value,
}
"""By the kind of a column, what a value of the SQL is written as."""
