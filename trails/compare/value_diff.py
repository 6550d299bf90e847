"""Diff JSON values, tool calls and turns."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, Literal

from trails.compare import text_diff
from trails.compare.text_diff import Span, diff_words
from trails.model import content_parts
from trails.model.values import ToolCall, Turn

MAX_DEPTH: Final = 100
"""Values nested deeper than this are compared as a whole."""

EditKind = Literal["added", "removed", "changed"]
_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Edit:
    """One place in a JSON value that differs.

    `path` is a JSONPath such as `$.items[2].name`: as it stands on the left for what was removed or changed, on the
    right for what was added. `left` and `right` are the values as JSON text, None if there is none.
    """

    kind: EditKind
    path: str
    left: str | None
    right: str | None

    @property
    def words(self) -> tuple[Span, ...]:
        """What differs inside, word by word, if one text was changed into another; else empty."""
        if self.left is None or self.right is None:
            return ()
        old, new = json.loads(self.left), json.loads(self.right)
        return diff_words(old, new) if isinstance(old, str) and isinstance(new, str) else ()

    def to_dict(self) -> dict[str, Any]:
        """Return the edit as plain values, ready for JSON; a side is left out if it has no value."""
        sides = {"left": self.left, "right": self.right}
        values = {side: json.loads(text) for side, text in sides.items() if text is not None}
        return {"kind": self.kind, "path": self.path} | values


def canonical(value: Any) -> str:
    """Return the JSON text of a value with sorted keys: equal for values that differ in the order of keys alone."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def canonical_text(text: str) -> str:
    """Return JSON text in canonical form; text that is no JSON, or is nested too deep to be read, as it is."""
    try:
        return canonical(json.loads(text))
    except (ValueError, RecursionError):
        return text


def compare_values(left: Any, right: Any) -> tuple[Edit, ...]:
    """Return what differs between two JSON values; empty if they differ in nothing but the order of keys.

    Items of lists are aligned, so an item put in front changes one place, not all. 1, 1.0 and true are different.

    >>> [(e.kind, e.path, e.left, e.right) for e in compare_values({"to": "Bern", "n": 1}, {"n": 2, "by": ["train"]})]
    [('removed', '$.to', '"Bern"', None), ('changed', '$.n', '1', '2'), ('added', '$.by', None, '["train"]')]
    """
    return tuple(_edits(left, right, "$", 0))


def _edits(left: Any, right: Any, path: str, depth: int) -> Iterator[Edit]:
    if depth < MAX_DEPTH and isinstance(left, Mapping) and isinstance(right, Mapping):
        yield from _object_edits(left, right, path, depth + 1)
    elif depth < MAX_DEPTH and isinstance(left, list) and isinstance(right, list):
        yield from _item_edits(list(enumerate(left)), list(enumerate(right)), path, depth + 1)
    elif (old := canonical(left)) != (new := canonical(right)):
        yield Edit("changed", path, old, new)


def _object_edits(left: Mapping[str, Any], right: Mapping[str, Any], path: str, depth: int) -> Iterator[Edit]:
    for key, value in left.items():
        place = path + _path_step(key)
        if key in right:
            yield from _edits(value, right[key], place, depth)
        else:
            yield Edit("removed", place, canonical(value), None)
    for key, value in right.items():
        if key not in left:
            yield Edit("added", path + _path_step(key), None, canonical(value))


_Items = Sequence[tuple[int, Any]]
"""Items of a list, each with its place."""


def compare_lists(left: _Items, right: _Items) -> tuple[Edit, ...]:
    """Return what differs between some of the items of two lists, each given with its place in its list."""
    return tuple(_item_edits(left, right, "$", 1))


def _item_edits(left: _Items, right: _Items, path: str, depth: int) -> Iterator[Edit]:
    kept = text_diff.match_sequences([canonical(item) for _, item in left], [canonical(item) for _, item in right])
    i = j = 0
    for row, column in (*kept, (len(left), len(right))):
        paired = min(row - i, column - j)
        for (place, old), (_, new) in zip(left[i : i + paired], right[j : j + paired], strict=True):
            yield from _edits(old, new, f"{path}[{place}]", depth)
        for place, old in left[i + paired : row]:
            yield Edit("removed", f"{path}[{place}]", canonical(old), None)
        for place, new in right[j + paired : column]:
            yield Edit("added", f"{path}[{place}]", None, canonical(new))
        i, j = row + 1, column + 1


def _path_step(key: str) -> str:
    return f".{key}" if _PLAIN_KEY.fullmatch(key) else f"[{json.dumps(key, ensure_ascii=False)}]"


EntryKind = Literal["equal", "changed", "left", "right"]
"""Both sides have it, each has its own version of it, or only one side has it."""


@dataclass(frozen=True, slots=True)
class CallChange:
    """A tool call on each side, or on one of them. `edits` says what differs in the arguments of a changed one."""

    kind: EntryKind
    left: ToolCall | None
    right: ToolCall | None
    edits: tuple[Edit, ...] = ()

    @property
    def name(self) -> str:
        """The tool's name."""
        call = self.left or self.right
        return call.name if call else ""

    def to_dict(self) -> dict[str, Any]:
        """Return the change as plain values, ready for JSON."""
        plain: dict[str, Any] = {"kind": self.kind, "name": self.name}
        if self.kind == "changed":
            return plain | {"edits": [edit.to_dict() for edit in self.edits]}
        call = self.left or self.right
        return plain | {"arguments": call.input if call else None}


@dataclass(frozen=True, slots=True)
class Detail:
    """What differs between the two turns of a changed entry; what does not differ is left empty.

    `text` is a word diff, of what a person would read if one side has plain text and the other structured parts.
    `parts` are places in structured content, tool calls aside. `calls` are all tool calls of both turns, where any
    differs. `answers` are the tool calls that each side answers, if these differ. `form` tells that one side is
    plain text and the other structured parts. `withheld` tells that a side was redacted, so nobody can compare it.
    """

    text: tuple[Span, ...] = ()
    parts: tuple[Edit, ...] = ()
    calls: tuple[CallChange, ...] = ()
    answers: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    form: bool = False
    withheld: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the detail as plain values, ready for JSON, without what is empty."""
        plain = {
            "text": [span.to_dict() for span in self.text],
            "parts": [edit.to_dict() for edit in self.parts],
            "calls": [call.to_dict() for call in self.calls],
            "answers": self.answers and {"left": list(self.answers[0]), "right": list(self.answers[1])},
            "form": self.form,
            "withheld": self.withheld,
        }
        return {name: value for name, value in plain.items() if value}


@dataclass(frozen=True, slots=True)
class Counts:
    """What one side's tail amounts to. Sums are of what was reported; None if nothing was."""

    turns: int = 0
    calls: int = 0
    """Model calls."""
    calls_without_usage: int = 0
    """Those of them that reported neither input nor output tokens: the sums leave them out."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: Decimal | None = None
    tool_counts: tuple[tuple[str, int], ...] = ()

    @property
    def tools(self) -> dict[str, int]:
        """How often each tool was called, by name (a fresh copy each time)."""
        return dict(self.tool_counts)

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as plain values, ready for JSON."""
        plain = {
            name: getattr(self, name)
            for name in ("turns", "calls", "calls_without_usage", "input_tokens", "output_tokens")
        }
        return plain | {"cost": None if self.cost is None else float(self.cost), "tools": self.tools}


@dataclass(frozen=True, slots=True)
class End:
    """One side of a diff: what it was called, its session, the length of its transcript, its head, its tail."""

    name: str
    session_id: str
    turns: int
    head: str | None
    counts: Counts

    def to_dict(self) -> dict[str, Any]:
        """Return the side as plain values, ready for JSON."""
        plain = {"name": self.name, "session": self.session_id, "turns": self.turns, "head": self.head}
        return plain | {"tail": self.counts.to_dict()}


@dataclass(frozen=True, slots=True)
class Ancestor:
    """Where two sessions last agree: `turns` shared turns, the digest of the last one, and the session that owns it.

    `found_by` is "lineage" if forks say so, "digests" if equal digests do (copies of one history).
    """

    turns: int
    digest: str
    session_id: str
    found_by: Literal["lineage", "digests"]

    def to_dict(self) -> dict[str, Any]:
        """Return the ancestor as plain values, ready for JSON."""
        return {"turns": self.turns, "digest": self.digest, "session": self.session_id, "found_by": self.found_by}


Answers = tuple[tuple[str, ...], tuple[str, ...]]


def detail_between(left: Turn, right: Turn, answers: Answers = ((), ())) -> Detail:
    """Return what differs between two turns; `answers` are the tool calls that each of them answers."""
    text, edits, form = _content_detail(left, right)
    calls = calls_between(left.tool_calls, right.tool_calls)
    return Detail(
        text=text,
        parts=edits,
        calls=calls if any(call.kind != "equal" for call in calls) else (),
        answers=answers if answers[0] != answers[1] else None,
        form=form,
        withheld=left.redacted or right.redacted or any(c.withheld for c in (*left.tool_calls, *right.tool_calls)),
    )


def _content_detail(left: Turn, right: Turn) -> tuple[tuple[Span, ...], tuple[Edit, ...], bool]:
    """Return the word diff, the edits of parts, and whether the sides differ in their form."""
    if left.redacted or right.redacted or (left.text == right.text and left.structured == right.structured):
        return (), (), False
    if left.structured and right.structured:
        return (), _part_edits(left.content, right.content), False
    if left.structured or right.structured:
        old, new = content_parts.plain_text(left.content), content_parts.plain_text(right.content)
        return diff_words(old, new) if old != new else (), (), True
    return diff_words(left.text, right.text), (), False


def _part_edits(left: list[Any], right: list[Any]) -> tuple[Edit, ...]:
    """Return what differs between parts, tool calls aside unless nothing else tells the two apart."""
    edits = compare_lists(_other_parts(left), _other_parts(right))
    if edits or calls_between(content_parts.calls_in(left), content_parts.calls_in(right), only_changes=True):
        return edits
    return compare_values(
        [content_parts.without_call(part) for part in left], [content_parts.without_call(part) for part in right]
    )


def _other_parts(content: list[Any]) -> list[tuple[int, Any]]:
    """Return the parts that are no tool calls, without call ids, each with its place among all parts."""
    return [
        (place, content_parts.without_call(part))
        for place, part in enumerate(content)
        if not content_parts.calls_in([part])
    ]


def call_key(call: ToolCall) -> str:
    """Return what makes two tool calls the same: name and arguments, whatever the order of keys, and not the id."""
    arguments = f"redacted {call.withheld}" if call.arguments is None else canonical_text(call.arguments)
    return f"{call.name}\0{arguments}"


def calls_between(
    left: tuple[ToolCall, ...], right: tuple[ToolCall, ...], *, only_changes: bool = False
) -> tuple[CallChange, ...]:
    """Return two turns' tool calls side by side: same ones in order, then calls of one tool whose arguments changed."""
    changes: list[CallChange] = []
    i = j = 0
    kept = text_diff.match_sequences([call_key(call) for call in left], [call_key(call) for call in right])
    for row, column in (*kept, (len(left), len(right))):
        changes += _unequal(left[i:row], right[j:column])
        if row < len(left) and not only_changes:
            changes.append(CallChange("equal", left[row], right[column]))
        i, j = row + 1, column + 1
    return tuple(changes)


def _unequal(left: tuple[ToolCall, ...], right: tuple[ToolCall, ...]) -> list[CallChange]:
    """Pair the calls of one tool in their order; what has no partner is on one side only."""
    waiting: dict[str, list[ToolCall]] = defaultdict(list)
    for call in right:
        waiting[call.name].append(call)
    changes, taken = [], set()
    for call in left:
        if waiting[call.name]:
            partner = waiting[call.name].pop(0)
            taken.add(id(partner))
            changes.append(CallChange("changed", call, partner, _argument_edits(call, partner)))
        else:
            changes.append(CallChange("left", call, None))
    return changes + [CallChange("right", None, call) for call in right if id(call) not in taken]


def _argument_edits(left: ToolCall, right: ToolCall) -> tuple[Edit, ...]:
    if left.arguments is None or right.arguments is None:
        return ()
    try:
        return compare_values(json.loads(left.arguments), json.loads(right.arguments))
    except (ValueError, RecursionError):  # written past Trails, or nested too deep to be walked: as text
        return (Edit("changed", "$", json.dumps(left.arguments), json.dumps(right.arguments)),)
