"""What differs between two turns of one role: text by words, tool calls and other parts by their places."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

from trails import parts
from trails.diff import sequences, structures
from trails.diff.structures import Edit
from trails.diff.values import CallChange, Detail
from trails.diff.words import Span, spans
from trails.model import ToolCall, Turn

Answers = tuple[tuple[str, ...], tuple[str, ...]]


def between(left: Turn, right: Turn, answers: Answers = ((), ())) -> Detail:
    """Return what differs between two turns; `answers` are the tool calls that each of them answers."""
    text, edits, form = _content(left, right)
    calls = calls_between(left.tool_calls, right.tool_calls)
    return Detail(
        text=text,
        parts=edits,
        calls=calls if any(call.kind != "equal" for call in calls) else (),
        answers=answers if answers[0] != answers[1] else None,
        form=form,
        withheld=left.redacted or right.redacted or any(c.withheld for c in (*left.tool_calls, *right.tool_calls)),
    )


def _content(left: Turn, right: Turn) -> tuple[tuple[Span, ...], tuple[Edit, ...], bool]:
    """Return the word diff, the edits of parts, and whether the sides differ in their form."""
    if left.redacted or right.redacted or (left.text == right.text and left.structured == right.structured):
        return (), (), False
    if left.structured and right.structured:
        return (), _part_edits(left.content, right.content), False
    if left.structured or right.structured:
        old, new = parts.plain_text(left.content), parts.plain_text(right.content)
        return spans(old, new) if old != new else (), (), True
    return spans(left.text, right.text), (), False


def _part_edits(left: list[Any], right: list[Any]) -> tuple[Edit, ...]:
    """Return what differs between parts, tool calls aside unless nothing else tells the two apart."""
    found = structures.compare_lists(_other_parts(left), _other_parts(right))
    if found or calls_between(parts.calls_in(left), parts.calls_in(right), only_changes=True):
        return found
    return structures.compare([parts.without_call(part) for part in left], [parts.without_call(part) for part in right])


def _other_parts(content: list[Any]) -> list[tuple[int, Any]]:
    """Return the parts that are no tool calls, without call ids, each with its place among all parts."""
    return [(place, parts.without_call(part)) for place, part in enumerate(content) if not parts.calls_in([part])]


def call_key(call: ToolCall) -> str:
    """Return what makes two tool calls the same: name and arguments, whatever the order of keys, and not the id."""
    arguments = f"redacted {call.withheld}" if call.arguments is None else structures.canonical_text(call.arguments)
    return f"{call.name}\0{arguments}"


def calls_between(
    left: tuple[ToolCall, ...], right: tuple[ToolCall, ...], *, only_changes: bool = False
) -> tuple[CallChange, ...]:
    """Return two turns' tool calls side by side: same ones in order, then calls of one tool whose arguments changed."""
    made: list[CallChange] = []
    i = j = 0
    kept = sequences.matches([call_key(call) for call in left], [call_key(call) for call in right])
    for row, column in (*kept, (len(left), len(right))):
        made += _unequal(left[i:row], right[j:column])
        if row < len(left) and not only_changes:
            made.append(CallChange("equal", left[row], right[column]))
        i, j = row + 1, column + 1
    return tuple(made)


def _unequal(left: tuple[ToolCall, ...], right: tuple[ToolCall, ...]) -> list[CallChange]:
    """Pair the calls of one tool in their order; what has no partner is on one side only."""
    waiting: dict[str, list[ToolCall]] = defaultdict(list)
    for call in right:
        waiting[call.name].append(call)
    made, taken = [], set()
    for call in left:
        if waiting[call.name]:
            partner = waiting[call.name].pop(0)
            taken.add(id(partner))
            made.append(CallChange("changed", call, partner, _argument_edits(call, partner)))
        else:
            made.append(CallChange("left", call, None))
    return made + [CallChange("right", None, call) for call in right if id(call) not in taken]


def _argument_edits(left: ToolCall, right: ToolCall) -> tuple[Edit, ...]:
    if left.arguments is None or right.arguments is None:
        return ()
    try:
        return structures.compare(json.loads(left.arguments), json.loads(right.arguments))
    except (ValueError, RecursionError):  # written past Trails, or nested too deep to be walked: as text
        return (Edit("changed", "$", json.dumps(left.arguments), json.dumps(right.arguments)),)
