"""A diff as a unified patch, as `git diff` writes one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from trails.cli.terminal import clean, one_line
from trails.diff import sequences
from trails.diff.blocks import CONTEXT, readable, title

if TYPE_CHECKING:
    from trails.diff import Diff, Entry
    from trails.model import Turn


def patch(diff: Diff) -> str:
    """Return a diff as a unified patch of the two tails, each written as text; empty where nothing differs."""
    if diff.is_empty:
        return ""
    lines = list(_lines(diff.entries))
    head = [f"diff --trails {one_line(diff.left.name)} {one_line(diff.right.name)}"]
    if diff.ancestor:
        head.append(f"common {diff.ancestor.turns} {diff.ancestor.digest}")
    head += [f"--- {title(diff.left)}", f"+++ {title(diff.right)}"]
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
        for row, column in (*sequences.matches(left, right), (len(left), len(right))):
            yield from (f"-{line}" for line in left[i:row])
            yield from (f"+{line}" for line in right[j:column])
            if row < len(left):
                yield f" {left[row]}"
            i, j = row + 1, column + 1


def _turn_lines(turn: Turn) -> list[str]:
    return [f"[{one_line(turn.role)}]", *(clean(line) for line in readable(turn).split("\n")), ""]


def _hunks(lines: Sequence[str]) -> Iterator[str]:
    """Yield the hunks: what differs with a few lines around it, and where that stands on each side."""
    left = right = 1
    number = 0
    while number < len(lines):
        changed = next((n for n in range(number, len(lines)) if lines[n][0] != " "), None)
        if changed is None:
            return
        start = max(number, changed - CONTEXT)
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
        elif number - last > 2 * CONTEXT:
            break
    return min(len(lines), last + CONTEXT + 1)
