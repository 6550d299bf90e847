"""Where a session's head stands, and how it got there."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from pyoxigraph import Literal

from trails import iris, lineage, vocab
from trails.integrity import digests
from trails.ledger.writer import Book
from trails.model import Turn, Value
from trails.records.entries import Exchange
from trails.session import Repository


class HeadMove(Value):
    """One step of a session's head: from one digest to another, over the turns of one commit."""

    before: str
    """The head digest before; for a session's first move, that of no turns, or of its fork point."""
    after: str
    length: int
    """How many turns the transcript had after it."""
    time: datetime | None
    """When the exchange completed; for a move by no exchange, the time of its last turn."""
    exchange: int | None
    """The number of the exchange that moved the head; None where turns were simply persisted."""

    def to_dict(self) -> dict[str, Any]:
        """Return the move as plain values, ready for JSON."""
        return self.model_dump() | {"time": self.time and self.time.isoformat()}


def head(repository: Repository, session_id: str) -> Turn | None:
    """Return the last turn that is stored of a session's transcript, inherited ones included; None where there is none."""
    reader = repository.reader
    for run in reversed(lineage.segments(reader.lineage(session_id))):
        rows = reader.select("last_index", session=run.record.id, start=run.start, end=run.end or 2**53)
        if rows:
            index = int(rows[0]["last"].value)
            return reader.own_turns(lineage.Segment(run.record, index, index + 1))[0]
    return None


def moves(repository: Repository, book: Book, session_id: str) -> list[HeadMove]:
    """Return how a session's head moved since it was made, in order.

    The borders come from the exchanges and from the store's log, which has a line for every batch of turns; what a dump
    did not keep of the log stands in as one move.
    """
    reader = repository.reader
    chain = reader.lineage(session_id)
    turns = reader.turns(chain)
    start = chain[0].starts_at
    exchanges = _by_length(book, session_id, turns)
    batches = _batches(repository, session_id)
    borders = sorted({length for length in {*exchanges, *batches, len(turns)} if start < length <= len(turns)})
    found: list[HeadMove] = []
    at = start
    for length in borders:
        exchange = exchanges.get(length)
        found.append(
            HeadMove(
                before=turns[at - 1].digest if at else digests.GENESIS,
                after=turns[length - 1].digest,
                length=length,
                time=turns[length - 1].time if exchange is None else exchange.ended,
                exchange=None if exchange is None else exchange.number,
            )
        )
        at = length
    return found


def _by_length(book: Book, session_id: str, turns: Sequence[Turn]) -> Mapping[int, Exchange]:
    length_after = {turn.digest: turn.index + 1 for turn in turns}
    found = {}
    for entry in book.where(session_id, vocab.STATE, Literal("completed")):
        if isinstance(entry, Exchange) and entry.head_after in length_after:
            found[length_after[entry.head_after]] = entry
    return found


def _batches(repository: Repository, session_id: str) -> set[int]:
    """Return the lengths of the transcript that the log has lines for."""
    line = re.compile(rf"^turns {re.escape(iris.session(session_id))} ([0-9]+) ", re.MULTILINE)
    return {int(length) for length in line.findall(repository.store.log.text())}
