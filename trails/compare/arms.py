"""Test whether two arms differ in a column.

The tests are Welch's t, Mann and Whitney's U, and Student's t of pairs, with effect sizes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import comb, sqrt
from statistics import fmean, median, stdev
from typing import Any, Final, Literal

from trails.compare.statistics import Aggregate
from trails.display import html, tables
from trails.errors import InvalidInput

Method = Literal["welch", "mann-whitney", "paired"]
METHODS: Final[tuple[Method, ...]] = ("welch", "mann-whitney", "paired")
_FEWEST: Final = 3
_EXACT_UP_TO: Final = 8
_LEVEL: Final = 0.05


@dataclass(frozen=True, slots=True)
class Arm:
    """One side of a test: its name, how many numbers it has, how many branches have none, and what the numbers are like."""

    name: str
    n: int
    missing: int
    mean: float
    sd: float | None
    median: float


@dataclass(frozen=True, slots=True)
class ArmTest(tables.Tabular):
    """What a test of two arms found. `p` is two-sided, and of this one test: who makes ten wants a correction for ten.

    `statistic` is t with `df` degrees of freedom, or U of the left arm with no `df`. `effect` is Hedges' g (the difference of
    the means in pooled standard deviations, corrected for small samples), the rank-biserial correlation (-1 to 1: how
    much more often the left one is the greater) or, of pairs, Cohen's d_z (the mean difference in standard deviations of
    the differences), which `effect_name` says. `difference` is left less right, of the means or of the medians;
    `difference_ci` its 95% interval, for tests of means only. `how` says how p was found.
    """

    column: str
    grouped_by: tuple[str, ...]
    method: Method
    left: Arm
    right: Arm
    statistic: float
    df: float | None
    p: float
    effect: float
    effect_name: str
    difference: float
    difference_ci: tuple[float, float] | None
    how: str

    def to_dict(self) -> dict[str, Any]:
        """Return the test as plain values, ready for JSON."""
        plain = asdict(self)
        return plain | {
            "grouped_by": list(self.grouped_by),
            "difference_ci": None if self.difference_ci is None else list(self.difference_ci),
        }

    def table(self) -> tables.PlainTable:
        """Return the two arms as a table of two rows."""
        kinds: dict[str, tables.Kind] = {"arm": "text", "n": "integer", "missing": "integer"}
        kinds |= {"mean": "number", "sd": "number", "median": "number"}
        sides = (self.left, self.right)
        return tables.PlainTable(kinds, [{"arm": side.name} | _figures(side) for side in sides])

    @html.safe
    def _repr_html_(self) -> str:
        first, *rest = self.sentences()
        return html.box(html.inline(first), [tables.to_html(self.table(), digits=4), *map(html.note, rest)])

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    def sentences(self) -> list[str]:
        """Return what was compared and what came out, in three lines of text."""
        name, short = _NAMES[self.method]
        number = tables.significant
        df = "" if self.df is None else f"({number(self.df, 3)})"
        p = "< 0.0001" if self.p < 0.0001 else number(self.p, 3)
        ci_text = ""
        if self.difference_ci is not None:
            ci_text = f" (95% interval {number(self.difference_ci[0], 3)} to {number(self.difference_ci[1], 3)})"
        what = "medians" if self.method == "mann-whitney" else "means"
        return [
            f"{self.column} of {_said(self.left)} against {_said(self.right)}, by {', '.join(self.grouped_by)}",
            f"{name}: {short}{df} = {number(self.statistic, 3)}, p = {p}, two-sided, {self.how}",
            f"difference of {what} {number(self.difference, 3)}{ci_text}; {self.effect_name} {number(self.effect, 3)}",
        ]


_NAMES: Final = {
    "welch": ("Welch's t test", "t"),
    "mann-whitney": ("Mann-Whitney U test", "U"),
    "paired": ("Paired t test", "t"),
}


def _figures(side: Arm) -> dict[str, Any]:
    return {"n": side.n, "missing": side.missing, "mean": side.mean, "sd": side.sd, "median": side.median}


def _said(side: Arm) -> str:
    missing = f", {side.missing} missing" if side.missing else ""
    return f"{side.name!r} (n = {side.n}{missing})"


def compare_arms(
    column: str,
    grouped_by: Sequence[str],
    left: tuple[str, Aggregate | None],
    right: tuple[str, Aggregate | None],
    method: Method,
) -> ArmTest:
    """Return a test of two arms, each a name with the column's aggregate there.

    Raises `InvalidInput` for another method, an arm without numbers or with too few, and arms that do not vary;
    `TrailsError` if scipy is not installed (the extra `stats`).
    """
    if method not in METHODS:
        raise InvalidInput(f"there is no test {method!r}; there are: {', '.join(METHODS)}")
    first, second = _checked(column, left), _checked(column, right)
    sides = _arm(left[0], first), _arm(right[0], second)
    scipy_stats = tables.optional("scipy.stats", "stats", "a test between arms")
    figures = _welch(scipy_stats, first, second) if method == "welch" else _mann_whitney(scipy_stats, first, second)
    return ArmTest(column, tuple(grouped_by), method, *sides, **figures)


def compare_paired_arms(
    column: str,
    grouped_by: Sequence[str],
    left: tuple[str, Mapping[str, Sequence[float]]],
    right: tuple[str, Mapping[str, Sequence[float]]],
) -> ArmTest:
    """Return Student's t test of pairs: each arm a name with its numbers by what they are paired by, whose means are compared.

    Raises `InvalidInput` for fewer than 3 pairs and where all pairs differ alike; `TrailsError` without scipy.
    """
    (one, mine), (other, theirs) = left, right
    both = [each for each in mine if each in theirs]
    if len(both) < _FEWEST:
        raise InvalidInput(
            f"{len(both)} of the sessions compared have numbers of both {one!r} and {other!r} in {column!r}, and a test of "
            f"pairs needs at least {_FEWEST}; run both arms on more sessions, or leave the pairs out"
        )
    means = [[fmean(side[each]) for each in both] for side in (mine, theirs)]
    differences = [first - second for first, second in zip(*means, strict=True)]
    spread = stdev(differences)
    if spread == 0.0:
        raise InvalidInput("all pairs differ by the same, so no t test can tell by chance; show the difference itself")
    scipy_stats = tables.optional("scipy.stats", "stats", "a test between arms")
    tested = scipy_stats.ttest_rel(*means)
    interval = tested.confidence_interval(0.95)
    alone = len(mine.keys() ^ theirs.keys())
    return ArmTest(
        column,
        tuple(grouped_by),
        "paired",
        _pair_side(*left, both),
        _pair_side(*right, both),
        statistic=float(tested.statistic),
        df=float(tested.df),
        p=float(tested.pvalue),
        effect=fmean(differences) / spread,  # Cohen (1988), d_z
        effect_name="Cohen's d_z",
        difference=fmean(differences),
        difference_ci=(float(interval.low), float(interval.high)),
        how=f"over {len(both)} sessions" + (f"; {alone} with one arm alone left out" if alone else ""),
    )


def _pair_side(name: str, values: Mapping[str, Sequence[float]], both: Sequence[str]) -> Arm:
    means = [fmean(values[each]) for each in both]
    return Arm(name, len(means), 0, fmean(means), stdev(means), float(median(means)))


def _checked(column: str, side: tuple[str, Aggregate | None]) -> Aggregate:
    name, aggregate = side
    count = 0 if aggregate is None else aggregate.n
    if aggregate is None or count < _FEWEST:
        raise InvalidInput(
            f"the arm {name!r} has {count} {'number' if count == 1 else 'numbers'} in {column!r}, and a test needs at "
            f"least {_FEWEST} on each side; run more branches, or show the numbers themselves"
        )
    return aggregate


def _arm(name: str, aggregate: Aggregate) -> Arm:
    return Arm(name, aggregate.n, aggregate.missing, aggregate.mean, aggregate.sd, float(aggregate.median or 0))


def _welch(scipy_stats: Any, first: Aggregate, second: Aggregate) -> dict[str, Any]:
    one, other = (aggregate.sd or 0.0 for aggregate in (first, second))
    if one == other == 0.0:
        raise InvalidInput("neither arm varies, so no t test can tell them apart; show the two values themselves")
    tested = scipy_stats.ttest_ind(first.values, second.values, equal_var=False)
    interval = tested.confidence_interval(0.95)
    freedom = first.n + second.n - 2
    pooled = sqrt(((first.n - 1) * one**2 + (second.n - 1) * other**2) / freedom)
    difference = first.mean - second.mean
    return {
        "statistic": float(tested.statistic),
        "df": float(tested.df),
        "p": float(tested.pvalue),
        "effect": difference / pooled * (1 - 3 / (4 * freedom - 1)),  # Hedges (1981), his approximation of J
        "effect_name": "Hedges' g",
        "difference": difference,
        "difference_ci": (float(interval.low), float(interval.high)),
        "how": "by Student's distribution",
    }


def _mann_whitney(scipy_stats: Any, first: Aggregate, second: Aggregate) -> dict[str, Any]:
    least = 2 / comb(first.n + second.n, first.n)
    if least > _LEVEL:
        raise InvalidInput(
            f"with {first.n} and {second.n} numbers p of the U test is at least {least:.2g}; run more branches"
        )
    everything = (*first.values, *second.values)
    if len(set(everything)) == 1:
        raise InvalidInput("all numbers of both arms are the same, so there is nothing to test")
    exact = len(set(everything)) == len(everything) and min(first.n, second.n) <= _EXACT_UP_TO
    how = "exact" if exact else "asymptotic"
    tested = scipy_stats.mannwhitneyu(first.values, second.values, alternative="two-sided", method=how)
    return {
        "statistic": float(tested.statistic),
        "df": None,
        "p": float(tested.pvalue),
        "effect": 2 * float(tested.statistic) / (first.n * second.n) - 1,  # Wendt (1972)
        "effect_name": "rank-biserial correlation",
        "difference": float(first.median or 0) - float(second.median or 0),
        "difference_ci": None,
        "how": how,
    }
