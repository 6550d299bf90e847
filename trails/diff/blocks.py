"""What a diff shows, whatever it is written as: an entry's blocks, its place, and which entries are far from any difference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from trails import parts
from trails.diff.structures import Edit
from trails.diff.values import CallChange, Detail, End, Kind
from trails.diff.words import Span
from trails.legible import count, one_line
from trails.model import CUT, Turn

CONTEXT: Final = 3
"""How many lines of a patch stand before and after a difference, and equal turns elsewhere, as in git."""


class Aligned(Protocol):
    """What an entry of a diff has, as far as it is shown."""

    @property
    def kind(self) -> Kind:
        """Whether both sides have it, and how."""

    @property
    def left(self) -> Turn | None:
        """The left side's turn."""

    @property
    def right(self) -> Turn | None:
        """The right side's turn."""

    @property
    def detail(self) -> Detail:
        """What differs inside a changed one."""


_Entry = TypeVar("_Entry", bound=Aligned)


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of an entry: what it is ("" for the text itself), and its spans."""

    label: str
    spans: tuple[Span, ...]


def blocks_of(entry: Aligned) -> tuple[Block, ...]:
    """Return what an entry shows: a turn's text on one side, or all that differs between the two."""
    if entry.kind == "changed":
        return tuple(_changes(entry))
    turn = entry.left or entry.right
    side = entry.kind
    return (Block("", (Span(side, readable(turn)),)),) if turn else ()


def readable(turn: Turn) -> str:
    """Return what a person reads of a turn: its text, then the tool calls that do not stand in it."""
    if turn.redacted:
        return "(redacted)"
    content = turn.content
    inside = {call.id for call in parts.calls_in(content)} if turn.structured else set()
    calls = (
        f"[calls {call.name} {'(redacted)' if call.arguments is None else call.arguments}]"
        for call in turn.tool_calls
        if call.id not in inside
    )
    return "\n".join(filter(None, (parts.plain_text(content), *calls, f"[{CUT}]" if turn.is_cut else "")))


def _changes(entry: Aligned) -> Iterator[Block]:
    detail = entry.detail
    if detail.withheld:
        yield Block("redacted, so not compared", _sides(*(_state(turn) for turn in (entry.left, entry.right))))
    if detail.text or not (detail.parts or detail.withheld):
        yield from _text_block(entry, detail.text)
    sides = [CUT if turn is not None and turn.is_cut else "" for turn in (entry.left, entry.right)]
    if any(sides):
        yield Block("broke off", _sides(*sides))
    for edit in detail.parts:
        yield Block(edit.path, _edit_spans(edit))
    for call in detail.calls:
        yield from _call_blocks(call)
    if detail.answers:
        yield Block("answers", _sides(*(", ".join(names) for names in detail.answers)))
    if detail.form and not detail.text:
        forms = ("parts" if turn and turn.structured else "plain text" for turn in (entry.left, entry.right))
        yield Block("form", _sides(*forms))


def _text_block(entry: Aligned, text: tuple[Span, ...]) -> Iterator[Block]:
    """Yield the word diff, or the text that both turns have: what else differs is easier to read below it."""
    if not text and entry.left is not None:
        content = entry.left.content
        same = content if isinstance(content, str) else [part for part in content if not parts.calls_in([part])]
        text = (Span("equal", parts.plain_text(same)),)
    if text and text[0].text:
        yield Block("", text)


def _state(turn: Turn | None) -> str:
    if turn is None:
        return ""
    return "(redacted)" if turn.redacted else readable(turn)


def _sides(left: str, right: str) -> tuple[Span, ...]:
    if left == right:
        return (Span("equal", left),)
    return tuple(span for span in (Span("left", left), Span("right", right)) if span.text)


def _edit_spans(edit: Edit) -> tuple[Span, ...]:
    return edit.words or _sides(edit.left or "", edit.right or "")


def _call_blocks(call: CallChange) -> Iterator[Block]:
    title = f"calls {call.name}"
    if call.kind == "changed" and call.edits:
        for edit in call.edits:
            yield Block(f"{title} {edit.path}", _edit_spans(edit))
        return
    left, right = (None if each is None else each.arguments or "(redacted)" for each in (call.left, call.right))
    if call.kind == "equal":
        yield Block(title, (Span("equal", left or ""),))
    elif call.kind == "changed":
        yield Block(f"{title}, arguments", _sides(left or "", right or ""))
    else:
        yield Block(title, (Span(call.kind, left or right or ""),))


def place(entry: Aligned) -> str:
    """Return an entry's indices: `4` where both sides have the same one, `4/6` where not."""
    indices = [turn.index for turn in (entry.left, entry.right) if turn is not None]
    return "/".join(str(index) for index in dict.fromkeys(indices))


def title(end: End) -> str:
    """Return a side's name, its length and its head, on one clean line."""
    head = f", {end.head[:8]}" if end.head and end.turns else ""
    return one_line(f"{end.name} ({count(end.turns, 'turn')}{head})")


def runs(entries: Sequence[_Entry]) -> Iterator[tuple[_Entry, ...] | int]:
    """Yield entries in order, one a tuple; a number stands for equal turns that are far from any difference."""
    differ = [number for number, entry in enumerate(entries) if entry.kind != "equal"]
    near = {close for number in differ for close in range(number - CONTEXT, number + CONTEXT + 1)}
    hidden = 0
    for number, entry in enumerate(entries):
        if number in near or len(entries) <= 2 * CONTEXT:
            if hidden:
                yield hidden
                hidden = 0
            yield (entry,)
        else:
            hidden += 1
    if hidden:
        yield hidden


def marked(spans: Sequence[Span]) -> str:
    """Return spans as one text, with `[-...-]` around what is only left and `{+...+}` around what is only right."""
    marks = {"equal": ("", ""), "left": ("[-", "-]"), "right": ("{+", "+}")}
    return "".join(f"{marks[span.side][0]}{span.text}{marks[span.side][1]}" for span in spans)
