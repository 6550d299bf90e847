"""Measure the durable append and the load of the core beside a bare table in SQLite, which has WAL and synchronous=FULL.

Times of work in this process are CPU time: the disk waits for both alike, with one sync for each commit.
"""

from __future__ import annotations

import json
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import trails
from benchmarks.frameworks import Figure

_ROUNDS = 100
_LENGTH = 1000
_TABLE = (
    "CREATE TABLE sessions (id TEXT PRIMARY KEY, updated_at TEXT);"
    "CREATE TABLE messages (number INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT NOT NULL, message TEXT NOT NULL, made TEXT);"
    "CREATE INDEX messages_session ON messages (session, number);"
    "INSERT INTO sessions VALUES ('chat', '');"
)
_PROCESS = """
import sys, trails
with trails.open(sys.argv[1]) as store:
    with store.load("chat") as chat:
        chat.append("user", "Go on")
"""


def measure() -> list[Figure]:
    """Return what appending one turn and ten, and reading 1,000, costs; and a process that opens a store and appends one."""
    with tempfile.TemporaryDirectory() as place, closing(_table(Path(place) / "messages.db")) as table:
        path = Path(place) / "store.trails"
        with (
            trails.open(path, create=True) as store,
            store.create(id="chat", principal="alice", agent="planner") as chat,
        ):

            def append(count: int) -> None:
                for number in range(count):
                    chat.append("user", _text(number))
                chat.persist()

            append(_LENGTH)
            _insert(table, _LENGTH)
            figures = [
                Figure("append of 1, CPU", *_medians(lambda: append(1), lambda: _insert(table, 1)), "-"),
                Figure("append of 10, CPU", *_medians(lambda: append(10), lambda: _insert(table, 10)), "-"),
            ]
            turns = store.create(id="turns")
            for number in range(_LENGTH):
                turns.append("user", _text(number))
            turns.persist()
            load, read = _medians(lambda: len([*store.load("turns")]), lambda: _read(table), 20)
            figures.append(Figure("load of 1,000, CPU", load, read, "20 ms"))
        process = statistics.median(_seconds(path) for _ in range(5)) * 1000
        return [*figures, Figure("open, append 1, close, in a new process", process, None, "-")]


def _text(number: int) -> str:
    return f"message {number}: " + "words and words " * 20


def _table(path: Path) -> sqlite3.Connection:
    made = sqlite3.connect(path, isolation_level=None)
    made.execute("PRAGMA journal_mode = WAL")
    made.execute("PRAGMA synchronous = FULL")
    made.executescript(_TABLE)
    return made


def _insert(table: sqlite3.Connection, count: int) -> None:
    table.execute("BEGIN IMMEDIATE")
    rows = [
        ("chat", json.dumps({"role": "user", "content": _text(number)}), f"{time.time()}") for number in range(count)
    ]
    table.executemany("INSERT INTO messages (session, message, made) VALUES (?, ?, ?)", rows)
    table.execute("UPDATE sessions SET updated_at = ? WHERE id = 'chat'", (rows[-1][2],))
    table.execute("COMMIT")


def _read(table: sqlite3.Connection) -> int:
    asked = "SELECT message FROM messages WHERE session = 'chat' ORDER BY number LIMIT ?"
    return len([json.loads(message) for (message,) in table.execute(asked, (_LENGTH,))])


def _medians(ours: Callable[[], object], other: Callable[[], object], rounds: int = _ROUNDS) -> tuple[float, float]:
    """Return the median milliseconds of CPU of two works, which take turns."""
    spent: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for work, times in zip((ours, other), spent, strict=True):
            begun = time.process_time()
            work()
            times.append((time.process_time() - begun) * 1000)
    return statistics.median(spent[0]), statistics.median(spent[1])


def _seconds(path: Path) -> float:
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", _PROCESS, path], check=True)
    return time.perf_counter() - begun
