"""Draw provenance as PNG, by matplotlib, with fixed settings."""

from __future__ import annotations

import io
import warnings
from typing import Any, Final

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse, Polygon, Rectangle

from trails.provenance.drawing import (
    COLOURS,
    DERIVED,
    HEIGHT,
    STROKES,
    WIDTH,
    Node,
    Picture,
    Point,
    edge_ends,
    label_at,
    lay_out_picture,
    pentagon,
)

_UNIT: Final = 100.0
"""How many units of the drawing an inch has."""
_SETTINGS: Final[Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "text.parse_math": False,
    "text.usetex": False,
}


def draw_png(shown: Picture) -> bytes:
    """Return the picture as PNG."""
    points, width, height = lay_out_picture(shown)
    with mpl.rc_context(_SETTINGS), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # shown as a box: no reason to complain
        figure = Figure(figsize=(width / _UNIT, height / _UNIT), dpi=_UNIT)
        FigureCanvasAgg(figure)
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_xlim(0, width)
        axes.set_ylim(height, 0)
        axes.axis("off")
        for edge in shown.edges:
            one, two = edge_ends(points, shown, edge)
            colour, line = (DERIVED, "--") if edge.is_derived else ("#444444", "-")
            look = {
                "arrowstyle": "-|>",
                "color": colour,
                "linestyle": line,
                "linewidth": 0.8,
                "shrinkA": 0,
                "shrinkB": 0,
            }
            axes.annotate("", xy=two, xytext=one, arrowprops=look, zorder=1)
            box = {"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.85}
            axes.text(
                *label_at(one, two), edge.label, fontsize=6, color=colour, ha="center", va="center", bbox=box, zorder=2
            )
        for point, node in zip(points, shown.nodes, strict=True):
            _paint(axes, point, node)
        if shown.note:
            axes.text(width / 2, height - 14, shown.note, fontsize=8, ha="center", va="center")
        out = io.BytesIO()
        figure.savefig(out, format="png", metadata={"Software": None})
    return out.getvalue()


def _paint(axes: Any, point: Point, node: Node) -> None:
    look: dict[str, Any] = {
        "facecolor": COLOURS[node.kind],
        "edgecolor": STROKES[node.kind],
        "linewidth": 0.8,
        "zorder": 3,
    }
    if node.kind == "entity":
        axes.add_patch(Ellipse(point, WIDTH, HEIGHT, **look))
    elif node.kind == "agent":
        axes.add_patch(Polygon([tuple(corner) for corner in pentagon(point)], **look))
    else:
        axes.add_patch(Rectangle((point.x - WIDTH / 2, point.y - HEIGHT / 2), WIDTH, HEIGHT, **look))
    up = 6 if node.type else 0
    axes.text(point.x, point.y - up, _shown(node.name), fontsize=7.5, ha="center", va="center", zorder=4)
    if node.type:
        axes.text(
            point.x, point.y + 10, _shown(node.type), fontsize=6, color="#444444", ha="center", va="center", zorder=4
        )


def _shown(text: str) -> str:
    return "".join(c if c.isprintable() else "\ufffd" for c in text)
