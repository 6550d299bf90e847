"""Places that are given out fairly: one caller who asks for many keeps no other caller waiting."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager

import anyio


class Places:
    """So many places. A free one goes to whoever of those that wait holds the fewest, in the order in which they came."""

    def __init__(self, count: int) -> None:
        """Have a number of places, 1 or more."""
        self._count = self._free = count
        self._held: Counter[Hashable] = Counter()
        self._waiting: dict[Hashable, deque[anyio.Event]] = {}

    @asynccontextmanager
    async def place(self, who: Hashable) -> AsyncIterator[None]:
        """Hold a place for somebody, once there is one. Whoever has a name (not None) never holds all of them."""
        if not self._takes(who):
            await self._wait(who)
        try:
            yield
        finally:
            self._give_back(who)

    def _takes(self, who: Hashable) -> bool:
        """Take a free place for somebody, if there is one that they may have."""
        share = self._count if who is None else max(1, self._count - 1)
        if self._free == 0 or self._held[who] >= share:
            return False
        self._free -= 1
        self._held[who] += 1
        return True

    async def _wait(self, who: Hashable) -> None:
        turn = anyio.Event()
        self._waiting.setdefault(who, deque()).append(turn)
        try:
            await turn.wait()
        except BaseException:  # whoever waited has left
            if turn.is_set():
                self._give_back(who)
            else:
                self._waiting[who].remove(turn)
            raise

    def _give_back(self, who: Hashable) -> None:
        self._free += 1
        self._held[who] -= 1
        if not self._held[who]:
            del self._held[who]
        for other in sorted(self._waiting, key=lambda each: self._held[each]):
            if not self._waiting[other]:
                del self._waiting[other]
            elif self._takes(other):
                self._waiting[other].popleft().set()
                return
