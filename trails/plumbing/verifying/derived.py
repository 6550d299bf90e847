"""What is kept beside a store, index and packs, held against what `verify` reads of its sessions anyway."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from trails.errors import TrailsError
from trails.integrity.digests import StoredTurn
from trails.model.lineage import Segment
from trails.model.values import SessionRecord, Turn
from trails.plumbing.index import checks
from trails.plumbing.index.keeper import PARTS, Index
from trails.plumbing.index.rows import SessionRow, TurnRow, all_turns, session_row, written_turns
from trails.plumbing.packs.block import Block, Damaged
from trails.plumbing.packs.keeper import Packs
from trails.plumbing.verifying.as_written import Seen, answered
from trails.store.contract import QuadStore


class Told(NamedTuple):
    """What was found of one session."""

    numbers: Mapping[str, int]
    """What the files of the index should say of it: see `trails.plumbing.index.checks.numbers`."""
    pack_differs: bool


class Derived:
    """Finds by what a session's graph holds what index and packs should say of it."""

    def __init__(self, store: QuadStore, packs: Packs, parts: Sequence[str]) -> None:
        """`parts` are the names of the index's files that are there."""
        self._store = store
        self._packs = packs
        self.parts = parts
        self._parts = [part for part in PARTS if part.name in parts]

    def of(self, seen: Seen, *, is_written: bool) -> Told:
        """Return what is found of a session; `is_written` tells whether its graph holds what its turns are written as."""

        def turns(row: SessionRow) -> list[TurnRow]:
            return written_turns(row, seen.rows, answered(seen.beyond)) if is_written else all_turns(self._store, row)

        return Told(self._numbers(seen.record, turns), self._differs(seen))

    def _blocks(self, record: SessionRecord) -> Sequence[Block]:
        (blocks,) = self._packs.blocks([Segment(record, record.starts_at, None)])
        return blocks

    def _numbers(self, record: SessionRecord, turns: Callable[[SessionRow], list[TurnRow]]) -> Mapping[str, int]:
        if not self._parts:
            return {}
        with suppress(
            TrailsError, ValueError
        ):  # the store holds what Trails never writes: that is found, and said, elsewhere
            row = session_row(self._store, record.id)
            if row is not None:
                return checks.numbers(self._parts, row, turns(row))
        return {}

    def _differs(self, seen: Seen) -> bool:
        """Tell whether a pack would be believed that says other of a session than the store."""
        record = seen.record
        try:
            said = [turn for block in self._blocks(record) for turn in block.turns(block.start, block.end)]
        except Damaged:
            return True
        own = [row for row in seen.rows if row.index >= record.starts_at]
        return len(said) > len(own) or not all(map(_is_of, said, own))


def _is_of(turn: Turn, row: StoredTurn) -> bool:
    return (
        turn.index, turn.digest, turn.text, turn.role, turn.branch, turn.author_iri, turn.time, turn.structured, turn.redacted,
    ) == (
        row.index, row.digest, row.text, row.role, row.branch, row.author_iri, row.time, row.structured, row.redacted,
    ) and turn.facts == row.facts  # fmt: skip


def parts_of(index: Index) -> list[str]:
    """Return the names of the files of an index that are there."""
    return [part.name for part in index.readable()]
