"""langgraph's SqliteSaver: a checkpoint of the whole state after each step."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Sequence
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.data import Message
from benchmarks.peers.peer import sqlite_durability


class Checkpoints:
    """Every append stores all messages so far, as a graph with a list of messages does."""

    rewrites = True

    def __init__(self, folder: Path) -> None:
        saver = import_module("langgraph.checkpoint.sqlite").SqliteSaver
        self._empty: Callable[[], dict[str, Any]] = import_module("langgraph.checkpoint.base").empty_checkpoint
        self._connection = sqlite3.connect(folder / "checkpoints.db", check_same_thread=False)
        self._saver = saver(self._connection)
        self._saver.setup()
        self.durability = sqlite_durability(self._connection)
        self._last = self._config("main")

    @cached_property
    def _messages(self) -> list[dict[str, Any]]:
        """The state, read by the first who adds to it."""
        return list(self.load())

    @staticmethod
    def _config(thread: str) -> Any:
        return {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}

    def _put(self, config: Any, messages: list[dict[str, Any]]) -> Any:
        checkpoint = self._empty()
        checkpoint["channel_values"] = {"messages": messages}
        return self._saver.put(config, checkpoint, {"source": "loop", "step": len(messages)}, {})

    def append(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self.fill([message])

    def fill(self, messages: Sequence[Message]) -> None:
        self._messages += [message.plain() for message in messages]
        self._last = self._put(self._last, self._messages)

    def load(self) -> Sequence[Any]:
        found = self._saver.get_tuple(self._config("main"))
        state: Sequence[Any] = found.checkpoint["channel_values"]["messages"] if found else []
        return state

    def last(self, count: int) -> Sequence[Any]:
        return self.load()[-count:]

    def fork(self, at: int, tail: Sequence[Message]) -> None:
        state = list(self.load()[:at])
        last = self._put(self._config(f"fork-{os.urandom(4).hex()}"), state)
        for message in tail:
            state.append(message.plain())
            last = self._put(last, state)

    def close(self) -> None:
        self._connection.close()
