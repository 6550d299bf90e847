"""Loading a long session from a store that was opened just now, into typed turns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import trails
from benchmarks import peers
from benchmarks.data import closed_store, messages, raw_engine, scan_columns
from benchmarks.harness import Contestant, Result, Setting, Stopwatch, Target, medians

_RAW = "raw scans of the same columns"


def run(setting: Setting) -> list[Result]:
    """Measure Trails, the engine's own scans (into strings, not joined), and what the peers return."""
    texts = messages(setting.size.turns, setting.seed)
    folder = closed_store(setting.folder / "store", "s", texts)
    found, missing = peers.installed(setting.folder)
    for peer in found.values():
        peer.fill(texts)
        peer.close()
    seconds = medians(
        [
            Contestant("trails", lambda: load_seconds(folder, "s", len(texts))),
            Contestant(_RAW, lambda: _scan_seconds(folder, len(texts))),
            *(Contestant(name, _peer(name, setting.folder, len(texts))) for name in found),
        ],
        setting.size.rounds,
    )
    ratio = seconds["trails"] / seconds[_RAW]
    return [
        Result(
            name="load",
            title=f"load {len(texts):,} turns from a store opened just now",
            baseline=_RAW,
            seconds=seconds,
            missing=missing,
            targets=[Target("load, against raw scans of the same columns", ratio, 2.0, "x")],
        )
    ]


def load_seconds(folder: Path, session_id: str, expected: int) -> float:
    """Open a store, and return the seconds that loading a session takes; opening is not counted."""
    watch = Stopwatch()
    with trails.open(folder) as store:
        with watch.timed():
            turns = store.load(session_id).turns
        assert len(turns) == expected
    return watch.seconds


def _scan_seconds(folder: Path, expected: int) -> float:
    watch = Stopwatch()
    engine = raw_engine(folder)
    with watch.timed():
        columns = scan_columns(engine, "s")
    assert [len(column) for column in columns] == [expected] * len(columns)
    return watch.seconds


def _peer(name: str, folder: Path, expected: int) -> Callable[[], float]:
    def one_round() -> float:
        watch = Stopwatch()
        peer = peers.reopened(name, folder)
        with watch.timed():
            found = peer.load()
        peer.close()
        assert len(found) == expected
        return watch.seconds

    return one_round
