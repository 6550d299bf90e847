"""Whether a session's graph holds what its turns are written as, and nothing else: the quick look, which names nothing.

A graph has as many quads as its turns are written as, each of which is there: so there is no room for another. Whatever
this look does not know (copies of other sessions' turns) or finds wrong gets the long look of `verify`, which says what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from pyoxigraph import Literal, NamedNode

from trails import iris, vocab
from trails.errors import TrailsError
from trails.integrity.chain import StoredTurn
from trails.model import Facts, SessionRecord, Turn
from trails.records.turns import FACT_PREDICATES, NO_LINKS, Links, MadeBy, fact_triples
from trails.store import tsv

Row = tuple[str, str, Literal | NamedNode]
"""Subject, property and value of a quad of the session's graph."""

_OF_EVERY_TURN: Final = 9
"""How many quads every turn has, beside its time, which may be unknown."""
_LINKS: Final = frozenset({vocab.GENERATED_BY.value, vocab.TOOL_RESULT_OF.value, vocab.ANSWERS_COPY.value})
_SHOWN: Final = frozenset(each.value for each in (vocab.SUMMARY_SHOWN, vocab.USED_PROMPT, vocab.KEPT_PROMPT))
_FACTS: Final = frozenset(each.value for each in FACT_PREDICATES)
_KINDS: Final = frozenset({vocab.SUMMARY_TURN, vocab.MODEL_CALL, vocab.MODEL_CALL_COPY})
_OF_COPIES: Final = frozenset(
    each.value for each in (vocab.KEPT_WITH, vocab.ANSWERS_COPY, vocab.ALTERNATE_OF, vocab.QUOTED_FROM)
)


def rows_of(table: Sequence[Sequence[str]]) -> list[Row] | None:
    """Return the rows of `beyond_turns` as terms; None where something stands there that Trails never writes."""
    try:
        return [(tsv.iri(subject), tsv.iri(prop), tsv.term(value)) for subject, prop, value in table]
    except ValueError:
        return None


def of_facts(rows: Sequence[Row]) -> Iterator[Row]:
    """Yield those of the rows that the facts of turns are read from: see `decode_facts`."""
    return (row for row in rows if row[1] in _FACTS or (row[1] == vocab.TYPE.value and row[2] in _KINDS))


def comparable(predicate: str, value: object) -> str | None:
    """Return what a link comes to without the session that it leads into; None for what is no such link.

    After a detach the same call stands in the original and in the copy, and a fork's link may name either. So it is with
    a summary and a version of a system prompt that a model was shown.
    """
    if not isinstance(value, NamedNode):
        return None
    if predicate in _SHOWN:
        return "urn:shown:" + value.value.partition("/")[2]
    if predicate in _LINKS and "/call/" in value.value:
        return "urn:call:" + value.value.partition("/")[2]
    return None


class Seen(NamedTuple):
    """A session's graph as it was read."""

    record: SessionRecord
    rows: Sequence[StoredTurn]
    """What every turn has, in order of index,"""
    beyond: Sequence[Row] | None
    """and what stands there beside it."""
    quads: int
    """How many there are in all."""


def is_as_written(seen: Seen, inherited: Callable[[], Sequence[Turn]], is_said: Callable[[str], bool]) -> bool:
    """Tell whether a graph holds what its turns are written as and nothing else; False also where that is not clear.

    `inherited` gives the turns of the sessions that this one was forked from, and is asked only where the turns look back
    at them; `is_said` whether the catalog says what it has to of a tool.
    """
    rows, beyond = seen.rows, seen.beyond
    if beyond is None or len({row.iri for row in rows}) != len(rows):
        return False
    if seen.quads != _OF_EVERY_TURN * len(rows) + sum(row.time is not None for row in rows) + len(beyond):
        return False
    if any(row.redacted and row.text for row in rows) or any(prop in _OF_COPIES for _, prop, _ in beyond):
        return False
    actual = {(subject, prop, comparable(prop, value) or value) for subject, prop, value in beyond}
    try:
        written = set(_written(seen.record, rows, inherited))
    except (TrailsError, ValueError):  # as it stands it cannot have been written
        return False
    return written == actual and len(actual) == len(beyond) and all(map(is_said, _tools(rows)))


def _written(
    record: SessionRecord, rows: Sequence[StoredTurn], inherited: Callable[[], Sequence[Turn]]
) -> Iterator[tuple[str, str, object]]:
    before = _Before(inherited)
    for row in rows:
        facts = row.facts
        if not facts.is_empty():
            answers = {each.call_id: before.call(each.call_id) for each in facts.tool_results}
            known = {call_id: call for call_id, call in answers.items() if call is not None}
            turn = MadeBy(row.iri, row.author_iri, row.time)
            for node, predicate, value in fact_triples(turn, facts, known, links=_links(record, row, before)):
                prop = predicate.value
                yield node.value, prop, comparable(prop, value) or value
        before.add(row.iri, row.index, facts)


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
