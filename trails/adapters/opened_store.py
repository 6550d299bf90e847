"""The store that an adapter works on, its thread for calls from an event loop, and ids for what a framework names."""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar
from urllib.parse import quote
from weakref import WeakValueDictionary

from trails.errors import InvalidInput
from trails.model import validation
from trails.opening import open as open_store
from trails.session.repository import Repository

_Result = TypeVar("_Result")
_LONGEST = 160
"""Characters of an id that is readable; a longer one is a digest. Room is left for what a fork adds."""

_making = threading.Lock()


class OpenedStore:
    """A store, and one thread on which calls from event loops run one after the other."""

    def __init__(self, store: Repository | str | os.PathLike[str]) -> None:
        """Take an open store, or open the one at a location, which is made if there is none; `close` closes it then."""
        self.is_own = not isinstance(store, Repository)
        self.repository = store if isinstance(store, Repository) else open_store(store, create=True)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="trails-adapter")

    @classmethod
    def of(cls, store: Repository | str | os.PathLike[str]) -> OpenedStore:
        """Return the one that works on an open store, made if there is none; for a location, one that opens the store."""
        if not isinstance(store, Repository):
            return cls(store)
        with _making:
            opened = _opened.get(id(store))
            if opened is None:
                opened = _opened[id(store)] = cls(store)
            return opened

    def call(self, work: Callable[[], _Result]) -> _Result:
        """Return what a function gives, after all calls before it."""
        return self._thread.submit(work).result()

    async def run(self, work: Callable[[], _Result]) -> _Result:
        """Return what a function gives on the thread. A task that is cancelled ends when the function has ended."""
        running = asyncio.get_running_loop().run_in_executor(self._thread, work)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            await asyncio.wait([running])
            raise

    async def run_fresh(self, work: Callable[[], _Result]) -> _Result:
        """Do as `run`, once the store has what others committed before this call."""

        def fresh() -> _Result:
            self.repository.workspace.catch_up()
            return work()

        return await self.run(fresh)

    def close(self) -> None:
        """If the store was opened here, wait for the calls that run, and close it."""
        if self.is_own:
            self._thread.shutdown()
            self.repository.close()


_opened: WeakValueDictionary[int, OpenedStore] = WeakValueDictionary()
"""Those that work on stores which others opened, by the identity of the store."""


def joined_id(*parts: str) -> str:
    """Return the id of what several names stand for together: no two lists of names have the same one.

    >>> joined_id("adk", "my app", "u:1"), len(joined_id("x" * 500))
    ('adk:my%20app:u%3A1', 64)
    """
    name = ":".join(quote(part, safe="@+=,!") for part in parts)
    return name if len(name) <= _LONGEST else hashlib.sha256(name.encode()).hexdigest()


def is_name(value: object) -> bool:
    """Tell whether a value can be the name of a principal or an agent."""
    try:
        return validation.name(value, "name") == value
    except InvalidInput:
        return False
