"""A diff, and its entries: what two transcripts share, and how their tails stand against each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from trails.diff import details
from trails.diff.values import Ancestor, Detail, End, Kind
from trails.model import Turn
from trails.reprs import OneLine


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
class Diff:
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
