"""An owner of a store that does everything at once, in a process of its own, and what may be seen of it beside.

`python -m tests.support.busy_owner STORE TOLD SEED` appends, flushes, redacts, vacuums, brings in and deletes whole
sessions until its stdin closes. `TOLD` is a file of numbers: each deed is counted in one place before it begins and in the
next once it was acknowledged. Whoever reads them before and after a look knows what must be seen, and what may be.
"""

from __future__ import annotations

import os
import random
import select
import struct
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import trails
from trails import Repository

SESSIONS: Final = 3
LARGE: Final = 450
"""Turns of a session that comes in whole: more quads than the engine's bulk loader is for."""
FORM: Final = struct.Struct(f"={2 * (2 * SESSIONS + 2)}Q")


@dataclass(frozen=True)
class Told:
    """How much was begun, or acknowledged: turns and redactions by session, sessions brought in, of these deleted."""

    turns: tuple[int, ...]
    redacted: tuple[int, ...]
    brought: int
    deleted: int


def read(file: Path) -> tuple[Told, Told]:
    """Return what was begun, and what was acknowledged."""
    numbers = FORM.unpack(file.read_bytes())
    return _told(numbers[::2]), _told(numbers[1::2])


def _told(numbers: tuple[int, ...]) -> Told:
    return Told(numbers[:SESSIONS], numbers[SESSIONS : 2 * SESSIONS], numbers[-2], numbers[-1])


def text(session: int, index: int) -> str:
    """Return what a turn says."""
    return f"turn {index} of session {session}: " + "word " * (index % 40)


class Owner:
    """The store and the numbers."""

    def __init__(self, place: Path, told: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.file = os.open(told, os.O_RDWR)
        self.numbers = [0] * (2 * SESSIONS + 2)
        self.store: Repository = trails.open(place, create=True)
        self.sessions = [self.store.create(id=f"s{n}") for n in range(SESSIONS)]

    def begin(self, place: int, by: int = 1) -> None:
        self.numbers[place] += by
        self._put(2 * place, self.numbers[place])

    def done(self, place: int) -> None:
        self._put(2 * place + 1, self.numbers[place])

    def _put(self, place: int, number: int) -> None:
        os.pwrite(self.file, struct.pack("=Q", number), 8 * place)

    def append(self) -> None:
        session = self.random.randrange(SESSIONS)
        more = self.random.choice((1, 1, 2, 5))
        for _ in range(more):
            self.sessions[session].append("user", text(session, len(self.sessions[session].turns)))
        self.begin(session, more)
        self.sessions[session].persist()
        self.done(session)

    def redact(self) -> None:
        session = self.random.randrange(SESSIONS)
        index = self.numbers[SESSIONS + session]
        if index < self.numbers[session]:
            self.begin(SESSIONS + session)
            self.store.redact(f"s{session}", index)
            self.done(SESSIONS + session)

    def bring(self) -> None:
        made = self.store.create(id=f"large{self.numbers[-2]}")
        for index in range(LARGE):
            made.append("user", text(99, index))
        self.begin(len(self.numbers) - 2)
        made.persist()
        self.done(len(self.numbers) - 2)

    def delete(self) -> None:
        if self.numbers[-1] < self.numbers[-2]:
            self.begin(len(self.numbers) - 1)
            self.store.delete(f"large{self.numbers[-1] - 1}")
            self.done(len(self.numbers) - 1)

    def flush(self) -> None:
        self.store.store.flush()

    def vacuum(self) -> None:
        self.store.maintenance.vacuum()

    def work(self) -> None:
        deeds = [*[self.append] * 80, *[self.flush] * 6, *[self.redact] * 6, *[self.bring] * 3, *[self.delete] * 3]
        while not select.select([sys.stdin], [], [], 0)[0]:
            self.random.choice([*deeds, *[self.vacuum] * 2])()


if __name__ == "__main__":
    owner = Owner(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
    owner.append()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    owner.work()
    owner.store.close()
