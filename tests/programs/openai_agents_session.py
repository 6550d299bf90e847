"""Keep a session of the OpenAI Agents SDK.

Prints:
2 items
user assistant
Take a coat.
"""

import asyncio

import trails
from trails.adapters.openai_agents import TrailsSession


async def main(store: trails.Repository) -> None:
    session = TrailsSession("chat", store, model="m-1")
    await session.add_items(
        [{"role": "user", "content": "How is it?"}, {"role": "assistant", "content": "Take a coat."}]
    )
    print(len(await session.get_items()), "items")
    turns = await asyncio.to_thread(lambda: list(store.load("openai:chat")))
    print(*(turn.role for turn in turns))
    print(turns[-1].text)


with trails.open("agents.trails", create=True) as opened:
    asyncio.run(main(opened))
