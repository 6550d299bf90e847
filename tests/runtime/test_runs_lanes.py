"""Lanes: limits of their own, on one thread, on several, and in an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.clocks import Clock
from tests.support.runs import MAIN, counter
from trails import InvalidInput, Repository, Runs, Step
from trails.aio import AsyncRuns
from trails.aio.threads import Workers
from trails.runtime.runs.host import LANES, Lane, Lanes, LaneThreads

WAIT = 20.0
"""Seconds after which a test that hangs gives up."""


def test_lanes_have_the_usual_limits_unless_told_otherwise() -> None:
    lanes = Lanes({"subagent": 3})
    assert [lanes.limit(lane) for lane in LANES] == [4, 3, 1]


@pytest.mark.parametrize("limits", [{"cron": 1}, {"main": 0}, {"main": True}, {"nested": 1.5}])
def test_limits_that_are_none_are_refused(limits: dict[Any, Any]) -> None:
    with pytest.raises(InvalidInput):
        Lanes(limits)


def test_the_configuration_sets_the_limit_of_sub_agents(memory: Repository) -> None:
    runs = Runs(memory, config={"agents": {"defaults": {"subagents": {"maxConcurrent": 2.9}}}})
    assert runs.lanes.limit("subagent") == 2


@given(
    limits=st.fixed_dictionaries({lane: st.integers(1, 3) for lane in LANES}),
    steps=st.lists(st.sampled_from([*LANES, "take", "end"]), max_size=60),
)
def test_no_lane_is_ever_over_its_limit_and_nothing_in_it_is_lost(limits: dict[Lane, int], steps: list[Any]) -> None:
    lanes = Lanes(limits)
    submitted: Counter[str] = Counter()
    done: dict[str, list[int]] = {lane: [] for lane in LANES}
    held = []
    for step in steps:
        if step == "take":
            ticket = lanes.take()
            full = all(lanes.waiting(lane) == 0 or lanes.active(lane) == limits[lane] for lane in LANES)
            assert (ticket is None) <= full
            held += [] if ticket is None else [ticket]
        elif step == "end" and held:
            held.pop(0).run()
        elif step in LANES:
            number = submitted[step]
            submitted[step] += 1
            lanes.submit(step, partial(done[step].append, number))
        now = Counter(ticket.lane for ticket in held)
        for lane in LANES:
            assert lanes.active(lane) == now[lane] <= limits[lane]
    for ticket in held:
        ticket.run()
    lanes.drain()
    assert {lane: sorted(done[lane]) for lane in LANES} == {lane: list(range(submitted[lane])) for lane in LANES}


def test_a_full_lane_of_sub_agents_keeps_nothing_waiting_in_the_main_one(store: Repository, clock: Clock) -> None:
    gate, begun = threading.Event(), threading.Semaphore(0)
    going: Counter[str] = Counter()
    most: Counter[str] = Counter()
    lock = threading.Lock()

    def agent(step: Step) -> str:
        with lock:
            going[step.lane] += 1
            most[step.lane] = max(most[step.lane], going[step.lane])
        if step.run is not None:
            begun.release()
            assert gate.wait(WAIT)
        with lock:
            going[step.lane] -= 1
        return "done"

    told = threading.Semaphore(0)
    runs = Runs(
        store, agent=agent, announce=lambda word: told.release(), clock=clock, lanes={"subagent": 2}, new_id=counter()
    )
    for number in range(4):
        runs.spawn(MAIN, f"task {number}")
    with runs.threads() as threads:
        assert begun.acquire(timeout=WAIT)
        assert begun.acquire(timeout=WAIT)
        assert (runs.lanes.active("subagent"), runs.lanes.waiting("subagent")) == (2, 2)
        answered = threading.Event()
        runs.lanes.submit("main", answered.set)
        assert answered.wait(WAIT)
        # A message to another session is answered too, while the children go on.
        assert runs.send(MAIN, "Hello?", session_key="agent:main:other").status == "ok"
        gate.set()
        for _ in range(4):
            assert told.acquire(timeout=WAIT)
    assert threads.error is None
    assert most["subagent"] == 2
    assert {run.state for run in runs.list()} == {"done"}
    assert store.verify().ok


def test_threads_close_and_what_fails_in_them_is_kept() -> None:
    lanes = Lanes()
    with LaneThreads(lanes) as threads:
        with pytest.raises(InvalidInput):
            LaneThreads(lanes)
        done = threading.Event()
        lanes.submit("main", lambda: 1 / 0)
        lanes.submit("main", done.set)
        assert done.wait(WAIT)
    assert isinstance(threads.error, ZeroDivisionError)
    lanes.submit("main", lambda: None)
    assert lanes.drain() == 1


def test_agents_that_are_coroutines_run_together_in_the_event_loop(store: Repository, clock: Clock) -> None:
    met = []

    async def agent(step: Step) -> str:
        if step.run is not None:
            met.append(step.run.run_id)
            while len(met) < 3:
                await asyncio.sleep(0.001)
        return f"met {len(met)}"

    async def host() -> int:
        for number in range(3):
            runs.spawn(MAIN, f"task {number}")
        return await asyncio.wait_for(AsyncRuns(runs, Workers()).work(), WAIT)

    runs = Runs(store, agent=agent, clock=clock, announce=lambda word: None, new_id=counter())
    assert asyncio.run(host()) == 3
    assert [run.outcome for run in runs.list()] == ["ok"] * 3
    assert store.verify().ok


def test_work_that_waits_for_another_lane_does_not_hang_in_an_event_loop(store: Repository, clock: Clock) -> None:
    answers = []

    def agent(step: Step) -> str:
        if step.run is not None:
            answers.append(runs.send(MAIN, "Hello?", session_key="agent:main:other").status)
        return "fine"

    runs = Runs(store, agent=agent, clock=clock, announce=lambda word: None, new_id=counter())
    runs.spawn(MAIN, "Ask the other")
    asyncio.run(asyncio.wait_for(AsyncRuns(runs, Workers()).work(), WAIT))
    assert answers == ["ok"]


def test_a_coroutine_runs_without_an_event_loop_too(store: Repository, clock: Clock) -> None:
    async def agent(step: Step) -> str:
        await asyncio.sleep(0)
        return "done"

    runs = Runs(store, agent=agent, clock=clock, announce=lambda word: None, new_id=counter())
    runs.spawn(MAIN, "Look")
    runs.work()
    assert runs.get("id-2").outcome == "ok"
