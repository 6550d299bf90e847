"""One PostgreSQL for all tests of a run, and a cache folder for each test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.support import clusters
from tests.support.clusters import Cluster


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A running server. Where PostgreSQL is missing, the test says what to install; in CI that is a failure."""
    if clusters.programs() is None:
        if os.environ.get("CI"):
            pytest.fail(clusters.MISSING)
        pytest.skip(clusters.MISSING)
    made = clusters.make()
    yield made
    clusters.remove(made)


@pytest.fixture
def url(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a store that is not made yet; indexes go to a cache folder of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return cluster.url(f"s{uuid4().hex}")
