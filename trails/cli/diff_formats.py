"""Draw a diff on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, Literal

from rich.table import Table
from rich.text import Text

from trails.cli import transcript_view
from trails.compare.diff_documents import count_rows, diff_summary
from trails.compare.session_diff import Block, block_place, block_title, blocks_of, mark_spans, runs_of
from trails.compare.text_diff import Span
from trails.display.terminal_text import clean, count, one_line, shorten

if TYPE_CHECKING:
    from rich.console import Console

    from trails.compare import Diff, Entry


def draw(diff: Diff, *, side_by_side: bool, full: bool) -> None:
    """Print a diff for people, one turn after the other or in two columns."""
    draw_on(transcript_view.screen(), diff, side_by_side=side_by_side, full=full)


def draw_on(console: Console, diff: Diff, *, side_by_side: bool = False, full: bool = False) -> None:
    """Print a diff on a console."""
    (_draw_columns if side_by_side else _draw_turns)(console, diff, full=full)


_STYLES: Final = {"equal": "dim", "changed": "yellow", "left": "red", "right": "green"}
_SIGNS: Final = {"equal": " ", "changed": "~", "left": "-", "right": "+"}
_INDENT: Final = "    "
_WIDEST: Final = 160
"""How wide two columns are where the output goes into a pipe, which has no width."""
_SHORT: Final = 2000
_QUIET: Final = 240
"""An equal span that is longer than this is shown by its ends."""


def _draw_turns(console: Console, diff: Diff, *, full: bool) -> None:
    """Print a diff, one turn after the other."""
    _head(console, diff)
    for run in runs_of(diff.entries):
        console.print()
        if isinstance(run, int):
            console.print(Text(f"  … {count(run, 'equal turn')}", style="dim italic"))
            continue
        (entry,) = run
        style = _STYLES[entry.kind]
        console.print(
            Text.assemble((f"{_SIGNS[entry.kind]} {_title(entry)}", style if style == "dim" else f"bold {style}"))
        )
        for block in _shown(entry, console, full=full):
            _print_block(console, block, entry)


def _draw_columns(console: Console, diff: Diff, *, full: bool) -> None:
    """Print a diff in two columns."""
    width = min(console.width, _WIDEST) if console.width > 1000 else console.width
    _head(console, diff)
    console.print()
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(ratio=1, overflow="fold")
    table.add_column(width=1)
    table.add_column(ratio=1, overflow="fold")
    for run in runs_of(diff.entries):
        if isinstance(run, int):
            table.add_row(Text(f"… {count(run, 'equal turn')}", style="dim italic"), "", "")
        else:
            table.add_row(*_cells(run[0], console, full=full))
        table.add_row("", "", "")
    console.print(table, width=width)


def _head(console: Console, diff: Diff) -> None:
    console.print(Text(f"--- {block_title(diff.left)}", style="bold red"), soft_wrap=True)
    console.print(Text(f"+++ {block_title(diff.right)}", style="bold green"), soft_wrap=True)
    for line in diff_summary(diff):
        console.print(Text(one_line(line)), soft_wrap=True)
    if diff.entries:
        console.print()
        transcript_view.print_table(("", "left", "right"), count_rows(diff), right=("left", "right"), on=console)


def _title(entry: Entry) -> str:
    words = {"equal": "", "changed": "  changed", "left": "  only left", "right": "  only right"}
    return f"{block_place(entry)}  {one_line(entry.role)}{words[entry.kind]}"


def _shown(entry: Entry, console: Console, *, full: bool) -> Iterable[Block]:
    """Yield an entry's blocks, shortened for reading unless all is asked for."""
    for block in blocks_of(entry):
        if full:
            yield block
        elif entry.kind == "equal":
            text = "".join(span.text for span in block.spans)
            yield Block(block.label, (Span("equal", shorten(text, max(20, min(console.width, 160) - 8))),))
        else:
            yield Block(block.label, tuple(_short(span) for span in block.spans))


def _short(span: Span) -> Span:
    text = span.text
    if span.side == "equal" and len(text) > _QUIET:
        return Span("equal", f"{text[:100]} … {text[-100:]}")
    if len(text) > _SHORT:
        return Span(span.side, f"{text[:_SHORT]} … ({count(len(text) - _SHORT, 'more character')}; --full shows them)")
    return span


def _print_block(console: Console, block: Block, entry: Entry) -> None:
    if block.label:
        console.print(Text(f"{_INDENT}{one_line(block.label)}", style="italic"), soft_wrap=True)
    sign = _SIGNS[entry.kind] if entry.kind in ("left", "right") else " "
    start = Text.assemble((f"{sign}{_INDENT[1:]}{'  ' if block.label else ''}", _STYLES[entry.kind]))
    for line in _coloured(block.spans, console, marks=entry.kind == "changed").split("\n", allow_blank=True):
        transcript_view.print_wrapped(console, line, start)


def _coloured(spans: Sequence[Span], console: Console, *, marks: bool) -> Text:
    """Return spans in colours, or with git's marks if there are no colours."""
    made = Text()
    styles = {"equal": "dim" if len(spans) == 1 else "", "left": "red strike", "right": "green"}
    for span in spans:
        made.append(clean(mark_spans([span]) if marks and _is_bare(console) else span.text), style=styles[span.side])
    return made


def _is_bare(console: Console) -> bool:
    """Tell whether no colour says what differs: in a pipe, under NO_COLOR, and on a terminal that has none."""
    return console.no_color or console.color_system is None


def _cells(entry: Entry, console: Console, *, full: bool) -> tuple[Text, Text, Text]:
    blocks = list(_shown(entry, console, full=full))
    sign = Text(_SIGNS[entry.kind], style=_STYLES[entry.kind])
    bare = entry.kind == "changed" and _is_bare(console)
    return _cell(entry, blocks, "left", bare=bare), sign, _cell(entry, blocks, "right", bare=bare)


def _cell(entry: Entry, blocks: Sequence[Block], side: Literal["left", "right"], *, bare: bool) -> Text:
    turn = entry.left if side == "left" else entry.right
    if turn is None:
        return Text()
    style = _STYLES[entry.kind]
    made = Text.assemble((f"{turn.index}  {one_line(turn.role)}", style if style == "dim" else f"bold {style}"))
    styles = {"equal": "dim" if entry.kind == "equal" else "", "left": "red", "right": "green"}
    for block in blocks:
        spans = [span for span in block.spans if span.side in ("equal", side)]
        if not spans:
            continue
        made.append("\n")
        if block.label:
            made.append(f"{one_line(block.label)}\n", style="italic")
        for span in spans:
            text = clean(mark_spans([span]) if bare else span.text)
            made.append(text, style=styles[span.side])
    return made
