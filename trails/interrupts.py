"""Ctrl-C while threads work: told at once, raised where nothing is half done.

Python raises `KeyboardInterrupt` between any two steps of the main thread, also between taking a lock that it shares with a
pool's threads and the block that gives it back: then they wait for it forever, and so does whoever waits for them.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def held_back(stop: Callable[[], object] | None = None) -> Iterator[Callable[[], None]]:
    """Give what raises an interrupt that came meanwhile, for where nothing is half done; the block's end does it too.

    `stop` is called as soon as it comes, amid whatever the main thread does, so it takes no lock that is shared with another
    thread. A second interrupt is raised at once, for whoever does not want to wait. In a thread that gets none, and where
    the host has a handler of its own, nothing is held back.

    >>> with held_back() as give_way:
    ...     give_way()
    """
    came = False

    def take(number: int, frame: FrameType | None) -> None:
        nonlocal came
        if came:
            signal.default_int_handler(number, frame)
        came = True
        if stop is not None:
            stop()

    def give_way() -> None:
        if came:
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread() or not _is_default():
        yield give_way
        return
    signal.signal(signal.SIGINT, take)
    try:
        yield give_way
        give_way()
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _is_default() -> bool:
    return signal.getsignal(signal.SIGINT) is signal.default_int_handler
