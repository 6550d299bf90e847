"""Who asks, and what they may see and do."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from http import HTTPStatus
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

from pyoxigraph import NamedNode
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from trails.errors import InvalidInput, SessionNotFound, TrailsError
from trails.model import iris
from trails.rdf import vocab
from trails.serve import guard, oidc, tokens
from trails.serve.callers import RIGHTS, Caller, Forbidden, Right, Role, Unauthorized
from trails.serve.scoped_views import ScopedViews
from trails.serve.service import Service, Settings, service_of
from trails.serve.tokens import TokenFile
from trails.session.repository import Repository

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection
    from starlette.routing import BaseRoute

__all__ = ["Caller", "Forbidden", "Right", "Role", "Unauthorized", "caller_of", "require", "view_of"]
_NAMES: Final = re.compile(r"""(['"])([^\s'"]+)\1|urn:trails:session:[^\s/<>'"]+""")
"""What may be a session's name in the words of an error."""
_SENT: Final = "trails.sent"
"""Where a request's scope has the texts of its body."""
_HERE: Final = Caller(None, "admin")
_HOW: Final = "send a token (`Authorization: Bearer TOKEN`; `trails token make` makes one), or sign in at /login"


class Access:
    """What a server knows of who may call it."""

    def __init__(self, service: Service) -> None:
        """Raise `InvalidInput` for a file that describes no issuer."""
        self.settings = service.settings
        self.views = ScopedViews(service.store)
        self._service = service
        place = tokens.place_of(service.store.store.folder, self.settings.tokens)
        self._tokens = None if place is None else TokenFile(place)
        self._had_tokens = self._tokens is not None and self._tokens.exists
        """Whether there was a file of tokens since this server began: that it is gone opens nothing."""
        self._issuer = None if self.settings.oidc is None else oidc.Verifier(oidc.read_issuer(self.settings.oidc))

    @property
    def is_open(self) -> bool:
        """Whether whoever is at this machine needs no token."""
        is_here = guard.is_loopback(self.settings.host) and not self.settings.is_behind_proxy
        return is_here and self._issuer is None and not self._needs_token

    @property
    def _needs_token(self) -> bool:
        self._had_tokens = self._had_tokens or (self._tokens is not None and self._tokens.exists)
        return self._had_tokens or self.settings.tokens is not None or self.settings.needs_sign_in

    async def caller_for(self, authorization: str | None, cookie: str | None) -> tuple[Caller | TrailsError, bool]:
        """Return who asks, or the error that says why nobody knows, and whether a cookie says it."""
        try:
            if authorization is not None:
                kind, _, secret = authorization.partition(" ")
                if kind.lower() != "bearer":
                    raise Unauthorized(f"this server takes bearer tokens alone; {_HOW}")
                caller, _ = await self._of_secret(secret.strip())
                return caller, False
            signed_in = None if cookie is None else self._of_cookie(cookie)
            if signed_in is not None:
                return signed_in, True
            if self.is_open:
                return _HERE, False
            raise Unauthorized(f"nobody is let in here without a token; {_HOW}")
        except TrailsError as error:
            return error, False

    async def _of_secret(self, secret: str) -> tuple[Caller, float | None]:
        """Return who has a token, and for how many seconds it holds; raise `Unauthorized` for any that does not."""
        token = None if self._tokens is None else self._tokens.find(secret)
        if token is not None:
            return token.caller, None if token.expires is None else (token.expires - datetime.now(UTC)).total_seconds()
        if self._issuer is not None and secret.count(".") == 2:
            return await self._service.run(self._issuer.caller, secret)
        raise Unauthorized(f"there is no such token here, or it does not hold any more; {_HOW}")

    def _of_cookie(self, cookie: str) -> Caller | None:
        found = self._service.sign_ins.find(cookie)
        if found is None:
            return None
        if found.token is not None and (self._tokens is None or self._tokens.with_hash(found.token) is None):
            return None
        return found.caller

    async def told(self, request: HTTPConnection, said: Any) -> Any:
        """Return what an error says, or a field of it, less the names of sessions that the caller may not see.

        What a write collides with may be somebody else's: a label that is taken, say. What the caller sent is said again
        whether it is there or not: else what is there could be told from what is not.
        """
        caller = request.scope.get(guard.CALLER)
        if isinstance(said, list | tuple):
            return [await self.told(request, each) for each in said]
        if not isinstance(said, str) or not isinstance(caller, Caller) or caller.sees_all:
            return said
        return await self._service.run(self._without_names, caller.principal, said, "\n".join(_sent(request)))

    def _without_names(self, principal: str, text: str, sent: str) -> str:
        store = self._service.store.store

        def shown(found: re.Match[str]) -> str:
            name = found[2] or iris.session_id(found[0])
            if name in sent:
                return found[0]
            node = NamedNode(iris.session(name))
            is_there = bool(store.quads((node, vocab.TYPE, None, vocab.CATALOG)))
            return "..." if is_there and not self.views.sees(principal, name) else found[0]

        return _NAMES.sub(shown, text)

    async def sign_in(self, secret: str) -> str:
        """Return the value of the cookie for whoever has a token, or what works once; raise `Unauthorized` for any other text."""
        once = self._service.sign_ins.redeem(secret)
        if once is not None:
            return self._service.sign_ins.begin(once.caller)
        caller, seconds = await self._of_secret(secret)
        own = tokens.sha256_of(secret) if tokens.looks_like_token(secret) else None
        return self._service.sign_ins.begin(caller, own, *([] if seconds is None else [seconds]))


def remember_sent(request: HTTPConnection, sent: Any) -> None:
    """Take note of the texts in what a caller sent as a body: errors may say these again."""
    texts = request.scope.setdefault(_SENT, [])
    left = [sent]
    while left:
        value = left.pop()
        if isinstance(value, str):
            texts.append(value)
        elif isinstance(value, dict):
            left += (*value.keys(), *value.values())
        elif isinstance(value, list):
            left += value


def _sent(request: HTTPConnection) -> list[str]:
    """Return the texts that a request has in its path, its query, its headers and, as far as it was read, its body."""
    query = [text for pair in request.query_params.multi_items() for text in pair]
    return [request.scope["path"], *query, *request.headers.values(), *request.scope.get(_SENT, ())]


def access_of(request: HTTPConnection) -> Access:
    """Return what a request's server knows of who may call it."""
    return cast("Access", request.app.state.access)


def caller_of(request: HTTPConnection) -> Caller:
    """Return who asks; raise `Unauthorized`."""
    found = request.scope[guard.CALLER]
    if isinstance(found, TrailsError):
        raise found
    return cast("Caller", found)


async def view_of(request: HTTPConnection) -> Repository:
    """Return the store as whoever asks may see it; raise `Unauthorized`.

    What a caller may not see is not there. It is read only, unless it is the whole store; nobody closes it.
    """
    caller = caller_of(request)
    service = service_of(request)
    if caller.sees_all:
        return service.store
    return await service.run(access_of(request).views.of, caller.principal)


async def sees(request: HTTPConnection, session_id: str) -> bool:
    """Tell whether whoever asks may see a session, by its id; raise `Unauthorized`."""
    caller = caller_of(request)
    service = service_of(request)
    if caller.sees_all:
        return await service.run(service.store.__contains__, session_id)
    return await service.run(access_of(request).views.sees, caller.principal, session_id)


async def check_session(request: HTTPConnection, session_id: str) -> None:
    """Raise `SessionNotFound` for the id of a session that whoever asks may not see, as for one that is not there."""
    if not await sees(request, session_id):
        raise SessionNotFound(f"there is no session {session_id!r:.200}")


def own_principal(request: HTTPConnection, given: str | None) -> str | None:
    """Return the principal of a new session, which is the caller's own unless they see all.

    Raises `Forbidden` if another one is given: the caller would not see what they made.
    """
    caller = caller_of(request)
    if caller.sees_all:
        return given if given is not None else caller.principal
    if given not in (None, caller.principal):
        raise Forbidden(f"a {caller.role} makes sessions for {caller.principal!r} alone, not for {given!r:.80}")
    return caller.principal


def require(request: HTTPConnection, right: Right) -> Caller:
    """Return who asks if they have a right; raise `Unauthorized` or `Forbidden`."""
    caller = caller_of(request)
    if right not in RIGHTS[caller.role]:
        raise Forbidden(f"the role {caller.role!r} has no right to {right} here; ask for a token with another role")
    return caller


def check_start(settings: Settings, folder: Path | None) -> None:
    """Raise `InvalidInput` if a server may not start so: others could call it without a token, or read what it says.

    `folder` is the store's, where there is one.
    """
    for origin in settings.allowed_origins:
        parts = urlsplit(origin)
        if parts.scheme not in ("http", "https") or not parts.netloc or origin != f"{parts.scheme}://{parts.netloc}":
            raise InvalidInput(f"a site is written https://name or http://name:port, not {origin!r:.80}")
    if settings.oidc is not None:
        oidc.read_issuer(settings.oidc)
    place = tokens.place_of(folder, settings.tokens)
    if settings.tokens is not None and not settings.tokens.exists():
        raise InvalidInput(f"there are no tokens in {settings.tokens}; make one with `trails token make --tokens FILE`")
    kept = TokenFile(place).every() if place is not None else ()
    if guard.is_loopback(settings.host) and not settings.is_behind_proxy:
        return
    now = datetime.now(UTC)
    if settings.oidc is None and not any(token.is_valid(now) for token in kept):
        raise InvalidInput(
            "others can call this server, and it has no token that holds; make one with `trails token make`, or name an issuer "
            "with --oidc. Without either it listens on 127.0.0.1 alone"
        )
    if not settings.is_behind_proxy and not settings.has_tls:
        raise InvalidInput(
            f"on {settings.host} tokens would go through the network as plain text; give a certificate (--tls-cert and "
            "--tls-key), or put a proxy that has one before it and say --behind-proxy"
        )


# --- signing in from a browser


async def _sign_in_page(request: Request) -> Response:
    return _page(request.query_params.get("next", "/"))


async def _sign_in(request: Request) -> Response:
    form = await request.form(max_files=0, max_fields=4, max_part_size=32 << 10)
    secret, place = form.get("token", ""), _local(form.get("next", "/"))
    access = access_of(request)
    try:
        if not isinstance(secret, str) or not secret.strip():
            raise Unauthorized("there was no token in the form")
        cookie = await access.sign_in(secret.strip())
    except Unauthorized as error:
        return _page(place, error.message, HTTPStatus.FORBIDDEN)
    answer = RedirectResponse(place, HTTPStatus.SEE_OTHER)
    answer.set_cookie(
        guard.cookie_name(request.scope),
        cookie,
        httponly=True,
        samesite="strict",
        secure=_is_secure(request, access.settings),
    )
    return answer


async def _sign_out(request: Request) -> Response:
    cookie = guard.cookie_of(request.headers, request.scope)
    if cookie is not None:
        service_of(request).sign_ins.end(cookie)
    answer = RedirectResponse("/login", HTTPStatus.SEE_OTHER)
    answer.delete_cookie(guard.cookie_name(request.scope), httponly=True, samesite="strict")
    return answer


async def _script(request: Request) -> Response:
    return Response(_file("login.js"), media_type="text/javascript")


def _is_secure(request: Request, settings: Settings) -> bool:
    return request.url.scheme == "https" or settings.has_tls or settings.is_behind_proxy


def _local(place: object) -> str:
    """Return a place of this server, to which a browser may be sent: the beginning, if another one is given."""
    text = place if isinstance(place, str) else "/"
    is_here = text.startswith("/") and not text.startswith("//") and text.isprintable() and "\\" not in text
    return text if is_here else "/"


def _page(place: str, wrong: str = "", status: HTTPStatus = HTTPStatus.OK) -> Response:
    note = f'<p class="bad" role="alert">{escape(wrong)}</p>' if wrong else ""
    return HTMLResponse(Template(_file("login.html")).substitute(next=escape(_local(place)), note=note), int(status))


def _file(name: str) -> str:
    return files("trails.serve").joinpath(name).read_text("utf-8")


def routes(service: Service) -> Sequence[BaseRoute]:
    """Return the routes of signing in and out."""
    return [
        Route("/login", _sign_in_page),
        Route("/login", _sign_in, methods=["POST"]),
        Route("/login.js", _script),
        Route("/logout", _sign_out, methods=["POST"]),
    ]
