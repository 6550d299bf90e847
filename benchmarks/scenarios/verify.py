"""Verifying a store: every turn, and what was added since a checkpoint, beside computing the digests alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import trails
from benchmarks.data import KINDS, TEXT_BYTES, filled
from benchmarks.harness import Contestant, Result, Setting, Target, medians, timed
from trails import Turn, VerifyReport
from trails.integrity import digests
from trails.integrity.signed_notes import new_key
from trails.model import iris

_SESSIONS: Final = 20
_HASHING: Final = "computing the digests alone"
_ALL: Final = "verify"
_NEW: Final = f"verify since a checkpoint, a turn of {_SESSIONS}"
_ROUNDS: Final = 3
_SALT: Final = "0" * 32


def run(setting: Setting) -> list[Result]:
    """Measure stores of plain and of agent-like turns, closed in good order, that another program only reads."""
    return [_of_kind(setting, kind) for kind in KINDS]


def _of_kind(setting: Setting, kind: str) -> Result:
    turns, place = setting.size.turns, setting.folder / kind
    signer, verifier = new_key("bench.example")
    with trails.open(place, create=True, durability="process") as store:
        for number in range(_SESSIONS - 1):
            filled(store, f"s{number}", KINDS[kind](turns, setting.seed + number, TEXT_BYTES))
        known = store.proofs.checkpoint(signer)
        filled(store, "last", KINDS[kind](turns, setting.seed + _SESSIONS, TEXT_BYTES))
    with trails.open(place, read_only=True) as store:
        said = [list(store.load(each.id).turns) for each in store.list()]
        contestants = [
            Contestant(_HASHING, lambda: timed(lambda: _hash(said))),
            Contestant(_ALL, lambda: timed(lambda: _check(store.verify()))),
            Contestant(_NEW, lambda: timed(lambda: _check(store.verify(since=known, verifiers=[verifier])))),
        ]
        seconds = medians(contestants, _ROUNDS)
    count = _SESSIONS * turns
    return Result(
        name=f"verify {kind}",
        title=f"verify {count:,} {kind} turns of {TEXT_BYTES} bytes in {_SESSIONS} sessions",
        baseline=_HASHING,
        medians=seconds,
        targets=[
            Target("a turn, at 100,000 in a second", 1e6 * seconds[_ALL] / count, 10.0, "us"),
            Target("verify, against computing the digests alone", seconds[_ALL] / seconds[_HASHING], 5.0, "x"),
        ],
    )


def _check(report: VerifyReport) -> None:
    assert report.ok


def _hash(said: Sequence[Sequence[Turn]]) -> None:
    for turns in said:
        previous = digests.GENESIS
        for turn in turns:
            previous = digests.turn_digest(
                previous=previous,
                index=turn.index,
                branch=turn.branch,
                role=turn.role,
                author=iris.author_key(turn.author_iri),
                time=turn.time,
                content=digests.content_digest(turn.text, _SALT, structured=turn.structured),
                facts="" if turn.facts.is_empty() else digests.facts_digest(turn.facts, _SALT),
            )
