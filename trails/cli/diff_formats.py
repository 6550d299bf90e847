"""Write a diff on a terminal, as Markdown, as an HTML page or as a patch."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from markupsafe import Markup
from rich.table import Table
from rich.text import Text

from trails.cli import transcript_view
from trails.compare import text_diff
from trails.compare.session_diff import (
    CONTEXT_LINES,
    Block,
    block_place,
    block_title,
    blocks_of,
    mark_spans,
    readable_blocks,
    runs_of,
)
from trails.compare.text_diff import Span
from trails.display import html
from trails.display.terminal_text import clean, count, one_line, shorten

if TYPE_CHECKING:
    from rich.console import Console

    from trails.compare import Diff, Entry
    from trails.model.values import Turn


_PAGE: Final = Path(__file__).with_name("diff_page")
"""The templates, and the style of the page, by their endings."""
_WORDS: Final = {"equal": "equal", "changed": "changed", "left": "only left", "right": "only right"}


def document(diff: Diff, form: str) -> str:
    """Return a diff as a document: "markdown", "html" or "patch"."""
    return {"markdown": markdown, "html": page, "patch": patch}[form](diff)


def draw(diff: Diff, *, side_by_side: bool, full: bool) -> None:
    """Print a diff for people, one turn after the other or in two columns."""
    (_draw_columns if side_by_side else _draw_turns)(transcript_view.screen(), diff, full=full)


def diff_summary(diff: Diff) -> list[str]:
    """Return what the two sides share and how their tails compare, in one or two sentences."""
    ancestor = diff.ancestor
    shared = "they share no turns"
    if ancestor:
        last = f"the last is turn {ancestor.turns - 1} of {ancestor.session_id}, {ancestor.digest[:8]}"
        shared = f"they share {count(ancestor.turns, 'turn')} by {ancestor.found_by}; {last}"
    kinds = diff.kinds
    if not diff.entries:
        return [shared, "nothing differs"]
    counted = ", ".join(f"{number} {_WORDS[kind]}" for kind, number in kinds.items() if number)
    return [shared, f"after that: {counted}" if diff else f"nothing differs: {counted}"]


def count_rows(diff: Diff) -> list[tuple[str, str, str]]:
    """Return what is counted in each tail: a name, the left side's number, the right side's; tools by name."""
    left, right = diff.left.counts, diff.right.counts
    rows = [("turns", f"{left.turns:,}", f"{right.turns:,}")]
    for name, mine, other in (
        ("input tokens", left.input_tokens, right.input_tokens),
        ("output tokens", left.output_tokens, right.output_tokens),
        ("cost", left.cost, right.cost),
    ):
        if mine or other:
            rows.append((name, _number(mine), _number(other)))
    ours, theirs = left.tools, right.tools
    return rows + [
        (f"calls {name}", str(ours.get(name, 0)), str(theirs.get(name, 0))) for name in sorted({*ours, *theirs})
    ]


def _number(amount: int | Decimal | None) -> str:
    return "-" if amount is None else f"{amount:,}" if isinstance(amount, int) else f"{amount:f}"


def _written(diff: Diff, ending: str, *, autoescape: bool, **filters: Callable[..., str]) -> str:
    """Return a diff as its template with an ending writes it."""
    filters |= {"count": count, "place": block_place}
    written = html.template(_PAGE.with_suffix(ending), {**filters, "blocks": blocks_of}, autoescape=autoescape)
    facts: dict[str, Any] = {"summary": diff_summary(diff), "counts": count_rows(diff), "runs": runs_of(diff.entries)}
    facts |= {"titles": [block_title(end) for end in (diff.left, diff.right)], "words": _WORDS}
    return str(written.render(diff=diff, style=_PAGE.with_suffix(".css").read_text("utf-8"), **facts))


def markdown(diff: Diff) -> str:
    """Return a diff as Markdown: tables of counts, and each turn that differs in a fence of its own."""

    def whole(block: Block, entry: Entry) -> str:
        return clean(mark_spans(block.spans) if entry.kind == "changed" else "".join(span.text for span in block.spans))

    def fence(text: str) -> str:
        return "`" * max(3, *(len(run) + 1 for run in re.findall(r"`+", text) or [""]))

    return _written(diff, ".markdown", autoescape=False, line=_escaped, whole=whole, fence=fence)


def _escaped(text: str) -> str:
    """Return text on one line that Markdown takes for nothing but text."""
    return re.sub(r"([\\`*_{}\[\]<>#|~!&])", r"\\\1", one_line(text))


def page(diff: Diff) -> str:
    """Return the page: both sides beside each other, turn by turn."""

    def line(text: str) -> Markup:
        return Markup(escape(one_line(text)))  # noqa: S704 - it is escaped

    def whole(text: str) -> Markup:
        return Markup(escape(clean(text)))  # noqa: S704 - it is escaped

    return _written(diff, ".html", autoescape=True, line=line, whole=whole)


def patch(diff: Diff) -> str:
    """Return a diff as a unified patch of the two tails, each written as text; empty where nothing differs."""
    if diff.is_empty:
        return ""
    lines = list(_lines(diff.entries))
    head = [f"diff --trails {one_line(diff.left.name)} {one_line(diff.right.name)}"]
    if diff.ancestor:
        head.append(f"common {diff.ancestor.turns} {diff.ancestor.digest}")
    head += [f"--- {block_title(diff.left)}", f"+++ {block_title(diff.right)}"]
    return "\n".join([*head, *_hunks(lines)]) + "\n"


def _lines(entries: Sequence[Entry]) -> Iterator[str]:
    """Yield the lines of both tails, each after a space (both), a minus (left) or a plus (right)."""
    for entry in entries:
        left = _turn_lines(entry.left) if entry.left else []
        right = _turn_lines(entry.right) if entry.right else []
        if entry.kind == "equal":
            yield from (f" {line}" for line in left)
            continue
        i = j = 0
        for row, column in (*text_diff.match_sequences(left, right), (len(left), len(right))):
            yield from (f"-{line}" for line in left[i:row])
            yield from (f"+{line}" for line in right[j:column])
            if row < len(left):
                yield f" {left[row]}"
            i, j = row + 1, column + 1


def _turn_lines(turn: Turn) -> list[str]:
    return [f"[{one_line(turn.role)}]", *(clean(line) for line in readable_blocks(turn).split("\n")), ""]


def _hunks(lines: Sequence[str]) -> Iterator[str]:
    """Yield the hunks: what differs with a few lines around it, and where that stands on each side."""
    left = right = 1
    number = 0
    while number < len(lines):
        changed = next((n for n in range(number, len(lines)) if lines[n][0] != " "), None)
        if changed is None:
            return
        start = max(number, changed - CONTEXT_LINES)
        left, right = left + start - number, right + start - number
        end = _hunk_end(lines, changed)
        hunk = lines[start:end]
        mine = sum(line[0] != "+" for line in hunk)
        other = sum(line[0] != "-" for line in hunk)
        yield f"@@ -{left if mine else left - 1},{mine} +{right if other else right - 1},{other} @@"
        yield from hunk
        left, right, number = left + mine, right + other, end


def _hunk_end(lines: Sequence[str], changed: int) -> int:
    """Return where a hunk ends: after its last difference, with what follows close by, and a few lines."""
    last = changed
    for number in range(changed, len(lines)):
        if lines[number][0] != " ":
            last = number
        elif number - last > 2 * CONTEXT_LINES:
            break
    return min(len(lines), last + CONTEXT_LINES + 1)


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
        transcript_view.print_table(("", "left", "right"), count_rows(diff), right=("left", "right"))


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
