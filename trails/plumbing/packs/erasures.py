"""Of which sessions a store's log says that something was taken out of them, and after which of its lines.

A redaction changes neither the digest of a session's last turn nor how many turns there are, so that a pack from before it,
which somebody put back with the rest of its folder, is told by the log alone.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final

from trails.plumbing.index import changes
from trails.store.leaflog import NOTHING, LeafLog, Leaves

ERASING: Final = ("redact ", "detach ", "delete ")
"""How the lines begin after which a session's turns are not what they were."""


class Erasures:
    """What a log tells of this. Its lines are read when they are needed, each at most twice."""

    def __init__(self) -> None:
        """Nothing is read yet."""
        self._lock = threading.Lock()
        self._start: Leaves | None = None
        self._end = NOTHING
        self._forget()

    def are_after(self, place: Leaves, session_id: str, log: LeafLog) -> bool:
        """Tell whether a log says behind a place, which it must hold, that something was taken out of a session."""
        with self._lock:
            if self._start is None or not log.holds(self._end):
                self._read(log, place)
            elif place.lines < self._start.lines:
                self._read(log, NOTHING)
            elif self._end != log.reached:
                self._read_on(log)
            return max(self._of_all, self._of_one.get(session_id, 0)) > place.lines

    def _forget(self) -> None:
        self._of_one: dict[str, int] = {}
        self._of_all = 0

    def _read(self, log: LeafLog, start: Leaves) -> None:
        self._forget()
        self._start = self._end = start
        self._read_on(log)

    def _read_on(self, log: LeafLog) -> None:
        before = self._end
        lines, self._end = log.since(before)
        self._note(lines, before.lines + 1)

    def _note(self, lines: Sequence[str], first: int) -> None:
        for number, line in enumerate(lines, first):
            if line.startswith(ERASING):
                changed = changes.of_lines([line])
                if changed is None:
                    self._of_all = number
                else:
                    self._of_one.update(dict.fromkeys(changed, number))
