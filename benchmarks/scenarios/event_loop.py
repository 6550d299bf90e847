"""Twenty agents in one event loop: how long the loop stands still at most, while they append, persist, load and ask."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

from benchmarks.data import messages
from benchmarks.harness import Result, Setting, Target
from trails import aio
from trails.aio import AsyncRepository

_AGENTS: Final = 20
_LONG: Final = 2_000
"""Turns of the sessions that are loaded."""
_STEPS: Final = 60
_BEAT: Final = 0.001


def run(setting: Setting) -> list[Result]:
    """Measure the gaps between the beats of a task, with the agents at work and with nothing at all."""
    busy = asyncio.run(_busy(setting))
    idle = asyncio.run(_gaps_of(asyncio.sleep, min(3.0, setting.size.turns / 300)))
    seconds = {
        "the longest gap": busy[-1],
        "one in a thousand": busy[-1 - len(busy) // 1000],
        "one in a hundred": busy[-1 - len(busy) // 100],
        "the longest gap with nothing to do": idle[-1],
    }
    return [
        Result(
            name="event-loop",
            title=f"{_AGENTS} agents in one event loop: gaps between its beats",
            baseline="the longest gap with nothing to do",
            medians=seconds,
            counts={"agents": _AGENTS, "steps of each": _steps(setting), "beats": len(busy)},
            targets=[Target("the longest gap, milliseconds", busy[-1] * 1000, 20.0, "ms")],
        )
    ]


def _steps(setting: Setting) -> int:
    return min(_STEPS, setting.size.turns // 10)


async def _busy(setting: Setting) -> list[float]:
    texts = messages(min(_LONG, setting.size.turns * 2), setting.seed)
    async with aio.open(setting.folder / "store", create=True) as store:
        for number in range(4):
            long = await store.create(id=f"long-{number}")
            for text in texts:
                long.append(text.role, text.text)
            await long.persist()
        del long

        async def agents(_: float) -> None:
            await asyncio.gather(*(_agent(store, number, _steps(setting)) for number in range(_AGENTS)))

        return await _gaps_of(agents, 0.0)


async def _agent(store: AsyncRepository, number: int, steps: int) -> None:
    """Talk, now and then load a long session, and show a model what fits."""
    session = await store.create(id=f"agent-{number}")
    for step in range(steps):
        session.append("user" if step % 2 else "assistant", f"step {step}: " + "word " * 50)
        await session.persist()
        await asyncio.sleep(0.01)  # the model
        if step % 5 == number % 5:
            await store.load(f"long-{number % 4}")
        if step % 5 == (number + 2) % 5:
            await session.context(max_tokens=2_000)
            await store.context(f"long-{number % 4}", max_tokens=2_000)


async def _gaps_of(work: Callable[[float], Awaitable[object]], argument: float) -> list[float]:
    """Return the gaps between beats while some work goes on, in seconds and the longest last."""
    gaps: list[float] = []

    async def beat() -> None:
        last = time.perf_counter()
        while True:
            await asyncio.sleep(_BEAT)
            now = time.perf_counter()
            gaps.append(now - last - _BEAT)
            last = now

    beating = asyncio.create_task(beat())
    await work(argument)
    beating.cancel()
    return sorted(gaps)
