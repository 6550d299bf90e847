"""Killing the writing process (SIGKILL) at any moment loses nothing that was acknowledged and leaves nothing half done."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.machines import Size
from tests.support.places import ROOT
from tests.support.writer import Writer, check

_STORES_LAST = 25
"""Kills that one store goes through before a new one is begun (so that making a store is killed too)."""


@pytest.fixture
def server() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.writer"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    with process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


class Run:
    """One child that writes to a store and is killed at a random moment of the kind that `where` says."""

    def __init__(self, server: subprocess.Popen[str], chance: random.Random, writers: list[Writer]) -> None:
        self._server = server
        self._chance = chance
        self._writers = writers
        self.where = chance.choice(("opening", "working", "working", "working", "flush", "closing"))
        self._steps = chance.randint(0, 25)
        self._child = 0
        self._killed = False

    def go(self, path: Path) -> None:
        """Start the child and note all that it tells until it has ended."""
        job = {
            "path": str(path),
            "seed": self._chance.getrandbits(40),
            "writers": len(self._writers),
            "durability": self._chance.choice(("disk", "disk", "process")),
            "steps": self._chance.randint(1, 8) if self.where == "closing" else 10_000,
        }
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(job) + "\n")
        self._server.stdin.flush()
        while True:
            what, *rest = json.loads(self._server.stdout.readline())
            if what == "ended":
                return
            getattr(self, f"_{what}")(*rest)

    def _kill(self, longest: float) -> None:
        if not self._killed:
            time.sleep(self._chance.uniform(0, longest))
            os.kill(self._child, signal.SIGKILL)
            self._killed = True

    def _child_is(self, pid: int) -> None:
        self._child = pid
        if self.where == "opening":
            self._kill(0.15)

    def _begin(self, writer: int, step: dict[str, Any]) -> None:
        self._writers[writer].unfinished = step
        if self.where == "flush" and step["kind"] == "flush":
            self._kill(0.03)

    def _done(self, writer: int) -> None:
        self._writers[writer].done()
        self._steps -= 1
        if self.where == "working" and self._steps <= 0:
            self._kill(0.004)

    def _closing(self) -> None:
        if self.where == "closing":
            self._kill(0.1)

    def _opening(self) -> None: ...
    def _open(self) -> None: ...
    def _closed(self) -> None: ...

    def _failed(self, error: str) -> None:
        pytest.fail(f"the writer failed: {error}")


def test_a_writer_killed_at_any_moment_loses_nothing_acknowledged_and_leaves_nothing_half_done(
    server: subprocess.Popen[str], tmp_path: Path, size: Size
) -> None:
    seed = int(os.environ.get("TRAILS_SEED", "20260728"))
    chance = random.Random(seed)
    points = {"quick": 12, "all": 50, "long": 1000}[size]
    counts: dict[str, int] = {}
    writers: list[Writer] = []
    for point in range(points):
        path = tmp_path / f"store{point // _STORES_LAST}"
        if point % _STORES_LAST == 0:
            writers = [Writer(), Writer()]
        run = Run(server, chance, writers)
        counts[run.where] = counts.get(run.where, 0) + 1
        try:
            run.go(path)
            check(path, writers)
        except BaseException as error:
            error.add_note(f"seed {seed}, kill {point} of {points} while {run.where}")
            raise
    assert sum(counts.values()) == points
    assert len(counts) == 4, f"seed {seed}: {counts}"
