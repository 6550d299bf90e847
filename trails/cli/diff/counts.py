"""What is summed up above a diff: what the sides share, and what each tail amounts to."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from trails.legible import count

if TYPE_CHECKING:
    from trails.diff import Diff


def summary(diff: Diff) -> list[str]:
    """Return what the two sides share and how their tails compare, in one or two sentences."""
    ancestor = diff.ancestor
    shared = "they share no turns"
    if ancestor:
        last = f"the last is turn {ancestor.turns - 1} of {ancestor.session_id}, {ancestor.digest[:8]}"
        shared = f"they share {count(ancestor.turns, 'turn')} by {ancestor.found_by}; {last}"
    kinds = diff.kinds
    if not diff.entries:
        return [shared, "nothing differs"]
    words = {"equal": "equal", "changed": "changed", "left": "only left", "right": "only right"}
    counted = ", ".join(f"{number} {words[kind]}" for kind, number in kinds.items() if number)
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
