"""A transcript whose turns are read when they are asked for: its newest and its first ones without those between."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableSequence, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, overload

from trails.history.reader import Reader
from trails.model import lineage
from trails.model.lineage import Owner, Segment
from trails.model.validation import decodes
from trails.model.values import SessionRecord, Turn
from trails.plumbing.packed import OnlyTheEnd
from trails.plumbing.packs.block import Block, Damaged

_OPENING: Final = 16
"""How many of the first turns are read together."""
_BLOCK: Final = 64
"""How many of the newest turns are read together at first; each time more are asked for, twice as many."""
_OPEN_END: Final = 2**53


def stored_length(reader: Reader, chain: Sequence[Owner]) -> int:
    """Return how many turns a session's stored transcript has; one query at most, and no turn is read."""
    return stored_end(reader, chain)[0]


@decodes
def stored_end(reader: Reader, chain: Sequence[Owner]) -> tuple[int, Block | None]:
    """Return how many turns a session's stored transcript has, and the block that holds its last ones, where a pack does."""
    record = chain[0]
    newest = reader.last_packed(record)

    def count() -> int:
        if newest is not None and not reader.goes_on(record.id, newest.end):
            return int(newest.end)
        rows = reader.select("last_index", session=record.id, start=record.starts_at, end=_OPEN_END)
        return int(rows[0][0].value) + 1 if rows else record.starts_at

    length = reader.lengths.checked(record.id, count)
    return length, newest if newest is not None and newest.end == length else None


@dataclass(frozen=True, slots=True)
class SummaryMark:
    """Where a summary turn stands, the first index that it kept, and the last that it summarises."""

    index: int
    kept: int | None
    through: int | None


@decodes
def summaries(reader: Reader, run: Segment) -> list[SummaryMark]:
    """Return the summary turns in a run of a transcript, in order: one query, however long it is."""
    end = _OPEN_END if run.end is None else run.end
    rows = reader.select("summary_turns", session=run.record.id, start=run.start, end=end)
    return [SummaryMark(*(None if term is None else int(term.value) for term in row)) for row in rows]  # type: ignore[arg-type] # the index is never None


def latest_summary(reader: Reader, runs: Sequence[Segment]) -> SummaryMark | None:
    """Return the last summary turn of a transcript, or None; nothing older is looked at."""
    for run in reversed(runs):
        if found := summaries(reader, run):
            return found[-1]
    return None


class LazyTurns(OnlyTheEnd):
    """A session's turns, of which those between the first and the newest are read only when they are asked for.

    What is read is checked to be there without a gap. Only the end can be changed.
    """

    def __init__(
        self,
        reader: Reader,
        chain: Sequence[Owner],
        length: int,
        *,
        opening: Iterable[Turn] = (),
        tail: Iterable[Turn] = (),
    ) -> None:
        """Not for callers: `length` is that of the stored transcript; `tail` are its last turns, where they are known."""
        self._reader = reader
        self._chain = tuple(chain)
        self._opening = list(opening)
        self._tail = list(tail)
        self._start = length - len(self._tail)
        self._block = _BLOCK
        self._ends = {run.record.id: run.end or length for run in lineage.segments(chain, length)}
        """Where each session's part of the stored transcript ends."""

    def __len__(self) -> int:
        return self._start + len(self._tail)

    @property
    def read(self) -> int:
        """How many turns are in memory."""
        return min(len(self._opening), self._start) + len(self._tail)

    def read_last(self, count: int, newest: Block | None = None) -> None:
        """Read the last turns, so many of them, and no others; `newest` is a block of them that was read just now."""
        position = max(0, len(self) - count)
        if position < self._start:
            self._tail[:0] = self._turns(position, self._start, newest)
            self._start = position

    def latest_summary(self) -> int | None:
        """Return the index of the last summary turn, or None, without reading turns."""
        for position in range(len(self._tail) - 1, -1, -1):
            if self._tail[position].compaction is not None:
                return self._start + position
        if not self._start:
            return None
        found = latest_summary(self._reader, lineage.segments(self._chain, self._start))
        return None if found is None else found.index

    # --- reading

    @overload
    def __getitem__(self, index: int) -> Turn: ...
    @overload
    def __getitem__(self, index: slice) -> MutableSequence[Turn]: ...
    def __getitem__(self, index: int | slice) -> Turn | MutableSequence[Turn]:
        if isinstance(index, slice):
            return self._slice(*index.indices(len(self)))
        position = index + len(self) if index < 0 else index
        if not 0 <= position < len(self):
            raise IndexError(index)
        if position >= self._start:
            return self._tail[position - self._start]
        if position >= len(self._opening):
            if position < _OPENING < self._start:
                self._opening += self._turns(len(self._opening), _OPENING)
            else:
                self._reach(position)
                return self._tail[position - self._start]
        return self._opening[position]

    def _slice(self, start: int, stop: int, step: int) -> MutableSequence[Turn]:
        if step == 1 and start == 0 and stop > 0:  # the beginning: what a fork shares, or what a turn comes after
            tail = self._tail[: max(0, stop - self._start)]
            return LazyTurns(self._reader, self._chain, stop, opening=self._opening[:stop], tail=tail)
        if stop > start:
            self._reach(start)
        return [self._tail[position - self._start] for position in range(start, stop, step)]

    def __iter__(self) -> Iterator[Turn]:
        self._reach(0)
        return iter(self._tail)

    def _reach(self, position: int) -> None:
        """Read the newest turns back to an index, and some more."""
        if position >= self._start:
            return
        start = max(0, min(position, self._start - self._block))
        self._tail[:0] = self._turns(start, self._start)
        self._start, self._block = start, self._block * 2
        if start == 0:
            own = self._chain[0]
            assert isinstance(own, SessionRecord)  # noqa: S101 - of the session itself, the row was read
            lineage.check_fork_head(own, self._tail)

    def _turns(self, start: int, end: int, newest: Block | None = None) -> list[Turn]:
        runs = lineage.segments(self._chain, end)
        turns: list[Turn] = []
        for run in runs:
            if run.end is None or run.end > start:
                turns += self._of(Segment(run.record, max(run.start, start), run.end), newest)
        if any(turn.old_iri for turn in turns):  # from before digests: theirs are made up from the beginning on
            return self._reader.turns(self._chain, end)[start:]
        session_id = self._chain[0].id
        if len(turns) < end - start and self._reader.is_deleted(session_id):
            raise self._reader.not_found(session_id)
        lineage.check_dense(session_id, turns, runs, start, end)
        return turns

    def _of(self, run: Segment, newest: Block | None) -> list[Turn]:
        """Return the turns of a run of one session: looked up one by one unless they are most of what it owns."""
        assert run.end is not None  # noqa: S101 - the segments were cut at an end
        if (
            newest is not None
            and run.record.id == newest.session_id
            and newest.start <= run.start < run.end <= newest.end
        ):
            with suppress(Damaged):
                return newest.turns(run.start, run.end)
        packed = self._reader.packed_turns(run)
        if packed is not None:
            return packed
        if (run.end - run.start) * 2 > self._ends[run.record.id] - run.record.starts_at:
            return self._reader.own_turns(run)
        return self._reader.turns_at(run.record.id, range(run.start, run.end))

    # --- the end, which can change

    def _cut(self, start: int) -> None:
        self._reach(start)
        del self._tail[start - self._start :]

    def _add(self, turn: Turn) -> None:
        self._tail.append(turn)
