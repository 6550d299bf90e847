"""A session: what it is, and its transcript, the last part first and the rest as one scrolls.

A part of the transcript is a window of turns. It begins and ends with a link to the turns before and after, which are
fetched as they come into view; the end of the session asks for new turns instead.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute

from trails.errors import InvalidInput
from trails.exchange.exporters.turn_blocks import PICTURES, Block, blocks_of, images_of
from trails.history import annotation_kinds
from trails.history.lookup.summaries import find_summary
from trails.model.values import Note, SessionRecord, Tag, Turn
from trails.rdf.score_records import Score
from trails.serve.access import caller_of, view_of
from trails.serve.console.rendering import HEADERS, page, render, route
from trails.serve.service import Service, service_of
from trails.session.repository import Repository
from trails.session.session import Session

PART: Final = 40
"""Turns that are shown at once."""
_BEFORE: Final = 10
"""Turns that are shown before one that a permalink names."""
_TEXT: Final = 3000
"""Characters of a text that are shown in the transcript; a turn's own page has all."""
_FORKS: Final = 12
_DROPPED: Final = 500


@dataclass(frozen=True, slots=True)
class ShownTurn:
    """A turn with what stands beside it."""

    turn: Turn
    blocks: Sequence[Block]
    forks: Sequence[SessionRecord]
    """The forks that leave the transcript after it."""
    tags: Sequence[Tag]
    notes: Sequence[Note]
    scores: Sequence[Score]

    @property
    def spent(self) -> tuple[int | None, int | None, Any]:
        """Tokens in, tokens out and cost, as the turn's model call reported them."""
        call = self.turn.facts.model_call
        return (None, None, None) if call is None else call.reported


@dataclass(frozen=True, slots=True)
class Part:
    """The turns of a session from `start` on, up to `end` (exclusive), of `length`."""

    record: SessionRecord
    turns: Sequence[ShownTurn]
    start: int
    end: int
    length: int


def window(
    length: int, *, turn: int | None = None, end: int | None = None, start: int | None = None
) -> tuple[int, int]:
    """Return which turns to show: around one, up to an end, from a start on, or the last.

    >>> window(100), window(100, turn=50), window(100, end=60), window(100, start=90)
    ((60, 100), (40, 80), (20, 60), (90, 100))
    """
    if start is None:
        end = length if end is None and turn is None else min(end or 0, length) if turn is None else None
        start = max(0, (turn or 0) - _BEFORE) if end is None else max(0, end - PART)
        end = start + PART if end is None else end
        return start, min(end, length)
    return min(start, length), min(start + PART, length)


def read_part(view: Repository, session: Session, start: int, end: int, *, limit: int | None = _TEXT) -> Part:
    """Return a part of a session's transcript with what stands beside its turns."""
    turns = session.turns[start:end]
    tools = {call.id: call.name for turn in session.turns[max(0, start - 1) : end] for call in turn.tool_calls}
    forks, tags = _beside(view, session)
    shown = [
        ShownTurn(
            turn,
            blocks_of(turn, tools, limit),
            forks[turn.index + 1],
            tags[turn.index + 1],
            annotation_kinds.notes_on(view.store, turn.digest),
            annotation_kinds.newest_scores(annotation_kinds.turn_scores(view.store, turn.digest)),
        )
        for turn in turns
    ]
    return Part(session.record, shown, start, end, len(session))


def _beside(view: Repository, session: Session) -> tuple[Mapping[int, list[SessionRecord]], Mapping[int, list[Tag]]]:
    """Return a session's forks and its tags, by how many turns lie before them."""
    forks: dict[int, list[SessionRecord]] = defaultdict(list)
    tags: dict[int, list[Tag]] = defaultdict(list)
    for fork in view.branches(session.id):
        forks[fork.forked_at_index or 0].append(fork)
    for tag in view.tags.list(session.id):
        tags[tag.length].append(tag)
    return forks, tags


def index_of(request: Request, name: str) -> int | None:
    """Return a number of turns that an address names, or None; raise `InvalidInput` for what is none."""
    text = request.query_params.get(name)
    if text is None or text == "":
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= 9):
        raise InvalidInput(f"{name} is a number of turns, not {text!r:.40}")
    return int(text)


def named_session(request: Request) -> str:
    """Return the name of a session that an address gives; raise `InvalidInput` for none."""
    if not (name := request.query_params.get("id", "")):
        raise InvalidInput("say which session: /session?id=ID")
    return name


async def session_page(request: Request) -> Response:
    """Show a session with the last part of its transcript, or the part around a turn."""
    view, name, turn = await view_of(request), named_session(request), index_of(request, "turn")
    end, start = index_of(request, "end"), index_of(request, "start")

    def read() -> dict[str, Any]:
        session = view.load(name, last=0, fresh=True)
        if turn is not None and turn >= len(session):
            raise HTTPException(404, f"session {session.id!r} has {len(session)} turns, so none with index {turn}")
        bounds = window(len(session), turn=turn, end=end, start=start)
        record = session.record
        own = annotation_kinds.newest_scores(annotation_kinds.session_scores(view.store, session.id))
        return {
            "part": read_part(view, session, *bounds),
            "session": record,
            "prompt": session.system_prompt,
            "children": view.branches(session.id),
            "summary": find_summary(view.workspace, session.id),
            "own_scores": own,
            "sought_turn": turn,
        }

    values = await service_of(request).run(read)
    return page(request, "session.html", section="sessions", few_forks=_FORKS, **values)


async def session_part(request: Request) -> Response:
    """Answer with a part of the transcript: turns before an end or from a start on; with nothing if there are none yet."""
    view, name = await view_of(request), named_session(request)
    end, start = index_of(request, "end"), index_of(request, "start")

    def read() -> Part:
        session = view.load(name, last=0, fresh=end is None)
        return read_part(view, session, *window(len(session), end=end, start=start))

    part = await service_of(request).run(read)
    if not part.turns:
        return Response(status_code=204, headers=HEADERS)
    values = {"part": part, "session": part.record, "caller": caller_of(request), "few_forks": _FORKS}
    edges = {"with_older": start is None, "with_newer": end is None, "sought_turn": None}
    return HTMLResponse(render("session_part.html", **values, **edges), headers=HEADERS)


async def dropped_turns(request: Request) -> Response:
    """Answer with what a compaction dropped: a line for each turn that a model is not shown any more."""
    view, name, index = await view_of(request), named_session(request), index_of(request, "turn")

    def read() -> dict[str, Any]:
        session = view.load(name, last=0)
        made = session.turns[index or 0].compaction if (index or 0) < len(session) else None
        if made is None or made.summarised_through is None:
            raise HTTPException(404, f"turn {index} of session {session.id!r} says no turns that it stands for")
        end = made.summarised_through + 1
        start = max(0, end - _DROPPED)
        return {"session": session.record, "turns": session.turns[start:end], "start": start}

    return HTMLResponse(render("dropped.html", **await service_of(request).run(read)), headers=HEADERS)


async def turn_image(request: Request) -> Response:
    """Answer with a picture that a turn holds."""
    view, name = await view_of(request), named_session(request)
    index, number = index_of(request, "turn") or 0, index_of(request, "number") or 0

    def read() -> Any:
        turns = view.load(name, last=0).turns
        images = images_of(turns[index]) if index < len(turns) else []
        return images[number] if number < len(images) else ""

    image = await service_of(request).run(read)
    if isinstance(image, str):
        raise HTTPException(404, f"turn {index} of session {name!r} holds no such picture")
    return _picture(image.media_type, image.data, f"image-{index}-{number}")


async def turn_payload(request: Request) -> Response:
    """Answer with a payload of a turn: as a picture if it is one, else as a file to keep."""
    view, name = await view_of(request), named_session(request)
    index, number = index_of(request, "turn") or 0, index_of(request, "number") or 0

    def read() -> Any:
        turns = view.load(name, last=0).turns
        payloads = turns[index].payloads if index < len(turns) else ()
        return (payloads[number], view.payload(payloads[number])) if number < len(payloads) else None

    found = await service_of(request).run(read)
    if found is None:
        raise HTTPException(404, f"turn {index} of session {name!r} has no such payload")
    return _picture(found[0].media_type, found[1], f"payload-{index}-{number}")


def _picture(media_type: str, data: bytes, name: str) -> Response:
    """Return bytes of a store so that a browser takes them for a picture or for a file, never for a page."""
    headers = HEADERS | {
        "content-security-policy": "default-src 'none'; sandbox",
        "cache-control": "private, max-age=60",
    }
    if media_type.lower() in PICTURES:
        return Response(data, media_type=media_type.lower(), headers=headers)
    headers |= {"content-disposition": f'attachment; filename="{name}"'}
    return Response(data, media_type="application/octet-stream", headers=headers)


def routes(service: Service) -> Sequence[BaseRoute]:
    """Return the routes of a session."""
    return [
        route("/session", session_page),
        route("/session/part", session_part),
        route("/session/dropped", dropped_turns),
        route("/image", turn_image),
        route("/payload", turn_payload),
    ]
