"""Rerunning an agent that is a coroutine, in an event loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from inspect import isawaitable
from typing import Any, Literal, TypeVar

from anyio import CancelScope, create_task_group

from trails.aio.session import AsyncSession
from trails.aio.workers import Twin, in_thread
from trails.errors import InvalidInput, RecordMiss
from trails.model.values import ToolCall, Turn
from trails.replay.playback import OnMiss, Playing, ReplayOptions, refuse_yields
from trails.replay.rerun import Rerun, begin_rerun, plan_reruns, store_rerun, unless_failed
from trails.session.recorded_calls import Difference, ToolAnswer, named_call
from trails.suggestions import checked

_Result = TypeVar("_Result")

AsyncModel = Callable[["AsyncPlaying"], Any]
"""As `trails.replay.playback.Model`, with the twin of the run; what it returns may be awaitable."""
AsyncTools = Callable[[ToolCall], Any]
"""As `trails.replay.playback.Tools`; what it returns may be awaitable."""


class AsyncPlaying(Twin[Playing]):
    """The run of an agent over a record, in an event loop. Tools may be asked side by side, in tasks of the agent's own."""

    async def call(self, work: Callable[[], _Result], *, leave: bool = False, apart: bool = False) -> _Result:
        """Return what a function gives on a worker thread, once those that were asked for before have ended."""
        async with self.workers.lock_of(self.sync):
            return await self.workers.run(work, leave=leave, apart=apart)

    @property
    def number(self) -> int:
        """Which of several reruns this is, from 0."""
        return self.sync.number

    @property
    def session_id(self) -> str:
        """The id of the session whose record is played."""
        return self.sync.session_id

    @property
    def turns(self) -> Sequence[Turn]:
        """The transcript of the run so far; answers of tools are in it once the next one speaks."""
        return self.sync.turns

    @property
    def difference(self) -> Difference | None:
        """Where the run first left the record; None as long as it has not."""
        return self.sync.difference

    @property
    def left_at(self) -> int | None:
        """The index of the first turn that is not the record's; None as long as all are."""
        return self.sync.left_at

    @property
    def played(self) -> int:
        """How many answers of models and tools came from the record."""
        return self.sync.played

    @property
    def live(self) -> int:
        """How many were called for."""
        return self.sync.live

    @property
    def miss(self) -> RecordMiss | None:
        """What the run was stopped by; None where it was not."""
        return self.sync.miss

    input = in_thread(Playing.input)
    append = in_thread(Playing.append)
    context = in_thread(Playing.context)

    async def model(self, live: AsyncModel | None = None) -> Turn:
        """Return the model's next answer, as `Playing.model` does; `live` gets this run and may be a coroutine function."""
        found: Any = await self.call(lambda: self.sync.begin_model(live))  # type: ignore[arg-type] # called below, with the twin
        if isinstance(found, Turn):
            return found
        answer = await _awaited(found(self))
        return await self.call(lambda: self.sync.end_model(answer))

    async def tool(self, call: ToolCall | str, arguments: Any = None, *, live: AsyncTools | None = None) -> ToolAnswer:
        """Return a tool's answer, as `Playing.tool` does; `live` may be a coroutine function."""
        asked = named_call(call, arguments)
        found = await self.call(lambda: self.sync.begin_tool(asked, live))
        if isinstance(found, ToolAnswer):
            return found
        answer = await _awaited(found(asked))
        return await self.call(lambda: self.sync.end_tool(asked, answer))


async def _awaited(given: Any) -> Any:
    refuse_yields(given)
    return await given if isawaitable(given) else given


@checked
async def rerun(
    session: AsyncSession,
    agent: Callable[[AsyncPlaying], Any],
    *,
    model: Literal["recorded"] | AsyncModel = "recorded",
    tools: Literal["recorded"] | AsyncTools = "recorded",
    on_miss: OnMiss = "stop",
    upto: int | None = None,
    id: str | None = None,  # noqa: A002 - the public name
    label: str | None = None,
    principal: str | None = None,
    meta: Mapping[str, Any] | None = None,
    by: str | None = None,
) -> Rerun:
    """Run a coroutine over a session's record and store what it says as a fork, as `trails.rerun` does.

    `agent` gets an `AsyncPlaying`; `model`, `tools` and what the agent names for live answers may be coroutine functions.
    The rerun's `session` is the fork's synchronous handle. Whoever is cancelled while the agent runs stores nothing. Several
    reruns run side by side as tasks.
    """
    if not isinstance(session, AsyncSession):
        raise InvalidInput(f"a rerun is of a session, as `await store.load(id)` gives it, not of {session!r:.80}")
    ways = ReplayOptions(model, tools, on_miss)  # type: ignore[arg-type] # a model gets the twin
    options = {"id": id, "label": label, "principal": principal, "meta": meta, "by": by}
    playing = await session.call(lambda: begin_rerun(session.sync, agent, ways, upto, options))
    return unless_failed(await _run(AsyncPlaying(playing, session.workers), agent, by))


async def _run(twin: AsyncPlaying, agent: Callable[[AsyncPlaying], Any], by: str | None) -> Rerun:
    """Run an agent once and store what came of it; an error of the agent stands in the rerun."""
    started, result, error = datetime.now(UTC), None, None
    try:
        result = await _awaited(agent(twin))
    except (Exception, SystemExit) as raised:  # noqa: BLE001 - it is the rerun's to tell; scripts call exit
        error = raised
    except BaseException:
        twin.sync.give_up()
        raise
    with CancelScope(shield=True):
        done = await twin.call(lambda: store_rerun(twin.sync, result, error, started, by))
    return done  # noqa: RET504 - a scope may swallow a cancellation, as type checkers see it


@checked
async def rerun_many(
    session: AsyncSession,
    agent: Callable[[AsyncPlaying], Any],
    count: int,
    *,
    name: str = "rerun",
    workers: int = 4,
    model: Literal["recorded"] | AsyncModel = "recorded",
    tools: Literal["recorded"] | AsyncTools = "recorded",
    on_miss: OnMiss = "stop",
    upto: int | None = None,
    principal: str | None = None,
    meta: Mapping[str, Any] | None = None,
    by: str | None = None,
    progress: Callable[[Rerun], object] | None = None,
) -> list[Rerun]:
    """Run a coroutine `count` times over a session's record, `workers` at a time as tasks, as `trails.rerun_many` does.

    Whoever is cancelled stores nothing of those that are under way; those that were done stay, and are not run again.
    """
    if not isinstance(session, AsyncSession):
        raise InvalidInput(f"a rerun is of a session, as `await store.load(id)` gives it, not of {session!r:.80}")
    ways = ReplayOptions(model, tools, on_miss)  # type: ignore[arg-type] # a model gets the twin
    options = {"principal": principal, "meta": meta, "by": by}
    pool, places = await session.call(
        lambda: plan_reruns(session.sync, count, workers, name=name, ways=ways, upto=upto, options=options)
    )
    found = {each.number: each.done for each in places if each.done is not None}
    failures: list[Exception] = []
    todo = iter([each for each in places if each.done is None])

    async def work() -> None:
        for place in todo:
            try:
                playing = await session.workers.run(lambda: pool.playing(place))  # noqa: B023 - it is awaited here
                found[place.number] = done = await _run(AsyncPlaying(playing, session.workers), agent, by)
                if progress is not None:
                    progress(done)
            except Exception as error:  # noqa: BLE001 - raised below, when the others are done
                failures.append(error)

    async with create_task_group() as tasks:
        for _ in range(workers):
            tasks.start_soon(work)
    if failures:
        raise failures[0]
    return [found[each.number] for each in places]
