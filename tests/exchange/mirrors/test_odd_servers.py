"""Servers and addresses that are not what they should be, and two processes that feed one mirror."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import trails
from tests.support.commands import Run, ok
from tests.support.sparql_servers import StandIn
from trails import InvalidInput, Mirror, MirrorFailed, Repository
from trails.exchange.remotes.mirror_endpoint import Away, Endpoint

pytestmark = pytest.mark.slow

Make = Callable[..., StandIn]


def told(store: Repository, *ids: str) -> None:
    for each in ids:
        with store.session(each) as session:
            session.append("user", f"Hello from {each}")


def test_a_first_process_sends_nothing_more_in_its_round_once_a_second_feeds_the_mirror(
    memory: Repository, stand_in: Make
) -> None:
    server = stand_in()
    for number in range(4):
        with memory.session(f"s{number}") as session:
            session.append("user", "x" * 5_000_000)
    first = Mirror(memory, server.url)
    sent: list[int] = []

    def begin_another(number: int, _: int) -> None:
        if number == 3:
            Mirror(memory, server.url).sync()
            sent.append(len(server.updates))

    with pytest.raises(MirrorFailed, match="another process feeds"):
        first.sync(begin_another)
    assert len(server.updates) <= sent[0] + 1  # what was under way


@pytest.mark.parametrize("interval", [math.inf, math.nan, 1e300, 0.0])
def test_an_interval_that_cannot_be_waited_is_refused(memory: Repository, stand_in: Make, interval: float) -> None:
    mirror = Mirror(memory, stand_in().url)
    told(memory, "chat")
    with pytest.raises(InvalidInput, match="interval"):
        next(mirror.follow(interval))


@contextmanager
def answering(status: int, *headers: tuple[str, str], body: bytes = b"") -> Iterator[str]:
    """A server that answers each request in one way; the address of it."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            for name, value in (*headers, ("Content-Length", str(len(body)))):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://ann:s3cret@127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.mark.parametrize(
    ("status", "headers", "said", "is_away"),
    [
        (401, {"WWW-Authenticate": "Bearer"}, "authentication", False),
        (401, {"WWW-Authenticate": "Negotiate"}, "authentication", False),
        (401, {"WWW-Authenticate": 'Digest realm="x", nonce="n", algorithm=SHA-999'}, "authentication", False),
        (307, {"Location": "http://bob:pw9@elsewhere:1/q"}, "http://elsewhere:1/q", False),  # is not followed
        (200, {}, "whether a SPARQL server answers there", False),
        (503, {}, "503", True),
        (429, {}, "429", True),
        (404, {}, "404", False),
        (500, {}, "500", False),
    ],
)
def test_a_server_that_answers_otherwise_is_named_and_no_password_is(
    memory: Repository, status: int, headers: dict[str, str], said: str, is_away: bool
) -> None:
    with answering(status, *headers.items(), body=b"<html>") as url, pytest.raises(MirrorFailed) as raised:
        Mirror(memory, url, server="oxigraph")
    assert said in str(raised.value)
    assert "s3cret" not in str(raised.value)
    assert "pw9" not in str(raised.value)
    assert isinstance(raised.value, Away) is is_away


@pytest.mark.parametrize("asked", ['Basic realm="x"', 'Digest realm="x", nonce="n", qop="auth"'])
def test_a_server_that_wants_a_name_and_got_none_says_so(
    memory: Repository, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    monkeypatch.delenv("TRAILS_MIRROR_USER", raising=False)
    with (
        answering(401, ("WWW-Authenticate", asked), body=b"who are you?") as url,
        pytest.raises(MirrorFailed, match=r"wants a name and a password.*TRAILS_MIRROR_USER"),
    ):
        Mirror(memory, url.replace("ann:s3cret@", ""), server="virtuoso")


def test_what_one_graph_differs_in_is_said_in_good_english(run: Run, place: Path, stand_in: Make) -> None:
    server = stand_in()
    with trails.open(place, create=True) as store:
        told(store, "chat")
    ok(run("mirror", str(place), server.url))
    server.store.update("DROP GRAPH <urn:trails:session:chat>")
    assert run("verify", "--mirror", server.url).stdout.splitlines()[1].startswith("1 graph differs: ")


def test_a_request_is_sent_once_where_a_server_goes_on_with_one_challenge_and_again_where_it_makes_another() -> None:
    nonces = ["n1", "n1", "n1", "n2", "n2"]
    seen: list[tuple[str, str | None]] = []

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            told, nonce = self.headers.get("Authorization"), nonces[len(done)]
            is_known = told is not None and f'nonce="{nonce}"' in told
            seen.append((nonce, None if told is None else "known" if is_known else "stale"))
            self.send_response(204 if is_known else 401)
            if is_known:
                done.append(nonce)
            else:
                self.send_header("WWW-Authenticate", f'Digest realm="x", nonce="{nonce}", qop="auth"')
            self.send_header("Content-Length", "0")
            self.end_headers()

    done: list[str] = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        there = Endpoint(f"http://ann:s3cret@127.0.0.1:{server.server_address[1]}", server="oxigraph")
        for _ in range(5):
            there.update("INSERT DATA { <urn:a> <urn:b> 1 }")
        server.shutdown()
    assert seen == [
        ("n1", None),
        ("n1", "known"),
        ("n1", "known"),
        ("n1", "known"),
        ("n2", "stale"),
        ("n2", "known"),
        ("n2", "known"),
    ]


def test_what_stands_in_front_of_a_server_that_is_away_does_not_say_which_kind_it_is(
    memory: Repository, stand_in: Make
) -> None:
    server = stand_in()
    server.away = 1
    with pytest.raises(Away, match="502"):
        Mirror(memory, server.url)
    told(memory, "a")
    mirror = Mirror(memory, server.url)
    assert mirror.kind == "oxigraph"
    mirror.sync()
    assert mirror.verify().ok


@pytest.mark.parametrize("address", ["x", "file:///etc/hostname", "http://", "http://host/up@date"])
def test_an_address_for_updates_that_is_none_is_refused(memory: Repository, stand_in: Make, address: str) -> None:
    with pytest.raises(InvalidInput, match="address"):
        Mirror(memory, stand_in().url, update_url=address)


def test_a_store_that_is_seen_as_it_was_before_a_mirror_got_more_is_looked_at_again(
    tmp_path: Path, stand_in: Make
) -> None:
    server = stand_in()
    with trails.open(tmp_path / "s", create=True) as store:
        told(store, "a")
        with (
            trails.open(tmp_path / "s", read_only=True) as before,
            trails.open(tmp_path / "s", read_only=True) as after,
        ):
            told(store, "b")
            after.refresh()
            Mirror(after, server.url).sync()
            mirror = Mirror(before, server.url)
            mirror.sync()
            assert mirror.verify().ok


def test_a_server_that_does_not_say_what_it_is_and_knows_no_such_path_is_to_be_told(
    memory: Repository, stand_in: Make
) -> None:
    server = stand_in(name="nginx/1.18")
    server.refuses = 404
    with pytest.raises(MirrorFailed, match=r"refused with 404.*--server"):
        Mirror(memory, server.url)
