"""Figures as pictures: strips of numbers with their means and intervals, and bars of how often each value came.

A row of a picture is an SVG whose places are percentages, so it fits any width and its words keep their size.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from trails.compare.statistics import Aggregate, number

MOST_MARKS: Final = 300
"""Marks in a row; of more numbers, so many are drawn that stand evenly among them."""
MOST_ROWS: Final = 60
"""Rows of a picture."""
_GREATEST: Final = 1e300
"""Numbers beyond it are left out: a scale cannot be reckoned over them."""
_TICKS: Final = 5
_EDGE: Final = 2.0
"""Percent of the width that stay free on both sides."""
_LEVELS: Final = (14, 9, 19, 6, 22)
"""Heights at which neighbouring marks stand, in points."""
_STEPS: Final = (1, 2, 2.5, 5, 10)


@dataclass(frozen=True, slots=True)
class Strip:
    """A group's numbers: places are percentages of the width."""

    name: str
    n: int
    mean: str
    interval: str
    """The 95% interval of the mean in words; empty below two numbers."""
    reach: str
    marks: tuple[tuple[float, int], ...]
    """Of each number its place and its height."""
    middle: float
    low: float | None
    high: float | None

    @property
    def words(self) -> str:
        """What the picture shows, for those who do not see it."""
        interval = f", 95% interval of the mean {self.interval}" if self.interval else ""
        return f"{self.name}: mean {self.mean}{interval}, from {self.reach}"


@dataclass(frozen=True, slots=True)
class Plot:
    """Strips over one scale, and the places of its numbers."""

    rows: tuple[Strip, ...]
    ticks: tuple[tuple[float, str], ...]
    left_out: int
    """Groups that found no room."""


@dataclass(frozen=True, slots=True)
class Bar:
    """How often a value came: its number, and its share of all in percent."""

    name: str
    n: int
    share: float


def strips(groups: Mapping[str, Iterable[float | None]]) -> Plot | None:
    """Return strips of groups of numbers over one scale; None if there is no number.

    >>> plot = strips({"a": [1, 3], "b": [2]})
    >>> [(row.name, row.n, row.mean, row.middle) for row in plot.rows], [label for _, label in plot.ticks]
    ([('a', 2, '2', 50.0), ('b', 1, '2', 50.0)], ['1', '1.5', '2', '2.5', '3'])
    """
    finite = {
        name: [cell for cell in cells if cell is not None and abs(cell) <= _GREATEST] for name, cells in groups.items()
    }
    aggregates = {name: made for name, cells in finite.items() if (made := Aggregate.of(cells)) is not None}
    if not aggregates:
        return None
    ticks = _ticks(
        min(float(each.min) for each in aggregates.values()), max(float(each.max) for each in aggregates.values())
    )
    low, high = ticks[0], ticks[-1]

    def place(value: float) -> float:
        return round(_EDGE + (100 - 2 * _EDGE) * (value - low) / (high - low), 2)

    rows = tuple(_strip(name, each, place) for name, each in list(aggregates.items())[:MOST_ROWS])
    return Plot(rows, tuple((place(tick), number(tick)) for tick in ticks), len(aggregates) - len(rows))


def _strip(name: str, of: Aggregate, place: Callable[[float], float]) -> Strip:
    every = max(1, math.ceil(of.n / MOST_MARKS))
    marks = tuple((place(value), _LEVELS[at % len(_LEVELS)]) for at, value in enumerate(of.values[::every]))
    interval = of.ci
    return Strip(
        name=name,
        n=of.n,
        mean=number(of.mean),
        interval="" if interval is None else f"{number(interval[0])} to {number(interval[1])}",
        reach=f"{number(of.min)} to {number(of.max)}",
        marks=marks,
        middle=place(of.mean),
        low=None if interval is None else place(interval[0]),
        high=None if interval is None else place(interval[1]),
    )


def _ticks(low: float, high: float) -> list[float]:
    """Return round numbers from at most the least to at least the greatest."""
    if high <= low:
        low, high = (low - 0.5, high + 0.5) if abs(low) < 1 else (low - abs(low) / 2, high + abs(high) / 2)
    rough = (high - low) / (_TICKS - 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(each * power for each in _STEPS if each * power >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [float(f"{step * each:.12g}") for each in range(first, last + 1)]


def bars(values: Iterable[str]) -> list[Bar]:
    """Return how often each value came, the most frequent first.

    >>> [(bar.name, bar.n, bar.share) for bar in bars(["warm", "plain", "warm", "warm"])]
    [('warm', 3, 75.0), ('plain', 1, 25.0)]
    """
    counts = Counter(values)
    total = counts.total()
    most = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:MOST_ROWS]
    return [Bar(name, n, round(100 * n / total, 2)) for name, n in most]
