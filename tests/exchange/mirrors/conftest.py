"""Servers that mirrors are made in: one of each kind for a run, wiped for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import sparql_servers
from tests.support.sparql_servers import StandIn


@pytest.fixture(scope="session")
def virtuoso(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Virtuoso server, with its name and password, which gives at most 50 rows of a query."""
    sparql_servers.check_there("virtuoso-t", sparql_servers.VIRTUOSO_MISSING)
    with sparql_servers.virtuoso(tmp_path_factory.mktemp("virtuoso") / "db", rows=50) as url:
        yield url


@pytest.fixture
def stand_in() -> Iterator[Callable[..., StandIn]]:
    """A maker of servers over the engine that can be made to fail."""
    made: list[StandIn] = []

    def make(**options: object) -> StandIn:
        made.append(StandIn(**options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for each in made:
        each.shutdown()
        each.server_close()


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A folder for a server of the test's own."""
    return tmp_path / "db"
