"""Listing the forks of one session among the sessions and forks of others."""

from __future__ import annotations

import trails
from benchmarks.data import filled, messages
from benchmarks.harness import Contestant, Result, Setting, medians, timed
from trails.rdf import query_files

_RAW = "the query alone"


def run(setting: Setting) -> list[Result]:
    """Measure `branches()` against the engine's answer to its query, neither decoded nor sorted."""
    texts = messages(10, setting.seed)
    forks = setting.size.forks
    query = query_files.find("branches").bind(session="s0")
    with trails.open(setting.folder / "store", create=True, durability="process") as store:
        for number in range(5):
            session = filled(store, f"s{number}", texts)
            for _ in range(forks):
                session.fork(at=5).persist()
        wanted = store.load("s0")
        assert len(wanted.branches()) == forks
        contestants = [
            Contestant("trails", lambda: timed(wanted.branches)),
            Contestant(_RAW, lambda: timed(lambda: store.store.query(query))),
        ]
        seconds = medians(contestants, setting.size.rounds * 5)
    return [
        Result(
            name="branches",
            title=f"branches() of a session with {forks} forks, beside four like it",
            baseline=_RAW,
            medians=seconds,
        )
    ]
