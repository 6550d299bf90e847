"""What goes to a mirror's server goes over a connection that stays open, and never twice."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from trails.exchange.remotes import mirror_endpoint
from trails.exchange.remotes.mirror_endpoint import Away, Endpoint


class Counting(ThreadingHTTPServer):
    """A server that keeps connections, and each request's body with the connection it came by."""

    def __init__(self, after: Callable[[BaseHTTPRequestHandler, int], None]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.after = after
        self.got: list[tuple[str, int]] = []
        self.closed = threading.Event()

    @property
    def bodies(self) -> list[str]:
        return [body for body, _ in self.got]

    @property
    def connections(self) -> int:
        return len({port for _, port in self.got})

    def shutdown_request(self, request: object) -> None:
        super().shutdown_request(request)  # type: ignore[arg-type]
        self.closed.set()


class _Handler(BaseHTTPRequestHandler):
    server: Counting
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.got.append((body, self.client_address[1]))
        self.server.after(self, len(self.server.got))


def answer(handler: BaseHTTPRequestHandler, _: int = 0) -> None:
    handler.send_response(204)
    handler.send_header("Content-Length", "0")
    handler.end_headers()


@contextmanager
def counting(after: Callable[[BaseHTTPRequestHandler, int], None]) -> Iterator[tuple[Counting, Endpoint]]:
    with Counting(after) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server, Endpoint(f"http://127.0.0.1:{server.server_address[1]}", server="oxigraph")
        server.shutdown()


def test_one_connection_takes_all_requests_of_one_thread() -> None:
    with counting(answer) as (server, endpoint):
        for number in range(5):
            endpoint.update(f"update {number}")
        assert server.bodies == [f"update {number}" for number in range(5)]
        assert server.connections == 1


def test_two_threads_at_once_have_a_connection_each() -> None:
    both = threading.Barrier(2, timeout=20)

    def together(handler: BaseHTTPRequestHandler, _: int) -> None:
        both.wait()
        answer(handler)

    with counting(together) as (server, endpoint):
        other = threading.Thread(target=endpoint.update, args=("other",))
        other.start()
        endpoint.update("mine")
        other.join()
        assert sorted(server.bodies) == ["mine", "other"]
        assert server.connections == 2


def test_a_connection_that_the_server_has_closed_meanwhile_is_not_used_again() -> None:
    def close_after(handler: BaseHTTPRequestHandler, _: int) -> None:
        answer(handler)
        handler.close_connection = True  # without saying so in the answer, as a server does that waited long enough

    with counting(close_after) as (server, endpoint):
        for number in range(3):
            endpoint.update(f"update {number}")
            assert server.closed.wait(20)
            server.closed.clear()
        assert server.bodies == ["update 0", "update 1", "update 2"]
        assert server.connections == 3


def test_a_request_that_gets_no_answer_is_not_sent_again_by_itself() -> None:
    def break_off(handler: BaseHTTPRequestHandler, number: int) -> None:
        if number == 2:
            handler.close_connection = True
        else:
            answer(handler)

    with counting(break_off) as (server, endpoint):
        endpoint.update("first")
        with pytest.raises(Away):
            endpoint.update("second")
        assert server.bodies == ["first", "second"]
        endpoint.update("third")
        assert server.bodies == ["first", "second", "third"]


def test_a_connection_that_nobody_used_for_long_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror_endpoint, "_IDLE", 0.0)
    with counting(answer) as (server, endpoint):
        endpoint.update("one")
        endpoint.update("two")
        assert server.connections == 2


def test_an_answer_that_ends_its_connection_is_read_whole_and_followed_by_another_connection() -> None:
    def last(handler: BaseHTTPRequestHandler, _: int) -> None:
        handler.send_response(400)
        handler.send_header("Connection", "close")
        handler.end_headers()
        handler.wfile.write(b"what is wrong with it")

    with counting(last) as (server, endpoint):
        for _ in range(2):
            with pytest.raises(Exception, match="what is wrong with it"):
                endpoint.update("odd")
        assert server.connections == 2
