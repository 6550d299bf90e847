"""Compare a session's turns with its digests, log and rows.

A graph that has every quad its turns are written as, and no more quads than that, holds nothing else. That is the common case,
checked in bulk over the engine's own rows. Any other graph is compared quad by quad with what its turns would be written as: this
names what is missing, and what belongs to nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache, partial
from itertools import compress
from typing import Final, NamedTuple

from pyoxigraph import Literal, NamedNode, Quad

from trails.errors import StoreFailed, TrailsError
from trails.history import log_history, log_leaves, transaction
from trails.history.log_leaves import Row, row_of
from trails.history.reader import Reader
from trails.history.verification.findings import Findings, LogState
from trails.integrity import digests
from trails.integrity.digests import StoredTurn
from trails.model import iris
from trails.model.lineage import answered_calls, lineage, prompt_sent, segments, summary_shown
from trails.model.validation import DECODING_ERRORS, decodes
from trails.model.values import NO_FACTS, Facts, Finding, SessionRecord, Turn
from trails.rdf import vocab
from trails.rdf.codec import parse_time, subject_of, term_text
from trails.rdf.session_records import tool_quads, tools_named_in
from trails.rdf.turn_quads import (
    COUNTED_USAGE,
    FACT_PREDICATES,
    NO_LINKS,
    PAYLOAD_PREDICATES,
    Links,
    MadeBy,
    decode_facts,
    fact_triples,
    find_recounts,
    turn_quads,
)
from trails.rows import row_codec, row_faults
from trails.rows.row_codec import Statement, TurnRow
from trails.rows.row_faults import RowFault
from trails.rows.row_writer import rows_of_graph
from trails.rows.store_rows import StoreRows
from trails.store import tsv
from trails.store.contract import QuadStore
from trails.store.embedded import holds

Stated = tuple[str, str, Literal | NamedNode]
"""Subject, predicate and object of a quad of the session's graph."""
FactRow = list[str]
"""Subject, property and value of a quad of the session's graph, as the engine writes them: `trails.store.tsv` reads them."""
FACT_PROPERTIES: Final = (
    *FACT_PREDICATES, vocab.INPUT_TOKENS, vocab.OUTPUT_TOKENS, vocab.CACHE_READ_TOKENS, vocab.CACHE_WRITE_TOKENS,
    vocab.TOTAL_TOKENS, vocab.COST, vocab.GENERATED_BY, vocab.ASSOCIATED_WITH, vocab.STARTED_BY, vocab.HAS_RESULT,
    vocab.TOOL_RESULT_OF, vocab.CACHE_WRITE_HOUR_TOKENS, vocab.REASONING_TOKENS, vocab.HAS_PAYLOAD, *PAYLOAD_PREDICATES,
)  # fmt: skip
"""What `beyond_turns` reads, as it counts from 1: all that turns are written with but what copies have. Where something
else stands in a graph, that is seen by the count."""

_OF_EVERY_TURN: Final = 9
"""How many quads every turn has, beside its time, which may be unknown."""
_LINKS: Final = frozenset(map(tsv.text, (vocab.GENERATED_BY, vocab.TOOL_RESULT_OF, vocab.ANSWERS_COPY)))
_COUNTED: Final = frozenset(map(tsv.text, COUNTED_USAGE))
_SHOWN: Final = frozenset(map(tsv.text, (vocab.SUMMARY_SHOWN, vocab.USED_PROMPT, vocab.KEPT_PROMPT)))
_LEADING: Final = _LINKS | _SHOWN
_FACTS: Final = frozenset(each.value for each in (*FACT_PREDICATES, *PAYLOAD_PREDICATES))
_TYPE: Final = vocab.TYPE.value
_KINDS: Final = frozenset({vocab.SUMMARY_TURN, vocab.MODEL_CALL, vocab.MODEL_CALL_COPY})
_OF_COPIES: Final = frozenset(
    map(tsv.text, (vocab.KEPT_START, vocab.KEPT_END, vocab.KEPT_PROMPT, vocab.PREVIOUS_SUMMARY, vocab.QUOTED_FROM))
)


_NAMES: Final = {str(number): tsv.text(each) for number, each in enumerate(FACT_PROPERTIES, 1)}
FACT_TYPES: Final = (
    vocab.SUMMARY_TURN, vocab.MODEL_CALL, vocab.MODEL_CALL_COPY, vocab.TOOL_CALL, vocab.TOOL_RESULT, vocab.COMPACTION,
    vocab.PAYLOAD_REFERENCE,
)  # fmt: skip
"""What it calls -1 and so on."""
_A: Final = tsv.text(vocab.TYPE)
_TYPES: Final = {str(-number): tsv.text(each) for number, each in enumerate(FACT_TYPES, 1)}


def rows_of(table: Iterable[Sequence[str]]) -> list[FactRow]:
    """Return the rows of `beyond_turns`, with properties for their numbers."""
    return [
        [subject, _NAMES[number], value] if value else [subject, _A, _TYPES[number]] for subject, number, value in table
    ]


def parsed(rows: Iterable[FactRow]) -> list[Stated]:
    """Return rows with their terms; raise `ValueError` where one of them has a term that Trails never writes."""
    return [(tsv.iri(subject), _author(prop), tsv.term(value)) for subject, prop, value in rows]


def stored_turn(row: Sequence[str], facts: Mapping[str, Facts]) -> StoredTurn:
    """Return a row of `sealed_turns` as a turn, with what is recorded with it; raise `ValueError` for what is never written."""
    turn, index, role, value, author, digest, salt, branch, time = row
    iri = tsv.iri(turn)
    return StoredTurn(
        iri,
        tsv.integer(index),
        _name(role),
        *tsv.content(value),
        _author(author),
        tsv.string(digest),
        tsv.string(salt),
        _name(branch),
        _time(time),
        facts.get(iri, NO_FACTS),
    )


_name: Final = lru_cache(maxsize=256)(tsv.string)
_author: Final = lru_cache(maxsize=256)(tsv.iri)


@lru_cache(maxsize=256)
def _time(term: str) -> datetime | None:
    when = tsv.date_time(term)
    return None if when is None else parse_time(when)


def comparable(prop: str, value: str) -> str:
    """Return a value, both as the engine writes them; of a link what it comes to without the session that it leads into.

    After a detach the same call stands in the original and in the copy, and a fork's link may name either. So it is with
    a summary and a version of a system prompt that a model was shown.
    """
    if prop in _SHOWN and value[0] == "<":
        return "urn:shown:" + value[:-1].partition("/")[2]
    if prop in _LINKS and value[0] == "<" and "/call/" in value:
        return "urn:call:" + value[:-1].partition("/")[2]
    return value


def is_as_written(
    record: SessionRecord,
    rows: Sequence[StoredTurn],
    beyond: Sequence[FactRow],
    inherited: Callable[[], Sequence[Turn]],
    is_said: Callable[[str], bool],
) -> bool:
    """Tell whether a graph holds what its turns are written as; False also if that is not clear.

    `rows` is what every turn has, in order of index, `beyond` what stands there beside it.
    `inherited` gives the turns of the sessions that this one was forked from, and is asked only where the turns look back
    at them; `is_said` whether the catalog says what it has to of a tool.
    """
    if len({row.iri for row in rows}) != len(rows):
        return False
    if any(row.redacted and row.text for row in rows) or any(prop in _OF_COPIES for _, prop, _ in beyond):
        return False
    actual = {
        (subject, prop, comparable(prop, value) if prop in _LEADING else value) for subject, prop, value in beyond
    }
    try:
        written = set(_facts_as_written(record, rows, inherited))
    except (TrailsError, ValueError):  # as it stands it cannot have been written
        return False
    if len(actual) != len(beyond) or (written != actual and written != _counted_anew(actual)):
        return False
    return all(map(is_said, _tools(rows)))


def _counted_anew(stored: Iterable[tuple[str, str, str]]) -> set[tuple[str, str, str]]:
    """Return what stands in a graph, with the figures of model calls that an earlier version counted as they are counted now."""
    rows = set(stored)
    facts = [(subject, NamedNode(tsv.iri(prop)), tsv.term(value)) for subject, prop, value in rows if prop in _COUNTED]
    for each in find_recounts(facts):
        rows -= {(each.call, _property(prop), tsv.text(value)) for prop, value in each.stored}
        rows |= {(each.call, _property(prop), tsv.text(value)) for prop, value in each.right}
    return rows


def _facts_as_written(
    record: SessionRecord, rows: Sequence[StoredTurn], inherited: Callable[[], Sequence[Turn]]
) -> Iterator[tuple[str, str, str]]:
    before = _Before(inherited)
    for row in rows:
        facts = row.facts
        if not facts.is_empty():
            answers = {each.call_id: before.call(each.call_id) for each in facts.tool_results}
            known = {call_id: call for call_id, call in answers.items() if call is not None}
            turn = MadeBy(row.iri, row.author_iri, row.time)
            for node, predicate, value in fact_triples(turn, facts, known, links=_links(record, row, before)):
                prop, text = _property(predicate), tsv.text(value)
                yield f"<{node.value}>", prop, comparable(prop, text) if prop in _LEADING else text
        before.add(row.iri, row.index, facts)


_property: Final = lru_cache(maxsize=256)(tsv.text)
"""A property as the engine writes it."""


class _Before:
    """What stands before a turn: the calls that it may answer, and the summaries that its model may have been shown.

    The turns that a session inherits are read when one of its own looks for what is not among its own.
    """

    def __init__(self, inherited: Callable[[], Sequence[Turn]]) -> None:
        self._read: Callable[[], Sequence[Turn]] | None = inherited
        self._calls: dict[str, str] = {}
        self._turns: dict[int, str] = {}

    def add(self, iri: str, index: int, facts: Facts) -> None:
        self._turns[index] = iri
        for position, call in enumerate(facts.tool_calls):
            self._calls[call.id] = iris.tool_call(iri, position)

    def call(self, call_id: str) -> str | None:
        if call_id not in self._calls:
            self._look_back()
        return self._calls.get(call_id)

    def turn(self, index: int) -> str | None:
        if index not in self._turns:
            self._look_back()
        return self._turns.get(index)

    def _look_back(self) -> None:
        if self._read is None:
            return
        turns, own_calls, own_turns = self._read(), self._calls.copy(), self._turns.copy()
        self._read = None
        for turn in turns:
            self.add(turn.iri, turn.index, turn.facts)
        self._calls.update(own_calls)
        self._turns.update(own_turns)


def _links(record: SessionRecord, row: StoredTurn, before: _Before) -> Links:
    call = None if row.facts.model_call is None else row.facts.model_call.call
    if call is None:
        return NO_LINKS
    at = None if call.context is None else call.context.summary
    return Links(
        summary=before.turn(at) if at is not None and 0 <= at < row.index else None,
        prompt=None if call.prompt is None else iris.system_prompt(record.iri, call.prompt),
    )


def _tools(rows: Sequence[StoredTurn]) -> set[str]:
    """Return the tools that turns name: their authors, and what answered calls."""
    named = {row.author_iri for row in rows if iris.is_tool(row.author_iri)}
    results = (result.tool_iri for row in rows for result in row.facts.tool_results if result.told)
    return named | {iri for iri in results if iri is not None}


@dataclass(frozen=True, slots=True)
class CheckBasis:
    """What sessions are checked by."""

    store: QuadStore
    reader: Reader
    records: Mapping[str, SessionRecord]
    """All sessions that may be looked at."""
    known: LogState
    rows: StoreRows | None = None
    """The rows that are held against the quads, too."""
    tools: dict[str, bool] = field(default_factory=dict)
    """Whether the catalog says what it has to of a tool: of those that were asked for."""


Part = str | int
"""A part of a store: a session, by its id, or a shard of the index of texts."""


class CheckResult(NamedTuple):
    """What came of some parts of a store."""

    sessions: int
    turns: int
    quads: int
    """How many quads their graphs have."""
    findings: Sequence[Finding]
    covered: Collection[str]
    """The subjects of the catalog that leaves of the log about them are about."""
    rows: Sequence[RowFault] = ()


@decodes
def check_parts(basis: CheckBasis, parts: Iterable[Part]) -> CheckResult:
    """Return what is found of some sessions and of their own turns, and of parts of the index of their texts."""
    checking = _SessionCheck(basis)
    counts = []
    for part in parts:
        if isinstance(part, int):
            checking.texts(part)
        else:
            counts.append(checking.any_session(basis.records[part]))
    found = checking.found
    turns, quads = (sum(column) for column in zip(*counts, strict=True)) if counts else (0, 0)
    return CheckResult(len(counts), turns, quads, found.all, found.covered, found.rows)


@decodes
def check_session_rows(basis: CheckBasis, session_ids: Iterable[str]) -> CheckResult:
    """Return what is found of the rows of some sessions in the catalog; their turns are not read."""
    checking = _SessionCheck(basis)
    for session_id in session_ids:
        checking.row(basis.records[session_id])
    return CheckResult(0, 0, 0, checking.found.all, checking.found.covered, checking.found.rows)


class _SessionCheck:
    def __init__(self, basis: CheckBasis) -> None:
        self.found = Findings()
        self._basis = basis
        self._store, self._reader, self._records, self._known = basis.store, basis.reader, basis.records, basis.known

    def texts(self, shard: int) -> None:
        """Compare a part of the index of texts with the texts."""
        assert self._basis.rows is not None  # noqa: S101 - shards are theirs
        with self._basis.rows.reading() as connection:
            self.found.rows += row_faults.text_faults(connection, shard)

    def any_session(self, record: SessionRecord) -> tuple[int, int]:
        """Do what `session` does; where something stands in the way that Trails never writes, say so."""
        try:
            return self.session(record)
        except StoreFailed:
            raise
        except (TrailsError, *DECODING_ERRORS) as error:
            self.found.add("unreadable", record.id, f"something stands there that Trails never writes: {error}")
            return 0, self._count(record)

    def session(self, record: SessionRecord) -> tuple[int, int]:
        """Check one session's turns; return how many turns and how many quads its graph has."""
        table, quads = self._reader.table("sealed_turns", session=record.id), self._count(record)
        of_turns = _OF_EVERY_TURN * len(table) + sum(row[-1] != "" for row in table)
        more = self._reader.table("beyond_turns", session=record.id) if quads != of_turns else ()
        rows, beyond, stated = self._rows(record.id, table, more)
        own = [row for row in rows if row.index >= record.starts_at]
        below = [row for row in rows if row.index < record.starts_at]
        is_mixed = any(row.branch != record.branch for row in own)
        copied = self._store.quads((None, vocab.ALTERNATE_OF, None, NamedNode(record.iri))) if is_mixed else ()
        copies = {subject_of(quad) for quad in copied}
        self.found.all += digests.check_run(record, own, self._previous(record), self._known.stands_as, copies)
        self._copies(record, below)
        log = self._against_log(record, {row.index: row.digest for row in rows})
        self._hold_session_row(record)
        if log is not None:
            self._redone(record, rows, log)
        for row in rows:
            if row.redacted and row.digest not in self._known.redacted:
                what = f"turn {row.index} lost its content, and no redaction was logged"
                self.found.add("unlogged", record.id, what, row.index)
        inherited = partial(self._inherited, record)
        is_regular = len(rows) == len(table) and quads == of_turns + len(beyond)
        is_regular = is_regular and is_as_written(record, rows, beyond, inherited, self._is_said)
        if not is_regular:
            self._walk(record, rows)
        self._hold_rows(record, regular_rows(rows, stated) if is_regular else None)
        self._beside(record, {row.iri for row in rows})
        return len(rows), quads

    def _previous(self, record: SessionRecord) -> str:
        """Return the digest before a session's first own turn, and note a fork whose parent has another one there."""
        before = self._digest_before(record)
        if before is not None and record.fork_head is not None and before != record.fork_head:
            at = record.starts_at - 1
            what = f"was forked from a turn {at} with another digest: the parent was altered"
            self.found.add("fork-head", record.id, what, at)
        return before or record.fork_head or digests.GENESIS

    def _hold_rows(self, record: SessionRecord, made: Sequence[TurnRow] | None) -> None:
        """Find out whether the rows of a session's turns are those that its quads make: `made`, if that is known."""
        if self._basis.rows is None or any(each.session_id == record.id for each in self.found.all):
            return  # what is wrong with the quads is found
        if made is None:
            made = rows_of_graph(record.iri, self._store.quads((None, None, None, NamedNode(record.iri))))
        with self._basis.rows.reading() as connection:
            self.found.rows += row_faults.turn_faults(connection, record.id, made)

    def _hold_session_row(self, record: SessionRecord) -> None:
        """Find out whether the row of a session says what the catalog and the log do."""
        if self._basis.rows is None:
            return
        quads = self._store.quads((NamedNode(record.iri), None, None, vocab.CATALOG))
        with self._basis.rows.reading() as connection:
            length = recorded(self._known.sessions.get(record.id))
            self.found.rows += row_faults.session_faults(connection, record.id, catalog_statements(quads), length)

    def _count(self, record: SessionRecord) -> int:
        """Return how many quads a session's graph has."""
        [(count,)] = self._reader.select("quad_count", session=record.id)
        return int(count.value)

    def _beside(self, record: SessionRecord, turns: Collection[str]) -> None:
        """Check what stands beside a session whose turns, by their IRIs, are given."""
        for checks in self._known.checks:
            for code, what in checks.session(record.id, turns):
                self.found.add(code, record.id, what)

    def row(self, record: SessionRecord) -> log_history.SessionLog | None:
        """Hold a session's row against what the log says of it, and return that."""
        log = self._known.sessions.get(record.id)
        stands = row_of(self._store, record.id)
        self.found.cover(stands.quads)
        if log is None or log.deleted or log.made_with is None:
            self.found.add("unlogged", record.id, "is in the store and not in its log")
            return None
        self._row_against_log(record, log, stands)
        return log

    def _against_log(self, record: SessionRecord, digest_at: Mapping[int, str]) -> log_history.SessionLog | None:
        """Hold a session, given the digests of its turns, against what the log says of it, and return that.

        That is its row, and its head after every batch of turns.
        """
        log = self.row(record)
        if log is None:
            return None
        for count, head, _ in log.heads:
            if digest_at.get(count - 1) != head:
                what = "is gone" if count - 1 not in digest_at else "is another one"
                self.found.add("rolled-back", record.id, f"turn {count - 1}, which was logged, {what}", count - 1)
                return log
        if log.former and log.came_back_with_others(
            {index: digest for index, digest in digest_at.items() if index >= record.starts_at}, record.starts_at
        ):
            self.found.add("logged-twice", record.id, "was deleted and came back with other turns")
        known = log.heads[-1][0] if log.heads else record.starts_at
        if digest_at and max(digest_at) >= known:
            self.found.add("unlogged", record.id, f"turn {known} is in the store and not in its log", known)
        return log

    def _redone(self, record: SessionRecord, rows: Sequence[StoredTurn], log: log_history.SessionLog) -> None:
        """Find turns that a checkpoint covers, and of which more than their texts was taken out after it."""
        covered = max((count for count, _, number in log.heads if number < (self._known.since or 0)), default=0)
        for row in rows:
            if row.digest in self._known.stands_anew and row.index < covered:
                self.found.unproven(record.id, f"a name or a fact was taken out of turn {row.index}", row.index)

    def _row_against_log(self, record: SessionRecord, log: log_history.SessionLog, row: Row) -> None:
        note_log_faults(self.found, self._known, record.id, log)
        if log.is_old:
            if row.whole != log.row:
                self.found.add("row-altered", record.id, "its row in the catalog is not the one that was logged last")
        else:
            if row.made_with != log.made_with:
                what = "what it was made with (its id, principal, agent, kind, time, source, fork point) is not as it was logged"
                self.found.add("row-altered", record.id, what)
            if row.rest != log.row:
                self.found.add("row-altered", record.id, "its row in the catalog is not the one that was logged last")
        if log.redone and record.source_session is None and not self._known.was_renamed(record.id):
            self.found.add("logged-twice", record.id, "what it was made with was logged again, and it was not imported")

    def _rows(
        self, session_id: str, table: Sequence[FactRow], more: Sequence[FactRow]
    ) -> tuple[list[StoredTurn], list[FactRow], list[Stated]]:
        """Return a session's turns in order of index, and what stands in its graph beside what every turn has, in two forms."""
        beyond = rows_of(more)
        try:
            stated = parsed(beyond)
            facts = decode_facts(
                each for each in stated if each[1] in _FACTS or (each[1] == _TYPE and each[2] in _KINDS)
            )
        except (TrailsError, ValueError, AttributeError) as error:
            self.found.add("unreadable", session_id, f"what is recorded with its turns cannot be read: {error}")
            stated, facts = [], {}
        rows = []
        for row in table:
            try:
                rows.append(stored_turn(row, facts))
            except (TrailsError, ValueError, AttributeError) as error:
                self.found.add("unreadable", session_id, f"{row[0]} holds values that Trails never writes: {error}")
        rows.sort(key=lambda row: row.index)
        return rows, beyond, stated

    def _digest_before(self, record: SessionRecord) -> str | None:
        """Return the digest of the turn just before a session's own first one; None where it cannot be found."""
        at = record.forked_at_index
        if record.parent_session_id is None or not at:
            return digests.GENESIS
        try:
            ancestors = lineage(record.parent_session_id, self._records)
        except TrailsError:
            return None  # named by the check of the lineage
        owner = next(run for run in segments(ancestors, at) if run.end == at).record
        found = self._reader.digest_at(owner.id, at - 1)
        if found is None:
            self.found.add("index-gap", owner.id, f"has no turn {at - 1}, after which {record.id!r} was forked", at - 1)
        return found

    def _copies(self, record: SessionRecord, below: Sequence[StoredTurn]) -> None:
        """Find what lies below a fork's own indices: only what a detach is copying there just now may."""
        marks = self._store.quads((NamedNode(record.iri), vocab.TYPE, vocab.UNFINISHED_COPY, vocab.CATALOG))
        if any(transaction.is_known_mark(self._store, mark) for mark in marks):
            return
        for row in below:
            what = f"has a turn {row.index} below its fork index {record.starts_at}, which was not logged"
            self.found.add("unlogged", record.id, what, row.index)

    def _walk(self, record: SessionRecord, rows: Sequence[StoredTurn]) -> None:
        """Hold every quad of a session's graph against what its turns would be written as."""
        sealed = [row.sealed(record.id) for row in rows]
        before = self._inherited(record) if any(_looks_back(row.facts) for row in rows) else []
        turns: list[Turn] = [*before, *(each.turn for each in sealed if each.turn.index >= len(before))]
        expected: set[Quad] = set()
        found = self._store.quads((None, None, None, NamedNode(record.iri)))
        actual = {_comparable_quad(quad) for quad in found}
        for call in find_recounts((quad.subject, quad.predicate, quad.object) for quad in found):
            actual -= {Quad(call.call, prop, value, NamedNode(record.iri)) for prop, value in call.stored}
            actual |= {Quad(call.call, prop, value, NamedNode(record.iri)) for prop, value in call.right}
        copied = _copied(found)
        for each in sealed:
            answers = answered_calls(turns, each.turn) if each.turn.tool_results else {}
            again = self._of_copies(answers.values(), copied, record)
            try:
                links = Links(summary_shown(turns, each.turn), prompt_sent([record], each.turn))
                quads = turn_quads(each, answers, links=links, copied=each.turn.iri in copied, of_copies=again)
                expected |= (written := {_comparable_quad(quad) for quad in quads})
                tools = tools_named_in(quads)
                expected |= set(tools)
                actual |= set(compress(tools, holds(self._store, tools)))
                if again and each.turn.iri not in copied:
                    # What a fork had before it was detached names the calls where they stood first too: wholly, or not.
                    named = {_comparable_quad(quad) for quad in turn_quads(each, answers, links=links)} - written
                    expected |= named if named & actual else set()
            except (TrailsError, ValueError) as error:
                self.found.add(
                    "unreadable", record.id, f"turn {each.turn.index} cannot be read: {error}", each.turn.index
                )
        own = {each.turn.iri for each in sealed}
        for quad in actual - expected:
            if not self._stands_beside(quad, record, own):
                self.found.stray(quad)
        for quad in expected - actual:
            self.found.missing(quad)

    def _stands_beside(self, quad: Quad, record: SessionRecord, turns: Collection[str]) -> bool:
        """Tell whether a quad says that a turn of the session is a copy, so that the log has it with the session's row."""
        turn, act = iris.turn_of(term_text(quad.subject)), term_text(quad.object)
        if not log_leaves.is_beside_copy(quad) or turn not in turns:
            return False
        if quad.predicate != vocab.GENERATED_BY or iris.turn_index(turn) < record.starts_at:  # see `_copies`
            return True
        known = (NamedNode(act), vocab.TYPE, vocab.COPYING, vocab.CATALOG)
        return act.startswith(f"{record.iri}/act/") and bool(self._store.quads(known))

    def _of_copies(self, calls: Iterable[str], copied: Collection[str], record: SessionRecord) -> set[str]:
        """Return those calls that stand with copied turns: of this session, or of one that it inherits from."""
        found: set[str] = set()
        for call in calls:
            graph = NamedNode(iris.session(iris.session_id(call)))
            kept = (NamedNode(call), vocab.TYPE, vocab.TOOL_CALL_COPY, graph)
            if iris.turn_of(call) in copied if graph.value == record.iri else self._store.quads(kept):
                found.add(call)
        return found

    def _is_said(self, tool_iri: str) -> bool:
        """Tell whether the catalog says what it has to of a tool."""
        if tool_iri not in self._basis.tools:
            self._basis.tools[tool_iri] = all(holds(self._store, tool_quads(tool_iri)))
        return self._basis.tools[tool_iri]

    def _inherited(self, record: SessionRecord) -> list[Turn]:
        if record.parent_session_id is None or not record.starts_at:
            return []
        try:
            ancestors = lineage(record.parent_session_id, self._records)
            return self._reader.turns(ancestors, record.starts_at)
        except TrailsError:
            return []  # named by the checks of lineage and indices


def note_log_faults(found: Findings, known: LogState, session_id: str, log: log_history.SessionLog) -> None:
    """Note what the log itself says twice of a session."""
    for fault in log.faults:
        if not (fault.endswith(log_history.REPEATABLE_LEAVES) and known.was_renamed(session_id)):
            found.add("logged-twice", session_id, fault)
        elif known.is_newer(fault, log.began):
            found.unproven(session_id, fault)
    if log.redone_at is not None and known.since is not None and log.began < known.since <= log.redone_at:
        found.unproven(session_id, f"leaf {log.redone_at}: what it was made with was logged anew")


def _copied(quads: Iterable[Quad]) -> set[str]:
    """Return the turns that keep what belongs to the activities of others, and say that they are copies of those.

    Up to format 2 a copy had activities of its own: such a one is none of these.
    """
    kept: set[str] = set()
    copies_of: set[str] = set()
    for quad in quads:
        if quad.predicate in (vocab.KEPT_WITH, vocab.ANSWERS_COPY):
            kept.add(iris.turn_of(term_text(quad.subject)))
        elif quad.predicate in (vocab.ALTERNATE_OF, vocab.QUOTED_FROM):
            copies_of.add(term_text(quad.subject))
    return kept & copies_of


def _looks_back(facts: Facts) -> bool:
    """Tell whether what a turn is written as depends on the turns before it."""
    return bool(facts.tool_results) or (facts.model_call is not None and facts.model_call.call is not None)


def _comparable_quad(quad: Quad) -> Quad:
    """Return a quad in which a link names what it leads to without its session: see `comparable`."""
    if not isinstance(quad.object, NamedNode):
        return quad
    text = tsv.text(quad.object)
    named = comparable(tsv.text(quad.predicate), text)
    return quad if named == text else Quad(quad.subject, quad.predicate, NamedNode(named), quad.graph_name)


def regular_rows(rows: Sequence[StoredTurn], stated: Iterable[Stated]) -> list[TurnRow]:
    """Return the rows of a session's turns, given their columns and what stands in the graph beside these."""
    more: dict[str, list[Statement]] = defaultdict(list)
    for subject, predicate, term in stated:
        if predicate not in row_codec.DERIVED:
            turn = iris.turn_of(subject)
            more[turn].append((subject[len(turn) + 1 :], predicate, term))
    kind = lru_cache(maxsize=256)(row_codec.Kind)
    made = []
    for row in rows:
        form = row_codec.REDACTED if row.redacted else row_codec.JSON if row.structured else row_codec.PLAIN
        which = kind(row.role, row.branch, row.author_iri, form)
        time, digest = row_codec.micros(row.time), bytes.fromhex(row.digest)
        made.append(row_codec.regular_row(row.iri, row.index, which, time, row.text, digest, more.get(row.iri, ())))
    return made


def catalog_statements(quads: Iterable[Quad]) -> list[Statement]:
    """Return what the catalog says of a session, as its row holds it."""
    return [("", quad.predicate.value, quad.object) for quad in quads]  # type: ignore[misc] # no triples


def recorded(log: log_history.SessionLog | None) -> int:
    """Return how long the log says that a session's transcript is."""
    return log.heads[-1][0] if log is not None and log.heads and not log.deleted else 0
