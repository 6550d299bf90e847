"""Many agents in one event loop, each with its session.

Prints:
3 sessions
agent-1: ['task 1', 'done 1']
by name: agent-0
"""

import asyncio

import trails


async def work(store: trails.aio.AsyncRepository, number: int) -> str:
    async with store.session(f"agent-{number}", principal="alice") as session:
        session.append("user", f"task {number}")
        await asyncio.sleep(0)
        session.append("assistant", f"done {number}")
        return session.id


async def main() -> None:
    async with trails.aio.open("agents.trails", create=True) as store:
        names = await asyncio.gather(*(work(store, number) for number in range(3)))
        print(len(await store.list(since="7d")), "sessions")
        session = await store.load(names[1])
        print(f"{session.id}:", [turn.content for turn in session.turns])
        hits = await store.search("task 0")
        print("by name:", hits[0].session_id)


asyncio.run(main())
