"""What a commit log of one's own buys: many turns in one commit, and many sessions at once."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence

import trails
from benchmarks import peers
from benchmarks.data import KINDS, TEXT_BYTES, Message, add, messages
from benchmarks.harness import Contestant, Result, Setting, Target, medians, timed
from benchmarks.peers.peer import Peer
from benchmarks.scenarios.append import REWRITTEN
from trails import Session

_BATCHES = (1, 10, 100, 1_000)
_ROUND = 500
"""Turns that a contestant appends before it is the next one's turn, or one batch where that is more."""
_SESSIONS = 8


def run(setting: Setting) -> list[Result]:
    """Measure batches of each size and kind, and threads, each on disk with every commit synced."""
    batches = [_batches(setting, kind, size) for kind in KINDS for size in _BATCHES if size <= setting.size.turns]
    return [*batches, _threads(setting)]


def _batches(setting: Setting, kind: str, size: int) -> Result:
    """Measure the seconds of one turn where so many come in one commit."""
    texts = KINDS[kind](max(size, min(setting.size.turns, _ROUND)), setting.seed, TEXT_BYTES)
    name = f"batches {kind} {size}"
    folder = setting.folder / name.replace(" ", "-")
    folder.mkdir()
    found, missing = peers.installed(folder)
    there = {peers.OURS: peers.reopened(peers.OURS, folder), **found}
    seconds = medians(
        [Contestant(who, _commits(peer, texts, size)) for who, peer in there.items()], setting.size.rounds
    )
    said = peers.durability(there)
    for peer in there.values():
        peer.close()
    ours = seconds[peers.OURS] * 1e6
    return Result(
        name=name,
        title=f"append {kind} turns of {TEXT_BYTES} bytes, {size:,} in one commit; seconds of one turn",
        baseline=peers.SQLITE_SESSION if peers.SQLITE_SESSION in seconds else peers.OURS,
        medians=seconds,
        durability=said,
        missing=missing,
        targets=[Target("a turn in a batch of 1,000", ours, 120, "us")] if (kind, size) == ("plain", 1_000) else [],
    )


def _commits(peer: Peer, texts: Sequence[Message], size: int) -> Callable[[], float | None]:
    """Return a round of commits; one who rewrites everything each time is asked for the first commits only."""
    left = math.isqrt(2 * REWRITTEN // (size * TEXT_BYTES)) if peer.rewrites else None

    def several(commits: int) -> None:
        for number in range(commits):
            peer.fill(texts[number * size : (number + 1) * size])

    def one_round() -> float | None:
        nonlocal left
        commits = len(texts) // size
        if left is not None:
            commits = min(commits, left)
            left -= commits
        return peers.seconds(peer, lambda: several(commits)) / (commits * size) if commits else None

    return one_round


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
        medians=seconds,
    )
