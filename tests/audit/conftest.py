"""The stores that audit queries are asked of, each filled once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import cache

import pytest

import trails
from tests.support.engines import Engines
from trails import Repository


@pytest.fixture(scope="session")
def engines_of() -> Iterator[Callable[[Callable[[Repository], None]], Engines]]:
    """Return the engines over the store that a function fills."""
    with contextlib.ExitStack() as opened:

        @cache
        def engines(fill: Callable[[Repository], None]) -> Engines:
            store = opened.enter_context(trails.open(":memory:"))
            fill(store)
            return Engines(store)

        yield engines
