"""The queries for auditors on integrity: answers counted by hand, and held against a count of another kind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import trails
from tests.support.engines import ENGINES, Answer, Engines, answered
from tests.support.nine_sessions import fill
from trails import queries

pytestmark = pytest.mark.filterwarnings("ignore:Dataset\\..*deprecated:DeprecationWarning")  # rdflib warns of itself

NINE: list[Answer] = [
    # what was imported has no times; of neither its answer nor that with the recipe is a model known
    ("incomplete-turns", {"session": ["pi:01", "recipes"]}, "session index lacks turn", [
        ("pi:01", 0, "time", "pi:01#0"),
        ("pi:01", 1, "model", "pi:01#1"),
        ("pi:01", 1, "time", "pi:01#1"),
        ("recipes", 1, "model", "recipes#1"),
    ]),
    ("incomplete-turns", {"session": "plan"}, "lacks", []),
]  # fmt: skip


@pytest.fixture(scope="module")
def nine() -> Iterator[Engines]:
    with trails.open(":memory:") as store:
        fill(store)
        yield Engines(store)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("answer", NINE, ids=lambda answer: f"{answer[0]} {answer[1]}")
def test_a_query_on_integrity_answers_what_was_counted_by_hand(nine: Engines, engine: str, answer: Answer) -> None:
    found, expected = answered(nine, engine, answer)
    assert found == expected


def test_every_query_on_integrity_has_a_hand_counted_answer() -> None:
    assert {name for name, _, _, expected in NINE if expected} == set(queries.by_theme("integrity"))
