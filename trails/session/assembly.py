"""Contexts of sessions: which turns of a transcript a model is shown, read from the store without the rest.

After a compaction a transcript is shown from the first turn that its latest summary kept; other summaries among those
turns are left out, since the latest one stands for them too. (The rule is pi's, and the lifecycle document's.)
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, Literal, TypeVar

from pyoxigraph import QuerySolution

from trails import iris, lineage, vocab
from trails.context.assembling import Context, Fixed, within
from trails.context.shown import ShownTurn, Spoken
from trails.context.tokens import Counter
from trails.context.window import Window
from trails.decoding import decodes
from trails.errors import IndexGap, IntegrityError
from trails.lineage import Segment
from trails.model import CUT, NO_FACTS, Compaction, Facts, ModelCall, SessionRecord, ToolCall, ToolResult, Turn
from trails.parts import calls_in, results_in
from trails.plumbing.reader import Reader
from trails.plumbing.transcript import LazyTurns, SummaryMark, latest_summary, stored_length, summaries
from trails.plumbing.worktree import Worktree
from trails.store.contract import Solutions

_OPEN_END: Final = 2**53
_JSON: Final = vocab.JSON.value
_REDACTED: Final = vocab.REDACTED.value
_NO_CALLERS: Final = frozenset({"user", "human", "tool", "system", "developer", "summary"})
_NO_ANSWERERS: Final = frozenset({"assistant", "model", "ai", "system", "developer", "summary"})
_RAN: Final = "bash"
_CUT: Final = ModelCall(stop_reason=CUT)
_LONG: Final = 3
"""A session's columns are scanned whole unless more than this many times as much of it comes before what is read."""


def since_summary(turns: Sequence[Turn]) -> tuple[Turn | None, Sequence[Turn]]:
    """Return a transcript's latest summary turn, and the turns that it does not stand for, in order, without summaries."""
    at = turns.latest_summary() if isinstance(turns, LazyTurns) else _latest(turns)
    if at is None:
        return None, turns
    summary = turns[at]
    first = _first_shown(summary)
    return summary, [turn for turn in turns[first:] if turn.compaction is None]


def _latest(turns: Sequence[Turn]) -> int | None:
    return next((at for at in range(len(turns) - 1, -1, -1) if turns[at].facts.compaction is not None), None)


def _first_shown(summary: Turn) -> int:
    return _start(summary.index, summary.compaction.first_kept if summary.compaction else None)


def _start(index: int, kept: int | None) -> int:
    """Return the first index that is shown beside a summary: the one that it kept, or its own where it kept nothing."""
    return index if kept is None else max(0, min(kept, index))


def window_of(
    tree: Worktree,
    max_tokens: int | None = None,
    pinned_count: int | None = None,
    counter: Counter | None = None,
    cut: Literal["mark", "leave out"] = "mark",
) -> Window:
    """Return what of a session is shown: as its window has it, but for what is given."""
    return (Window() if tree.window is None else tree.window.limits).but(max_tokens, pinned_count, counter, cut)


def of_worktree(
    tree: Worktree, window: Window, *, query: object = None, brief: str | None = None, background: str | None = None
) -> Context:
    """Return the context of a session as it is in memory, pending turns and all: see `Session.context`."""
    summary, turns = since_summary(tree.turns)
    told = tree.workspace.reader.told(tree.chain)
    fixed = Fixed(
        tree.system,
        told.task if brief is None else brief,
        told.context if background is None else background,
        summary,
        query,
    )
    return within(window, turns, fixed, starts_at=0 if summary is None else None)


def of_stored(
    reader: Reader,
    chain: Sequence[SessionRecord],
    window: Window,
    *,
    query: object = None,
    brief: str | None = None,
    background: str | None = None,
) -> Context:
    """Return the context of a stored session, reading of it only what is shown: see `Repository.context`."""
    prompt, told = reader.prompt(chain), reader.told(chain)
    runs = lineage.segments(chain)
    mark = latest_summary(reader, runs)
    summary: Spoken | None = None
    turns: Sequence[Spoken]
    if mark is not None:
        summary, turns = _since(reader, chain[0].id, runs, mark)
    elif window.max_tokens is not None:
        turns = LazyTurns(reader, chain, stored_length(reader, chain))
    else:
        turns = reader.turns(chain)
    fixed = Fixed(
        prompt.text if prompt and not prompt.redacted else None,
        told.task if brief is None else brief,
        told.context if background is None else background,
        summary,
        query,
    )
    return within(window, turns, fixed, starts_at=0 if summary is None else None)


# --- reading only what a model is shown


def _since(
    reader: Reader, session_id: str, runs: Sequence[Segment], mark: SummaryMark
) -> tuple[ShownTurn, list[Spoken]]:
    """Return a transcript's latest summary, and the turns since the first that it kept, without other summaries.

    Raises `IndexGap` where one is missing or doubled.
    """
    start = _start(mark.index, mark.kept)
    entries: list[Spoken] = []
    left_out: set[int] = set()
    for run in runs:
        if run.end is None or run.end > start:
            part = Segment(run.record, max(run.start, start), run.end)
            found, summed_up = _shown(reader, part)
            entries += found
            left_out |= summed_up
    for position, entry in enumerate(entries, start):
        if entry.index != position:
            raise _gap(session_id, min(position, entry.index))
    if not mark.index < start + len(entries):
        raise _gap(session_id, start + len(entries))
    stands_for = Facts(compaction=Compaction(first_kept=mark.kept, summarised_through=mark.through))
    said = entries[mark.index - start]
    summary = ShownTurn(said.index, said.role, said.text, said.structured, said.redacted, stands_for)
    return summary, [entry for entry in entries if entry.index not in left_out]


def _gap(session_id: str, index: int) -> IndexGap:
    return IndexGap(
        f"session {session_id!r} has no turn at index {index}, or two: `trails verify` says more; restore it from an "
        "export or a backup (no shorter context is given)"
    )


def _shown(reader: Reader, run: Segment) -> tuple[Sequence[Spoken], set[int]]:
    """Return what a model may be shown of a run, out of packs where they have its first turn, and where summaries stand."""
    held = reader.quick_parts(run)
    if held is None:
        entries = _run(reader, run)
        return entries, {each.index for each in summaries(reader, run)} if entries else set()
    packed, rest = held
    found: list[Spoken] = [*rest]
    found[:0] = [ShownTurn._make(each) for part in packed for each in part.spoken()]
    return found, {each.index for each in found if each.facts.compaction is not None}


@decodes
def _run(reader: Reader, run: Segment) -> list[ShownTurn]:
    session_id = run.record.id
    place = {"session": session_id, "start": run.start, "end": _OPEN_END if run.end is None else run.end}
    far_on = _is_far_on(reader, run)
    if not far_on and not (rows := reader.select("context_turns_wide", **place)):
        return []
    kinds = {row[0].value for row in reader.select("context_kinds", session=session_id)}
    if far_on:
        rows = reader.select("context_turns_named" if kinds else "context_turns", **place)
    try:
        facts = (
            {} if not kinds else _facts(reader, session_id, rows, kinds) if far_on else _all_facts(reader, session_id)
        )
        broken_off = {iris.turn_index(row[0].value) for row in reader.select("context_cut", session=session_id)}
        facts |= {index: facts.get(index, NO_FACTS).model_copy(update={"model_call": _CUT}) for index in broken_off}
        entries = [_entry(row, facts) for row in rows]
    except (ValueError, AttributeError) as error:
        raise IntegrityError(
            f"session {session_id!r} holds values that Trails never writes ({error}): the store was altered; "
            "`trails verify` names them; restore the session from an export or a backup"
        ) from error
    entries.sort(key=itemgetter(0))
    return entries


def _is_far_on(reader: Reader, run: Segment) -> bool:
    """Tell whether much more of a session comes before a run than the run is long: then scanning columns is slower."""
    before = run.start - run.record.starts_at
    if run.end is not None:
        return before > _LONG * (run.end - run.start)
    return before > 0 and not reader.owns(run.record.id, run.start + before // _LONG)


def _entry(row: QuerySolution, facts: dict[int, Facts]) -> ShownTurn:
    index, role, value = row[0], row[1].value, row[2]
    number, datatype = int(index.value), value.datatype.value
    recorded = facts.get(number, NO_FACTS)
    if datatype == _JSON and (role in _NO_CALLERS or role in _NO_ANSWERERS):
        recorded = _with_parts(recorded, json.loads(value.value))
    return ShownTurn(number, role, value.value, datatype == _JSON, datatype == _REDACTED, recorded)


def _with_parts(facts: Facts, content: list[Any]) -> Facts:
    """Return facts with the calls and answers among the parts of a turn's content, where those were not looked up."""
    calls, results = facts.tool_calls or calls_in(content), facts.tool_results or results_in(content)
    if (calls, results) == (facts.tool_calls, facts.tool_results):
        return facts
    return facts.model_copy(update={"tool_calls": calls, "tool_results": results})


@decodes
def _facts(reader: Reader, session_id: str, rows: Solutions, kinds: set[str]) -> dict[int, Facts]:
    """Return the tool calls, answers and metadata of some turns by index, looking only where a model is shown them.

    Nobody but an assistant calls tools, and an assistant answers no calls but those among the parts of its content;
    metadata says what is shown only of commands that a person ran.
    """
    asking = [row[3].value for row in rows if row[1].value not in _NO_CALLERS]
    answering = [row[3].value for row in rows if row[1].value not in _NO_ANSWERERS]
    ran = [row[3].value for row in rows if row[1].value == _RAN]
    calls: dict[int, dict[int, ToolCall]] = defaultdict(dict)
    results: dict[int, dict[int, ToolResult]] = defaultdict(dict)
    meta: dict[int, str] = {}
    if asking and vocab.STARTED_BY.value in kinds:
        for iri, call_id, name, arguments in reader.select_each("context_calls", "turns", asking, session=session_id):
            hidden = arguments.datatype == vocab.REDACTED
            calls[iris.turn_index(iri.value)][iris.position(iri.value)] = ToolCall.trusted(
                {
                    "id": call_id.value,
                    "name": name.value,
                    "arguments": None if hidden else arguments.value,
                    "withheld": arguments.value if hidden else None,
                }
            )
    if answering and vocab.HAS_RESULT.value in kinds:
        for iri, call_id, error in reader.select_each("context_results", "turns", answering, session=session_id):
            made = ToolResult.plain(call_id.value, is_error=error.value == "true")
            results[iris.turn_index(iri.value)][iris.position(iri.value)] = made
    if ran and vocab.META.value in kinds:
        for turn, text in reader.select_each("context_meta", "turns", ran, session=session_id):
            if text.datatype == vocab.JSON:
                meta[iris.turn_index(turn.value)] = text.value
    return {
        index: Facts(
            tool_calls=_in_order(calls.get(index)),
            tool_results=_in_order(results.get(index)),
            meta_json=meta.get(index),
        )
        for index in {*calls, *results, *meta}
    }


_Each = TypeVar("_Each")


def _in_order(found: Mapping[int, _Each] | None) -> tuple[_Each, ...]:
    return () if found is None else tuple(found[position] for position in sorted(found))


@decodes
def _all_facts(reader: Reader, session_id: str) -> dict[int, Facts]:
    return {iris.turn_index(turn): each for turn, each in reader.facts(session_id).items()}
