"""Places for queries are given out fairly."""

from __future__ import annotations

from collections.abc import Callable

import pytest

anyio = pytest.importorskip("anyio")

from trails.serve.sparql.places import Places  # noqa: E402


class _Queue:
    """Callers that come, hold a place until they are told to go, and leave; `order` is who got one."""

    def __init__(self, places: Places, tasks: anyio.abc.TaskGroup) -> None:  # type: ignore[name-defined] # anyio may be missing
        self.places, self.tasks = places, tasks
        self.order: list[str | None] = []

    async def comes(self, who: str | None) -> Callable[[], None]:
        go = anyio.Event()

        async def hold() -> None:
            async with self.places.place(who):
                self.order.append(who)
                await go.wait()

        self.tasks.start_soon(hold)
        await anyio.wait_all_tasks_blocked()
        leave: Callable[[], None] = go.set
        return leave


def test_a_caller_with_a_name_leaves_one_place_for_others() -> None:
    async def scene() -> list[str | None]:
        async with anyio.create_task_group() as tasks:
            queue = _Queue(Places(3), tasks)
            for who in ("mallory", "mallory", "mallory", "alice"):
                await queue.comes(who)
            tasks.cancel_scope.cancel()
        return queue.order

    assert anyio.run(scene) == ["mallory", "mallory", "alice"]


def test_the_only_caller_there_is_may_have_all_places() -> None:
    async def scene() -> int:
        async with anyio.create_task_group() as tasks:
            queue = _Queue(Places(3), tasks)
            for _ in range(4):
                await queue.comes(None)
            tasks.cancel_scope.cancel()
        return len(queue.order)

    assert anyio.run(scene) == 3


def test_a_free_place_goes_to_whoever_holds_the_fewest() -> None:
    async def scene() -> list[str | None]:
        async with anyio.create_task_group() as tasks:
            queue = _Queue(Places(3), tasks)
            goes = [await queue.comes(who) for who in ("mallory", "mallory", "alice")]
            for who in ("mallory", "bob"):
                await queue.comes(who)
            goes[0]()
            await anyio.wait_all_tasks_blocked()
            goes[1]()
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        return queue.order

    assert anyio.run(scene) == ["mallory", "mallory", "alice", "bob", "mallory"]


def test_who_leaves_while_waiting_leaves_no_place_lost() -> None:
    async def scene() -> list[str | None]:
        async with anyio.create_task_group() as tasks:
            queue = _Queue(Places(1), tasks)
            goes = await queue.comes("alice")
            with anyio.move_on_after(0.01):
                async with queue.places.place("bob"):
                    raise AssertionError
            goes()
            for _ in range(2):
                (await queue.comes("carol"))()
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        return queue.order

    assert anyio.run(scene) == ["alice", "carol", "carol"]
