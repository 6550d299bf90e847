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
    import anyio as _anyio  # noqa: F401 - so that a missing package is named here, and how to get it
except ModuleNotFoundError as missing:
    raise TrailsError(
        "trails.aio needs the package `anyio`, which is not installed: pip install 'trails[aio]'"
    ) from missing

from trails.aio.handles import *  # noqa: F403 - `handles.__all__`
