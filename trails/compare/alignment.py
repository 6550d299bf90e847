"""Align three and more transcripts: what all share once, then a column each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from trails.compare.session_diff import Tail, align_turns, readable_blocks, turn_words
from trails.compare.value_diff import End
from trails.display import html, tables, text_table
from trails.display.tables import Kind, PlainTable, Tabular
from trails.display.terminal_text import count
from trails.model.values import Turn

SHOWN_PREFIX: Final = 3
"""How many of the turns that all share an alignment holds: the last ones."""


@dataclass(frozen=True, slots=True)
class AlignedRow:
    """The turns that stand beside each other, one a branch; None where a branch has none there.

    `variants` number the different things that they say, from 0 in the order of the branches.
    """

    turns: tuple[Turn | None, ...]
    variants: tuple[int | None, ...]

    @property
    def kind(self) -> Literal["equal", "differs"]:
        """Whether all branches have this turn and say the same."""
        return "equal" if set(self.variants) == {0} else "differs"

    @property
    def role(self) -> str:
        """The role of the turns, which all of them share."""
        return next(turn.role for turn in self.turns if turn is not None)

    def firsts(self) -> list[tuple[Turn, list[int]]]:
        """Return each different turn once, with the places of the branches that say so; the first of them stands for all."""
        places: dict[int, list[int]] = {}
        for place, variant in enumerate(self.variants):
            if variant is not None:
                places.setdefault(variant, []).append(place)
        return [(turn, of) for of in places.values() if (turn := self.turns[of[0]]) is not None]

    def to_dict(self) -> dict[str, Any]:
        """Return the row as plain values, ready for JSON."""
        turns = [None if turn is None else turn.to_dict() for turn in self.turns]
        return {"kind": self.kind, "role": self.role, "variants": list(self.variants), "turns": turns}


@dataclass(frozen=True, repr=False)
class Alignment(Tabular):
    """Transcripts beside each other: the turns that all share, then rows of those that say the same or are most alike.

    An alignment is true in a condition if anything differs. `prefix` are the last of the `common` turns, at most 3.
    """

    sides: tuple[End, ...]
    common: int
    prefix: tuple[Turn, ...]
    rows: tuple[AlignedRow, ...]

    @property
    def names(self) -> list[str]:
        """What the transcripts are called, in order."""
        return [side.name for side in self.sides]

    def __bool__(self) -> bool:
        """Tell that something differs."""
        return any(row.kind != "equal" for row in self.rows)

    def __repr__(self) -> str:
        what = f"{count(len(self.sides), 'transcript')}: {self.common} in common, {count(len(self.rows), 'row')}"
        return text_table.draw(f"<Alignment of {what}>", self.table())

    def table(self) -> PlainTable:
        """Return the rows as a table: their kind and role, and the text of each transcript under its name."""
        kinds: dict[str, Kind] = {"kind": "text", "role": "text", **dict.fromkeys(self.names, "text")}
        return PlainTable(kinds, [self._cells(row) for row in self.rows])

    def _cells(self, row: AlignedRow) -> dict[str, Any]:
        texts = (None if turn is None else turn_text(turn) for turn in row.turns)
        return {"kind": row.kind, "role": row.role, **dict(zip(self.names, texts, strict=True))}

    @html.safe
    def _repr_html_(self) -> str:
        title = f"{html.inline(count(len(self.sides), 'transcript'))} beside each other"
        shared = [
            html.message(turn.role, (turn.index, "shared by all"), turn_text(turn), faint=True) for turn in self.prefix
        ]
        return html.box(title, [html.facts({"in common": self.common}), *shared, tables.to_html(self.table())])

    def to_dict(self) -> dict[str, Any]:
        """Return the alignment as plain values, ready for JSON."""
        return {
            "differs": bool(self),
            "common": self.common,
            "sides": [side.to_dict() for side in self.sides],
            "prefix": [turn.to_dict() for turn in self.prefix],
            "rows": [row.to_dict() for row in self.rows],
        }


def turn_text(turn: Turn) -> str:
    """Return what a person reads of a turn."""
    return "(redacted)" if turn.redacted else readable_blocks(turn)


def align_tails(tails: Sequence[Tail], prefix: Sequence[Turn]) -> Alignment:
    """Return transcripts beside each other, of which only the tails after what all share are given.

    Each is aligned with the rows of those before it, by the first turn in each row, as a diff aligns two.
    """
    texts = [[each.key for each in turn_words(tail.turns)] for tail in tails]
    rows: list[list[int | None]] = []  # places in the tails
    for number, tail in enumerate(tails):
        leaders = [next(tails[n].turns[place] for n, place in enumerate(row) if place is not None) for row in rows]
        merged: list[list[int | None]] = []
        row = place = 0
        for entry in align_turns(leaders, tail.turns):
            merged.append(rows[row] if entry.left is not None else [None] * number)
            merged[-1].append(place if entry.right is not None else None)
            row, place = row + (entry.left is not None), place + (entry.right is not None)
        rows = merged
    common = tails[0].start
    return Alignment(
        tuple(tail.end() for tail in tails), common, tuple(prefix), tuple(_row(tails, texts, row) for row in rows)
    )


def _row(tails: Sequence[Tail], texts: Sequence[Sequence[str]], places: Sequence[int | None]) -> AlignedRow:
    numbers: dict[str, int] = {}
    variants = [
        None if place is None else numbers.setdefault(texts[n][place], len(numbers)) for n, place in enumerate(places)
    ]
    turns = (None if place is None else tails[n].turns[place] for n, place in enumerate(places))
    return AlignedRow(tuple(turns), tuple(variants))
