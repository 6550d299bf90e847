"""Tokens: who may call a server. Each is 256 random bits that are shown once; only their SHA-256 is kept.

They are kept in a file of the store's folder, beside the log, which only its owner can read. A store in PostgreSQL has no
folder: there the file is named by `--tokens`. A running server sees each change of the file with the next request.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import os
import re
import secrets
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol

from trails.errors import InvalidInput, StoreFailed
from trails.files import open_own, write_whole
from trails.model import iris, validation
from trails.serve.callers import Caller, Role, role_of

NAME: Final = "tokens.json"
"""The name of the file in a store's folder."""
_PREFIX: Final = "trails_"
_TOKEN: Final = re.compile(rf"{_PREFIX}[A-Za-z0-9_-]{{43}}")
_TOKEN_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_VERSION: Final = 1
_MOST_BYTES: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class Token:
    """What is kept of a token."""

    name: str
    principal: str
    role: Role
    is_for_all: bool
    """Whether a reader or a writer sees the sessions of all principals."""
    made: datetime
    expires: datetime | None
    revoked: datetime | None
    sha256: str

    def is_valid(self, now: datetime) -> bool:
        """Tell whether the token still holds."""
        return self.revoked is None and (self.expires is None or now < self.expires)

    @property
    def caller(self) -> Caller:
        """Whoever has the token."""
        return Caller(self.principal, self.role, self.is_for_all)

    def to_dict(self) -> dict[str, Any]:
        """Return the token as plain values, ready for JSON: not what would let anybody in."""
        times = {key: _text(getattr(self, key)) for key in ("made", "expires", "revoked")}
        return {"name": self.name, "principal": self.principal, "role": self.role, "all": self.is_for_all, **times}


def _text(time: datetime | None) -> str | None:
    return None if time is None else time.astimezone(UTC).isoformat()


def sha256_of(text: str) -> str:
    """Return what is kept of a secret text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def looks_like_token(text: str) -> bool:
    """Tell whether a text has the form of a token."""
    return _TOKEN.fullmatch(text) is not None


def place_of(folder: Path | None, named: Path | None) -> Path | None:
    """Return where the tokens of a store are: the file that is named, else that in its folder; None if there is neither."""
    return named or (None if folder is None else folder / NAME)


class TokenFile:
    """The file with the tokens of a store. Each call sees the file as it is then."""

    def __init__(self, path: Path) -> None:
        """Read and write the tokens at a path; nothing is read yet, and the file may not be there."""
        self.path = path
        self._seen: object = None
        self._tokens: tuple[Token, ...] = ()

    @property
    def exists(self) -> bool:
        """Whether there is such a file: then nobody is let in without a token, even if none of them holds any more."""
        return os.path.lexists(self.path)

    def every(self) -> Sequence[Token]:
        """Return all tokens, the oldest first; raise `StoreFailed` for a file that cannot be read, or that others can."""
        try:
            with os.fdopen(os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
                status = os.fstat(file.fileno())
                self._check(status)
                seen = _identity(status)
                if seen != self._seen:
                    self._tokens, self._seen = _parsed(file, self.path), seen
        except FileNotFoundError:
            self._tokens, self._seen = (), None
        except OSError as error:
            raise StoreFailed(f"the tokens in {self.path} cannot be read ({error.strerror})") from error
        return self._tokens

    def _check(self, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise StoreFailed(f"{self.path} is no file, so it holds no tokens and nobody is let in")
        if status.st_mode & 0o077 or status.st_uid not in (0, os.geteuid()):
            raise StoreFailed(
                f"the tokens in {self.path} can be read or changed by others than who runs this, so nobody is let in; let it "
                f"belong to this user, and run `chmod 600 {self.path}`"
            )

    def find(self, secret: str, now: datetime | None = None) -> Token | None:
        """Return the token that a secret text is, if it still holds; None for any other text."""
        if not looks_like_token(secret):
            return None
        return self.with_hash(sha256_of(secret), now)

    def with_hash(self, sha256: str, now: datetime | None = None) -> Token | None:
        """Return the token that still holds and has a SHA-256; each is compared, in a time that does not depend on it."""
        when, found = now or datetime.now(UTC), None
        for token in self.every():
            if hmac.compare_digest(token.sha256, sha256):
                found = token
        return found if found is not None and found.is_valid(when) else None

    def make(
        self, name: str, principal: str, role: Role, *, expires: datetime | None = None, is_for_all: bool = False
    ) -> tuple[Token, str]:
        """Make a token and return it with the secret text, which is shown here and kept nowhere.

        `name` (1 to 64 letters, digits, `.`, `_` and `-`) is of no other token. `principal` is whose sessions a reader or a
        writer sees, and who an auditor or an admin is. With `is_for_all`, a reader or a writer sees those of everybody.
        Raises `InvalidInput` for other values, and for a time that is over.
        """
        if not _TOKEN_NAME.fullmatch(name):
            raise InvalidInput(f"a token's name is 1 to 64 letters, digits, '.', '_' and '-', not {name!r:.80}")
        now, secret = datetime.now(UTC), _PREFIX + secrets.token_urlsafe(32)
        until = None if expires is None else validation.time(expires, "expires")
        if until is not None and until <= now:
            raise InvalidInput(f"the token would hold until {until.isoformat()}, which is over")
        whose = validation.name(principal, "principal")
        if iris.is_unnamed(iris.principal(whose)):
            raise InvalidInput(f"{whose!r} stands for names that were taken out, so nobody is called so")
        token = Token(name, whose, role_of(role), is_for_all, now, until, None, sha256_of(secret))
        with self._writing() as tokens:
            if any(each.name == name for each in tokens):
                raise InvalidInput(
                    f"there is a token {name!r} already; names are used once, also of tokens that are revoked"
                )
            tokens.append(token)
        return token, secret

    def revoke(self, name: str) -> Token:
        """Revoke a token, which holds no more from the next request on; raise `InvalidInput` if there is none of that name."""
        with self._writing() as tokens:
            for place, token in enumerate(tokens):
                if token.name == name:
                    gone = tokens[place] = token if token.revoked else replace(token, revoked=datetime.now(UTC))
                    return gone
            names = ", ".join(each.name for each in tokens) or "there are none"
            raise InvalidInput(f"there is no token {name!r:.80}: {names}")

    @contextmanager
    def _writing(self) -> Iterator[list[Token]]:
        """Give the tokens to be changed, and write them; whoever else writes waits."""
        lock = open_own(self.path.with_name(f"{self.path.name}.lock"), os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            tokens = [*self.every()]
            yield tokens
            body = {"version": _VERSION, "tokens": [_kept(each) for each in tokens]}
            write_whole(self.path, lambda file: file.write(json.dumps(body, indent=1).encode() + b"\n"))
        finally:
            os.close(lock)


def _identity(status: os.stat_result) -> object:
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size


def _kept(token: Token) -> dict[str, Any]:
    return token.to_dict() | {"sha256": token.sha256}


def _parsed(file: BinaryIO, path: Path) -> tuple[Token, ...]:
    try:
        body = json.loads(file.read(_MOST_BYTES))
        if body["version"] != _VERSION:
            raise ValueError(f"its version is {body['version']!r:.20}")
        return tuple(_read(each) for each in body["tokens"])
    except (ValueError, KeyError, TypeError, AttributeError, InvalidInput) as error:
        raise StoreFailed(
            f"{path} is no file of tokens ({type(error).__name__}: {error!s:.100}), so nobody is let in; restore it, or move it "
            "away and make the tokens anew with `trails token make`"
        ) from error


def _read(kept: dict[str, Any]) -> Token:
    if not re.fullmatch("[0-9a-f]{64}", kept["sha256"]) or not isinstance(kept["all"], bool):
        raise ValueError("a token is not as it was written")
    made, expires, revoked = (_time(kept[key]) for key in ("made", "expires", "revoked"))
    if made is None:
        raise ValueError("a token does not say when it was made")
    whose = validation.name(kept["principal"], "principal")
    return Token(str(kept["name"]), whose, role_of(kept["role"]), kept["all"], made, expires, revoked, kept["sha256"])


def _time(text: str | None) -> datetime | None:
    return None if text is None else validation.time(datetime.fromisoformat(text), "a time")


class _OneTime(Protocol):
    def one_time(self, caller: Caller) -> str: ...


class _Served(Protocol):
    @property
    def sign_ins(self) -> _OneTime: ...


def one_time(service: _Served, caller: Caller) -> str:
    """Return a text that signs a caller in once, within five minutes: `/login#TEXT` in a browser takes it."""
    return service.sign_ins.one_time(caller)
