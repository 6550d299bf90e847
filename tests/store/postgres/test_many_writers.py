"""Eight processes write one store while processes are killed and the server is restarted: nothing is lost, nothing doubled.

Some of them, or all, are thin.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.clusters import Cluster
from tests.support.machines import Size
from tests.support.many_writers import write_and_kill

_FIGURES = {"quick": (160, 4, 1), "all": (2_000, 12, 2), "long": (50_000, 50, 5)}
"""Turns, kills and restarts of the server."""


@pytest.mark.slow
@pytest.mark.parametrize("thin", [0, 4, 8])
def test_nothing_is_lost_or_doubled_and_every_index_is_the_log(
    cluster: Cluster, url: str, tmp_path: Path, size: Size, thin: int
) -> None:
    (tmp_path / "said").mkdir()
    write_and_kill(url, tmp_path / "said", *_FIGURES[size], restart=cluster.restart, thin=thin)
