"""The address of a store in PostgreSQL: `postgresql://host/db?store=NAME`, and how it may be shown."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from trails.errors import InvalidInput

SCHEMES: Final = ("postgresql://", "postgres://")
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")


@dataclass(frozen=True, slots=True)
class Address:
    """Where a store's log is. Only `shown` is for people: what libpq gets may hold a password."""

    conninfo: str = field(repr=False)
    name: str
    shown: str
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """What must stand in no message."""

    def without_secrets(self, text: object) -> str:
        """Return a message of the driver without what is secret in the address, as one line.

        >>> parse("postgresql://me:pass@localhost/db?store=team").without_secrets("no route for pass")
        'no route for ***'
        """
        cleaned = " ".join(f"{text}".split())
        for secret in self.secrets:
            cleaned = cleaned.replace(secret, "***")
        return cleaned


def is_address(location: str) -> bool:
    """Tell whether a location names a store in PostgreSQL."""
    return location.startswith(SCHEMES)


def parse(location: str) -> Address:
    """Return the address that a URL stands for; all of its query but `store` is libpq's own (`sslmode`, `host`, ...).

    Raises `InvalidInput` where no store is named. The error never shows the URL, which may hold a password.

    >>> parse("postgresql://me:pass@db.example.org/trails?store=team&sslmode=verify-full").shown
    'postgresql://db.example.org/trails?store=team'
    """
    try:
        parts = urlsplit(location)
        port = parts.port
        given = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        raise InvalidInput(
            "the URL of a store in PostgreSQL cannot be read; write postgresql://HOST/DATABASE?store=NAME"
        ) from None
    names = [value for name, value in given if name == "store"]
    if len(names) != 1 or _NAME.fullmatch(names[0]) is None:
        raise InvalidInput(
            "the URL of a store in PostgreSQL names one store in its database: postgresql://HOST/DATABASE?store=NAME, "
            "a name of 1 to 63 small letters, digits, dots, dashes and underscores"
        )
    rest = [(name, value) for name, value in given if name != "store"]
    host = parts.hostname or quote(next((value for name, value in rest if name == "host"), ""), safe="")
    where = f"{host}:{port}" if port else host
    options = f"?{urlencode(rest, quote_via=quote)}" if rest else ""
    secrets = {value for name, value in rest if "password" in name} | {parts.password or ""}
    return Address(
        conninfo=f"postgresql://{parts.netloc}{parts.path}{options}",
        name=names[0],
        shown=f"postgresql://{where}{parts.path}?store={names[0]}",
        secrets=tuple(sorted({form for each in secrets if each for form in _forms(each)}, key=len, reverse=True)),
    )


def shown(location: str) -> str:
    """Return a location as it may be shown: a folder as it is, a URL without what libpq alone needs to know.

    >>> shown("agent.trails"), shown("postgresql://me:pass@localhost/db?store=team")
    ('agent.trails', 'postgresql://localhost/db?store=team')
    """
    return parse(location).shown if is_address(location) else location


def _forms(secret: str) -> tuple[str, ...]:
    return secret, unquote(secret)
