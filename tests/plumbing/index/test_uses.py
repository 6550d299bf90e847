"""Who wrote and when, and what is lacking: told from the figures with the very rows that the queries give over the turns."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trails
from tests.plumbing.index.test_figures import START, _over_turns, _steps
from tests.support.machines import examples
from trails import Repository, TrailsError
from trails.plumbing import backwards, figured, narrowing, uses
from trails.rdf import query_files

NAMES = ["periods-of-use", "two-principals", "another-model-answered", "incomplete-turns", "undelegated-turns"]


def told(store: Repository, name: str, **values: Any) -> Any:
    """What is told without the turns, or without most of them; None where they are asked."""
    query = query_files.find(name)
    found = figured.answer(store.workspace, query, values, uses.QUERIES)
    if found is not None:
        return found
    return narrowing.narrowed(store.workspace, query, values, store.store.query)


@given(seed=st.integers(0, 2**32))
@examples(60)
def test_times_that_run_backwards_are_those_of_the_query_over_the_turns(seed: int) -> None:
    random = Random(seed)
    with trails.open(":memory:") as store:
        steps = _steps(random)
        steps[0](store)
        for _ in range(30):
            with suppress(TrailsError, IndexError):
                random.choice(steps)(store)
        store.summaries()
        found = backwards.answer(store.workspace, query_files.find("times-backwards"), {})
        assert found is not None
        expected = _over_turns(store, "times-backwards")
        assert Counter(tuple(row) for row in found) == Counter(tuple(row) for row in expected)
        order = [(row["session"], row["index"], row["what"]) for row in found]
        assert order == [(row["session"], row["index"], row["what"]) for row in expected]


@pytest.mark.parametrize("name", NAMES)
@given(seed=st.integers(0, 2**32))
@examples(40)
def test_the_rows_are_those_of_the_query_over_the_turns(name: str, seed: int) -> None:
    random = Random(seed)
    with trails.open(":memory:") as store:
        steps = _steps(random)
        steps[0](store)
        for _ in range(25):
            with suppress(TrailsError, IndexError):  # what cannot be done just then
                random.choice(steps)(store)
        store.summaries()
        parameters = {each.name for each in query_files.find(name).parameters}
        asked: list[dict[str, Any]] = [{}]
        if "principal" in parameters:
            asked += [
                {"principal": "carol d"},
                {"principal": ["bob", "alice"]},
                {"gap": 1},
                {"gap": 36_000},
                {"gap": 3_600},
            ]
        if name == "two-principals":
            ids = [record.id for record in store.list(limit=100)]
            asked += [{"session": ids[0]}, {"session": ids}] if ids else []
        for values in asked:
            found = told(store, name, **values)
            assert found is not None, values
            expected = _over_turns(store, name, **values)
            assert [tuple(row) for row in found] == [tuple(row) for row in expected], values
            assert found.variables == expected.variables


def test_a_turn_before_the_one_that_it_follows_and_a_fork_before_what_it_inherits(memory: Repository) -> None:
    chat = memory.create(id="chat", created=START)
    for hours in (2, 1, 5):  # the second is earlier than the first
        chat.append("user", "Hello", time=START + timedelta(hours=hours))
    chat.persist()
    fork = chat.fork(at=3, id="fork", created=START + timedelta(hours=4))
    fork.append("user", "Hi", time=START + timedelta(hours=6))
    fork.persist()
    memory.summaries()
    rows = [(row["what"], row["session"][-4:], row["index"]) for row in memory.select("times-backwards").to_dicts()]
    assert rows == [("turn", "chat", 1), ("fork", "fork", 3)]
    found = backwards.answer(memory.workspace, query_files.find("times-backwards"), {})
    assert found is not None
    assert len(found) == 2


def test_a_sitting_ends_after_a_longer_gap_and_not_at_the_gap(memory: Repository) -> None:
    chat = memory.create(id="chat", principal="alice")
    for seconds in (0, 1800, 3601, 3601 + 1801):
        chat.append("user", "Hello", time=START + timedelta(seconds=seconds))
    chat.persist()
    memory.summaries()
    rows = memory.select("periods-of-use").to_dicts()
    assert [((row["last"] - row["first"]).total_seconds(), row["turns"]) for row in rows] == [(1800, 2), (0, 1), (0, 1)]


def test_without_figures_the_turns_are_asked(memory: Repository) -> None:
    chat = memory.create(id="chat", principal="alice")
    chat.append("user", "Hello", time=START)
    chat.append("user", "Hi", time=START, author="bob")
    chat.persist()
    for name in NAMES:
        if name != "another-model-answered":
            assert told(memory, name) is None
    assert [row["principal"] for row in memory.select("two-principals").to_dicts()] == [
        "urn:trails:principal:alice",
        "urn:trails:principal:bob",
    ]
    memory.summaries()
    assert told(memory, "two-principals") is not None


def test_an_answer_by_another_model_is_found_among_those_asked_of_all(memory: Repository) -> None:
    with memory.session("plain") as plain:
        plain.append("assistant", "Hi", model="m-1")
    memory.summaries()
    assert told(memory, "another-model-answered").to_dicts() == []
