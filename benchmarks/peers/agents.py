"""openai-agents' sessions, the plain one and the one with branches."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.data import Message
from benchmarks.peers.peer import sqlite_durability


class Agents:
    """SQLiteSession is async: each call runs to its end on a loop of its own."""

    rewrites = False

    def __init__(self, folder: Path) -> None:
        self._session = self._opened(folder)
        self._loop = asyncio.new_event_loop()
        with closing(sqlite3.connect(self._session.db_path)) as another:  # it sets the journal, which stays in the file
            self.durability = sqlite_durability(another)

    def _opened(self, folder: Path) -> Any:
        return import_module("agents").SQLiteSession("main", folder / "agents.db")

    def _run(self, work: Any) -> Any:
        return self._loop.run_until_complete(work)

    def append(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self._run(self._session.add_items([message.plain()]))

    def fill(self, messages: Sequence[Message]) -> None:
        self._run(self._session.add_items([message.plain() for message in messages]))

    def load(self) -> Sequence[Any]:
        items: Sequence[Any] = self._run(self._session.get_items())
        return items

    def last(self, count: int) -> Sequence[Any]:
        items: Sequence[Any] = self._run(self._session.get_items(count))
        return items

    def fork(self, at: int, tail: Sequence[Message]) -> None:
        items = self._run(self._session.get_items())  # it has no branches: what a user does is copy
        copy = type(self._session)(f"fork-{os.urandom(4).hex()}", self._session.db_path)
        self._run(copy.add_items(items[:at]))
        for message in tail:
            self._run(copy.add_items([message.plain()]))
        copy.close()

    def close(self) -> None:
        self._session.close()
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()


class AdvancedAgents(Agents):
    """The same with branches: messages are shared, their places in the conversation are copied."""

    def _opened(self, folder: Path) -> Any:
        session = import_module("agents.extensions.memory").AdvancedSQLiteSession
        return session(session_id="main", db_path=folder / "advanced.db", create_tables=True)

    def fork(self, at: int, tail: Sequence[Message]) -> None:
        self._run(self._session.create_branch_from_turn(at // 2 + 1))  # its turns are questions with their answers
        self.append(tail)
        self._run(self._session.switch_to_branch("main"))
