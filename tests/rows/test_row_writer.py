"""The rows: those made in each commit say what those say that are made of all quads at once."""

from __future__ import annotations

import trails
from tests.support.everything import everything
from tests.support.rows_of import dump, filled_rows
from trails.store.embedded import EmbeddedStore


def test_rows_of_everything() -> None:
    with trails.open(":memory:") as store:
        assert isinstance(store.store, EmbeddedStore)
        everything(store)
        with store.workspace.rows.reading() as rows:
            one_by_one = dump(rows)
        at_once = dump(filled_rows(store.store))
    for table, expected in at_once.items():
        assert one_by_one[table] == expected, table
    assert len(at_once["sessions"]) > 20
