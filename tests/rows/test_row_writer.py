"""The rows: those made in each commit say what those say that are made of all quads at once."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trails
from tests.rows.test_query_twins import with_texts
from tests.rows.test_session_lists import random_steps
from tests.support.everything import everything
from tests.support.machines import examples
from tests.support.rows_of import dump, filled_rows
from trails import Repository, TrailsError
from trails.rows import text_index
from trails.store.embedded import EmbeddedStore


def compare(store: Repository) -> int:
    """Hold the rows of a store against those that are made of all its quads; return how many sessions there are."""
    assert isinstance(store.store, EmbeddedStore)
    with store.workspace.rows.reading() as rows:
        one_by_one = dump(rows)
    at_once = dump(filled_rows(store.store))
    for table, expected in at_once.items():
        assert one_by_one[table] == expected, table
    assert store.verify().findings == ()
    return len(at_once["sessions"])


@pytest.mark.slow
def test_rows_of_everything() -> None:
    with trails.open(":memory:") as store:
        everything(store)
        assert compare(store) > 20


@pytest.mark.slow
@given(seed=st.integers(0, 2**32))
@examples(60)
def test_rows_of_any_store(seed: int) -> None:
    random = Random(seed)
    with trails.open(":memory:") as store, pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_index, "WAITING", random.choice([1, 3, 256]))
        steps = [*random_steps(random), *with_texts(random)]
        steps[0](store)
        for _ in range(40):
            with suppress(TrailsError, IndexError):  # what cannot be done just then
                random.choice(steps)(store)
        compare(store)
        store.workspace.rows.rebuild()
        compare(store)
