"""The frozen values that a diff is made of: what differs inside two turns, and what each side amounts to."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

from trails.diff.structures import Edit
from trails.diff.words import Span
from trails.model import ToolCall

Kind = Literal["equal", "changed", "left", "right"]
"""Both sides have it, each has its own version of it, or only one side has it."""


@dataclass(frozen=True, slots=True)
class CallChange:
    """A tool call on each side, or on one of them. `edits` says what differs in the arguments of a changed one."""

    kind: Kind
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

    `text` is a word diff, of what a person would read where one side has plain text and the other structured parts.
    `parts` are places in structured content, tool calls aside. `calls` are all tool calls of both turns, where any
    differs. `answers` are the tool calls that each side answers, where these differ. `form` tells that one side is
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
        plain: dict[str, Any] = {}
        if self.text:
            plain["text"] = [span.to_dict() for span in self.text]
        if self.parts:
            plain["parts"] = [edit.to_dict() for edit in self.parts]
        if self.calls:
            plain["calls"] = [call.to_dict() for call in self.calls]
        if self.answers:
            plain["answers"] = {"left": list(self.answers[0]), "right": list(self.answers[1])}
        if self.form:
            plain["form"] = True
        if self.withheld:
            plain["withheld"] = True
        return plain


@dataclass(frozen=True, slots=True)
class Counts:
    """What one side's tail amounts to. Sums are of what was reported; None where nothing was."""

    turns: int = 0
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
        return {
            "turns": self.turns,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cost": None if self.cost is None else float(self.cost),
            "tools": self.tools,
        }


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
        return {
            "name": self.name,
            "session": self.session_id,
            "turns": self.turns,
            "head": self.head,
            "tail": self.counts.to_dict(),
        }


@dataclass(frozen=True, slots=True)
class Ancestor:
    """Where two sessions last agree: `turns` shared turns, the digest of the last one, and the session that owns it.

    `found_by` is "lineage" where forks say so, "digests" where equal digests do (copies of one history).
    """

    turns: int
    digest: str
    session_id: str
    found_by: Literal["lineage", "digests"]

    def to_dict(self) -> dict[str, Any]:
        """Return the ancestor as plain values, ready for JSON."""
        return {"turns": self.turns, "digest": self.digest, "session": self.session_id, "found_by": self.found_by}
