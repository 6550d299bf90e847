"""The turns of a session as they are worked on: stored turns, each made when it is touched, then appended ones."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final, NoReturn, overload

from trails.errors import NoSuchName
from trails.history.turn_reader import TurnRun
from trails.integrity import digests
from trails.model import lineage
from trails.model.lineage import Segment
from trails.model.values import SessionRecord, Turn

_BLOCK: Final = 32
"""How many turns are read together at least, of a transcript that is not read whole."""


ReadPart = Callable[[int, int], list[Turn]]
"""Returns the turns from an index to another, exclusive."""


class StoredTurns:
    """The stored turns of a transcript, which never change."""

    __slots__ = ("_ends", "_read", "_runs", "_turns")

    def __init__(self, runs: Sequence[TurnRun] = (), *, length: int = 0, read: ReadPart | None = None) -> None:
        """Take runs that go on from one another, from index 0 on; or a length, and what reads a part when it is touched."""
        self._runs = list(runs)
        self._ends: list[int] = []
        for run in runs:
            length = (self._ends[-1] if self._ends else 0) + len(run)
            self._ends.append(length)
        self._read = read
        self._turns: list[Turn | None] = [None] * length

    def __len__(self) -> int:
        return len(self._turns)

    @property
    def made(self) -> int:
        """How many turns are in memory."""
        return len(self._turns) - self._turns.count(None)

    def check_dense(self, session_id: str, segments: Sequence[Segment]) -> None:
        """Raise `IndexGap` if these are not all turns of the segments that they were read of, each once."""
        starts = [0, *self._ends[:-1]]
        ended = all(run.is_dense and run.start == start for run, start in zip(self._runs, starts, strict=False))
        whole = all(each.end is None or each.end == end for each, end in zip(segments, self._ends, strict=True))
        if not (ended and whole):
            lineage.check_dense(session_id, [turn for run in self._runs for turn in run.turns(0, len(run))], segments)

    def up_to(self, end: int) -> StoredTurns:
        """Return the turns below an index."""
        if end == len(self):
            return self
        if self._read is not None:
            made = StoredTurns(length=end, read=self._read)
        else:
            starts = [0, *self._ends]
            made = StoredTurns(
                [run.below(end - start) for run, start in zip(self._runs, starts, strict=False) if start < end]
            )
        made._turns = self._turns[:end]
        return made

    def digest(self, index: int) -> str:
        """Return the digest of the turn at an index."""
        found = self._turns[index]
        if found is not None or self._read is not None:
            return (found or self.between(index, index + 1)[0]).digest
        at = bisect_right(self._ends, index)
        return self._runs[at].digest(index - (self._ends[at - 1] if at else 0))

    def between(self, start: int, end: int, block: int = _BLOCK) -> list[Turn]:
        """Return the turns from an index to another, exclusive; what must be read is read in blocks."""
        turns = self._turns
        if None in turns[start:end]:
            if self._read is None:
                self._make(start, end)
            else:
                first, last = max(0, min(start, end - block)), min(len(turns), max(end, start + block))
                while turns[first] is not None:
                    first += 1
                while turns[last - 1] is not None:
                    last -= 1
                turns[first:last] = self._read(first, last)
        return turns[start:end]  # type: ignore[return-value] # each of them is made

    def _make(self, start: int, end: int) -> None:
        turns, begin = self._turns, 0
        for run, stop in zip(self._runs, self._ends, strict=True):
            first, last = max(start, begin), min(end, stop)
            if first < last:
                new = run.turns(first - begin, last - begin)
                turns[first:last] = [old or turn for old, turn in zip(turns[first:last], new, strict=True)]
            begin = stop

    def said(self) -> Iterator[tuple[int, str, str, str, bool]]:
        """Yield index, role, branch, text and whether that is JSON, of each turn, without making one."""
        if self._read is None:
            for run in self._runs:
                yield from run.said()
            return
        for turn in self.between(0, len(self)):
            yield turn.index, turn.role, turn.branch, turn.text, turn.structured


_CHANGES: Final = (
    "; session.append(role, content) adds one, session.fork(at=N) goes on from an earlier one, session.to_pandas() "
    "makes a data frame"
)


class Turns(Sequence[Turn]):
    """The turns of a transcript as they were at one moment: a sequence that never changes, equal to a tuple of the same turns.

    A stored turn is made when it is touched.
    """

    __slots__ = ("stored", "tail")

    def __init__(self, stored: StoredTurns, tail: Sequence[Turn]) -> None:
        """Not for callers: sessions give it. `tail` are the turns after the stored ones."""
        self.stored = stored
        self.tail = tail

    if not TYPE_CHECKING:  # type checkers know what there is

        def __getattr__(self, name: str) -> NoReturn:
            """Say how turns are added, which is not here."""
            if name.startswith("_") or hasattr(type(self), name):
                raise AttributeError(f"'Turns' object has no attribute {name!r}", name=name, obj=self)
            raise NoSuchName(f"turns have no {name!r}: they are a sequence that never changes{_CHANGES}")

        def __setitem__(self, key: object, value: object) -> NoReturn:
            """Say that turns never change."""
            raise NoSuchName(f"turn [{key!r:.40}] cannot be set: turns never change{_CHANGES}")

        def __delitem__(self, key: object) -> NoReturn:
            """Say that turns never change."""
            raise NoSuchName(f"turn [{key!r:.40}] cannot be removed: turns never change{_CHANGES}")

    def __len__(self) -> int:
        return len(self.stored) + len(self.tail)

    @overload
    def __getitem__(self, index: int) -> Turn: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Turn, ...]: ...
    def __getitem__(self, index: int | slice) -> Turn | tuple[Turn, ...]:
        size = len(self.stored)
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step != 1:
                return tuple(self[each] for each in range(start, stop, step))
            before = self.stored.between(start, min(stop, size)) if start < min(stop, size) else ()
            return (*before, *self.tail[max(0, start - size) : max(0, stop - size)])
        position = index + len(self) if index < 0 else index
        if not 0 <= position < len(self):
            raise IndexError(index)
        return self.stored.between(position, position + 1)[0] if position < size else self.tail[position - size]

    def __iter__(self) -> Iterator[Turn]:
        return chain(self.stored.between(0, len(self.stored)), self.tail)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Turns | tuple):
            return NotImplemented
        return len(self) == len(other) and all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __add__(self, other: Iterable[Turn]) -> tuple[Turn, ...]:
        return (*self, *other) if isinstance(other, Turns | tuple) else NotImplemented

    def __radd__(self, other: Iterable[Turn]) -> tuple[Turn, ...]:
        return (*other, *self) if isinstance(other, tuple) else NotImplemented

    def __repr__(self) -> str:
        return repr(tuple(self))


class Transcript(Turns):
    """A session's turns as they are worked on: turns are added at the end, and those behind the stored ones taken away."""

    __slots__ = ()
    tail: list[Turn]

    def __init__(self, stored: StoredTurns | None = None, tail: Iterable[Turn] = ()) -> None:
        """Take the stored turns, and those that come after them, in order of index."""
        super().__init__(StoredTurns() if stored is None else stored, list(tail))

    @property
    def head(self) -> str:
        """The digest of the last turn; that before the first turn where there is none."""
        return self.digest_at(len(self) - 1) if len(self) else digests.GENESIS

    def digest_at(self, index: int) -> str:
        """Return the digest of the turn at an index."""
        size = len(self.stored)
        return self.stored.digest(index) if index < size else self.tail[index - size].digest

    def said(self) -> Iterator[tuple[int, str, str, str, bool]]:
        """Yield index, role, branch, text and whether that is JSON, of each turn; no turn is made for it."""
        yield from self.stored.said()
        for turn in self.tail:
            yield turn.index, turn.role, turn.branch, turn.text, turn.structured

    def as_turns(self) -> Turns:
        """Return all turns as they are now."""
        return Turns(self.stored, tuple(self.tail))

    def below(self, end: int) -> Transcript:
        """Return the turns below an index, which a fork shares."""
        size = len(self.stored)
        return Transcript(self.stored.up_to(min(end, size)), self.tail[: max(0, end - size)])

    def followed_by(self, turns: Iterable[Turn]) -> Transcript:
        """Return the transcript that has further turns; this one stays as it is."""
        return Transcript(self.stored, [*self.tail, *turns])

    def append(self, turn: Turn) -> None:
        """Add a turn at the end."""
        self.tail.append(turn)

    def drop(self, count: int) -> None:
        """Take away so many of the last turns, none of which is stored."""
        del self.tail[len(self.tail) - count :]


def check_fork_head(record: SessionRecord, turns: Transcript) -> None:
    """Accept a fork's inherited prefix if it ends in the digest noted when it was forked; else raise `IntegrityError`."""
    at = record.forked_at_index
    if at and record.fork_head and len(turns) >= at and turns.digest_at(at - 1) != record.fork_head:
        lineage.check_fork_head(record, turns)


# --- summaries


@dataclass(frozen=True, slots=True)
class SummaryMark:
    """Where a summary turn stands, the first index that it kept, and the last that it summarises."""

    index: int
    kept: int | None
    through: int | None
