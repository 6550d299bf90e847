"""The address of a store in PostgreSQL: `postgresql://host/db?store=NAME`, and how it may be shown."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Final
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

from trails.errors import InvalidInput

SCHEMES: Final = ("postgresql://", "postgres://")
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_DIRECT: Final = re.compile(r"(?P<host>[^:@,\[\]\s]+)(:(?P<port>[0-9]{1,5}))?")
_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^:@\[\]]*)(:[0-9]{1,5})?")


@dataclass(frozen=True, slots=True)
class Address:
    """Where a store's log is. Only `shown` is for people: what libpq gets may hold a password."""

    conninfo: str = field(repr=False)
    name: str
    shown: str
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """What must stand in no message."""
    direct: str = field(default="", repr=False)
    """The `conninfo` of the server behind a pooler, if the URL names it."""

    def past_pooler(self) -> Address:
        """Return the address at which the server itself is reached, if the URL names it with `direct`, else this one."""
        return replace(self, conninfo=self.direct) if self.direct else self

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
    """Return the address that a URL stands for; all of its query but `store` and `direct` is libpq's own (`sslmode`, ...).

    `direct=HOST:PORT` names the server behind a pooler. Raises `InvalidInput` where no store is named, and for a `direct` that
    cannot be read. The error never shows the URL, which may hold a password.

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
    rest = [(name, value) for name, value in given if name not in ("store", "direct")]
    where = hosts or quote(next((value for name, value in rest if name == "host"), ""), safe="")
    secrets = {value for name, value in rest if "password" in name} | {parts.password or ""}
    return Address(
        conninfo=_conninfo(parts.netloc, parts.path, rest),
        name=names[0],
        shown=f"postgresql://{where}{parts.path}?store={names[0]}",
        secrets=tuple(sorted({form for each in secrets if each for form in _forms(each)}, key=len, reverse=True)),
        direct=_direct([value for name, value in given if name == "direct"], parts, rest),
    )


def _conninfo(netloc: str, path: str, options: list[tuple[str, str]]) -> str:
    return f"postgresql://{netloc}{path}" + (f"?{urlencode(options, quote_via=quote)}" if options else "")


def _direct(wanted: list[str], parts: SplitResult, options: list[tuple[str, str]]) -> str:
    """Return the `conninfo` of the server that `direct` names, with the user and all options of the pooler's; "" for none.

    >>> parse("postgresql://me@pool:6432/db?store=team&direct=db:5433&sslmode=require").past_pooler().conninfo
    'postgresql://me@/db?sslmode=require&host=db&port=5433'
    """
    if not wanted:
        return ""
    named = _DIRECT.fullmatch(wanted[0])
    if len(wanted) != 1 or named is None:
        raise InvalidInput(
            "`direct` in the URL of a store in PostgreSQL names the server behind a pooler: direct=HOST, direct=HOST:PORT, "
            "or the folder of its socket, direct=/run/postgresql:5432"
        )
    user, _, _ = parts.netloc.rpartition("@")
    own = [each for each in options if each[0] not in ("host", "hostaddr", "port")]
    place = [("host", named["host"]), ("port", named["port"] or "5432")]
    return _conninfo(f"{user}@" if user else "", parts.path, [*own, *place])


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
