"""A transcript whose turns are made when they are touched: first those that packs hold, then those that were read or appended."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, MutableSequence, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple, overload

from trails.integrity import digests
from trails.model.values import Facts, Turn
from trails.plumbing.packs.block import Block, Damaged
from trails.workers import collect_seldom


class Part(NamedTuple):
    """Turns of a block, from an index of the transcript to another, exclusive, as far as they are part of it.

    Where the block turns out to be damaged, although its checksum is right, they are what the store has.
    """

    start: int
    end: int
    block: Block
    stored: Callable[[int, int], Sequence[Turn]]
    """Reads turns of the block's session from the store, from an index to another, exclusive."""

    def turns(self, start: int, end: int) -> Sequence[Turn]:
        """Return the turns from an index to another, exclusive."""
        try:
            return self.block.turns(start, end)
        except Damaged:
            return self.stored(start, end)

    def said(self) -> Sequence[tuple[int, str, str, str, bool]]:
        """Return index, role, branch, text and whether that is JSON, of each turn."""
        try:
            return self.block.said(self.start, self.end)
        except Damaged:
            stored = self.stored(self.start, self.end)
            return [(turn.index, turn.role, turn.branch, turn.text, turn.structured) for turn in stored]

    def spoken(self) -> Sequence[tuple[int, str, str, bool, bool, Facts]]:
        """Return what a model may be shown of each turn, as a block's `spoken` does."""
        try:
            return self.block.spoken(self.start, self.end)
        except Damaged:
            stored = self.stored(self.start, self.end)
            return [(turn.index, turn.role, turn.text, turn.structured, turn.redacted, turn.facts) for turn in stored]


class Prefix:
    """The first turns of a transcript, which never change: each is made once, when it is touched."""

    __slots__ = ("_ends", "_left", "_parts", "_turns")

    def __init__(self, parts: Sequence[Part] = ()) -> None:
        """Take parts that go on from one another, from index 0 on."""
        self._parts = list(parts)
        self._ends = [part.end for part in parts]
        self._left = len(self)
        self._turns: list[Turn | None] = [None] * self._left

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def up_to(self, end: int) -> Prefix:
        """Return the turns below an index."""
        if end == len(self):
            return self
        made = Prefix([part._replace(end=min(part.end, end)) for part in self._parts if part.start < end])
        made._turns = self._turns[:end]
        made._left = made._turns.count(None)
        return made

    def turn(self, index: int) -> Turn:
        """Return the turn at an index, 0 to the last."""
        found = self._turns[index]
        if found is None:
            (found,) = self._parts[bisect_right(self._ends, index)].turns(index, index + 1)
            self._turns[index] = found
            self._left -= 1
        return found

    def digest(self, index: int) -> str:
        """Return the digest of the turn at an index, without making the turn."""
        return self._parts[bisect_right(self._ends, index)].block.digest(index)

    def made(self, start: int, end: int) -> list[Turn]:
        """Return the turns from an index to another, exclusive."""
        if self._left:
            with collect_seldom():
                for part in self._parts[bisect_right(self._ends, start) :]:
                    if part.start >= end:
                        break
                    self._make(part, max(start, part.start), min(end, part.end))
        return self._turns[start:end]  # type: ignore[return-value] # each of them is made

    def said(self) -> Iterator[tuple[int, str, str, str, bool]]:
        """Yield index, role, branch, text and whether that is JSON, of each turn, without making one."""
        for part in self._parts:
            yield from part.said()

    def _make(self, part: Part, start: int, end: int) -> None:
        turns = self._turns
        if all(turn is None for turn in islice(turns, start, end)):
            turns[start:end] = part.turns(start, end)
            self._left -= end - start
            return
        for index in range(start, end):
            self.turn(index)


class Turns(Sequence[Turn]):
    """The turns of a transcript as they were at one moment: a sequence that never changes, equal to a tuple of the same turns.

    A turn that packs hold is made when it is touched.
    """

    __slots__ = ("_prefix", "_tail")

    def __init__(self, prefix: Prefix, tail: tuple[Turn, ...]) -> None:
        """Not for callers: sessions give it."""
        self._prefix = prefix
        self._tail = tail

    def __len__(self) -> int:
        return len(self._prefix) + len(self._tail)

    @overload
    def __getitem__(self, index: int) -> Turn: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Turn, ...]: ...
    def __getitem__(self, index: int | slice) -> Turn | tuple[Turn, ...]:
        found = _item(self._prefix, self._tail, index)
        return found if isinstance(found, Turn) else tuple(found)

    def __iter__(self) -> Iterator[Turn]:
        return chain(self._prefix.made(0, len(self._prefix)), self._tail)

    def __reversed__(self) -> Iterator[Turn]:
        return (self[index] for index in range(len(self) - 1, -1, -1))

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


class OnlyTheEnd(MutableSequence[Turn]):
    """Turns, of which only the last can be taken away, and only behind which others can be put."""

    @overload
    def __setitem__(self, index: int, value: Turn) -> None: ...
    @overload
    def __setitem__(self, index: slice, value: Iterable[Turn]) -> None: ...
    def __setitem__(self, index: int | slice, value: Any) -> None:
        raise TypeError("turns never change")

    def __delitem__(self, index: int | slice) -> None:
        if not isinstance(index, slice):
            index = slice(index, index + 1 or None)
        start, stop, step = index.indices(len(self))
        if step != 1 or (stop != len(self) and stop > start):
            raise TypeError("only the last turns can be taken away")
        if stop > start:
            self._cut(start)

    def insert(self, index: int, value: Turn) -> None:
        """Add a turn at the end."""
        if index != len(self):
            raise TypeError("a turn can only be added at the end")
        self._add(value)

    @abstractmethod
    def _cut(self, start: int) -> None:
        """Take away the turns from an index on."""

    @abstractmethod
    def _add(self, turn: Turn) -> None:
        """Put a turn behind the others."""


class Transcript(OnlyTheEnd):
    """A session's turns as they are worked on. Only those behind the ones that packs hold can be changed."""

    __slots__ = ("prefix", "tail")

    def __init__(self, prefix: Prefix | None = None, tail: Iterable[Turn] = ()) -> None:
        """Take the turns that packs hold, and those that come after them, in order of index."""
        self.prefix = Prefix() if prefix is None else prefix
        self.tail = list(tail)

    def __len__(self) -> int:
        return len(self.prefix) + len(self.tail)

    @property
    def head(self) -> str:
        """The digest of the last turn; that before the first turn where there is none."""
        return self.digest_at(len(self) - 1) if len(self) else digests.GENESIS

    def digest_at(self, index: int) -> str:
        """Return the digest of the turn at an index, without making the turn."""
        size = len(self.prefix)
        return self.prefix.digest(index) if index < size else self.tail[index - size].digest

    def said(self) -> Iterator[tuple[int, str, str, str, bool]]:
        """Yield index, role, branch, text and whether that is JSON, of each turn; no turn is made for it."""
        yield from self.prefix.said()
        for turn in self.tail:
            yield turn.index, turn.role, turn.branch, turn.text, turn.structured

    def as_turns(self) -> Turns:
        """Return all turns as they are now."""
        return Turns(self.prefix, tuple(self.tail))

    @overload
    def __getitem__(self, index: int) -> Turn: ...
    @overload
    def __getitem__(self, index: slice) -> MutableSequence[Turn]: ...
    def __getitem__(self, index: int | slice) -> Turn | MutableSequence[Turn]:
        if isinstance(index, slice) and (index.start, index.step) == (None, None):
            return self._beginning(index.indices(len(self))[1])
        found: Turn | MutableSequence[Turn] = _item(self.prefix, self.tail, index)
        return found

    def _beginning(self, end: int) -> Transcript:
        """Return the first turns, which a fork shares, without making one."""
        size = len(self.prefix)
        return Transcript(self.prefix.up_to(min(end, size)), self.tail[: max(0, end - size)])

    def __iter__(self) -> Iterator[Turn]:
        return chain(self.prefix.made(0, len(self.prefix)), self.tail)

    def __reversed__(self) -> Iterator[Turn]:
        return (self[index] for index in range(len(self) - 1, -1, -1))

    def _cut(self, start: int) -> None:
        if start < len(self.prefix):
            raise TypeError("turns that are stored cannot be taken away")
        del self.tail[start - len(self.prefix) :]

    def _add(self, turn: Turn) -> None:
        self.tail.append(turn)

    def append(self, value: Turn) -> None:
        self.tail.append(value)


def _item(prefix: Prefix, tail: Sequence[Turn], index: int | slice) -> Any:
    size = len(prefix)
    if isinstance(index, slice):
        start, stop, step = index.indices(size + len(tail))
        if step == 1:
            before = prefix.made(start, min(stop, size)) if start < size else []
            return [*before, *tail[max(0, start - size) : max(0, stop - size)]]
        return [_item(prefix, tail, each) for each in range(start, stop, step)]
    position = index + size + len(tail) if index < 0 else index
    if not 0 <= position < size + len(tail):
        raise IndexError(index)
    return prefix.turn(position) if position < size else tail[position - size]
