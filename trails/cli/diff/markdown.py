"""A diff as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from trails.cli.diff.counts import count_rows, summary
from trails.cli.terminal import clean, count, one_line
from trails.diff.blocks import blocks_of, marked, place, runs, title

if TYPE_CHECKING:
    from trails.diff import Diff, Entry


def markdown(diff: Diff) -> str:
    """Return a diff as Markdown: tables of counts, and each turn that differs in a fence of its own."""
    left, right = _escaped(diff.left.name), _escaped(diff.right.name)
    lines = [f"# {left} and {right}", ""]
    lines += [f"- left: {_escaped(title(diff.left))}", f"- right: {_escaped(title(diff.right))}"]
    lines += [f"- {_escaped(line)}" for line in summary(diff)]
    lines += ["", f"| after that | {left} | {right} |", "|---|---:|---:|"]
    lines += [f"| {_escaped(name)} | {mine} | {other} |" for name, mine, other in count_rows(diff)]
    for run in runs(diff.entries):
        if isinstance(run, int):
            lines += ["", f"*{count(run, 'equal turn')}*"]
        else:
            lines += ["", *_markdown_entry(run[0])]
    return "\n".join(lines) + "\n"


_WORDS: Final = {"equal": "equal", "changed": "changed", "left": "only left", "right": "only right"}


def _markdown_entry(entry: Entry) -> Iterator[str]:
    yield f"### {place(entry)} {_escaped(entry.role)}: {_WORDS[entry.kind]}"
    for block in blocks_of(entry):
        text = clean(marked(block.spans) if entry.kind == "changed" else "".join(span.text for span in block.spans))
        sign = {"left": "-", "right": "+"}.get(entry.kind, "")
        fence = "`" * max(3, *(len(run) + 1 for run in re.findall(r"`+", text) or [""]))
        yield ""
        if block.label:
            yield f"{_escaped(one_line(block.label))}:"
            yield ""
        yield f"{fence}{'diff' if sign else 'text'}"
        yield from (f"{sign}{line}" for line in text.split("\n"))
        yield fence


def _escaped(text: str) -> str:
    """Return text on one line that Markdown takes for nothing but text."""
    return re.sub(r"([\\`*_{}\[\]<>#|~!&])", r"\\\1", one_line(text))
