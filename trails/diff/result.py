"""A diff, and its entries: what two transcripts share, and how their tails stand against each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from typing import Any, Final

from trails import html
from trails.diff import details
from trails.diff.blocks import blocks_of, place, readable, runs
from trails.diff.values import Ancestor, Detail, End, Kind
from trails.legible import count
from trails.model import Turn
from trails.reprs import OneLine
from trails.tables import Kind as ColumnKind
from trails.tables import PlainTable, Tabular


@dataclass(frozen=True, repr=False)
class Entry(OneLine):
    """One line of an alignment: a turn of each side, or of one of them.

    `answers` are the tool calls that each turn answers, by tool and position, as far as they can be told.
    """

    kind: Kind
    left: Turn | None
    right: Turn | None
    answers: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())

    @property
    def role(self) -> str:
        """The role of the turn, which both sides share."""
        turn = self.left or self.right
        return turn.role if turn else ""

    @cached_property
    def detail(self) -> Detail:
        """What differs inside a changed entry, worked out when it is first asked for; empty for other kinds."""
        if self.kind != "changed" or self.left is None or self.right is None:
            return Detail()
        return details.between(self.left, self.right, self.answers)

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as plain values, ready for JSON."""
        plain: dict[str, Any] = {"kind": self.kind, "role": self.role}
        if self.left is not None:
            plain["left"] = self.left.to_dict()
        if self.right is not None:
            plain["right"] = self.right.to_dict()
        if self.kind == "changed":
            plain["detail"] = self.detail.to_dict()
        return plain


@dataclass(frozen=True, repr=False)
class Diff(Tabular):
    """What differs between two transcripts: the prefix that they share, and their two tails aligned turn by turn.

    A diff is true in a condition where the two differ: `if store.diff(a, b): ...`.
    """

    left: End
    right: End
    ancestor: Ancestor | None
    entries: tuple[Entry, ...]

    @property
    def common(self) -> int:
        """How many turns the two share at their beginning; none of them is an entry."""
        return self.ancestor.turns if self.ancestor else 0

    @property
    def is_empty(self) -> bool:
        """Tell that nothing differs: both are the same, or two tails say the same."""
        return all(entry.kind == "equal" for entry in self.entries)

    def __repr__(self) -> str:
        left, right = (f"{end.name[:30]!r}" for end in (self.left, self.right))
        return f"<Diff {left} {right}: {self.common} in common, {len(self.entries)} entries>"

    def __bool__(self) -> bool:
        """Tell that something differs."""
        return not self.is_empty

    def of_kind(self, *kinds: Kind) -> Iterator[Entry]:
        """Yield the entries of some kinds, in order.

        >>> from trails.diff import diff
        >>> list(diff([], []).of_kind("changed", "left"))
        []
        """
        return (entry for entry in self.entries if entry.kind in kinds)

    @property
    def kinds(self) -> dict[str, int]:
        """How many entries there are of each kind (a fresh copy each time)."""
        found: dict[str, int] = dict.fromkeys(("equal", "changed", "left", "right"), 0)
        for entry in self.entries:
            found[entry.kind] += 1
        return found

    def table(self) -> PlainTable:
        """Return the entries as a table: their kind, role, and the index and the text of each side."""
        return PlainTable(_COLUMNS, [_row(entry) for entry in self.entries])

    @html.safe
    def _repr_html_(self) -> str:
        told = {"in common": self.common, **{kind: number for kind, number in self.kinds.items() if number}}
        names = f"{html.inline(self.left.name)} and {html.inline(self.right.name)}"
        return html.box(f"diff of {names}", chain([html.facts(told)], map(_shown, islice(runs(self.entries), _MOST))))

    def to_dict(self) -> dict[str, Any]:
        """Return the diff as plain values, ready for JSON."""
        return {
            "differs": not self.is_empty,
            "left": self.left.to_dict(),
            "right": self.right.to_dict(),
            "ancestor": self.ancestor.to_dict() if self.ancestor else None,
            "entries_by_kind": self.kinds,
            "entries": [entry.to_dict() for entry in self.entries],
        }


_MOST: Final = 200
_COLUMNS: Final[dict[str, ColumnKind]] = {
    "kind": "text",
    "role": "text",
    "left_index": "place",
    "right_index": "place",
    "left_text": "text",
    "right_text": "text",
}


def _row(entry: Entry) -> dict[str, Any]:
    row: dict[str, Any] = {"kind": entry.kind, "role": entry.role}
    for side, turn in (("left", entry.left), ("right", entry.right)):
        row[f"{side}_index"] = None if turn is None else turn.index
        row[f"{side}_text"] = None if turn is None or turn.redacted else readable(turn)
    return row


def _shown(run: tuple[Entry, ...] | int) -> str:
    """Return an entry as HTML, or a line for equal turns that are far from any difference."""
    if isinstance(run, int):
        return html.note(count(run, "equal turn"))
    (entry,) = run
    turn = entry.left or entry.right
    if entry.kind == "changed":
        pieces = [(block.label, [(span.side, span.text) for span in block.spans]) for block in blocks_of(entry)]
        body = "".join((html.note(label) if label else "") + html.spans(texts) for label, texts in pieces)
    else:
        body = html.block("" if turn is None else readable(turn), shade=html.shaded(entry.kind))
    words = {"left": "only left", "right": "only right"}
    return html.said(entry.role, (place(entry), words.get(entry.kind, entry.kind)), body, faint=entry.kind == "equal")
