"""Whether a session's graph holds what its turns are written as, and nothing else: the quick look, which names nothing.

A graph has as many quads as its turns are written as, each of which is there: so there is no room for another. Whatever
this look does not know (copies of other sessions' turns) or finds wrong gets the long look of `verify`, which says what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from pyoxigraph import Literal, NamedNode

from trails.errors import TrailsError
from trails.integrity.digests import StoredTurn
from trails.model import iris
from trails.model.values import NO_FACTS, Facts, SessionRecord, Turn
from trails.rdf import vocab
from trails.rdf.codec import parse_time
from trails.rdf.turn_quads import COUNTED_USAGE, FACT_PREDICATES, NO_LINKS, Links, MadeBy, fact_triples, find_recounts
from trails.store import tsv

Row = list[str]
"""Subject, property and value of a quad of the session's graph, as the engine writes them: `trails.store.tsv` reads them."""
PROPERTIES: Final = (
    *FACT_PREDICATES, vocab.INPUT_TOKENS, vocab.OUTPUT_TOKENS, vocab.CACHE_READ_TOKENS, vocab.CACHE_WRITE_TOKENS,
    vocab.TOTAL_TOKENS, vocab.COST, vocab.GENERATED_BY, vocab.ASSOCIATED_WITH, vocab.STARTED_BY, vocab.HAS_RESULT,
    vocab.TOOL_RESULT_OF, vocab.CACHE_WRITE_HOUR_TOKENS, vocab.REASONING_TOKENS,
)  # fmt: skip
"""What `beyond_turns` reads, as it counts from 1: all that turns are written with but what copies have. Where something
else stands in a graph, that is seen by the count."""

_OF_EVERY_TURN: Final = 9
"""How many quads every turn has, beside its time, which may be unknown."""
_LINKS: Final = frozenset(map(tsv.text, (vocab.GENERATED_BY, vocab.TOOL_RESULT_OF, vocab.ANSWERS_COPY)))
_COUNTED: Final = frozenset(map(tsv.text, COUNTED_USAGE))
_ANSWERED: Final = tsv.text(vocab.TOOL_RESULT_OF)
_SHOWN: Final = frozenset(map(tsv.text, (vocab.SUMMARY_SHOWN, vocab.USED_PROMPT, vocab.KEPT_PROMPT)))
_LEADING: Final = _LINKS | _SHOWN
_FACTS: Final = frozenset(map(tsv.text, FACT_PREDICATES))
_TYPE: Final = tsv.text(vocab.TYPE)
_KINDS: Final = frozenset(map(tsv.text, (vocab.SUMMARY_TURN, vocab.MODEL_CALL, vocab.MODEL_CALL_COPY)))
_OF_COPIES: Final = frozenset(
    map(tsv.text, (vocab.KEPT_START, vocab.KEPT_END, vocab.KEPT_PROMPT, vocab.PREVIOUS_SUMMARY, vocab.QUOTED_FROM))
)


_NAMES: Final = {str(number): tsv.text(each) for number, each in enumerate(PROPERTIES, 1)}
TYPES: Final = (
    vocab.SUMMARY_TURN, vocab.MODEL_CALL, vocab.MODEL_CALL_COPY, vocab.TOOL_CALL, vocab.TOOL_RESULT, vocab.COMPACTION,
)  # fmt: skip
"""What it calls -1 and so on."""
ANSWERED: Final = str(1 + PROPERTIES.index(vocab.TOOL_RESULT_OF))
"""The number of what leads from an answer to its call."""
_TYPES: Final = {str(-number): tsv.text(each) for number, each in enumerate(TYPES, 1)}


def rows_of(table: Iterable[Sequence[str]]) -> list[Row]:
    """Return the rows of `beyond_turns`, with properties for their numbers."""
    return [
        [subject, _NAMES[number], value] if value else [subject, _TYPE, _TYPES[number]]
        for subject, number, value in table
    ]


def of_facts(rows: Iterable[Row]) -> Iterator[tuple[str, str, Literal | NamedNode]]:
    """Yield those of the rows that the facts of turns are read from: see `decode_facts`.

    Raises `ValueError` where one of them has a term that Trails never writes.
    """
    for subject, prop, value in rows:
        if prop in _FACTS or (prop == _TYPE and value in _KINDS):
            yield tsv.iri(subject), tsv.iri(prop), tsv.term(value)


def stored_turn(row: Sequence[str], facts: Mapping[str, Facts]) -> StoredTurn:
    """Return a row of `sealed_turns` as a turn, with what is recorded with it; raise `ValueError` for what is never written."""
    turn, index, role, value, author, digest, salt, branch, time = row
    iri, when = tsv.iri(turn), tsv.date_time(time)
    text, structured, redacted = tsv.content(value)
    return StoredTurn(
        iri=iri,
        index=tsv.integer(index),
        role=tsv.string(role),
        text=text,
        structured=structured,
        redacted=redacted,
        author_iri=tsv.iri(author),
        digest=tsv.string(digest),
        salt=tsv.string(salt),
        branch=tsv.string(branch),
        time=None if when is None else parse_time(when),
        facts=facts.get(iri, NO_FACTS),
    )


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


class Seen(NamedTuple):
    """A session's graph as it was read."""

    record: SessionRecord
    rows: Sequence[StoredTurn]
    """What every turn has, in order of index,"""
    beyond: Sequence[Row]
    """and what stands there beside it."""
    quads: int
    """How many there are in all."""


def quads_of(rows: Sequence[StoredTurn], beyond: Sequence[Row]) -> int:
    """Return how many quads a graph has that holds turns, and what was read beside what every turn has, and nothing else."""
    return _OF_EVERY_TURN * len(rows) + sum(row.time is not None for row in rows) + len(beyond)


def answered(beyond: Iterable[Row]) -> dict[str, str]:
    """Return by the IRI of a tool's answer that of the call which it answers."""
    return {tsv.iri(subject): tsv.iri(value) for subject, prop, value in beyond if prop == _ANSWERED}


def is_as_written(seen: Seen, inherited: Callable[[], Sequence[Turn]], is_said: Callable[[str], bool]) -> bool:
    """Tell whether a graph holds what its turns are written as and nothing else; False also where that is not clear.

    `inherited` gives the turns of the sessions that this one was forked from, and is asked only where the turns look back
    at them; `is_said` whether the catalog says what it has to of a tool.
    """
    rows, beyond = seen.rows, seen.beyond
    if len({row.iri for row in rows}) != len(rows):
        return False
    if seen.quads != quads_of(rows, beyond):
        return False
    if any(row.redacted and row.text for row in rows) or any(prop in _OF_COPIES for _, prop, _ in beyond):
        return False
    actual = {
        (subject, prop, comparable(prop, value) if prop in _LEADING else value) for subject, prop, value in beyond
    }
    try:
        written = set(_written(seen.record, rows, inherited))
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
        rows -= {(each.call, _known(prop), tsv.text(value)) for prop, value in each.stored}
        rows |= {(each.call, _known(prop), tsv.text(value)) for prop, value in each.right}
    return rows


def _written(
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
                prop, text = _known(predicate), tsv.text(value)
                yield f"<{node.value}>", prop, comparable(prop, text) if prop in _LEADING else text
        before.add(row.iri, row.index, facts)


_known: Final = lru_cache(maxsize=256)(tsv.text)
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
