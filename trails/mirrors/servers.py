"""What SPARQL servers differ in, as a table: where they take updates, how, and what they cannot hold. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import urlsplit, urlunsplit

from trails.errors import InvalidInput

Kind = Literal["oxigraph", "virtuoso", "fuseki", "graphdb", "neptune", "stardog", "rdfox", "qlever", "other"]


@dataclass(frozen=True, slots=True)
class Server:
    """A kind of SPARQL 1.1 server.

    `query` and `update` are what its endpoints' paths end in; `triples` is how many triples one request may add. A server
    without a default graph of its own has the catalogue in a named one. Literals above `longest` bytes, and those with
    what a server refuses, stand there as a reference.
    """

    query: str = ""
    update: str = ""
    triples: int = 10_000
    has_default_graph: bool = True
    is_form: bool = False
    """Whether updates come as a form (SPARQL 1.1 Protocol, 2.2.1), not as text by themselves."""
    longest: int | None = None
    refuses_nul: bool = False
    most_integer: int | None = None


SERVERS: Final[dict[Kind, Server]] = {
    "oxigraph": Server("/query", "/update"),
    "virtuoso": Server(
        "/sparql",
        "/sparql-auth",
        triples=500,
        has_default_graph=False,
        is_form=True,
        longest=1_000_000,
        refuses_nul=True,
        most_integer=2**63 - 1,
    ),
    "fuseki": Server("/query", "/update"),
    "graphdb": Server("", "/statements", has_default_graph=False),
    "neptune": Server("/sparql", "/sparql", has_default_graph=False),
    "stardog": Server("/query", "/update"),
    "rdfox": Server("/sparql", "/sparql"),
    "qlever": Server("", "", has_default_graph=False),
    "other": Server("", ""),
}
"""By name. Of these, Oxigraph and Virtuoso are tried by the tests; the others are as their documentation says."""


def kind_of(header: str | None) -> Kind:
    """Return the kind of server that names itself so in its answers' Server header.

    >>> kind_of("Virtuoso/07.20.3229 (Linux)"), kind_of("oxigraph/0.5.13"), kind_of(None)
    ('virtuoso', 'oxigraph', 'other')
    """
    said = (header or "").lower()
    return next((kind for kind in SERVERS if kind in said), "other")


def endpoints(url: str, server: Server) -> tuple[str, str]:
    """Return the addresses for queries and for updates of a server that is named by its base, or by that for queries.

    >>> endpoints("http://localhost:7878", SERVERS["oxigraph"])
    ('http://localhost:7878/query', 'http://localhost:7878/update')
    >>> endpoints("http://localhost:8890/sparql", SERVERS["virtuoso"])
    ('http://localhost:8890/sparql', 'http://localhost:8890/sparql-auth')
    """
    parts = urlsplit(url)
    base = parts.path.rstrip("/")
    if server.query and base.endswith(server.query):
        base = base.removesuffix(server.query)
    query, update = (urlunsplit(parts._replace(path=base + end or "/")) for end in (server.query, server.update))
    return query, update


def checked(url: str) -> str:
    """Return the address of a server, or raise `InvalidInput` for what is none, without what it says of passwords."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InvalidInput("the address of a mirror cannot be read; give one like http://localhost:7878") from error
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise InvalidInput(
            f"a mirror is a SPARQL server's address, like http://localhost:7878, not {without_secrets(url)!r:.200}"
        )
    if any(each.isspace() or not each.isprintable() for each in url):
        raise InvalidInput("the address of a mirror has no space and no control character; write a space as %20")
    if "@" in parts.path:  # part of a password, most likely: nothing of it is shown
        raise InvalidInput(
            "the address of a mirror has no @ behind the host's name; what is not a letter or a digit in a name or a password is "
            "written as %XX"
        )
    if parts.query or parts.fragment:
        raise InvalidInput(
            "the address of a mirror has no ? and no #; give the server's base, or where it takes queries"
        )
    return url


def without_secrets(url: str) -> str:
    """Return an address without the name and password in it, also one that is none: all up to the last @ goes.

    >>> without_secrets("http://dba:secret@host:8890/sparql"), without_secrets("dba:secret@host:8890")
    ('http://host:8890/sparql', 'host:8890')
    """
    before, _, rest = url.rpartition("@")
    scheme, mark, _ = before.partition("://")
    return f"{scheme}{mark}{rest}" if mark else rest
