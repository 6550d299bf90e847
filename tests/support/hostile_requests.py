"""Requests that mean harm to a server, and what it may answer: none may stop it, fill it, or show what it must not."""

from __future__ import annotations

import gzip
import random
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final
from urllib.parse import quote

REFUSALS: Final = frozenset(
    {400, 401, 403, 404, 405, 406, 408, 409, 411, 412, 413, 414, 415, 421, 422, 428, 429, 431, 501, 503, 505}
)
"""How a server says no. 503 names a limit of the server's own; 500 is a fault."""
WELL: Final = frozenset({100, 200, 201, 202, 204, 206, 301, 302, 303, 304, 307, 308})
ANY: Final = REFUSALS | WELL

_MOST: Final = 1 << 20
_SECONDS: Final = 20.0


@dataclass(frozen=True, slots=True)
class Attack:
    """Bytes that are sent on a connection of their own."""

    name: str
    pieces: tuple[bytes, ...]
    allowed: frozenset[int] = REFUSALS
    """The statuses that it may be answered with; a connection that is closed without an answer is well, too."""
    pause: float = 0.0
    """Seconds between the pieces."""
    reads: bool = True
    """Whether the client waits for the answer; otherwise it resets the connection."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came back: status None if the server closed the connection without an answer, or was not waited for."""

    status: int | None
    answer: bytes
    seconds: float


def attack(port: int, what: Attack) -> Outcome:
    """Send an attack to a port of loopback."""
    begun = time.perf_counter()
    answer = b""
    with socket.create_connection(("127.0.0.1", port), timeout=_SECONDS) as connection:
        with suppress(ConnectionError, TimeoutError):
            for piece in what.pieces:
                connection.sendall(piece)
                if what.pause:
                    time.sleep(what.pause)
        if not what.reads:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            return Outcome(None, b"", time.perf_counter() - begun)
        with suppress(ConnectionError, TimeoutError):
            while len(answer) < _MOST and (more := connection.recv(1 << 16)):
                answer += more
    status = int(answer[9:12]) if answer[:5] == b"HTTP/" and answer[9:12].isdigit() else None
    return Outcome(status, answer, time.perf_counter() - begun)


def attacks(
    seed: int, session: str = "a", service: str = "http://127.0.0.1:9/", hidden: str = "urn:trails:session:hidden"
) -> Iterator[Attack]:
    """Yield attacks without end, each kind as often as the others; the same ones for the same seed."""
    chance = random.Random(seed)
    kinds: list[Callable[[], Attack]] = [
        *(partial(make, chance) for make in _KINDS),
        *(partial(make, chance, session) for make in _ON_SESSIONS),
        *[partial(_sparql, chance, service, hidden)] * 3,
    ]
    while True:
        yield chance.choice(kinds)()


def all_kinds(service: str, hidden: str) -> Sequence[Attack]:
    """Return some attacks of each kind."""
    taken = dict[str, list[Attack]]()
    for number, each in enumerate(attacks(1, service=service, hidden=hidden)):
        if number > 600:
            return [each for of_kind in taken.values() for each in of_kind[:3]]
        taken.setdefault(each.name, []).append(each)
    raise AssertionError  # the attacks have no end


def request(
    method: str, target: str, body: bytes = b"", *headers: str, host: str = "127.0.0.1", kind: str = "application/json"
) -> bytes:
    """Return the bytes of a request that closes its connection."""
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", "Connection: close", *headers]
    if body:
        lines += [f"Content-Type: {kind}", f"Content-Length: {len(body)}"]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


# --- what is sent to no session in particular


def _deep_json(chance: random.Random) -> Attack:
    depth = chance.choice((200, 2_000, 100_000, 400_000))
    body = chance.choice((b"[" * depth, b'{"a":' * depth, b'{"meta":' + b"[" * depth + b"]" * depth + b"}"))
    return Attack("deep JSON", (request("POST", "/api/sessions", body),))


def _odd_json(chance: random.Random) -> Attack:
    body = chance.choice(
        (
            b"", b"null", b"1", b'"a"', b"[]", b"[1,2]", b"true", b"{", b'{"id":}', b'{"id":NaN}', b'{"id":1e999}',
            b'{"id":"\\ud800"}', b'{"id":"\xff\xfe"}', b'{"id":"\\u0000"}', b'{"id":["a"]}', b'{"id":{"$ne":1}}',
            b'{"id":"x","meta":' + b"9" * 6_000 + b"}", b'\xef\xbb\xbf{"id":1}', '{"id":1}'.encode("utf-16"),
            b'{"nonsense":1}', b'{"id":"' + b"a" * 100_000 + b'"}', b'{"id":"a b\\r\\nX-Injected: 1"}',
            b'{"id":"../../etc/passwd\\u0000"}', b'{"principal":5}', b'{"id":-1}', b'{"meta":"x","id":7}',
        )
    )  # fmt: skip
    return Attack("odd JSON", (request("POST", "/api/sessions", body),), ANY if not body else REFUSALS)


def _long_target(chance: random.Random) -> Attack:
    length = chance.choice((5_000, 60_000, 200_000, 2_000_000))
    target = chance.choice(
        (
            f"/api/sessions/{'a' * length}", f"/{'a/' * (length // 2)}", f"/api/sessions?{'a' * length}",
            f"/api/sessions?{'a=b&' * (length // 4)}", f"/api/sessions?q={'%41' * (length // 3)}",
            f"/sparql?query={'x' * length}", f"/?q={'%F0%9F%98%80' * (length // 12)}",
        )
    )  # fmt: skip
    return Attack("long target", (request("GET", target),), ANY)


def _odd_target(chance: random.Random) -> Attack:
    target = chance.choice(
        (
            "*", "//", "/\\", "http://example.org/", "/%", "/%zz", "/%ff%fe", "/api/sessions/%ff", "/api/sessions/%00",
            "/api/sessions/%2e%2e", "/api/sessions/a%2Fb", "/api/sessions//", "/?%ff=%ff", "/api/sessions?cursor=%ff",
            "/api/sessions?limit=-1", "/api/sessions?limit=1e9", "/api/sessions?limit=" + "9" * 5_000,
            "/api/sessions?limit=nan", "/api/sessions?cursor=garbage", "/api/sessions?limit=1&limit=2",
            "/api/sessions?sort=__class__", "/api/sessions?q=" + quote("'; DROP TABLE sessions; --"),
            "/api/sessions?principal=" + quote("' OR 1=1 --"), "/api/sessions?q=" + quote('"*" NEAR(a, -1)'),
            "/queries/turns?session=" + quote("> } DELETE {"), "/queries/../secrets", "/queries/%2e%2e%2fx",
            "/api/sessions?at=9999-99-99", "/api/sessions?as_of=0000-00-00T00:00:00Z", "/events?after=-1",
        )
    )  # fmt: skip
    kept_open = target.startswith("/events")
    return Attack("odd target", (request("GET", target),), ANY, reads=not kept_open)


def _traversal(chance: random.Random) -> Attack:
    prefix = chance.choice(("/static/", "/", "/api/", "/console/", "/assets/", "/payloads/", "/api/payloads/"))
    step = chance.choice(
        ("../", "..%2f", "%2e%2e/", "%2e%2e%2f", "..\\", "..%5c", "%252e%252e%252f", "..;/", "....//", "/")
    )
    return Attack("path traversal", (request("GET", prefix + step * 12 + "etc/passwd"),), ANY)


def _broken_framing(chance: random.Random) -> Attack:
    head = b"POST /api/sessions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    smuggled = b"GET /smuggled HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    pieces = chance.choice(
        (
            (head + b"Content-Length: 5\r\nContent-Length: 50\r\n\r\nhello",),
            (head + b"Content-Length: -5\r\n\r\n",),
            (head + b"Content-Length: 99999999999999999999\r\n\r\n{",),
            (head + b"Content-Length: 1e3\r\n\r\n{",),
            (head + b"Transfer-Encoding: chunked\r\n\r\nZZZ\r\n",),
            (head + b"Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFFF\r\nx",),
            (head + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n" + smuggled,),
            (head + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + smuggled,),
            (head + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",),
            (b"GET / HTTP/1.1\r\n\r\n",),
            (b"GET /\r\n\r\n",),
            (b"GET / HTTP/9.9\r\nHost: 127.0.0.1\r\n\r\n",),
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",),
            (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),),
            (bytes(chance.randrange(256) for _ in range(2_000)),),
            (b"GET / HTTP/1.1\nHost: 127.0.0.1\n\n",),
            (b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n folded: 1\r\n\r\n",),
            (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",),
            (b"\r\n" * 5_000,),
        )
    )  # fmt: skip
    return Attack("broken framing", pieces, ANY, reads=False)


def _headers(chance: random.Random) -> Attack:
    headers = chance.choice(
        (
            [f"X-{number}: {'a' * 100}" for number in range(5_000)], [f"X-Long: {'a' * 1_000_000}"],
            ["X" * 200_000 + ": a"], [f"Cookie: {'a=b; ' * 20_000}"], [f"Accept: {'text/html;q=0.1,' * 5_000}*/*"],
            ["Accept: ;;;,,,q=", "Accept-Encoding: gzip;q=x", "Accept-Language: \xff\xfe"],
            [f"Authorization: Bearer {'a' * 100_000}"], ["Authorization: Basic \xff"], ["Authorization: Bearer"],
            ["Authorization: Bearer \xe9\xe9\xe9"], [f"Range: bytes={','.join('0-1' for _ in range(5_000))}"],
            ["If-None-Match: \"" + "a" * 50_000], ["If-Modified-Since: yesterday"], ["X-Forwarded-For: " + "1.1.1.1, " * 5_000],
            ["X-Forwarded-Host: evil.example", "X-Forwarded-Proto: https", "Forwarded: for=\"[::\""],
            ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: YQ=="],
            ["Expect: 100-continue"], ["Expect: the unexpected"], ["Content-Type: \xff"], ["Last-Event-ID: \xff"],
        )
    )  # fmt: skip
    target = chance.choice(("/", "/api/sessions", "/sparql?query=ASK%7B%7D", "/health", "/metrics"))
    return Attack("odd headers", (request("GET", target, b"", *headers),), ANY)


def _method(chance: random.Random) -> Attack:
    method = chance.choice(
        ("TRACE", "CONNECT", "PUT", "PATCH", "DELETE", "OPTIONS", "FOO", "get", "PROPFIND", "HEAD", "A" * 5_000)
    )
    target = chance.choice(("/", "/api", "/api/sessions", "/sparql", "/health", "/metrics", "/queries/turns"))
    return Attack("odd method", (request(method, target),), ANY)


def _stranger(chance: random.Random) -> Attack:
    host = chance.choice(("evil.example", "127.0.0.1.evil.example", "", "localhost@evil.example", "[::1", "a" * 10_000))
    return Attack(
        "strange host", (request("GET", chance.choice(("/", "/api/sessions", "/sparql?query=ASK%7B%7D")), host=host),)
    )


def _other_site(chance: random.Random) -> Attack:
    origin = chance.choice(("https://evil.example", "null", "http://127.0.0.1.evil.example", "file://"))
    kind = chance.choice(
        ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/json")
    )
    body = b'{"id":"written-by-another-site"}'
    return Attack(
        "another site",
        (request("POST", "/api/sessions", body, f"Origin: {origin}", "Sec-Fetch-Site: cross-site", kind=kind),),
    )


def _big_body(chance: random.Random) -> Attack:
    head = b"POST /api/sessions HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: application/json\r\n"
    block = b"a" * (1 << 20)
    pieces = chance.choice(
        (
            (head + b"Content-Length: 10000000000\r\n\r\n", block),
            (head + b"Content-Length: 90000000\r\n\r\n", *[block] * 3),
            (head + b"Transfer-Encoding: chunked\r\n\r\n", *[b"100000\r\n" + block + b"\r\n"] * chance.choice((3, 70))),
            (request("POST", "/api/sessions", gzip.compress(bytes(50 << 20)), "Content-Encoding: gzip"),),
            (request("POST", "/api/sessions", b"a" * (2 << 20), kind="multipart/form-data; boundary=a"),),
            (request("POST", "/sparql", b"query=" + b"a" * (8 << 20), kind="application/x-www-form-urlencoded"),),
            (request("POST", "/sparql", b"a=b&" * 500_000, kind="application/x-www-form-urlencoded"),),
            (request("POST", "/api/sessions", b'{"meta":[' + b"[],"  * 1_000_000 + b"1]}"),),
        )
    )  # fmt: skip
    return Attack("big body", pieces, reads=chance.random() < 0.5)


def _leaver(chance: random.Random) -> Attack:
    whole = request("GET", "/api/sessions?limit=500")
    pieces = chance.choice(((whole,), (whole[: len(whole) // 2],), (b"",), (b"G",), (request("GET", "/events"),)))
    return Attack("half a request", pieces, reads=False)


def _pipelined(chance: random.Random) -> Attack:
    one = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    return Attack("pipelined", (one * chance.choice((20, 500)),), reads=False)


_KINDS: Final[tuple[Callable[[random.Random], Attack], ...]] = (
    _deep_json, _odd_json, _long_target, _odd_target, _traversal, _broken_framing, _headers, _method, _stranger,
    _other_site, _big_body, _leaver, _pipelined,
)  # fmt: skip


# --- what is sent to a session that is there


def _odd_turns(chance: random.Random, session: str) -> Attack:
    body = chance.choice(
        (
            b'{"turns":[]}', b'{"turns":{}}', b'{"turns":[1]}', b'{"turns":[{"role":"","content":"a"}]}',
            b'{"turns":[{"role":"user"}]}', b'{"turns":[{"role":"user","content":' + b"[" * 5_000 + b"]" * 5_000 + b"}]}",
            b'{"turns":[{"role":"user","content":"\\ud800"}]}', b'{"turns":[null]}', b"[]",
            b'{"turns":[{"role":"user","content":"a"},{"role":"user","content":5}]}',
            b'{"turns":[{"role":"user","content":"a","x":1}]}',
        )
    )  # fmt: skip
    return Attack("odd turns", (request("POST", f"/api/sessions/{session}/turns", body),))


def _odd_conditions(chance: random.Random, session: str) -> Attack:
    header = chance.choice(
        (
            'If-Match: "0000"', 'If-Match: W/"x"', "If-Match: garbage", 'If-Match: "' + "a" * 50_000 + '"',
            "If-Match: \"a\", \"b\", \"c\"", "If-Match: \xff",
        )
    )  # fmt: skip
    body = b'{"turns":[{"role":"user","content":"never written"}]}'
    return Attack("odd conditions", (request("POST", f"/api/sessions/{session}/turns", body, header),))


def _odd_part(chance: random.Random, session: str) -> Attack:
    rest = chance.choice(
        (
            "turns?last=-1", "turns?last=999999999999999999999", "turns?last=x", "turns?cursor=%ff", "turns/-1", "turns/1e3",
            "turns/" + "9" * 4_000, "diff?with=", "replay?upto=-5", "context?max_tokens=-1", "context?max_tokens=" + "9" * 400,
            "%2e%2e/%2e%2e", "turns?at=" + "9" * 5_000, "export?format=../../x", "turns?limit=0", "branches?limit=-1",
        )
    )  # fmt: skip
    return Attack("odd part of a session", (request("GET", f"/api/sessions/{session}/{rest}"),), ANY)


_ON_SESSIONS: Final[tuple[Callable[[random.Random, str], Attack], ...]] = (_odd_turns, _odd_conditions, _odd_part)


# --- SPARQL

_UPDATES: Final = (
    "DROP ALL",
    "INSERT DATA {<a:a> <a:b> 1}",
    "DELETE WHERE {?s ?p ?o}",
    "LOAD <%(service)s>",
    "CLEAR DEFAULT",
)
_LARGE: Final = (
    "SELECT * {?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l}",
    "SELECT (COUNT(*) AS ?n) {?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l}",
    "SELECT * {GRAPH ?g {?a ?b ?c} GRAPH ?h {?d ?e ?f} GRAPH ?i {?j ?k ?l}} ORDER BY ?a ?d ?j",
    "SELECT (GROUP_CONCAT(?c) AS ?t) {?a ?b ?c . ?d ?e ?f . ?g ?h ?i}",
)
_PRYING: Final = (
    "SELECT * FROM <%(hidden)s> {?s ?p ?o}", "SELECT * FROM NAMED <%(hidden)s> {GRAPH ?g {?s ?p ?o}}",
    "SELECT * {GRAPH <%(hidden)s> {?s ?p ?o}}", "CONSTRUCT {?s ?p ?o} {GRAPH <%(hidden)s> {?s ?p ?o}}",
    "DESCRIBE <%(hidden)s>", "SELECT ?o {{?s ?p ?o} UNION {GRAPH ?g {?s ?p ?o}}}", "SELECT * {?s (<a:a>|!<a:a>) ?o}",
)  # fmt: skip
_SERVICES: Final = (
    "SELECT * {SERVICE <%(service)s> {?s ?p ?o}}", "SELECT * {SERVICE SILENT <%(service)s> {?s ?p ?o}}",
    "ASK {FILTER EXISTS {SERVICE <%(service)s> {?s ?p ?o}}}", "SELECT * {\\u0053ERVICE <%(service)s> {?s ?p ?o}}",
    "SELECT * FROM <%(service)s> {?s ?p ?o}",
)  # fmt: skip
_BROKEN: Final = (
    "",
    "SELECT",
    "SELECT * {",
    "{" * 30_000,
    "SELECT * {" + "{" * 10_000,
    "\x00",
    "ASK {" + "FILTER(" * 9_000,
)


def _sparql(chance: random.Random, service: str, hidden: str) -> Attack:
    names = {"service": service, "hidden": hidden}
    kind, texts, allowed = chance.choices(
        (
            ("SPARQL update", _UPDATES, REFUSALS),
            ("SPARQL without end", _LARGE, ANY),
            ("SPARQL that pries", _PRYING, ANY),
            ("SPARQL that reaches out", _SERVICES, ANY),
            ("broken SPARQL", _BROKEN, REFUSALS),
        ),
        weights=(4, 1, 5, 5, 5),
    )[0]
    text = chance.choice(texts)
    text = text % names if "%(" in text else text
    dataset = chance.choice(
        (
            "",
            "",
            f"&default-graph-uri={quote(hidden, safe='')}",
            f"&named-graph-uri={quote(hidden, safe='')}",
            f"&default-graph-uri={quote(service, safe='')}",
        )
    )
    way = chance.randrange(3) if kind != "SPARQL update" else chance.randrange(2)
    if way == 0:
        return Attack(kind, (request("GET", f"/sparql?query={quote(text, safe='')}{dataset}"),), allowed)
    if way == 1:
        form = chance.choice(("query", "update")) if kind == "SPARQL update" else "query"
        body = f"{form}={quote(text, safe='')}{dataset}".encode()
        return Attack(kind, (request("POST", "/sparql", body, kind="application/x-www-form-urlencoded"),), allowed)
    target = f"/sparql?{dataset[1:]}" if dataset else "/sparql"
    return Attack(kind, (request("POST", target, text.encode() or b" ", kind="application/sparql-query"),), allowed)


class Lurkers:
    """Connections that are kept open and never finish what they began: silent ones, and ones that send a byte at a time."""

    def __init__(self, port: int, count: int) -> None:
        """Open so many connections."""
        began = (
            b"",
            b"GET /api/sessions HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ",
            b"POST /api/sessions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n\r\n",
        )
        self._open = list[socket.socket]()
        for number in range(count):
            connection = socket.create_connection(("127.0.0.1", port), timeout=5)
            self._open.append(connection)
            connection.sendall(began[number % len(began)])

    def drip(self) -> int:
        """Send one more byte on each connection, and return how many are still open."""
        for connection in list(self._open):
            try:
                connection.sendall(b"a")
            except OSError:
                self._open.remove(connection)
                connection.close()
        return len(self._open)

    def close(self) -> None:
        """Close all of them."""
        for connection in self._open:
            connection.close()
