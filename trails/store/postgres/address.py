"""The address of a store in PostgreSQL: `postgresql://host/db?store=NAME`, and how it may be shown."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

from trails.errors import InvalidInput

SCHEMES: Final = ("postgresql://", "postgres://")
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^:@\[\]]*)(:[0-9]{1,5})?")


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
    >>> parse("postgresql://one:5432,two:5433/trails?store=team&target_session_attrs=read-write").shown
    'postgresql://one:5432,two:5433/trails?store=team'
    """
    parts, hosts, given = _read(location)
    names = [value for name, value in given if name == "store"]
    if len(names) != 1 or _NAME.fullmatch(names[0]) is None:
        raise InvalidInput(
            "the URL of a store in PostgreSQL names one store in its database: postgresql://HOST/DATABASE?store=NAME, "
            "a name of 1 to 63 small letters, digits, dots, dashes and underscores"
        )
    rest = [(name, value) for name, value in given if name != "store"]
    where = hosts or quote(next((value for name, value in rest if name == "host"), ""), safe="")
    options = f"?{urlencode(rest, quote_via=quote)}" if rest else ""
    secrets = {value for name, value in rest if "password" in name} | {parts.password or ""}
    return Address(
        conninfo=f"postgresql://{parts.netloc}{parts.path}{options}",
        name=names[0],
        shown=f"postgresql://{where}{parts.path}?store={names[0]}",
        secrets=tuple(sorted({form for each in secrets if each for form in _forms(each)}, key=len, reverse=True)),
    )


def _read(location: str) -> tuple[SplitResult, str, list[tuple[str, str]]]:
    """Return the parts of a URL, its hosts with their ports as they stand there (libpq takes several), and its query."""
    refused = InvalidInput(
        "the URL of a store in PostgreSQL cannot be read; write postgresql://HOST/DATABASE?store=NAME, "
        "and what is not a letter or a digit in a user or a password as %XX"
    )
    try:
        parts = urlsplit(location)
        given = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        raise refused from None
    _, _, hosts = parts.netloc.rpartition("@")
    is_broken = parts.fragment or "@" in parts.path or parts.netloc.count("@") > 1
    if is_broken or not all(_HOST.fullmatch(each) for each in hosts.split(",")):
        raise refused  # part of a password, most likely: nothing of it is shown
    return parts, hosts, given


def shown(location: str) -> str:
    """Return a location as it may be shown: a folder as it is, a URL without what libpq alone needs to know.

    >>> shown("agent.trails"), shown("postgresql://me:pass@localhost/db?store=team")
    ('agent.trails', 'postgresql://localhost/db?store=team')
    """
    return parse(location).shown if is_address(location) else location


def _forms(secret: str) -> tuple[str, ...]:
    return secret, unquote(secret)
