"""Up to which record of the commit log a copy of the engine's quads goes: told from the quads alone, by pure functions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from trails.store.frames import BULK, CommitRecord, Frame

_Step = tuple[int, bool]
"""The number of a record, and whether what it speaks of is there after it."""


def reached(
    frames: Sequence[Frame],
    applied: int,
    has: Callable[[Sequence[bytes]], Sequence[bool]],
    is_empty: Callable[[str], bool],
) -> int:
    """Return the last record up to which quads go that have all records up to `applied`, and maybe some of `frames`.

    The quads are those after one of the records, whichever: a copy never has half of one. `has` tells of quads, as lines of
    N-Quads, whether they are there; `is_empty` tells it of a graph. Where the quads are the same after several records, it
    is the last of these.
    """
    later = [frame for frame in frames if frame.number > applied]
    if not later:
        return applied
    steps, emptied = _steps(later)
    last = later[-1].number
    refuted: set[int] = set()
    for (_, known), there in zip(steps.items(), has(list(steps)), strict=True):
        refuted |= _refuted(known, last, there=there)
    for graph, number, until in emptied:
        if not is_empty(graph):
            refuted |= set(range(number, (last if until is None else until - 1) + 1))
    return next(number for number in range(last, applied - 1, -1) if number not in refuted)


def holds_bulk(frames: Iterable[Frame], applied: int) -> bool:
    """Tell whether one of the records that the engine may just be getting goes through its bulk loader, in parts."""
    return any(frame.record.flags & BULK for frame in frames if frame.number > applied)


def quads_in(record: CommitRecord) -> int:
    """Return how many quads a record speaks of."""
    return record.add.count(b"\n") + record.remove.count(b"\n")


def _steps(later: Sequence[Frame]) -> tuple[dict[bytes, list[_Step]], list[tuple[str, int, int | None]]]:
    """Return what becomes of each quad, record by record; and the graphs that are dropped, when, and when they are used again."""
    steps: dict[bytes, list[_Step]] = defaultdict(list)
    emptied: list[tuple[str, int, int | None]] = []
    for frame in later:
        for graph in frame.record.drop:
            end = f"<{graph}> .".encode()
            for line, known in steps.items():
                if line.endswith(end):
                    known.append((frame.number, False))
            emptied.append((graph, frame.number, _used_again(graph, frame.number, later)))
        for lines, kept in ((frame.record.remove, False), (frame.record.add, True)):
            for line in lines.split(b"\n")[:-1]:
                steps[line].append((frame.number, kept))
    return steps, emptied


def _used_again(graph: str, number: int, later: Sequence[Frame]) -> int | None:
    end = f"<{graph}> .\n".encode()
    return next((each.number for each in later if each.number >= number and end in each.record.add), None)


def _refuted(known: Sequence[_Step], last: int, *, there: bool) -> set[int]:
    """Return the records after which the quad would be there and is not, or the other way round."""
    found: set[int] = set()
    for place, (number, kept) in enumerate(known):
        until = known[place + 1][0] - 1 if place + 1 < len(known) else last
        if kept != there:
            found |= set(range(number, until + 1))
    return found
