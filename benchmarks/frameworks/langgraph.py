"""Measure TrailsSaver beside LangGraph's SqliteSaver with WAL and synchronous=FULL: a chat that grows by a message a step."""

from __future__ import annotations

import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.sqlite import SqliteSaver

import trails
from benchmarks.frameworks import Figure
from trails.adapters.langgraph import TrailsSaver

_STEPS = 600
_CHECKPOINTS = 5000
_ROUNDS = 20
_Saver = BaseCheckpointSaver[Any]
_THREAD: Any = {"configurable": {"thread_id": "chat", "checkpoint_ns": ""}}


def measure() -> list[Figure]:
    """Return what a step costs early and late in a chat, its size, and what the newest checkpoint costs to read."""
    with tempfile.TemporaryDirectory() as place:
        return [*_chat(Path(place)), *_cold(Path(place) / "long")]


def _chat(place: Path) -> Iterator[Figure]:
    with trails.open(place / "store", create=True) as store, _sqlite(place / "checkpoints.db") as own:
        savers: tuple[_Saver, _Saver] = (TrailsSaver(store), own)
        spent = _run(savers, _STEPS)
        for name, part in (("the first 100", slice(0, 100)), (f"the last 100 of {_STEPS}", slice(-100, None))):
            ours, theirs = (statistics.median(times[part]) for times in spent)
            yield Figure(f"put + put_writes, {name} steps of a chat", ours, theirs, "0.8x")
        ours, theirs = _alternating(*(lambda saver=saver: saver.get_tuple(_THREAD) for saver in savers))
        yield Figure(f"get_tuple of {_STEPS} messages, warm", ours, theirs, "1.0x")
    sizes = [sum(file.stat().st_size for file in folder) / 1e6 for folder in _files(place)]
    yield Figure(f"MB (not ms) of a chat of {_STEPS} steps", sizes[0], sizes[1], "10 MB")


def _files(place: Path) -> tuple[list[Path], list[Path]]:
    return [each for each in (place / "store").rglob("*") if each.is_file()], list(place.glob("checkpoints.db*"))


@contextmanager
def _sqlite(file: Path) -> Iterator[SqliteSaver]:
    with closing(sqlite3.connect(file, check_same_thread=False)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        saver = SqliteSaver(connection)
        saver.setup()
        yield saver


def _message(number: int) -> AnyMessage:
    if number % 2:
        return HumanMessage("a question of some words " * 12, id=f"m{number}")
    usage: Any = {"input_tokens": 100, "output_tokens": 20, "total_tokens": 120}
    about = {"model_name": "m-1", "finish_reason": "stop"}
    return AIMessage("an answer of some words " * 12, id=f"m{number}", usage_metadata=usage, response_metadata=about)


def _run(savers: tuple[_Saver, _Saver], steps: int) -> tuple[list[float], list[float]]:
    """Take so many steps with both, which take turns; return the milliseconds that each step took."""
    spent: tuple[list[float], list[float]] = ([], [])
    configs: list[Any] = [_THREAD, _THREAD]
    messages: list[AnyMessage] = []
    for step in range(steps):
        messages = [*messages, _message(step)]
        for number, saver in enumerate(savers):
            begun = time.perf_counter()
            configs[number] = _step(saver, configs[number], step, {"messages": messages, "branch:to:model": None})
            saver.put_writes(configs[number], [("messages", messages[-1:])], f"task {step}")
            spent[number].append((time.perf_counter() - begun) * 1000)
    return spent


def _step(saver: _Saver, config: Any, step: int, channels: dict[str, Any]) -> Any:
    made, version = empty_checkpoint(), f"{step + 1:032}.0.5"
    made["id"], made["channel_values"] = str(uuid6(clock_seq=step)), channels
    made["channel_versions"] = dict.fromkeys(channels, version)
    made["versions_seen"] = {"__input__": {}, "model": {"branch:to:model": version}}
    return saver.put(config, made, {"source": "loop", "step": step, "parents": {}}, made["channel_versions"])


def _alternating(*works: Callable[[], Any]) -> tuple[float, float]:
    """Return the median milliseconds of two kinds of work that take turns."""
    spent: tuple[list[float], list[float]] = ([], [])
    for _ in range(_ROUNDS):
        for work, times in zip(works, spent, strict=True):
            begun = time.perf_counter()
            work()
            times.append((time.perf_counter() - begun) * 1000)
    return statistics.median(spent[0]), statistics.median(spent[1])


def _cold(place: Path) -> Iterator[Figure]:
    """Yield what a saver that has read nothing takes for the newest of many checkpoints."""
    with trails.open(place, create=True, durability="process") as store:
        saver, config = TrailsSaver(store), _THREAD
        for step in range(_CHECKPOINTS):
            config = _step(saver, config, step, {"step": step, "notes": {"n": step}})
    with trails.open(place) as store:
        TrailsSaver(store).get_tuple({"configurable": {"thread_id": "another"}})
        ours, _ = _alternating(lambda: TrailsSaver(store).get_tuple(_THREAD), lambda: None)
        yield Figure(f"get_tuple of {_CHECKPOINTS:,} checkpoints, nothing read before", ours, None, "20 ms")
