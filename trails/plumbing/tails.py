"""The end of a transcript, read without its beginning: a few look-ups, however long the beginning is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from trails.history.reader import Reader
from trails.model import lineage
from trails.model.lineage import Segment
from trails.model.values import Turn

_FIRST_BLOCK: Final = 32
_FEW: Final = 256
"""Up to this many turns are looked up one by one; what is longer is read as a range."""


def owner_at(runs: Sequence[Segment], index: int) -> str | None:
    """Return the id of the session that owns the turn at an index, or None past the end."""
    found = (run.record.id for run in runs if run.start <= index and (run.end is None or index < run.end))
    return next(found, None)


def digest_at(reader: Reader, runs: Sequence[Segment], index: int) -> str | None:
    """Return the digest of the turn at an index of a transcript: one look-up; None where there is none."""
    owner = owner_at(runs, index)
    return None if owner is None else reader.digest_at(owner, index)


def length(reader: Reader, runs: Sequence[Segment]) -> int:
    """Return how many turns a transcript has: a few look-ups, and nothing of it is read."""
    if not runs:
        return 0
    last = runs[-1]

    def count() -> int:
        found = last_true(lambda index: reader.owns(last.record.id, index), last.start, last.end)
        return last.start if found is None else found + 1

    return reader.lengths.checked(last.record.id, count) if last.end is None else count()


def last_true(holds: Callable[[int], bool], first: int, end: int | None = None) -> int | None:
    """Return the last index from `first` on, and below `end`, at which something holds; None where it does not at `first`.

    Once it does not hold, it must never hold again. Asks about twice as often as the distance has binary digits.

    >>> last_true(lambda n: n < 1000, 5), last_true(lambda n: n < 1000, 5, 7), last_true(lambda n: n < 1000, 1000)
    (999, 6, None)
    """

    def still(index: int) -> bool:
        return (end is None or index < end) and holds(index)

    if not still(first):
        return None
    low, step = first, 1
    while still(low + step):
        low, step = low + step, step * 2
    high = low + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if still(middle) else (low, middle)
    return low


def read(reader: Reader, runs: Sequence[Segment], start: int, session_id: str) -> list[Turn]:
    """Return the turns of a transcript from an index on; raise `IndexGap` where one is missing or doubled.

    `runs` are the transcript's segments. What comes before `start` is neither read nor checked.
    """
    turns: list[Turn] = []

    def count() -> int:
        turns.clear()
        for run in runs:
            if run.end is None or run.end > start:
                turns.extend(_run(reader, Segment(run.record, max(run.start, start), run.end)))
        lineage.check_dense(session_id, turns, runs, start)
        return start + len(turns)

    if runs and runs[-1].end is None:
        reader.lengths.checked(session_id, count)
    else:
        count()
    return turns


def _run(reader: Reader, run: Segment) -> list[Turn]:
    """Return the turns of one session's run: looked up one by one where they are a small part of what it owns."""
    before = run.start - run.record.starts_at
    if run.end is None and before < _FIRST_BLOCK:
        return reader.own_turns(run)
    turns: list[Turn] = []
    at, block = run.start, _FIRST_BLOCK
    while run.end is None or at < run.end:
        if at - run.start >= _FEW:
            return turns + reader.own_turns(Segment(run.record, at, run.end))
        until = at + block if run.end is None else min(run.end, at + block)
        found = reader.turns_at(run.record.id, range(at, until))
        if any(turn.old_iri for turn in found):  # from before digests: made up from the session's beginning on
            whole = reader.own_turns(Segment(run.record, run.record.starts_at, run.end))
            return [turn for turn in whole if turn.index >= run.start]
        turns += found
        if len(found) < until - at:
            return reader.own_turns(run) if run.end is None and reader.goes_on(run.record.id, until) else turns
        at, block = until, block * 2
    return turns
