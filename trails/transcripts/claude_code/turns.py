"""Turns of a Claude Code session: messages that were written over several lines, and summaries with their boundary."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from trails.model import Compaction
from trails.parts import results_in
from trails.transcripts.claude_code.chain import Chain
from trails.transcripts.claude_code.records import Record, leftovers
from trails.transcripts.source import Piece, SourceTurn

_TRIGGERS: Final = {"manual": "manual", "auto": "threshold"}
_OVER: Final = frozenset({"turn_duration", "stop_hook_summary", "local_command"})
"""The program's own records that come only between two turns of its user."""
_CALLS: Final = "tool_use"
"""The stop reason of a message that ends in calls, and the type of the part that is one."""
_REFUSED: Final = "User rejected tool use"
"""What the program writes beside the result of a call that its user did not let run."""
_ROLES: Final = {"queued": "user"}
"""The roles of records whose kind is none."""
_ADDED: Final = frozenset({"link", "queued", "attachment"})
"""The kinds of records that come between the lines of a message, or of a compaction and its summary."""
_BOUNDARY: Final = "boundary"
"""The metadata key under which a summary turn keeps what the boundary before it said."""


@dataclass(slots=True, eq=False)
class _TurnRecords:
    """The records that make one turn, in order."""

    index: int
    records: list[Record]


@dataclass(slots=True, eq=False)
class _Spoken:
    """The turns of one branch as they come together."""

    before: int
    """How many turns the branches before this one have."""
    groups: list[_TurnRecords] = field(default_factory=list)
    messages: dict[str, _TurnRecords] = field(default_factory=dict)
    """The assistant's messages that may still get more lines, by their id."""

    def place(self, record: Record) -> None:
        """Put a record into the turn that it belongs to: one that is there, or a new one."""
        message_id = record.message.get("id")
        if record.kind == "assistant" and isinstance(message_id, str) and message_id in self.messages:
            self.messages[message_id].records.append(record)
            return
        last = self.groups[-1].records if self.groups else []
        if record.is_summary and len(last) == 1 and last[0].kind == "compact_boundary":
            last.append(record)
            return
        group = _TurnRecords(self.before + len(self.groups), [record])
        self.groups.append(group)
        if record.kind == "compact_boundary" or record.is_summary:
            self.messages.clear()  # what comes again after a compaction is a copy, not more of the same message
        elif record.kind == "assistant" and isinstance(message_id, str) and message_id:
            self.messages[message_id] = group


def turns_of(
    branches: Sequence[Chain], records: Mapping[str, Record], common: Mapping[str, Any]
) -> dict[Chain, tuple[SourceTurn, ...]]:
    """Return the turns of each branch; parents come before the branches that leave them.

    An assistant's message is one turn where its first line stands, however many lines it has. `common` is what the
    session keeps once: a turn keeps only what differs.
    """
    spoken: dict[Chain, _Spoken] = {}
    for branch in branches:
        parent = spoken[branch.parent] if branch.parent is not None else None
        mine = _Spoken(0) if parent is None else _Spoken(parent.before + len(parent.groups), [], dict(parent.messages))
        spoken[branch] = mine
        for record in (records[each] for each in branch.ids):
            if record.kind != "link":
                mine.place(record)
    return {branch: tuple(_turn(group, common) for group in each.groups) for branch, each in spoken.items()}


def open_end(records: Sequence[Record]) -> set[str]:
    """Return the ids of the records, of those of a session in the order of its file, of a turn that may still get more.

    An assistant's message comes in several lines. It is whole once something follows it that can only follow it: another
    message, a prompt, a compaction, the word that the turn is over. Results of its own tools do not: they come while its
    further calls are still being written. A line's stop reason ends it where that is no call and more than a thought is
    said: some versions write the message's reason into all its lines. Whether another last message is whole, no line
    says. A compaction's boundary waits for its summary.
    """
    message: list[Record] = []
    boundary: Record | None = None
    for record in records:
        if record.kind == "assistant":
            message_id = record.message.get("id")
            same = bool(message) and message[-1].message.get("id") == message_id
            message = [*message, record] if same else [record] if isinstance(message_id, str) and message_id else []
        elif _ends_message(record):
            message = []
        if record.kind == "compact_boundary":
            boundary = record
        elif record.kind not in _ADDED:
            boundary = None
    if boundary is not None:
        return {boundary.id}
    if any(record.message.get("stop_reason") not in (None, _CALLS) for record in message) and not _only_thinks(message):
        return set()
    return {record.id for record in message}


def cannot_be_whole(end: Sequence[Record]) -> bool:
    """Tell whether a turn of these records lacks something for sure: it only thinks, calls nothing, or has no summary."""
    calls = any(part.get("type") == _CALLS for record in end for part in record.parts)
    to_call = any(record.message.get("stop_reason") == _CALLS for record in end)
    return _only_thinks(end) or end[0].kind == "compact_boundary" or (to_call and not calls)


def _only_thinks(records: Sequence[Record]) -> bool:
    return all(record.is_thought for record in records)


def _ends_message(record: Record) -> bool:
    prompted = record.is_prompt and record.raw.get("isMeta") is not True
    over = record.raw["type"] == "system" and str(record.raw.get("subtype")) in _OVER
    return prompted or over or record.is_summary or record.kind == "compact_boundary"


def _turn(group: _TurnRecords, common: Mapping[str, Any]) -> SourceTurn:
    first = group.records[0]
    if first.kind == "compact_boundary" or first.is_summary:
        return _summary(group, common)
    return SourceTurn(
        role=_role(first),
        pieces=tuple(Piece(record.id, record.content) for record in group.records),
        time=first.time,
        model=_last([record.named("model") for record in group.records]),
        usage=_last([record.usage() for record in group.records]),
        stop_reason=_last([record.named("stop_reason") for record in group.records]),
        tool_results=tuple(told for record in group.records for told in _told_of_tool(record)),
        meta=_meta(group.records, common),
    )


def _role(record: Record) -> str:
    if record.kind == "user" and record.answers_tools:
        return "tool"
    if record.is_task_notice and not record.is_summary:
        return "attachment"  # as the notice that comes while the model works is
    return "error" if record.is_error_notice else _ROLES.get(record.kind, record.kind)


def _told_of_tool(record: Record) -> Iterator[dict[str, Any]]:
    """Yield what a line with one tool's result tells of how the call came out: refused, or broken off, by the user."""
    answers = results_in(record.content) if isinstance(record.content, tuple) else ()
    told = record.raw.get("toolUseResult")
    if len(answers) != 1:
        return
    if told == _REFUSED:
        yield {"call_id": answers[0].call_id, "outcome": "refused"}
    elif isinstance(told, dict) and told.get("interrupted") is True:
        yield {"call_id": answers[0].call_id, "outcome": "cancelled"}


def _last(values: Sequence[Any]) -> Any:
    return next((value for value in reversed(values) if value is not None), None)


def _meta(records: Sequence[Record], common: Mapping[str, Any]) -> dict[str, Any]:
    """Return what else the records say; where lines of one message differ, the first line's word."""
    merged: dict[str, Any] = {}
    for record in records:
        for key, value in leftovers(record, common).items():
            if key != "parentUuid" or record is records[0]:
                merged.setdefault(key, value)
    return merged


def _summary(group: _TurnRecords, common: Mapping[str, Any]) -> SourceTurn:
    """Return the turn of a summary: its text; what the boundary said is metadata."""
    first, told = group.records[0], group.records[-1]
    boundary = first.raw if first.kind == "compact_boundary" else {}
    found = boundary.get("compactMetadata")
    details = found if isinstance(found, dict) else {}
    trigger = details.get("trigger")
    meta = leftovers(told, common)
    if boundary:
        meta[_BOUNDARY] = leftovers(first, common)
    return SourceTurn(
        role="summary",
        pieces=tuple(Piece(r.id, () if r.kind == "compact_boundary" else r.content) for r in group.records),
        time=first.time,
        compaction=Compaction(
            summarised_through=group.index - 1 if group.index else None,
            tokens_before=_count(details.get("preTokens")),
            trigger=_TRIGGERS.get(trigger, trigger) if isinstance(trigger, str) else None,
        ),
        meta=meta,
    )


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63 else None
