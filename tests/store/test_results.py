"""Results of queries as tables for pandas and Arrow: typed by what stands in each column, missing cells missing."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow  # it has no types
import pytest

from trails import Repository
from trails.store.contract import Solutions

ROWS = """SELECT ?n ?x ?b ?t ?local ?j ?s ?mixed ?iri ?none { VALUES (?n ?x ?b ?t ?local ?j ?s ?mixed ?iri ?none) {
  (1 0.5 true "2026-03-01T12:00:00Z"^^xsd:dateTime "2026-03-01T12:00:00"^^xsd:dateTime "[1]"^^rdf:JSON "a" 1 <urn:a> UNDEF)
  (UNDEF 2 false "2026-03-01T12:00:00.5Z"^^xsd:dateTime UNDEF "plain" "b"@en "x" <urn:b> UNDEF) } }"""
"""Two rows with a column of each kind; columns that mix kinds are text."""

KINDS = {
    "n": "integer",
    "x": "number",
    "b": "boolean",
    "t": "time",
    "local": "text",
    "j": "json",
    "s": "text",
    "mixed": "text",
    "iri": "text",
    "none": "text",
}
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def rows(store: Repository, text: str = ROWS) -> Solutions:
    found = store.query(text)
    assert isinstance(found, Solutions)
    return found


def test_a_column_is_of_the_kind_of_what_stands_in_it(memory: Repository) -> None:
    table = rows(memory).table()
    assert table.kinds == KINDS
    assert [dict(row) for row in table.rows] == [
        {
            "n": 1,
            "x": 0.5,
            "b": True,
            "t": NOON,
            "local": "2026-03-01T12:00:00",
            "j": [1],
            "s": "a",
            "mixed": "1",
            "iri": "urn:a",
            "none": None,
        },
        {
            "n": None,
            "x": 2.0,
            "b": False,
            "t": NOON.replace(microsecond=500_000),
            "local": None,
            "j": "plain",
            "s": "b",
            "mixed": "x",
            "iri": "urn:b",
            "none": None,
        },
    ]


def test_a_data_frame_has_the_columns_in_order_with_their_types(memory: Repository) -> None:
    frame = rows(memory).to_pandas()
    assert list(frame.columns) == list(KINDS)
    assert {name: str(frame[name].dtype) for name in ("n", "x", "b", "t")} == {
        "n": "Int64",
        "x": "float64",
        "b": "bool",
        "t": "datetime64[us, UTC]",
    }
    assert frame["x"].sum() == 2.5
    assert frame["n"].isna().tolist() == [False, True]


def test_an_arrow_table_has_the_columns_in_order_with_their_types(memory: Repository) -> None:
    table = rows(memory).to_arrow()
    types = dict(zip(table.schema.names, table.schema.types, strict=True))
    assert list(types) == list(KINDS)
    assert (types["n"], types["x"], types["b"]) == (pyarrow.int64(), pyarrow.float64(), pyarrow.bool_())
    assert types["t"] == pyarrow.timestamp("us", tz="UTC")
    assert table.column("j").to_pylist() == ["[1]", '"plain"']
    assert table.column("none").to_pylist() == [None, None]


@pytest.mark.parametrize("way", ["to_pandas", "to_arrow"])
def test_no_rows_are_a_table_too(memory: Repository, way: str) -> None:
    empty: Any = getattr(rows(memory, "SELECT ?a ?b { ?a a ?b }"), way)()
    assert len(empty) == 0
    assert list(empty.columns if way == "to_pandas" else empty.schema.names) == ["a", "b"]
