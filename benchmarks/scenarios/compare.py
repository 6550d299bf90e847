"""Fifty branches of a session of 1,000 turns side by side, against loading each of them to count."""

from __future__ import annotations

import random
from typing import Any, Final

import trails
from benchmarks.data import Message, messages
from benchmarks.harness import Contestant, Result, Setting, Target, medians, timed
from trails import Repository, Session
from trails.rdf import query_files

_OURS: Final = "trails"
_QUERIES: Final = "its queries alone"
_LOADING: Final = "loading every branch"
_NAMES: Final = ("family", "own_turns", "usage_by_turn", "tools_used", "last_answers")


def run(setting: Setting) -> list[Result]:
    """Measure `compare()` on disk: the table, its queries neither decoded nor added up, and the way around it."""
    turns, forks = min(setting.size.turns, 1_000), setting.size.forks
    with trails.open(setting.folder / "store", create=True, durability="process") as store:
        _fill(store, turns, forks, setting.seed)
        ids = [row["session"] for row in store.compare("root", columns="session")]
        assert len(ids) == forks + 1
        bound = {name: query_files.find(name) for name in _NAMES}
        texts = [query.bind(sessions=["root"] if name == "family" else ids) for name, query in bound.items()]
        contestants = [
            Contestant(_OURS, lambda: timed(lambda: store.compare("root", group_by="meta.arm", sort_by="cost"))),
            Contestant(_QUERIES, lambda: timed(lambda: [store.store.query(text) for text in texts])),
        ]
        seconds = medians(contestants, setting.size.rounds * 3)
        seconds |= medians([Contestant(_LOADING, lambda: timed(lambda: [store.load(one) for one in ids]))], 1)
    return [
        Result(
            name="compare",
            title=f"compare() of {forks} branches, 10 turns each, of a session with {turns:,} turns",
            baseline=_QUERIES,
            medians=seconds,
            targets=[Target("compare, on disk", seconds[_OURS] * 1000, 200.0, "ms")],
        )
    ]


def _fill(store: Repository, turns: int, forks: int, seed: int) -> None:
    """Store a session whose every second turn has usage and every tenth a tool call, forks of it, and three strangers."""
    texts = messages(turns, seed)
    root = store.create(id="root")
    _add(root, texts, seed)
    for number in range(forks):
        meta = {"arm": "ab"[number % 2], "temperature": number / forks}
        at = turns // 2 if number % 2 else turns
        _add(root.fork(at=at, id=f"fork-{number}", meta=meta), messages(10, seed + number), seed + number)
    for number in range(3):
        _add(store.create(id=f"stranger-{number}"), texts, seed)


def _add(session: Session, batch: list[Message], seed: int) -> None:
    chance = random.Random(seed)
    for place, message in enumerate(batch):
        facts: dict[str, Any] = {}
        if message.role == "assistant":
            usage = {"input_tokens": chance.randint(100, 900), "output_tokens": 50, "cost": 0.01}
            calls = [{"id": f"c{place}", "name": "search", "arguments": {"q": place}}] if place % 10 == 1 else []
            facts = {"model": "a-model-with-a-long-name", "usage": usage, "tool_calls": calls}
        session.append(message.role, message.text, **facts)
    session.persist()
