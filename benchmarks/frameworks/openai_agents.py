"""Measure TrailsSession beside the SQLite session of the OpenAI Agents SDK, which has WAL and synchronous=FULL."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from agents import SQLiteSession
from agents.memory import Session

import trails
from benchmarks.frameworks import Figure
from trails.adapters.openai_agents import TrailsSession

_LENGTH = 5000
_ROUNDS = 60
_Work = Callable[[Session], Awaitable[Any]]


def measure() -> list[Figure]:
    """Return what adding, reading and popping items of a session with 5,000 costs."""
    with tempfile.TemporaryDirectory() as place, trails.open(Path(place) / "store.trails", create=True) as store:
        own = SQLiteSession("chat", Path(place) / "sessions.db")
        try:
            return asyncio.run(_measure(TrailsSession("chat", store), own))
        finally:
            own.close()


def _item(number: int) -> Any:
    return {"role": "user" if number % 2 else "assistant", "content": f"message {number}: " + "words and words " * 20}


async def _measure(session: TrailsSession, own: SQLiteSession) -> list[Figure]:
    for start in range(0, _LENGTH, 500):
        items = [_item(number) for number in range(start, start + 500)]
        await session.add_items(items)
        await own.add_items(items)
    works: list[tuple[str, str, _Work]] = [
        ("get_items(20) of 5,000", "1.5x", lambda each: each.get_items(20)),
        ("add_items of 2", "2.0x", lambda each: each.add_items([_item(1), _item(2)])),
        ("pop_item", "2.0x", lambda each: each.pop_item()),
        ("add_items of 2 after a pop", "2.0x", _pop_then_add),
    ]
    return [Figure(work, *await _medians(run, session, own), aim) for work, aim, run in works]


async def _pop_then_add(session: Session) -> None:
    await session.add_items([_item(1), _item(2)])


async def _medians(run: _Work, *sessions: Session) -> tuple[float, float]:
    """Return the median milliseconds for each of two sessions, which take turns."""
    spent: tuple[list[float], list[float]] = ([], [])
    for _ in range(_ROUNDS):
        for session, times in zip(sessions, spent, strict=True):
            if run is _pop_then_add:
                await session.pop_item()
            begun = time.perf_counter()
            await run(session)
            times.append((time.perf_counter() - begun) * 1000)
    return statistics.median(spent[0]), statistics.median(spent[1])
