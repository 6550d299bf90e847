"""Results of queries as tables for pandas and Arrow: typed by what stands in each column, missing cells missing."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, cast

import pyarrow  # it has no types
import pyoxigraph as ox
import pytest

from trails import Repository
from trails.rdf import query_files, vocab
from trails.session import presentation
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


# --- rows that are kept as the engine writes them


TERMS: list[tuple[str, Any, Any]] = [
    ("", None, None),
    ("<urn:a>", ox.NamedNode("urn:a"), "urn:a"),
    ("_:b", ox.BlankNode("b"), "b"),
    ('"a\\tb\\\\\\"c\u2028"', ox.Literal('a\tb\\"c\u2028'), 'a\tb\\"c\u2028'),
    ('"a"@en', ox.Literal("a", language="en"), "a"),
    ("7", ox.Literal(7), 7),
    ("0.1", ox.Literal("0.1", datatype=vocab.DECIMAL), Decimal("0.1")),
    (f'"1000"^^{vocab.DOUBLE}', ox.Literal("1000", datatype=vocab.DOUBLE), 1000.0),
    ("true", ox.Literal(True), True),
    (f'"2026-03-01T12:00:00Z"^^{vocab.DATE_TIME}', ox.Literal("2026-03-01T12:00:00Z", datatype=vocab.DATE_TIME), NOON),
    (f'"many"^^{vocab.INTEGER}', ox.Literal("many", datatype=vocab.INTEGER), "many"),
    (f'"maybe"^^{vocab.BOOLEAN}', ox.Literal("maybe", datatype=vocab.BOOLEAN), "maybe"),
    (f'"then"^^{vocab.DATE_TIME}', ox.Literal("then", datatype=vocab.DATE_TIME), "then"),
    (f'"much"^^{vocab.DECIMAL}', ox.Literal("much", datatype=vocab.DECIMAL), "much"),
    (f'"[1]"^^{vocab.JSON}', ox.Literal("[1]", datatype=vocab.JSON), [1]),
    ('"x"^^<urn:t>', ox.Literal("x", datatype=ox.NamedNode("urn:t")), "x"),
    (
        "<<( <urn:a> <urn:b> 1 )>>",
        ox.Triple(ox.NamedNode("urn:a"), ox.NamedNode("urn:b"), ox.Literal(1)),
        '<urn:a> <urn:b> "1"^^<http://www.w3.org/2001/XMLSchema#integer>',
    ),
]
"""Terms as the engine writes them, what they are, and the Python value of each."""


@pytest.mark.parametrize(("written", "term", "value"), TERMS, ids=[each[0] or "nothing" for each in TERMS])
def test_a_row_says_the_same_as_it_was_written_and_as_it_is_handed_out(written: str, term: Any, value: Any) -> None:
    kept = Solutions(("one", "two"), written=[[written, "<urn:end>"]])
    assert kept.to_dicts() == [{"one": value, "two": "urn:end"}]
    assert [list(row) for row in kept] == [[term, ox.NamedNode("urn:end")]]
    handed_out = Solutions(("one", "two"), list(kept))
    assert handed_out.to_dicts() == [{"one": value, "two": "urn:end"}]


def test_a_query_of_the_catalogue_gives_its_rows_by_name_and_as_values(memory: Repository) -> None:
    session = memory.create(id="s", principal="alice")
    session.append("user", 'a\t"b"\n')
    session.append("assistant", [{"type": "text", "text": "c"}])
    session.persist()
    found = memory.select("transcript", session="s")
    assert len(found) == 2
    assert [row["content"].value for row in found] == ['a\t"b"\n', '[{"type":"text","text":"c"}]']
    assert [(row["index"], row["content"]) for row in found.to_dicts()] == [
        (0, 'a\t"b"\n'),
        (1, [{"text": "c", "type": "text"}]),
    ]


def test_values_of_json_are_not_shared_between_rows() -> None:
    first, second = Solutions(("a",), written=[[f'"[1]"^^{vocab.JSON}']] * 2).to_dicts()
    first["a"].append(2)
    assert second == {"a": [1]}


def test_no_rows_have_no_values() -> None:
    assert Solutions(("a", "b"), written=[]).to_dicts() == []
    assert not Solutions(("a", "b"), written=[])


def test_answers_are_joined_however_they_are_kept() -> None:
    one, two = Solutions(("a",), written=[["1"]]), Solutions(("a",), list(Solutions(("a",), written=[["2"], [""]])))
    assert Solutions.joined(("a",), [one, two]).to_dicts() == [{"a": 1}, {"a": 2}, {"a": None}]
    assert Solutions.joined(("a",), [one, one]).to_dicts() == [{"a": 1}, {"a": 1}]


class TwoLongTexts:
    """A store whose only row has two texts that fill, together, more than the engine's parser takes of a line."""

    def __init__(self) -> None:
        self.row = '"' + "x" * (9 << 20) + '"'

    def table(self, _: str) -> list[list[str]]:
        return [[self.row, self.row]]

    def query(self, _: str) -> Solutions:
        return Solutions(("a", "b"), [])


def test_texts_that_no_parser_of_the_engine_takes_are_asked_for_as_rows() -> None:
    store: Any = TwoLongTexts()
    assert list(cast("Solutions", presentation.catalogue_answer(store, query_files.find("transcript"), ""))) == []
