"""A pytest plugin: LangGraph's own tests get Trails where they ask for a checkpointer or a store."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import trails
from trails.adapters.langgraph import TrailsSaver, TrailsStore


class TrailsInPlaceOfSqlite(TrailsSaver):
    """A checkpointer as the tests of the SQLite checkpointer make it."""

    @classmethod
    @contextmanager
    def from_conn_string(cls, conn_string: str) -> Iterator[TrailsSaver]:
        """Give a checkpointer in memory."""
        with trails.open(":memory:") as store:
            yield cls(store)

    def setup(self) -> None:
        """Do nothing: there are no tables to make."""


class TrailsInPlaceOfAsyncSqlite(TrailsSaver):
    """The same for an event loop."""

    @classmethod
    @asynccontextmanager
    async def from_conn_string(cls, conn_string: str) -> AsyncIterator[TrailsSaver]:
        """Give a checkpointer in memory."""
        with trails.open(":memory:") as store:
            yield cls(store)

    async def setup(self) -> None:
        """Do nothing: there are no tables to make."""


class TrailsInPlaceOfSqliteStore(TrailsStore):
    """A store as the tests of the SQLite store make it."""

    @classmethod
    @contextmanager
    def from_conn_string(cls, conn_string: str, *, index: Any = None, ttl: Any = None) -> Iterator[TrailsStore]:
        """Give a store in memory."""
        with trails.open(":memory:") as store:
            yield cls(store, index=index, ttl=ttl)

    def setup(self) -> None:
        """Do nothing: there are no tables to make."""


class TrailsInPlaceOfAsyncSqliteStore(TrailsStore):
    """The same for an event loop."""

    @classmethod
    @asynccontextmanager
    async def from_conn_string(
        cls, conn_string: str, *, index: Any = None, ttl: Any = None
    ) -> AsyncIterator[TrailsStore]:
        """Give a store in memory."""
        with trails.open(":memory:") as store:
            yield cls(store, index=index, ttl=ttl)

    async def setup(self) -> None:
        """Do nothing: there are no tables to make."""


class TrailsInPlaceOfInMemoryStore(TrailsStore):
    """A store as the tests of the store in memory make it, and look into it."""

    def __init__(self, *, index: Any = None) -> None:
        super().__init__(trails.open(":memory:"), index=index)
        self.index_config, self.embeddings = self._memory.index_config, self._memory.embeddings
        self._vectors = self._memory._vectors


@contextmanager
def _saver() -> Iterator[TrailsSaver]:
    with trails.open(":memory:") as store:
        yield TrailsSaver(store)


def pytest_collection_finish() -> None:
    """Put Trails in the place of what the collected tests use."""
    for name, module in list(sys.modules.items()):
        if name.startswith(("tests.", "test_")):
            for theirs, ours in (
                ("_checkpointer_memory", _saver),
                ("SqliteSaver", TrailsInPlaceOfSqlite),
                ("AsyncSqliteSaver", TrailsInPlaceOfAsyncSqlite),
                ("AsyncSqliteStore", TrailsInPlaceOfAsyncSqliteStore),
                ("SqliteStore", TrailsInPlaceOfSqliteStore),
                ("InMemoryStore", TrailsInPlaceOfInMemoryStore),
            ):
                if hasattr(module, theirs) and not name.endswith("checkpointer"):
                    setattr(module, theirs, ours)
