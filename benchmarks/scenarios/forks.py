"""Forking a long session in the middle: one fork with ten turns, ten forks with one turn, and what each writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import trails
from benchmarks import peers
from benchmarks.data import Message, add, closed_store, filled, messages
from benchmarks.harness import Contestant, Result, Setting, Target, bytes_in, medians, timed
from benchmarks.peers.ours import Ours
from benchmarks.peers.peer import Peer
from trails import Repository, Session

_OURS = "trails"
_COPYING = "trails, copying the prefix"

Fork = Callable[[Sequence[Message]], float]
"""Make a fork and append these messages to it, one by one; return the seconds that it takes."""


def run(setting: Setting) -> list[Result]:
    """Measure forks on disk against copies and peers, and the fork alone in memory."""
    return [*_on_disk(setting), _in_memory(setting)]


def _on_disk(setting: Setting) -> list[Result]:
    texts = messages(setting.size.turns, setting.seed)
    tail = messages(10, setting.seed + 1)
    at = len(texts) // 4 * 2
    found, missing = peers.installed(setting.folder)
    for peer in found.values():
        for part in (texts[:at], texts[at:]):  # a commit where the fork will be: some can fork at commits only
            peer.fill(part)
    folders = {name: setting.folder / name.replace(" ", "-") for name in (_OURS, _COPYING, *found)}
    rounds = max(2, setting.size.rounds // 3)  # each round of copies makes the store larger
    with (
        trails.open(closed_store(folders[_OURS], "s", texts)) as store,
        trails.open(closed_store(folders[_COPYING], "s", texts)) as copying,
    ):
        ours, theirs = store.load("s"), copying.load("s")

        def copied_fork(tail: Sequence[Message]) -> None:
            add_one_by_one(_copied(theirs, at), tail)

        forks: dict[str, Fork] = {
            _OURS: _timed(lambda tail: add_one_by_one(ours.fork(at=at), tail)),
            _COPYING: _timed(copied_fork),
            **{name: _forker(peer, at) for name, peer in found.items()},
        }
        counts = _counts(store, ours, at, tail)
        for name, fork in forks.items():
            before = bytes_in(folders[name])
            _ten_forks(fork, tail)
            counts[f"bytes of ten forks: {name}"] = bytes_in(folders[name]) - before
        one = medians([Contestant(name, _round(fork, [tail])) for name, fork in forks.items()], setting.size.rounds)
        ten = medians(
            [Contestant(name, _round(fork, [[message] for message in tail])) for name, fork in forks.items()],
            rounds,
        )
    said = {_OURS: Ours.durability, _COPYING: Ours.durability, **peers.durability(found)}
    for peer in found.values():
        peer.close()
    row, turns = counts["quads of a fork's row"], counts["turns written by ten forks of one turn"]
    where = f"at {at:,} of {len(texts):,} turns"
    return [
        Result(
            name="fork",
            title=f"fork {where} and append 10 turns, one by one",
            baseline=_OURS,
            medians=one,
            durability=said,
            missing=missing,
            counts={"quads of a fork's row": row},
            targets=[Target("quads that a fork stores", row, 12, "quads")],
        ),
        Result(
            name="ten-forks",
            title=f"ten forks {where}, with one turn each",
            baseline=_OURS,
            medians=ten,
            durability=said,
            missing=missing,
            counts={name: count for name, count in counts.items() if name != "quads of a fork's row"},
            targets=[Target("turns that ten forks of one turn write", turns, 10, "turns")],
        ),
    ]


def _round(fork: Fork, tails: Sequence[Sequence[Message]]) -> Callable[[], float]:
    """Return a round that makes one fork for each tail."""

    return lambda: sum(fork(tail) for tail in tails)


def _timed(fork: Callable[[Sequence[Message]], None]) -> Fork:
    return lambda tail: timed(lambda: fork(tail))


def _forker(peer: Peer, at: int) -> Fork:
    return lambda tail: peers.seconds(peer, lambda: peer.fork(at, tail))


def _copied(session: Session, at: int) -> Session:
    """Return a fork that copied its prefix: what forking costs where nothing is shared."""
    fork = session.fork(at=at)
    fork.persist()
    return fork.detach()


def add_one_by_one(session: Session, tail: Sequence[Message]) -> None:
    """Append and persist turn by turn."""
    for message in tail:
        add(session, [message])


def _ten_forks(fork: Fork, tail: Sequence[Message]) -> None:
    for message in tail:
        fork([message])


def _counts(store: Repository, session: Session, at: int, tail: Sequence[Message]) -> dict[str, int]:
    """Count, by asking the store before and after, what a fork's row and ten forks of one turn write."""
    quads = len(store.store)
    session.fork(at=at).persist()
    row = len(store.store) - quads
    turns = store.info()["turns"]
    _ten_forks(_timed(lambda one: add_one_by_one(session.fork(at=at), one)), tail)
    return {
        "quads of a fork's row": row,
        "turns written by ten forks of one turn": store.info()["turns"] - turns,
    }


def _in_memory(setting: Setting) -> Result:
    texts = messages(setting.size.turns, setting.seed)
    at = len(texts) // 4 * 2
    with trails.open(":memory:") as store:
        session = filled(store, "s", texts)
        contestants = [
            Contestant("trails", lambda: timed(lambda: session.fork(at=at).persist())),
            Contestant(_COPYING, lambda: timed(lambda: _copied(session, at))),
        ]
        seconds = medians(contestants, max(setting.size.rounds, 3))
    return Result(
        name="fork-memory",
        title=f"fork at {at:,} of {len(texts):,} turns and persist, in memory",
        baseline="trails",
        medians=seconds,
        targets=[Target("fork and persist, in memory", seconds["trails"] * 1000, 1.0, "ms")],
    )
