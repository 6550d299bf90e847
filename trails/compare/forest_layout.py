"""Lay out a forest of forks: a lane each, an axis of turns.

Positions on the axis are counts of turns: a session lies from its fork index to its length, and the edge to a fork leaves at
the fork index. If a fork was made inside a prefix that its parent inherits, the edge leaves the ancestor that owns the turn
there, since that is where the two transcripts part. The order of the lanes keeps edges from crossing them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from trails.errors import InvalidInput

_LONG: Final = 2
"""A stretch in which nothing begins or ends is cut short when it is more than this many times the longest fork."""


@dataclass(frozen=True, slots=True)
class Stem:
    """A session to be placed: it owns the turns from `start` (inclusive) to `end` (exclusive)."""

    id: str
    parent: str | None
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Bundle:
    """Forks that are drawn as one: their ids in the order given, and where they end, each count of turns with how many."""

    ids: tuple[str, ...]
    ends: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Lane:
    """A session in its place: `row` counts from 0 at the top; `origin` is the row that its edge leaves, None for a top."""

    stem: Stem
    row: int
    origin: int | None


@dataclass(frozen=True, slots=True)
class Axis:
    """From counts of turns to positions: as they are, but in long stretches where nothing happens, which are cut short.

    `knots` are (turns, position) in order; between two of them a position goes in proportion. `breaks` are the stretches
    cut short, as pairs of turns.
    """

    knots: tuple[tuple[int, float], ...]
    breaks: tuple[tuple[int, int], ...]

    @property
    def length(self) -> float:
        """The position at which the axis ends."""
        return self.knots[-1][1]

    def position(self, turns: float) -> float:
        """Return where a count of turns stands.

        >>> Axis(((0, 0.0), (100, 20.0), (110, 30.0)), ((0, 100),)).position(105)
        25.0
        """
        after = min(max(bisect_right(self.knots, turns, key=lambda knot: knot[0]), 1), len(self.knots) - 1)
        (first, left), (last, right) = self.knots[after - 1], self.knots[after]
        return left + (turns - first) * (right - left) / (last - first)


@dataclass(frozen=True, slots=True)
class Layout:
    """A forest in its place: the lanes from top to bottom, and the axis that they stand along."""

    lanes: tuple[Lane, ...]
    axis: Axis


def lay_out_forest(stems: Iterable[Stem]) -> Layout:
    """Return the place of each session; those without a parent among them are tops, in the order given.

    Below its origin, a fork that leaves later stands higher, and forks of one point keep the order given: so an edge that
    goes down passes no lane that reaches across it. Raises `InvalidInput` for no session, one that ends before it
    starts, and a lineage that goes in a circle.

    >>> layout = lay_out_forest([Stem("plan", None, 0, 5), Stem("dinner", "plan", 3, 5), Stem("solo", "dinner", 2, 3)])
    >>> [(lane.stem.id, lane.row, lane.origin) for lane in layout.lanes]
    [('plan', 0, None), ('dinner', 1, 0), ('solo', 2, 0)]
    """
    by_id = {stem.id: stem for stem in stems}
    _check(by_id)
    below: dict[str | None, list[Stem]] = defaultdict(list)
    for stem in by_id.values():
        below[owner(stem, by_id)].append(stem)
    lanes: list[Lane] = []
    rows: dict[str, int] = {}
    waiting = [(stem, None) for stem in reversed(below[None])]
    open_stems: list[tuple[Stem, str | None]] = list(waiting)
    while open_stems:
        stem, origin = open_stems.pop()
        rows[stem.id] = len(lanes)
        lanes.append(Lane(stem, len(lanes), None if origin is None else rows[origin]))
        later_first = sorted(below[stem.id], key=lambda fork: -fork.start)
        open_stems += [(fork, stem.id) for fork in reversed(later_first)]
    return Layout(tuple(lanes), axis_of([lane.stem for lane in lanes]))


def bundle_lanes(stems: Sequence[Stem], kind_of: Mapping[str, str], most: int) -> tuple[list[Stem], dict[str, Bundle]]:
    """Return stems with forks put together until there are at most `most`, as far as that goes, and the bundles.

    Forks of one point that have no forks themselves and are of one kind (`kind_of`, by id) are put together, at first where
    they end alike, then wherever they end. A bundle stands under the id of its first fork and reaches as far as the longest.

    >>> stems = [Stem("r", None, 0, 4), Stem("a", "r", 2, 3), Stem("b", "r", 2, 5), Stem("c", "r", 2, 3)]
    >>> bundle_lanes(stems, {}, 3)[1]
    {'a': Bundle(ids=('a', 'c'), ends=((3, 2),))}
    >>> drawn, bundles = bundle_lanes(stems, {}, 2)
    >>> drawn[1], bundles["a"].ends
    (Stem(id='a', parent='r', start=2, end=5), ((3, 2), (5, 1)))
    """
    for by_end in (True, False):
        bundled = _bundled(stems, kind_of, by_end=by_end)
        if len(bundled[0]) <= most:
            break
    return bundled


def _bundled(
    stems: Sequence[Stem], kind_of: Mapping[str, str], *, by_end: bool
) -> tuple[list[Stem], dict[str, Bundle]]:
    by_id = {stem.id: stem for stem in stems}
    parents = {stem.parent for stem in stems}
    groups: dict[tuple[object, ...], list[Stem]] = {}
    for stem in stems:
        alone = stem.id in parents or stem.parent not in by_id
        alike = (owner(stem, by_id), stem.start, kind_of.get(stem.id), stem.end if by_end else None)
        groups.setdefault((stem.id,) if alone else alike, []).append(stem)
    drawn, bundles = [], {}
    for members in groups.values():
        first = members[0]
        drawn.append(Stem(first.id, first.parent, first.start, max(stem.end for stem in members)))
        if len(members) > 1:
            ends = tuple(sorted(Counter(stem.end for stem in members).items()))
            bundles[first.id] = Bundle(tuple(stem.id for stem in members), ends)
    return drawn, bundles


def _check(by_id: Mapping[str, Stem]) -> None:
    if not by_id:
        raise InvalidInput("there is no session to draw")
    for stem in by_id.values():
        if not 0 <= stem.start <= stem.end:
            raise InvalidInput(f"session {stem.id!r} cannot be drawn from {stem.start} to {stem.end}")
        seen, above = {stem.id}, stem.parent
        while above is not None and above in by_id:
            if above in seen:
                raise InvalidInput(f"session {stem.id!r} cannot be drawn: its lineage goes in a circle")
            seen.add(above)
            above = by_id[above].parent


def owner(stem: Stem, by_id: Mapping[str, Stem]) -> str | None:
    """Return which of the sessions given a fork parts from: the nearest ancestor that owns the turn before its own.

    Where none of them does (the turn is inherited by the topmost, or the fork is at 0), it is the topmost.
    """
    above = by_id.get(stem.parent or "")
    while above is not None and above.start >= stem.start and above.parent in by_id:
        above = by_id[above.parent or ""]
    return None if above is None else above.id


def axis_of(stems: Sequence[Stem]) -> Axis:
    """Return the axis for some sessions: stretches where nothing begins or ends count at most the longest fork's turns.

    So fifty forks of ten turns can be seen beside the thousand turns that they share. A stretch up to twice as long as
    the longest fork is left as it is, and so is all when there are no forks.
    """
    ends = sorted({0, *(stem.start for stem in stems), *(stem.end for stem in stems)})
    if len(ends) == 1:
        return Axis(((0, 0.0), (1, 1.0)), ())
    longest = max((stem.end - stem.start for stem in stems if stem.parent is not None), default=0)
    knots, breaks = [(ends[0], 0.0)], []
    for first, last in pairwise(ends):
        cut = longest > 0 and last - first > _LONG * longest
        if cut:
            breaks.append((first, last))
        knots.append((last, knots[-1][1] + (longest if cut else last - first)))
    return Axis(tuple(knots), tuple(breaks))


def ticks(axis: Axis, room: int) -> list[int]:
    """Return up to about `room` counts of turns to be marked on an axis: its ends, those of its breaks, round ones between.

    >>> ticks(axis_of([Stem("a", None, 0, 40)]), 5)
    [0, 10, 20, 30, 40]
    >>> ticks(axis_of([Stem("a", None, 0, 1000), Stem("b", "a", 1000, 1010)]), 5)
    [0, 1000, 1005, 1010]
    """
    apart = axis.length / max(room, 1)
    step = _round_step(apart)
    cut = set(axis.breaks)
    wanted = [axis.knots[0][0], axis.knots[-1][0], *(place for stretch in axis.breaks for place in stretch)]
    for (first, _), (last, _) in pairwise(axis.knots):
        if (first, last) not in cut:
            wanted += range(-(-first // step) * step, last + 1, step)
    chosen: dict[int, float] = {}
    for place in dict.fromkeys(wanted):
        position = axis.position(place)
        if all(abs(position - other) >= 0.7 * apart for other in chosen.values()):
            chosen[place] = position
    return sorted(chosen)


def _round_step(apart: float) -> int:
    """Return the smallest of 1, 2, 5, 10, 20, ... that is not below a distance."""
    power = 1
    while True:
        for digit in (1, 2, 5):
            if digit * power >= apart:
                return digit * power
        power *= 10
