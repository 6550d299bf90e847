"""Opening a store in an event loop."""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator
from functools import wraps
from types import TracebackType
from typing import Any, Final, ParamSpec

from anyio import CancelScope

from trails import opening
from trails.aio.repository import AsyncRepository
from trails.aio.workers import Workers
from trails.session.repository import Repository

_Params = ParamSpec("_Params")


def _collect_less(done: list[bool]) -> None:
    """Leave what is loaded by now out of every later garbage collection, the first time this is called.

    Modules and classes are no garbage. To go over those that Trails needs takes the collector 20 ms, and nothing else
    runs meanwhile, the event loop neither.
    """
    if not done:
        done.append(True)
        gc.freeze()


_COLLECTED_LESS: Final[list[bool]] = []


class Opening:
    """A store that is about to be opened: `async with trails.aio.open(...) as store`, or `await trails.aio.open(...)`."""

    def __init__(self, opened: Callable[[], Repository]) -> None:
        """Not for callers: see `trails.aio.open`."""
        self._opened = opened
        self._store: AsyncRepository | None = None

    def __await__(self) -> Generator[Any, Any, AsyncRepository]:
        return self._open().__await__()

    async def _open(self) -> AsyncRepository:
        workers, made = Workers(), list[Repository]()
        try:
            await workers.run(lambda: made.append(self._opened()))
        except BaseException:  # a cancelled one too, which nobody else could close
            if made:
                with CancelScope(shield=True):
                    await AsyncRepository(made[0], workers).close()
            raise
        _collect_less(_COLLECTED_LESS)
        return AsyncRepository(made[0], workers)

    async def __aenter__(self) -> AsyncRepository:
        self._store = await self._open()
        return self._store

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._store is not None:
            await self._store.close()


def _opening(opened: Callable[_Params, Repository]) -> Callable[_Params, Opening]:
    @wraps(opened)
    def call(*args: _Params.args, **options: _Params.kwargs) -> Opening:
        return Opening(lambda: opened(*args, **options))

    return call


open = _opening(opening.open)  # noqa: A001 - as trails.open
