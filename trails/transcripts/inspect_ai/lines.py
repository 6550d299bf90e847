"""The lines of a sample's conversation: what each message says, and what model calls make of one another.

A model call is given a whole history. What of it a line does not have yet goes on that line; a call that leaves all lines
makes one of its own from where it leaves the nearest.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

_Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Said:
    """A message in a line, its references resolved, with the event that made it where one is known."""

    key: str
    """The same for messages that say the same."""
    message: _Json
    event: _Json | None = None


Line = list[Said]


def key_of(message: _Json) -> str:
    """Return what two messages have in common that say the same: ids are drawn anew when a branch replays its past.

    >>> key_of({"role": "user", "content": "a"}) == key_of({"role": "user", "content": "a", "id": "m1"})
    True
    """
    content = message.get("content")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    calls = message.get("tool_calls")
    asked = [
        [call.get("id"), call.get("function"), call.get("arguments")] if isinstance(call, dict) else call
        for call in (calls if isinstance(calls, list) else [])
    ]
    said = [message.get("role"), content or [], asked, message.get("tool_call_id")]
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def common(one: Line, other: Line) -> int:
    """Return how many messages two lines begin with that say the same."""
    count = 0
    for a, b in zip(one, other, strict=False):
        if a.key != b.key:
            break
        count += 1
    return count


@dataclass(slots=True)
class Lines:
    """Lines that model calls make, in the order in which they come; the first one is the main one."""

    base: Line = field(default_factory=list)
    """What the calls may begin with: the line that they leave."""
    lines: list[Line] = field(default_factory=list)
    forked_at: int = 0
    """How many messages of the base the first line begins with."""

    def add(self, given: Line, answers: Sequence[Said]) -> None:
        """Add what a call was given, and each of its answers: another one than the first is a line of its own."""
        line = self._line_for(given)
        length = len(line)
        line += answers[:1]
        self.lines += [[*line[:length], answer] for answer in answers[1:]]

    def _line_for(self, given: Line) -> Line:
        """Return the line that ends with what a call was given."""
        if not self.lines:
            self.forked_at = common(self.base, given)
            self.lines.append([*self.base[: self.forked_at], *map(replace, given[self.forked_at :])])
            return self.lines[0]
        shared = [common(line, given) for line in self.lines]
        best = max(range(len(shared)), key=lambda n: (shared[n], shared[n] == len(self.lines[n]), n))
        line, at = self.lines[best], shared[best]
        if at < len(line):
            line = line[:at]
            self.lines.append(line)
        line += map(replace, given[at:])  # the same message of a pool is another one in each line
        return line
