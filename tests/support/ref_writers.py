"""Processes that append to one ref and take back, and say what they did; one that is killed while it does.

`python -m tests.support.ref_writers race STORE FOLDER STEPS` forks eight that do so many steps, each an update of the ref "main",
and write what they did into a file of the folder. `... killed STORE SEED` forks one child after the other, each for a line of
stdin, and kills it at a random moment.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import IO

import trails
from trails.session.checkout import Checkout


def race(store: trails.Repository, name: str, steps: int) -> tuple[list[str], list[str]]:
    """Append to the ref "main", and take its last turn back at every third step; return what was appended, and taken."""
    main = store.checkout("main", create=True)
    appended: list[str] = []
    taken: list[str] = []
    for number in range(steps):

        def step(found: Checkout, text: str = f"{name}-{number}", number: int = number) -> list[str]:
            gone = [turn.text for turn in found.pop()] if number % 3 == 2 else []
            found.append("user", text)
            return gone

        taken += main.update(step)
        appended.append(f"{name}-{number}")
    return appended, taken


def whats_left(results: list[tuple[list[str], list[str]]]) -> Counter[str]:
    """Return which texts must be left of what several writers appended and took."""
    left: Counter[str] = Counter()
    for appended, taken in results:
        left.update(appended)
        left.subtract(taken)
    return left


def _work(place: str, seed: int, out: IO[str]) -> None:
    """Append, take back and clear until killed; tell before each step what is to be, and afterwards that it is."""
    chance = random.Random(seed)
    with trails.open(place, create=True) as store:
        main = store.checkout("main", create=True)
        texts = [turn.text for turn in main]
        while True:
            step = chance.choice(("append", "append", "pop", "pop", "both", "clear"))
            new = (
                [f"{seed}-{chance.random()}" for _ in range(chance.randint(1, 3))] if step in ("append", "both") else []
            )
            gone = (
                len(texts)
                if step == "clear"
                else min(len(texts), chance.randint(1, 2))
                if step in ("pop", "both")
                else 0
            )
            wanted = [*texts[: len(texts) - gone], *new]
            out.write(json.dumps({"to be": wanted}) + "\n")
            out.flush()

            def change(found: Checkout, gone: int = gone, new: list[str] = new) -> None:
                found.pop(gone)
                for text in new:
                    found.append("user", text)

            main.update(change)
            texts = wanted
            out.write(json.dumps({"is": texts}) + "\n")
            out.flush()


def _killed(place: str, seed: int) -> None:
    for line in sys.stdin:
        child = os.fork()
        if not child:
            _work(place, seed + int(line), sys.stdout)
        time.sleep(random.Random(seed + int(line)).uniform(0.005, 0.4))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        sys.stdout.write(json.dumps({"killed": int(line)}) + "\n")
        sys.stdout.flush()


def _race(place: str, folder: Path, steps: int) -> None:
    children = []
    for name in range(8):
        child = os.fork()
        if not child:
            with trails.open(place) as store:
                made = race(store, f"p{name}", steps)
            (folder / f"{name}.json").write_text(json.dumps(made))
            os._exit(0)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 8


if __name__ == "__main__":
    kind, place, *rest = sys.argv[1:]
    if kind == "killed":
        _killed(place, int(rest[0]))
    else:
        _race(place, Path(rest[0]), int(rest[1]))
