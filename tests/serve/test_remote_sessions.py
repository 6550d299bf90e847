"""What holds of sessions in a store of any kind holds in the store of a server: the same tests, over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import trails
from trails import Repository

pytest.importorskip("httpx")
pytest.importorskip("starlette")

from tests.session.test_diff_sessions import *  # noqa: F403
from tests.session.test_fork_cases import *  # noqa: F403
from tests.session.test_forks import *  # noqa: F403
from tests.session.test_refs import *  # noqa: F403
from tests.session.test_sessions import *  # noqa: F403
from tests.session.test_tags import *  # noqa: F403
from tests.support.served import served

del test_an_interrupted_sweep_goes_on_when_the_store_is_opened_again  # noqa: F821 - the server deletes, and its opening sweeps
pytestmark = pytest.mark.slow


@pytest.fixture(params=["memory", "disk"])
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[str], Repository]]:
    """A function that opens the store of a server, a new one for each name."""
    with ExitStack() as held:

        def open_store(name: str) -> Repository:
            place = ":memory:" if request.param == "memory" else tmp_path / name
            own = held.enter_context(trails.open(place, create=request.param == "disk", durability="process"))
            return trails.open(held.enter_context(served(own)))

        yield open_store
