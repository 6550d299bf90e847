"""Measuring contestants side by side: round by round, one after the other, so that a busy machine is busy for all."""

from __future__ import annotations

import gc
import os
import platform
import stat
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Final

_PACKAGES: Final = (
    *("trails", "pyoxigraph", "pydantic", "openai-agents", "sqlalchemy", "langgraph-checkpoint-sqlite"),
    *("activegraph", "doltlite"),
)


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured.

    Turns of a session, rounds of each contestant, sessions to list, forks, fresh processes, turns of a large store.
    """

    name: str
    turns: int
    rounds: int
    sessions: int
    forks: int
    starts: int
    scale: int


SIZES: Final = {
    "tiny": Size("tiny", turns=66, rounds=2, sessions=12, forks=3, starts=1, scale=1_500),
    "quick": Size("quick", turns=1_000, rounds=5, sessions=1_000, forks=50, starts=3, scale=20_000),
    "standard": Size("standard", turns=5_000, rounds=9, sessions=10_000, forks=50, starts=10, scale=100_000),
    "long": Size("long", turns=5_000, rounds=31, sessions=100_000, forks=50, starts=30, scale=100_000),
}
"""Only `standard` and `long` are sizes that the targets speak of; `tiny` is for the tests."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What a scenario is given: its size, the seed of its texts, an empty folder of its own, and a large store made earlier."""

    size: Size
    seed: int
    folder: Path
    large: Path | None = None


@dataclass(frozen=True, slots=True)
class Contestant:
    """Somebody who is measured: `run` does one round and returns the seconds that count, or None once it is done."""

    name: str
    run: Callable[[], float | None]


@dataclass(frozen=True, slots=True)
class Target:
    """A promise: `value` at most `target`, in `unit` ("x" for a ratio)."""

    what: str
    value: float
    target: float
    unit: str

    @property
    def met(self) -> bool:
        """True when the value is not above the target."""
        return self.value <= self.target


@dataclass(frozen=True, slots=True)
class Result:
    """What a scenario measured: medians by contestant, in `unit`, who was missing, what was counted, and the promises.

    `durability` says of contestants what a commit of theirs has reached when it returns, where that differs.
    """

    name: str
    title: str
    baseline: str
    medians: dict[str, float]
    unit: str = "s"
    durability: dict[str, str] = field(default_factory=dict)
    missing: Sequence[str] = ()
    counts: dict[str, int] = field(default_factory=dict)
    targets: Sequence[Target] = ()

    def ratio(self, name: str) -> float:
        """Return a contestant's median as a multiple of the baseline's."""
        return self.medians[name] / self.medians[self.baseline]

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values, ready for JSON."""
        return {
            "name": self.name,
            "title": self.title,
            "baseline": self.baseline,
            "unit": self.unit,
            "medians": self.medians,
            "ratios": {name: self.ratio(name) for name in self.medians},
            "durability": self.durability,
            "missing": list(self.missing),
            "counts": self.counts,
            "targets": [
                {"what": t.what, "value": t.value, "target": t.target, "unit": t.unit, "met": t.met}
                for t in self.targets
            ],
        }


def medians(contestants: Sequence[Contestant], rounds: int) -> dict[str, float]:
    """Run all contestants in turn, `rounds` times over; return the median seconds of each, by name."""
    samples: dict[str, list[float]] = {contestant.name: [] for contestant in contestants}
    for _ in range(rounds):
        gc.collect()
        for contestant in contestants:
            seconds = contestant.run()
            if seconds is not None:
                samples[contestant.name].append(seconds)
    return {name: statistics.median(taken) for name, taken in samples.items()}


class Stopwatch:
    """The seconds that the latest `with` block took."""

    def __init__(self) -> None:
        self.seconds = 0.0

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Time a block."""
        started = time.perf_counter()
        yield
        self.seconds = time.perf_counter() - started


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that a call takes; throwing its result away is not counted."""
    started = time.perf_counter()
    result = work()
    seconds = time.perf_counter() - started
    del result
    return seconds


def bytes_in(folder: Path) -> int:
    """Return the sum of the sizes of all files in a folder; one that an engine tidies away meanwhile counts nothing."""
    return sum(_size(path) for path in folder.rglob("*"))


def _size(path: Path) -> int:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


def child_environment() -> dict[str, str]:
    """Return the environment of a process that imports what this one does."""
    root = str(Path(__file__).resolve().parents[1])
    return {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}


def resident(process: int) -> int:
    """Return the bytes of a process that are in memory (Linux)."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def machine() -> dict[str, Any]:
    """Return what a reader must know of the machine to judge the figures."""
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "load": [round(figure, 2) for figure in os.getloadavg()],
    }


def versions() -> dict[str, str]:
    """Return the versions of everything that took part, "not installed" for what did not."""
    return {name: _version(name) for name in _PACKAGES}


def _version(name: str) -> str:
    if name == "trails":
        import trails

        return trails.__version__
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def report(results: Iterable[Result], size: Size, seed: int, before: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON of a whole run; `before` are the machine's facts when it started."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": ["python", "-m", "benchmarks", *sys.argv[1:]],
        "size": size.name,
        "seed": seed,
        "machine": before,
        "versions": versions(),
        "results": [result.to_dict() for result in results],
    }
