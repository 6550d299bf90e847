"""The clock of the runtime, and a thread that ticks.

The clock that a host may hand in, for tests and replays.

A clock that ticks on a thread of its own while a `with` block runs: what falls due happens without the host asking.
"""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

from trails.errors import ClockWarning, InvalidInput
from trails.handles import Handle
from trails.model import validation

Clock = Callable[[], datetime]
"""Gives the time, aware."""


def clock_time(clock: Clock | None) -> datetime:
    """Return a clock's time, or the system's if there is none.

    Raise `InvalidInput` for a time without a time zone.
    """
    return datetime.now(UTC) if clock is None else validation.time(clock(), "the clock's time")


Wait = Callable[[float, threading.Event], object]
"""Waits for a number of seconds, or until the event is set, whichever comes first; for tests and other clocks."""


def _wait(seconds: float, stop: threading.Event) -> None:
    stop.wait(seconds)


class Ticking(Handle):
    """A `with` block in which something ticks: made by `Tree.ticking` and `Runs.ticking`.

    What a tick raises warns at once (`ClockWarning`), the clock goes on, and the first error is raised when the block ends,
    unless the block raises one itself. Once the store is closed, the clock ends.
    """

    def __init__(
        self, tick: Callable[[], object], is_closed: Callable[[], bool], every: float, wait: Wait | None
    ) -> None:
        """Not for callers."""
        if type(every) not in (int, float) or not 0 < every < math.inf:
            raise InvalidInput(f"a clock ticks every so many seconds, a number over 0, not {every!r}")
        self._tick = tick
        self._is_closed = is_closed
        self._every = float(every)
        self._wait = _wait if wait is None else wait
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.ticks = 0
        """How often it ticked so far."""
        self.errors: list[BaseException] = []
        """What its ticks raised, the first first."""

    def __repr__(self) -> str:
        return f"<Ticking every {self._every:g} s: {self.ticks} ticks, {len(self.errors)} errors>"

    def __enter__(self) -> Self:
        if self._thread is not None:
            raise InvalidInput("this clock was started before; ask for another one with ticking()")
        self._thread = threading.Thread(target=self._run, name="trails-clock", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        if not self.errors:
            return
        if error is not None:
            error.add_note(f"a clock that ticked meanwhile failed, too: {self.errors[0]!r}")
            return
        if len(self.errors) > 1:
            self.errors[0].add_note(f"the clock failed {len(self.errors)} times; this was the first")
        raise self.errors[0]

    def _run(self) -> None:
        while not self._stop.is_set() and not self._is_closed():
            try:
                self._tick()
            except BaseException as error:  # noqa: BLE001 - kept, told at once, and raised at the block's end
                if self._is_closed():
                    return  # somebody closed the store during the tick
                self.errors.append(error)
                with suppress(Warning):  # if warnings are errors: it is kept in any case
                    warnings.warn(f"a tick of the clock failed: {error!r}", ClockWarning, stacklevel=2)
            self.ticks += 1
            self._wait(self._every, self._stop)
