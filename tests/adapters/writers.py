"""Processes that write through an adapter until they are done or killed, and say in a file what they have done.

They are forked from a server that has imported the frameworks once.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final

import trails

_FORKS: Final = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    ["tests.adapters.writers", "trails.cli", "trails.adapters.openai_agents", "trails.adapters.claude_agent_sdk"]
)
CLAUDE_KEY: Final[Any] = {"project_key": "-home-ada", "session_id": "s1"}


def write_items(place: Path, told: Path, writer: str, count: int, pops: bool) -> None:
    """Add items to a session of the OpenAI Agents SDK; with `pops`, every second call takes one back."""
    from trails.adapters.openai_agents import TrailsSession

    with trails.open(place) as store, told.open("ab", buffering=0) as lines:
        session = TrailsSession("chat", store)
        for number in range(count):
            if pops and number % 2:
                item: Any = asyncio.run(session.pop_item())
                lines.write(f"- {item['content']}\n".encode())
            else:
                asyncio.run(session.add_items([{"role": "user", "content": f"{writer}-{number}"}]))
                lines.write(f"+ {writer}-{number}\n".encode())


def write_entries(place: Path, told: Path, writer: str, count: int, _: bool) -> None:
    """Append entries to a transcript of the Claude Agent SDK, one of its own and one that all writers have, in one call."""
    from trails.adapters.claude_agent_sdk import TrailsSessionStore

    with trails.open(place) as store, told.open("ab", buffering=0) as lines:
        claude = TrailsSessionStore(store)
        for number in range(count):
            message = {"role": "user", "content": "a"}
            batch: Any = [
                {"type": "user", "uuid": f"{name}-{number}", "message": message} for name in (writer, "shared")
            ]
            asyncio.run(claude.append(CLAUDE_KEY, batch))
            lines.write(f"+ {writer}-{number}\n".encode())


_Write = Callable[[Path, Path, str, int, bool], None]


def start(write: _Write, place: Path, told: Path, writer: str, count: int, *, pops: bool = False) -> BaseProcess:
    """Start a process that writes `count` times to the store in a folder."""
    process = _FORKS.Process(target=write, args=(place, told, writer, count, pops))
    process.start()
    return process


def run_together(write: _Write, place: Path, writers: int, count: int, *, pops: bool = False) -> list[tuple[str, str]]:
    """Let processes write to one session at once; return what they say they did: a sign and a text each."""
    files = [place.parent / f"told-{number}" for number in range(writers)]
    running = [start(write, place, file, str(number), count, pops=pops) for number, file in enumerate(files)]
    for process in running:
        process.join()
    assert [process.exitcode for process in running] == [0] * writers
    return [said for file in files for said in _read(file)]


def kill_one(
    write: _Write, place: Path, writer: str, chance: random.Random, *, pops: bool = False
) -> list[tuple[str, str]]:
    """Start a process, kill it within one of its first calls, and return what it said it did."""
    file = place.parent / f"told-{writer}"
    process = start(write, place, file, writer, 1000, pops=pops)
    calls = chance.randrange(1, 8)
    while not file.exists() or len(_read(file)) < calls:
        assert process.is_alive()
        time.sleep(0.001)
    time.sleep(chance.random() * 0.005)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    return _read(file)


def _read(file: Path) -> list[tuple[str, str]]:
    return [(line[0], line[2:]) for line in file.read_text("utf-8").splitlines()]
