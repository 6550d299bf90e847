"""One page of the list of sessions and of a search, in a store with very many, and what the index costs to make."""

from __future__ import annotations

import trails
from benchmarks.harness import Contestant, Result, Setting, Target, medians, timed

_PAGE = 50
_FIRST = "first page"
_SEARCH = "search, first page"


def run(setting: Setting) -> list[Result]:
    """Measure pages of records, of summaries and of hits, beside the owner too, and making the index of it all once."""
    count, place = setting.size.sessions, setting.folder / "store"
    with trails.open(place, create=True, durability="process") as store:
        for number in range(count):
            session = store.create(id=f"s{number}", principal=f"p{number % 10}", meta={"project": f"q{number % 50}"})
            session.append("user", f"Plan a trip to place {number}, by train and on foot")
            session.append("assistant", "Where from?", model=f"m-{number % 3}", usage={"input_tokens": number % 900})
            session.persist()
        made = timed(lambda: (store.summaries(limit=1), store.search("on foot", limit=1)))
        limit = min(_PAGE, count // 4)
        middle = None
        for _ in range(max(1, count // limit // 2)):
            middle = store.summaries(limit=limit, cursor=middle).cursor
        rare = f"place {count // 2},"
        with trails.open(place, read_only=True) as view:
            contestants = [
                Contestant(_FIRST, lambda: timed(lambda: store.list(limit=limit))),
                Contestant("with titles and figures", lambda: timed(lambda: store.summaries(limit=limit))),
                Contestant("a page in the middle", lambda: timed(lambda: store.summaries(limit=limit, cursor=middle))),
                Contestant(
                    "of a project, by tokens", lambda: timed(lambda: store.summaries(project="q3", sort="tokens"))
                ),
                Contestant("beside the owner", lambda: timed(lambda: view.summaries(limit=limit))),
                Contestant(_SEARCH, lambda: timed(lambda: store.search("on foot", limit=limit))),
                Contestant("search, one hit", lambda: timed(lambda: store.search(rare, limit=limit))),
                Contestant("stats by model", lambda: timed(lambda: store.stats(by="model"))),
            ]
            seconds = medians(contestants, setting.size.rounds)
    seconds |= {"making the index": made}
    return [
        Result(
            name="listing",
            title=f"a page of {limit} among {count:,} sessions of two turns",
            baseline=_FIRST,
            medians=seconds,
            targets=[
                Target("a page of summaries", seconds["with titles and figures"] * 1000, 20.0, "ms"),
                Target("the first page of a search", seconds[_SEARCH] * 1000, 100.0, "ms"),
            ],
        )
    ]
