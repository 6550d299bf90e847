"""Draw provenance as SVG, Mermaid and PNG.

Shapes and colours are those of the W3C's PROV working group: entities are yellow ellipses, activities blue rectangles,
agents orange pentagons. What came first stands on top, and an arrow leads from an effect to its cause. Equal statements give
equal bytes.
"""

from __future__ import annotations

import io
import math
import re
import warnings
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import unquote
from xml.sax.saxutils import escape

from trails.display import html, tables
from trails.provenance.statements import ELEMENTS, EVIDENCE, KINDS, QUALIFIED_NAME, TYPE, Statement, Value

MAX_NODES: Final = 200
"""More than these cannot be read in one picture: the rest is left out, and a note says so."""
WIDTH: Final = 180.0
HEIGHT: Final = 46.0
_ROW: Final = 6
"""How many nodes stand beside each other at most."""
_GAP_X: Final = 46.0
_GAP_Y: Final = 62.0
_EDGE: Final = 24.0
_SWEEPS: Final = 4
_LABEL: Final = 26
"""How many characters of a name are shown."""
COLOURS: Final = {"entity": "#fffc87", "activity": "#9fb1fc", "agent": "#fed37f"}
STROKES: Final = {"entity": "#808080", "activity": "#0000ff", "agent": "#b97b00"}
DERIVED: Final = "#b04000"
_PLAIN: Final = "#444444"
_NUMBERS: Final = re.compile(r"(\d+)")


class Node(NamedTuple):
    """A thing in the picture: its IRI, the kind of element, and the two lines that it shows."""

    iri: str
    kind: str
    name: str
    type: str


class Edge(NamedTuple):
    """An arrow: from what was influenced to what influenced it, what it says, and whether all of that is only derived."""

    source: int
    target: int
    label: str
    is_derived: bool


@dataclass(frozen=True, slots=True)
class Picture:
    """The nodes and edges of a picture, and how many nodes were left out."""

    nodes: Sequence[Node]
    edges: Sequence[Edge]
    left_out: int

    @property
    def note(self) -> str:
        """What the picture says of what it leaves out; "" if that is nothing."""
        return (
            "" if not self.left_out else f"{self.left_out:,} more nodes are left out; the first {MAX_NODES} are shown"
        )


class Point(NamedTuple):
    """The middle of a node, in units of the drawing, from its upper left corner."""

    x: float
    y: float


# --- what is in it


def picture(statements: Iterable[Statement]) -> Picture:
    """Return what a picture of statements shows: at most 200 nodes, the first by their names.

    >>> shown = picture([Statement("used", None, ("urn:a", "urn:e", None)), Statement("entity", "urn:e")])
    >>> [(node.iri, node.kind) for node in shown.nodes], shown.edges
    ([('urn:a', 'activity'), ('urn:e', 'entity')], [Edge(source=0, target=1, label='used', is_derived=False)])
    """
    kinds: dict[str, str] = {}
    types: dict[str, str] = {}
    by_ends: dict[tuple[str, str], dict[str, bool]] = defaultdict(dict)
    for each in statements:
        if each.kind in ELEMENTS:
            kinds[str(each.id)] = "agent" if kinds.get(str(each.id)) == "agent" else each.kind
            types.setdefault(str(each.id), _type(each))
        elif each.kind in KINDS and each.arguments[0] is not None and each.arguments[1] is not None:
            ends = (each.arguments[0], each.arguments[1])
            is_derived = (EVIDENCE, Value("derived")) in each.attributes
            by_ends[ends][each.kind] = by_ends[ends].get(each.kind, True) and is_derived
            for place, node in enumerate(ends):
                kinds.setdefault(node, KINDS[each.kind].places[place].element or "entity")
    ordered = sorted(kinds, key=natural)
    kept = {iri: number for number, iri in enumerate(ordered[:MAX_NODES])}
    nodes = [Node(iri, kinds[iri], _name(iri), types.get(iri, "")) for iri in kept]
    edges = [
        Edge(kept[one], kept[two], ", ".join(sorted(labels)), all(labels.values()))
        for (one, two), labels in sorted(by_ends.items(), key=lambda each: (natural(each[0][0]), natural(each[0][1])))
        if one in kept and two in kept
    ]
    return Picture(nodes, edges, len(ordered) - len(nodes))


def natural(iri: str) -> list[tuple[int, str]]:
    """Return what sorts names as people do: turn 2 before turn 10."""
    return [(int(part), "") if part.isdecimal() and part.isascii() else (-1, part) for part in _NUMBERS.split(iri)]


def _type(statement: Statement) -> str:
    types = [value.text for name, value in statement.attributes if name == TYPE and value.type == QUALIFIED_NAME]
    return re.split(r"[#/:]", types[0])[-1] if types else ""


def _name(iri: str) -> str:
    """Return what a node is called: short for what is ours, the end of the IRI for all else."""
    if iri.startswith("urn:trails:session:"):
        session, _, rest = iri.removeprefix("urn:trails:session:").partition("/")
        number, _, tail = rest.partition("-")
        if not rest:
            return _cut(unquote(session))
        if number.isdecimal():
            part = tail.partition("/")[2].replace("/", " ")
            return _cut(f"{unquote(session)} #{number} {part}".strip())
        return _cut(f"{unquote(session)} {rest.replace('/', ' ')}")
    if ours := re.fullmatch("urn:trails:[a-z]+:(.+)", iri):
        return _cut(unquote(ours[1]))
    return _cut(unquote(re.split(r"[#/:]", iri.rstrip("#/:"))[-1]) or iri)


def _cut(text: str) -> str:
    return text if len(text) <= _LABEL else f"{text[: _LABEL // 2 - 1]}…{text[-_LABEL // 2 :]}"


# --- where it stands


def lay_out_picture(shown: Picture) -> tuple[list[Point], float, float]:
    """Return the middle of each node, and the width and height of the whole."""
    rows = _rows(shown)
    widest = max((len(row) for row in rows), default=1)
    width = 2 * _EDGE + widest * WIDTH + (widest - 1) * _GAP_X
    points: dict[int, Point] = {}
    for line, row in enumerate(rows):
        left = (width - len(row) * WIDTH - (len(row) - 1) * _GAP_X) / 2
        for place, node in enumerate(row):
            x = left + place * (WIDTH + _GAP_X) + WIDTH / 2
            points[node] = Point(x, _EDGE + line * (HEIGHT + _GAP_Y) + HEIGHT / 2)
    height = 2 * _EDGE + max(len(rows), 1) * HEIGHT + max(len(rows) - 1, 0) * _GAP_Y + (20 if shown.note else 0)
    return [points[number] for number in range(len(shown.nodes))], width, height


def _rows(shown: Picture) -> list[list[int]]:
    """Return the nodes row by row: each below all that influenced it, near what it is joined with."""
    ranks = _ranks(shown)
    layers: dict[int, list[int]] = defaultdict(list)
    for node, rank in enumerate(ranks):
        layers[rank].append(node)
    near: dict[int, list[int]] = defaultdict(list)
    for edge in shown.edges:
        near[edge.source].append(edge.target)
        near[edge.target].append(edge.source)
    order = [layers[rank] for rank in sorted(layers)]
    for _ in range(_SWEEPS):
        place = {node: spot / len(layer) for layer in order for spot, node in enumerate(layer)}
        for layer in order:
            places = {node: [place[each] for each in near[node]] or [place[node]] for node in layer}
            weight = {node: round(sum(neighbours) / len(neighbours), 6) for node, neighbours in places.items()}
            layer.sort(key=lambda node: (weight[node], node))
    return [layer[start : start + _ROW] for layer in order for start in range(0, len(layer), _ROW)]


def _ranks(shown: Picture) -> list[int]:
    """Return, for each node, the length of the longest way to what nothing influenced; circles are cut where they close."""
    causes: dict[int, list[int]] = defaultdict(list)
    for edge in shown.edges:
        causes[edge.source].append(edge.target)
    ranks: dict[int, int] = {}
    path: set[int] = set()

    def rank(node: int) -> int:  # there are at most `MAX_NODES`
        if node not in ranks:
            path.add(node)
            above = -1
            for cause in causes[node]:
                if cause not in path:
                    above = max(above, rank(cause))
            path.remove(node)
            ranks[node] = above + 1
        return ranks[node]

    return [rank(node) for node in range(len(shown.nodes))]


def edge_ends(points: Sequence[Point], shown: Picture, edge: Edge) -> tuple[Point, Point]:
    """Return where an arrow begins and ends: at the rims of its two nodes."""
    one, two = points[edge.source], points[edge.target]
    kinds = shown.nodes[edge.source].kind, shown.nodes[edge.target].kind
    return _rim(one, two, kinds[0]), _rim(two, one, kinds[1])


def _rim(middle: Point, towards: Point, kind: str) -> Point:
    dx, dy = towards.x - middle.x, towards.y - middle.y
    if not dx and not dy:
        return Point(middle.x + WIDTH / 2, middle.y)
    if kind == "entity":
        scale = 1 / math.hypot(dx / (WIDTH / 2), dy / (HEIGHT / 2))
    else:
        scale = min(WIDTH / 2 / abs(dx) if dx else math.inf, HEIGHT / 2 / abs(dy) if dy else math.inf)
    return Point(middle.x + dx * scale, middle.y + dy * scale)


def label_at(one: Point, two: Point) -> Point:
    """Return where the label of an arrow stands: between the row that it leaves and the next, where no node is."""
    rise = abs(two.y - one.y)
    part = 0.5 if not rise else min(0.5, _GAP_Y / 2 / rise)
    return Point(one.x + (two.x - one.x) * part, one.y + (two.y - one.y) * part)


def pentagon(middle: Point) -> list[Point]:
    """Return the corners of an agent: a house, its roof to the top."""
    left, right = middle.x - WIDTH / 2, middle.x + WIDTH / 2
    top, bottom = middle.y - HEIGHT / 2, middle.y + HEIGHT / 2
    eaves = top + HEIGHT / 4
    return [Point(left, eaves), Point(middle.x, top), Point(right, eaves), Point(right, bottom), Point(left, bottom)]


# --- drawings


def draw_svg(shown: Picture) -> bytes:
    """Return the picture as SVG 1.1, its texts as text."""
    points, width, height = lay_out_picture(shown)
    ends = [edge_ends(points, shown, edge) for edge in shown.edges]
    edges = [(edge, one, two, label_at(one, two)) for edge, (one, two) in zip(shown.edges, ends, strict=True)]
    nodes = zip(shown.nodes, points, map(pentagon, points), strict=True)
    filters = {"xml": lambda text: escape(_printable(text)), "fixed": "{:.1f}".format, "plain": "{:g}".format}
    page = html.template(Path(__file__).with_name("picture.svg"), filters, autoescape=False)
    look = {"colours": COLOURS, "strokes": STROKES, "derived": DERIVED, "line": _PLAIN, "w": WIDTH, "h": HEIGHT}
    text = page.render(edges=edges, nodes=nodes, width=width, height=height, note=shown.note, **look)
    return str(text).encode("ascii", "xmlcharrefreplace")


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


_SHAPES: Final[Mapping[str, tuple[str, str]]] = {"entity": ("([", "])"), "activity": ("[", "]"), "agent": ("{{", "}}")}


def draw_mermaid(shown: Picture) -> bytes:
    """Return the picture as a Mermaid flowchart."""
    page = html.template(Path(__file__).with_name("picture.mmd"), {"quoted": _quoted}, autoescape=False)
    return str(page.render(shown=shown, shapes=_SHAPES, colours=COLOURS, strokes=STROKES)).encode()


def _quoted(text: str) -> str:
    """Return a text as Mermaid has it in quotes: its own signs as entities."""
    kept = text.replace("<br/>", "\n")
    safe = "".join(c if c.isalnum() or c in " \n.,_-…" else f"#{ord(c)};" for c in kept)
    return '"' + safe.replace("\n", "<br/>") + '"'


# --- PNG

_UNIT: Final = 100.0
"""How many units of the drawing an inch has."""
_SETTINGS: Final[Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "text.parse_math": False,
    "text.usetex": False,
}


def draw_png(shown: Picture) -> bytes:
    """Return the picture as PNG, by matplotlib with fixed settings; raise `TrailsError` if that is not installed."""
    mpl = tables.optional("matplotlib", "plot", "PNG")
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 - it takes a second
    from matplotlib.figure import Figure  # noqa: PLC0415

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
            _paint_edge(axes, points, shown, edge)
        for point, node in zip(points, shown.nodes, strict=True):
            _paint_node(axes, point, node)
        if shown.note:
            axes.text(width / 2, height - 14, shown.note, fontsize=8, ha="center", va="center")
        out = io.BytesIO()
        figure.savefig(out, format="png", metadata={"Software": None})
    return out.getvalue()


def _paint_edge(axes: Any, points: Sequence[Point], shown: Picture, edge: Edge) -> None:
    one, two = edge_ends(points, shown, edge)
    colour, line = (DERIVED, "--") if edge.is_derived else (_PLAIN, "-")
    look = {"arrowstyle": "-|>", "color": colour, "linestyle": line, "linewidth": 0.8, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", xy=two, xytext=one, arrowprops=look, zorder=1)
    box = {"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.85}
    place = {"ha": "center", "va": "center", "bbox": box, "zorder": 2}
    axes.text(*label_at(one, two), edge.label, fontsize=6, color=colour, **place)


def _paint_node(axes: Any, point: Point, node: Node) -> None:
    from matplotlib.patches import Ellipse, Polygon, Rectangle  # noqa: PLC0415

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
    place = {"ha": "center", "va": "center", "zorder": 4}
    axes.text(point.x, point.y - (6 if node.type else 0), _printable(node.name), fontsize=7.5, **place)
    if node.type:
        axes.text(point.x, point.y + 10, _printable(node.type), fontsize=6, color=_PLAIN, **place)
