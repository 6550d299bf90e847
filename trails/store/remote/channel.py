"""The way to a server: one connection that is kept alive, a token, time limits, and errors in words."""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Mapping
from ipaddress import ip_address
from types import ModuleType
from typing import Any, Final, Protocol
from urllib.parse import SplitResult, urlsplit

from trails.errors import InvalidInput, StoreFailed
from trails.store.remote import wire

TOKEN: Final = "TRAILS_TOKEN"  # noqa: S105 - the name of the variable
"""The variable of the environment that has the token, if the program gives none."""
PATIENCE: Final = 30.0
"""Seconds for which a request is repeated while the server is away."""
_CONNECT: Final = 10.0
"""Seconds in which a connection must be there."""
_AWAY: Final = frozenset({502, 503, 504})
"""Statuses of a proxy or a server that cannot answer now."""


class Channel(Protocol):
    """What asks a server: over HTTP, or in the server itself."""

    @property
    def is_far(self) -> bool:
        """Whether a request takes so long that a guess which the commit checks is better."""
        ...

    @property
    def location(self) -> str:
        """Where the store is."""
        ...

    def ask(self, what: str, body: Mapping[str, Any]) -> Any:
        """Return the answer to a request: "read", "commit" or "act", with its body."""
        ...

    def close(self) -> None:
        """Let go of the connection."""
        ...


def is_address(location: str) -> bool:
    """Tell whether a location is the address of a server.

    >>> is_address("https://store.example/"), is_address("./https"), is_address("postgresql://host/db")
    (True, False, False)
    """
    return location.lower().startswith(("https://", "http://"))


def checked_address(location: str) -> str:
    """Return a server's address with a slash at its end; raise `InvalidInput`, which shows no secret, for what is none.

    >>> checked_address("https://store.example/trails"), checked_address("http://127.0.0.1:8420")
    ('https://store.example/trails/', 'http://127.0.0.1:8420/')
    """
    try:
        parts = urlsplit(location)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise InvalidInput("that is no address of a server: write https://HOST/ or https://HOST:PORT/") from None
    if not host:
        raise InvalidInput("an address of a server has a host: write https://HOST/")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise InvalidInput(
            f"the address of a server is https://HOST/ without a name, a password or a query; give the token as token=... "
            f"or in the environment's {TOKEN} (host: {host})"
        )
    if parts.scheme.lower() == "http" and not is_loopback(host):
        raise InvalidInput(
            f"http:// would send the token and all texts in clear to {host}: write https://; http:// is for this machine alone "
            "(127.0.0.1, localhost)"
        )
    shown = f"[{host}]" if ":" in host else host
    place = shown if port is None else f"{shown}:{port}"
    return SplitResult(parts.scheme.lower(), place, parts.path.rstrip("/") + "/", "", "").geturl()


def is_loopback(host: str) -> bool:
    """Tell whether a name or an address is one of this machine for itself."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _httpx() -> ModuleType:
    try:
        import httpx  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise InvalidInput(
            "a store on a server needs httpx, which is not installed: pip install 'trails[remote]'"
        ) from error
    return httpx


class HttpChannel:
    """Requests over HTTP. Threads may share it: each request has a connection of its own while it lasts."""

    is_far = True

    def __init__(self, location: str, *, token: str | None = None, timeout: float = 60.0) -> None:
        """Nothing is asked yet. `timeout` is for how many seconds an answer is waited for.

        Raises `InvalidInput` for an address that is none, for a token that no header can carry, and where httpx is missing.
        """
        self._location = checked_address(location)
        self._http = _httpx()
        secret = os.environ.get(TOKEN) if token is None else token
        headers = {wire.HEADER: str(wire.VERSION), "content-type": "application/json", "accept": "application/json"}
        if secret:
            if not (secret.isascii() and secret.isprintable() and " " not in secret):
                raise InvalidInput(
                    f"a token is a text without spaces, as `trails token` shows it; give it whole ({TOKEN})"
                )
            headers["authorization"] = f"Bearer {secret}"
        self._has_token = bool(secret)
        self._closed = False
        self._pid = os.getpid()
        self.requests = 0
        """How many requests were sent."""
        self._counting = threading.Lock()
        self._client = self._http.Client(
            base_url=self._location,
            headers=headers,
            timeout=self._http.Timeout(timeout, connect=_CONNECT),
            follow_redirects=False,
            limits=self._http.Limits(max_keepalive_connections=8, keepalive_expiry=30.0),
            trust_env=not self._location.startswith("http://"),  # no proxy to this machine
        )

    @property
    def location(self) -> str:
        return self._location

    def ask(self, what: str, body: Mapping[str, Any]) -> Any:
        """Return the answer to a request; one that may have been lost is sent again until `PATIENCE` is over.

        Every request may be repeated: reads change nothing, and a commit or an act has an id by which the server knows it.
        Raises what the server says, and `StoreFailed` where it is away or refuses the caller.
        """
        if self._closed:
            raise StoreFailed(f"the store {self._location} is closed; open it again")
        if os.getpid() != self._pid:
            raise StoreFailed(
                f"the store {self._location} was opened before this process was forked: open it again in this process"
            )
        content = _content(body)
        end, pause = time.monotonic() + PATIENCE, 0.05
        while True:
            why = ""
            try:
                with self._counting:
                    self.requests += 1
                answer = self._client.post(f"store/{what}", content=content)
                if answer.status_code not in _AWAY or _is_said(answer):
                    return self._answered(answer)
                why = f"it answers {answer.status_code}"
            except (self._http.TransportError, self._http.DecodingError, json.JSONDecodeError) as error:
                why = f"{type(error).__name__}: {str(error)[:200]}".rstrip(": ")
            if time.monotonic() + pause > end:
                raise StoreFailed(
                    f"the server {self._location} cannot be reached ({why}); what is pending is kept: try again once it runs "
                    "(`trails serve`)"
                )
            time.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - so that many clients do not come at once
            pause = min(1.0, pause * 2)
            content = _content({**body, "again": True})

    def _answered(self, answer: Any) -> Any:
        version = answer.headers.get(wire.HEADER)
        if version is not None and version != str(wire.VERSION):
            raise StoreFailed(
                f"the server {self._location} speaks version {version[:20]} of the store protocol, and this client version "
                f"{wire.VERSION}: use the same version of Trails on both sides"
            )
        if answer.status_code == 200 and version is not None:
            return answer.json()
        if answer.status_code != 401 and (said := _said(answer)) is not None:  # for that, this knows what to do
            raise wire.error_in(said)
        raise StoreFailed(self._refusal(answer))

    def _refusal(self, answer: Any) -> str:
        """Return in words why a server did not do what it was asked for."""
        where, status = self._location, answer.status_code
        if status == 401:
            if self._has_token:
                return (
                    f"the server {where} does not know this token: it was revoked, is over, or is one of another store"
                )
            return (
                f"the server {where} wants a token: open it with token=..., or set {TOKEN} (`trails token` makes one)"
            )
        detail = _detail(answer)
        if status == 413:
            return (
                f"the server {where} takes no commit as large as this one (`trails serve --max-body`), and nothing was written: "
                "persist fewer turns at once, or take back what is pending (discard_pending)"
            )
        if status == 403:
            return (
                f"the server {where} does not let this token do that: {detail or 'ask for a token with another role'}"
            )
        if status in (200, 404, 405):
            return f"there is no Trails store at {where} (status {status}): give the address that `trails serve` shows"
        return f"the server {where} answers with status {status}{f': {detail}' if detail else ''}"

    def close(self) -> None:
        """End the connections. Doing it twice is allowed."""
        if not self._closed:
            self._closed = True
            if os.getpid() == self._pid:
                self._client.close()


def _content(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def _body(answer: Any) -> Mapping[str, Any]:
    try:
        found = answer.json()
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _said(answer: Any) -> Mapping[str, Any] | None:
    """Return the error of Trails that an answer holds."""
    found = _body(answer).get("error") if answer.headers.get(wire.HEADER) is not None else None
    return found if isinstance(found, dict) else None


def _is_said(answer: Any) -> bool:
    return _said(answer) is not None


def _detail(answer: Any) -> str:
    return str(_body(answer).get("detail") or "")[:400]
