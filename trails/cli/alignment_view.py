"""Draw three and more transcripts beside each other on a terminal: a column each, or a block a row where it is narrow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from rich.table import Table
from rich.text import Text

from trails.cli import transcript_view
from trails.compare.alignment import AlignedRow, Alignment, turn_text
from trails.display.terminal_text import clean, count, one_line, shorten

if TYPE_CHECKING:
    from rich.console import Console

_NARROWEST: Final = 22
"""Fewer characters than this are no column to read in."""
_WIDEST: Final = 160
_SHORT: Final = 200


def draw(found: Alignment, *, full: bool) -> None:
    """Print what all share once, then a row for each turn; `full` prints whole texts."""
    console = transcript_view.screen()
    width = min(console.width, _WIDEST) if console.width > 1000 else console.width
    _print_shared(console, found, width)
    if (width + 2) // len(found.sides) - 2 >= _NARROWEST:
        _print_columns(console, found, width, full=full)
    else:
        _print_blocks(console, found, full=full)


def _print_shared(console: Console, found: Alignment, width: int) -> None:
    hidden = found.common - len(found.prefix)
    console.print(Text(f"{count(found.common, 'turn')} in common", style="bold"))
    if hidden:
        console.print(Text(f"  … {count(hidden, 'turn')}", style="dim italic"))
    for turn in found.prefix:
        console.print(Text(_line(str(turn.index), turn.role, turn_text(turn), width), style="dim"))
    console.print()


def _print_columns(console: Console, found: Alignment, width: int, *, full: bool) -> None:
    table = Table.grid(padding=(0, 2, 0, 0), expand=True)
    for _ in found.sides:
        table.add_column(ratio=1, overflow="fold")
    table.add_row(*(Text(one_line(side.name), style="bold") for side in found.sides))
    table.add_row(*(Text(count(side.turns, "turn"), style="dim") for side in found.sides))
    for row in found.rows:
        table.add_row()
        table.add_row(*(_cell(found, row, place, full=full) for place in range(len(found.sides))))
    console.print(table, width=width)


def _cell(found: Alignment, row: AlignedRow, place: int, *, full: bool) -> Text:
    """Return a turn as it stands in its column; what a column further left says is not said again."""
    turn = row.turns[place]
    if turn is None:
        return Text("–", style="dim")
    first = row.variants.index(row.variants[place])
    heading = Text(f"{turn.index}  {one_line(turn.role)}\n", style=transcript_view.role_style(turn.role))
    if first < place:
        return heading.append(f"= {one_line(found.names[first])}", style="dim")
    return heading.append(_text(turn_text(turn), full=full), style="dim" if row.kind == "equal" else "")


def _print_blocks(console: Console, found: Alignment, *, full: bool) -> None:
    for row in found.rows:
        indices = _joined([str(turn.index) for turn in row.turns if turn is not None])
        if row.kind == "equal":
            said = next(turn_text(turn) for turn in row.turns if turn is not None)
            limit = len(said) + 80 if full else console.width
            console.print(Text(_line(indices, row.role, f"all: {said}", limit), style="dim"), soft_wrap=True)
            continue
        console.print(Text(f"~ {indices}  {one_line(row.role)}", style="bold " + transcript_view.role_style(row.role)))
        for turn, places in row.firsts():
            names = ", ".join(one_line(found.names[place]) for place in places)
            console.print(Text(f"    {names}:", style="italic"))
            for line in _text(turn_text(turn), full=full).split("\n"):
                transcript_view.print_wrapped(console, Text(line), Text("      "))
        absent = [one_line(found.names[place]) for place, turn in enumerate(row.turns) if turn is None]
        if absent:
            console.print(Text(f"    {', '.join(absent)}: –", style="dim"))


def _line(indices: str, role: str, text: str, width: int) -> str:
    start = f"  {indices}  {one_line(role)}  "
    return start + shorten(text, max(20, width - len(start)))


def _joined(texts: Sequence[str]) -> str:
    return "/".join(dict.fromkeys(texts))


def _text(text: str, *, full: bool) -> str:
    if full or len(text) <= _SHORT:
        return clean(text)
    return f"{clean(text[:_SHORT])} … ({count(len(text) - _SHORT, 'more character')}; --full shows them)"
