"""A plot of the fork forest: which colour each branch gets, and matplotlib's settings, which are never the host's."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import matplotlib as mpl
from matplotlib import colormaps
from matplotlib import dates as mpl_dates
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Colormap, ListedColormap, Normalize, to_hex
from numpy import linspace

from trails import tables
from trails.compare import forest_drawing
from trails.compare.forest_drawing import Paint
from trails.compare.forest_layout import Bundle, Layout, Stem, bundled, lay_out
from trails.compare.statistics import mean
from trails.errors import InvalidInput
from trails.tables import NUMERIC, Kind

_dates: Final[Any] = mpl_dates  # its functions carry no types
MAX_CATEGORIES: Final = 20
_FARTHEST: Final = 1e300
"""How far from 0 a number may be: what a scale reckons with it must be a number still."""
_PLAIN: Final = "#0072b2"
_FEW_COLOURS: Final = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#000000")
"""Okabe and Ito's, which the colour-blind tell apart; beyond eight, matplotlib's twenty."""
_SETTINGS: Final[Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 7.5,
    "svg.fonttype": "none",  # text stays text: it can be searched, and edited in a drawing program
    "svg.hashsalt": "trails",
    "axes.linewidth": 0.6,
    "text.parse_math": False,
}
_LOCK: Final = threading.Lock()


class Metric(NamedTuple):
    """What branches are coloured by: the column's name, what it holds, and each branch's value by session id."""

    name: str
    kind: Kind
    values: Mapping[str, Any]


class Drawing:
    """A plot that was not written to a file: a notebook shows it in place. `svg` is the text of the file that it would be."""

    def __init__(self, svg: str) -> None:
        self.svg = svg

    def __repr__(self) -> str:
        return f"<Drawing: {len(self.svg):,} characters of SVG; plot(path) writes it to a file>"

    def _repr_svg_(self) -> str:
        return self.svg


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
    drawn, bundles = bundled(stems, alike, most)
    called = {stem.id: names[stem.id] for stem in drawn if stem.id in names}
    for first, bundle in bundles.items():
        shared = list(dict.fromkeys(filter(None, (kinds.get(first), colours.get(first)))))
        others = f" and {len(bundle.ids) - 1} more"
        called[first] = f"{', '.join(shared)} × {len(bundle.ids)}" if shared else names.get(first, first) + others
    if metric is None or metric.kind not in ("integer", "number"):
        return drawn, called, metric, bundles
    values = {**metric.values, **{first: _mean_of(metric.values, bundle) for first, bundle in bundles.items()}}
    return (
        drawn,
        called,
        metric._replace(kind="number", values={stem.id: values.get(stem.id) for stem in drawn}),
        bundles,
    )


def _mean_of(values: Mapping[str, Any], bundle: Bundle) -> float | None:
    numbers = [values[each] for each in bundle.ids if values.get(each) is not None]
    return mean(numbers) if numbers else None


def draw(
    stems: Sequence[Stem],
    names: Mapping[str, str],
    metric: Metric | None,
    form: str,
    bundles: Mapping[str, Bundle] = MappingProxyType({}),
) -> bytes:
    """Return the drawing of sessions as the bytes of a file, `form` being "svg" or "png".

    `names` are what sessions are called, by id; one that has no name is there for its forks only. Numbers and times get a
    sequential scale, whatever else a colour for each value. `bundles` are the stems that stand for several forks.

    Raises `InvalidInput` for more than 20 distinct values of another kind.
    """
    layout = lay_out(stems)
    with _LOCK, _settings():
        title = None if metric is None else metric.name
        return forest_drawing.draw(layout, names, title, _paint(layout, metric), form, bundles=bundles)


@contextmanager
def _settings() -> Iterator[None]:
    """Draw with the same settings everywhere, whatever the host has set, and leave the host's as they were."""
    with mpl.rc_context(), warnings.catch_warnings():
        mpl.rcdefaults()
        mpl.rcParams.update(_SETTINGS)
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # shown as a box: no reason to fail
        yield


# --- colours


def _paint(layout: Layout, metric: Metric | None) -> Paint:
    if metric is None:
        return Paint({lane.stem.id: _PLAIN for lane in layout.lanes})
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
    if any(abs(number) > _FARTHEST for number in numbers.values()):
        raise InvalidInput(f"colours have no scale for numbers beyond {_FARTHEST:g}; colour by another column")
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
