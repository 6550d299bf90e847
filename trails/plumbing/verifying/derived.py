"""What is kept beside a store, index and packs, held against what `verify` reads of its sessions anyway."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from trails.errors import TrailsError
from trails.integrity.digests import StoredTurn
from trails.model.lineage import Segment
from trails.model.values import SessionRecord, Turn
from trails.plumbing.index import checks
from trails.plumbing.index.keeper import PARTS, Index
from trails.plumbing.index.rows import (
    SessionRow,
    TurnRow,
    all_turns,
    plain_turn,
    session_row,
    with_facts,
    written_turns,
)
from trails.plumbing.packs.block import Block, Damaged
from trails.plumbing.packs.facts import of_short
from trails.plumbing.packs.keeper import Packs
from trails.plumbing.verifying.as_written import ANSWERED, Seen, answered, of_facts, rows_of, stored_turn
from trails.plumbing.verifying.direct import Direct
from trails.rdf.turn_quads import decode_facts
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

    def of_direct(self, record: SessionRecord, turns: Direct) -> Told:
        """Return what is found of a session whose turns were looked at directly, and whose graph holds nothing else."""
        differs = not turns.is_said_by(self._blocks(record)) and self._differs(_seen(record, turns))
        return Told(self._numbers(record, partial(_turns, record, turns)), differs)

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


def _turns(record: SessionRecord, turns: Direct, row: SessionRow) -> list[TurnRow]:
    """Return all turns that a session owns, as `all_turns` does."""
    facts = iter(of_short([each[-1] for each in turns.said if each[-1]]))
    answers = answered(rows_of(each for each in turns.beyond if each[1] == ANSWERED))
    found = []
    for place, (line, said) in enumerate(zip(turns.rows, turns.said, strict=True), record.starts_at):
        digest, (role, _, author), time, text, structured, redacted, recorded = said
        turn = plain_turn(
            iri=line[0][1:-1],
            place=place,
            role=role,
            author=author,
            time=time,
            digest=digest,
            text=text,
            structured=structured,
            redacted=redacted,
        )
        found.append(with_facts(row, turn, next(facts), answers) if recorded else turn)
    return found


def _seen(record: SessionRecord, turns: Direct) -> Seen:
    beyond = rows_of(turns.beyond)
    facts = decode_facts(of_facts(beyond))
    return Seen(record, [stored_turn(row, facts) for row in turns.rows], beyond, turns.quads)


def _is_of(turn: Turn, row: StoredTurn) -> bool:
    return (
        turn.index, turn.digest, turn.text, turn.role, turn.branch, turn.author_iri, turn.time, turn.structured, turn.redacted,
    ) == (
        row.index, row.digest, row.text, row.role, row.branch, row.author_iri, row.time, row.structured, row.redacted,
    ) and turn.facts == row.facts  # fmt: skip


def parts_of(index: Index) -> list[str]:
    """Return the names of the files of an index that are there."""
    return [part.name for part in index.readable()]
