"""Draw a forest of forks with matplotlib, as SVG, PNG or PDF.

The coordinates of a sheet are inches from the top left. It has a legend of the colours, a lane for each session with its name
to the right, and the axis of turns below. No display, no pyplot, and none of the host's settings are used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

from matplotlib import colormaps
from matplotlib import dates as mpl_dates
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Colormap, ListedColormap, Normalize, to_hex
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from matplotlib.text import Text
from matplotlib.ticker import MaxNLocator
from numpy import linspace

from trails.compare.drawing import (
    FARTHEST,
    FONT,
    INK,
    PLAIN,
    SMALL,
    drawing_settings,
    figure_bytes,
    least_width,
)
from trails.compare.forest_layout import Bundle, Lane, Layout, Stem, bundle_lanes, lay_out_forest, ticks
from trails.compare.statistics import mean
from trails.display import tables
from trails.display.tables import NUMERIC, Kind
from trails.display.terminal_text import shorten_name
from trails.errors import InvalidInput

_dates: Final[Any] = mpl_dates  # its classes carry no types
_WIDTH: Final = 7.2  # inches: two columns of a paper
_MARGIN: Final = 0.12
_GAP: Final = 0.1
_FOOT: Final = 0.42
_TICK_ROOM: Final = 0.42  # inches from one tick to the next
_BAR: Final = (2.2, 0.09)
_LINE: Final = 0.17  # inches from one line of the legend to the next
_GREY: Final = "#a6a6a6"
_FAINT: Final = "#d0d0d0"
_LONGEST_NAME: Final = 34


@dataclass(frozen=True, slots=True)
class Paint:
    """Which colour each session has (grey where none), and what explains the colours: a scale, or texts with theirs."""

    colours: Mapping[str, str]
    scale: ScalarMappable | None = None
    extend: Literal["neither", "min", "max", "both"] = "neither"
    is_time: bool = False
    texts: Mapping[str, str] | None = None


def draw_forest(
    layout: Layout,
    names: Mapping[str, str],
    title: str | None,
    paint: Paint,
    form: str,
    *,
    bundles: Mapping[str, Bundle],
) -> bytes:
    """Return a drawing as the bytes of a file; `title` says what the colours are, None for no colours.

    A lane of `bundles` stands for several forks: it is thicker, with a dot at each of their ends, larger for more.
    """
    sheet = _Sheet(layout, names)
    entries = [] if title is None else sheet.entries(paint)
    sheet.unroll(head=_head_height(title, paint, entries))
    sheet.add_edges()
    for lane in layout.lanes:
        sheet.add_lane(lane, paint.colours.get(lane.stem.id, _GREY), bundles.get(lane.stem.id))
    sheet.add_breaks()
    sheet.add_axis()
    if title is not None:
        sheet.add_head(title, paint, entries)
    return figure_bytes(sheet.figure, form)


_Entry = tuple[str, str]


def _head_height(title: str | None, paint: Paint, lines: Sequence[Sequence[_Entry]]) -> float:
    if title is None:
        return _MARGIN
    return 0.5 if paint.scale is not None else 0.2 + _LINE * (len(lines) + 1)


class _Sheet:
    """The figure while it is drawn. Until it is unrolled its height is not known and only widths can be measured."""

    def __init__(self, layout: Layout, names: Mapping[str, str]) -> None:
        self._layout, self._names = layout, names
        self._figure = Figure(figsize=(_WIDTH, 1.0))
        self._canvas: Any = FigureCanvasAgg(self._figure)
        self._axes = self._figure.add_axes((0, 0, 1, 1))
        self._axes.set_axis_off()
        self._axes.set_xlim(0, _WIDTH)
        self._pitch = min(max(8.0 / len(layout.lanes), 0.15), 0.26)
        self._bend = 0.4 * self._pitch
        self._font = min(FONT, self._pitch * 72 * 0.62)
        self._labels = [self._label(lane) for lane in layout.lanes]
        self._right = _WIDTH - _MARGIN - _GAP - 1.03 * max(self._width(label) for label in self._labels)
        self._head = 0.0
        self._height = 1.0

    def unroll(self, *, head: float) -> None:
        """Give the sheet its height, with room above the lanes, and put the names in their places."""
        self._head = head
        self._height = head + len(self._layout.lanes) * self._pitch + _FOOT
        self._figure.set_size_inches(_WIDTH, self._height)
        self._axes.set_ylim(self._height, 0)
        for lane, label in zip(self._layout.lanes, self._labels, strict=True):
            label.set_position((self._right + _GAP, self._y(lane.row)))

    # --- places

    def _x(self, turns: float) -> float:
        axis = self._layout.axis
        return _MARGIN + (self._right - 2 * _MARGIN) * axis.position(turns) / axis.length

    def _y(self, row: int) -> float:
        return self._head + (row + 0.5) * self._pitch

    def _width(self, text: Text) -> float:
        wide = float(text.get_window_extent(self._canvas.get_renderer()).width) / self._figure.dpi
        return max(wide, least_width(text.get_text()) * float(text.get_fontsize()) / FONT)

    # --- pieces

    def _line(self, xs: Sequence[float], ys: Sequence[float], colour: str, width: float, **style: Any) -> None:
        self._axes.plot(xs, ys, color=colour, linewidth=width, scalex=False, scaley=False, **style)

    def _text(self, x: float, y: float, text: str, **style: Any) -> Text:
        usual: dict[str, Any] = {"fontsize": SMALL, "color": INK, "va": "center_baseline"}
        return self._axes.text(x, y, text, **(usual | style))

    def _label(self, lane: Lane) -> Text:
        named = self._names.get(lane.stem.id)
        style: dict[str, Any] = {"fontsize": self._font}
        if named is None:
            style |= {"color": _GREY, "style": "italic"}
        return self._text(0, 0, shorten_name(named or lane.stem.id, _LONGEST_NAME), **style)

    # --- sessions

    def add_edges(self) -> None:
        """Draw the edges from where forks leave: one for all forks of a point, down to the lowest."""
        lowest: dict[tuple[int, int], int] = {}
        for lane in self._layout.lanes:
            if lane.origin is not None:
                lowest[lane.origin, lane.stem.start] = lane.row
        for (origin, start), row in lowest.items():
            x, top = self._x(start), self._y(origin)
            self._line([x, x], [top, self._y(row) - self._bend], _GREY, 0.8, solid_capstyle="butt", zorder=1)
            self._line([x], [top], INK, 0, marker="o", markersize=2.2, markeredgewidth=0, zorder=5)

    def add_lane(self, lane: Lane, colour: str, bundle: Bundle | None = None) -> None:
        """Draw a session: the turns that it owns from the bend out of its edge, and a thin line on to its name."""
        stem, y = lane.stem, self._y(lane.row)
        start, end = self._x(stem.start), self._x(stem.end)
        width = min(2.4, self._pitch * 72 * 0.16) * (1 if bundle is None else 1.6)
        if lane.origin is None:
            self._line([self._x(0), start], [y, y], _GREY, 0.8, linestyle=(0, (3, 2)), zorder=1)
            self._line([start, end], [y, y], colour, width, solid_capstyle="butt", zorder=3)
        else:
            across = min(self._bend, end - start)
            path = Path(
                [(start, y - self._bend), (start, y), (start + across, y), (end, y)],
                [Path.MOVETO, Path.CURVE3, Path.CURVE3, Path.LINETO],
            )
            bent = PathPatch(path, fill=False, edgecolor=colour, linewidth=width, capstyle="butt", zorder=3)
            self._axes.add_patch(bent)
        self._line([end, self._right + 0.6 * _GAP], [y, y], _FAINT, 0.5, linestyle=(0, (1, 2)), zorder=0)
        most = max((count for _, count in bundle.ends), default=1) if bundle else 1
        for turns, count in bundle.ends if bundle else ((stem.end, 1),):
            size = 2.1 * width * (0.35 + 0.65 * (count / most) ** 0.5)
            self._line([self._x(turns)], [y], colour, 0, marker="o", markersize=size, markeredgewidth=0, zorder=4)

    def add_breaks(self) -> None:
        """Mark where lanes reach across a stretch that is cut short."""
        for first, last in self._layout.axis.breaks:
            middle = (self._x(first) + self._x(last)) / 2
            for lane in self._layout.lanes:
                begins = 0 if lane.origin is None else lane.stem.start
                if begins <= first and last <= lane.stem.end:
                    self._add_break(middle, self._y(lane.row))

    def _add_break(self, x: float, y: float) -> None:
        slant, apart = 0.02, 0.022
        self._line([x - apart, x + apart], [y, y], "white", 3.4, solid_capstyle="butt", zorder=6)
        for side in (-apart, apart):
            self._line([x + side - slant, x + side + slant], [y + 0.05, y - 0.05], INK, 0.6, zorder=7)

    # --- the axis

    def add_axis(self) -> None:
        """Draw the axis of turns, cut where the lanes are."""
        y = self._height - _FOOT + 0.06
        axis = self._layout.axis
        self._line([self._x(axis.knots[0][0]), self._x(axis.knots[-1][0])], [y, y], INK, 0.6, zorder=1)
        for first, last in axis.breaks:
            self._add_break((self._x(first) + self._x(last)) / 2, y)
        room = int((self._right - 2 * _MARGIN) / _TICK_ROOM)
        for turns in ticks(axis, room):
            x = self._x(turns)
            self._line([x, x], [y, y + 0.035], INK, 0.6)
            self._text(x, y + 0.055, f"{turns:,}", ha="center", va="top")
        self._text((self._x(0) + self._right - _MARGIN) / 2, self._height - 0.04, "turns", ha="center", va="bottom")

    # --- what the colours are

    def entries(self, paint: Paint) -> list[list[_Entry]]:
        """Return the texts of a legend with their colours, in lines that fit the sheet."""
        colours = dict(paint.texts or {})
        if any(lane.stem.id in self._names and lane.stem.id not in paint.colours for lane in self._layout.lanes):
            colours["(missing)"] = _GREY
        lines: list[list[_Entry]] = [[]]
        used = 0.0
        for text, colour in colours.items():
            width = self._entry_width(text)
            if lines[-1] and used + width > _WIDTH - 2 * _MARGIN:
                lines.append([])
                used = 0.0
            lines[-1].append((text, colour))
            used += width
        return lines

    def _entry_width(self, text: str) -> float:
        drawn = self._text(0, 0, shorten_name(text, _LONGEST_NAME))
        width = self._width(drawn)
        drawn.remove()
        return width + 0.32

    def add_head(self, title: str, paint: Paint, lines: Sequence[Sequence[_Entry]]) -> None:
        """Draw what explains the colours: a scale or a legend, under the name of what is coloured by."""
        caption = self._text(_MARGIN, 0.13, title, fontsize=FONT, fontweight="bold")
        x, y = _MARGIN, 0.13 + _LINE
        if paint.scale is not None:
            x += max(self._width(caption), 0.4) + 0.2
            self._add_scale(paint.scale, paint, x)
            x, y = x + _BAR[0] + 0.3, 0.13
        for line in lines:
            place = x
            for text, colour in line:
                self._line([place, place + 0.12], [y, y], colour, 3, solid_capstyle="butt")
                self._text(place + 0.17, y, shorten_name(text, _LONGEST_NAME))
                place += self._entry_width(text)
            y += _LINE

    def _add_scale(self, scale: ScalarMappable, paint: Paint, x: float) -> None:
        width, height = _BAR
        top = self._height - 0.13 - height / 2
        place = self._figure.add_axes((x / _WIDTH, top / self._height, width / _WIDTH, height / self._height))
        bar = self._figure.colorbar(scale, cax=place, orientation="horizontal", extend=paint.extend)
        if paint.is_time:
            locator = _dates.AutoDateLocator(maxticks=4)
            bar.locator, bar.formatter = locator, _dates.ConciseDateFormatter(locator)
        else:
            bar.locator = MaxNLocator(4, steps=[1, 2, 2.5, 5, 10])
        bar.update_ticks()
        bar.outline.set_visible(False)
        place.tick_params(labelsize=SMALL, length=2, width=0.6, pad=1.5, colors=INK)

    @property
    def figure(self) -> Figure:
        """What is drawn."""
        return self._figure


MAX_CATEGORIES: Final = 20
_FEW_COLOURS: Final = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#000000")
"""Okabe and Ito's, which the colour-blind tell apart; beyond eight, matplotlib's twenty."""


class Metric(NamedTuple):
    """What branches are coloured by: the column's name, what it holds, and each branch's value by session id."""

    name: str
    kind: Kind
    values: Mapping[str, Any]


def put_together(
    stems: Sequence[Stem], names: Mapping[str, str], kinds: Mapping[str, str], metric: Metric | None, most: int
) -> tuple[list[Stem], dict[str, str], Metric | None, dict[str, Bundle]]:
    """Return what is drawn where forks are put together: stems, names, what they are coloured by, and the bundles.

    Only forks of one of `kinds` (by id) go together, and of one colour where colours are no scale; on a scale, a bundle has the
    mean of its forks.
    """
    scaled = metric is None or metric.kind in NUMERIC or metric.kind == "time"
    colours = (
        {} if scaled or metric is None else {each: tables.text(v, metric.kind) for each, v in metric.values.items()}
    )
    alike = {stem.id: f"{kinds.get(stem.id)} {colours.get(stem.id)}" for stem in stems}
    drawn, bundles = bundle_lanes(stems, alike, most)
    called = {stem.id: names[stem.id] for stem in drawn if stem.id in names}
    for first, bundle in bundles.items():
        shared = list(dict.fromkeys(filter(None, (kinds.get(first), colours.get(first)))))
        others = f" and {len(bundle.ids) - 1} more"
        called[first] = f"{', '.join(shared)} × {len(bundle.ids)}" if shared else names.get(first, first) + others
    if metric is None or metric.kind not in ("integer", "number"):
        return drawn, called, metric, bundles
    values = {**metric.values, **{first: _mean_of(metric.values, bundle) for first, bundle in bundles.items()}}
    shown = metric._replace(kind="number", values={stem.id: values.get(stem.id) for stem in drawn})
    return drawn, called, shown, bundles


def _mean_of(values: Mapping[str, Any], bundle: Bundle) -> float | None:
    numbers = [values[each] for each in bundle.ids if values.get(each) is not None]
    return mean(numbers) if numbers else None


def draw_plot(
    stems: Sequence[Stem],
    names: Mapping[str, str],
    metric: Metric | None,
    form: str,
    bundles: Mapping[str, Bundle] = MappingProxyType({}),
) -> bytes:
    """Return the drawing of sessions as the bytes of a file, `form` being "svg", "png" or "pdf".

    `names` are what sessions are called, by id; one that has no name is there for its forks only. Numbers and times get a
    sequential scale, whatever else a colour for each value. `bundles` are the stems that stand for several forks.

    Raises `InvalidInput` for more than 20 distinct values of another kind.
    """
    layout = lay_out_forest(stems)
    with drawing_settings(form):
        title = None if metric is None else metric.name
        return draw_forest(layout, names, title, _draw_metric(layout, metric), form, bundles=bundles)


# --- colours


def _draw_metric(layout: Layout, metric: Metric | None) -> Paint:
    if metric is None:
        return Paint({lane.stem.id: PLAIN for lane in layout.lanes})
    if metric.kind in NUMERIC or metric.kind == "time":
        return _scaled(layout, metric)
    return _named(metric)


def _scaled(layout: Layout, metric: Metric) -> Paint:
    """Return colours on a scale from the least to the greatest value of a fork: a root often lies far beyond its forks."""
    numbers = {
        session_id: float(_dates.date2num(value)) if isinstance(value, datetime) else float(value)
        for session_id, value in metric.values.items()
        if value is not None
    }
    if any(abs(number) > FARTHEST for number in numbers.values()):
        raise InvalidInput(f"colours have no scale for numbers beyond {FARTHEST:g}; colour by another column")
    forks = {lane.stem.id for lane in layout.lanes if lane.origin is not None}
    within = [number for session_id, number in numbers.items() if session_id in forks] or list(numbers.values())
    if not within:
        return Paint({})
    low, high = min(within), max(within)
    if low == high:
        margin = abs(low) / 2 or 0.5
        low, high = low - margin, high + margin
    norm = Normalize(low, high, clip=True)
    colours = {session_id: to_hex(_sequential()(norm(number))) for session_id, number in numbers.items()}
    below, above = min(numbers.values()) < low, max(numbers.values()) > high
    return Paint(
        colours,
        scale=ScalarMappable(norm, _sequential()),
        extend="both" if below and above else "min" if below else "max" if above else "neither",
        is_time=metric.kind == "time",
    )


def _sequential() -> Colormap:
    """Return viridis with the dark end up, without its lightest part, which white paper swallows."""
    return ListedColormap(colormaps["viridis_r"](linspace(0.07, 1, 256)))


def _named(metric: Metric) -> Paint:
    texts = {
        session_id: " ".join(tables.text(value, metric.kind).split()) or "(none)"
        for session_id, value in metric.values.items()
        if value is not None
    }
    distinct = sorted(set(texts.values()), key=lambda text: (text.casefold(), text))
    if len(distinct) > MAX_CATEGORIES:
        raise InvalidInput(
            f"{len(distinct)} different values cannot be told apart by colour; colour by a number, or by a column with at "
            f"most {MAX_CATEGORIES} values"
        )
    palette = _FEW_COLOURS if len(distinct) <= len(_FEW_COLOURS) else [to_hex(c) for c in colormaps["tab20"].colors]  # type: ignore[attr-defined] # a listed map
    colour_of = dict(zip(distinct, palette, strict=False))
    return Paint({session_id: colour_of[text] for session_id, text in texts.items()}, texts=colour_of)
