"""Diffing two branches that share a long prefix, the same with ten times the prefix, and branches that differ in much."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import trails
from benchmarks.data import KINDS, TEXT_BYTES, add, filled, messages
from benchmarks.harness import Contestant, Result, Setting, Target, medians, timed
from trails import Diff, Repository
from trails.compare import diff

_OWN = 20
_SIBLINGS = "two forks"
_PARENT = "a session and its fork"
_WORDS = "two forks, with the words of every turn"
_COPY = "a fork and a flattened copy"
_LOADED = "two forks, both loaded whole"
_LONG = ", ten times the prefix"


def run(setting: Setting) -> list[Result]:
    """Measure branches that differ in 20 turns each, in stores on disk that were flushed, and loading them whole."""
    shared = setting.size.turns
    with (
        _branches(setting.folder / "short", shared, setting.seed) as store,
        _branches(setting.folder / "long", 10 * shared, setting.seed) as other,
    ):
        names = (_SIBLINGS, _PARENT, _WORDS, _COPY, _LOADED)
        contestants = [Contestant(name, _work(store, name, shared)) for name in names]
        longer = (_SIBLINGS, _PARENT, _COPY)
        contestants += [Contestant(name + _LONG, _work(other, name, 10 * shared)) for name in longer]
        seconds = medians(contestants, setting.size.rounds * 3)
    return [
        *(_of_tails(setting, kind) for kind in KINDS),
        Result(
            name="diff",
            title=f"diff of two branches that share {shared:,} turns and differ in {_OWN} each",
            baseline=_SIBLINGS,
            medians=seconds,
            targets=[
                *(Target(f"diff of {name}", 1000 * seconds[name], 10.0, "ms") for name in (_SIBLINGS, _PARENT)),
                *(
                    Target(
                        f"diff of {name}{_LONG}, against the shorter", seconds[name + _LONG] / seconds[name], 1.25, "x"
                    )
                    for name in (_SIBLINGS, _PARENT)
                ),
            ],
        ),
    ]


def _of_tails(setting: Setting, kind: str) -> Result:
    """Measure branches that differ in few turns, in half as many as they share and in twice as many, and loading those."""
    shared = setting.size.turns
    tails = (_OWN, shared // 2, 2 * shared)
    with trails.open(setting.folder / kind, create=True, durability="process") as store:
        texts = KINDS[kind](shared + 2 * max(tails), setting.seed, TEXT_BYTES)
        plan = filled(store, "plan", texts[:shared])
        for count in tails:
            for name, start in (("a", shared), ("b", shared + max(tails))):
                add(plan.fork(at=shared, id=f"{name}{count}"), texts[start : start + count])
        store.store.flush()
        contestants = [Contestant(f"diff, {count:,} each", _diffed(store, count)) for count in tails]
        contestants += [Contestant(f"loading these, {count:,} each", _touched(store, count, shared)) for count in tails]
        seconds = medians(contestants, setting.size.rounds)
    few, many = (seconds[f"diff, {count:,} each"] / count for count in tails[1:])
    return Result(
        name=f"diff tails {kind}",
        title=f"diff of two branches that share {shared:,} {kind} turns and differ in many, beside loading those",
        baseline=f"loading these, {_OWN} each",
        medians=seconds,
        targets=[
            *(
                Target(
                    f"diff of {count:,} each, against loading them",
                    seconds[f"diff, {count:,} each"] / seconds[f"loading these, {count:,} each"],
                    1.2,
                    "x",
                )
                for count in tails
            ),
            Target(f"a turn of {tails[2]:,}, against one of {tails[1]:,}", many / few, 1.2, "x"),
        ],
    )


def _diffed(store: Repository, count: int) -> Callable[[], float]:
    def work() -> None:
        assert len(store.diff(f"a{count}", f"b{count}").entries) == count

    return lambda: timed(work)


def _touched(store: Repository, count: int, shared: int) -> Callable[[], float]:
    def work() -> None:
        for name in ("a", "b"):
            assert len(list(store.load(f"{name}{count}").turns[shared:])) == count

    return lambda: timed(work)


def _branches(folder: Path, shared: int, seed: int) -> Repository:
    """Return a store with a session, two forks at the same place, and a copy of one; three of them have 20 more turns."""
    texts = messages(shared + 3 * _OWN, seed)
    store = trails.open(folder, create=True, durability="process")
    session = filled(store, "plan", texts[:shared])
    for number, name in enumerate(("a", "b", "plan")):
        branch = session if name == "plan" else session.fork(at=shared, id=name)
        start = shared + number * _OWN
        add(branch, texts[start : start + _OWN])
    store.load("b").flatten(id="copy")
    store.store.flush()
    return store


def _work(store: Repository, name: str, shared: int) -> Callable[[], float]:
    def check(found: Diff) -> None:
        assert (found.common, len(found.entries)) == (shared, _OWN)

    def whole() -> Diff:
        return diff(store.load("a").turns, store.load("b").turns)

    def words() -> list[object]:
        return [entry.detail for entry in store.diff("a", "b").entries]

    pairs = {_PARENT: ("plan", "b"), _COPY: ("a", "copy")}
    left, right = pairs.get(name, ("a", "b"))
    check(whole() if name == _LOADED else store.diff(left, right))
    return {
        _LOADED: lambda: timed(whole),
        _WORDS: lambda: timed(words),
    }.get(name, lambda: timed(lambda: store.diff(left, right)))
