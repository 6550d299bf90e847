"""A diff as one HTML page: no script, nothing from elsewhere, every text escaped, light and dark."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING, Final, Literal

from trails.cli.diff.counts import count_rows, summary
from trails.cli.terminal import clean, count, one_line
from trails.diff.blocks import Block, blocks_of, place, runs, title

if TYPE_CHECKING:
    from trails.diff import Diff, Entry, Span

_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #59636e; --paper: #fff; --line: #d1d9e0; --band: #f6f8fa;
  --left: #ffebe9; --right: #dafbe1; --del: #ffc1ba; --ins: #9ee8ac; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ed; --soft: #9aa4af; --paper: #0d1117; --line: #30363d; --band: #151b23;
    --left: #2d1517; --right: #12261a; --del: #7a2b2f; --ins: #1d6a35; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1200px; padding: 24px 16px 48px; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 22px; margin: 0 0 8px; }
p { margin: 4px 0; color: var(--soft); }
table { border-collapse: collapse; margin: 16px 0 24px; }
th, td { padding: 3px 16px 3px 0; border-bottom: 1px solid var(--line); text-align: left; }
td + td, th + th { text-align: right; font-variant-numeric: tabular-nums; }
.entry { border: 1px solid var(--line); border-radius: 6px; margin: 0 0 12px; overflow: hidden; }
.entry h2 { margin: 0; padding: 4px 12px; font-size: 13px; font-weight: 600; color: var(--soft);
  background: var(--band); border-bottom: 1px solid var(--line); }
.entry h2 b { color: var(--ink); }
.sides { display: flex; }
.side { flex: 1 1 0; padding: 8px 12px; min-width: 0; }
.side + .side { border-left: 1px solid var(--line); }
.left.has { background: var(--left); }
.right.has { background: var(--right); }
.equal { color: var(--soft); }
.label { font-size: 12px; color: var(--soft); margin: 8px 0 0; }
.label:first-child { margin-top: 0; }
pre { margin: 0; white-space: pre-wrap; font: 13px/1.5 ui-monospace, monospace; }
del, ins { text-decoration: none; border-radius: 3px; }
del { background: var(--del); }
ins { background: var(--ins); }
.gap { text-align: center; margin: 0 0 12px; }
@media (max-width: 640px) {
  .sides { display: block; }
  .side + .side { border-left: 0; border-top: 1px solid var(--line); }
  .side:empty { display: none; }
}
"""
_WORDS: Final = {"equal": "equal", "changed": "changed", "left": "only left", "right": "only right"}


def page(diff: Diff) -> str:
    """Return the page: both sides beside each other, turn by turn."""
    heading = f"{_text(diff.left.name)} and {_text(diff.right.name)}"
    lines = ["<!doctype html>", '<html lang="en">', "<head>", '<meta charset="utf-8">']
    lines += ['<meta name="viewport" content="width=device-width, initial-scale=1">']
    lines += ["<title>", heading, "</title>", f"<style>{_STYLE}</style>", "</head>", "<body>", f"<h1>{heading}</h1>"]
    lines += [f"<p>{_text(line)}</p>" for line in summary(diff)]
    lines += _table(diff)
    for run in runs(diff.entries):
        lines += [f'<p class="gap">{count(run, "equal turn")}</p>'] if isinstance(run, int) else _entry(run[0])
    return "\n".join([*lines, "</body>", "</html>"]) + "\n"


def _text(text: str) -> str:
    return escape(one_line(text))


def _table(diff: Diff) -> Iterator[str]:
    yield "<table>"
    yield f"<tr><th></th><th>{_text(title(diff.left))}</th><th>{_text(title(diff.right))}</th></tr>"
    for name, mine, other in count_rows(diff):
        yield f"<tr><td>{_text(name)}</td><td>{mine}</td><td>{other}</td></tr>"
    yield "</table>"


def _entry(entry: Entry) -> Iterator[str]:
    yield '<section class="entry">'
    yield f"<h2>{place(entry)} <b>{_text(entry.role)}</b> {_WORDS[entry.kind]}</h2>"
    blocks = blocks_of(entry)
    if entry.kind == "equal":
        yield f'<div class="side equal">{"".join(_block(block, None) for block in blocks)}</div>'
    else:
        yield f'<div class="sides">{_side(blocks, "left")}{_side(blocks, "right")}</div>'
    yield "</section>"


def _side(blocks: tuple[Block, ...], side: Literal["left", "right"]) -> str:
    shown = "".join(
        _block(block, side) for block in blocks if any(span.side in ("equal", side) for span in block.spans)
    )
    return f'<div class="side {side}{" has" if shown else ""}">{shown}</div>'


def _block(block: Block, side: Literal["left", "right"] | None) -> str:
    whole = len(block.spans) == 1  # all of it is on one side: the colour of the side says so
    text = "".join(_span(span, whole=whole) for span in block.spans if side is None or span.side in ("equal", side))
    label = f'<div class="label">{_text(block.label)}</div>' if block.label else ""
    return f"{label}<pre>{text}</pre>"


def _span(span: Span, *, whole: bool) -> str:
    text = escape(clean(span.text))
    if span.side == "equal" or whole:
        return text
    return f"<del>{text}</del>" if span.side == "left" else f"<ins>{text}</ins>"
