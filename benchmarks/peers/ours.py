"""Trails itself, behind the methods of a peer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import trails
from benchmarks.data import Message, add
from trails import Session


class Ours:
    """One session in a store that syncs each commit, the default."""

    durability = "synced (durability disk)"
    rewrites = False

    def __init__(self, folder: Path) -> None:
        self._store = trails.open(folder / "store", create=True)

    @cached_property
    def _session(self) -> Session:
        """The session, made or loaded by the first who adds to it."""
        session = self._store.session("s", principal="alice", agent="planner")
        session.persist()
        return session

    def append(self, messages: Sequence[Message]) -> None:
        for message in messages:
            add(self._session, [message])

    def fill(self, messages: Sequence[Message]) -> None:
        add(self._session, messages)

    def load(self) -> Sequence[Any]:
        return self._store.replay("s")

    def last(self, count: int) -> Sequence[Any]:
        return self._store.load("s", last=count).tail(count)

    def fork(self, at: int, tail: Sequence[Message]) -> None:
        fork = self._session.fork(at=at)
        for message in tail:
            add(fork, [message])

    def close(self) -> None:
        self._store.close()
