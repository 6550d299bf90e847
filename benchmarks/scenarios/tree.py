"""Spawning and completing on a tree of many sessions, sweeps that find little to do, and taking the tree up again."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trails
from benchmarks.harness import Contestant, Result, Setting, Target, medians, timed
from trails import Tree

_SPAWN = "spawn a branch"
_COMPLETE = "complete it"
_NOTHING = "a sweep with nothing due"
_ONE = "a sweep with one session due"
_BACK = "take up a tree that rests"
_CRASHED = "take up a tree of which a tenth was at work"
_START = datetime(2026, 3, 1, 12, tzinfo=UTC)
_FAN = 4
"""Branches that each main and each branch above the last level has: 1 + 4 + 16 + 64 sessions a tree."""


class _Clock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.now = _START

    def __call__(self) -> datetime:
        return self.now


def run(setting: Setting) -> list[Result]:
    """Measure on a store on disk, every commit synced; the tree's sessions rest, as most of a large tree does."""
    count, rounds = setting.size.sessions, setting.size.rounds
    clock = _Clock()
    with trails.open(setting.folder / "tree", create=True, durability="process") as store:
        grown = _grow(Tree(store, clock=clock), count)
    with trails.open(setting.folder / "tree") as store:
        seconds = _work(Tree(store, clock=clock), clock, rounds)
    seconds[_BACK] = _reopened(setting.folder / "tree", rounds)
    _leave_at_work(setting.folder / "tree", clock, count // 10)
    with trails.open(setting.folder / "tree") as store:
        began = time.perf_counter()
        recovered = len(Tree(store, clock=clock).recovered)
        seconds[_CRASHED] = time.perf_counter() - began
    return [
        Result(
            name="tree",
            title=f"the session tree with {grown:,} sessions that have not ended",
            baseline=_SPAWN,
            medians=seconds,
            counts={"sessions": grown, "at work when the process ended": recovered},
            targets=[
                *(Target(name, 1000 * seconds[name], 5.0, "ms") for name in (_SPAWN, _COMPLETE, _NOTHING, _ONE)),
                *(Target(name, seconds[name], 2.0, "s") for name in (_BACK, _CRASHED)),
            ],
        )
    ]


def _grow(tree: Tree, count: int) -> int:
    """Spawn mains with branches three deep until there are `count` sessions, all branches suspended but the mains'."""
    made = 0
    while made < count:
        level = [tree.main("planner", f"channel-{made}")]
        made += 1
        for _ in range(3):
            below = []
            for node in level:
                for _ in range(_FAN):
                    if made < count:
                        below.append(
                            node.spawn(
                                "branch", "Find a train to the sea", "Two friends and a dog.", ttl=timedelta(days=9)
                            )
                        )
                        made += 1
            level = below
        _rest(tree, tree.mains()[-1].id)
    return made


def _rest(tree: Tree, session_id: str) -> None:
    for child in tree.get(session_id).children():
        _rest(tree, child.id)
        if child.state == "active":
            child.suspend()


def _work(tree: Tree, clock: _Clock, rounds: int) -> dict[str, float]:
    main = tree.mains()[0]
    nodes: list[trails.runtime.tree_node.Node] = []

    def spawn() -> float:
        return timed(lambda: nodes.append(main.spawn("branch", "Find a train to the sea", "Two friends and a dog.")))

    def complete() -> float:
        node = nodes.pop()
        node.append("assistant", "The 9:04 goes there.")
        return timed(lambda: node.complete("Take the 9:04."))

    def nothing() -> float:
        return timed(tree.sweep)

    def one() -> float:
        main.spawn("worker", "Count the words", ttl=timedelta(seconds=1))
        clock.now += timedelta(seconds=2)
        return timed(tree.sweep)

    work: list[tuple[str, Callable[[], float]]] = [
        (_SPAWN, spawn),
        (_COMPLETE, complete),
        (_NOTHING, nothing),
        (_ONE, one),
    ]
    return medians([Contestant(name, each) for name, each in work], rounds * 10)


def _reopened(folder: Path, rounds: int) -> float:
    """Return the seconds that the tree takes to come back, the store being open."""
    taken = []
    for _ in range(rounds):
        with trails.open(folder) as store:
            taken.append(timed(lambda store=store: Tree(store, clock=_Clock())))  # type: ignore[misc] # the loop's store
    return sorted(taken)[len(taken) // 2]


def _leave_at_work(folder: Path, clock: _Clock, count: int) -> None:
    """Leave sessions at work, as a process that dies does."""
    with trails.open(folder, durability="process") as store:
        tree = Tree(store, clock=clock, limits=trails.Limits(children=count))
        main = tree.mains()[0]
        for _ in range(count):
            main.spawn("worker", "Count the words")
