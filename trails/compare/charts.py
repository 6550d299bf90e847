"""Draw a column's numbers by arm: box, strip, bar with intervals, scatter.

An arm is a row with its name and n to the left, so that long names and many arms fit; a scatter has a legend to the right.
Coordinates are inches from the top left until a figure is made of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, Final, Literal

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from trails.compare import drawing
from trails.compare.statistics import ROOT, Aggregate
from trails.display.tables import significant
from trails.display.terminal_text import shorten_name
from trails.errors import InvalidInput

ChartKind = Literal["box", "strip", "bar", "scatter"]
CHART_KINDS: Final[tuple[ChartKind, ...]] = ("box", "strip", "bar", "scatter")
MAX_ARMS: Final = 60
_MAX_SCATTERED: Final = 35
_FEWEST: Final[Mapping[str, tuple[int, str]]] = {
    "box": (5, "quartiles say little of fewer"),
    "bar": (2, "an interval needs two"),
}
_MARKERS: Final = "os^DvPX"
_COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
"""Okabe and Ito's without yellow, which white paper swallows. An arm has a marker of its own too."""
_AXIS: Final = 4.2  # inches: how wide the numbers' axis is
_EDGE: Final = 0.15
_HEAD, _FOOT = 0.3, 0.72
_LEGEND: Final = 0.19
_SCATTER_HEIGHT: Final = 3.4
_LONGEST: Final = 40
_NOTES: Final[Mapping[str, str]] = {
    "box": "Box: quartiles, line: median; whiskers reach to 1.5 times the box; dots: each branch.",
    "strip": "Dots: each branch; line: mean.",
    "bar": "Bar: mean; line: 95% interval of the mean (percentile bootstrap).",
    "scatter": "Each mark is a branch.",
}


@dataclass(frozen=True, slots=True)
class ArmPoints:
    """An arm's name and its branches: each one's number, and for a scatter what it is drawn against; None where missing."""

    name: str
    numbers: tuple[float | None, ...]
    against: tuple[float | None, ...] = ()

    @property
    def present(self) -> list[float]:
        """The numbers there are."""
        return [number for number in self.numbers if number is not None]

    @property
    def pairs(self) -> list[tuple[float, float]]:
        """What there is of both."""
        both = zip(self.against, self.numbers, strict=True)
        return [(along, number) for along, number in both if along is not None and number is not None]

    def count(self, there: int) -> str:
        """Return how many are drawn of how many, in words."""
        missing = len(self.numbers) - there
        return f"n = {there}" + (f", {missing} missing" if missing else "")


@dataclass(frozen=True, slots=True)
class Captions:
    """What stands at a chart's axes and above it."""

    label: str
    grouped_by: str = ""
    against: str = ""
    title: str | None = None


def draw_chart(kind: ChartKind, arms: Sequence[ArmPoints], captions: Captions, form: str) -> bytes:
    """Return a chart as the bytes of a file, `form` being "svg", "png" or "pdf".

    Raises `InvalidInput` if no arm has enough numbers for the kind of chart, or if there are more arms than it shows.
    """
    drawn = [arm for arm in arms if arm.name != ROOT or arm.present]  # the root was not tried: no row where it has none
    _check(kind, drawn, captions)
    with drawing.drawing_settings(form):
        sheet = _scatter(drawn, captions) if kind == "scatter" else _rows(kind, drawn, captions)
        return drawing.figure_bytes(sheet, form)


def _check(kind: ChartKind, arms: Sequence[ArmPoints], captions: Captions) -> None:
    if kind == "scatter":
        if not any(arm.pairs for arm in arms):
            raise InvalidInput(f"no branch has numbers in both {captions.label!r} and {captions.against!r}")
        most = _MAX_SCATTERED
    else:
        most = MAX_ARMS
    if len(arms) > most:
        raise InvalidInput(f"a {kind} shows at most {most} arms, not {len(arms)}; group by something with fewer values")
    greatest = max((len(arm.present) for arm in arms), default=0)
    if not greatest:
        raise InvalidInput(
            f"no branch has a number in {captions.label!r}; score the branches first (store.score_all), or name a column "
            "that has numbers"
        )
    fewest, why = _FEWEST.get(kind, (1, ""))
    if greatest < fewest:
        raise InvalidInput(
            f"no arm has more than {greatest} of the {fewest} numbers that a {kind} needs, since {why}; run more branches, "
            "or draw kind='strip', which shows each"
        )


# --- a row an arm


def _rows(kind: ChartKind, arms: Sequence[ArmPoints], captions: Captions) -> Figure:
    figure, measure = _blank()
    names = _short_names([arm.name for arm in arms])
    counts = [arm.count(len(arm.present)) for arm in arms]
    pitch = min(max(8.0 / len(arms), 0.27), 0.42)
    head = _HEAD + (0.2 if captions.title else 0.0)
    left = (
        _EDGE + max(map(measure, [*names, captions.grouped_by])) + 0.15 + max(map(measure, [*counts, "branches"])) + 0.2
    )
    aggregates = [Aggregate.of(arm.numbers) for arm in arms]
    beside = [_in_words(aggregate) for aggregate in aggregates] if kind == "bar" else []
    right = max(map(measure, beside), default=0.0) + (0.15 if beside else 0.0) + _EDGE + 0.1
    width, height = left + _AXIS + right, head + pitch * len(arms) + _FOOT
    figure.set_size_inches(width, height)
    axes = figure.add_axes((left / width, _FOOT / height, _AXIS / width, pitch * len(arms) / height))
    axes.set_ylim(len(arms) - 0.5, -0.5)
    values = [number for arm in arms for number in arm.present]
    _scale(axes, values, from_zero=kind == "bar", aggregates=aggregates)
    for row, (arm, aggregate) in enumerate(zip(arms, aggregates, strict=True)):
        if aggregate is None:
            axes.text(0.5, row, "no numbers", transform=axes.get_yaxis_transform(), ha="center", va="center",
                      color=drawing.INK, style="italic", fontsize=drawing.SMALL)  # fmt: skip
            continue
        {"box": _box, "strip": _strip, "bar": _bar}[kind](axes, row, arm.present, aggregate)
    for row, (name, counted) in enumerate(zip(names, counts, strict=True)):
        y = 1 - (head + (row + 0.5) * pitch) / height
        _write(figure, _EDGE / width, y, name)
        _write(figure, (left - 0.12) / width, y, counted, ha="right", color=drawing.INK)
        if beside:
            _write(figure, (left + _AXIS + 0.15) / width, y, beside[row], color=drawing.INK)
    top = 1 - (head - 0.13) / height
    _write(figure, _EDGE / width, top, captions.grouped_by, fontweight="bold")
    _write(figure, (left - 0.12) / width, top, "branches", ha="right", fontweight="bold")
    if beside:
        _write(figure, (left + _AXIS + 0.15) / width, top, "mean (95%)", fontweight="bold")
    _finish(figure, axes, captions, _NOTES[kind])
    return figure


def _box(axes: Axes, row: int, numbers: Sequence[float], aggregate: Aggregate) -> None:
    if aggregate.n >= _FEWEST["box"][0]:
        ink = {"color": drawing.INK, "linewidth": 0.9}
        axes.boxplot(
            [list(numbers)], positions=[row], orientation="horizontal", widths=0.56, showfliers=False, manage_ticks=False,
            patch_artist=True, medianprops=ink | {"linewidth": 1.8, "color": "#000000"}, whiskerprops=ink, capprops=ink,
            boxprops={"facecolor": "#b9d9ec", "edgecolor": drawing.INK, "linewidth": 0.9},
        )  # fmt: skip
    _dots(axes, row, numbers, size=2.6)


def _strip(axes: Axes, row: int, numbers: Sequence[float], aggregate: Aggregate) -> None:
    _dots(axes, row, numbers, size=3.4)
    axes.plot([aggregate.mean] * 2, [row - 0.36, row + 0.36], color="#000000", linewidth=1.6, zorder=4)


def _bar(axes: Axes, row: int, numbers: Sequence[float], aggregate: Aggregate) -> None:
    axes.barh(row, aggregate.mean, height=0.6, color="#7fb8d8", edgecolor=drawing.PLAIN, linewidth=0.8)
    if aggregate.ci is not None:
        axes.plot(aggregate.ci, [row, row], color="#000000", linewidth=1.3, zorder=4)
        axes.plot(aggregate.ci, [row, row], color="#000000", linewidth=0, marker="|", markersize=6, zorder=4)


def _dots(axes: Axes, row: int, numbers: Sequence[float], size: float) -> None:
    """Draw each number as a dot; those that would cover each other stand side by side."""
    low, high = axes.get_xlim()
    apart = (high - low) * size / 72 / _AXIS
    places: list[tuple[float, float]] = []
    for place in sorted(range(len(numbers)), key=lambda each: numbers[each]):
        number, side = numbers[place], 0
        near = {y for x, y in places[-200:] if number - x < apart}
        while _offset(side) in near:
            side += 1
        places.append((number, _offset(side)))
    widest = max(abs(y) for _, y in places) or 1.0
    squeeze = min(1.0, 0.36 / widest)
    axes.plot(
        [x for x, _ in places], [row + y * squeeze for _, y in places], linewidth=0, marker="o", markersize=size,
        markerfacecolor=drawing.PLAIN, markeredgecolor="white", markeredgewidth=0.3, zorder=3, clip_on=False,
    )  # fmt: skip


def _offset(side: int) -> float:
    """Return how far from its row's middle a dot stands: 0, then by turns below and above.

    >>> [_offset(side) for side in range(1, 4)]
    [0.12, -0.12, 0.24]
    """
    return 0.12 * ((side + 1) // 2) * (1 if side % 2 else -1)


def _in_words(aggregate: Aggregate | None) -> str:
    if aggregate is None:
        return ""
    mean = significant(aggregate.mean, 3)
    return mean if aggregate.ci is None else f"{mean} ({' to '.join(significant(end, 3) for end in aggregate.ci)})"


# --- a scatter


def _scatter(arms: Sequence[ArmPoints], captions: Captions) -> Figure:
    figure, measure = _blank()
    names = _short_names([arm.name for arm in arms])
    legend = [f"{name} ({arm.count(len(arm.pairs))})" for name, arm in zip(names, arms, strict=True)]
    head = _HEAD + (0.2 if captions.title else 0.0)
    inside = max(_SCATTER_HEIGHT, _LEGEND * (len(arms) + 1))
    left = 0.85
    right = max(map(measure, [*legend, captions.grouped_by])) + 0.55
    width, height = left + _AXIS + right, head + inside + _FOOT
    figure.set_size_inches(width, height)
    axes = figure.add_axes((left / width, _FOOT / height, _AXIS / width, inside / height))
    _write(
        figure,
        (left + _AXIS + 0.22) / width,
        1 - (head + 0.5 * _LEGEND) / height,
        captions.grouped_by,
        fontweight="bold",
    )
    for place, (arm, text) in enumerate(zip(arms, legend, strict=True)):
        style: dict[str, Any] = {
            "color": _COLOURS[place % len(_COLOURS)], "marker": _MARKERS[(place + place // len(_COLOURS)) % len(_MARKERS)],
            "markersize": 4.2, "linewidth": 0, "markeredgecolor": "white", "markeredgewidth": 0.3,
        }  # fmt: skip
        axes.plot([x for x, _ in arm.pairs], [y for _, y in arm.pairs], alpha=0.85, clip_on=False, zorder=3, **style)
        y = 1 - (head + (place + 1.5) * _LEGEND) / height
        figure.add_artist(drawing.mark((left + _AXIS + 0.28) / width, y, style))
        _write(figure, (left + _AXIS + 0.4) / width, y, text)
    _scale(axes, [x for arm in arms for x, _ in arm.pairs])
    _scale(axes, [y for arm in arms for _, y in arm.pairs], axis="y")
    axes.grid(axis="y", color="#e4e4e4", linewidth=0.6)
    axes.set_ylabel(shorten_name(captions.label, 60))
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    left_out = sum(len(arm.numbers) - len(arm.pairs) for arm in arms)
    _finish(
        figure,
        axes,
        captions,
        _NOTES["scatter"] + (f" Left out, without both numbers: {left_out}." if left_out else ""),
    )
    return figure


# --- what they share


def _blank() -> tuple[Figure, Any]:
    """Return a figure, and what measures how many inches a text takes in its font."""
    figure = Figure(figsize=(7.2, 1.0))
    renderer: Any = FigureCanvasAgg(figure).get_renderer()  # type: ignore[no-untyped-call] # matplotlib's

    def measure(text: str) -> float:
        probe = figure.text(0, 0, text or " ", fontsize=drawing.FONT, fontweight="bold")
        wide = float(probe.get_window_extent(renderer).width) / figure.dpi
        probe.remove()
        return max(wide, drawing.least_width(text))

    return figure, measure


def _short_names(names: Sequence[str]) -> list[str]:
    """Return names of at most 40 characters, or of as many more as it takes to tell them apart.

    >>> [len(name) for name in _short_names(["a" * 50, "b"])], len(set(_short_names(["x" * 24 + y + "x" * 36 for y in "ab"])))
    ([40, 1], 2)
    """
    limit = _LONGEST
    while len({shorten_name(name, limit) for name in names}) < len(set(names)) and limit < max(map(len, names)):
        limit += 10
    return [shorten_name(name, limit) for name in names]


def _write(figure: Figure, x: float, y: float, text: str, **style: Any) -> None:
    usual: dict[str, Any] = {"fontsize": drawing.FONT, "va": "center_baseline"}
    figure.text(x, y, text, **(usual | style))


def _scale(
    axes: Axes,
    values: Sequence[float],
    *,
    axis: Literal["x", "y"] = "x",
    from_zero: bool = False,
    aggregates: Sequence[Aggregate | None] = (),
) -> None:
    """Give an axis room for all values, and a bar's intervals, with a margin."""
    if any(abs(value) > drawing.FARTHEST for value in values):
        raise InvalidInput(f"no axis can be drawn for numbers beyond {drawing.FARTHEST:g}; draw another column")
    shown = list(values)
    if from_zero:
        shown = [0.0, *(end for each in aggregates if each for end in (each.mean, *(each.ci or ())))]
    low, high = min(shown), max(shown)
    margin = (high - low) * 0.04 or abs(high) * 0.1 or 1.0
    bottom = low if from_zero and low == 0 else low - margin
    top = high if from_zero and high == 0 and low < 0 else high + margin
    (axes.set_xlim if axis == "x" else axes.set_ylim)(bottom, top)


def _finish(figure: Figure, axes: Axes, captions: Captions, note: str) -> None:
    width, height = figure.get_size_inches()
    left = axes.get_position().x0
    axes.grid(axis="x", color="#e4e4e4", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    if not captions.against:
        axes.set_yticks([])
    axes.tick_params(length=2.5, width=0.6, labelsize=drawing.FONT)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    middle = left + axes.get_position().width / 2
    label = shorten_name(captions.against or captions.label, 60)
    _write(figure, middle, 0.38 / height, label, ha="center")
    _write(figure, _EDGE / width, 0.13 / height, note, color=drawing.INK, fontsize=drawing.SMALL)
    if captions.title:
        limit = ceil(width * 12)
        _write(
            figure,
            _EDGE / width,
            1 - 0.16 / height,
            shorten_name(captions.title, limit),
            fontsize=9,
            fontweight="bold",
        )
