"""Lanes: how many pieces of work of a kind may go on at once, so that sub-agents never keep the main one waiting.

What stands here starts no thread: it says what may begin now. Whoever asks works on it (`Lanes.drain`), on the thread
that it asks from; `LaneThreads` and `drain_wide` ask from several.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from types import TracebackType
from typing import Final, Literal, Self, get_args

from trails.errors import InvalidInput
from trails.model import validation

Lane = Literal["main", "subagent", "nested"]
"""Where work goes on: answers to people, sub-agents' runs, and steps that sessions ask of one another."""
LANES: Final[tuple[Lane, ...]] = get_args(Lane)
DEFAULT_LIMITS: Final[Mapping[Lane, int]] = {"main": 4, "subagent": 8, "nested": 1}

Job = Callable[[], object]
_TAKEN: Final = "threads or an event loop work on these lanes already"
_report = logging.getLogger("trails.runtime.runs")


class Ticket:
    """A piece of work that has its place in a lane: `run` does it, once, and gives the place back."""

    def __init__(self, lanes: Lanes, lane: Lane, job: Job) -> None:
        """Not for callers: see `Lanes.take`."""
        self._lanes = lanes
        self._job = job
        self.lane: Lane = lane

    def run(self) -> None:
        """Do the work on this thread; what it raises is raised."""
        try:
            self._job()
        finally:
            self._lanes.leave(self.lane)


class Lanes:
    """Work that waits in lanes, first come first served in each, and how much of it goes on.

    >>> lanes = Lanes({"subagent": 1})
    >>> for name in ("a", "b"):
    ...     lanes.submit("subagent", lambda name=name: print(name))
    >>> first = lanes.take()
    >>> lanes.take() is None, lanes.active("subagent"), lanes.waiting("subagent")
    (True, 1, 1)
    >>> first.run()
    a
    >>> lanes.drain()
    b
    1
    """

    def __init__(self, limits: Mapping[Lane, int] | None = None) -> None:
        """Make lanes with limits, 1 or more each; those left out have the usual ones: main 4, subagent 8, nested 1."""
        self._limits = dict(DEFAULT_LIMITS)
        for lane, limit in (limits or {}).items():
            if lane not in LANES:
                raise InvalidInput(f"a lane is one of {', '.join(LANES)}, not {lane!r}")
            if validation.index(limit, f"the limit of the lane {lane}") < 1:
                raise InvalidInput(f"the limit of the lane {lane} must be 1 or more, not {limit}")
            self._limits[lane] = limit
        self._lock = threading.Lock()
        self._queues: dict[Lane, deque[Job]] = {lane: deque() for lane in LANES}
        self._active: dict[Lane, int] = dict.fromkeys(LANES, 0)
        self.listener: Callable[[Lane], None] | None = None
        """Called when work of a lane may begin."""

    def limit(self, lane: Lane) -> int:
        """Return how many pieces of work may go on in a lane at once."""
        return self._limits[lane]

    @property
    def width(self) -> int:
        """How many pieces of work may go on at once in all lanes."""
        return sum(self._limits.values())

    def active(self, lane: Lane) -> int:
        """Return how many pieces of work go on in a lane."""
        return self._active[lane]

    def waiting(self, lane: Lane) -> int:
        """Return how many pieces of work wait in a lane."""
        return len(self._queues[lane])

    def submit(self, lane: Lane, job: Job) -> None:
        """Let a piece of work wait in a lane."""
        with self._lock:
            self._queues[lane].append(job)
        self._tell(lane)

    def take(self, lanes: Collection[Lane] = LANES) -> Ticket | None:
        """Return the next piece of work that may begin, its place taken; None where nothing may. Main goes first."""
        with self._lock:
            for lane in LANES:
                if lane in lanes and self._queues[lane] and self._active[lane] < self._limits[lane]:
                    self._active[lane] += 1
                    return Ticket(self, lane, self._queues[lane].popleft())
        return None

    def enter(self, lane: Lane) -> bool:
        """Take a place in a lane for work that is at hand; False where the lane is full. `leave` gives it back."""
        with self._lock:
            if self._active[lane] >= self._limits[lane]:
                return False
            self._active[lane] += 1
            return True

    def leave(self, lane: Lane) -> None:
        """Give a place in a lane back."""
        with self._lock:
            self._active[lane] -= 1
            more = bool(self._queues[lane])
        if more:
            self._tell(lane)

    def _tell(self, lane: Lane) -> None:
        listener = self.listener
        if listener is not None:
            listener(lane)

    def drain(self, limit: int | None = None, lanes: Collection[Lane] = LANES) -> int:
        """Work on what may begin, one after the other on this thread, until nothing may; return how many were done."""
        done = 0
        while (limit is None or done < limit) and (ticket := self.take(lanes)) is not None:
            ticket.run()
            done += 1
        return done

    def drain_wide(self, stopped: Callable[[], bool] = lambda: False) -> int:
        """Do the same with as many at once as the lanes let, on threads; return once nothing is left, or it is `stopped`."""
        if self.listener is not None:
            raise InvalidInput(_TAKEN)
        woken, done = threading.Event(), 0
        going: set[Future[None]] = set()
        self.listener = lambda _: woken.set()
        # Threads for all lanes together: work in one that waits for work in another does not keep it waiting.
        with ThreadPoolExecutor(max_workers=self.width, thread_name_prefix="trails-lane") as pool:
            try:
                while True:
                    woken.clear()
                    while not stopped() and (ticket := self.take()) is not None:
                        going.add(pool.submit(copy_context().run, ticket.run))
                    if not going:
                        return done
                    for each in going:
                        each.add_done_callback(lambda _: woken.set())
                    woken.wait()
                    for each in [one for one in going if one.done()]:
                        going.discard(each)
                        each.result()
                        done += 1
            finally:
                self.listener = None


class LaneThreads:
    """Threads that work on what comes into lanes, until `close`. Also a context manager.

    Each lane has threads of its own, as many as its limit at most, so that a full one keeps no other waiting. What a
    piece of work raises is logged, and the last one is in `error`.
    """

    def __init__(self, lanes: Lanes) -> None:
        """Begin to work on lanes, which no other threads work on."""
        if lanes.listener is not None:
            raise InvalidInput(_TAKEN)
        self._lanes = lanes
        self._pools = {
            lane: ThreadPoolExecutor(max_workers=lanes.limit(lane), thread_name_prefix=f"trails-{lane}")
            for lane in LANES
        }
        self.error: BaseException | None = None
        """What the last piece of work that failed raised."""
        lanes.listener = self._wake
        for lane in LANES:
            for _ in range(lanes.waiting(lane)):
                self._wake(lane)

    def _wake(self, lane: Lane) -> None:
        with contextlib.suppress(RuntimeError):  # closed meanwhile: what waits stays where it is
            self._pools[lane].submit(self._work, lane)

    def _work(self, lane: Lane) -> None:
        ticket = self._lanes.take([lane])
        if ticket is None:
            return
        try:
            ticket.run()
        except Exception as error:  # noqa: BLE001 - a thread has nobody to raise it to
            self.error = error
            _report.exception("work in the lane %s failed", lane)

    def close(self) -> None:
        """Take up no more, and return once what goes on has ended; what waits stays where it is."""
        self._lanes.listener = None
        for pool in self._pools.values():
            pool.shutdown(wait=True, cancel_futures=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
