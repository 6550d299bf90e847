"""Questions to a large store, in a process that can be ended: `python -m benchmarks.asking FOLDER`, what to ask on its input."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any, Final

import trails
from benchmarks.harness import child_environment, resident, timed
from trails import Repository

PATIENCE: Final = 30
"""Seconds of CPU after which a query is given up: it cannot be ended from within."""


def opening(folder: Path) -> tuple[float, int]:
    """Return the seconds that opening a view takes, and the bytes by which its process grows."""
    (found,) = _answers(folder, {}).values()
    return found["seconds"], found["bytes"]


def ask(folder: Path, given: dict[str, dict[str, Any]]) -> dict[str, float]:
    """Return the seconds that each query of the catalogue takes in a view with its values, the quicker of two.

    One that has not ended after `PATIENCE` counts as that, and the others are asked in another process.
    """
    seconds: dict[str, float] = {}
    while left := {name: values for name, values in given.items() if name not in seconds}:
        answers = _answers(folder, left)
        seconds |= {name: answers[name]["seconds"] for name in left if name in answers}
        unanswered = [name for name in left if name not in answers]
        seconds |= dict.fromkeys(unanswered[:1], float(PATIENCE))
    return seconds


def _answers(folder: Path, given: dict[str, dict[str, Any]]) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.asking", str(folder)]
    ran = subprocess.run(
        command, check=False, env=child_environment(), input=json.dumps(given).encode(), stdout=subprocess.PIPE
    )
    assert ran.returncode <= 0, "a question failed"
    return {answer["name"]: answer for answer in map(json.loads, ran.stdout.splitlines())}


def _answer(folder: str, given: dict[str, dict[str, Any]]) -> None:
    with trails.open(":memory:"):  # what is imported once
        before = resident(os.getpid())
    started = time.perf_counter()
    with trails.open(folder, read_only=True) as store:
        _say(name="", seconds=time.perf_counter() - started, bytes=resident(os.getpid()) - before)
        for name, values in given.items():
            patience = int(time.process_time()) + PATIENCE
            resource.setrlimit(resource.RLIMIT_CPU, (patience, resource.RLIM_INFINITY))
            seconds = min(timed(partial(_rows, store, name, values)) for _ in range(2))
            _say(name=name, seconds=seconds)


def _rows(store: Repository, name: str, values: dict[str, Any]) -> int:
    found = store.query(name, **values)
    return 1 if isinstance(found, bool) else len(list(found))


def _say(**what: object) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    _answer(sys.argv[1], json.load(sys.stdin))
