"""Receiving a message and processing it, against appending the same two turns and storing them without a ledger."""

from __future__ import annotations

import trails
from benchmarks.data import messages
from benchmarks.harness import Contestant, Result, Setting, Target, medians, timed
from trails import Ledger, Repository

_PAIR = "append and persist a pair of turns"
_RECEIVE = "receive a message"
_PROCESS = "process it"
_SHORT = "process it, in a short session"
_TARGET = 1.5
"""How much longer an exchange may take in a long session than in a short one."""


def run(setting: Setting) -> list[Result]:
    """Measure sessions of many turns and of ten, on disk, every commit written and not synced."""
    texts = messages(setting.size.turns, setting.seed)
    with trails.open(setting.folder / "ledger", create=True, durability="process") as store:
        for name, count in (("long", len(texts)), ("plain", len(texts)), ("short", 10)):
            session = store.create(id=name)
            for message in texts[:count]:
                session.append(message.role, message.text)
            session.persist()
        seconds = _measured(store, setting.size.rounds * 10)
    return [
        Result(
            name="ledger",
            title=f"one message and its answer in a session of {len(texts):,} turns",
            baseline=_PAIR,
            medians=seconds,
            targets=[
                Target(f"{_PROCESS}, against a session of 10 turns", seconds[_PROCESS] / seconds[_SHORT], _TARGET, "x")
            ],
        )
    ]


def _measured(store: Repository, rounds: int) -> dict[str, float]:
    ledger, plain, received = Ledger(store), store.load("plain"), 0

    def pair() -> float:
        def work() -> None:
            plain.append("user", "Is it open?")
            plain.append("assistant", "Until six.")
            plain.persist()

        return timed(work)

    def receive() -> float:
        nonlocal received
        received += 1
        return timed(lambda: ledger.receive("long", "Is it open?", source="mail", event_id=str(received)))

    def process(name: str) -> float:
        return timed(lambda: ledger.process(name, lambda running: "Until six."))

    def short() -> float:
        ledger.receive("short", "Is it open?")
        return process("short")

    for name in ("long", "short"):  # the first exchange of a process reads the session
        ledger.receive(name, "Is it open?")
        process(name)
    contestants = [
        Contestant(_PAIR, pair),
        Contestant(_RECEIVE, receive),
        Contestant(_PROCESS, lambda: process("long")),
        Contestant(_SHORT, short),
    ]
    return medians(contestants, rounds)
