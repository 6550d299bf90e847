"""One page of the list of sessions, newest first, in a store with very many."""

from __future__ import annotations

import trails
from benchmarks.harness import Contestant, Result, Setting, medians, timed

_PAGE = 50
_FIRST = "first page"


def run(setting: Setting) -> list[Result]:
    """Measure the first page, a page in the middle and the first page of one of ten principals."""
    count = setting.size.sessions
    with trails.open(setting.folder / "store", create=True, durability="process") as store:
        for number in range(count):
            store.create(id=f"s{number}", principal=f"p{number % 10}").persist()
        limit = min(_PAGE, count // 4)
        middle = None
        for _ in range(max(1, count // limit // 2)):
            middle = store.list(limit=limit, cursor=middle).cursor
        contestants = [
            Contestant(_FIRST, lambda: timed(lambda: store.list(limit=limit))),
            Contestant("a page in the middle", lambda: timed(lambda: store.list(limit=limit, cursor=middle))),
            Contestant("first page of a principal", lambda: timed(lambda: store.list(limit=limit, principal="p3"))),
        ]
        seconds = medians(contestants, setting.size.rounds)
    return [
        Result(
            name="listing",
            title=f"a page of {limit} among {count:,} sessions",
            baseline=_FIRST,
            seconds=seconds,
        )
    ]
