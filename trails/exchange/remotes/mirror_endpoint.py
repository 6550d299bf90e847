"""Call a SPARQL server by the SPARQL 1.1 Protocol.

`urllib.request` begins each request with a connection of its own. A server that has a thread for each connection then meets
every update in a new one: Oxigraph's takes 17 s for 200 updates of 2,000 triples so, and 6 s over one connection.

So connections stay open here, also where the library's handlers answer a server that asks for a password.
"""

from __future__ import annotations

import io
import os
import selectors
import time
import urllib.error
import urllib.request
import weakref
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPMessage, HTTPSConnection
from typing import IO, Any, Final, Literal
from urllib.parse import unquote, urlencode, urlsplit, urlunsplit
from urllib.response import addinfourl

import pyoxigraph as ox

from trails.errors import InvalidInput, MirrorFailed
from trails.rdf import query_files

_IDLE: Final = 4.0
"""Seconds after which a connection that nobody used is not used again: many servers close theirs after five."""
Kind = Literal["oxigraph", "virtuoso", "fuseki", "graphdb", "neptune", "stardog", "rdfox", "qlever", "other"]
USER: Final = "TRAILS_MIRROR_USER"
PASSWORD: Final = "TRAILS_MIRROR_PASSWORD"  # noqa: S105 - the name of a variable
_ROWS: Final = "application/sparql-results+json"
_SHOWN: Final = 300
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_WHO: Final = 401
_NO_SUCH: Final = frozenset({404, 405})
"""What a server says where it takes queries or updates at another path."""
_GIVE: Final = f"put them into its address, or into {USER} and {PASSWORD}"
_AWAY: Final = frozenset({429, 502, 503, 504})
"""What a server that is busy says, or another one in front of a server that is away."""


class KeepAliveHandler(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    """Sends requests over connections that stay open, each for one thread at a time; a proxy's tunnel has its own."""

    def __init__(self) -> None:
        """Begin without a connection."""
        super().__init__()
        self._idle: dict[tuple[str, str], list[tuple[HTTPConnection, float]]] = defaultdict(list)

    def http_open(self, req: urllib.request.Request) -> addinfourl:  # type: ignore[override]
        """Send a request and return its answer, which is read whole by then.

        Nothing is sent twice: who sends what changes a server must know whether it may arrive twice. Raises what
        `urllib.request` does if the server is not reached, and what `http.client` does if it breaks off.
        """
        waiting = self._idle[req.type, req.host]
        connection = self._take(waiting, req)
        headers = {name.title(): value for name, value in {**req.headers, **req.unredirected_hdrs}.items()}
        try:
            try:
                connection.request(req.get_method(), req.selector, req.data, headers)
            except OSError as error:
                raise urllib.error.URLError(error) from error
            answer = connection.getresponse()
            body = answer.read()
        except BaseException:
            connection.close()
            raise
        if answer.will_close:
            connection.close()
        else:
            waiting.append((connection, time.monotonic()))
        found = addinfourl(io.BytesIO(body), answer.headers, req.full_url, answer.status)
        found.msg = answer.reason  # type: ignore[attr-defined] # as `urllib.request` has it, for its errors
        return found

    def https_open(self, req: urllib.request.Request) -> addinfourl:  # type: ignore[override]
        """Send a request as `http_open` does."""
        return super().https_open(req) if getattr(req, "_tunnel_host", None) else self.http_open(req)  # type: ignore[return-value]

    def close_idle(self) -> None:
        """Close all connections that wait; a later request opens another one."""
        for waiting in self._idle.values():
            while waiting:
                waiting.pop()[0].close()

    def _take(self, waiting: list[tuple[HTTPConnection, float]], req: urllib.request.Request) -> HTTPConnection:
        while waiting:
            try:
                connection, since = waiting.pop()
            except IndexError:  # another thread took it
                break
            if time.monotonic() - since < _IDLE and not _is_over(connection):
                if connection.sock is not None:
                    connection.sock.settimeout(req.timeout)
                return connection
            connection.close()
        return (HTTPSConnection if req.type == "https" else HTTPConnection)(req.host, timeout=req.timeout)


def _is_over(connection: HTTPConnection) -> bool:
    """Whether a server closed a connection that waits, or said something on it that nobody asked for."""
    if connection.sock is None:
        return True
    with selectors.DefaultSelector() as watch:
        watch.register(connection.sock, selectors.EVENT_READ)
        return bool(watch.select(timeout=0))


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


def server_kind(header: str | None) -> Kind:
    """Return the kind of server that names itself so in its answers' Server header.

    >>> server_kind("Virtuoso/07.20.3229 (Linux)"), server_kind("oxigraph/0.5.13"), server_kind(None)
    ('virtuoso', 'oxigraph', 'other')
    """
    said = (header or "").lower()
    return next((kind for kind in SERVERS if kind in said), "other")


def server_addresses(url: str, server: Server) -> tuple[str, str]:
    """Return the addresses for queries and for updates of a server that is named by its base, or by that for queries.

    >>> server_addresses("http://localhost:7878", SERVERS["oxigraph"])
    ('http://localhost:7878/query', 'http://localhost:7878/update')
    >>> server_addresses("http://localhost:8890/sparql", SERVERS["virtuoso"])
    ('http://localhost:8890/sparql', 'http://localhost:8890/sparql-auth')
    """
    parts = urlsplit(url)
    base = parts.path.rstrip("/")
    if server.query and base.endswith(server.query):
        base = base.removesuffix(server.query)
    query, update = (urlunsplit(parts._replace(path=base + end or "/")) for end in (server.query, server.update))
    return query, update


def checked_address(url: str) -> str:
    """Return the address of a server, or raise `InvalidInput` for what is none, without what it says of passwords."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InvalidInput("the address of a mirror cannot be read; give one like http://localhost:7878") from error
    why = None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        why = f"is a SPARQL server's, like http://localhost:7878, not {without_secrets(url)!r:.200}"
    elif any(each.isspace() or not each.isprintable() for each in url):
        why = "has no space and no control character; write a space as %20"
    elif "@" in parts.path:  # part of a password, most likely: nothing of it is shown
        why = "has no @ behind the host's name; write all but letters and digits in a name or a password as %XX"
    elif parts.query or parts.fragment:
        why = "has no ? and no #; give the server's base, or where it takes queries"
    if why is not None:
        raise InvalidInput(f"the address of a mirror {why}")
    return url


def without_secrets(url: str) -> str:
    """Return an address without the name and password in it, also one that is none: all up to the last @ goes.

    >>> without_secrets("http://dba:secret@host:8890/sparql"), without_secrets("dba:secret@host:8890")
    ('http://host:8890/sparql', 'host:8890')
    """
    before, _, rest = url.rpartition("@")
    scheme, mark, _ = before.partition("://")
    return f"{scheme}{mark}{rest}" if mark else rest


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """An update that is sent on as something else would be lost in silence."""

    def redirect_request(  # noqa: PLR0917 - as the class above it has it
        self, req: Any, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        return None


class _Digest(urllib.request.HTTPDigestAuthHandler):
    """Answers a challenge, and goes on with it at the same address: else each request would be sent twice."""

    def __init__(self, known: urllib.request.HTTPPasswordMgr) -> None:
        super().__init__(known)
        self._challenges: dict[str, dict[str, str]] = {}

    def retry_http_digest_auth(self, req: urllib.request.Request, auth: str) -> Any:
        listed = filter(None, urllib.request.parse_http_list(auth.partition(" ")[2]))
        self._challenges[req.full_url] = urllib.request.parse_keqv_list(list(listed))
        return super().retry_http_digest_auth(req, auth)

    def http_request(self, req: urllib.request.Request) -> urllib.request.Request:
        challenge = self._challenges.get(req.full_url)
        if challenge is not None and not req.has_header(self.auth_header):
            answer = self.get_authorization(req, challenge)
            if answer:  # none if no name is known
                req.add_unredirected_header(self.auth_header, f"Digest {answer}")
        return req

    https_request = http_request


class Endpoint:
    """A SPARQL server that is asked and written to. What fails raises `MirrorFailed`, never with a password in it."""

    def __init__(
        self,
        url: str,
        *,
        server: Kind | None = None,
        update: str | None = None,
        timeout: float = 300.0,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        """Take the address of a server, by its base or by where it takes queries.

        `server` says what it is (default: what it calls itself), `update` where it takes updates, `timeout` (seconds)
        how long a server may be silent, before its answer and within it. A name and a password stand in the address, else
        in the environment's TRAILS_MIRROR_USER and TRAILS_MIRROR_PASSWORD.
        """
        if server is not None and server not in SERVERS:
            raise InvalidInput(f"there is no kind of server {server!r:.80}; there are: {', '.join(SERVERS)}")
        bare = without_secrets(checked_address(url))
        given = urlsplit(url)
        user = unquote(given.username) if given.username else environment.get(USER)
        password = unquote(given.password) if given.password else environment.get(PASSWORD, "")
        self.timeout = timeout
        known = urllib.request.HTTPPasswordMgrWithDefaultRealm()
        writing = None if update is None else without_secrets(checked_address(update))
        if user:
            for each in filter(None, (bare, writing)):
                parts = urlsplit(each)
                known.add_password(None, f"{parts.scheme}://{parts.netloc}/", user, password)
        self._is_named = bool(user)
        kept = KeepAliveHandler()
        weakref.finalize(self, kept.close_idle)
        logins = _Digest(known), urllib.request.HTTPBasicAuthHandler(known)
        self._open = urllib.request.build_opener(_NoRedirect, *logins, kept).open
        self.location = bare
        self.kind: Kind = server or self._told(bare)
        self.server: Server = SERVERS[self.kind]
        self._query, self._update = server_addresses(bare, self.server)
        if writing is not None:
            self._update = writing

    def __repr__(self) -> str:
        return f"<Endpoint {self.location}, {self.kind}>"

    def _told(self, url: str) -> Kind:
        """Return what a server calls itself in an answer, whatever that is."""
        try:
            with self._open(urllib.request.Request(url, method="HEAD"), timeout=self.timeout) as answer:  # noqa: S310 - http
                return server_kind(answer.headers.get("Server"))
        except urllib.error.HTTPError as error:
            with error:
                if error.code in _AWAY:  # it is of something in front of the server
                    raise Away(f"{url} refused with {error.code}; mirroring goes on later") from None
                return server_kind(error.headers.get("Server"))
        except (OSError, HTTPException) as error:
            raise self._unreached(error, url) from error
        except ValueError:  # it wants an authentication, as what is asked next will say
            return "other"

    def select(self, text: str, **parameters: str) -> list[ox.QuerySolution]:
        """Return all rows of a SELECT. What a server cuts short raises, rather than giving a part for all."""
        headers, body = self._send(self._query, {"query": text, **parameters}, _ROWS)
        try:
            found = ox.parse_query_results(body, format=ox.QueryResultsFormat.JSON)
            rows = list(found)  # type: ignore[arg-type] # a SELECT
        except (SyntaxError, ValueError, TypeError) as error:
            how = "see whether a SPARQL server answers there, and whether its time limit ended the query"
            raise MirrorFailed(f"{self.location} gave no whole result ({error!s:.120}): {how}") from error
        most = headers.get("X-SPARQL-MaxRows")
        if most is not None and most.isdigit() and len(rows) >= int(most):
            raise CutShort(f"{self.location} gives at most {most} rows of a query (X-SPARQL-MaxRows)", int(most))
        return rows

    def update(self, text: str) -> None:
        """Carry out an update."""
        self._send(self._update, {"update": text}, "*/*")

    def _send(self, url: str, fields: dict[str, str], accept: str) -> tuple[HTTPMessage, bytes]:
        if "update" in fields and not self.server.is_form:
            body, kind = fields["update"].encode(), "application/sparql-update"
        else:
            named = {"query": fields["update"]} if "update" in fields else fields  # Virtuoso knows no `update`
            body, kind = urlencode(named).encode(), "application/x-www-form-urlencoded"
        asked = urllib.request.Request(url, body, {"Content-Type": kind, "Accept": accept})  # noqa: S310 - http, as checked
        try:
            with self._open(asked, timeout=self.timeout) as answer:
                return answer.headers, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                said = " ".join(error.read(4 * _SHOWN).decode("utf-8", "replace").split())[:_SHOWN]
            onward = error.headers.get("Location") if error.code in _REDIRECTS else None
            if onward is not None:
                said = f"it sends on to {without_secrets(onward)[:_SHOWN]}, which is not followed; give that address"
            if error.code == _WHO and not self._is_named:
                said = f"it wants a name and a password; {_GIVE}"
            if error.code in _NO_SUCH and self.kind == "other":
                said += "; it does not say what kind of server it is: say so (--server)"
            failed = Away if error.code in _AWAY else MirrorFailed
            raise failed(f"{without_secrets(url)} refused with {error.code}: {said}") from None
        except (OSError, HTTPException) as error:
            raise self._unreached(error, url) from error
        except ValueError as error:  # of the standard library's authentication
            wanted = (
                f"wants an authentication that is not known here ({error!s:.120}); basic and digest are"
                if self._is_named
                else f"wants a name and a password; {_GIVE}"
            )
            raise MirrorFailed(f"{without_secrets(url)} {wanted}") from error

    def _unreached(self, error: Exception, url: str) -> Away:
        where = self.location if url.startswith(self.location) else without_secrets(url)
        reason = getattr(error, "reason", None) or str(error) or type(error).__name__
        return Away(f"{where} did not answer ({reason!s:.200}); what it has stays, and mirroring goes on later")


class Away(MirrorFailed):
    """A server does not answer now, and may do so later."""


class CutShort(MirrorFailed):
    """A server gives no more than some rows of a query."""

    def __init__(self, message: str, most: int) -> None:
        super().__init__(message)
        self.most = most


def pages(endpoint: Endpoint, name: str, **values: object) -> Iterator[ox.QuerySolution]:
    """Give all rows of a query of `queries/`, by its name, page by page where a server gives only some at a time.

    Another file, of the same name and `_page`, asks for a page by what stands in the first column: a server that sorts no
    more than so many rows for an OFFSET gives all the same. A third one, with `_rest`, asks on within one subject.
    """
    try:
        yield from endpoint.select(query_files.find(name).bind(**values))
        return
    except CutShort as cut:
        page = max(1, min(10_000, cut.most // 2))
    asking, after = query_files.find(f"{name}_page"), None
    key, *others = [column.name for column in asking.columns]
    while len(rows := endpoint.select(asking.bind(after=after, limit=page, **values))) == page:
        last = rows[-1][key]
        whole = [row for row in rows if row[key] != last] if others else rows
        yield from whole
        if not whole:  # one subject alone fills a page
            yield from _rest(endpoint, name, page, subject=last, **values)
        after = whole[-1][key] if whole else last
    yield from rows


def _rest(endpoint: Endpoint, name: str, page: int, **values: object) -> Iterator[ox.QuerySolution]:
    start, asking = 0, query_files.find(f"{name}_rest")
    while rows := endpoint.select(asking.bind(limit=page, offset=start, **values)):
        yield from rows
        start += len(rows)
