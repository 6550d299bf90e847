"""A store in PostgreSQL as it was: by the same log, wherever the records stand."""

from __future__ import annotations

import trails
from tests.support.pasts import hold_against, walk


def test_at_every_place_of_a_history_it_says_what_it_said_then(url: str) -> None:
    with trails.open(url, create=True) as store:
        copies = walk(store, 9, 15)
        hold_against(store, copies)
        with trails.open(url) as other:  # a process that has an index of its own
            hold_against(other, copies)
