"""What drawings share: settings, fonts, colours, widths of texts, and the files they become.

No display, no pyplot, and none of the host's settings are used.
"""

from __future__ import annotations

import re
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from io import BytesIO
from typing import Any, Final
from unicodedata import east_asian_width

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager
from matplotlib.lines import Line2D

from trails.display.terminal_text import count

FONT: Final = 7.5  # points
SMALL: Final = 6.5
INK: Final = "#404040"
PLAIN: Final = "#0072b2"
FARTHEST: Final = 1e300
"""How far from 0 a number may be: what a scale reckons with it must be a number still."""
_DPI: Final = 200
_MAX_PIXELS: Final = 60_000  # the renderer takes fewer than 2**16 either way
_SETTINGS: Final[Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 7.5,
    "svg.fonttype": "none",  # text stays text: it can be searched, and edited in a drawing program
    "svg.hashsalt": "trails",
    "pdf.fonttype": 42,  # whole letters, which publishers ask for
    "axes.linewidth": 0.6,
    "text.parse_math": False,
}
_LOCK: Final = threading.Lock()


class Drawing:
    """A plot that was not written to a file: a notebook shows it in place. `svg` is the text of the file that it would be."""

    def __init__(self, svg: str) -> None:
        self.svg = svg

    def __repr__(self) -> str:
        return f"<Drawing: {len(self.svg):,} characters of SVG; plot(path) writes it to a file>"

    def _repr_svg_(self) -> str:
        return self.svg


@contextmanager
def drawing_settings(form: str) -> Iterator[None]:
    """Draw with the same settings everywhere, whatever the host has set, and leave the host's as they were.

    An SVG names the same fonts everywhere. The others take what the machine has for letters that DejaVu lacks, and warn
    where it has nothing.
    """
    others = () if form == "svg" else _other_fonts()
    with _LOCK, mpl.rc_context(), warnings.catch_warnings(record=True) as caught:
        warnings.filterwarnings("always", message="Glyph .* missing from")
        mpl.rcdefaults()
        mpl.rcParams.update(_SETTINGS | {"font.sans-serif": ["DejaVu Sans", *others]})
        yield
    missing = {str(each.message) for each in caught if str(each.message).startswith("Glyph ")}
    for each in caught:
        if str(each.message) not in missing:
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
    if missing and form != "svg":
        warnings.warn(
            f"no font here has {count(len(missing), 'letter')} of this drawing, and a box stands for each; write an SVG, "
            "whose text is text, or install Noto Sans CJK or another font for the script",
            stacklevel=5,
        )


_OTHER_SCRIPTS: Final = re.compile(
    r"(Noto Sans (CJK|Arabic|Hebrew|Devanagari|Thai|Bengali|Tamil|Ethiopic)|Source Han Sans|WenQuanYi|IPAGothic|Hiragino Sans"
    r"|PingFang|Apple SD Gothic|Arial Unicode|Microsoft YaHei|Malgun Gothic|Unifont)"
)


@cache
def _other_fonts() -> tuple[str, ...]:
    """Return the fonts of this machine that have what DejaVu lacks, such as Chinese, Japanese and Korean."""
    return tuple(sorted({each.name for each in fontManager.ttflist if _OTHER_SCRIPTS.match(each.name)}))


FORMATS: Final = ("svg", "png", "pdf")


def figure_bytes(figure: Figure, form: str) -> bytes:
    """Return a figure as the bytes of a file without a date; a PNG has 200 dots an inch, fewer where it would be too high."""
    out = BytesIO()
    canvas: Any
    if form == "svg":
        canvas = FigureCanvasSVG(figure)
        canvas.print_svg(out, metadata={"Date": None})
    elif form == "pdf":
        canvas = FigureCanvasPdf(figure)
        canvas.print_pdf(out, metadata={"CreationDate": None})
    else:
        figure.set_dpi(min(_DPI, _MAX_PIXELS / float(max(figure.get_size_inches()))))
        canvas = FigureCanvasAgg(figure)
        canvas.print_png(out)
    return out.getvalue()


def mark(x: float, y: float, style: Mapping[str, Any]) -> Line2D:
    """Return a mark of a legend at a place of the figure, from 0 to 1."""
    return Line2D([x], [y], **style)


def least_width(text: str) -> float:
    """Return the inches that a text takes at least, wherever it is shown: wide letters are as wide as they are high.

    A font that lacks them draws narrow boxes; a viewer of the SVG has another font.
    """
    return sum(FONT for sign in text if east_asian_width(sign) in "WF") / 72
