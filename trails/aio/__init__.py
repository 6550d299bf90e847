"""Trails in an event loop: the same handles, with `await` where a call reaches the store. Needs the extra `aio`.

>>> import anyio, trails
>>> async def main():
...     async with trails.aio.open(":memory:") as store:
...         plan = await store.create(id="plan")
...         turn = plan.append("user", "Plan a trip")
...         return await plan.persist(), [record.id for record in await store.list()]
>>> anyio.run(main)
(1, ['plan'])
"""

from __future__ import annotations

from trails.errors import TrailsError

try:
    import anyio as _anyio  # noqa: F401 - so that what is missing is named here, and how to get it
except ModuleNotFoundError as missing:
    raise TrailsError(
        "trails.aio needs the package `anyio`, which is not installed: pip install 'trails[aio]'"
    ) from missing

from trails.aio.facets import AsyncMaintenance, AsyncNotes, AsyncProofs, AsyncTags
from trails.aio.ledger import AsyncLedger, AsyncRunning
from trails.aio.opening import Opening, open  # noqa: A004 - trails.aio.open, as trails.open
from trails.aio.repository import AsyncRepository
from trails.aio.reruns import AsyncPlaying, rerun, rerun_many
from trails.aio.router import AsyncRouter, AsyncView
from trails.aio.rows import AsyncRows
from trails.aio.runs import AsyncRuns
from trails.aio.session import AsyncSession
from trails.aio.tree import AsyncNode, AsyncTree

__all__ = [
    "AsyncLedger",
    "AsyncMaintenance",
    "AsyncNode",
    "AsyncNotes",
    "AsyncPlaying",
    "AsyncProofs",
    "AsyncRepository",
    "AsyncRouter",
    "AsyncRows",
    "AsyncRunning",
    "AsyncRuns",
    "AsyncSession",
    "AsyncTags",
    "AsyncTree",
    "AsyncView",
    "Opening",
    "open",
    "rerun",
    "rerun_many",
]
