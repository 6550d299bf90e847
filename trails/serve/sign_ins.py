"""Who is signed in from a browser: kept in the memory of the server, and gone when it ends."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from trails.serve.callers import Caller
from trails.serve.tokens import sha256_of

_ONCE: Final = 300.0
"""Seconds within which what works once is used."""
_LONGEST: Final = 12 * 3600.0
"""Seconds after which a browser signs in again."""
_MOST: Final = 10_000
"""Browsers that are signed in, and texts that wait to be used: of more, the oldest are forgotten."""
_ONCE_PREFIX: Final = "once_"


@dataclass(frozen=True, slots=True)
class SignIn:
    """Who signed in, by which token if by one, and until when that holds (by the monotonic clock)."""

    caller: Caller
    token: str | None
    """The SHA-256 of the token: the sign-in ends with it."""
    until: float


class SignIns:
    """The sign-ins of one server. Secrets are kept as their SHA-256."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._once: dict[str, SignIn] = {}
        self._cookies: dict[str, SignIn] = {}

    def one_time(self, caller: Caller) -> str:
        """Return a text that signs a caller in once."""
        return self._put(self._once, _ONCE_PREFIX, SignIn(caller, None, self._clock() + _ONCE))

    def redeem(self, secret: str) -> SignIn | None:
        """Return whom such a text signs in, and let it work no more; None for any other text."""
        with self._lock:
            found = self._once.pop(sha256_of(secret), None)
        return found if found is not None and self._clock() < found.until else None

    def begin(self, caller: Caller, token: str | None = None, seconds: float = _LONGEST) -> str:
        """Sign a caller in, for so many seconds at most, and return the value of the cookie."""
        return self._put(self._cookies, "", SignIn(caller, token, self._clock() + min(seconds, _LONGEST)))

    def find(self, cookie: str) -> SignIn | None:
        """Return who is signed in with a cookie; None if nobody is, or not any more."""
        found = self._cookies.get(sha256_of(cookie))
        return found if found is not None and self._clock() < found.until else None

    def end(self, cookie: str) -> None:
        """Sign out."""
        with self._lock:
            self._cookies.pop(sha256_of(cookie), None)

    def _put(self, kept: dict[str, SignIn], prefix: str, made: SignIn) -> str:
        secret = prefix + secrets.token_urlsafe(32)
        with self._lock:
            now = self._clock()
            for key in [key for key, each in kept.items() if each.until <= now] if len(kept) >= _MOST else ():
                del kept[key]
            while len(kept) >= _MOST:
                del kept[next(iter(kept))]
            kept[sha256_of(secret)] = made
        return secret
