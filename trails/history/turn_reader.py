"""Read runs of a session's own turns from the rows, or from the quads.

The rows are quicker. The quads are read if rows would prove nothing: for checks against the quads, and for a session
that holds what Trails never writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, Protocol

from pyoxigraph import Literal, NamedNode

from trails.errors import IntegrityError
from trails.integrity import digests
from trails.model import iris
from trails.model.lineage import Segment
from trails.model.validation import decodes
from trails.model.values import Facts, Turn
from trails.rdf import query_files, vocab
from trails.rdf.codec import subject_of
from trails.rdf.turn_quads import decode_facts, decode_turn
from trails.rows.store_rows import StoreRows
from trails.rows.transcript_rows import OddTurn, read_run, read_turns_at, recorded_lengths
from trails.store.contract import QuadStore, Solutions
from trails.store.postgres.thin import ThinStore

_OPEN_END: Final = 2**53


class ReadRun:
    """Turns of one session that are read whole."""

    __slots__ = ("_turns", "start")

    def __init__(self, start: int, turns: Sequence[Turn]) -> None:
        self.start = start
        self._turns = turns

    def __len__(self) -> int:
        return len(self._turns)

    @property
    def is_dense(self) -> bool:
        """Whether there is one turn at each index from the first on."""
        return all(turn.index == index for index, turn in enumerate(self._turns, self.start))

    def below(self, count: int) -> ReadRun:
        """Return the first turns."""
        return ReadRun(self.start, self._turns[:count])

    def digest(self, at: int) -> str:
        """Return the digest of the turn at a place in the run."""
        return self._turns[at].digest

    def turns(self, first: int, last: int) -> list[Turn]:
        """Return the turns from one place in the run to another, exclusive."""
        return list(self._turns[first:last])

    def said(self) -> Iterator[tuple[int, str, str, str, bool]]:
        """Yield index, role, branch, text and whether that is JSON, of each turn."""
        for turn in self._turns:
            yield turn.index, turn.role, turn.branch, turn.text, turn.structured


class TurnRun(Protocol):
    """Turns of one session that follow on one another."""

    start: int

    def __len__(self) -> int: ...
    @property
    def is_dense(self) -> bool:
        """Whether there is one turn at each index from the first on."""
        ...

    def below(self, count: int) -> TurnRun:
        """Return the first turns."""
        ...

    def digest(self, at: int) -> str:
        """Return the digest of the turn at a place in the run."""
        ...

    def turns(self, first: int, last: int) -> list[Turn]:
        """Return the turns from one place in the run to another, exclusive."""
        ...

    def said(self) -> Iterator[tuple[int, str, str, str, bool]]:
        """Yield index, role, branch, text and whether that is JSON, of each turn."""
        ...


class RowTurns:
    """Reads the turns that sessions own out of the rows."""

    def __init__(self, rows: StoreRows, quads: QuadTurns) -> None:
        """`quads` reads the turns of sessions that hold what Trails never writes."""
        self._rows = rows
        self._quads = quads

    def run(self, run: Segment) -> TurnRun:
        """Return the turns that a session owns in a run of indices."""
        try:
            with self._rows.reading() as connection:
                return read_run(connection, run.record.id, run.start, run.end)
        except OddTurn:
            return self._quads.run(run)

    def at(self, session_id: str, indices: Sequence[int]) -> list[Turn]:
        """Return the turns that a session owns at some indices, in order of index."""
        try:
            with self._rows.reading() as connection:
                found = read_turns_at(connection, session_id, indices)
        except OddTurn:
            return self._quads.at(session_id, indices)
        return found.turns(0, len(found))

    def end(self, session_id: str, start: int) -> int:
        """Return the index after the last turn that a session owns from `start` on; `start` if there is none."""
        asked = (
            "SELECT max(place) + 1 FROM turns WHERE session = (SELECT number FROM sessions WHERE id = ?) AND place >= ?"
        )
        (end,) = self._ask(asked, session_id, start)[0]
        return start if end is None else int(end)

    @decodes
    def digests(self, session_id: str, start: int, end: int | None) -> list[tuple[int, str]]:
        """Return index and digest of the turns that a session owns in a run of indices."""
        asked = (
            "SELECT place, digest FROM turns WHERE session = (SELECT number FROM sessions WHERE id = ?) AND place >= ?"
            " AND place < ? ORDER BY place, digest"
        )
        rows = self._ask(asked, session_id, start, _OPEN_END if end is None else end)
        return [(place, digest.hex()) for place, digest in rows]

    def recorded(self, session_id: str) -> int:
        """Return how many turns the log says that a session's transcript has."""
        return self._quads.recorded(session_id)

    def _ask(self, text: str, *values: Any) -> list[Any]:
        with self._rows.reading() as connection:
            return connection.execute(text, values).fetchall()


class QuadTurns:
    """Reads the turns that sessions own out of the quads."""

    def __init__(self, store: QuadStore, rows: StoreRows | None = None) -> None:
        """`rows` say how long transcripts are by the log."""
        self._store = store
        self._rows = rows

    def _select(self, name: str, **values: Any) -> Solutions:
        result = self._store.query(query_files.find(name).bind(**values))
        assert isinstance(result, Solutions)  # noqa: S101 - the core queries are all SELECT
        return result

    @decodes
    def run(self, run: Segment) -> ReadRun:
        """Return the turns that a session owns in a run of indices."""
        end = _OPEN_END if run.end is None else run.end
        return ReadRun(run.start, self._between(run.record.id, run.start, end))

    @decodes
    def at(self, session_id: str, indices: Sequence[int]) -> list[Turn]:
        """Return the turns that a session owns at some indices, in order of index."""
        found = self._between(session_id, min(indices), max(indices) + 1) if indices else []
        return [turn for turn in found if turn.index in indices]

    def _between(self, session_id: str, start: int, end: int) -> list[Turn]:
        """Return the turns that a session owns from an index to another, exclusive."""
        rows = self._select("turns", session=session_id, start=start, end=end) if start < end else ()
        facts = self._select("facts", session=session_id) if rows else ()
        try:
            told: dict[str, Facts] = decode_facts((row[0].value, row[1].value, row[2]) for row in facts)
            turns = [decode_turn(session_id, row, told) for row in rows]
        except (ValueError, AttributeError) as error:  # an IRI for a literal, or a literal of another kind
            raise IntegrityError(
                f"session {session_id!r} holds values that Trails never writes ({error}): the store was altered; "
                "`trails verify` names them; restore the session from an export or a backup"
            ) from error
        turns.sort(key=attrgetter("index"))
        if all(turn.digest for turn in turns):
            return turns
        return [turn for turn in self._with_digests(session_id, end, told) if turn.index >= start]

    def _with_digests(self, session_id: str, end: int, told: Mapping[str, Facts]) -> list[Turn]:
        """Return the first turns of a session from before digests existed, with digests that later turns can chain to."""
        graph = NamedNode(iris.session(session_id))
        turns: list[Turn] = []
        for row in sorted(
            self._select("turns", session=session_id, start=0, end=end), key=lambda row: int(row[0].value)
        ):
            turn = decode_turn(session_id, row, told)
            if not turn.digest:
                digest = digests.turn_digest(
                    previous=turns[-1].digest if turns else digests.GENESIS,
                    index=turn.index,
                    branch=turn.branch,
                    role=turn.role,
                    author=iris.author_key(turn.author_iri),
                    time=turn.time,
                    content=digests.content_digest(turn.text, "", structured=turn.structured),
                    facts=digests.facts_digest(turn.facts, ""),
                )
                (quad, *_) = self._store.quads((None, vocab.INDEX, vocab.integer(turn.index), graph))
                turn = turn.model_copy(update={"old_iri": subject_of(quad), "digest": digest})
            turns.append(turn)
        return turns

    @decodes
    def end(self, session_id: str, start: int) -> int:
        """Return the index after the last turn that a session owns from `start` on; `start` if there is none."""
        rows = self._select("last_index", session=session_id, start=start, end=_OPEN_END)
        return int(rows[0][0].value) + 1 if rows else start

    @decodes
    def digests(self, session_id: str, start: int, end: int | None) -> list[tuple[int, str]]:
        """Return index and digest of the turns that a session owns in a run of indices."""
        graph = NamedNode(iris.session(session_id))
        if end is not None and end - start == 1:
            turns = self._store.quads((None, vocab.INDEX, vocab.integer(start), graph))
        else:
            turns = self._store.quads((None, vocab.INDEX, None, graph))
        known = {}
        for turn in turns:
            for quad in self._store.quads((turn.subject, vocab.DIGEST, None, graph)):  # type: ignore[arg-type] # an IRI
                known[quad.subject] = str(quad.object.value)  # type: ignore[union-attr] # a literal
        found = [
            (int(turn.object.value), known.get(turn.subject, "")) for turn in turns if isinstance(turn.object, Literal)
        ]
        return sorted(each for each in found if start <= each[0] and (end is None or each[0] < end))

    def recorded(self, session_id: str) -> int:
        """Return how many turns the log says that a session's transcript has."""
        if isinstance(self._store, ThinStore):
            return self._store.recorded(session_id)
        if self._rows is None:
            return 0
        with self._rows.reading() as connection:
            return recorded_lengths(connection, [session_id]).get(session_id, 0)


class TurnReader(Protocol):
    """Reads the turns that sessions own: `RowTurns` does, and `QuadTurns`."""

    def run(self, run: Segment) -> TurnRun:
        """Return the turns that a session owns in a run of indices."""
        ...

    def at(self, session_id: str, indices: Sequence[int]) -> list[Turn]:
        """Return the turns that a session owns at some indices, in order of index."""
        ...

    def end(self, session_id: str, start: int) -> int:
        """Return the index after the last turn that a session owns from `start` on; `start` if there is none."""
        ...

    def digests(self, session_id: str, start: int, end: int | None) -> list[tuple[int, str]]:
        """Return index and digest of the turns that a session owns in a run of indices."""
        ...

    def recorded(self, session_id: str) -> int:
        """Return how many turns the log says that a session's transcript has."""
        ...
