"""Rows in columns that fit a width, drawn without any framework: what answers at once does not wait for one.

Narrow columns stay whole and the widest give way, with an ellipsis; in a pipe nothing is cut. As lines of tab-separated
values (`--tsv`) every value is whole, in its machine-readable form.
"""

from __future__ import annotations

import os
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from trails.cli.terminal import one_line

_GAP: Final = 2
ENDLESS: Final = 100_000
"""How wide a pipe is."""
_CODES: Final = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36"}


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its heading, how it is aligned, and how narrow it may become (None: it stays whole)."""

    heading: str
    right: bool = False
    least: int | None = None
    style: str = ""
    most: int | None = None
    """What is wider than so many cells stands whole on a line of its own, above the rest of its row."""


def room() -> int:
    """Return how wide the output may be: the terminal's width, or no end where it goes into a pipe."""
    if not sys.stdout.isatty() and "COLUMNS" not in os.environ:
        return ENDLESS
    return shutil.get_terminal_size().columns


def coloured() -> bool:
    """Tell whether to use colours: on a terminal that has some, unless NO_COLOR is set."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") not in ("dumb", "unknown")


def painted(text: str, style: str, *, colours: bool) -> str:
    """Return a text in a style, which is names of colours and weights with blanks between them.

    >>> painted("a", "bold red", colours=True), painted("a", "bold red", colours=False)
    ('\\x1b[1;31ma\\x1b[0m', 'a')
    """
    if not colours or not style or not text:
        return text
    return f"\x1b[{';'.join(_CODES[name] for name in style.split())}m{text}\x1b[0m"


def width_of(text: str) -> int:
    """Return how many cells of a terminal a text takes.

    >>> width_of("abc"), width_of("日本"), width_of("e\\u0301")
    (3, 4, 1)
    """
    if text.isascii():
        return len(text)
    return sum(_cells(character) for character in text)


def _cells(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def fitted(text: str, width: int) -> str:
    """Return one clean line that takes `width` cells at most, with an ellipsis where it was cut.

    >>> fitted("a long line", 7), fitted("日本語です", 6)
    ('a long…', '日本…')
    """
    line = one_line(text)
    if width_of(line) <= width:
        return line
    taken = 0
    for number, character in enumerate(line):
        taken += _cells(character)
        if taken > width - 1:
            return f"{line[:number].rstrip()}…"
    return line


def put(line: str) -> None:
    """Print a line on stdout; what its encoding does not have is escaped there."""
    sys.stdout.write(f"{line}\n")


def draw(columns: Sequence[Column], rows: Iterable[Sequence[str]], *, heading: bool = True) -> None:
    """Print rows on stdout; the columns that may become narrow share what the others leave, the widest giving way first."""
    cells = [[one_line(cell) for cell in row] for row in rows]
    widths = [
        max([width_of(column.heading) if heading else 0, *_widths(column, [row[place] for row in cells])])
        for place, column in enumerate(columns)
    ]
    fit(columns, widths, room())
    colours = coloured()
    if heading:
        head = _line(columns, widths, [column.heading for column in columns])
        put(painted(head, "bold", colours=colours))
    for row in cells:
        for place, column in enumerate(columns):
            if column.most is not None and width_of(row[place]) > widths[place]:
                put(painted(row[place], column.style, colours=colours))
                row[place] = ""
        put(_line(columns, widths, row, colours=colours))


def _widths(column: Column, cells: Iterable[str]) -> list[int]:
    """Return how wide the cells of a column are that stand in it."""
    return [width for width in map(width_of, cells) if column.most is None or width <= column.most]


def fit(columns: Sequence[Column], widths: list[int], most: int) -> None:
    """Make columns narrower until their line fits, the widest of those that may be first, none below its least."""
    over = sum(widths) + _GAP * (len(widths) - 1) - most
    while over > 0:
        free = [
            place for place, column in enumerate(columns) if column.least is not None and widths[place] > column.least
        ]
        if not free:
            return
        widest = max(free, key=widths.__getitem__)
        widths[widest] -= 1
        over -= 1


def _line(columns: Sequence[Column], widths: Sequence[int], cells: Sequence[str], *, colours: bool = False) -> str:
    made = []
    for column, width, cell in zip(columns, widths, cells, strict=True):
        text = fitted(cell, width)
        pad = " " * (width - width_of(text))
        shown = painted(text, column.style, colours=colours)
        made.append(f"{pad}{shown}" if column.right else f"{shown}{pad}")
    return (" " * _GAP).join(made).rstrip()


def tsv(names: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows as tab-separated values with a line of names; tabs and line ends in values become blanks."""
    put("\t".join(names))
    for row in rows:
        put("\t".join("" if value is None else one_line(str(value)) for value in row))
