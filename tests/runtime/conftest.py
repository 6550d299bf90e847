"""A ledger on a store with one session, `main`."""

from __future__ import annotations

import pytest

from tests.support.ledgers import session_of
from trails import Ledger, Repository


@pytest.fixture
def ledger(store: Repository) -> Ledger:
    session_of(store)
    return Ledger(store)
