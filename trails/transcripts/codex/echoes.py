"""What stands in a rollout twice: as a response item, and as an event that the program showed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from trails.transcripts.codex.entry import Entry

MOST: Final = 64
"""How many entries of a side wait at a time."""


@dataclass(slots=True)
class Echoes:
    """Entries that may still be told a second time, by whose they are: `user`, `agent`, `assistant`, `reasoning`."""

    _waiting: dict[str, list[Entry]] = field(default_factory=dict)

    def add(self, side: str, entry: Entry) -> None:
        """Let an entry wait for what repeats it."""
        self._waiting.setdefault(side, []).append(entry)
        del self._waiting[side][:-MOST]

    def of(self, side: str) -> list[Entry]:
        """Return the entries of a side, oldest first."""
        return self._waiting.get(side, [])

    def settle(self, *sides: str) -> None:
        """Decide what still waits: nothing will repeat it any more."""
        for side in sides:
            for entry in self._waiting.pop(side, []):
                entry.waits = False

    def take(self, side: str, fits: Callable[[Entry], bool]) -> Entry | None:
        """Return the newest entry that fits, and wait for it no more."""
        for entry in reversed(self.of(side)):
            if fits(entry):
                self._waiting[side].remove(entry)
                return entry
        return None

    def drop(self, side: str, entries: list[Entry]) -> None:
        """Wait for some entries no more."""
        gone = {id(entry) for entry in entries}
        if gone:
            self._waiting[side] = [entry for entry in self.of(side) if id(entry) not in gone]

    def events(self) -> set[int]:
        """Return the identities of the entries that are events, which an item may still replace."""
        return {id(entry) for entries in self._waiting.values() for entry in entries if entry.is_event}
