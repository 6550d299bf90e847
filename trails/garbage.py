"""How often Python looks for values that only hold each other, while much is made that does not."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_SELDOM: Final = 20_000
"""New values after which it looks, for Python's 700: that is a fifth of an import's time where a program has imported much."""


class _Looking:
    """How often it looks, whoever asks for less of it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._before = (0, 0, 0)

    def less(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._before = gc.get_threshold()
                if 0 < self._before[0] < _SELDOM:
                    gc.set_threshold(_SELDOM, *self._before[1:])

    def as_before(self) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside and gc.get_threshold() == (_SELDOM, *self._before[1:]):
                gc.set_threshold(*self._before)


_looking: Final = _Looking()


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Have Python's collector look less often within a block, on all threads; it is as before once the last one has ended.

    Where it looks as seldom already, or not at all, it is left alone, and so is whatever somebody sets meanwhile.
    """
    _looking.less()
    try:
        yield
    finally:
        _looking.as_before()
