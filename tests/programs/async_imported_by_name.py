"""The same, with the module imported by name, from two places.

Prints:
plan ['Plan a trip']
fork [1]
tags ['v1']
"""

import asyncio

import trails.aio as tio
from trails import aio


async def main() -> None:
    async with aio.open("named.trails", create=True) as store:
        plan = await store.create(id="plan")
        plan.append("user", "Plan a trip")
        await plan.persist()
    async with tio.open("named.trails") as store, store.load("plan") as plan:
        print(plan.id, [turn.content for turn in plan])
        fork = await plan.fork(at=1, id="fork")
        await fork.persist()
        print(fork.id, [record.forked_at_index for record in await plan.branches()])
        await store.tags.add("v1", "plan@1")
        print("tags", [tag.name for tag in await store.tags.list()])


asyncio.run(main())
