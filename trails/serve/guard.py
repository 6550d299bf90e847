"""What stands before every route: who asks, from where, and how much; and the headers with which each answer goes out."""

from __future__ import annotations

import time
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import quote, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from trails.serve import problems
from trails.serve.callers import Caller

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from trails.errors import TrailsError
    from trails.serve.service import Settings

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # not `no-referrer`: with that, browsers send forms from the origin `null`
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "private, no-cache",
}
"""Headers of each answer that does not say otherwise itself."""
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_ANY: Final = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - no name of a server
_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_MOST_HEADERS: Final = 100
_MOST_HEADER_BYTES: Final = 32 << 10
_MOST_TARGET_BYTES: Final = 32 << 10
_LOOK: Final = 1.0
"""Seconds after which it is looked again, between two parts of an answer, whether a token still holds."""
CALLER: Final = "trails.caller"
"""Where in a request's scope it stands who asks, or the error that says why nobody knows."""


def is_loopback(host: str) -> bool:
    """Tell whether a name or an address is one of this machine for itself.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0"), is_loopback("127.0.0.1.example.com")
    (True, True, False, False)
    """
    return host.lower().strip("[]") in _LOOPBACK


class Ended(Exception):
    """A stream is cut short, which tells its client that it is not whole."""


class Doorkeeper(Protocol):
    """What tells who asks."""

    settings: Settings

    async def caller_for(self, authorization: str | None, cookie: str | None) -> tuple[Caller | TrailsError, bool]:
        """Return who asks, or the error that says why nobody knows, and whether a cookie says it."""
        ...


class Guard:
    """An ASGI middleware: lets in what may come in, settles who asks, and sets the headers of what goes out."""

    def __init__(self, app: ASGIApp, access: Doorkeeper) -> None:
        """Stand before an application."""
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or let the application answer it."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return  # there are no web sockets here
        headers = Headers(scope=scope)
        sent = self._with_headers(scope, headers, self._while_it_holds(scope, headers, send))
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await refusal(scope, receive, sent)
            return
        cookie = cookie_of(headers, scope)
        scope[CALLER], by_cookie = await self._access.caller_for(headers.get("authorization"), cookie)
        if by_cookie and scope["method"] not in _READS and not headers.get("origin"):
            refusal = problems.problem(
                HTTPStatus.FORBIDDEN,
                "Forbidden",
                "a browser that is signed in says with each write from where it comes (Origin)",
            )
            await refusal(scope, receive, sent)
            return
        await self._app(scope, self._limited(receive), sent)

    # --- what comes in

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        """Return the answer to a request that is not let in; None for any other."""
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._is_allowed(hosts[0]):
            return _refused(
                HTTPStatus.MISDIRECTED_REQUEST,
                "a Host that is not this server's; start it with `--allowed-host NAME` if people call it by that name",
            )
        if scope["method"] not in _READS and not self._is_from_here(scope, headers, hosts[0]):
            return _refused(HTTPStatus.FORBIDDEN, "a write that comes from a page of another site")
        return self._too_much(scope, headers)

    def _too_much(self, scope: Scope, headers: Headers) -> Response | None:
        sizes = [len(name) + len(value) for name, value in scope["headers"]]
        if len(sizes) > _MOST_HEADERS or sum(sizes) > _MOST_HEADER_BYTES:
            return _refused(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"more than {_MOST_HEADER_BYTES} bytes of headers"
            )
        if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > _MOST_TARGET_BYTES:
            return _refused(HTTPStatus.REQUEST_URI_TOO_LONG, f"an address of more than {_MOST_TARGET_BYTES} bytes")
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdecimal()):
            return _refused(HTTPStatus.BAD_REQUEST, "a Content-Length that is no number")
        if int(length[:20]) > self._access.settings.max_body:
            return _too_large(self._access.settings.max_body)
        return None

    def _is_allowed(self, host: str) -> bool:
        try:
            parts = urlsplit(f"//{host}")
            name, _ = parts.hostname or "", parts.port
        except ValueError:
            return False
        if parts.netloc != host or parts.username is not None or not name:
            return False
        allowed = {each.lower() for each in (*self._access.settings.allowed_hosts, self._access.settings.host)} - _ANY
        return is_loopback(name) or name.lower() in allowed or host.lower() in allowed

    def _is_from_here(self, scope: Scope, headers: Headers, host: str) -> bool:
        """Tell whether a write comes from a page of this server, or from no page."""
        origin = headers.get("origin")
        if origin is None:
            return headers.get("sec-fetch-site", "none") in ("same-origin", "none")
        if scope["path"] == "/sparql" and origin in self._access.settings.allowed_origins:
            return True  # a POST there reads
        schemes = ("http", "https") if self._access.settings.is_behind_proxy else (scope["scheme"],)
        try:
            parts = urlsplit(origin)
            return parts.scheme in schemes and _with_port(parts.netloc, parts.scheme) == _with_port(host, parts.scheme)
        except ValueError:
            return False

    def _limited(self, receive: Receive) -> Receive:
        """Return what receives a body of so many bytes at most; more raises an error that is answered as any other."""
        most, taken = self._access.settings.max_body, 0

        async def received() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > most:
                raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body of more than {most} bytes was sent")
            return message

        return received

    # --- what goes out

    def _while_it_holds(self, scope: Scope, headers: Headers, send: Send) -> Send:
        """Return what sends the parts of an answer for as long as whoever asked may have them: a stream may go on for days."""
        looked = time.monotonic()

        async def sent(message: Message) -> None:
            nonlocal looked
            is_due = message.get("more_body") and time.monotonic() - looked > _LOOK
            if is_due and isinstance(scope.get(CALLER), Caller):
                caller, _ = await self._access.caller_for(headers.get("authorization"), cookie_of(headers, scope))
                if caller != scope.get(CALLER):
                    raise Ended("the token of a stream does not hold any more")
                looked = time.monotonic()
            await send(message)

        return sent

    def _with_headers(self, scope: Scope, asked: Headers, send: Send) -> Send:
        """Return what sends answers with our headers; a person who is not signed in is sent to do that."""
        is_away = False

        async def sent(message: Message) -> None:
            nonlocal is_away
            if message["type"] == "http.response.start":
                if message["status"] == HTTPStatus.UNAUTHORIZED and _is_person(scope, asked):
                    is_away = True
                    place = scope["path"] + (
                        "?" + scope["query_string"].decode("latin-1") if scope["query_string"] else ""
                    )
                    answer = RedirectResponse(f"/login?next={quote(place, safe='')}", HTTPStatus.SEE_OTHER)
                    message = {"type": message["type"], "status": answer.status_code, "headers": answer.raw_headers}
                headers = MutableHeaders(raw=message.setdefault("headers", []))
                message["headers"] = headers.raw
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                headers.add_vary_header("Authorization, Cookie")
                if message["status"] == HTTPStatus.UNAUTHORIZED:
                    headers.setdefault("www-authenticate", 'Bearer realm="trails"')
            elif is_away and message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        return sent


def _refused(status: HTTPStatus, what: str) -> Response:
    return problems.problem(status, status.phrase, f"this server does not take {what}", kind="urn:trails:guide:access")


def _too_large(most: int) -> Response:
    return _refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body of more than {most} bytes")


def _with_port(host: str, scheme: str) -> tuple[str, int]:
    parts = urlsplit(f"//{host}")
    return (parts.hostname or "").lower(), parts.port or (443 if scheme == "https" else 80)


def _is_person(scope: Scope, headers: Headers) -> bool:
    is_page = "text/html" in headers.get("accept", "")
    return scope["method"] == "GET" and is_page and "authorization" not in headers and "hx-request" not in headers


def cookie_name(scope: Scope) -> str:
    """Return the name of the cookie: with the port, for cookies of one machine are sent to all its ports."""
    host = Headers(scope=scope).get("host", "")
    _, _, port = host.rpartition(":")
    return f"trails_{port}" if port.isdecimal() else "trails"


def cookie_of(headers: Headers, scope: Scope) -> str | None:
    """Return what the cookie of a request says; None if there is none, or one that cannot be read."""
    cookies: SimpleCookie = SimpleCookie()
    try:
        cookies.load("; ".join(headers.getlist("cookie")))
    except CookieError:
        return None
    kept = cookies.get(cookie_name(scope))
    return None if kept is None else kept.value
