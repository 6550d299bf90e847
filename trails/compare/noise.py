"""Say which arms differ by more than chance, and what their repeats could not show.

The spread within arms is what chance does. Two arms differ where a permutation test of their studentised means says so after
Holm's correction (Holm 1979); the interval of the difference is the inversion of that test, and then excludes 0. If both arms
draw from one distribution, whatever its shape, the test is exact: it is wrong in at most the share of cases that it claims
(Janssen 1997; Chung and Romano 2013). What a number of repeats can show is by the noncentral t distribution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from math import comb, floor, inf, isfinite, sqrt
from typing import Any, Final

from trails.compare.arms import Arm
from trails.compare.statistics import Aggregate
from trails.display import html, tables
from trails.errors import InvalidInput

LEVEL: Final = 0.05
POWER: Final = 0.8
RESAMPLES: Final = 9_999
_MOST_RUNS: Final = 100_000
_MOST_ARMS: Final = 30
_EXACT_UP_TO: Final = 8
"""Two arms with more numbers have more permutations than are tried: 48,620 of 9 and 9."""
_NEAR: Final = 1e-9
"""Statistics of permutations that differ by less, relative to their size, are the same."""


@dataclass(frozen=True, slots=True)
class ArmPair:
    """Two arms: how far their means are apart, left less right, and whether that is more than chance does.

    `p` is two-sided, `p_adjusted` after Holm's correction for all pairs. `interval` is of the difference, at the level that the
    correction leaves this pair; None where there are too few numbers for one. `least_difference` is what these numbers of
    repeats would show with the power asked for, None where they can show none. `runs_needed` are repeats in each arm that
    would show the difference found; None for no difference, or more than 100,000.
    """

    left: str
    right: str
    difference: float
    interval: tuple[float, float] | None
    p: float
    p_adjusted: float
    differ: bool
    least_difference: float | None
    runs_needed: int | None


@dataclass(frozen=True, slots=True)
class NoiseFloor(tables.Tabular):
    """What chance does to a column within arms, and which arms differ by more; print it for the sentences.

    `spread` is the standard deviation within arms, pooled over them, with `df` degrees of freedom. `left_out` are the arms
    with fewer than 2 numbers.
    """

    column: str
    grouped_by: tuple[str, ...]
    level: float
    power: float
    spread: float
    df: int
    arms: tuple[Arm, ...]
    pairs: tuple[ArmPair, ...]
    left_out: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, ready for JSON."""
        return tables.plain(asdict(self))  # type: ignore[no-any-return] # a dict stays one

    def table(self) -> tables.PlainTable:
        """Return the pairs of arms as a table."""
        kinds: dict[str, tables.Kind] = {"left": "text", "right": "text", "verdict": "text", "difference": "number"}
        kinds |= {
            "low": "number",
            "high": "number",
            "p_adjusted": "number",
            "least_difference": "number",
            "runs_needed": "integer",
        }
        rows = []
        for pair in self.pairs:
            low, high = pair.interval or (None, None)
            verdict = "differ" if pair.differ else "not told apart"
            rows.append(
                {**{name: getattr(pair, name, None) for name in kinds}, "verdict": verdict, "low": low, "high": high}
            )
        return tables.PlainTable(kinds, rows)

    @html.safe
    def _repr_html_(self) -> str:
        first, *rest = self.sentences()
        return html.box(html.inline(first), [tables.to_html(self.table(), digits=3), *map(html.note, rest)])

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    def sentences(self) -> list[str]:
        """Return what chance does, then what can be said of each two arms, in lines of text."""
        number = tables.significant
        of = (
            f"{len(self.arms)} arms, {self.df} degrees of freedom"
            if len(self.arms) > 1
            else f"{self.arms[0].n} repeats"
        )
        lines = [f"{self.column}: chance alone spreads it by {number(self.spread, 3)} (standard deviation within {of})"]
        counts = {arm.name: arm.n for arm in self.arms}
        lines += [self._sentence(pair, counts[pair.left], counts[pair.right]) for pair in self.pairs]
        if self.left_out:
            lines.append(f"left out, with fewer than 2 numbers: {', '.join(map(repr, self.left_out))}")
        return lines

    def _sentence(self, pair: ArmPair, left: int, right: int) -> str:
        number = tables.significant
        between = (
            ""
            if pair.interval is None
            else f", interval {number(pair.interval[0], 3)} to {number(pair.interval[1], 3)}"
        )
        figures = f"difference {number(pair.difference, 3)}{between}, p = {number(pair.p_adjusted, 3)} after correction"
        names = f"{pair.left!r} and {pair.right!r}"
        if pair.differ:
            return f"{names} differ: {figures}"
        runs = f"{left} runs each" if left == right else f"{left} and {right} runs"
        seen = (
            f"with {runs} no difference would be seen"
            if pair.least_difference is None
            else f"with {runs} a difference under {number(pair.least_difference, 3)} would not be seen"
        )
        needed = "" if pair.runs_needed is None else f"; {pair.runs_needed:,} runs each would show this one"
        return f"{names} are not told apart: {figures}; {seen} (power {self.power:g}){needed}"


def noise_floor(
    column: str,
    grouped_by: Sequence[str],
    groups: Sequence[tuple[str, Aggregate | None]],
    *,
    level: float = LEVEL,
    power: float = POWER,
    seed: int = 0,
) -> NoiseFloor:
    """Return which of some arms differ by more than chance: each a name with its numbers.

    `level` is the share of comparisons of equal arms in which any two may be said to differ, `power` the share of cases in
    which a difference is to be seen; both lie between 0 and 1, exclusive. Beyond 10,000 permutations, as many are drawn, the
    same ones for the same `seed`.

    Raises `InvalidInput` for fewer than 2 numbers in every arm, or more than 30 arms; `TrailsError` without scipy.
    """
    for name, share in (("level", level), ("power", power)):
        if not 0 < share < 1:
            raise InvalidInput(f"{name} lies between 0 and 1, not {share!r}; usual are 0.05 and 0.8")
    there = [(name, aggregate) for name, aggregate in groups if aggregate is not None and aggregate.n > 1]
    if not there or len(there) > _MOST_ARMS:
        raise InvalidInput(
            f"{len(there)} arms have 2 numbers or more in {column!r}, and a noise floor is of 1 to {_MOST_ARMS} such arms; "
            "repeat the runs of an arm (forks of one point with the same settings), or group by something else"
        )
    scipy_stats = tables.optional("scipy.stats", "stats", "a noise floor")
    df = sum(aggregate.n - 1 for _, aggregate in there)
    spread = sqrt(sum((aggregate.n - 1) * (aggregate.sd or 0.0) ** 2 for _, aggregate in there) / df)
    both = list(combinations(there, 2))
    nulls = [_permuted(scipy_stats, left.values, right.values, seed) for (_, left), (_, right) in both]
    order = sorted(range(len(both)), key=lambda place: nulls[place].p)
    rejected = next((n for n, place in enumerate(order) if nulls[place].p > level / (len(both) - n)), len(both))
    pairs: dict[int, ArmPair] = {}
    adjusted = 0.0
    for rank, place in enumerate(order):
        (name, left), (other, right) = both[place]
        null, own = nulls[place], level / (len(both) - min(rank, rejected))
        adjusted = max(adjusted, min(1.0, null.p * (len(both) - rank)))
        reckoned = _Power(scipy_stats, spread, own, power, _step([aggregate for _, aggregate in there]))
        difference = left.mean - right.mean
        pairs[place] = ArmPair(
            left=name,
            right=other,
            difference=difference,
            interval=null.interval(difference, own),
            p=null.p,
            p_adjusted=adjusted,
            differ=rank < rejected,
            least_difference=reckoned.least_difference(left.n, right.n),
            runs_needed=reckoned.runs_needed(difference),
        )
    arms = tuple(Arm(name, each.n, each.missing, each.mean, each.sd, float(each.median or 0)) for name, each in there)
    left_out = tuple(name for name, aggregate in groups if aggregate is None or aggregate.n < 2)
    return NoiseFloor(
        column, tuple(grouped_by), level, power, spread, df, arms, tuple(pairs[n] for n in range(len(both))), left_out
    )


# --- the test


@dataclass(frozen=True, slots=True)
class _Permuted:
    """The studentised difference of two arms, and what it is if their numbers change places: from the greatest to the least."""

    statistic: float
    error: float
    null: Sequence[float]
    is_exact: bool

    @property
    def p(self) -> float:
        least = self.statistic * (1 - _NEAR) if isfinite(self.statistic) else inf
        as_great = sum(1 for value in self.null if value >= least)
        return as_great / len(self.null) if self.is_exact else (as_great + 1) / (len(self.null) + 1)

    def interval(self, difference: float, level: float) -> tuple[float, float] | None:
        """Return the differences that the test would not refuse at a level; None where it can refuse none."""
        size = len(self.null)
        beyond = floor(level * size + _NEAR) if self.is_exact else floor(level * (size + 1) + _NEAR) - 1
        if beyond < 1 or not isfinite(self.null[beyond]):
            return None
        reach = self.null[beyond] * (1 + _NEAR)
        if self.is_exact and reach >= self.null[0] > 0:  # no permutation lies beyond, so no difference can be refused
            return None
        return difference - reach * self.error, difference + reach * self.error


def _permuted(scipy_stats: Any, left: Sequence[float], right: Sequence[float], seed: int) -> _Permuted:
    import numpy  # noqa: PLC0415 - scipy needs it too

    def studentised(one: Any, other: Any, axis: int = -1) -> Any:
        difference = numpy.abs(one.mean(axis) - other.mean(axis))
        error = numpy.sqrt(one.var(axis, ddof=1) / one.shape[axis] + other.var(axis, ddof=1) / other.shape[axis])
        size = numpy.maximum(numpy.abs(one).max(axis), numpy.abs(other).max(axis)) * _NEAR
        with numpy.errstate(divide="ignore", invalid="ignore"):
            return numpy.where(difference <= size, 0.0, numpy.where(error <= size, numpy.inf, difference / error))

    one, other = (numpy.asarray(side, dtype=float) for side in (left, right))
    with numpy.errstate(invalid="ignore"):  # it takes infinite statistics from each other
        tested = scipy_stats.permutation_test(
            (one, other), studentised, vectorized=True, n_resamples=RESAMPLES, alternative="greater", batch=2_000,
            random_state=numpy.random.default_rng(seed),
        )  # fmt: skip
    error = sqrt(float(one.var(ddof=1)) / len(one) + float(other.var(ddof=1)) / len(other))
    null = sorted((float(value) for value in tested.null_distribution), reverse=True)
    return _Permuted(float(tested.statistic), error, null, comb(len(one) + len(other), len(one)) <= RESAMPLES)


# --- what repeats can show


def _step(aggregates: Sequence[Aggregate]) -> float:
    """Return how far the two values of a column lie apart that has no others, such as right and wrong; else 0."""
    values = {value for aggregate in aggregates for value in aggregate.values}
    return float(max(values) - min(values)) if len(values) == 2 else 0.0


@dataclass(frozen=True, slots=True)
class _Power:
    """What repeats can show of a column with a spread, at a level, with a power."""

    stats: Any
    spread: float
    level: float
    wanted: float
    step: float = 0.0
    """How far the two values of a column lie apart that has no others."""

    def _attainable(self, left: int, right: int) -> float:
        """Return the level that a permutation test of so many numbers keeps: one of a few where these are few."""
        if min(left, right) > _EXACT_UP_TO or (ways := comb(left + right, left)) > RESAMPLES:
            return self.level
        step = 2 if left == right else 1  # arms of one size can change places as a whole
        return step * floor(self.level * ways / step + _NEAR) / ways

    def _power(self, sizes: float, left: int, right: int) -> float:
        """Return the power to see a difference of so many standard deviations: by the noncentral t distribution.

        Of two values alone, few differences can come about, and the test sees less: corrected for continuity (Fleiss, Tytun
        and Ury 1980).
        """
        level = self._attainable(left, right)
        if level <= 0:
            return 0.0
        df = left + right - 2
        if self.step and self.spread:
            sizes = max(0.0, sizes - self.step / self.spread * (1 / left + 1 / right) / 2)
        beyond, shift = self.stats.t.isf(level / 2, df), sizes / sqrt(1 / left + 1 / right)
        return float(self.stats.nct.sf(beyond, df, shift) + self.stats.nct.cdf(-beyond, df, shift))

    def least_difference(self, left: int, right: int) -> float | None:
        """Return the least difference that so many numbers show; None where they can show none."""
        if self._power(0.0, left, right) <= 0:
            return None
        low, high = 0.0, 1.0
        while self._power(high, left, right) < self.wanted and high < 1e6:
            high *= 2
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (low, middle) if self._power(middle, left, right) >= self.wanted else (middle, high)
        return high * self.spread

    def runs_needed(self, difference: float) -> int | None:
        """Return how many numbers each arm needs to show a difference; None for none, or for too many."""
        if not difference:
            return None
        sizes = abs(difference) / self.spread if self.spread else 1e3
        low, high = 1, 2
        while self._power(min(sizes, 1e3), high, high) < self.wanted:
            low, high = high, high * 2
            if high > _MOST_RUNS:
                return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._power(min(sizes, 1e3), middle, middle) >= self.wanted else (middle, high)
        return high
