"""Aggregates, confidence intervals and groups of rows.

An aggregate has count, mean, spread and a seeded interval for the mean. Rows are grouped by equal values in columns, by
patterns of their names, or by outcome.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from fnmatch import fnmatchcase
from fractions import Fraction
from functools import cached_property
from math import floor
from random import Random
from typing import Any, Final, TypeVar

from trails.display import tables
from trails.display.tables import Kind
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
        """Return the aggregate of a column's cells; None if there is no number among them.

        >>> found = Aggregate.of([4, None, 1, 1])
        >>> (found.n, found.missing, found.mean, found.median, found.sum) if found else None
        (3, 1, 2.0, 1, 6)
        """
        column = list(cells)
        numbers = sorted(cell for cell in column if cell is not None)
        return cls(tuple(numbers), len(column) - len(numbers)) if numbers else None

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
        return None if self.n < 2 else _checked_number(lambda: statistics.stdev(self.values))

    @cached_property
    def median(self) -> int | float | None:
        """The number in the middle, or the mean of the two there."""
        return _checked_number(
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
        return _checked_number(lambda: total(self.values))

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
        """Return mean, standard deviation and range as people read them, and of how many if not of all; brief: no range.

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
    """Return the mean, which is a float if the sum on the way to it would be none."""
    try:
        return statistics.fmean(numbers)
    except OverflowError:
        return float(sum(map(Fraction, numbers)) / len(numbers))


def total(numbers: Sequence[int | float]) -> int | float:
    """Return the sum: exact for whole numbers, else the nearest float. Raises `OverflowError` where none is near.

    >>> total([1, 2]), total([0.1] * 10)
    (3, 1.0)
    """
    total = sum(map(Fraction, numbers))
    return int(total) if all(isinstance(number, int) for number in numbers) else float(total)


def _checked_number(reckon: Callable[[], _Number]) -> _Number | None:
    """Return what is reckoned, or None if no float can hold it."""
    try:
        return reckon()
    except OverflowError:
        return None


ROOT: Final = "(root)"
MISSING: Final = "(missing)"
ARM: Final = "arm"
"""The column that says which of the patterns given a branch's label or id matches."""
OUTCOME: Final = ("parent", "fork_index", "own_turns", "models", "tools", "last_answer")
"""Branches that agree in these came out the same, however many tokens each took."""
_Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Group:
    """The branches that have the same values in the columns grouped by, in order, and aggregates of all numeric columns.

    The session whose forks are compared is a group of its own, named `(root)`: what is tried on its forks was not tried on
    it. Where several are compared, those of them are in it that have no value in any of the columns. Any other is named by
    its values, with `(missing)` for none. A column in which no branch of the group has a number has no aggregate, nor have
    places, identifiers (`Repository.compare` says which) or what is grouped by.
    """

    name: str
    key: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]]
    aggregates: Mapping[str, Aggregate]

    def __len__(self) -> int:
        return len(self.rows)

    def to_dict(self) -> dict[str, Any]:
        """Return the group as plain values, ready for JSON: its branches by session id, all its aggregates."""
        return {
            "name": self.name,
            "key": tables.plain(self.key),
            "count": len(self),
            "aggregates": {name: aggregate.to_dict() for name, aggregate in self.aggregates.items()},
            "sessions": [row["session"] for row in self.rows],
        }


def group_rows(
    rows: Sequence[_Row], by: Sequence[str], kinds: Mapping[str, Kind], roots: Collection[str]
) -> tuple[Group, ...]:
    """Return the groups of rows that have the same values in some columns, the roots' first, then in order of the values."""
    apart = frozenset(
        row["session"]
        for row in rows
        if row["session"] in roots and (len(roots) == 1 or all(row[name] is None for name in by))
    )
    groups: dict[tuple[Any, ...], list[_Row]] = {}
    for row in rows:
        values = tuple(rank(row[name]) for name in by)
        groups.setdefault((row["session"] not in apart, values), []).append(row)
    numeric = [name for name, kind in kinds.items() if kind in ("integer", "number") and name not in by]
    return tuple(
        _group(ROOT if not is_fork else _name(members[0], by, kinds), members, by, numeric)
        for (is_fork, _), members in sorted(groups.items())
    )


def _group(name: str, members: Sequence[_Row], by: Sequence[str], numeric: Sequence[str]) -> Group:
    reckoned = {column: Aggregate.of([row[column] for row in members]) for column in numeric}
    aggregates = {column: aggregate for column, aggregate in reckoned.items() if aggregate is not None}
    return Group(name, {column: members[0][column] for column in by}, tuple(members), aggregates)


def _name(row: _Row, by: Sequence[str], kinds: Mapping[str, Kind]) -> str:
    values = (" ".join(tables.text(row[column], kinds[column]).split()) for column in by)
    return ", ".join(value or MISSING for value in values)


def differing_names(groups: Sequence[Group], kinds: Mapping[str, Kind]) -> list[Group]:
    """Return groups named by those of their values alone in which they differ, the root aside; by all where none differs."""
    forks = [group for group in groups if group.name != ROOT]
    by = list(groups[0].key) if groups else []
    differ = [column for column in by if len({rank(group.key[column]) for group in forks}) > 1] or by
    return [each if each.name == ROOT else replace(each, name=_name(each.key, differ, kinds)) for each in groups]


def rank(value: Any) -> tuple[Any, ...]:
    """Return what orders the values of a column: numbers, texts (upper and lower case alike), the rest; missing last.

    Values with the same rank are the same value; 1 and 1.0 are, True is another.
    """
    match value:
        case None:
            return (9,)
        case bool():
            return (0, value)
        case int() | float():
            return (1, value)
        case str():
            return (2, value.casefold(), value)
        case datetime() | tuple():  # times, and names of models
            return (3, value)
    return (4, json.dumps(tables.plain(value), sort_keys=True))


# --- arms by the pattern of a name


def patterns(arms: Mapping[str, str] | Sequence[str]) -> dict[str, str]:
    """Return arms by name, each with its pattern; a pattern given alone is its own name.

    Raises `InvalidInput` for no arm and for what is no text.
    """
    if isinstance(arms, str):
        raise InvalidInput(f"arms are several patterns, not one text: arms=[{arms!r}, ...]")
    by_name = dict(arms) if isinstance(arms, Mapping) else {pattern: pattern for pattern in arms}
    if not by_name:
        raise InvalidInput("name at least one arm, or leave the arms out")
    for name, pattern in by_name.items():
        if any(type(text) is not str or not text.strip() for text in (name, pattern)):
            raise InvalidInput(f"an arm is a name with a pattern, both texts, not {name!r} with {pattern!r}")
    return by_name


def arm_of(row: _Row, arms: Mapping[str, str]) -> str | None:
    """Return the first arm whose pattern matches a branch's label or, if it has none, its id; None for no such arm.

    In a pattern `*` is any text, `?` any character, `[ab]` one of some; upper and lower case differ.

    >>> arm_of({"label": "few-shot 3", "session": "s"}, {"few": "few-*", "rest": "*"})
    'few'
    """
    called = row["label"] or row["session"]
    return next((name for name, pattern in arms.items() if fnmatchcase(called, pattern)), None)


# --- identifiers

_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+")
_IDENTIFYING: Final = frozenset({"id", "ids", "uuid", "guid", "seed", "index", "idx", "hash", "digest", "pid", "port"})


def is_identifier(key: str) -> bool:
    """Tell by the name of a metadata key that its numbers say which, not how much: its last word is `id`, `seed` or alike.

    >>> [is_identifier(key) for key in ("seed", "run_id", "runId", "random-seed", "paid", "temperature")]
    [True, True, True, True, False, False]
    """
    words = _WORD.findall(key)
    return bool(words) and words[-1].lower() in _IDENTIFYING
