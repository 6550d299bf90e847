"""What is reckoned over one column of a group: count, mean, spread, and an interval for the mean. Pure, and seeded."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import floor
from random import Random
from typing import Any, Final, TypeVar

from trails.errors import InvalidInput

CONFIDENCE: Final = 0.95
RESAMPLES: Final = 2000
_Number = TypeVar("_Number", bound=int | float)
FIGURES: Final = ("n", "missing", "mean", "sd", "median", "ci_low", "ci_high", "min", "max", "sum")
"""What an aggregate tells, in the order in which tables have it."""


@dataclass(frozen=True)
class Aggregate:
    """A numeric column over a group of branches: how many have a number there, and what the numbers come to.

    `sd` is the standard deviation of a sample (over n - 1), None below two numbers, as the interval is. A figure that no
    float can hold is None, too; a sum of whole numbers is exact.
    """

    values: tuple[int | float, ...]
    """The numbers, from the least to the greatest; at least one."""
    missing: int
    """How many branches of the group have none."""

    @classmethod
    def of(cls, cells: Iterable[int | float | None]) -> Aggregate | None:
        """Return the aggregate of a column's cells; None where there is no number among them.

        >>> found = Aggregate.of([4, None, 1, 1])
        >>> (found.n, found.missing, found.mean, found.median, found.sum) if found else None
        (3, 1, 2.0, 1, 6)
        """
        given = list(cells)
        numbers = sorted(cell for cell in given if cell is not None)
        return cls(tuple(numbers), len(given) - len(numbers)) if numbers else None

    @property
    def n(self) -> int:
        """How many branches have a number here."""
        return len(self.values)

    @cached_property
    def mean(self) -> float:
        """The mean."""
        return mean(self.values)

    @cached_property
    def sd(self) -> float | None:
        """The standard deviation of the sample, over n - 1; None below two numbers."""
        return None if self.n < 2 else _held(lambda: statistics.stdev(self.values))

    @cached_property
    def median(self) -> int | float | None:
        """The number in the middle, or the mean of the two there."""
        return _held(
            lambda: mean(middle) if (middle := self.values[(self.n - 1) // 2 : self.n // 2 + 1])[1:] else middle[0]
        )

    @property
    def min(self) -> int | float:
        """The least."""
        return self.values[0]

    @property
    def max(self) -> int | float:
        """The greatest."""
        return self.values[-1]

    @cached_property
    def sum(self) -> int | float | None:
        """All of them together."""
        return _held(lambda: added(self.values))

    @cached_property
    def ci(self) -> tuple[float, float] | None:
        """The 95% bootstrap interval of the mean: `interval()`."""
        return self.interval()

    @property
    def ci_low(self) -> float | None:
        """The lower end of `ci`."""
        return None if self.ci is None else self.ci[0]

    @property
    def ci_high(self) -> float | None:
        """The upper end of `ci`."""
        return None if self.ci is None else self.ci[1]

    def interval(
        self, *, confidence: float = CONFIDENCE, resamples: int = RESAMPLES, seed: int = 0
    ) -> tuple[float, float] | None:
        """Return a bootstrap interval of the mean by percentiles; None below two numbers. See `bootstrap`."""
        return None if self.n < 2 else bootstrap(self.values, confidence=confidence, resamples=resamples, seed=seed)

    def spread(self, *, brief: bool = False) -> str:
        """Return mean, standard deviation and range as people read them, and of how many where not of all; brief: no range.

        >>> Aggregate((1, 2, 6), missing=2).spread()
        '3 ± 2.646 (1 to 6) of 3'
        """
        of = f" of {self.n}" if self.missing else ""
        if self.min == self.max:
            return f"{number(self.min)}{of}"
        deviation = "" if self.sd is None else f" ± {number(self.sd)}"
        reach = "" if brief else f" ({number(self.min)} to {number(self.max)})"
        return f"{number(self.mean)}{deviation}{reach}{of}"

    def to_dict(self) -> dict[str, Any]:
        """Return all figures as plain values, ready for JSON."""
        return {figure: getattr(self, figure) for figure in FIGURES}


def bootstrap(
    numbers: Sequence[int | float], *, confidence: float = CONFIDENCE, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[float, float]:
    """Return the ends of an interval for the mean, by the percentile bootstrap (Efron and Tibshirani 1993, chapter 13).

    As many numbers as there are (two or more) are drawn with replacement, `resamples` times (100 to 100,000); of the sorted
    means, the interval leaves out the share (1 - `confidence`) / 2 at each end, `confidence` lying between 0 and 1, exclusive.
    The same numbers and the same `seed` give the same interval, in whatever order they come. It is too narrow for
    small samples: below some twenty numbers read it as a rough guide.

    >>> bootstrap([0, 1])
    (0.0, 1.0)
    """
    if not 0 < confidence < 1:
        raise InvalidInput(f"a confidence lies between 0 and 1, not {confidence!r}; the usual one is 0.95")
    if type(resamples) is not int or not 100 <= resamples <= 100_000:
        raise InvalidInput(f"resamples must be a whole number from 100 to 100,000, not {resamples!r}")
    if len(numbers) < 2:
        raise InvalidInput("an interval needs at least two numbers")
    drawn, source, count = Random(seed), sorted(numbers), len(numbers)  # noqa: S311 - statistics, no secret
    means = sorted(mean(drawn.choices(source, k=count)) for _ in range(resamples))
    outside = floor((1 - confidence) / 2 * resamples + 1e-6)
    return means[outside], means[-1 - outside]


def number(value: float) -> str:
    """Return a number as people read it: whole ones and great ones with commas, others to four significant digits."""
    return f"{value:,.0f}" if isinstance(value, int) or abs(value) >= 10_000 else f"{value:.4g}"


def mean(numbers: Sequence[int | float]) -> float:
    """Return the mean, which is a float where the sum on the way to it would be none."""
    try:
        return statistics.fmean(numbers)
    except OverflowError:
        return float(sum(map(Fraction, numbers)) / len(numbers))


def added(numbers: Sequence[int | float]) -> int | float:
    """Return the sum: exact for whole numbers, else the nearest float. Raises `OverflowError` where none is near.

    >>> added([1, 2]), added([0.1] * 10)
    (3, 1.0)
    """
    total = sum(map(Fraction, numbers))
    return int(total) if all(isinstance(number, int) for number in numbers) else float(total)


def _held(reckon: Callable[[], _Number]) -> _Number | None:
    """Return what is reckoned, or None where no float can hold it."""
    try:
        return reckon()
    except OverflowError:
        return None
