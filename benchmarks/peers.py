"""What a user would pick instead, each behind the same five methods. One that is not installed is left out."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol

from benchmarks.data import Message


class Peer(Protocol):
    """A store of one conversation in a folder. `limit`: how many single appends are affordable."""

    limit: int | None

    def append(self, message: Message) -> None:
        """Store one more message, as safely as the peer does by default."""
        ...

    def fill(self, messages: Sequence[Message]) -> None:
        """Store many messages in the quickest way there is."""
        ...

    def load(self) -> Sequence[Any]:
        """Return all messages."""
        ...

    def last(self, count: int) -> Sequence[Any]:
        """Return the last messages, in the quickest way there is."""
        ...

    def fork(self, at: int, tail: Sequence[Message]) -> None:
        """Branch off after `at` messages (an even number), and store more on the branch, one by one."""
        ...

    def close(self) -> None:
        """Close it, so that another instance on the same folder can read all."""
        ...


class JsonLines:
    """A file of JSON lines; to fork is to copy the file."""

    limit: int | None = None

    def __init__(self, folder: Path, *, synced: bool = True) -> None:
        self._folder = folder
        self._synced = synced
        self._path = folder / "main.jsonl"
        self._file = self._path.open("ab")
        self._forks = 0

    def _write(self, file: Any, message: Message) -> None:
        file.write(json.dumps(message.plain()).encode() + b"\n")
        file.flush()
        if self._synced:
            os.fdatasync(file.fileno())

    def append(self, message: Message) -> None:
        self._write(self._file, message)

    def fill(self, messages: Sequence[Message]) -> None:
        self._file.write(b"".join(json.dumps(message.plain()).encode() + b"\n" for message in messages))
        self._file.flush()

    def load(self) -> Sequence[Any]:
        return [json.loads(line) for line in self._path.read_bytes().splitlines()]

    def last(self, count: int) -> Sequence[Any]:
        return [json.loads(line) for line in self._path.read_bytes().splitlines()[-count:]]

    def fork(self, at: int, tail: Sequence[Message]) -> None:
        self._forks += 1
        lines = self._path.read_bytes().splitlines(keepends=True)
        with (self._folder / f"fork-{self._forks}.jsonl").open("wb") as file:
            file.writelines(lines[:at])
            for message in tail:
                self._write(file, message)

    def close(self) -> None:
        self._file.close()


class _Agents:
    """openai-agents' sessions are async: each call runs to its end on a loop of its own."""

    limit: int | None = None

    def __init__(self, session: Any) -> None:
        self._session = session
        self._loop = asyncio.new_event_loop()

    def _run(self, work: Any) -> Any:
        return self._loop.run_until_complete(work)

    def append(self, message: Message) -> None:
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


class _AdvancedAgents(_Agents):
    """The same with branches: messages are shared, their places in the conversation are copied."""

    def fork(self, at: int, tail: Sequence[Message]) -> None:
        self._run(self._session.create_branch_from_turn(at // 2 + 1))  # its turns are questions with their answers
        for message in tail:
            self._run(self._session.add_items([message.plain()]))
        self._run(self._session.switch_to_branch("main"))


def _agents(folder: Path) -> Peer:
    session = import_module("agents").SQLiteSession
    return _Agents(session("main", folder / "agents.db"))


def _advanced(folder: Path) -> Peer:
    session = import_module("agents.extensions.memory").AdvancedSQLiteSession
    return _AdvancedAgents(session(session_id="main", db_path=folder / "advanced.db", create_tables=True))


class _Checkpoints:
    """langgraph's SqliteSaver: every step stores the whole state, so single appends grow with the conversation."""

    limit: int | None = 500

    def __init__(self, folder: Path) -> None:
        saver = import_module("langgraph.checkpoint.sqlite").SqliteSaver
        self._empty: Callable[[], dict[str, Any]] = import_module("langgraph.checkpoint.base").empty_checkpoint
        self._connection = sqlite3.connect(folder / "checkpoints.db", check_same_thread=False)
        self._saver = saver(self._connection)
        self._messages: list[dict[str, Any]] = []
        self._last = self._config("main")

    @staticmethod
    def _config(thread: str) -> Any:
        return {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}

    def _put(self, config: Any, messages: list[dict[str, Any]]) -> Any:
        checkpoint = self._empty()
        checkpoint["channel_values"] = {"messages": messages}
        return self._saver.put(config, checkpoint, {"source": "loop", "step": len(messages)}, {})

    def append(self, message: Message) -> None:
        self._messages.append(message.plain())
        self._last = self._put(self._last, self._messages)

    def fill(self, messages: Sequence[Message]) -> None:
        self._messages += [message.plain() for message in messages]
        self._last = self._put(self._last, self._messages)

    def load(self) -> Sequence[Any]:
        found = self._saver.get_tuple(self._config("main"))
        assert found is not None
        state: Sequence[Any] = found.checkpoint["channel_values"]["messages"]
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


JSON_LINES: Final = "JSON lines"
PEERS: Final[dict[str, Callable[[Path], Peer]]] = {
    JSON_LINES: JsonLines,
    "openai-agents SQLiteSession": _agents,
    "openai-agents AdvancedSQLiteSession": _advanced,
    "langgraph SqliteSaver": _Checkpoints,
}
"""How to open each peer in a folder. All but JSON lines sync every write by SQLite's own default."""


def installed(folder: Path) -> tuple[dict[str, Peer], list[str]]:
    """Return the peers that can be opened, each in a folder of its own, and the names of those not installed."""
    found: dict[str, Peer] = {}
    missing = []
    for name, opener in PEERS.items():
        place = folder / name.replace(" ", "-")
        place.mkdir(parents=True, exist_ok=True)
        try:
            found[name] = opener(place)
        except ImportError:
            missing.append(name)
    return found, missing


def reopened(name: str, folder: Path) -> Peer:
    """Return a new instance of a peer on the folder that `installed` gave it."""
    return PEERS[name](folder / name.replace(" ", "-"))
