"""Run LangGraph's conformance kit and its own tests of checkpointers and stores on Trails and on its SQLite classes."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

import trails
from tests.frameworks import _peer_suites
from tests.frameworks._peer_suites import Outcomes
from trails.adapters.langgraph import TrailsSaver

_SQL: Final = "looks into the tables or the schema of SQLite"
_FILTER: Final = (
    "expects a ValueError for a filter key that is no plain name; Trails puts no key into SQL, and finds nothing"
)
_REASONS: Final = {
    "TestSqliteSaver::test_informative_async_errors": "expects that a class has the sync calls alone",
    "TestSqliteSaver::test_checkpoint_search_sql_injection_prevention": _FILTER,
    "test_delta_parent_walk::test_walk_step_looks_up": _SQL,
    "test_store::test_vector_store_initialization": _SQL,
    "test_store::test_nonnull_migrations": _SQL,
    "test_store::test_sql_injection_vulnerability": _FILTER,
    "test_store::test_filter_keys_with_hyphens_and_digits": "filters by a dotted path, which the store in memory does not have",
    "test_store::test_embed_with_path[cosine]": "expects SQLite's scores; Trails has those of the store in memory",
    "test_ttl::test_ttl_sweeper": "starts a thread that deletes what expired; in Trails, `put` does it",
    "test_ttl::test_ttl_override_default": "expects that reading does not count the time anew, which the protocol says it does",
}


def main() -> None:
    """Print a line for each suite, or for those that are named."""
    suites = {"kit": _kit, "graphs": _graphs, "stores": _stores, "checkpointers": _checkpointers}
    for name in sys.argv[1:] or suites:
        suites[name]()


def _kit() -> None:
    trails_outcomes = asyncio.run(_kit_outcomes(_trails_saver))
    _peer_suites.print_result("langgraph: conformance kit", trails_outcomes, asyncio.run(_kit_outcomes(_own_saver)), {})


async def _kit_outcomes(saver: Callable[[], AsyncIterator[BaseCheckpointSaver[Any]]]) -> Outcomes:
    report = await validate(checkpointer_test(name=saver.__name__)(saver))
    outcomes: Outcomes = {}
    for part, result in report.results.items():
        outcomes |= {f"{part}::{number}": "passed" for number in range(result.tests_passed)}
        outcomes |= {f"{part}::{failure.partition(':')[0]}": f"failed: {failure}" for failure in result.failures}
        outcomes |= {} if result.detected else {f"{part}::all": "skipped: it does not have this call"}
    return outcomes


async def _trails_saver() -> AsyncIterator[BaseCheckpointSaver[Any]]:
    with tempfile.TemporaryDirectory() as place, trails.open(place, create=True) as store:
        yield TrailsSaver(store)


async def _own_saver() -> AsyncIterator[BaseCheckpointSaver[Any]]:
    with tempfile.TemporaryDirectory() as place:
        async with AsyncSqliteSaver.from_conn_string(str(Path(place) / "checkpoints.db")) as saver:
            yield saver


def _graphs() -> None:
    folder = _peer_suites.fetch_tests("langgraph", version("langgraph"))
    tools = _peer_suites.fetch_tools("pytest-mock==3.17.0", "syrupy==7.0.2")
    options = ["-p", "no:asyncio", "-p", "_langgraph_select", "-o", "addopts="]
    os.environ["LANGGRAPH_CHECKPOINTER"] = "sqlite"
    own = _peer_suites.run_tests(folder, ["tests"], *options, tools=tools)
    os.environ["LANGGRAPH_CHECKPOINTER"] = "memory"
    ours = _peer_suites.run_tests(folder, ["tests"], *options, plugin="_langgraph_plugin", tools=tools)
    _peer_suites.print_result("langgraph: graphs with a checkpointer", ours, own, _REASONS)


def _stores() -> None:
    _run_both("langgraph-checkpoint", "stores", "tests/test_store.py")
    _run_both(
        "langgraph-checkpoint-sqlite", "stores", "tests/test_store.py", "tests/test_ttl.py", "tests/test_async_store.py"
    )


def _checkpointers() -> None:
    names = ("sqlite", "aiosqlite", "get_delta_channel_history", "delta_parent_walk", "delta_channel_migration")
    _run_both("langgraph-checkpoint-sqlite", "checkpointers", *(f"tests/test_{name}.py" for name in names))


def _run_both(package: str, subject: str, *files: str) -> None:
    folder = _peer_suites.fetch_tests(package, version(package))
    tools = _peer_suites.fetch_tools("pytest-mock==3.17.0", "syrupy==7.0.2", "pytest-asyncio==1.5.0")
    options = ["-o", "asyncio_mode=auto", "-o", "addopts=", "-W", "ignore"]
    own = _peer_suites.run_tests(folder, files, *options, tools=tools)
    ours = _peer_suites.run_tests(folder, files, *options, plugin="_langgraph_plugin", tools=tools)
    _peer_suites.print_result(f"{package}: {subject}", ours, own, _REASONS)


if __name__ == "__main__":
    main()
