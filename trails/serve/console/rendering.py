"""Render the console's pages: one Jinja2 environment that escapes every value, and one strict Content-Security-Policy.

No text of a store becomes markup: a filter that returns HTML escapes what it is given. Scripts, styles and pictures come
from the console's own files alone; a page has no script or style within it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from functools import cache, wraps
from html import escape
from http import HTTPStatus
from importlib import import_module
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from trails.display import markdown
from trails.display.terminal_text import clean, count, one_line, shorten
from trails.errors import TrailsError
from trails.serve.access import Unauthorized, caller_of
from trails.serve.problems import status_of, told_to

TEMPLATES: Final = Path(__file__).with_name("templates")
STATIC: Final = Path(__file__).with_name("static")
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""What a browser may load for a page: the console's own files, and pictures that a turn holds as data."""
HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cache-control": "no-store",
}
NAVIGATION: Final = (
    ("sessions", "/", "Sessions"),
    ("forest", "/forest", "Forest"),
    ("compare", "/compare", "Compare"),
    ("scores", "/scores", "Scores"),
    ("audit", "/audit", "Audit"),
    ("sparql", "/sparql-editor", "SPARQL"),
)
"""The sections of the console: the name that a template sets as `section`, the address, and the words."""

_DIGITS: Final = 9
"""Digits that a number in an address may have."""

Endpoint = Callable[[Request], Awaitable[Response]]


def route(path: str, endpoint: Endpoint, *, methods: Sequence[str] = ("GET",)) -> Route:
    """Return the route of a page, whose errors are answered in words, with the status that the API would give."""

    @wraps(endpoint)
    async def answer(request: Request) -> Response:
        try:
            return await endpoint(request)
        except Unauthorized:
            raise
        except TrailsError as error:
            status = status_of(error)
            detail = await told_to(request, error, error.message)
            return page(request, "message.html", status=status, title=status.phrase, detail=detail)
        except HTTPException as error:
            title = HTTPStatus(error.status_code).phrase
            return page(request, "message.html", status=error.status_code, title=title, detail=error.detail)

    return Route(path, answer, methods=list(methods))


def page(request: Request, template: str, /, *, status: int = 200, **values: Any) -> HTMLResponse:
    """Return a page made of a template, which extends `layout.html`; it knows `caller`, `request` and `navigation` too.

    A request of htmx (`HX-Request`) is for a template that is a part of a page, which is rendered alike.
    """
    content = render(template, request=request, caller=caller_of(request), **values)
    return HTMLResponse(content, status_code=status, headers=HEADERS)


def download(content: str | bytes, media_type: str, name: str) -> Response:
    """Return a file that the browser keeps under a name."""
    return Response(
        content, media_type=media_type, headers={**HEADERS, "content-disposition": f'attachment; filename="{name}"'}
    )


def render(template: str, **values: Any) -> str:
    """Return the text that a template makes of values, each of which is escaped."""
    return str(_environment().get_template(template).render(values))


def address(path: str, /, **parameters: object) -> str:
    """Return the address of a page with its parameters; those that are None are left out.

    >>> address("/session", id="a/b", turn=None)
    '/session?id=a%2Fb'
    """
    given = {name: value for name, value in parameters.items() if value is not None}
    return f"{path}?{urlencode(given, doseq=True)}" if given else path


def whole_number(request: Request, name: str) -> int:
    """Return a whole number of a page's address, 0 if it is not there."""
    given = request.query_params.get(name) or "0"
    if not given.isascii() or not given.isdecimal() or len(given) > _DIGITS:
        raise HTTPException(HTTPStatus.BAD_REQUEST, f"{name} is a whole number, not {given[:40]!r}")
    return int(given)


def session_address(session_id: str, turn: int | None = None) -> str:
    """Return the address of a session, or the permalink of one of its turns."""
    link = address("/session", id=session_id, turn=turn)
    return link if turn is None else f"{link}#turn-{turn}"


@cache
def _environment() -> Any:
    jinja = import_module("jinja2")
    options = {"trim_blocks": True, "lstrip_blocks": True, "autoescape": True, "undefined": jinja.StrictUndefined}
    made = jinja.Environment(loader=jinja.FileSystemLoader(TEMPLATES), **options)
    made.filters |= {
        "plain": plain,
        "text": text,
        "markdown": markdown.render,
        "short": lambda value, most=120: _html(escape(shorten(str(value), most))),
        "count": count,
        "moment": moment,
        "iso": lambda time: time.astimezone(UTC).isoformat(),
        "number": number,
        "money": money,
    }
    made.globals |= {"navigation": NAVIGATION, "address": address, "session_address": session_address}
    return made


def _html(content: str) -> Markup:
    return Markup(content)  # noqa: S704 - whoever calls it has escaped what stands in it


def plain(value: object) -> Markup:
    """Return a value on one line, isolated from the direction of its neighbours."""
    return _html(f"<bdi>{escape(one_line(str(value)))}</bdi>")


def text(value: object) -> Markup:
    """Return a text with its line ends; what would turn or hide its neighbours is shown as signs."""
    return _html(escape(clean(str(value))))


def drawing(svg: bytes) -> Markup:
    """Return an SVG that Trails has drawn, in which every text is escaped, to stand within a page."""
    return _html(svg.decode().removeprefix('<?xml version="1.0" encoding="UTF-8"?>').strip())


def moment(time: datetime | None) -> str:
    """Return a time in UTC as people read it, or a dash if there is none."""
    return "-" if time is None else time.astimezone(UTC).strftime("%Y-%m-%d %H:%M")


def number(value: float | None) -> str:
    """Return a number with separators, or a dash if there is none.

    >>> number(12345), number(None)
    ('12,345', '-')
    """
    return "-" if value is None else f"{value:,}"


def money(value: object) -> str:
    """Return a cost in dollars, or a dash if none is known.

    >>> money(0.00123), money(1234.5), money(None)
    ('$0.0012', '$1,234.50', '-')
    """
    if value is None:
        return "-"
    amount = float(str(value))
    return f"${amount:,.2f}" if amount >= 1 or not amount else f"${amount:.4f}"
