"""Measure how well two scorers agree, by categories or numbers."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from math import isfinite
from typing import Any, Final

from trails.display import html, tables
from trails.errors import InvalidInput
from trails.rdf.score_records import Score, ScoreValue

_FEWEST: Final = 2
Pair = tuple[ScoreValue, ScoreValue]


@dataclass(frozen=True, slots=True)
class Agreement(tables.Tabular):
    """How far two scorers agree on what both scored under one name.

    Texts and truth values are categories: `kappa` is Cohen's (1960), None if chance alone would make them agree always.
    Numbers have `pearson` and `spearman`, None if one side does not vary, and `difference`, the mean of left less right,
    None if no float holds it. `alpha` is Krippendorff's, nominal for categories and interval for numbers; None if
    nothing varies. `same` is the share of pairs that are equal. What only one of the two scored is counted, and left out
    of all else.
    """

    name: str
    left: str
    right: str
    n: int
    only_left: int
    only_right: int
    same: float
    kappa: float | None
    alpha: float | None
    pearson: float | None
    spearman: float | None
    difference: float | None
    pairs: tuple[Pair, ...]
    """The values of each pair, left first."""

    @property
    def is_of_numbers(self) -> bool:
        """Whether the scores are numbers, and not categories."""
        return not all(isinstance(value, bool | str) for pair in self.pairs for value in pair)

    def to_dict(self) -> dict[str, Any]:
        """Return the agreement as plain values, ready for JSON."""
        return asdict(self) | {"pairs": [list(pair) for pair in self.pairs]}

    def table(self) -> tables.PlainTable:
        """Return how often each pair of values came, as a table; the most frequent first."""
        counted = Counter((_typed(left), _typed(right)) for left, right in self.pairs)
        rows = [{"left": left[1], "right": right[1], "count": count} for (left, right), count in counted.most_common()]
        kinds: dict[str, tables.Kind] = {side: tables.kind_of(row[side] for row in rows) for side in ("left", "right")}
        return tables.PlainTable(kinds | {"count": "integer"}, rows)

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    def sentences(self) -> list[str]:
        """Return what was compared and what came out, in two lines of text."""
        left_out = [
            f"{count} by {name!r} alone"
            for count, name in ((self.only_left, self.left), (self.only_right, self.right))
            if count
        ]
        more = f" ({', '.join(left_out)}, left out)" if left_out else ""
        number = tables.significant
        measures = {"Cohen's kappa": self.kappa} if not self.is_of_numbers else {
            "Pearson's r": self.pearson, "Spearman's rho": self.spearman, "mean difference": self.difference,
        }  # fmt: skip
        measures |= {"Krippendorff's alpha": self.alpha}
        figures = (f"{what} {'undefined' if value is None else number(value, 3)}" for what, value in measures.items())
        return [
            f"{self.name} by {self.left!r} and {self.right!r}: {self.n} scored by both{more}",
            f"the same in {number(100 * self.same, 3)}%; {'; '.join(figures)}",
        ]

    @html.safe
    def _repr_html_(self) -> str:
        first, *rest = self.sentences()
        return html.box(html.inline(first), [*map(html.note, rest), tables.to_html(self.table())])


def agreement(name: str, left: tuple[str, Iterable[Score]], right: tuple[str, Iterable[Score]]) -> Agreement:
    """Return the agreement of two scorers, each by its name with its scores of that name, of which the newest count.

    A pair is two scores of the same turns, as far as a session went when it was scored. Raises `InvalidInput` for scores
    that are numbers for one thing and texts for another, and for fewer than 2 pairs.
    """
    ours, theirs = (_newest(scores) for _, scores in (left, right))
    both = [thing for thing in ours if thing in theirs]
    if len(both) < _FEWEST:
        raise InvalidInput(
            f"{left[0]!r} and {right[0]!r} both scored {len(both)} of the same under {name!r}, and agreement needs at least "
            f"{_FEWEST}; a session that went on between the two is not the same"
        )
    pairs = tuple((ours[thing], theirs[thing]) for thing in both)
    return Agreement(
        name=name,
        left=left[0],
        right=right[0],
        n=len(pairs),
        only_left=len(ours) - len(both),
        only_right=len(theirs) - len(both),
        pairs=pairs,
        **_figures(name, pairs),
    )


def _newest(scores: Iterable[Score]) -> dict[tuple[object, ...], ScoreValue]:
    return {
        (each.session_id, each.turn_digest) if each.start is None else (each.turn_digest, each.start): each.value
        for each in sorted(scores, key=lambda score: (score.time, score.id))
    }


def _figures(name: str, pairs: Sequence[Pair]) -> dict[str, Any]:
    values = [value for pair in pairs for value in pair]
    same = sum(_typed(left) == _typed(right) for left, right in pairs) / len(pairs)
    if all(isinstance(value, bool | str) for value in values):
        return dict.fromkeys(("pearson", "spearman", "difference")) | {
            "same": same, "kappa": kappa(pairs), "alpha": nominal_alpha(pairs),
        }  # fmt: skip
    if any(isinstance(value, str) for value in values):
        raise InvalidInput(f"the scores {name!r} are texts for some and numbers for others, so they cannot be compared")
    numbers = [(float(left), float(right)) for left, right in pairs]
    return {
        "same": same,
        "kappa": None,
        "alpha": interval_alpha(numbers),
        "pearson": pearson(numbers),
        "spearman": spearman(numbers),
        "difference": _mean_difference(numbers),
    }


def _typed(value: ScoreValue) -> tuple[bool, ScoreValue]:
    """Return a value so that True is not 1."""
    return isinstance(value, bool), value


# --- categories


def kappa(pairs: Sequence[Pair]) -> float | None:
    """Return Cohen's kappa: the agreement beyond chance (Cohen 1960); None if chance alone makes it whole.

    >>> kappa([("y", "y")] * 20 + [("y", "n")] * 5 + [("n", "y")] * 10 + [("n", "n")] * 15)
    0.4
    """
    n = len(pairs)
    lefts, rights = Counter(_typed(left) for left, _ in pairs), Counter(_typed(right) for _, right in pairs)
    seen = sum(_typed(left) == _typed(right) for left, right in pairs) * n
    expected = sum(count * rights[value] for value, count in lefts.items())
    return None if expected == n * n else (seen - expected) / (n * n - expected)


def nominal_alpha(pairs: Sequence[Pair]) -> float | None:
    """Return Krippendorff's alpha of two raters for categories; None if all values are one.

    >>> round(nominal_alpha([("a", "a"), ("a", "a"), ("b", "b"), ("b", "a")]), 4)      # 1 - 7 * 2 / (2 * 5 * 3)
    0.5333
    """
    counts = Counter(_typed(value) for pair in pairs for value in pair)
    total = 2 * len(pairs)
    expected = total * total - sum(count * count for count in counts.values())
    seen = 2 * sum(_typed(left) != _typed(right) for left, right in pairs)
    return None if expected == 0 else 1 - (total - 1) * seen / expected


# --- numbers


def interval_alpha(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Return Krippendorff's alpha of two raters for numbers on an interval scale; None if all numbers are one.

    >>> interval_alpha([(1.0, 2.0), (3.0, 3.0)])             # 1 - (1/2) / (2 * 11/12 * 2), the values 1, 2, 3, 3
    0.7272727272727273
    """
    values = [Fraction(value) for pair in pairs for value in pair]  # exact: nothing overflows
    middle = sum(values) / len(values)
    expected = 2 * sum((value - middle) ** 2 for value in values) / (len(values) - 1)
    seen = sum((left - right) ** 2 for left, right in zip(values[::2], values[1::2], strict=True)) / len(pairs)
    return float(1 - seen / expected) if expected else None


def _mean_difference(pairs: Sequence[tuple[float, float]]) -> float | None:
    try:
        return float(sum(Fraction(left) - Fraction(right) for left, right in pairs) / len(pairs))
    except OverflowError:
        return None


def pearson(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Return Pearson's correlation; None if one side does not vary.

    >>> pearson([(1.0, 2.0), (2.0, 4.0), (3.0, 6.0)]), pearson([(1.0, 2.0), (1.0, 3.0)])
    (1.0, None)
    """
    lefts, rights = zip(*pairs, strict=True)
    if len(set(lefts)) == 1 or len(set(rights)) == 1:
        return None
    try:
        coefficient = statistics.correlation(_scaled(lefts), _scaled(rights))
    except (statistics.StatisticsError, OverflowError):  # so great, or so near each other, that no float tells
        return None
    return max(-1.0, min(1.0, coefficient)) if isfinite(coefficient) else None


def _scaled(values: Sequence[float]) -> list[float]:
    """Return how far values are from their mean, the farthest as 1: squares of these overflow nowhere."""
    middle = sum(map(Fraction, values)) / len(values)
    farthest = max(abs(value - middle) for value in values)
    return [float((value - middle) / farthest) for value in values]


def spearman(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Return Spearman's correlation: Pearson's of the ranks, of which equal numbers share the mean.

    >>> spearman([(1.0, 1.0), (2.0, 4.0), (3.0, 9.0)]), spearman([(1.0, 3.0), (2.0, 2.0), (3.0, 1.0)])
    (1.0, -1.0)
    """
    lefts, rights = zip(*pairs, strict=True)
    return pearson(list(zip(_ranks(lefts), _ranks(rights), strict=True)))


def _ranks(values: Sequence[float]) -> list[float]:
    """Return the rank of each value from 1 on, equal ones sharing the mean of theirs.

    >>> _ranks([5.0, 1.0, 5.0])
    [2.5, 1.0, 2.5]
    """
    ordered = sorted(values)
    first = {value: place for place, value in reversed(list(enumerate(ordered, 1)))}
    last = {value: place for place, value in enumerate(ordered, 1)}
    return [(first[value] + last[value]) / 2 for value in values]
