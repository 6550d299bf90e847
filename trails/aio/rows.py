"""Rows that are read one after the other in an event loop."""

from __future__ import annotations

from itertools import islice
from types import TracebackType
from typing import Any, Final, Self

from pyoxigraph import QuerySolution

from trails.aio.workers import Twin
from trails.store.querypool import Rows

_AT_ONCE: Final = 256
"""Rows that one step on a worker thread reads."""


class AsyncRows(Twin[Rows]):
    """The rows of a SELECT, for `async for`. Read them all, or use `async with` or `close`."""

    _read: list[QuerySolution] | None = None

    @classmethod
    def of(cls, twin: Twin[Any], made: Rows) -> AsyncRows:
        """Return the rows for the loop of a store."""
        return cls(made, twin.workers)

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the columns."""
        return self.sync.variables

    @property
    def truncated(self) -> bool:
        """Whether there were more rows than `max_rows`; known once all are read."""
        return self.sync.truncated

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> QuerySolution:
        if not self._read:
            self._read = (await self.call(lambda: list(islice(self.sync, _AT_ONCE)), leave=True))[::-1]
        if not self._read:
            raise StopAsyncIteration
        return self._read.pop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End the query where it still runs. Twice is allowed."""
        self.sync.close()
