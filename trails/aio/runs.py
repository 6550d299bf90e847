"""The await forms of sub-agents' runs."""

from __future__ import annotations

from typing import Any

from trails.aio.workers import Settle, Twin, in_thread
from trails.runtime.runs import Runs


class AsyncRuns(Twin[Runs]):
    """Sub-agents' runs over a store. Get them by `await store.runs(agent=...)`; the agent may be a coroutine function."""

    @classmethod
    def of(cls, twin: Twin[Any], made: Runs) -> AsyncRuns:
        """Not for callers: see `AsyncRepository.runs`."""
        return cls(made, twin.workers)

    get = in_thread(Runs.get)
    list = in_thread(Runs.list)
    session_of = in_thread(Runs.session_of)
    system_prompt = in_thread(Runs.system_prompt)
    spawn = in_thread(Runs.spawn)
    spawn_tool = in_thread(Runs.spawn_tool)
    on_event = in_thread(Runs.on_event)
    started = in_thread(Runs.started)
    ended = in_thread(Runs.ended)
    wait = in_thread(Runs.wait, apart=True)
    recover = in_thread(Runs.recover)
    tick = in_thread(Runs.tick)
    sweep = in_thread(Runs.sweep)
    withhold = in_thread(Runs.withhold)
    send = in_thread(Runs.send, apart=True)
    send_tool = in_thread(Runs.send_tool, apart=True)
    import_file = in_thread(Runs.import_file)
    export_file = in_thread(Runs.export_file)

    async def work(self) -> int:
        """Work on what waits in the lanes, with as many at once as they let, until nothing may begin; return how many were done.

        An agent that is a coroutine function runs in this event loop, a plain one on a thread. When this is cancelled, so
        are the coroutines, no other work begins, and all is over when this returns.
        """

        def drain(settle: Settle) -> int:
            return self.sync.work_wide(settle, settle.stopped.is_set)

        return await self.workers.run_hosting(drain)
