"""Fixtures for all tests: a store of every kind, and the folder of independent expected results."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, settings

import trails
from tests.support import clusters, poolers, sparql_servers
from tests.support.clocks import Clock
from tests.support.clusters import Cluster
from tests.support.commands import Run, invoke
from tests.support.machines import Size
from tests.support.places import SHARED
from tests.support.poolers import Pooler
from trails import Repository

_EVERYWHERE: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("quick", max_examples=10, **_EVERYWHERE)
settings.register_profile("all", max_examples=40, **_EVERYWHERE)
settings.register_profile("long", max_examples=200, **_EVERYWHERE)

STORE_KINDS = ("memory", "disk")

SAMPLE = 3
"""The sets of parameters of a test that `make test` tries, unless the test is marked `sample(n)`."""

_IN_MEMORY = Path("/dev/shm")
_ROOM = 4 * 2**30
"""Bytes that a run with its short figures leaves room for many times over."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="run the slow tests too, and all with their usual figures")
    parser.addoption(
        "--long", action="store_true", help="run the long versions: the full figures of benchmarks/RESULTS.md"
    )


def pytest_configure(config: pytest.Config) -> None:
    size = _size(config)
    settings.load_profile(size)
    if (
        signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    ):  # as a shell starts what runs behind it; programs would inherit that
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if size != "long" and _has_room(_IN_MEMORY):
        # Most of a test on disk is spent in waiting for the disk, and what a power cut does is played out elsewhere.
        os.environ.setdefault("TMPDIR", str(_IN_MEMORY))
        tempfile.tempdir = None  # it is asked for once, and may have been


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if _size(config) != "quick":
        return
    quick = [item for item in items if not item.get_closest_marker("slow") and not _is_said_again(item)]
    is_whole = config.args == config.getini("testpaths")  # of a file or a folder that is named, all its quick tests run
    left_out = set(items) - set(quick) | _beyond_samples(quick, SAMPLE if is_whole else len(quick))
    slow = [item for item in items if item in left_out]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=slow)


def _is_said_again(item: pytest.Item) -> bool:
    """Tell whether a test runs in memory too, in a file whose tests are the same on a store of any kind."""
    given = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    return item.get_closest_marker("any_store") is not None and given.get("opener", "memory") != "memory"


def _beyond_samples(items: Sequence[pytest.Item], most: int) -> set[pytest.Item]:
    """Return the tests that are not among `most`, or the n of their mark `sample(n)`, spread evenly over their parameters."""
    by_test: dict[str, list[pytest.Item]] = {}
    for item in items:
        by_test.setdefault(item.nodeid.partition("[")[0], []).append(item)
    beyond: set[pytest.Item] = set()
    for every in by_test.values():
        mark = every[0].get_closest_marker("sample")
        size = min(len(every), mark.args[0] if mark else most)
        beyond |= set(every) - {every[number * len(every) // size] for number in range(size)}
    return beyond


def pytest_collection_finish() -> None:
    """Spare the collector, which some tests and an engine that lingers ask for, all that importing the tests made."""
    gc.collect()
    gc.freeze()


def _size(config: pytest.Config) -> Size:
    if config.getoption("--long"):
        return "long"
    return "all" if config.getoption("--all") else "quick"


def _has_room(folder: Path) -> bool:
    return os.access(folder, os.W_OK) and shutil.disk_usage(folder).free >= _ROOM


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away the width that runners of tests may set: with it, output is cut as for a terminal."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture(autouse=True)
def state_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what programs keep of a user away from the user who runs the tests."""
    monkeypatch.setenv("TRAILS_CONFIG", "")  # not that of who runs the tests
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.getbasetemp() / "state"))


@pytest.fixture
def long(request: pytest.FixtureRequest) -> bool:
    """Whether the long figures were asked for."""
    return bool(request.config.getoption("--long"))


@pytest.fixture
def size(request: pytest.FixtureRequest) -> Size:
    """Which figures were asked for: of `make test`, of `make test-all` or of `make long`."""
    return _size(request.config)


@pytest.fixture(params=STORE_KINDS)
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], Repository]:
    """A function that opens a new store of every kind by a name; a disk store can be opened again after closing."""

    def open_store(name: str) -> Repository:
        if request.param == "memory":
            return trails.open(":memory:")
        return trails.open(tmp_path / name, create=True, durability="process")

    return open_store


@pytest.fixture
def store(opener: Callable[[str], Repository]) -> Iterator[Repository]:
    """An empty store, of every kind in turn."""
    with opener("store.trails") as opened:
        yield opened


@pytest.fixture
def memory() -> Iterator[Repository]:
    """An empty store in memory, for tests in which the kind of store plays no part."""
    with trails.open(":memory:") as opened:
        yield opened


@pytest.fixture(scope="module")
def filled_once() -> Path | None:
    """The folder of a closed store that a file of tests makes and fills once, by a fixture of this name."""
    return None


@pytest.fixture
def place(filled_once: Path | None, tmp_path: Path) -> Path:
    """The folder of a store: a copy of the one that the file of tests filled once, else one that is not made yet."""
    if filled_once is None:
        return tmp_path / "store.trails"
    return Path(shutil.copytree(filled_once, tmp_path / filled_once.name))


@pytest.fixture
def run(place: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A function that runs a command line on that store, in this process."""
    monkeypatch.setenv("TRAILS_STORE", str(place))
    return invoke


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of independent cases and real transcripts: `TRAILS_SHARED`, or `shared` beside the checkout."""
    if not (SHARED / "cases").is_dir():
        reason = f"the folder of shared cases is not at {SHARED} (set TRAILS_SHARED)"
        if os.environ.get("CI"):
            pytest.fail(reason + ", and CI must have it")
        pytest.skip(reason)
    return SHARED


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A running server. Where PostgreSQL is missing, the test says what to install; in CI that is a failure."""
    clusters.check_there()
    made = clusters.make()
    yield made
    clusters.remove(made)


@pytest.fixture
def url(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a store that is not made yet; indexes go to a cache folder of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return cluster.url(f"s{uuid4().hex}")


@pytest.fixture(scope="session")
def pooler(cluster: Cluster) -> Iterator[Pooler]:
    """A running PgBouncer before the server. Where it is missing, the test says what to install; in CI that is a failure."""
    poolers.check_there()
    with poolers.pgbouncer(cluster) as made:
        yield made


@pytest.fixture(scope="session")
def _oxigraph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    sparql_servers.check_there("oxigraph", sparql_servers.OXIGRAPH_MISSING)
    with sparql_servers.oxigraph(tmp_path_factory.mktemp("oxigraph") / "db") as url:
        yield url


@pytest.fixture
def oxigraph(_oxigraph: str) -> str:
    """The address of an Oxigraph server that holds nothing."""
    sparql_servers.wipe(_oxigraph)
    return _oxigraph
