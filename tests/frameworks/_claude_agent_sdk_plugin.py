"""A pytest plugin: the SDK's tests get a Trails store where they ask for its store in memory."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

import claude_agent_sdk
from claude_agent_sdk._internal import session_store

import trails
from trails.adapters.claude_agent_sdk import TrailsSessionStore


class TrailsInMemory(TrailsSessionStore):
    """A store without arguments, with the helpers for tests that the SDK's has."""

    def __init__(self) -> None:
        super().__init__(trails.open(":memory:"))
        self._mtimes: dict[str, int] = {}
        """Times that a test sets, by the SDK's own keys."""

    async def list_sessions(self, project_key: str) -> list[Any]:
        listed = await super().list_sessions(project_key)
        return [
            {**each, "mtime": self._mtimes.get(f"{project_key}/{each['session_id']}", each["mtime"])} for each in listed
        ]

    def clear(self) -> None:
        for iri in self._main_iris():
            self._store.delete(iri, children="cascade")

    def get_entries(self, key: Any) -> list[Any]:
        return _wait(self.load(key)) or []

    @property
    def size(self) -> int:
        return sum(len(store) > 0 for store in map(self._store.load, self._main_iris()))

    def _main_iris(self) -> list[str]:
        return [record.iri for record in self._store if "claudeSubpath" not in record.meta]


def _wait(work: Coroutine[Any, Any, Any]) -> Any:
    """Return what a coroutine gives, also within an event loop."""
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(asyncio.run(work)))
    thread.start()
    thread.join()
    return answers[0]


for module in (claude_agent_sdk, session_store):
    setattr(module, "InMemorySessionStore", TrailsInMemory)  # noqa: B010 - no type checker may mind
