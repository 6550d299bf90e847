"""Loading a fork of a fork of a fork, 32 deep, against a session of the same length that was never forked."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import trails
from benchmarks.data import Message, add, messages
from benchmarks.harness import Contestant, Result, Setting, Target, medians
from benchmarks.scenarios.load import load_seconds
from trails import MAX_FORK_DEPTH, Repository

_FLAT = "never forked"
_DEEP = f"{MAX_FORK_DEPTH} forks deep"


def run(setting: Setting) -> list[Result]:
    """Measure both, from a store that was opened just now."""
    texts = messages(setting.size.turns, setting.seed)
    folder = setting.folder / "store"
    with trails.open(folder, create=True, durability="process") as store:
        add(store.create(id="flat"), texts)
        deepest = _deep(store, texts)
    seconds = medians(
        [
            Contestant(_FLAT, lambda: load_seconds(folder, "flat", len(texts))),
            Contestant(_DEEP, lambda: load_seconds(folder, deepest, len(texts))),
        ],
        setting.size.rounds,
    )
    ratio = seconds[_DEEP] / seconds[_FLAT]
    return [
        Result(
            name="depth",
            title=f"load {len(texts):,} turns at fork depth {MAX_FORK_DEPTH}",
            baseline=_FLAT,
            medians=seconds,
            targets=[Target(f"load at depth {MAX_FORK_DEPTH}, against the same without forks", ratio, 1.5, "x")],
        )
    ]


def _deep(store: Repository, texts: Sequence[Message]) -> str:
    """Store the texts over a root and 32 forks, each forked at the end of the one before; return the last one's id."""
    segments = MAX_FORK_DEPTH + 1
    cuts = [len(texts) * n // segments for n in range(segments + 1)]
    session = store.create(id="deep")
    add(session, texts[: cuts[1]])
    for start, end in pairwise(cuts[1:]):
        session = session.fork()
        add(session, texts[start:end])
    return session.id
