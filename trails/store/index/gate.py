"""Letting readers in side by side, and sometimes nobody: the engine must not be swapped under a running query.

Ctrl-C may come between any two steps of Python, also between a step that counts somebody in and the `with` that would
count him out. So nobody is counted: who is inside holds a lock of his own thread, taken by the `with` itself. Between
that and its block the interpreter (3.11 to 3.13) looks for no signals, nor between the block's end and giving it back.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Final
from weakref import WeakSet

_TOGETHER: Final = 8
"""Locks that one frame takes: with a frame for each, a thousand threads would be more than Python nests."""


class Gate:
    """`with gate:` goes in beside others; `gate.alone(work)` waits until all are out, and keeps everyone out.

    Whoever asks to be alone must not be inside, and must be the only one who asks (the store's write lock sees to that).
    """

    def __init__(self) -> None:
        self._own = threading.local()
        self._locks: WeakSet[Any] = WeakSet()  # those of threads that have ended are gone
        self._entry = threading.RLock()
        """Held by whoever is alone, and to let a new thread's lock in."""
        self._turn: Any = None
        """Held by somebody who wants to be alone: no promise, only so that those who come later do not keep him waiting."""

    @property
    def __enter__(self) -> Callable[[], object]:
        """The method that takes this thread's lock. As a property it is the lock's own, with no Python around it."""
        lock = self._lock()
        if (turn := self._turn) is not None and not lock._is_owned():
            with turn:
                pass
        return lock.__enter__  # type: ignore[no-any-return] # of type Any

    @property
    def __exit__(self) -> Callable[..., None]:  # noqa: PLE0302 - the method itself, not what gets it
        """The method that gives this thread's lock back."""
        return self._lock().__exit__  # type: ignore[no-any-return]

    def _lock(self) -> Any:
        """Return this thread's lock; a new one waits until nobody is alone."""
        try:
            return self._own.lock
        except AttributeError:
            with self._entry:
                lock = threading.RLock()
                self._locks.add(lock)
                self._own.lock = lock
                return lock

    def alone(self, work: Callable[[], object]) -> None:
        """Do some work once everyone is out; new ones wait until it is done.

        It is no context manager: one that is made of a generator lives on with the traceback of an interrupt, closed gate
        and all, for as long as somebody looks at that.
        """
        turn = threading.RLock()
        try:
            with turn, self._entry:
                self._turn = turn
                _holding(list(self._locks), work)
        finally:
            self._turn = None


def _holding(locks: Sequence[Any], work: Callable[[], object]) -> None:
    """Do some work with locks held: each by a `with`, so that an interrupt at any point gives all of them back."""
    if not locks:
        work()
        return
    a, b, c, d, e, f, g, h = (locks[n % len(locks)] for n in range(_TOGETHER))  # again and again: they count themselves
    with a, b, c, d, e, f, g, h:
        _holding(locks[_TOGETHER:], work)
