"""Opening a store after it was closed, and after its process was killed: of many sessions, and of one long one."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import trails
from benchmarks import peers
from benchmarks.data import TEXT_BYTES, agent_messages, messages
from benchmarks.harness import Contestant, Result, Setting, Target, child_environment, medians, timed
from benchmarks.peers import killed
from benchmarks.peers.peer import Peer
from benchmarks.scenarios.append import REWRITTEN

_MOST_UNFLUSHED = 1_900
"""Turns: some more, and the engine would have been flushed."""
_LAST = 50
_WELL = "after a close"
_APPEND_AND_DIE = """
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
    """Measure opening alone, and opening with reading the end of a session, beside the peers."""
    return [_many_sessions(setting), *_one_session(setting)]


def _many_sessions(setting: Setting) -> Result:
    place = setting.folder / "many"
    with trails.open(place, create=True, durability="process") as store:
        for number, message in enumerate(messages(setting.size.sessions, setting.seed)):
            session = store.create(id=str(number))
            session.append(message.role, message.text)
            session.persist()
    unflushed = min(setting.size.turns, _MOST_UNFLUSHED)
    name = f"after a kill, {unflushed:,} turns unflushed"
    seconds = medians(
        [Contestant(name, lambda: _after_a_kill(place, unflushed)), Contestant(_WELL, lambda: _open(place))],
        min(setting.size.rounds, 5),
    )
    return Result(
        name="opening",
        title=f"open a store of {setting.size.sessions:,} sessions",
        baseline=_WELL,
        medians=seconds,
        targets=[Target("opening after a kill, with most of a flush to replay", seconds[name] * 1e3, 500, "ms")],
    )


def _after_a_kill(place: Path, turns: int) -> float:
    command = [sys.executable, "-c", _APPEND_AND_DIE, str(place), str(turns)]
    ended = subprocess.run(command, check=False, env=child_environment())
    assert ended.returncode == -signal.SIGKILL
    return _open(place)


def _open(place: Path) -> float:
    opened = []
    seconds = timed(lambda: opened.append(trails.open(place)))
    opened[0].close()
    return seconds


def _one_session(setting: Setting) -> list[Result]:
    """Measure everybody with one session, of which the last turns were appended one by one before it was closed or killed."""
    well, ill = setting.folder / "closed", setting.folder / "killed"
    texts = agent_messages(setting.size.turns, setting.seed)
    found, missing = peers.installed(well)
    names, added = [peers.OURS, *found], {}
    there: dict[str, Peer] = {peers.OURS: peers.reopened(peers.OURS, well), **found}
    for name, peer in there.items():
        peer.fill(texts)
        peer.close()
        added[name] = _affordable(peer, len(texts))
        shutil.copytree(peers.place(name, well), peers.place(name, ill))
        killed.kill(name, ill, added[name])
    said = peers.durability(there)
    results = []
    for what, folder, more in ((_WELL, well, dict.fromkeys(names, 0)), ("after a kill", ill, added)):
        contestants = [
            Contestant(name, partial(_opened, name, folder, setting.folder / "now", len(texts) + more[name]))
            for name in names
        ]
        seconds = medians(contestants, setting.size.rounds)
        results.append(
            Result(
                name=f"opening {what}",
                title=f"open a store and read the last {_LAST} of {len(texts):,} agent-like turns, {what}",
                baseline=peers.SQLITE_SESSION if peers.SQLITE_SESSION in seconds else peers.OURS,
                medians=seconds,
                durability=said,
                missing=missing,
                counts=_told(more),
            )
        )
    return results


def _affordable(peer: Peer, turns: int) -> int:
    """Return how many turns a peer is let append one by one, where it may write all `turns` again each time."""
    most = REWRITTEN // (turns * TEXT_BYTES) if peer.rewrites else _MOST_UNFLUSHED
    return max(1, min(turns, most))


def _told(added: dict[str, int]) -> dict[str, int]:
    """Return how many turns were appended before the kill: by Trails, and by whom that was not affordable."""
    return {
        f"turns appended before the kill: {name}": count
        for name, count in added.items()
        if count and (name == peers.OURS or count != added[peers.OURS])
    }


def _opened(name: str, folder: Path, copy: Path, expected: int) -> float:
    """Open a copy, so that the next round finds the same; all that was appended must be there."""
    shutil.copytree(peers.place(name, folder), peers.place(name, copy))
    peer, seconds = peers.opened(name, copy, lambda peer: peer.last(_LAST))
    assert len(peer.load()) == expected
    peer.close()
    shutil.rmtree(copy)
    return seconds
