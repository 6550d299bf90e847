"""A text in CSV is no formula for a spreadsheet, where that is asked for; numbers stay numbers."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

import trails
from tests.support.commands import Run, ok
from trails.display import tables

FORMULAS = ("=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1")


@pytest.mark.parametrize("text", FORMULAS)
def test_a_text_that_begins_like_a_formula_gets_an_apostrophe(text: str) -> None:
    assert tables.inert(text) == f"'{text}"


@pytest.mark.parametrize("text", ["", "plain", "1-1", " =1", "'=1"])
def test_any_other_text_stays(text: str) -> None:
    assert tables.inert(text) == text


@pytest.fixture
def compared(place: Path) -> None:
    with trails.open(place, create=True) as store:
        root = store.create(id="root", meta={"formula": "=cmd()", "loss": -5})
        root.append("user", "Where to?")
        root.persist()
        fork = root.fork(id="fork", meta={"formula": "plain", "loss": -0.5})
        fork.append("assistant", "@home")
        fork.persist()


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


@pytest.mark.usefixtures("compared")
def test_compare_writes_no_formulas_unless_asked_to(run: Run, place: Path) -> None:
    safe = rows(ok(run("compare", "root", "--format", "csv")))
    plain = rows(ok(run("compare", "root", "--format", "csv", "--no-csv-safe")))
    assert {row["meta.formula"] for row in safe} == {"'=cmd()", "plain"}
    assert {row["meta.formula"] for row in plain} == {"=cmd()", "plain"}
    assert {row["meta.loss"] for row in safe} == {row["meta.loss"] for row in plain} == {"-5", "-0.5"}
    with trails.open(place) as store:
        assert "'=cmd()" in store.compare("root").to_csv()
        assert "'=cmd()" not in store.compare("root").to_csv(safe=False)


@pytest.mark.usefixtures("compared")
def test_query_writes_sparqls_csv_and_no_formulas_where_asked(run: Run) -> None:
    query = 'SELECT ?text ?number { BIND("=1+1" AS ?text) BIND(-5 AS ?number) }'
    assert rows(ok(run("query", query, "--format", "csv"))) == [{"text": "=1+1", "number": "-5"}]
    assert rows(ok(run("query", query, "--format", "csv", "--csv-safe"))) == [{"text": "'=1+1", "number": "-5"}]
    assert run("query", query, "--csv-safe").exit_code == 2
