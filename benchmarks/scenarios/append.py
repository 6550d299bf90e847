"""Appending turns one at a time, each stored before the next: plain and agent-like ones, of three sizes."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pyoxigraph as ox

from benchmarks import peers
from benchmarks.data import KINDS, TEXT_BYTES, Message, Recording, add
from benchmarks.harness import Contestant, Result, Setting, Target, medians, timed
from benchmarks.peers.lines import JsonLines
from benchmarks.peers.peer import Peer
from trails import Repository
from trails.store.contract import Durability

LENGTHS = {TEXT_BYTES: 1, 4_000: 5, 40_000: 25}
"""The bytes of a turn, and by what to divide how many turns of them are measured."""
_ROUND = 50
"""Turns of 400 bytes that a contestant appends before it is the next one's turn."""
REWRITTEN = 50_000_000
"""Bytes that a peer is let write in all, where it writes everything again with each turn."""
FLUSH_AFTER = 20_000
"""Quads between the flushes of an embedded store."""
_RAW = "raw engine, the same quads"


def run(setting: Setting) -> list[Result]:
    """Measure both kinds of turns in each size, each commit on disk; and plain ones left to the system."""
    on_disk = [_measured(setting, "disk", kind, length) for kind in KINDS for length in LENGTHS]
    return [*on_disk, _measured(setting, "process", "plain", TEXT_BYTES)]


def _measured(setting: Setting, durability: Durability, kind: str, length: int) -> Result:
    texts = KINDS[kind](max(10, setting.size.turns // LENGTHS[length]), setting.seed, length)
    name = f"append-{durability} {kind} {length}"
    folder = setting.folder / name.replace(" ", "-")
    folder.mkdir()
    found, missing = peers.installed(folder) if durability == "disk" else _json_lines_only(folder)
    recording = Recording(folder / "store", create=True, durability=durability)
    each = max(2, _ROUND // LENGTHS[length])
    with Repository(recording) as store:
        session = store.create(principal="alice", agent="planner")
        session.persist()
        recording.written.clear()

        def one_by_one(batch: Sequence[Message]) -> None:
            for message in batch:
                add(session, [message])

        contestants = [
            Contestant(peers.OURS, _by_rounds(texts, each, lambda batch: timed(lambda: one_by_one(batch)))),
            Contestant(_RAW, _Raw(folder / "raw", recording, synced=durability == "disk").one_round),
            *(
                Contestant(who, _by_rounds(affordable(peer, texts), each, _appender(peer)))
                for who, peer in found.items()
            ),
        ]
        seconds = medians(contestants, -(-len(texts) // each))
    said = peers.durability(found)
    for peer in found.values():
        peer.close()
    ours = "synced (durability disk)" if durability == "disk" else "not synced (durability process)"
    return Result(
        name=name,
        title=f"append one {kind} turn of {length:,} bytes, durability {durability!r}",
        baseline=_RAW,
        medians=seconds,
        durability={peers.OURS: ours, _RAW: "synced (fdatasync)" if durability == "disk" else "not synced", **said},
        missing=missing,
        targets=_targets(seconds) if durability == "disk" and length == TEXT_BYTES else [],
    )


def _targets(seconds: dict[str, float]) -> list[Target]:
    """Return what a durable append may take beside the engine's own and those of the peers that sync theirs."""
    promised = Target(
        "one append, against the engine's own write and sync", seconds[peers.OURS] / seconds[_RAW], 1.3, "x"
    )
    bars = ((peers.SQLITE_SESSION, 0.8), (peers.JSON_LINES, 2.0))
    return [
        promised,
        *(
            Target(f"one append, against {name}", seconds[peers.OURS] / seconds[name], bar, "x")
            for name, bar in bars
            if name in seconds
        ),
    ]


def affordable(peer: Peer, texts: Sequence[Message]) -> Sequence[Message]:
    """Return as many of these messages as a peer is let append one by one."""
    return texts[: math.isqrt(2 * REWRITTEN // len(texts[0].text))] if peer.rewrites else texts


def _appender(peer: Peer) -> Callable[[Sequence[Message]], float]:
    return lambda batch: peers.seconds(peer, lambda: peer.append(batch))


def _json_lines_only(folder: Path) -> tuple[dict[str, Peer], list[str]]:
    return {peers.JSON_LINES: JsonLines(folder, synced=False)}, []


def _by_rounds(
    texts: Sequence[Message], each: int, append: Callable[[Sequence[Message]], float]
) -> Callable[[], float | None]:
    """Return a round that appends the next texts and returns the seconds for one of them, or None at the end."""
    batches = (texts[start : start + each] for start in range(0, len(texts), each))

    def one_round() -> float | None:
        batch = next(batches, None)
        return None if batch is None else append(batch) / len(batch)

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
