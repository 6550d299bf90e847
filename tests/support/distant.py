"""A store that does what the contract says and nothing more, as one at a distance does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pyoxigraph import BlankNode, DefaultGraph, NamedNode, Quad

from trails.store import Change, Committed, EmbeddedStore, Pattern, Result
from trails.store.leaflog import LeafLog


class Distant:
    """A store in memory, of which only the contract is within reach."""

    def __init__(self) -> None:
        self._there = EmbeddedStore(None)
        self.changes: list[Change] = []
        """What was committed."""

    @property
    def location(self) -> str:
        return "far:away"

    @property
    def folder(self) -> Path | None:
        return None

    @property
    def log(self) -> LeafLog:
        return self._there.log

    @property
    def token(self) -> object:
        return self._there.token

    @property
    def number(self) -> int:
        return self._there.number

    def query(
        self, text: str, *, union: bool = False, graph: NamedNode | BlankNode | DefaultGraph | None = None
    ) -> Result:
        return self._there.query(text, union=union, graph=graph)

    def table(self, text: str) -> list[list[str]]:
        return self._there.table(text)

    def rows(self, text: str) -> Iterator[list[str]]:
        return self._there.rows(text)

    def commit(self, change: Change) -> Committed:
        self.changes.append(change)
        return self._there.commit(change)

    def quads(self, pattern: Pattern) -> list[Quad]:
        return self._there.quads(pattern)

    def flush(self) -> None:
        self._there.flush()

    def close(self) -> None:
        self._there.close()

    def __len__(self) -> int:
        return len(self._there)
