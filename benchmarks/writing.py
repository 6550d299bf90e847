"""A process that writes to a store for some seconds: `python -m benchmarks.writing STORE SESSION SECONDS [TURNS A SECOND]`.

It says "ready", waits for a line, commits one turn of 400 bytes after the other, and says how long each commit took.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import cycle

import trails
from benchmarks.data import TEXT_BYTES, add, messages
from benchmarks.harness import child_environment

_TEXTS = 1_000
_AT_ONCE = 20
"""Turns of a commit where so many a second are asked for."""


def write(stores: Sequence[str], seconds: float) -> list[list[float]]:
    """Have a process for each of some stores write to it, all at once; return the seconds that each of their commits took."""
    with ExitStack() as ended:
        writers = [ended.enter_context(started(store, f"s{number}", seconds)) for number, store in enumerate(stores)]
        for writer in writers:
            go(writer)
        return [wrote(writer) for writer in writers]


def started(store: str, session: str, seconds: float, rate: int = 0) -> subprocess.Popen[str]:
    """Start a process that writes to a session, which it makes, and return it once it waits for `go`."""
    command = [sys.executable, "-m", "benchmarks.writing", store, session, str(seconds), str(rate)]
    made = subprocess.Popen(command, env=child_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert made.stdout is not None
    assert made.stdout.readline() == "ready\n", "a writer failed"
    return made


def go(writer: subprocess.Popen[str]) -> None:
    """Let a process that was started write."""
    assert writer.stdin is not None
    writer.stdin.write("go\n")
    writer.stdin.flush()


def wrote(writer: subprocess.Popen[str]) -> list[float]:
    """Wait until a process has written, and return the seconds that each commit took; it closes its store after that."""
    assert writer.stdout is not None
    return json.loads(writer.stdout.readline())  # type: ignore[no-any-return] # as it writes them


def _write(store: str, session_id: str, seconds: float, rate: int) -> None:
    with trails.open(store) as opened:
        session = opened.create(id=session_id)
        session.persist()
        texts = cycle(messages(_TEXTS, seed=1, size=TEXT_BYTES))
        print("ready", flush=True)
        sys.stdin.readline()
        took, begun = list[float](), time.perf_counter()
        while (now := time.perf_counter()) - begun < seconds:
            add(session, [next(texts) for _ in range(_AT_ONCE if rate else 1)])
            took.append(time.perf_counter() - now)
            if rate:
                time.sleep(max(0.0, len(took) * _AT_ONCE / rate - (time.perf_counter() - begun)))
        print(json.dumps(took), flush=True)


if __name__ == "__main__":
    _write(sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4]))
