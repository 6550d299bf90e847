"""Refs and their checkouts in an event loop."""

from __future__ import annotations

import anyio

import trails


def test_a_checkout_is_worked_on_in_an_event_loop() -> None:
    async def main() -> None:
        async with trails.aio.open(":memory:") as store:
            async with store.checkout("main", create=True) as checkout:
                checkout.append("user", "a")
                checkout.append("user", "b")
            assert [turn.content for turn in await checkout.pop()] == ["b"]
            turn = await checkout.update(lambda main: main.append("user", "c"))
            assert (turn.content, [turn.content for turn in checkout]) == ("c", ["a", "c"])
            assert (await store.refs.get("main")).moves == 3
            assert [ref.name for ref in await store.refs.list()] == ["main"]

    anyio.run(main)
