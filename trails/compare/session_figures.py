"""Read the figures of branches, by seven queries however many there are."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from decimal import Decimal
from operator import itemgetter
from typing import Any, Final

from pyoxigraph import Literal

from trails.compare.comparison import Branch, Comparison, Scored, Usage
from trails.errors import IndexGap, InvalidInput
from trails.history.reader import Reader
from trails.model import iris, lineage
from trails.model.validation import decodes
from trails.model.values import SessionRecord
from trails.rdf import vocab
from trails.rdf.codec import meta_value, parse_time
from trails.rdf.score_records import ScoreValue
from trails.rdf.session_records import decode_records
from trails.rows.turn_text import is_encrypted
from trails.usage import MAX_USAGE, token_count

_NOTHING: Final = Usage()
_TEXT_PARTS: Final = frozenset({"text", "output_text"})
_Chain = tuple[SessionRecord, ...]


def compare_sessions(
    reader: Reader, root_ids: Sequence[str], at: int | None = None, *, as_of: str | None = None
) -> Comparison:
    """Return the comparison of sessions and all their forks, theirs too, or with `at` of the branches of one's fork point.

    `as_of` is the mark of the log that is read.

    Branches come as in a tree, a tree for each of the sessions that is in no other's: forks below what they were forked
    from, by fork index and age. Raises what reading their lineage raises, and `IndexGap` if a turn is missing or doubled.
    """
    chains = families(reader, root_ids)
    roots = [one for one in root_ids if not any(record.id in root_ids for record in chains[one][1:])]
    order = [session_id for root_id in roots for session_id in in_tree_order(chains, root_id)]
    records = {record.id: record for chain in chains.values() for record in chain}
    counts = _own_turns(reader, records)
    for session_id in order:
        _check_whole(chains[session_id], counts)
    wanted, trunk = order, []
    if at is not None:
        (root_id,) = roots
        wanted = _leaving(chains, root_id, order, at, records[root_id].starts_at + counts[root_id])
        trunk = [root_id]
    read = _Read(reader, records, wanted)
    branches = {session_id: _branch(chains[session_id], counts, read) for session_id in (*trunk, *wanted)}
    return Comparison.of(
        roots, [branches[each] for each in wanted], at=at, trunk=[branches[each] for each in trunk], as_of=as_of
    )


# --- which sessions


@decodes
def families(reader: Reader, root_ids: Sequence[str]) -> dict[str, _Chain]:
    """Return the lineage of some sessions and of each of their descendants by forks, by session id."""
    rows = {(row[0].value, row[1].value, row[2]) for row in reader.select_each("family", "sessions", root_ids)}
    records = reader.in_plain(decode_records(rows))
    for root_id in root_ids:
        if root_id not in records:
            raise reader.not_found(root_id)
    roots = frozenset(root_ids)
    chains = {session_id: lineage.lineage(session_id, records) for session_id in records}
    return {session_id: chain for session_id, chain in chains.items() if any(r.id in roots for r in chain)}


def in_tree_order(chains: Mapping[str, _Chain], root_id: str) -> list[str]:
    """Return the ids of a session and its descendants, forks below what they were forked from, by fork index and age."""
    below: dict[str | None, list[SessionRecord]] = defaultdict(list)
    for chain in chains.values():
        below[chain[0].parent_session_id].append(chain[0])
    ordered, waiting = [], [root_id]
    while waiting:
        session_id = waiting.pop()
        ordered.append(session_id)
        waiting += [fork.id for fork in sorted(below[session_id], key=_age, reverse=True)]
    return ordered


def _age(record: SessionRecord) -> tuple[int, str, str]:
    return record.starts_at, record.created.isoformat() if record.created else "", record.id


def _leaving(chains: Mapping[str, _Chain], root_id: str, order: Sequence[str], at: int, length: int) -> list[str]:
    """Return the sessions whose transcript shares exactly the root's first `at` turns, and which own the next."""
    if at > length:
        raise InvalidInput(f"session {root_id!r} has {length} turns: forks begin at 0 to {length}, not at {at}")
    points: dict[int, list[str]] = defaultdict(list)
    for session_id in order[1:]:
        chain = chains[session_id]
        below_root = chain[: [record.id for record in chain].index(root_id)]
        shared = min(record.starts_at for record in below_root)
        if chain[0].starts_at == shared:
            points[shared].append(session_id)
    if at not in points:
        there = ", ".join(f"{point} ({len(points[point])})" for point in sorted(points))
        where = f"branches leave it at {there}" if there else "it has no forks"
        raise InvalidInput(f"no branch leaves session {root_id!r} at {at}; {where}")
    return points[at]


# --- what is read of them


@decodes
def _own_turns(reader: Reader, records: Mapping[str, SessionRecord]) -> dict[str, int]:
    """Return how many turns each session owns, or raise `IndexGap` if they are not one after the other."""
    counts = dict.fromkeys(records, 0)
    for row in reader.select_each("own_turns", "sessions", records):
        session_id = iris.session_id(row["session"].value)
        count, first, last = (int(row[name].value) for name in ("turns", "first", "last"))
        start = records[session_id].starts_at
        if first != start or last - first + 1 != count:
            raise IndexGap(
                f"session {session_id!r} cannot be compared: it owns {count} turns from {first} to {last}, and they should "
                f"be one after the other from {start}; `trails verify` names what is missing or doubled"
            )
        counts[session_id] = count
    return counts


def _check_whole(chain: _Chain, counts: Mapping[str, int]) -> None:
    """Accept a lineage whose ancestors own all the turns that the session inherits, or raise `IndexGap`."""
    for run in lineage.segments(chain, chain[0].starts_at):
        there = run.record.starts_at + counts[run.record.id]
        if run.end is not None and there < run.end:
            raise IndexGap(
                f"session {chain[0].id!r} cannot be compared: turn {there}, which {run.record.id!r} owns, is missing; "
                f"restore {run.record.id!r} from an export or a backup"
            )


_Call = tuple[int, Usage, str | None]
"""The model call of a turn: the turn's index, what was used, and the model."""


class _Read:
    """What is read of all branches at once: usage of every turn that counts, tools and last answers."""

    def __init__(self, reader: Reader, records: Mapping[str, SessionRecord], wanted: Sequence[str]) -> None:
        self._calls = _calls(reader, list(records))
        self._sums: dict[tuple[str, int, int | None], Usage] = {}
        self.tools = _tools(reader, wanted)
        self.answers = _answers(reader, wanted, records)
        self.scores = _scores(reader, wanted)

    def usage(self, session_id: str, start: int, end: int | None) -> Usage:
        """Return what a session's own turns in a run of indices report; forks of one point share the sum."""
        run = (session_id, start, end)
        if run not in self._sums:
            self._sums[run] = sum((usage for _, usage, _ in self._between(*run)), _NOTHING)
        return self._sums[run]

    def models(self, session_id: str, start: int) -> tuple[str, ...]:
        """Return the models that generated a session's own turns, sorted."""
        return tuple(sorted({name for _, _, name in self._between(session_id, start, None) if name is not None}))

    def _between(self, session_id: str, start: int, end: int | None) -> list[_Call]:
        """Return the calls of a session's own turns from `start` (inclusive) to `end` (exclusive, None is open)."""
        calls, index = self._calls[session_id], itemgetter(0)
        last = None if end is None else bisect_left(calls, end, key=index)
        return calls[bisect_left(calls, start, key=index) : last]


def _branch(chain: _Chain, counts: Mapping[str, int], read: _Read) -> Branch:
    record = chain[0]
    inherited = lineage.segments(chain, record.starts_at)
    own = read.usage(record.id, record.starts_at, None)
    return Branch(
        record=record,
        own_turns=counts[record.id],
        own=own,
        total=sum((read.usage(run.record.id, run.start, run.end) for run in inherited), own),
        tools=read.tools.get(record.id, {}),
        models=read.models(record.id, record.starts_at),
        last_answer=read.answers.get(record.id),
        scores=read.scores.get(record.id, {}),
    )


@decodes
def _calls(reader: Reader, session_ids: Sequence[str]) -> dict[str, list[_Call]]:
    calls: dict[str, list[_Call]] = {session_id: [] for session_id in session_ids}
    for session, index, input_, output, cost, model in reader.select_each("usage_by_turn", "sessions", session_ids):
        read, written = _whole(input_), _whole(output)
        usage = Usage(read, written, _cost(cost), calls=1, calls_without_usage=int(read is None and written is None))
        call = (int(index.value), usage, None if model is None else model.value)
        calls[iris.session_id(session.value)].append(call)
    for session_calls in calls.values():
        session_calls.sort(key=itemgetter(0))
    return calls


def _whole(term: Any) -> int | None:
    return None if term is None else token_count(int(term.value))


def _cost(term: Any) -> Decimal | None:
    if term is None:
        return None
    cost = Decimal(term.value)
    return cost if 0 <= cost <= MAX_USAGE else None


@decodes
def _tools(reader: Reader, session_ids: Sequence[str]) -> dict[str, dict[str, int]]:
    """Return how often each session's own turns asked for each tool, the most frequent first."""
    counts: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for row in reader.select_each("tools_used", "sessions", session_ids):
        counts[iris.session_id(row["session"].value)].append((-int(row["calls"].value), row["name"].value))
    return {session_id: {name: -calls for calls, name in sorted(tools)} for session_id, tools in counts.items()}


@decodes
def _scores(reader: Reader, session_ids: Sequence[str]) -> dict[str, dict[Scored, ScoreValue]]:
    """Return the newest score of each session itself, by its name and scorer."""
    rows = reader.select_each("session_scores", "sessions", session_ids)
    scores: dict[str, dict[Scored, ScoreValue]] = defaultdict(dict)
    for row in sorted(rows, key=lambda row: (parse_time(row["time"].value), row["score"].value)):
        version = row["version"]
        of = Scored(row["name"].value, row["by"].value, None if version is None else version.value)
        scores[iris.session_id(row["session"].value)][of] = meta_value(row["value"])
    return scores


# --- the last answer


@decodes
def _answers(reader: Reader, session_ids: Sequence[str], records: Mapping[str, SessionRecord]) -> dict[str, str | None]:
    """Return the last text of an assistant among each session's own turns; None if that turn is redacted."""
    answers: dict[str, str | None] = {}
    for row in reader.select_each("last_answers", "sessions", session_ids):
        session_id, value = iris.session_id(row["session"].value), row["value"]
        text = _said(_in_plain(reader, session_id, int(row["index"].value), value))
        if text is not None and not text.strip():  # it called a tool without a word: what was said before counts
            text = _earlier(reader, session_id, records[session_id].starts_at, int(row["index"].value))
        answers[session_id] = text
    return answers


@decodes
def _earlier(reader: Reader, session_id: str, start: int, end: int) -> str | None:
    """Return the last text of an assistant that a session owns in a range of indices; None if there is none."""
    while True:
        rows = reader.select("answers_before", session=session_id, start=start, end=end)
        if not rows:
            return None
        turns = sorted(((int(row["index"].value), row["value"]) for row in rows), key=itemgetter(0), reverse=True)
        for index, value in turns:
            text = _said(_in_plain(reader, session_id, index, value))
            if text is None or text.strip():
                return text
        end = turns[-1][0]


def _in_plain(reader: Reader, session_id: str, index: int, value: Literal) -> Literal:
    """Return the content of a turn in plain; raise `KeyMissing` where it is encrypted and there is no key."""
    if not is_encrypted(value.value):
        return value
    (turn,) = reader.turns_at(session_id, [index])
    return Literal(turn.text, datatype=vocab.JSON) if turn.structured else Literal(turn.text)


def _said(value: Literal) -> str | None:
    """Return the text in a turn's content without thoughts, tool calls and results; empty for none, None once redacted."""
    if value.datatype == vocab.REDACTED:
        return None
    if value.datatype != vocab.JSON:
        return value.value
    return "\n".join(filter(None, map(_part_text, json.loads(value.value))))


def _part_text(part: Any) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, Mapping) or part.get("type") not in _TEXT_PARTS:
        return ""
    return next((part[key] for key in ("text", "content") if isinstance(part.get(key), str)), "")
