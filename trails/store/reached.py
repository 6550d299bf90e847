"""Up to which record of the commit log a copy of the engine's quads goes: told from the quads alone, by pure functions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from trails.store.frames import BULK, HELD, LOADED, CommitRecord, Frame

_Step = tuple[int, bool]
"""The number of a record, and whether what it speaks of is there after it."""


def reached(
    frames: Sequence[Frame],
    applied: int,
    has: Callable[[Sequence[bytes]], Sequence[bool]],
    size: Callable[[str], int],
) -> int:
    """Return the last record up to which quads go that have all records up to `applied`, and maybe some of `frames`.

    The quads are those after one of the records, whichever: a copy never has half of one. `has` tells of quads, as lines of
    N-Quads, whether they are there; `size` tells how many a graph has. Where the quads are the same after several records,
    it is the last of these.
    """
    later = [frame for frame in frames if frame.number > applied]
    if not later:
        return applied
    steps = _steps(later)
    last = later[-1].number
    refuted: set[int] = set()
    for known, there in zip(steps.values(), has(list(steps)), strict=True):
        refuted |= _refuted(known, last, there=there)
    for graph, since in _dropped(later).items():
        found, sizes = size(graph), _sizes(graph, since, last, steps)
        refuted |= {number for number, expected in sizes.items() if expected != found}
    return next(number for number in range(last, applied - 1, -1) if number not in refuted)


def holds_bulk(frames: Iterable[Frame], applied: int, since: int) -> bool:
    """Tell whether one of the records after `applied` that the engine may have got in parts, by its bulk loader, is in doubt.

    Of those that wait for others, the engine had begun with none after `since`.
    """
    later = [frame for frame in frames if frame.number > applied]
    return any(frame.record.flags & (LOADED if frame.number <= since else BULK) for frame in later)


def before_held(frames: list[Frame], applied: int) -> list[Frame]:
    """Return the frames before the first after `applied` that waits for others: the engine has none from that one on."""
    waits = (place for place, frame in enumerate(frames) if frame.number > applied and frame.record.flags & HELD)
    return frames[: next(waits, len(frames))]


def quads_in(record: CommitRecord) -> int:
    """Return how many quads a record speaks of."""
    return record.add.count(b"\n") + record.remove.count(b"\n")


def _steps(later: Sequence[Frame]) -> dict[bytes, list[_Step]]:
    """Return what becomes of each quad that a record speaks of, record by record."""
    steps: dict[bytes, list[_Step]] = defaultdict(list)
    for frame in later:
        for graph in frame.record.drop:
            for line, known in steps.items():
                if line.endswith(_end_of(graph)):
                    known.append((frame.number, False))
        for lines, kept in ((frame.record.remove, False), (frame.record.add, True)):
            for line in lines.split(b"\n")[:-1]:
                steps[line].append((frame.number, kept))
    return steps


def _dropped(later: Sequence[Frame]) -> dict[str, int]:
    """Return the graphs that are dropped, each with the first record that drops it: from then on all of it is known."""
    found: dict[str, int] = {}
    for frame in later:
        for graph in frame.record.drop:
            found.setdefault(graph, frame.number)
    return found


def _sizes(graph: str, since: int, last: int, steps: Mapping[bytes, Sequence[_Step]]) -> dict[int, int]:
    """Return how many quads a graph has after each record from the one on that drops it."""
    sizes = dict.fromkeys(range(since, last + 1), 0)
    for line, known in steps.items():
        if not line.endswith(_end_of(graph)):
            continue
        for place, (number, kept) in enumerate(known):
            until = known[place + 1][0] if place + 1 < len(known) else last + 1
            for each in range(max(number, since), until) if kept else ():
                sizes[each] += 1
    return sizes


def _end_of(graph: str) -> bytes:
    """Return how a line of N-Quads ends whose quad is in a graph."""
    return f"<{graph}> .".encode()


def _refuted(known: Sequence[_Step], last: int, *, there: bool) -> set[int]:
    """Return the records after which the quad would be there and is not, or the other way round."""
    found: set[int] = set()
    for place, (number, kept) in enumerate(known):
        until = known[place + 1][0] - 1 if place + 1 < len(known) else last
        if kept != there:
            found |= set(range(number, until + 1))
    return found
