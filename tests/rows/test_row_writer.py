"""The rows: made of one commit after the other they say what those say that are made of all quads at once."""

from __future__ import annotations

import pytest

import trails
from tests.support.everything import everything
from tests.support.rows_of import dump, filled_rows, followed_rows
from trails.store.embedded import EmbeddedStore


def test_rows_of_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    with trails.open(":memory:") as store:
        assert isinstance(store.store, EmbeddedStore)
        with followed_rows(store.store, monkeypatch) as rows:
            everything(store)
        one_by_one, at_once = dump(rows), dump(filled_rows(store.store))
    for table, expected in at_once.items():
        assert one_by_one[table] == expected, table
    assert len(at_once["sessions"]) > 20
