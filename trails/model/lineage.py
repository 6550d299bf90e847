"""The rules of a fork: whose turns make up a session's transcript, and whether they are all there.

Source: ADR-0018a, "Session forks, branches, and read-only replay". A fork owns the indices from its fork index on;
below, the chain belongs to its ancestors. An ancestor contributes its own turns below the lowest fork index on the way
down to the session, which is what makes a fork of a fork, and a fork inside an inherited prefix, come out right.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from trails.errors import ForkCycle, ForkDepthExceeded, IndexGap, IntegrityError, ParentMissing, SessionNotFound
from trails.model import iris
from trails.model.values import MAX_FORK_DEPTH, SessionRecord, ToolCall, Turn


@dataclass(frozen=True, slots=True)
class Segment:
    """The run of a transcript that one session owns: from `start` (inclusive) to `end` (exclusive; None is open)."""

    record: SessionRecord
    start: int
    end: int | None


def lineage(session_id: str, records: Mapping[str, SessionRecord]) -> tuple[SessionRecord, ...]:
    """Return a session and its ancestors by forks, the session first, its root last.

    `records` must hold every ancestor that the store has. Raises `SessionNotFound` for the session itself,
    `ParentMissing`, `ForkCycle` as soon as a session comes up twice, `ForkDepthExceeded` at the 33rd ancestor.
    """
    record = records.get(session_id)
    if record is None:
        raise SessionNotFound(f"there is no session {session_id!r}; `trails list` shows the ids there are")
    chain, visited = [record], {session_id}
    while record.parent_session_id is not None:
        parent_id = record.parent_session_id
        if parent_id in visited:
            path = " -> ".join([*(r.id for r in chain), parent_id])
            raise ForkCycle(
                f"session {session_id!r} is its own ancestor ({path}): its lineage was altered; "
                f"restore {parent_id!r} from an export or a backup"
            )
        parent = records.get(parent_id)
        if parent is None:
            raise ParentMissing(
                f"session {session_id!r} cannot be read: {parent_id!r}, the parent of {record.id!r}, is not in the store, "
                f"so turns 0 to {(record.forked_at_index or 0) - 1} are missing; restore {parent_id!r} from an export "
                "or a backup"
            )
        if len(chain) > MAX_FORK_DEPTH:
            raise depth_exceeded(session_id)
        chain.append(parent)
        visited.add(parent_id)
        record = parent
    return tuple(chain)


def depth_exceeded(session_id: str) -> ForkDepthExceeded:
    """Return the error for a session with more than `MAX_FORK_DEPTH` ancestors."""
    return ForkDepthExceeded(
        f"session {session_id!r} would have more than {MAX_FORK_DEPTH} ancestors by forks; "
        "flatten() one of them into a root of its own and fork that"
    )


def segments(chain: Sequence[SessionRecord], up_to: int | None = None) -> list[Segment]:
    """Return which session owns which run of the transcript, in order of index.

    `chain` is what `lineage` returns; `up_to` cuts the transcript at an index (exclusive). Runs do not overlap and
    leave no gap; the last one is open unless `up_to` is given.
    """
    runs: list[Segment] = []
    end = up_to
    for record in chain:
        if end is None or record.starts_at < end:
            runs.append(Segment(record, record.starts_at, end))
            end = record.starts_at
    return runs[::-1]


def check_dense(session_id: str, turns: Sequence[Turn], runs: Sequence[Segment], start: int = 0, end: int = 0) -> None:
    """Accept turns in order of index if they are the whole transcript, or raise `IndexGap` at the first wrong place.

    `start` is the index that they begin with, where only the end of a transcript was read, and `end` the one (exclusive)
    up to which the session is known to go.
    """
    for position, turn in enumerate(turns, start):
        if turn.index == position:
            continue
        if turn.index < position:
            twin = turns[position - start - 1]
            raise IndexGap(
                f"session {session_id!r} has two turns at index {turn.index} ({twin.iri} and {turn.iri}): two writers "
                "raced, or the store was altered; `trails verify` names the true one, or restore from a backup"
            )
        raise gap(session_id, position, runs)
    if not runs:
        return
    last = runs[-1]  # the session's own run may end early; an ancestor's may not
    expected = last.start if last.end is None or last.record.id == session_id else last.end
    if start + len(turns) < max(expected, end):
        raise gap(session_id, start + len(turns), runs)


def owner_at(runs: Sequence[Segment], index: int) -> str | None:
    """Return the id of the session that owns the turn at an index, or None past the end."""
    found = (run.record.id for run in runs if run.start <= index and (run.end is None or index < run.end))
    return next(found, None)


def gap(session_id: str, missing: int, runs: Sequence[Segment]) -> IndexGap:
    """Return the error for a turn that is missing from a transcript, which says who owns it."""
    owner = next((r.record.id for r in runs if r.start <= missing and (r.end is None or missing < r.end)), session_id)
    return IndexGap(
        f"session {session_id!r} cannot be read: turn {missing}, which {owner!r} owns, is missing; "
        f"restore {owner!r} from an export or a backup (no shorter transcript is given)"
    )


def check_fork_head(record: SessionRecord, turns: Sequence[Turn]) -> None:
    """Accept a fork's inherited prefix if it ends in the digest noted when it was forked; else `IntegrityError`."""
    at = record.forked_at_index
    if record.fork_head and at and len(turns) >= at and turns[at - 1].digest != record.fork_head:
        raise IntegrityError(
            f"session {record.id!r} was forked after turn {at - 1} with digest {record.fork_head[:16]}..., but that turn "
            f"of {turns[at - 1].session_id!r} now has {turns[at - 1].digest[:16]}...: the history was altered; "
            "restore the parent from an export or a backup"
        )


def answered_calls(turns: Sequence[Turn], turn: Turn) -> dict[str, str]:
    """Return the IRIs of the tool calls that a turn's results answer, by call id, among the turns before it."""
    wanted = {result.call_id for result in turn.tool_results}
    found: dict[str, str] = {}
    for at in range(min(turn.index, len(turns)) - 1, -1, -1):
        if not wanted:
            break
        earlier = turns[at]
        for position, call in reversed(list(enumerate(earlier.tool_calls))):
            if call.id in wanted:
                found[call.id] = iris.tool_call(earlier.iri, position)
                wanted.discard(call.id)
    return found


def asked_for(turns: Sequence[Turn], call_ids: Collection[str]) -> dict[str, ToolCall]:
    """Return the newest tool call of each of some ids, by id, among turns; ids that none of them has are left out."""
    wanted, found = set(call_ids), dict[str, ToolCall]()
    for earlier in reversed(turns):
        if not wanted:
            break
        for call in reversed(earlier.tool_calls):
            if call.id in wanted:
                found[call.id] = call
                wanted.discard(call.id)
    return found


def summary_shown(turns: Sequence[Turn], turn: Turn) -> str | None:
    """Return the IRI of the summary turn from which a turn's model call was told to be shown, among the turns before it."""
    context = None if turn.call is None else turn.call.context
    at = None if context is None else context.summary
    if at is None or not 0 <= at < min(turn.index, len(turns)) or turns[at].index != at:
        return None
    return turns[at].iri


def prompt_sent(chain: Sequence[SessionRecord], turn: Turn) -> str | None:
    """Return the IRI of the version of the system prompt that a turn's model call was told to be sent.

    A session owns the versions above the one that it inherited.
    """
    version = None if turn.call is None else turn.call.prompt
    if version is None:
        return None
    owner = next((record for record in chain if version > record.system_version), chain[0])
    return iris.system_prompt(owner.iri, version)
