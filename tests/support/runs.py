"""What the tests of runs share: the key of the one who asks, and ids in order."""

from __future__ import annotations

from collections.abc import Callable

MAIN = "agent:main:main"


def counter() -> Callable[[], str]:
    ids = iter(range(1, 1000))
    return lambda: f"id-{next(ids)}"
