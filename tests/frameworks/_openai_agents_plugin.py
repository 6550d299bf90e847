"""A pytest plugin: the SDK's tests get a session in Trails where they ask for one in SQLite."""

from __future__ import annotations

import atexit
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import agents
from agents import memory
from agents.extensions.memory import encrypt_session  # noqa: F401 - the tests' own imports come after the change below
from agents.memory import sqlite_session

import trails
from trails import Repository
from trails.adapters.openai_agents import TrailsSession

_stores: WeakValueDictionary[str, Repository] = WeakValueDictionary()


class TrailsInPlaceOfSQLite(TrailsSession):
    """A session as the tests make it: of a file, or in memory. One store stands for one file and one pair of tables."""

    def __init__(
        self,
        session_id: str,
        db_path: str | Path = ":memory:",
        sessions_table: str = "agent_sessions",
        messages_table: str = "agent_messages",
        session_settings: Any = None,
    ) -> None:
        self.db_path = db_path
        self._closed = False
        super().__init__(session_id, _store(str(db_path), messages_table), session_settings=session_settings)

    def _opened(self) -> Any:
        if self._closed:
            raise RuntimeError("SQLiteSession is closed")
        return super()._opened()

    async def add_items(self, items: Any, **options: Any) -> None:
        if self._closed:
            raise RuntimeError("SQLiteSession is closed")
        await super().add_items(items, **options)

    def close(self) -> None:
        self._closed = True


def _store(place: str, table: str) -> Repository:
    if place == ":memory:":
        return trails.open(":memory:")
    folder = f"{place}.{table}.trails"
    store = _stores.get(folder)
    if store is None or store.workspace.closed:
        store = _stores[folder] = trails.open(folder, create=True)
    return store


@atexit.register
def _close() -> None:
    for store in list(_stores.values()):
        store.close()


for module in (agents, memory, sqlite_session):
    setattr(module, "SQLiteSession", TrailsInPlaceOfSQLite)  # noqa: B010 - no type checker may mind
