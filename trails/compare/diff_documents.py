"""Write a diff as Markdown, as an HTML page or as a patch."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from markupsafe import Markup

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
from trails.display import html
from trails.display.terminal_text import clean, count, one_line

if TYPE_CHECKING:
    from trails.compare import Diff, Entry
    from trails.model.values import Turn


_PAGE: Final = Path(__file__).with_name("diff_page")
"""The templates, and the style of the page, by their endings."""
_WORDS: Final = {"equal": "equal", "changed": "changed", "left": "only left", "right": "only right"}


def document(diff: Diff, form: str) -> str:
    """Return a diff as a document: "markdown", "html" or "patch"."""
    return {"markdown": markdown, "html": page, "patch": patch}[form](diff)


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
        if mine is not None or other is not None:
            rows.append((name, _number(mine), _number(other)))
    if left.calls_without_usage or right.calls_without_usage:
        rows.append(("calls without usage", str(left.calls_without_usage), str(right.calls_without_usage)))
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
