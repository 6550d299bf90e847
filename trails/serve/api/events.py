"""Events of what is committed, as they happen (server-sent events)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Final

import orjson
from starlette.responses import StreamingResponse

from trails.errors import InvalidInput
from trails.history.watch import NOTICE_KINDS
from trails.serve.access import sees
from trails.serve.api import shapes
from trails.serve.api.operations import InvalidRequest, Operation, ask
from trails.serve.commits import Event
from trails.serve.service import Service
from trails.store.leaflog import Leaves

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

MEDIA_TYPE: Final = "text/event-stream"
_BEAT: Final = 15.0
"""Seconds without an event after which a comment says that the stream is still there."""


async def follow_events(request: Request) -> Response:
    """Send what is committed from now on, or after the event that the client had last."""
    asked = await ask(request, EVENTS)
    service, query = asked.service, asked.query
    unknown = [kind for kind in query.kinds if kind not in NOTICE_KINDS]
    if unknown:
        raise InvalidInput(f"there are no events of the kind {unknown[0]!r:.80}; kinds are {', '.join(NOTICE_KINDS)}")
    session = None if query.session is None else await service.run(asked.view.resolve, query.session)
    service.feed.follow()
    start = request.headers.get("last-event-id", "").strip() or query.after
    place = service.feed.end() if start is None else await service.run(_place, service, start, asked.sees_all)
    seen: dict[str, bool] = {}

    async def is_wanted(event: Event) -> bool:
        notice = event.notice
        if (session is not None and notice.session_id != session) or (query.kinds and notice.kind not in query.kinds):
            return False
        if asked.sees_all:
            return True
        if not seen.get(notice.session_id):
            seen[notice.session_id] = await sees(request, notice.session_id)
        return seen[notice.session_id]

    return StreamingResponse(
        _stream(service, place, is_wanted, asked.sees_all), media_type=MEDIA_TYPE, headers={"Cache-Control": "no-store"}
    )


def _place(service: Service, event: str, is_number: bool) -> Leaves:
    """Return the place behind an event, which is named as it was sent; raise `InvalidRequest` or `InvalidInput`."""
    if not is_number:
        return service.feed.place_after_name(event)
    if not (event.isascii() and event.isdecimal()) or len(event) > len(str(1 << 53)):
        raise InvalidRequest(f"the id of an event is a number here, not {event!r:.80}")
    return service.feed.place_after(int(event))


async def _stream(
    service: Service, place: Leaves, is_wanted: Callable[[Event], Awaitable[bool]], is_number: bool
) -> AsyncIterator[bytes]:
    stopping = asyncio.ensure_future(service.stopping().wait())
    service.metrics.streams.inc()
    try:
        yield b": follow\n\n"
        beat = time.monotonic() + _BEAT
        while not service.is_stopping:
            commit = asyncio.ensure_future(service.feed.next_commit().wait())
            events, place = await service.run(service.feed.after, place)
            wanted = [event for event in events if await is_wanted(event)]
            if wanted:
                yield b"".join(_text(event, str(event.id) if is_number else event.name) for event in wanted)
                beat = time.monotonic() + _BEAT
            try:
                left = max(0.0, beat - time.monotonic())
                await asyncio.wait({commit, stopping}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            finally:
                commit.cancel()
            if time.monotonic() >= beat:  # also while others commit what this client does not see
                yield b": beat\n\n"
                beat = time.monotonic() + _BEAT
    finally:
        stopping.cancel()
        service.metrics.streams.dec()


def _text(event: Event, name: str) -> bytes:
    data = orjson.dumps(event.notice.to_dict())
    return b"id: %s\nevent: %s\ndata: %s\n\n" % (name.encode(), event.notice.kind.encode(), data)


EVENTS: Final = Operation(
    "GET", "/events", "followEvents", "Follow what is committed, as server-sent events.", None, str,
    query=shapes.ReadEvents, endpoint=follow_events, media_type=MEDIA_TYPE,
)  # fmt: skip
OPERATIONS: Final = (EVENTS,)
