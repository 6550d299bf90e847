"""Values as HTML for notebooks: every text escaped, no script, nothing from elsewhere, in the page's own colours.

What is shown is cut, never read whole: a table has at most 200 rows and 40 columns, a text 2,000 characters, and one answer
200 kB. Colours are those around it, lighter or darker by half-transparent greys, so that light and dark pages both serve.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from html import escape
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeVar

from trails.display.terminal_text import clean, count, one_line, shorten

THEME: Final = Path(__file__).with_name("theme.css")
"""The colours of all pages, light and dark, and how Markdown and code look there."""
MOST_ROWS: Final = 200
MOST_COLUMNS: Final = 40
MOST_BYTES: Final = 200_000
_MOST_TEXT: Final = 2000
_MOST_LINES: Final = 30
_MOST_CELL: Final = 300
_GREY: Final = "rgba(128,128,128,.35)"
_BAND: Final = "rgba(128,128,128,.10)"
_TONES: Final = {"user": "#0b84d8", "human": "#0b84d8", "assistant": "#2a9d4a", "tool": "#c98a00", "summary": "#b34fc9"}
_OTHER: Final = "#808080"
_SHADES: Final = {"left": "rgba(248,81,73,.25)", "right": "rgba(46,160,67,.25)"}
_CELL: Final = f"padding:2px 10px;border-bottom:1px solid {_GREY};vertical-align:top;"
_WIDE: Final = "max-width:40em;"
_SHORT: Final = 30
"""A cell of no more characters is not broken into lines."""
_Method = TypeVar("_Method", bound=Callable[[Any], str])


def safe(method: _Method) -> _Method:
    """Let a `_repr_html_` never fail: where it would (a closed store, say), show the plain representation, and why."""

    @wraps(method)
    def shown(value: Any) -> str:
        try:
            return method(value)
        except Exception as error:  # noqa: BLE001 - a cell that shows a value must not end in a traceback
            return box(inline(repr(value).partition("\n")[0]), [note(f"it cannot be shown: {error}")])

    return shown  # type: ignore[return-value] # the same signature


def template(path: Path, filters: Mapping[str, Callable[..., Any]], *, autoescape: bool = True) -> Any:
    """Return a Jinja2 template, in which blocks leave no lines; what a filter makes HTML it returns as `Markup`."""
    options = {"trim_blocks": True, "lstrip_blocks": True, "keep_trailing_newline": True}
    made = import_module("jinja2").Environment(**options, autoescape=autoescape)
    made.filters |= filters
    return made.from_string(path.read_text("utf-8"))


# --- pieces


def text(value: object) -> str:
    """Return a text as HTML on one line: escaped, and nothing in it turns what stands beside it round.

    >>> text("<b>\\u202e")
    '&lt;b&gt;\\\\u202e'
    """
    return escape(one_line(str(value)))


def inline(value: object, *, limit: int = 120) -> str:
    """Return a text as text in a line, isolated from its neighbours' direction."""
    return f"<bdi>{escape(shorten(str(value), limit))}</bdi>"


def box(title: str, body: Iterable[str]) -> str:
    """Return what stands under a title (HTML) in one block, cut where it grows beyond 200 kB."""
    heading = f'<div style="margin:0 0 4px"><b>{title}</b></div>'
    start = f'<div style="font-size:13px;line-height:1.45;max-width:100%;overflow-x:auto">{heading}'
    return start + "".join(_within(body, MOST_BYTES - len(start) - 1000)) + "</div>"


def _within(pieces: Iterable[str], room: int) -> Iterator[str]:
    for piece in pieces:
        room -= len(piece.encode("utf-8", "replace"))
        if room < 0:
            yield note("more than can be shown here")
            return
        yield piece


def note(said: str) -> str:
    """Return a line that says something about what is shown."""
    return f'<div style="opacity:.65;margin:4px 0">{inline(said, limit=400)}</div>'


def facts(pairs: Mapping[str, object]) -> str:
    """Return names with their values on one line, without those that are None."""
    told = [
        f'<span style="opacity:.65">{text(name)}</span> {inline(value)}'
        for name, value in pairs.items()
        if value is not None
    ]
    return f'<div style="margin:0 0 6px">{" &nbsp; ".join(told)}</div>'


def readable(content: object) -> str:
    """Return what a person reads of content: its text; of parts their texts, else the part as JSON on a line.

    >>> readable([{"type": "text", "text": "Look:"}, {"type": "image", "url": "x"}])
    'Look:\\n{"type": "image", "url": "x"}'
    """
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list | tuple) else [content]
    return "\n".join(map(_part, parts))


def _part(part: object) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, Mapping) and part.get("type") in ("text", "input_text", "output_text"):
        return str(part.get("text", ""))
    return json.dumps(part, ensure_ascii=False, default=str)


def message(role: str, heading: Sequence[object], content: str, *, faint: bool = False) -> str:
    """Return something that was said: the role, facts beside it, and the text below, cut to 2,000 characters and 30 lines."""
    return said(role, heading, block(content), faint=faint)


def said(role: str, heading: Sequence[object], body: str, *, faint: bool = False) -> str:
    """Return a body of HTML under the role of who said it, with facts beside that."""
    beside = " · ".join(inline(fact, limit=60) for fact in heading if fact not in (None, ""))
    tone = _TONES.get(role, _OTHER)
    return (
        f'<div style="border-left:3px solid {tone};padding:2px 0 2px 8px;margin:0 0 6px;{"opacity:.65" if faint else ""}">'
        f'<div><b style="color:{tone}">{inline(role, limit=40)}</b> <span style="opacity:.65">{beside}</span></div>'
        f"{body}</div>"
    )


def block(content: str, *, shade: str = "") -> str:
    """Return a text with its line ends, cut to 2,000 characters and 30 lines, and how much was left out."""
    kept = "\n".join(content[:_MOST_TEXT].split("\n", _MOST_LINES)[:_MOST_LINES])
    left = len(content) - len(kept)
    more = f'<span style="opacity:.65"> … {escape(count(left, "more character"))}</span>' if left else ""
    return (
        f'<div dir="auto" style="white-space:pre-wrap;overflow-wrap:anywhere;text-align:start;{shade}">'
        f"{escape(clean(kept))}{more}</div>"
    )


def spans(pieces: Iterable[tuple[str, str]]) -> str:
    """Return a text in pieces, each with its side ("left", "right" or any other), the sides shaded, each piece cut."""
    marked = "".join(
        f"{_MARKS[side]}{escape(clean(piece))}</{_MARKS[side][1:4]}>" if side in _SHADES else escape(clean(piece))
        for side, piece in ((side, _cut(piece)) for side, piece in islice(pieces, MOST_ROWS))
    )
    return f'<div dir="auto" style="white-space:pre-wrap;overflow-wrap:anywhere;text-align:start">{marked}</div>'


def _cut(piece: str) -> str:
    return piece if len(piece) <= _MOST_TEXT else f"{piece[:_MOST_TEXT]}…"


_MARKS: Final = {
    "left": f'<del style="background:{_SHADES["left"]};text-decoration:line-through">',
    "right": f'<ins style="background:{_SHADES["right"]};text-decoration:none">',
}


def shaded(side: str) -> str:
    """Return the style of a text that stands on one side only."""
    return f"background:{_SHADES[side]};" if side in _SHADES else ""


# --- tables


def table(
    names: Sequence[str], rows: Sequence[Sequence[str]], *, right: Collection[str] = (), total: int | None = None
) -> str:
    """Return rows of texts as a table under names: at most 200 rows and 40 columns, and a line for what is left out.

    The columns in `right` are numbers. `total` is how many rows there are, where `rows` are only the first.
    """
    shown = list(names)[:MOST_COLUMNS]
    sides = ["right" if name in right else "left" for name in shown]
    head = "".join(_cell("th", name, side) for name, side in zip(shown, sides, strict=True))
    room = MOST_BYTES // 2
    lines: list[str] = []
    for row in rows[:MOST_ROWS]:
        cells = "".join(_cell("td", cell, side) for cell, side in zip(row[:MOST_COLUMNS], sides, strict=True))
        room -= len(cells.encode("utf-8", "replace"))
        if room < 0:
            break
        lines.append(f"<tr>{cells}</tr>")
    left_out = []
    if (rest := (len(rows) if total is None else total) - len(lines)) > 0:
        left_out.append(f"{count(rest, 'more row')}")
    if len(names) > MOST_COLUMNS:
        left_out.append(count(len(names) - MOST_COLUMNS, "more column"))
    body = f"<thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody>"
    body = f'<table style="border-collapse:collapse;margin:0">{body}</table>'
    return body + (note(", ".join(left_out)) if left_out else "")


def _cell(kind: str, content: str, side: str) -> str:
    number = "font-variant-numeric:tabular-nums;white-space:nowrap;" if side == "right" else _WIDE
    number = "white-space:nowrap;" if number is _WIDE and len(content) <= _SHORT else number
    band = f"background:{_BAND};" if kind == "th" else ""
    return f'<{kind} dir="auto" style="{_CELL}{number}{band}text-align:{side}">{escape(shorten(content, _MOST_CELL))}</{kind}>'


def tree(lines: Iterable[tuple[int, str]]) -> str:
    """Return lines (HTML), each as deep as its number says, as a tree."""
    drawn = (
        f'<div style="margin-left:{min(depth, 40) * 18}px;border-left:1px solid {_GREY};padding-left:6px">{line}</div>'
        for depth, line in lines
    )
    return "".join(drawn)
