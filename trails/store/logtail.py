"""Following a store's log from outside, while its own process writes it: read only, whole lines, each once."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from trails.errors import InvalidInput
from trails.integrity import leaves

_POLL: Final = 0.2
"""Seconds between two looks at the log."""
_CHUNK: Final = 1 << 20
_RECENT: Final = 1000
"""Lines that are remembered, to find one's place again after a torn end was cut off."""


def whole_lines(log: Path) -> tuple[list[str], int]:
    """Return the lines that are whole, and where the next one begins."""
    data = log.read_bytes() if log.is_file() else b""
    end = data.rfind(b"\n") + 1
    return data[:end].decode("utf-8", "replace").split("\n")[:-1], end


class LogFollower:
    """Gives the lines that come into a log, each whole and once.

    When a store is opened after a crash, a torn end of its log is cut off, and other lines may stand there a moment
    later. Each line vouches for the one before it, so that is noticed: it goes on after the last line that still stands.
    """

    def __init__(self, log: Path, position: int, shown: Sequence[str]) -> None:
        """Begin at a position of a log's file, after the lines that `whole_lines` gave with it."""
        self._log = log
        self._position = position
        self._rest = b""
        self._last = shown[-1] if shown else None
        self._recent = deque(map(leaves.link_leaf, shown[-_RECENT:]), maxlen=_RECENT)

    def lines(self) -> Iterator[str]:
        """Give the lines to come, for ever: waits for each. Raises `InvalidInput` once the log is there no more."""
        try:
            file = self._log.open("rb")
        except FileNotFoundError as error:
            raise self._gone() from error
        with file:
            while True:
                found = self._look(file.fileno())
                for line in found:
                    self._last = line
                    self._recent.append(leaves.link_leaf(line))
                    yield line
                if not found:
                    now = self._log.stat() if self._log.is_file() else None
                    if now is None or not os.path.samestat(now, os.fstat(file.fileno())):
                        raise self._gone()
                    time.sleep(_POLL)

    def _gone(self) -> InvalidInput:
        return InvalidInput(f"the store at {self._log.parent} is gone or was replaced; run `trails tail` again")

    def _look(self, descriptor: int) -> list[str]:
        """Return the lines that are new and whole."""
        data = os.pread(descriptor, _CHUNK, self._position)
        cut = os.fstat(descriptor).st_size < self._position
        *whole, rest = (self._rest + data).split(b"\n")
        found = [line.decode("utf-8", "replace") for line in whole]
        if cut or (found and not leaves.follows(found[0], self._last)):
            return self._look_again()
        self._position, self._rest = self._position + len(data), rest
        return found

    def _look_again(self) -> list[str]:
        lines, self._position = whole_lines(self._log)
        self._rest = b""
        known = set(self._recent)
        start = next((at for at in range(len(lines), 0, -1) if leaves.link_leaf(lines[at - 1]) in known), 0)
        return lines[start:]
