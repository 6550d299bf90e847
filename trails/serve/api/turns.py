"""Turns over the API: read a page of a transcript, append, replay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from trails.model.values import Turn
from trails.serve.answers import entity_tag, render, respond
from trails.serve.api import shapes
from trails.serve.api.operations import (
    REPLAYED,
    Asked,
    Operation,
    ask,
    expected_head,
)
from trails.serve.appends import Append
from trails.serve.transcripts import Bounds, read_page

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_ZIPPED: Final = 1024
"""Bytes from which a page is compressed."""


def turn_arguments(turns: Sequence[shapes.NewTurn]) -> list[dict[str, Any]]:
    """Return the arguments of `Session.append` for turns that a request brings."""
    return [{name: getattr(each, name) for name in each.model_fields_set} for each in turns]


def appended(session_id: str, head: str, length: int, turns: Sequence[Turn]) -> dict[str, Any]:
    """Return what is answered to who appended turns: they, and where the session was with them."""
    return {"session": session_id, "head": head, "length": length, "turns": [turn.to_dict() for turn in turns]}


async def append_turns(request: Request) -> Response:
    """Append turns to a session, in one commit that others' appends may share."""
    asked = await ask(request, APPEND)
    service = asked.service
    name = asked.path["session"]
    wanted = Append(
        name if asked.view is service.store else await service.run(asked.view.resolve, name),
        turn_arguments(asked.body.turns),
        expected_head(asked.headers),
        asked.key,
        None if asked.key is None else asked.digest,
    )
    done = await service.appender.append(wanted)
    last = done.stored[-1]
    body = render(appended(done.session_id, last.digest, last.index + 1, done.stored))
    headers = {"ETag": entity_tag(last.digest)} | (REPLAYED if done.is_repeat else {})
    return respond(request, body, status=APPEND.status, headers=headers)


async def read_turns(request: Request) -> Response:
    """Return a page of a transcript."""
    asked = await ask(request, READ)
    is_zipped = "gzip" in request.headers.get("accept-encoding", "")
    body, headers = await asked.service.run(_page, asked, is_zipped=is_zipped)
    return respond(request, body, headers=headers)


def _page(asked: Asked, *, is_zipped: bool) -> tuple[bytes, dict[str, str]]:
    query = asked.query
    bounds = Bounds(query.last, query.first, query.end)
    if query.at is not None or not asked.sees_all:
        page = read_page(asked.view, asked.session, bounds)
    else:
        page = asked.service.pages.page(asked.path["session"], bounds)
    if is_zipped and len(page.body) > _ZIPPED:
        return page.zipped, {"ETag": page.tag, "Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
    return page.body, {"ETag": page.tag}


def replay(asked: Asked) -> dict[str, Any]:
    """Return a session's transcript as plain messages."""
    session_id = asked.session
    return {"session": session_id, "turns": asked.view.replay(session_id, up_to_index=asked.query.to)}


READ: Final = Operation(
    "GET", "/sessions/{session}/turns", "readTurns", "Read turns: the last 50, the `last` N, or a range of indices.", None,
    shapes.TurnPage, query=shapes.ReadTurns, has_tag=True, endpoint=read_turns,
)  # fmt: skip
APPEND: Final = Operation(
    "POST", "/sessions/{session}/turns", "appendTurns", "Append turns, all in one commit or none.", None, shapes.Appended,
    body=shapes.AppendTurns, status=201, right="write", takes_match=True, is_of_session=True,
    endpoint=append_turns,
)  # fmt: skip
OPERATIONS: Final = (
    READ,
    APPEND,
    Operation(
        "GET", "/sessions/{session}/replay", "replay", "Read a transcript as plain messages.", replay, shapes.Replayed,
        query=shapes.Replay,
    ),
)  # fmt: skip
