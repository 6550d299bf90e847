"""What a commit log of one's own buys: many turns in one commit, many sessions at once, opening after a kill."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import trails
from benchmarks import peers
from benchmarks.data import Message, add, messages
from benchmarks.harness import Contestant, Result, Setting, Target, medians, timed
from trails import Session

_BATCHES = (1, 10, 100, 1_000)
_SESSIONS = 8
_SQLITE = "openai-agents SQLiteSession"
_KILLED = """
import os, sys, trails
from benchmarks.data import messages
store = trails.open(sys.argv[1])
session = store.load("0")
for message in messages(int(sys.argv[2]), 7):
    session.append(message.role, message.text)
    session.persist()
os.kill(os.getpid(), 9)
"""


def run(setting: Setting) -> list[Result]:
    """Measure batches, threads and opening, each on disk with every commit synced."""
    return [_batches(setting), _threads(setting), _opening(setting)]


def _batches(setting: Setting) -> Result:
    """Measure the seconds of one turn, by how many come in one commit."""
    texts = messages(setting.size.turns, setting.seed)
    folder = setting.folder / "batches"
    folder.mkdir()
    with trails.open(folder / "store", create=True) as store:
        contestants = []
        for size in (size for size in _BATCHES if size <= len(texts)):
            session = store.create(id=f"by-{size}")
            session.persist()
            contestants.append(Contestant(_by(size), _commits(session, texts, size)))
        found, missing = peers.installed(folder)
        if _SQLITE in found:
            contestants.append(Contestant(_SQLITE, lambda: timed(lambda: found[_SQLITE].append(texts[0]))))
        seconds = medians(contestants, setting.size.rounds)
        for peer in found.values():
            peer.close()
    targets = (
        [Target("a turn in a batch of 1,000", seconds[_by(1_000)] * 1e6, 120, "us")] if _by(1_000) in seconds else []
    )
    return Result(
        name="batches",
        title="append turns, so many in one commit; seconds of one turn",
        baseline=_by(1),
        seconds=seconds,
        missing=missing,
        targets=targets,
    )


def _by(size: int) -> str:
    return f"trails, {size:,} a commit"


def _commits(session: Session, texts: Sequence[Message], size: int) -> Callable[[], float]:
    commits = max(1, min(2_000, len(texts)) // size)

    def several() -> None:
        for _ in range(commits):
            add(session, texts[:size])

    return lambda: timed(several) / (commits * size)


def _threads(setting: Setting) -> Result:
    """Measure the seconds of one turn with one thread, and with eight of which each has a session of its own."""
    texts = messages(min(setting.size.turns, 100), setting.seed)
    with trails.open(setting.folder / "threads", create=True) as store:
        sessions = [store.create(id=str(number)) for number in range(_SESSIONS)]
        for session in sessions:
            session.persist()

        def work(session: Session) -> None:
            for message in texts:
                add(session, [message])

        def together(count: int) -> None:
            threads = [threading.Thread(target=work, args=(session,)) for session in sessions[:count]]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        one, eight = "one thread", f"{_SESSIONS} threads"
        seconds = medians(
            [
                Contestant(one, lambda: timed(lambda: together(1)) / len(texts)),
                Contestant(eight, lambda: timed(lambda: together(_SESSIONS)) / (len(texts) * _SESSIONS)),
            ],
            setting.size.rounds,
        )
    return Result(
        name="threads",
        title="append one turn at a time, each synced before the next, sessions side by side",
        baseline=one,
        seconds=seconds,
    )


def _opening(setting: Setting) -> Result:
    """Measure opening a store of many sessions after it was closed, and after its process was killed."""
    place = setting.folder / "opening"
    with trails.open(place, create=True, durability="process") as store:
        for number, message in enumerate(messages(setting.size.sessions, setting.seed)):
            session = store.create(id=str(number))
            session.append(message.role, message.text)
            session.persist()
    unflushed = min(setting.size.turns, 1_900)
    well, killed = "after a close", f"after a kill, {unflushed:,} turns unflushed"
    seconds = medians(
        [Contestant(killed, lambda: _after_a_kill(place, unflushed)), Contestant(well, lambda: _open(place))],
        min(setting.size.rounds, 5),
    )
    return Result(
        name="opening",
        title=f"open a store of {setting.size.sessions:,} sessions",
        baseline=well,
        seconds=seconds,
        targets=[Target("opening after a kill, with most of a flush to replay", seconds[killed] * 1e3, 500, "ms")],
    )


def _after_a_kill(place: Path, turns: int) -> float:
    root = str(Path(__file__).resolve().parents[2])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
    subprocess.run([sys.executable, "-c", _KILLED, str(place), str(turns)], check=False, env=environment)
    return _open(place)


def _open(place: Path) -> float:
    opened = []
    seconds = timed(lambda: opened.append(trails.open(place)))
    opened[0].close()
    return seconds
