"""Callers whom an identity provider vouches for: the bearer tokens (JWT) of one OpenID Connect issuer.

PyJWT reads and checks them. The issuer's keys are fetched once, again for a token that names a key which is not there, and
anew each hour.
"""

from __future__ import annotations

import json
import threading
import time
import tomllib
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import jwt

from trails.errors import InvalidInput
from trails.files import read_whole
from trails.model import iris, validation
from trails.rdf.session_records import DEFAULT_PRINCIPAL
from trails.serve.callers import Caller, Role, Unauthorized, role_of
from trails.serve.guard import is_loopback

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""The signatures that count: those by a key pair. A token that asks for another one, or for none, is refused."""
_PAUSE: Final = 10.0
"""Seconds between two times that keys are fetched: whoever makes up key names does not make the server ask for each."""
_LIFE: Final = 3600.0
"""Seconds after which keys are fetched anew: an issuer may have withdrawn one."""
_TIMEOUT: Final = 5.0
_LEEWAY: Final = 30.0
"""Seconds that the clocks of server and issuer may be apart."""
_LONGEST: Final = 16 << 10


@dataclass(frozen=True, slots=True)
class Issuer:
    """One issuer, and how its tokens are read."""

    issuer: str
    """Its address, just as its tokens have it (`iss`)."""
    audience: str
    """Whom its tokens must be for (`aud`)."""
    jwks: str | None = None
    """The address of its keys; by default what its `/.well-known/openid-configuration` says."""
    principal_claim: str = "sub"
    """What of a token is the principal's name."""
    role_claim: str = "trails_role"
    """What of a token is the role: a name, or a list with one of the names in it."""
    default_role: Role | None = None
    """The role of a token that says none; None: such a token lets nobody in."""

    def __post_init__(self) -> None:
        """Raise `InvalidInput` for what cannot be."""
        for name in ("issuer", "audience", "principal_claim", "role_claim"):
            validation.name(getattr(self, name), name)
        for address in (self.issuer, *([self.jwks] if self.jwks else [])):
            _check_address(address)
        if self.default_role is not None:
            role_of(self.default_role)


def _check_address(address: str) -> None:
    parts = urlsplit(address)
    if not (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))):
        raise InvalidInput(
            f"an issuer and its keys are read by https, not from {address!r:.200}: anybody could stand between"
        )


def read_issuer(path: Path) -> Issuer:
    """Return the issuer that a TOML file describes: `issuer`, `audience`, and the other fields of `Issuer` if they differ.

    Raises `InvalidInput` for any other file.
    """
    try:
        told = tomllib.loads(read_whole(path).decode())
        return Issuer(**told)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read ({error.strerror})") from error
    except (ValueError, TypeError) as error:
        raise InvalidInput(f"{path} describes no issuer: {error!s:.200}; see `trails guide access`") from error


def _fetched(address: str) -> Any:
    _check_address(address)
    with urllib.request.build_opener(_NoRedirect).open(address, timeout=_TIMEOUT) as answer:
        return json.loads(answer.read(1 << 20))


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows nothing: what an issuer names is where its keys are, and a redirect may lead away from https."""

    def redirect_request(self, *given: Any, **options: Any) -> None:
        return None


class Verifier:
    """Tells who has a token of an issuer. Its calls block where keys are fetched."""

    def __init__(
        self, issuer: Issuer, *, fetch: Callable[[str], Any] = _fetched, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._issuer = issuer
        self._fetch = fetch
        self._clock = clock
        self._lock = threading.Lock()
        self._keys: dict[str | None, jwt.PyJWK] = {}
        self._asked: float | None = None

    def caller(self, token: str) -> tuple[Caller, float]:
        """Return who has a token, and for how many seconds it still holds; raise `Unauthorized` for any that does not hold."""
        claims = self._claims(token)
        name = claims.get(self._issuer.principal_claim)
        try:
            principal = validation.name(name, f"the claim {self._issuer.principal_claim!r}")
            if iris.is_unnamed(iris.principal(principal)) or principal == DEFAULT_PRINCIPAL:
                raise InvalidInput(f"{principal!r} is nobody's name")
            caller = Caller(principal, self._role(claims.get(self._issuer.role_claim)))
        except InvalidInput as error:
            raise Unauthorized(
                f"the token of {self._issuer.issuer} names nobody whom this server lets in: {error}"
            ) from error
        return caller, max(0.0, claims["exp"] - time.time())

    def _role(self, told: object) -> Role:
        if told is None and self._issuer.default_role is not None:
            return self._issuer.default_role
        if isinstance(told, list):
            roles = {each for each in told if each in ("reader", "writer", "auditor", "admin")}
            if len(roles) != 1:
                raise InvalidInput(
                    f"the claim {self._issuer.role_claim!r} has {len(roles)} roles of this server; it has one"
                )
            (told,) = roles
        return role_of(told)

    def _claims(self, token: str) -> dict[str, Any]:
        if len(token) > _LONGEST:
            raise Unauthorized("the token is longer than any that is read here")
        try:
            header = jwt.get_unverified_header(token)
            if header.get("alg") not in ALGORITHMS:
                raise Unauthorized("the token is not signed by a key pair")
            key = self._key(header.get("kid"))
            return jwt.decode(
                token,
                key,
                algorithms=[key.algorithm_name] if key.algorithm_name in ALGORITHMS else [],
                audience=self._issuer.audience,
                issuer=self._issuer.issuer,
                leeway=_LEEWAY,
                options={"require": ["exp", "iss", "aud"]},
            )
        except jwt.PyJWTError as error:
            raise Unauthorized(f"the token does not hold: {error!s:.200}") from error

    def _key(self, kid: str | None) -> jwt.PyJWK:
        """Return the key of a name; fetch the keys if it is not there, unless they were fetched just now."""
        with self._lock:
            age = self._clock() - self._asked if self._asked is not None else _LIFE
            if age >= _LIFE or (kid not in self._keys and age >= _PAUSE):
                self._asked = self._clock()
                self._keys = self._fetch_keys() or self._keys
            if kid not in self._keys:
                raise Unauthorized(f"the issuer {self._issuer.issuer} has no key of the name that the token gives")
            return self._keys[kid]

    def _fetch_keys(self) -> dict[str | None, jwt.PyJWK]:
        try:
            address = self._issuer.jwks
            if address is None:
                place = self._issuer.issuer.rstrip("/") + "/.well-known/openid-configuration"
                told = self._fetch(place)
                if told["issuer"] != self._issuer.issuer:
                    raise ValueError(f"what {place} describes is another issuer")
                address = str(told["jwks_uri"])
            keys = jwt.PyJWKSet.from_dict(self._fetch(address)).keys
        except (OSError, ValueError, KeyError, TypeError, AttributeError, jwt.PyJWTError) as error:
            if self._keys:
                return {}  # what was fetched before still holds
            raise Unauthorized(
                f"the keys of {self._issuer.issuer} cannot be read ({type(error).__name__}: {error!s:.200}), so none of its "
                "tokens can be checked; try again later"
            ) from error
        return {
            key.key_id: key for key in keys if key.public_key_use in (None, "sig") and key.algorithm_name in ALGORITHMS
        }
