"""Eight processes that write to one store, and are killed at random: what they said is written, and what is there."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import trails

_SESSIONS = ("a", "b", "c", "d")
_WRITER = """
import sys, time
import trails
url, name, sessions, options = sys.argv[1], sys.argv[2], sys.argv[3].split(","), eval(sys.argv[4])

def opened():
    while True:
        try:
            return trails.open(url, **options)
        except trails.StoreFailed:  # the server is away
            time.sleep(0.2)

store, number = opened(), 0
while True:
    session = store.load(sessions[number % len(sessions)])
    while True:
        session.append("user", f"{name}-{number}")
        try:
            session.persist()
            break
        except trails.HeadConflict:
            session.discard_pending()
            session = store.load(session.id)
        except trails.StoreFailed:  # the server is away for longer than a commit tries: what is pending is kept
            session.discard_pending()
            time.sleep(0.2)
            store.close()
            store = opened()
            session = store.load(session.id)
            if any(turn.text == f"{name}-{number}" for turn in session.turns):
                break
    print(f"{name}-{number}", flush=True)
    number += 1
"""


class Writers:
    """Eight processes that write until they are ended; what they say is written counts as acknowledged."""

    def __init__(self, url: str, sessions: str, folder: Path, thin: int = 0) -> None:
        """Of any eight that are begun one after the other, so many are thin."""
        self.url, self.sessions, self.folder, self.thin, self.begun = url, sessions, folder, thin, 0
        self.running = [self.start() for _ in range(8)]

    def start(self) -> subprocess.Popen[bytes]:
        self.begun += 1
        name = f"w{self.begun}"
        options = {"thin": True} if self.begun % 8 < self.thin else {}
        command = [sys.executable, "-c", _WRITER, self.url, name, self.sessions, repr(options)]
        with (self.folder / f"{name}.out").open("wb") as said, (self.folder / f"{name}.err").open("wb") as failed:
            return subprocess.Popen(command, stdout=said, stderr=failed)

    @property
    def acknowledged(self) -> list[str]:
        texts = [file.read_text("utf-8") for file in self.folder.glob("*.out")]
        return [line for text in texts for line in text.split("\n")[:-1]]

    def kill(self, which: int) -> None:
        self.running[which].kill()
        self.running[which].wait()
        self.running[which] = self.start()

    def end(self) -> None:
        for each in self.running:
            each.kill()
            each.wait()

    def refuse_ended(self) -> None:
        if any(each.poll() is not None for each in self.running):
            pytest.fail("".join(file.read_text("utf-8")[-1000:] for file in self.folder.glob("*.err")))


def write_and_kill(
    url: str,
    folder: Path,
    turns: int,
    kills: int,
    restarts: int = 0,
    *,
    restart: Callable[[], None] = print,
    served: bool = False,
    thin: int = 0,
) -> None:
    """Have processes write until so many turns are acknowledged, and hold against it what is there then.

    Nothing acknowledged is missing, and nothing is there twice. A store that is `served` is made by whoever serves it, and
    its index is the server's.
    """
    with trails.open(url, create=not served) as store:
        for name in _SESSIONS:
            store.create(id=name).persist()
    chance = random.Random(13)
    marks = sorted(chance.sample(range(turns // 10, turns), kills + restarts))
    restarting = set(chance.sample(marks, restarts))
    writers = Writers(url, ",".join(_SESSIONS), folder, thin)
    pause = threading.Event()
    try:
        while (done := len(writers.acknowledged)) < turns:
            pause.wait(0.05)
            writers.refuse_ended()
            if marks and done >= marks[0]:
                if marks.pop(0) in restarting:
                    restart()
                else:
                    writers.kill(chance.randrange(8))
    finally:
        writers.end()
    with trails.open(url) as store:
        found = Counter(turn.text for name in _SESSIONS for turn in store.load(name).turns)
        assert not [text for text in writers.acknowledged if not found[text]], "lost"
        assert max(found.values()) == 1, "doubled"
        # Of each process that was killed, one commit may have been written whose answer it did not live to tell.
        assert len(found) - len(writers.acknowledged) <= writers.begun
        assert store.verify().ok
        if served:
            return
        quads = set(store.store.quads((None, None, None, None)))
    with trails.open(url, read_only=True) as store:
        assert set(store.store.quads((None, None, None, None))) == quads
