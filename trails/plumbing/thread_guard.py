"""One thread at a time on a handle: a second one is told, or waits where the first is soon done."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from trails.errors import TrailsError


class OneThread:
    """A `with` block that one thread is in at a time: a second one is an error, unless the first went in by `patiently`.

    A handle's turns and what is pending of them must fit; two threads that append to one handle would mix them up.
    """

    __slots__ = ("_lock", "_patient", "_session_id")

    def __init__(self, session_id: str) -> None:
        self._lock = threading.RLock()
        self._patient: set[int] = set()
        self._session_id = session_id

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=bool(self._patient)):
            raise TrailsError(
                f"this handle on session {self._session_id!r} is being used by another thread right now; nothing was done. "
                "Give each thread its own handle (store.load), or let one thread at a time use this one"
            )

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    @contextmanager
    def patiently(self) -> Iterator[None]:
        """Wait for another thread that is in, and let others wait meanwhile: for what is short and not to be refused."""
        mine = threading.get_ident()
        self._patient.add(mine)
        try:
            with self._lock:
                yield
        finally:
            self._patient.discard(mine)
