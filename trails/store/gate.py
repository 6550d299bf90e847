"""Letting readers in side by side, and sometimes nobody: the engine must not be swapped under a running query."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Gate:
    """`with gate:` goes in beside others; `with gate.alone():` waits until all are out, and keeps everyone out.

    Whoever asks to be alone must not be inside, and must be the only one who asks (the store's write lock sees to that).
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._closed = False

    def __enter__(self) -> None:
        with self._changed:
            while self._closed:
                self._changed.wait()
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._inside -= 1
            if self._closed:
                self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Go in once everyone is out; new ones wait until this one leaves."""
        try:
            with self._changed:
                self._closed = True
                while self._inside:
                    self._changed.wait()
            yield
        finally:
            with self._changed:
                self._closed = False
                self._changed.notify_all()
