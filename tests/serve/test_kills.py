"""Eight clients write through one server that is killed: nothing is lost, nothing is doubled, no fork comes unasked."""

from __future__ import annotations

from pathlib import Path

import pytest

import trails
from tests.support import many_writers
from tests.support.clusters import Cluster
from tests.support.machines import Size
from tests.support.served_writers import write_and_kill
from tests.support.servers import serving

pytest.importorskip("uvicorn")

_FIGURES = {"quick": (160, 2), "all": (1_000, 4), "long": (50_000, 20)}
"""Turns, and kills of the server."""

pytestmark = pytest.mark.slow


def test_nothing_is_lost_or_doubled_in_a_folder(tmp_path: Path, size: Size) -> None:
    figures = write_and_kill(tmp_path / "store", tmp_path, *_FIGURES[size])
    assert figures["resent"], "no request was under way at any kill: this test showed nothing"
    assert figures["conflicts"], "no two clients wrote to one session at the same time"
    print(figures)  # noqa: T201


def test_nothing_is_lost_or_doubled_in_postgresql(cluster: Cluster, url: str, tmp_path: Path, size: Size) -> None:
    figures = write_and_kill(url, tmp_path, *_FIGURES[size])
    assert figures["resent"], "no request was under way at any kill: this test showed nothing"
    assert figures["conflicts"], "no two clients wrote to one session at the same time"
    print(figures)  # noqa: T201


def test_nothing_is_lost_or_doubled_by_processes_that_open_the_server_as_their_store(
    tmp_path: Path, size: Size
) -> None:
    """Clients are killed as well as the server."""
    turns, kills = _FIGURES[size]
    (tmp_path / "said").mkdir()
    trails.open(tmp_path / "store", create=True).close()
    with serving(tmp_path / "store", tmp_path / "server.log") as server:
        address = f"http://127.0.0.1:{server.port}"

        def restart() -> None:
            server.kill()
            server.start()

        many_writers.write_and_kill(
            address, tmp_path / "said", turns // 5, kills, max(1, kills // 2), restart=restart, served=True
        )
