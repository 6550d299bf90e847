"""Reading turns out of the rows: the tuples of a run at once, each made a `Turn` when it is touched."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any, Final

from trails.model import iris
from trails.model.validation import decodes
from trails.model.values import NO_FACTS, Facts, Turn
from trails.rows import row_codec
from trails.rows.row_codec import EPOCH, JSON, MICROSECOND, REDACTED, Kind

_OPEN_END: Final = 1 << 62
_SESSION: Final = "SELECT number, odd FROM sessions WHERE id = ?"
_KIND: Final = "SELECT role, branch, author, form FROM kinds WHERE number = ?"
_RUN: Final = """
SELECT place, kind, time, text, digest, more FROM turns WHERE session = ? AND place >= ? AND place < ? ORDER BY place, number"""


class OddTurn(Exception):
    """A session holds a turn that Trails never writes: who reads its quads says what is wrong."""


class RowRun:
    """Turns of one session that follow on one another, as their rows say."""

    __slots__ = ("_kinds", "_rows", "session_id", "start")

    def __init__(self, session_id: str, start: int, rows: Sequence[tuple[Any, ...]], kinds: dict[int, Kind]) -> None:
        self.session_id = session_id
        self.start = start
        self._rows = rows
        self._kinds = kinds

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def is_dense(self) -> bool:
        """Whether there is one turn at each index from the first on."""
        return [row[0] for row in self._rows] == list(range(self.start, self.start + len(self._rows)))

    def below(self, count: int) -> RowRun:
        """Return the first turns."""
        return RowRun(self.session_id, self.start, self._rows[:count], self._kinds)

    @decodes
    def digest(self, at: int) -> str:
        """Return the digest of the turn at a place in the run."""
        digest: str = self._rows[at][4].hex()
        return digest

    @decodes
    def turns(self, first: int, last: int) -> list[Turn]:
        """Make the turns from one place in the run to another, exclusive."""
        begun: dict[int, dict[str, Any]] = {}
        found = []
        for place, kind, time, text, digest, more in self._rows[first:last]:
            if kind not in begun:
                begun[kind] = self._begin(kind)
            values = begun[kind].copy()
            values["index"] = place
            values["time"] = (
                None if time is None else EPOCH + MICROSECOND * time
            )  # a call of `moment` takes a tenth longer
            values["text"] = text
            values["digest"] = digest.hex()
            if more is not None:
                values["facts"] = self._facts(place, digest, more)
            found.append(values)
        return Turn.trusted_all(found)

    def _begin(self, number: int) -> dict[str, Any]:
        role, branch, author, form = self._kinds[number]
        return {
            "session_id": self.session_id,
            "index": 0,
            "role": role,
            "branch": branch,
            "author_iri": author,
            "time": None,
            "text": "",
            "structured": form == JSON,
            "redacted": form == REDACTED,
            "digest": "",
            "old_iri": None,
            "facts": NO_FACTS,
        }

    def _facts(self, place: int, digest: bytes, more: str) -> Facts:
        iri = iris.turn(iris.session(self.session_id), place, digest.hex())
        return row_codec.facts_of(row_codec.decode_statements(more, iri))

    @decodes
    def said(self) -> Iterator[tuple[int, str, str, str, bool]]:
        """Yield index, role, branch, text and whether that is JSON, of each turn."""
        for place, number, _, text, *_ in self._rows:
            kind = self._kinds[number]
            yield place, kind.role, kind.branch, text, kind.form == JSON

    @decodes
    def brief(self) -> Iterator[tuple[str, tuple[str, str, str], int | None, str, bool, bool]]:
        """Yield digest, (role, branch, author), time, text, whether that is JSON, and whether it is redacted, of each turn."""
        for _, number, time, text, digest, *_ in self._rows:
            role, branch, author, form = self._kinds[number]
            yield digest.hex(), (role, branch, author), time, text, form == JSON, form == REDACTED


def read_run(connection: sqlite3.Connection, session_id: str, start: int, end: int | None) -> RowRun:
    """Return the turns that a session owns from an index to another, exclusive; raise `OddTurn` if some are odd."""
    number = _number(connection, session_id)
    within = min(start, _OPEN_END), _OPEN_END if end is None else min(end, _OPEN_END)
    return _run(connection, session_id, start, connection.execute(_RUN, (number, *within)).fetchall())


def read_turns_at(connection: sqlite3.Connection, session_id: str, indices: Sequence[int]) -> RowRun:
    """Return the turns that a session owns at some indices; raise `OddTurn` if some are odd."""
    number = _number(connection, session_id)
    within = sorted({index for index in indices if index < _OPEN_END})
    rows = [row for index in within for row in connection.execute(_RUN, (number, index, index + 1))]
    return _run(connection, session_id, min(indices, default=0), rows)


def _number(connection: sqlite3.Connection, session_id: str) -> int:
    number, odd = connection.execute(_SESSION, (session_id,)).fetchone() or (0, 0)
    if odd:
        raise OddTurn
    return int(number)


def _run(connection: sqlite3.Connection, session_id: str, start: int, rows: Sequence[tuple[Any, ...]]) -> RowRun:
    """Return a run with its kinds, read with it: when rows are made anew, kinds get other numbers.

    Raises `OddTurn` for a text that is none: the quads have it still.
    """
    if any(type(row[3]) is not str for row in rows):  # SQLite keeps bytes in a column of texts
        raise OddTurn
    numbers = {row[1] for row in rows}
    kinds = {number: Kind(*connection.execute(_KIND, (number,)).fetchone()) for number in numbers}
    return RowRun(session_id, start, rows, kinds)


def recorded_lengths(connection: sqlite3.Connection, session_ids: Sequence[str]) -> dict[str, int]:
    """Return how many turns the transcripts of sessions have by the log, by id."""
    marks = ", ".join("?" * len(session_ids))
    return dict(
        connection.execute(f"SELECT id, recorded FROM sessions WHERE id IN ({marks})", list(session_ids)).fetchall()
    )
