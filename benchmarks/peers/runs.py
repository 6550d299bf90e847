"""activegraph: a run is a log of events, from which a graph of objects is made in memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.data import Message
from benchmarks.peers.peer import sqlite_durability

_RUN = "main"


class Runs:
    """A message is an object of the graph; each object is an event, and each event a commit: there are no batches."""

    rewrites = False

    def __init__(self, folder: Path) -> None:
        package, store = import_module("activegraph"), import_module("activegraph.store.sqlite")
        self._path = str(folder / "runs.db")
        self._package: Any = package
        opened = store.SQLiteEventStore(self._path, run_id=_RUN)
        self._there = opened.count() > 0
        self.durability = sqlite_durability(opened._conn)
        opened.close()

    @cached_property
    def _runtime(self) -> Any:
        """The run, replayed by the first who needs it."""
        if self._there:
            return self._package.Runtime.load(self._path, _RUN)
        return self._package.Runtime(self._package.Graph(run_id=_RUN), persist_to=self._path)

    def append(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self._runtime.graph.add_object("message", message.plain())

    def fill(self, messages: Sequence[Message]) -> None:
        self.append(messages)

    def load(self) -> Sequence[Any]:
        return [said.data for said in self._runtime.graph.objects("message")]

    def last(self, count: int) -> Sequence[Any]:
        return self.load()[-count:]

    def fork(self, at: int, tail: Sequence[Message]) -> None:
        graph = self._runtime.graph
        fork = self._runtime.fork(graph.events[at - 1].id)
        for message in tail:
            fork.graph.add_object("message", message.plain())
        fork.graph.store.close()

    def close(self) -> None:
        if "_runtime" in self.__dict__:
            self._runtime.graph.store.close()
