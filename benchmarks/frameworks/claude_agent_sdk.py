"""Measure TrailsSessionStore. The Claude Agent SDK has no store on disk of its own to be measured beside it."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import trails
from benchmarks.frameworks import Figure
from trails.adapters.claude_agent_sdk import TrailsSessionStore

_KEY: Any = {"project_key": "-home-ada", "session_id": "s"}


def measure() -> list[Figure]:
    """Return what appending ten entries costs, and loading a thousand, warm and in a store that was just opened."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "store.trails"
        with trails.open(folder, create=True) as store:
            appended, warm = asyncio.run(_write(TrailsSessionStore(store)))
        with trails.open(folder) as store:
            cold = asyncio.run(_load(TrailsSessionStore(store)))
    return [
        Figure("append of 10 entries", appended, None, "3 ms"),
        Figure("load of 1,000 entries", warm, None, "20 ms"),
        Figure("load of 1,000 entries, store just opened", cold, None, "20 ms"),
    ]


async def _write(claude: TrailsSessionStore) -> tuple[float, float]:
    spent = []
    for start in range(0, 1000, 10):
        entries = [_entry(number) for number in range(start, start + 10)]
        begun = time.perf_counter()
        await claude.append(_KEY, entries)
        spent.append((time.perf_counter() - begun) * 1000)
    return statistics.median(spent), statistics.median([await _load(claude) for _ in range(10)])


async def _load(claude: TrailsSessionStore) -> float:
    begun = time.perf_counter()
    entries = await claude.load(_KEY)
    spent = (time.perf_counter() - begun) * 1000
    if entries is None or len(entries) != 1000:
        raise AssertionError("not all entries came back")
    return spent


def _entry(number: int) -> Any:
    kind = "assistant" if number % 2 else "user"
    content = [{"type": "text", "text": f"message {number}: " + "words and words " * 20}]
    message: dict[str, Any] = {"role": kind, "content": content}
    if number % 2:
        usage = {"input_tokens": 100, "cache_read_input_tokens": 900, "output_tokens": 50}
        message |= {
            "id": f"m{number}",
            "type": "message",
            "model": "claude-x",
            "stop_reason": "end_turn",
            "usage": usage,
        }
    return {
        "parentUuid": f"u{number - 1}" if number else None,
        "isSidechain": False,
        "userType": "external",
        "cwd": "/home/ada",
        "sessionId": "s",
        "version": "2.1.40",
        "gitBranch": "main",
        "type": kind,
        "message": message,
        "uuid": f"u{number}",
        "timestamp": "2026-03-02T09:00:00.000Z",
    }
