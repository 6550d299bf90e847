"""What is done to a session or a turn from its page: fork, label, tag, note, score, redact. No link ever does it, only a form.

A page of another site cannot send such a form: the server takes writes from its own pages alone (`trails.serve.guard`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import RedirectResponse, Response

from trails.compare.session_diff import readable_blocks
from trails.errors import InvalidInput, TrailsError
from trails.serve.access import check_session, remember_sent, require, view_of
from trails.serve.console.rendering import page, route, session_address
from trails.serve.problems import status_of
from trails.serve.service import Service, service_of
from trails.serve.taken_names import check_label

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.routing import BaseRoute

    from trails.model.values import SessionRecord, Turn
    from trails.rdf.score_records import ScoreValue
    from trails.serve.callers import Caller
    from trails.session import Repository

_MOST_HEIRS: Final = 1_000
"""Sessions that inherit a turn which are counted before it is redacted."""
_DIGITS: Final = 9


@dataclass(frozen=True, slots=True)
class Deed:
    """What a form asks for: by whom, to which session, to which of its turns (None: to all of it), and its other fields."""

    caller: Caller
    session_id: str
    index: int | None
    fields: Mapping[str, str]

    @property
    def by(self) -> str | None:
        """Who does it, as it stays on record."""
        return self.caller.principal

    def text(self, name: str) -> str:
        """Return a field that must be filled in; raise `InvalidInput` if it is not."""
        if not self.fields.get(name):
            raise InvalidInput(f"{name} is empty; fill it in")
        return self.fields[name]

    def turn(self) -> int:
        """Return the index of the turn; raise `InvalidInput` if the form names none."""
        if self.index is None:
            raise InvalidInput("this is done to a turn, and none was named")
        return self.index


@dataclass(frozen=True, slots=True)
class Done:
    """What was done, in words, and where to look at it."""

    words: str
    place: str


Act = Callable[["Repository", Deed], Done]


def score_value(text: str) -> ScoreValue:
    """Return what a field says a score is: a truth value, a number, or a text.

    >>> [score_value(text) for text in ("true", "no", "3", "0.5", "1e999", "warm")]
    [True, 'no', 3, 0.5, '1e999', 'warm']
    """
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        if abs(number) < float("inf") and "_" not in text:
            return number
    return text


# --- deeds, each on a worker thread


def _fork(store: Repository, deed: Deed) -> Done:
    parent = store.load(deed.session_id, last=0)
    at, label = None if deed.index is None else deed.index + 1, deed.fields.get("label") or None
    check_label(store, None, label)
    fork = parent.fork(at, label=label, by=deed.by)
    fork.persist()
    return Done(f"forked as {fork.id}", session_address(fork.id))


def _label(store: Repository, deed: Deed) -> Done:
    label = deed.fields.get("label") or None
    check_label(store, deed.session_id, label)
    store.set_label(deed.session_id, label, by=deed.by)
    return Done(f"labelled {label}" if label else "the label is gone", session_address(deed.session_id))


def _tag(store: Repository, deed: Deed) -> Done:
    end = len(store.load(deed.session_id, last=0)) if deed.index is None else deed.index + 1
    tag = store.tags.add(deed.text("name"), f"{store.record(deed.session_id).iri}@{end}", by=deed.by)
    return Done(f"tagged {tag.name}", _place(deed))


def _note(store: Repository, deed: Deed) -> Done:
    store.notes.add(deed.session_id, deed.turn(), deed.text("text"), by=deed.by)
    return Done("the note is on record", _place(deed))


def _score(store: Repository, deed: Deed) -> Done:
    of: Any = store.record(deed.session_id) if deed.index is None else (deed.session_id, deed.index)
    value, reason = score_value(deed.text("value")), deed.fields.get("reason") or None
    score = store.score(of, deed.text("name"), value, by=deed.by, reason=reason)
    return Done(f"scored {score.name}: {score.value}", _place(deed))


def _place(deed: Deed) -> str:
    return session_address(deed.session_id, deed.index)


_ACTS: Final[Mapping[str, Act]] = {"fork": _fork, "label": _label, "tag": _tag, "note": _note, "score": _score}


# --- pages


async def forms_page(request: Request) -> Response:
    """Show the forms of what can be done to a session, or to one of its turns."""
    require(request, "write")
    view = await view_of(request)
    session, turn = await _named(request, view)
    template = "action_forms.html" if "hx-request" in request.headers else "actions.html"
    return page(request, template, section="sessions", session=session, turn=turn)


def act(name: str) -> Callable[[Request], Awaitable[Response]]:
    """Return the endpoint that does what a form asks for, and then shows where it was done."""

    @in_words
    async def endpoint(request: Request) -> Response:
        deed = await _deed(request, require(request, "write"))
        done = await service_of(request).run(_ACTS[name], service_of(request).store, deed)
        if "hx-request" in request.headers:
            return page(request, "action_done.html", done=done)
        return RedirectResponse(done.place, HTTPStatus.SEE_OTHER)

    return endpoint


def in_words(endpoint: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """Have errors told beside the form, if it was sent by a script; `route` makes pages of others."""

    @wraps(endpoint)
    async def answer(request: Request) -> Response:
        try:
            return await endpoint(request)
        except TrailsError as error:
            if "hx-request" not in request.headers:
                raise
            return page(request, "action_failed.html", status=status_of(error), detail=error.message)

    return answer


async def redact_page(request: Request) -> Response:
    """Show what a redaction would take out, and ask whether it shall."""
    require(request, "admin")
    view = await view_of(request)
    session, turn = await _named(request, view)
    if turn is None:
        raise InvalidInput("a redaction is of a turn, and none was named")
    heirs = await service_of(request).run(_heirs, view, turn)
    return page(
        request,
        "redact.html",
        section="sessions",
        session=session,
        turn=turn,
        content=readable_blocks(turn),
        heirs=heirs,
        most=_MOST_HEIRS,
    )


def _heirs(view: Repository, turn: Turn) -> list[str]:
    """Return the ids of the sessions that inherit a turn from the one that owns it, up to so many."""
    found: list[str] = []
    waiting = [turn.session_id]
    while waiting and len(found) < _MOST_HEIRS:
        children = [each.id for each in view.branches(waiting.pop()) if (each.forked_at_index or 0) > turn.index]
        found += children
        waiting += children
    return found[:_MOST_HEIRS]


async def redact(request: Request) -> Response:
    """Take the content of a turn out, once it was confirmed for the turn as it stands, and show what may still repeat it."""
    deed = await _deed(request, require(request, "admin"))
    store, service = service_of(request).store, service_of(request)
    index = deed.turn()
    turn = await service.run(lambda: store.load(deed.session_id, last=0)[index])
    if deed.fields.get("confirm") != turn.digest:
        raise InvalidInput(
            f"nothing was redacted: it was not confirmed for turn {index} of {deed.session_id} as it stands"
        )
    reason = deed.fields.get("reason") or None
    done = await service.run(store.redact, store.record(deed.session_id), index, by=deed.by, reason=reason)
    return page(request, "redacted.html", section="sessions", session_id=deed.session_id, index=index, done=done)


async def _named(request: Request, view: Repository) -> tuple[SessionRecord, Turn | None]:
    """Return the session and the turn that an address names."""
    name, index = request.query_params.get("id", ""), _index(request.query_params.get("turn", ""))

    def read() -> tuple[SessionRecord, Turn | None]:
        session = view.load(view.resolve(name), last=0)
        return session.record, None if index is None else _turn(session, index)

    return await service_of(request).run(read)


def _turn(session: Any, index: int) -> Turn:
    if index >= len(session):
        raise InvalidInput(f"session {session.id!r} has {len(session)} turns, so no turn {index}")
    turn: Turn = session[index]
    return turn


async def _deed(request: Request, caller: Caller) -> Deed:
    form = await request.form()
    fields = {name: value.strip() for name, value in form.items() if isinstance(value, str)}
    remember_sent(request, fields)
    session_id = fields.pop("session", "")
    if not session_id:
        raise InvalidInput("the form names no session")
    await check_session(request, session_id)
    return Deed(caller, session_id, _index(fields.pop("turn", "")), fields)


def _index(text: str) -> int | None:
    """Return the index of a turn that a form names, or None; raise `InvalidInput` for what is none."""
    if not text:
        return None
    if not text.isascii() or not text.isdecimal() or len(text) > _DIGITS:
        raise InvalidInput(f"the index of a turn is a whole number, not {text[:40]!r}")
    return int(text)


def routes(service: Service) -> Sequence[BaseRoute]:
    """Return the routes of what is done from pages."""
    deeds = [route(f"/actions/{name}", act(name), methods=("POST",)) for name in _ACTS]
    return [
        route("/actions", forms_page),
        *deeds,
        route("/actions/redact", redact_page),
        route("/actions/redact", redact, methods=("POST",)),
    ]
