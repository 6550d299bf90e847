"""Rows are counted in what the engine writes, whatever the values hold and wherever its parts end."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import IO, cast

import pyoxigraph as ox
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trails.store.queries import written_answers
from trails.store.queries.written_answers import Full

FORMATS = {
    "application/sparql-results+json": ox.QueryResultsFormat.JSON,
    "application/sparql-results+xml": ox.QueryResultsFormat.XML,
    "text/csv": ox.QueryResultsFormat.CSV,
    "text/tab-separated-values": ox.QueryResultsFormat.TSV,
}
GRAPHS = ("text/turtle", "application/n-triples", "application/rdf+xml", "application/ld+json", "application/trig")
MARKS = ('"', "\\", "\n", "\r", "{", "}", ",", "[", "},{", "[{", "<result>", "\t", "é", "a")
texts = st.lists(st.lists(st.sampled_from(MARKS), max_size=6).map("".join) | st.none(), max_size=5)


def _answer(values: Sequence[str | None]) -> ox.QuerySolutions:
    """Return an answer of one row for each value; of none, the row has nothing."""
    rows = " ".join("(UNDEF)" if each is None else f"({ox.Literal(each)})" for each in values)
    found = ox.Store().query(f"SELECT ?x {{ VALUES (?x) {{ {rows} }} }}")
    assert isinstance(found, ox.QuerySolutions)
    return found


def _written(values: Sequence[str | None], form: ox.QueryResultsFormat) -> bytes:
    out = io.BytesIO()
    _answer(values).serialize(cast(IO[bytes], out), format=form)
    return out.getvalue()


@pytest.mark.parametrize("media_type", FORMATS)
@given(values=texts, size=st.integers(1, 9))
@example(values=['x"}},{"', "\\"], size=1)
@example(values=["\\", "a", "b"], size=3)
@example(values=[None, None], size=2)
def test_the_rows_of_an_answer_are_counted_in_its_parts(media_type: str, values: list[str | None], size: int) -> None:
    written = _written(values, FORMATS[media_type])
    count = written_answers._COUNTS[FORMATS[media_type].file_extension]()
    for start in range(0, len(written), size):
        count.add(written[start : start + size])
    assert count.rows == len(values)


@pytest.mark.parametrize("media_type", FORMATS)
def test_an_answer_with_one_row_too_many_is_refused(media_type: str) -> None:
    sent: list[bytes] = []
    written_answers.write(_answer(["a", "b"]), (media_type, None), sent.append, 2)
    assert b"".join(sent) == _written(["a", "b"], FORMATS[media_type])
    with pytest.raises(Full):
        written_answers.write(_answer(["a", "b", "c"]), (media_type, None), sent.append, 2)


@pytest.mark.parametrize("media_type", GRAPHS)
def test_triples_are_written_whole_or_refused(media_type: str) -> None:
    store = ox.Store()
    store.extend(ox.Quad(ox.NamedNode("urn:s"), ox.NamedNode("urn:p"), ox.Literal(f"{n}")) for n in range(3))
    sent: list[bytes] = []
    form = ox.RdfFormat.from_media_type(media_type)

    def ask() -> ox.QueryTriples:
        found = store.query("CONSTRUCT { ?s ?p ?o } WHERE { ?s ?p ?o }")
        assert isinstance(found, ox.QueryTriples)
        return found

    written_answers.write(ask(), (None, media_type), sent.append, 3)
    assert len(list(ox.parse(b"".join(sent), format=form))) == 3
    with pytest.raises(Full):
        written_answers.write(ask(), (None, media_type), sent.append, 2)


def test_a_form_that_is_not_wanted_is_not_written() -> None:
    sent: list[bytes] = []
    written_answers.write(_answer(["a"]), (None, "text/turtle"), sent.append, None)
    assert sent == []
