"""The queries for auditors, by both engines: every answer was counted by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.audit import (
    test_branches_queries,
    test_context_queries,
    test_integrity_queries,
    test_people_queries,
    test_register_queries,
    test_removal_queries,
    test_work_queries,
)
from tests.support.engines import ENGINES, Answer, EnginesOf, answered
from trails import Repository
from trails.rdf import query_files

pytestmark = pytest.mark.filterwarnings("ignore:Dataset\\..*deprecated:DeprecationWarning")  # rdflib warns of itself

Fill = Callable[[Repository], None]
THEMES: dict[str, dict[Any, list[Answer]]] = {
    "branches": test_branches_queries.STORES,
    "context": test_context_queries.STORES,
    "integrity": test_integrity_queries.STORES,
    "people": test_people_queries.STORES,
    "registers": test_register_queries.STORES,
    "removal": test_removal_queries.STORES,
    "work": test_work_queries.STORES,
}
CASES = [(fill, answer) for stores in THEMES.values() for fill, answers in stores.items() for answer in answers]
ELSEWHERE = {"imported-files"}
"""Answered in `test_removal_queries`: a digest is of the bytes."""


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("fill", "answer"), CASES, ids=lambda case: getattr(case, "__name__", None) or str(case[:2]))
def test_a_query_answers_what_was_counted_by_hand(
    engines_of: EnginesOf, engine: str, fill: Fill, answer: Answer
) -> None:
    found, expected = answered(engines_of(fill), engine, answer)
    if answer[0] == "orphans":  # the ids of notes and scores are drawn by lot
        found = [(row[0], None if row[0] in ("note", "score") else row[1], *row[2:]) for row in found]
    assert found == expected


@pytest.mark.parametrize("theme", THEMES)
def test_every_query_of_a_theme_has_a_hand_counted_answer(theme: str) -> None:
    answers = [answer for each in THEMES[theme].values() for answer in each]
    known = {name for name, _, _, expected in answers if expected}
    assert known | (ELSEWHERE if theme == "removal" else set()) == set(query_files.by_theme(theme))
