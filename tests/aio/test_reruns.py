"""A coroutine is run again over a record as a function is; whoever is cancelled stores nothing."""

from __future__ import annotations

import sys
from typing import Any

import anyio
import pytest

from trails import InvalidInput, RecordMiss, ToolCall, aio
from trails.aio import AsyncPlaying, AsyncRepository, AsyncSession

CALLS = [{"id": f"c{n}", "name": "look", "arguments": {"n": n}} for n in range(3)]
pytestmark = pytest.mark.anyio


async def fill(store: AsyncRepository) -> AsyncSession:
    """0 user, 1 calls look three times, 2 to 4 answer, 5 the end."""
    plan = await store.create(id="plan")
    plan.append("user", "Plan a trip")
    plan.append("assistant", "I look.", tool_calls=CALLS)
    for n in range(3):
        plan.append("tool", f"seen {n}", tool_call_id=f"c{n}")
    plan.append("assistant", "Take the train.")
    await plan.persist()
    return plan


async def agent(run: AsyncPlaying) -> str:
    """Ask for all there is, tools side by side."""
    while await run.input():
        answer = await run.model()
        while answer.tool_calls:
            async with anyio.create_task_group() as tasks:
                for call in answer.tool_calls:
                    tasks.start_soon(run.tool, call)
            answer = await run.model()
    return "done"


async def test_a_coroutine_that_says_what_was_recorded_shares_it() -> None:
    async with aio.open(":memory:") as store:
        done = await aio.rerun(await fill(store), agent, id="again")
        assert (done.left_at, done.agreed, done.played, done.result) == (None, 6, 5, "done")
        assert (await store.load("again")).forked_at_index == 6


async def test_models_and_tools_may_be_coroutines() -> None:
    async def tools(call: ToolCall) -> str:
        await anyio.lowlevel.checkpoint()
        return f"seen {call.input['n']}"

    async def model(run: AsyncPlaying) -> Any:
        shown = await run.context()
        return f"after {len(shown.turns)}"

    async def live(run: AsyncPlaying) -> None:
        await run.input()
        for call in (await run.model()).tool_calls:
            await run.tool(call)
        await run.model(live=model)

    async with aio.open(":memory:") as store:
        plan = await fill(store)
        same = await aio.rerun(plan, agent, tools=tools)
        assert (same.left_at, same.live, same.played) == (None, 3, 2)
        other = await aio.rerun(plan, live, upto=5, on_miss="live", tools=tools)
        assert (other.left_at, other.session[-1].content) == (5, "after 5")


async def test_a_miss_stops_the_coroutine() -> None:
    async with aio.open(":memory:") as store:
        done = await aio.rerun(await fill(store), agent, upto=5)
        assert (done.outcome, done.left_at) == ("stopped", 5)
        assert isinstance(done.error, RecordMiss)


async def test_a_coroutine_that_calls_exit_has_its_fork_as_one_that_raises() -> None:
    async def leaving(run: AsyncPlaying) -> None:
        await run.append("user", "Other")
        sys.exit(3)

    async with aio.open(":memory:") as store:
        plan = await fill(store)
        with pytest.raises(SystemExit):
            await aio.rerun(plan, leaving, id="left")
        assert [turn.content for turn in await store.load("left")] == ["Other"]


async def test_whoever_is_cancelled_stores_nothing() -> None:
    begun = anyio.Event()

    async def waiting(run: AsyncPlaying) -> None:
        await run.append("user", "Other")
        begun.set()
        await anyio.sleep_forever()

    async with aio.open(":memory:") as store:
        plan = await fill(store)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: aio.rerun(plan, waiting, id="gone"))
            await begun.wait()
            tasks.cancel_scope.cancel()
        assert not await store.contains("gone")


async def test_reruns_run_side_by_side_as_tasks() -> None:
    async with aio.open(":memory:") as store:
        await fill(store)

        async def one(number: int) -> None:
            source = await store.load("plan")
            await aio.rerun(source, agent, model=lambda _: f"end {number}", id=f"r{number}")

        async with anyio.create_task_group() as tasks:
            for number in range(5):
                tasks.start_soon(one, number)
        assert [(await store.load(f"r{n}")).sync[-1].content for n in range(5)] == [f"end {n}" for n in range(5)]
        assert (await store.verify()).ok


async def test_many_reruns_are_tasks_so_many_at_a_time_and_go_on_where_they_were_cut_short() -> None:
    running: list[int] = []
    most = 0
    broken = True
    two_run = anyio.Event()

    async def one(run: AsyncPlaying) -> int:
        nonlocal most
        running.append(run.number)
        most = max(most, len(running))
        if len(running) == 2:
            two_run.set()
        try:
            if run.number < 2:
                with anyio.fail_after(20):
                    await two_run.wait()
            if run.number == 2 and broken:
                raise ConnectionError("no network")
            await agent(run)
        finally:
            running.remove(run.number)
        return run.number

    async with aio.open(":memory:") as store:
        plan = await fill(store)
        told: list[str] = []
        first = await aio.rerun_many(plan, one, 6, name="try", workers=3, progress=lambda done: told.append(done.id))
        assert [each.outcome for each in first] == [
            "finished",
            "finished",
            "failed",
            "finished",
            "finished",
            "finished",
        ]
        assert sorted(told) == [f"plan~try-{n}" for n in range(6)]
        assert 1 < most <= 3
        broken = False
        again = await aio.rerun_many(plan, one, 7, name="try")
        assert [each.result for each in again] == [None, None, 2, None, None, None, 6]
        assert again[2].id == "plan~try-2.2"
        assert {each.left_at for each in again} == {None}
        assert (await store.verify()).ok


async def test_many_reruns_that_are_cancelled_keep_what_was_done() -> None:
    async with aio.open(":memory:") as store:
        plan = await fill(store)
        begun = anyio.Event()

        async def one(run: AsyncPlaying) -> None:
            if run.number == 3:
                begun.set()
                await anyio.sleep_forever()
            await agent(run)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: aio.rerun_many(plan, one, 4, workers=1))
            await begun.wait()
            tasks.cancel_scope.cancel()
        assert [await store.contains(f"plan~rerun-{n}") for n in range(4)] == [True, True, True, False]


async def test_what_is_no_session_of_a_loop_is_refused() -> None:
    async with aio.open(":memory:") as store:
        plan = await fill(store)
        with pytest.raises(InvalidInput, match="await store"):
            await aio.rerun(plan.sync, agent)  # type: ignore[arg-type] # that is the test


async def test_what_is_no_agent_is_refused_and_nothing_is_stored() -> None:
    async with aio.open(":memory:") as store:
        plan = await fill(store)
        with pytest.raises(InvalidInput, match="an agent is a function of the run, not None"):
            await aio.rerun(plan, None)  # type: ignore[arg-type] # that is the test
        with pytest.raises(InvalidInput, match="an agent is a function of the run, not 3"):
            await aio.rerun_many(plan, 3, 2)  # type: ignore[arg-type] # that is the test
        assert (await store.info())["sessions"] == 1
