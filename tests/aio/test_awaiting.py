"""Awaiting a store: in worker threads, one call on a session at a time, and whole when it is cancelled."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import itertools
import sys
import threading
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import anyio
import pytest
from anyio import to_thread

import trails
from trails import TrailsError, aio
from trails.aio import AsyncRepository, AsyncRunning, AsyncSession
from trails.store.embedded import EmbeddedStore

_Result = TypeVar("_Result")
WAIT = 20.0
"""Seconds after which a test that hangs gives up."""


def play(work: Callable[[AsyncRepository], Awaitable[_Result]], location: object = ":memory:") -> _Result:
    """Run a function of a store in an event loop of its own, and return what it gives."""

    async def main() -> _Result:
        with anyio.fail_after(WAIT):
            async with aio.open(str(location), create=True) as store:
                return await work(store)

    return anyio.run(main)


class Held:
    """Commits that wait until they may go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun = threading.Event()
        self.go_on = threading.Event()
        commit = EmbeddedStore.commit

        def held(store: EmbeddedStore, *args: Any, **options: Any) -> Any:
            self.begun.set()
            assert self.go_on.wait(WAIT)
            return commit(store, *args, **options)

        monkeypatch.setattr(EmbeddedStore, "commit", held)

    async def until_begun(self) -> None:
        while not self.begun.is_set():
            await anyio.sleep(0.001)


def _add(session: trails.Session, text: str) -> None:
    session.append("user", text)


async def one_turn(store: AsyncRepository, text: str = "one") -> AsyncSession:
    session = await store.create(id="s")
    session.append("user", text)
    return session


# --- what is awaited, and what is not


def test_a_session_is_made_stored_forked_and_loaded(place: Path) -> None:
    async def work(store: AsyncRepository) -> list[str]:
        plan = await store.create(id="plan", system="Be brief.")
        plan.append("user", "Plan a trip")
        plan.append("assistant", "Where to?")
        assert (await plan.persist(), plan.pending, len(plan)) == (2, 0, 2)
        fork = await plan.fork(at=1, id="fork")
        fork.append("assistant", "By train?")
        assert await fork.persist() == 1
        assert await fork.system == "Be brief."
        assert (await store.diff(plan, fork)).common == 1
        assert [record.id for record in await plan.branches()] == ["fork"]
        assert await store.contains("fork")
        return [turn.content for turn in (await store.load("fork")).turns]

    location = place.with_name("another.trails")
    assert play(work, location) == ["Plan a trip", "By train?"]
    with trails.open(location) as store:
        assert store.verify().ok


def test_a_store_as_it_was_has_await_forms_too() -> None:
    async def work(store: AsyncRepository) -> list[str]:
        plan = await one_turn(store)
        await plan.persist()
        then = (await store.compare("s")).as_of
        plan.append("user", "two")
        await plan.persist()
        assert then is not None
        past = await store.at(then)
        assert past.as_of is not None
        assert (past.as_of.mark, past.read_only, store.as_of) == (then, True, None)
        contents = [turn.content for turn in (await past.load("s")).turns]
        await past.close()
        return contents

    assert play(work) == ["one"]


def test_an_awaited_read_may_be_fresh_too(place: Path) -> None:
    with trails.open(place, create=True) as owner:

        async def work() -> tuple[int, int, int]:
            async with aio.open(place, read_only=True) as view:
                owner.create(id="late").persist()
                before = len(await view.list())
                after = len(await view.list(fresh=True))
                return before, after, len(await view.load("late", fresh=True))

        assert anyio.run(work) == (0, 1, 0)


def test_an_opening_can_be_awaited_too() -> None:
    async def main() -> bool:
        store = await aio.open(":memory:")
        await store.close()
        return store.sync.workspace.closed

    assert anyio.run(main)


def test_errors_come_out_as_they_are() -> None:
    async def work(store: AsyncRepository) -> None:
        with pytest.raises(trails.SessionNotFound):
            await store.load("nobody")

    play(work)


def test_what_stands_on_top_is_awaited_too() -> None:
    async def answer(running: AsyncRunning) -> str:
        await anyio.sleep(0)
        return f"re: {running.messages[0].content}"

    async def agent(step: Any) -> str:
        await anyio.sleep(0)
        return "two an hour" if step.run else "done"

    async def work(store: AsyncRepository) -> None:
        await (await store.create(id="desk")).persist()
        ledger = await store.ledger()
        await ledger.receive("desk", "Hello")
        await ledger.receive("desk", "Again")
        assert [each.state for each in await ledger.process("desk", answer)] == ["completed", "completed"]
        assert [turn.content for turn in (await store.load("desk")).turns] == [
            "Hello",
            "re: Hello",
            "Again",
            "re: Again",
        ]
        runs = await store.runs(agent=agent)
        run = await runs.spawn("agent:main:main", "How often?")
        assert await runs.work() == 2
        assert (await runs.get(run.run_id or "")).state == "done"
        tree = await store.tree()
        main = await tree.main("planner", "chat")
        child = await main.spawn("worker", "Count")
        assert (await child.state, [each.id for each in await main.children()]) == ("active", [child.id])
        router = await store.router()
        assert (await router.session("main")).record.key == "agent:main:main"

    play(work)


def test_leaving_a_session_stores_what_was_appended_also_when_it_is_cancelled() -> None:
    async def work(store: AsyncRepository) -> list[str]:
        async def agent() -> None:
            async with store.session("chat", principal="alice") as chat:
                chat.append("user", "Plan a trip")
                await anyio.sleep(WAIT)

        task = asyncio.create_task(agent())
        while not await store.contains("chat"):
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return [turn.content for turn in await store.load("chat")]

    assert play(work) == ["Plan a trip"]


def test_a_call_that_gives_a_handle_with_an_end_is_entered_without_a_further_await() -> None:
    async def work(store: AsyncRepository) -> list[str]:
        async with store.session("chat") as chat:
            chat.append("user", "one")
        async with store.load("chat") as chat, store.rows("SELECT ?s { ?s a trails:Session }") as rows:
            chat.append("user", "two")
            assert len([row async for row in rows]) == 1
        with pytest.raises(trails.WrongCall, match=r"^Repository.list gives nothing that `async with` can end"):
            async with store.list():  # type: ignore[attr-defined] # that is the test
                pass
        return [turn.content for turn in await store.load("chat")]

    assert play(work) == ["one", "two"]


@pytest.mark.filterwarnings("ignore:.*never awaited")
@pytest.mark.parametrize(
    "wrong",
    [
        lambda store: store.load("chat").turns,
        lambda store: len(store.list()),
        lambda store: list(store.list()),
        lambda store: store.list()[0],
        lambda store: "yes" if store.contains("chat") else "no",
        lambda store: store.create().append("user", "x"),
    ],
)
def test_a_result_that_is_used_without_await_is_an_error_that_says_so(wrong: Callable[[Any], object]) -> None:
    async def work(store: AsyncRepository) -> None:
        with pytest.raises(TrailsError, match="was not awaited: write `await` before it; there is no"):
            wrong(store)

    play(work)


def test_a_store_that_is_not_opened_yet_and_a_handle_in_a_plain_with_say_what_to_write() -> None:
    with pytest.raises(TrailsError, match=r"async with trails\.aio\.open"):
        aio.open(":memory:").create()  # type: ignore[attr-defined] # that is the test
    with pytest.raises(TrailsError, match=r"async with trails\.aio\.open"), aio.open(":memory:"):  # type: ignore[attr-defined]
        pass

    async def work(store: AsyncRepository) -> None:
        with pytest.raises(TrailsError, match="entered by `async with`"), store:  # type: ignore[attr-defined]
            pass

    play(work)


def test_a_call_is_a_coroutine_to_tasks_groups_and_those_who_look() -> None:
    async def work(store: AsyncRepository) -> None:
        assert repr(call := store.list()) == "<Repository.list, not awaited yet>"
        task = asyncio.create_task(store.create(id="a"))
        assert asyncio.iscoroutine(call)
        assert inspect.isawaitable(call)
        assert [len(await call), (await task).id] == [0, "a"]
        async with anyio.create_task_group() as group:
            group.start_soon(store.list)
        if sys.version_info >= (3, 12):
            assert inspect.iscoroutinefunction(store.list)

    play(work)


# --- the loop, the threads


def test_the_loop_goes_on_while_a_call_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(store: AsyncRepository) -> int:
        session = await one_turn(store)
        held = Held(monkeypatch)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.persist)
            await held.until_begun()  # the commit waits, and this task runs
            assert to_thread.current_default_thread_limiter().borrowed_tokens == 0
            held.go_on.set()
        return len(await store.replay("s"))

    assert play(work) == 1


def test_context_variables_go_along() -> None:
    who: ContextVar[str] = ContextVar("who", default="nobody")

    async def work(store: AsyncRepository) -> str:
        who.set("alice")
        return await store.run(lambda _: who.get())

    assert play(work) == "alice"


def test_no_thread_hands_out_a_coroutine_which_trio_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    run_sync = to_thread.run_sync

    async def checked(call: Callable[[], Any], **options: Any) -> Any:
        found = await run_sync(call, **options)
        assert not inspect.iscoroutine(found)
        return found

    async def summarise(_: Any) -> str:
        await anyio.sleep(0)
        return "short"

    async def work(store: AsyncRepository) -> str:
        session = await one_turn(store)
        session.append("assistant", "two")
        return (await session.compact(summarise, keep_turns=1)).text

    monkeypatch.setattr(to_thread, "run_sync", checked)
    assert play(work) == "short"


# --- one at a time


def test_tasks_that_use_one_session_at_once_take_turns() -> None:
    async def work(store: AsyncRepository) -> tuple[int, bool]:
        session = await one_turn(store)

        async def agent(number: int) -> None:
            for step in range(10):
                await session.run(partial(_add, text=f"{number}: {step}"))
                await session.persist()

        async with anyio.create_task_group() as tasks:
            for number in range(5):
                tasks.start_soon(agent, number)
        stored = await store.load("s")
        assert all(
            [turn.content for turn in stored.turns if turn.text.startswith(f"{number}:")]
            == [f"{number}: {step}" for step in range(10)]
            for number in range(5)
        )
        return len(stored), (await store.verify()).ok

    assert play(work) == (51, True)


def test_a_call_on_a_session_waits_for_the_one_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(store: AsyncRepository) -> tuple[int, int]:
        session = await one_turn(store)
        held = Held(monkeypatch)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.persist)
            await held.until_begun()
            tasks.start_soon(session.run, partial(_add, text="two"))  # on another thread, it would be refused there
            await anyio.sleep(0.01)
            assert len(session) == 1
            held.go_on.set()
        return len(session), session.pending

    assert play(work) == (2, 1)


def test_appending_while_another_tasks_call_is_under_way_is_refused_and_loses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def work(store: AsyncRepository) -> list[str]:
        session = await one_turn(store)
        held = Held(monkeypatch)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.persist)
            await held.until_begun()
            with pytest.raises(TrailsError, match="'s' is being used"):
                session.append("user", "two")
            held.go_on.set()
        session.append("user", "two")
        await session.persist()
        return [turn.content for turn in (await store.load("s")).turns]

    assert play(work) == ["one", "two"]


# --- cancelled


def test_a_persist_that_asyncio_cancels_ends_whole_before_the_task_does(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(store: AsyncRepository) -> list[str]:
        session = await one_turn(store)
        held = Held(monkeypatch)
        task = asyncio.create_task(session.persist())
        await held.until_begun()
        for _ in range(3):  # as often as one likes
            task.cancel()
            await asyncio.sleep(0.01)
            assert not task.done()
        held.go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (session.pending, len(await store.replay("s"))) == (0, 1)
        session.append("user", "two")
        await session.persist()
        return [turn.content for turn in (await store.load("s")).turns]

    assert play(work) == ["one", "two"]


def test_a_persist_whose_time_is_up_ends_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(store: AsyncRepository) -> tuple[int, int]:
        session = await one_turn(store)
        held = Held(monkeypatch)
        async with anyio.create_task_group() as tasks:

            async def let_go() -> None:
                await held.until_begun()
                scope.cancel()
                held.go_on.set()

            tasks.start_soon(let_go)
            with anyio.CancelScope() as scope:
                await session.persist()
        return session.pending, len(await store.replay("s"))

    assert play(work) == (0, 1)


def test_a_call_that_is_cancelled_before_it_begins_never_does(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(store: AsyncRepository) -> tuple[int, int]:
        session = await one_turn(store)
        held = Held(monkeypatch)
        first = asyncio.create_task(session.persist())
        await held.until_begun()
        second = asyncio.create_task(session.set_label("never"))
        await asyncio.sleep(0)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        held.go_on.set()
        return await first, len(await store.list(label="never"))

    assert play(work) == (1, 0)


def test_a_cancelled_question_is_left_at_once_and_closing_waits_for_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def slow(store: trails.Repository, text: str) -> None:
        begun.set()
        assert go_on.wait(WAIT)
        ended.set()

    async def work(store: AsyncRepository) -> None:
        task = asyncio.create_task(store.workers.run(lambda: slow(store.sync, ""), leave=True))
        while not begun.is_set():
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not ended.is_set()
        asyncio.get_running_loop().call_later(0.01, go_on.set)

    play(work)
    assert ended.is_set()


def test_a_cancelled_query_ends_with_its_next_row() -> None:
    asked = threading.Event()

    async def work(store: AsyncRepository) -> str:
        def rows() -> Any:
            yield 1
            asked.set()
            yield from itertools.repeat(1, 20_000_000)  # as good as for ever, but for whoever has left

        from trails.rdf import query_guard

        raised: list[str] = []

        def ask() -> None:
            try:
                query_guard.on_thread(lambda: query_guard.rows(rows()), 1)
            except TrailsError as error:
                raised.append(str(error))

        task = asyncio.create_task(store.workers.run(ask, leave=True))
        while not asked.is_set():
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await store.close()
        return raised[0]

    assert "nobody waits" in play(work)


def test_a_cancelled_opening_leaves_no_store_open(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = threading.Event(), threading.Event()
    enter = EmbeddedStore.__init__

    def slow(self: EmbeddedStore, *args: Any, **options: Any) -> None:
        begun.set()
        assert go_on.wait(WAIT)
        enter(self, *args, **options)

    async def main() -> None:
        async def opened() -> None:
            await aio.open(location, create=True)

        monkeypatch.setattr(EmbeddedStore, "__init__", slow)
        task = asyncio.create_task(opened())
        while not begun.is_set():
            await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.sleep(0)
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    location = place.with_name("another.trails")
    asyncio.run(main())
    monkeypatch.undo()
    with trails.open(location) as store:  # it would be locked
        assert store.verify().ok


def test_cancelling_work_cancels_its_coroutines_and_begins_no_other() -> None:
    seen: list[str] = []

    async def agent(step: Any) -> str:
        seen.append("begun")
        try:
            await anyio.sleep(WAIT)
        except BaseException:
            seen.append("cancelled")
            raise
        return "never"

    async def work(store: AsyncRepository) -> None:
        runs = await store.runs(agent=agent, lanes={"subagent": 1})
        await runs.spawn("agent:main:main", "one")
        await runs.spawn("agent:main:main", "two")
        task = asyncio.create_task(runs.work())
        while not seen:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    play(work)
    assert seen == ["begun", "cancelled"]


# --- what is missing


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anyio", None)
    monkeypatch.delitem(sys.modules, "trails.aio")
    with pytest.raises(TrailsError, match=r"pip install 'trails\[aio\]'"):
        importlib.import_module("trails.aio")
