"""A store of any size up to a million turns and beyond: `python -m benchmarks.million FOLDER [--turns N] [--sessions N]`."""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

import trails
from benchmarks import audit_store
from trails import Repository, Session

TURNS: Final = 1_000_000
SESSIONS: Final = 10_000
DEEP: Final = audit_store.DEEP
"""The session at the end of ten forks."""
LONG: Final = "long"
"""The session that owns a tenth of all turns."""
FORKED: Final = "forked"
"""The session that is forked again and again."""
RARE: Final = "zanzibar"
"""A word that stands in one turn of ten thousand."""
_START: Final = datetime(2026, 2, 1, 6, tzinfo=UTC)
_PEOPLE: Final = tuple(f"person{number}" for number in range(40))
_MODELS: Final = ("m-small", "m-middle", "m-large")
_TOOLS: Final = ("search", "weather", "tables", "files", "shell", "browser")
_BYTES: Final = 400


class Words:
    """Texts of about 400 bytes out of 5,000 words, some of which are far more frequent than others."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        syllables = [first + second for first in "bdfghklmnprstvz" for second in "aeiou"]
        self._words = ["".join(self.chance.choices(syllables, k=self.chance.randint(1, 4))) for _ in range(5_000)]
        self._weights = list(accumulate(1 / (rank + 5) for rank in range(len(self._words))))

    def text(self, number: int) -> str:
        """Return the text of a turn; every ten-thousandth has the rare word."""
        said = self.chance.choices(self._words, cum_weights=self._weights, k=65)
        if number % 10_000 == 0:
            said.insert(3, RARE)
        return f"{number} {' '.join(said)}"[:_BYTES]


def make(store: Repository, *, turns: int, sessions: int, seed: int = 2026) -> Iterator[int]:
    """Fill an empty store with so many turns in so many sessions; yield now and then how many turns there are.

    A fiftieth of the turns is in families with something of everything (`audit_store`), which every query finds something
    in, a tenth in one long session; the others are in sessions of their own, of which every tenth is a fork.
    """
    families = max(4, turns // 5_000)
    audit_store.fill(store, turns=max(330, turns // 200), depth=10, families=families, size=60)
    counts = store.info()
    made, there, words = counts["turns"], counts["sessions"] + 1, Words(seed)
    long = store.create(id=LONG, principal=_PEOPLE[0], agent="planner", created=_START)
    for start in range(0, turns // 10, 1_000):
        made += _talk(long, start, min(1_000, turns // 10 - start), _PEOPLE[0], words)
        yield made
    earlier: list[str] = []
    while there < sessions:
        left = (turns - made) // (sessions - there)
        own = max(4, left if sessions - there == 1 else words.chance.randint(left // 5, 2 * left - left // 5))
        person = words.chance.choice(_PEOPLE)
        session = _begun(store, there, person, earlier, words)
        made += _talk(session, len(session), own, person, words)
        there += 1
        if there % 100 == 0:
            yield made
    yield made


def _begun(store: Repository, number: int, person: str, earlier: list[str], words: Words) -> Session:
    created = _START + timedelta(minutes=7 * number)
    if number % 10 == 0 and earlier:
        parent = store.load(words.chance.choice(earlier[-500:]))
        at = words.chance.randint(0, len(parent))
        return parent.fork(at=at, id=f"s{number}", principal=person, created=created)
    earlier.append(f"s{number}")
    return store.create(
        id=f"s{number}",
        principal=person,
        agent=f"agent{number % 7}",
        created=created,
        label=f"talk {number}" if number % 4 == 0 else None,
        meta={"project": f"project{number % 50}"},
    )


def _talk(session: Session, start: int, count: int, person: str, words: Words) -> int:
    """Append turns in fours: a question, a look with a tool, what the tool said, an answer; return how many."""
    chance, at = words.chance, session.record.created or _START
    model = chance.choice(_MODELS)
    for number in range(start, start + count):
        at += timedelta(seconds=20)
        text = words.text(chance.randrange(10**9) if number else 0)
        told: dict[str, Any] = {
            "model": model,
            "usage": {"input_tokens": 900 + number, "output_tokens": 40 + number % 60, "cost": 0.01},
        }
        match number % 4:
            case 0:
                session.append("user", text, author=person, time=at)
            case 1:
                call = {"id": f"c{number}", "name": chance.choice(_TOOLS), "arguments": {"for": text[:40]}}
                session.append("assistant", text, time=at, tool_calls=[call], **told)
            case 2:
                session.append("tool", text, time=at, tool_call_id=f"c{number - 1}", is_error=number % 40 == 2)
            case _:
                session.append("assistant", text, time=at, **told)
    session.persist()
    return count


def make_forks(store: Repository, count: int) -> None:
    """Add a session of 200 turns and so many forks of it, of two turns each."""
    words = Words(1)
    session = store.create(id=FORKED, principal=_PEOPLE[1], agent="planner", created=_START)
    _talk(session, 0, 200, _PEOPLE[1], words)
    for number in range(count):
        fork = session.fork(at=words.chance.randint(1, 200), id=f"{FORKED}-{number}", created=_START)
        _talk(fork, len(fork), 2, _PEOPLE[1], words)


def main(arguments: Sequence[str] | None = None) -> None:
    """Make a store in a new folder, and say how long it takes."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.million", description=__doc__)
    parser.add_argument("folder", type=Path, help="where the store is made; nothing may stand there")
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--sessions", type=int, default=SESSIONS)
    parser.add_argument("--forks", type=int, default=0, help="so many forks of one session beside them")
    asked = parser.parse_args(arguments)
    started = time.monotonic()
    with trails.open(asked.folder, create=True, durability="process") as store:
        for made in make(store, turns=asked.turns, sessions=asked.sessions):
            print(f"{made:,} turns, {time.monotonic() - started:,.0f} s", file=sys.stderr, flush=True)
        make_forks(store, asked.forks)
        print(f"made in {time.monotonic() - started:,.0f} s", file=sys.stderr, flush=True)
    print(f"closed after {time.monotonic() - started:,.0f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
