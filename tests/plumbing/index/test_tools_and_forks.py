"""Tool calls and forks: told from the figures with the very rows that the queries give over the turns."""

from __future__ import annotations

from collections.abc import Callable
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
from trails import Repository, TrailsError, queries
from trails.plumbing import branched, figured, tooled
from trails.store import Solutions

QUESTIONS = {**tooled.QUERIES, **branched.QUERIES}


def told(store: Repository, name: str, **values: Any) -> Solutions | None:
    return figured.answer(store.workspace, queries.find(name), values, QUESTIONS)


def _with_tools(random: Random) -> list[Callable[[Repository], object]]:
    """Things that are done to a store, a third of them with tools: ids come again, answers come late, twice or never."""

    def work(store: Repository) -> None:
        session = store.load(random.choice(sorted(record.id for record in store.list(limit=100))))
        for _ in range(random.randint(1, 4)):
            time = START + timedelta(hours=random.randint(0, 60))
            if random.random() < 0.5:
                asked = [
                    {"id": random.choice("abc"), "name": random.choice(["bash", "read it", "é"]), "arguments": {"n": n}}
                    for n in range(random.randint(1, 2))
                ]
                with suppress(TrailsError):  # one id twice in a turn
                    session.append("assistant", random.choice(["", "I look", "naïve 🦉"]), tool_calls=asked, time=time)
                continue
            result: dict[str, Any] = {"call_id": random.choice("abcd"), "is_error": random.random() < 0.3}
            if random.random() < 0.5:
                result["started"] = time - timedelta(microseconds=random.randint(0, 3_000_000))
            if random.random() < 0.7:
                result["ended"] = time
            if random.random() < 0.2:
                result |= {"outcome": "rejected", "refused_by": "alice"}
            with suppress(TrailsError):
                session.append("tool", "so", tool_results=[result], time=time)
        session.persist()

    def fork(store: Repository) -> None:
        parent = store.load(random.choice(sorted(record.id for record in store.list(limit=100))))
        at = random.randint(0, len(parent))
        parent.fork(at=at, created=START + timedelta(hours=random.randint(0, 3))).persist()

    return [*_steps(random), work, work, work, work, fork, fork]


@pytest.mark.parametrize("name", sorted(QUESTIONS))
@given(seed=st.integers(0, 2**32))
@examples(60)
def test_the_rows_are_those_of_the_query_over_the_turns(name: str, seed: int) -> None:
    random = Random(seed)
    with trails.open(":memory:") as store:
        steps = _with_tools(random)
        steps[0](store)
        for _ in range(30):
            with suppress(TrailsError, IndexError):  # what cannot be done just then
                random.choice(steps)(store)
        store.summaries()
        parameters = {each.name for each in queries.find(name).parameters}
        ids = [record.id for record in store.list(limit=100)]
        asked: list[dict[str, Any]] = [{}]
        if "principal" in parameters:
            asked += [{"principal": "bob"}, {"principal": ["bob", "alice"]}, {"principal": "nobody"}]
        if "session" in parameters:
            asked += [{"session": each} for each in ids[:4]] + ([{"session": ids}] if ids else [])
        if "index" in parameters:
            asked += [{"index": 0}, {"index": [1, 2]}]
        for values in asked:
            found = told(store, name, **values)
            assert found is not None, values
            expected = _over_turns(store, name, **values)
            assert [tuple(row) for row in found] == [tuple(row) for row in expected], values
            assert found.variables == expected.variables
