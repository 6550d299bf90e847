"""Appending turns one at a time, each stored before the next, at either durability."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pyoxigraph as ox

from benchmarks import peers
from benchmarks.data import Message, Recording, messages
from benchmarks.harness import Contestant, Result, Setting, Target, medians, timed
from trails import Repository
from trails.store.contract import Durability

_ROUND = 50
"""Turns that a contestant appends before it is the next one's turn."""
FLUSH_AFTER = 20_000
"""Quads between the flushes of an embedded store."""
_RAW = "raw engine, the same quads"


def run(setting: Setting) -> list[Result]:
    """Measure both durabilities."""
    return [_measured(setting, "disk"), _measured(setting, "process")]


def _measured(setting: Setting, durability: Durability) -> Result:
    texts = messages(setting.size.turns, setting.seed)
    folder = setting.folder / durability
    folder.mkdir()
    found, missing = peers.installed(folder) if durability == "disk" else _json_lines_only(folder)
    recording = Recording(folder / "store", create=True, durability=durability)
    with Repository(recording) as store:
        session = store.create(principal="alice", agent="planner")
        session.persist()
        recording.written.clear()

        def one_turn(message: Message) -> None:
            session.append(message.role, message.text)
            session.persist()

        contestants = [
            Contestant("trails", _by_rounds(texts, one_turn)),
            Contestant(_RAW, _Raw(folder / "raw", recording, synced=durability == "disk").one_round),
            *(Contestant(name, _by_rounds(texts[: peer.limit], peer.append)) for name, peer in found.items()),
        ]
        seconds = medians(contestants, -(-len(texts) // _ROUND))
    for peer in found.values():
        peer.close()
    ratio = seconds["trails"] / seconds[_RAW]
    promised = "one append, against the engine's own write and sync"
    return Result(
        name=f"append-{durability}",
        title=f"append one turn, durability {durability!r}",
        baseline=_RAW,
        seconds=seconds,
        missing=missing,
        targets=[Target(promised, ratio, 1.3, "x"), *_against(seconds)] if durability == "disk" else [],
    )


def _against(seconds: dict[str, float]) -> list[Target]:
    """Return what a durable append may take beside those of the peers that sync theirs, where they are installed."""
    bars = (("openai-agents SQLiteSession", 0.8), (peers.JSON_LINES, 2.0))
    return [
        Target(f"one append, against {name}", seconds["trails"] / seconds[name], bar, "x")
        for name, bar in bars
        if name in seconds
    ]


def _json_lines_only(folder: Path) -> tuple[dict[str, peers.Peer], list[str]]:
    return {peers.JSON_LINES: peers.JsonLines(folder, synced=False)}, []


def _by_rounds(texts: Sequence[Message], append: Callable[[Message], None]) -> Callable[[], float | None]:
    """Return a round that appends the next texts and returns the seconds for one of them, or None at the end."""
    batches = (texts[start : start + _ROUND] for start in range(0, len(texts), _ROUND))

    def all_of(batch: Sequence[Message]) -> None:
        for message in batch:
            append(message)

    def one_round() -> float | None:
        batch = next(batches, None)
        return None if batch is None else timed(lambda: all_of(batch)) / len(batch)

    return one_round


class _Raw:
    """The bare engine, writing what the store recorded and syncing its log, flushed as often as the store flushes."""

    def __init__(self, folder: Path, recording: Recording, *, synced: bool) -> None:
        self._folder = folder
        self._recording = recording
        self._synced = synced
        self._engine = ox.Store(str(folder))
        self._logs: list[int] = []
        self._unflushed = 0
        self._open_logs()

    def _open_logs(self) -> None:
        for log in self._logs:
            os.close(log)
        self._logs = [os.open(path, os.O_RDWR) for path in self._folder.glob("*.log")] if self._synced else []

    def _write(self, batches: Sequence[list[ox.Quad]]) -> None:
        for batch in batches:
            self._engine.extend(batch)
            for log in self._logs:
                os.fdatasync(log)

    def one_round(self) -> float:
        """Write what was recorded since the last round; return the seconds for one commit, without those for flushing."""
        batches = list(self._recording.written)
        self._recording.written.clear()
        seconds = timed(lambda: self._write(batches)) / len(batches)
        self._unflushed += sum(len(batch) for batch in batches)
        if self._unflushed >= FLUSH_AFTER:  # unflushed, the engine grows slower with every write
            self._unflushed = 0
            self._engine.flush()
            self._open_logs()
        return seconds
