"""What an export wrote, and what its format could not say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class SessionExport:
    """What was written of a session: of which sessions, how many turns, each once, and what the format has no place for."""

    format: str
    sessions: tuple[str, ...]
    turns: int
    left_out: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, ready for JSON."""
        return {
            "format": self.format,
            "sessions": list(self.sessions),
            "turns": self.turns,
            "left_out": list(self.left_out),
        }
