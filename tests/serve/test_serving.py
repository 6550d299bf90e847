"""The server as a process: it stops well, loses nothing that it acknowledged, and tells of what is committed."""

from __future__ import annotations

import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("httpx")

import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

import trails
from trails.serve import tokens
from trails.serve.tokens import TokenFile

pytestmark = pytest.mark.slow


class Server:
    """A server process, and how it is reached."""

    def __init__(self, place: str, *options: str) -> None:
        command = [sys.executable, "-m", "trails", "serve", place, "--port", "0", "--create", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        line = self.process.stderr.readline()
        found = re.search(r"at (http://\S+)", line)
        assert found, line + self.process.stderr.read()
        self.address = found[1]
        self.errors = ""
        """What it wrote to stderr once it has ended."""

    def client(self) -> Any:
        return httpx.Client(base_url=self.address, timeout=30)

    def end(self, number: int) -> str:
        """Send a signal, wait for the end, and return what was printed."""
        self.process.send_signal(number)
        printed, self.errors = self.process.communicate(timeout=40)
        return printed


@contextmanager
def serving(place: Path, *options: str) -> Iterator[Server]:
    server = Server(str(place), *options)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.end(signal.SIGKILL)


def append_until_it_ends(server: Server, session: str, stored: list[str]) -> None:
    """Append turns one after the other, and note those that were acknowledged."""
    with server.client() as client:
        for number in range(10_000):
            body = {"turns": [{"role": "user", "content": f"{session} {number}"}]}
            try:
                done = client.post(f"/api/sessions/{session}/turns", json=body)
            except httpx.TransportError:
                return
            if done.status_code != 201:
                return
            stored.append(f"{session} {number}")


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_what_was_acknowledged_is_there_after_the_server_has_ended(tmp_path: Path, number: signal.Signals) -> None:
    place, names = tmp_path / "store", [f"s{each}" for each in range(4)]
    with serving(place) as server:
        stored: dict[str, list[str]] = {name: [] for name in names}
        with server.client() as client:
            for name in names:
                assert client.post("/api/sessions", json={"id": name}).status_code == 201
        threads = [threading.Thread(target=append_until_it_ends, args=(server, name, stored[name])) for name in names]
        for thread in threads:
            thread.start()
        while min(map(len, stored.values())) < 5:
            time.sleep(0.01)
        server.end(number)
        for thread in threads:
            thread.join()
        assert server.process.returncode == (-9 if number == signal.SIGKILL else 0)
    with trails.open(place) as store:
        for name in names:
            texts = [turn.content for turn in store.load(name).turns]
            assert texts[: len(stored[name])] == stored[name]
            assert len(texts) <= len(stored[name]) + 1  # one was on its way
        assert store.verify().ok


def test_an_append_that_is_repeated_after_a_kill_is_stored_once(tmp_path: Path) -> None:
    body, key = {"turns": [{"role": "user", "content": "Go"}]}, {"Idempotency-Key": "k1"}
    with serving(tmp_path / "store") as server:
        with server.client() as client:
            client.post("/api/sessions", json={"id": "plan"})
            first = client.post("/api/sessions/plan/turns", json=body, headers=key)
        server.end(signal.SIGKILL)
    with serving(tmp_path / "store") as server, server.client() as client:
        again = client.post("/api/sessions/plan/turns", json=body, headers=key)
        assert (again.status_code, again.json(), again.headers["etag"]) == (201, first.json(), first.headers["etag"])
        assert client.get("/api/sessions/plan").json()["length"] == 1


def events_of(lines: Iterator[str], count: int) -> list[tuple[str, dict[str, Any]]]:
    """Return the next events of a stream, with their ids."""
    found: list[tuple[str, dict[str, Any]]] = []
    name = ""
    for line in lines:
        if line.startswith("id: "):
            name = line[4:]
        if line.startswith("data: "):
            found.append((name, json.loads(line[6:])))
            if len(found) == count:
                return found
    return found


def test_events_tell_of_each_commit_once_also_after_a_break(tmp_path: Path) -> None:
    with serving(tmp_path / "store") as server, server.client() as client, server.client() as other:
        with client.stream("GET", "/api/events") as stream:
            lines = stream.iter_lines()
            assert next(lines) == ": follow"
            other.post("/api/sessions", json={"id": "plan", "turns": [{"role": "user", "content": "Go"}]})
            events = events_of(lines, 2)
        assert [(each["kind"], each["session"], each["count"]) for _, each in events] == [
            ("create", "plan", 0),
            ("turns", "plan", 1),
        ]
        other.post("/api/sessions/plan/turns", json={"turns": [{"role": "user", "content": "Stay"}]})
        other.post("/api/sessions", json={"id": "else"})
        after = {"Last-Event-ID": events[0][0]}
        with client.stream("GET", "/api/events", headers=after) as stream:
            missed = events_of(stream.iter_lines(), 3)
        assert [(each["kind"], each["session"], each["count"]) for _, each in missed] == [
            ("turns", "plan", 1),
            ("turns", "plan", 2),
            ("create", "else", 0),
        ]
        with client.stream("GET", "/api/events?session=else&after=0") as stream:
            assert [each["session"] for _, each in events_of(stream.iter_lines(), 1)] == ["else"]
        assert client.get("/api/events?after=999").status_code == 400
        assert client.get("/api/events?kinds=colour").status_code == 400


def test_the_ids_of_events_tell_a_reader_nothing_of_what_others_write(tmp_path: Path) -> None:
    place = tmp_path / "store"
    with trails.open(place, create=True) as store:
        for number in range(3):
            for principal in ("alice", "bob"):
                with store.session(f"{principal}-{number}", principal=principal) as session:
                    session.append("user", "Go")
        _, secret = TokenFile(place / tokens.NAME).make("laptop", "alice", "reader")
    with serving(place) as server, server.client() as client:
        client.headers["Authorization"] = f"Bearer {secret}"
        with client.stream("GET", "/api/events?after=0") as stream:
            events = events_of(stream.iter_lines(), 6)
        assert [each["session"] for _, each in events] == ["alice-0"] * 2 + ["alice-1"] * 2 + ["alice-2"] * 2
        assert all(re.fullmatch("[0-9a-f]{32}", name) for name, _ in events)
        with client.stream("GET", "/api/events", headers={"Last-Event-ID": events[2][0]}) as stream:
            assert events_of(stream.iter_lines(), 3) == events[3:]
        for nowhere in ("7", "f" * 32, "999"):
            refused = client.get(f"/api/events?after={nowhere}")
            assert (refused.status_code, refused.json()["title"]) == (400, "InvalidInput")
            assert "lines" not in refused.json()["detail"]


def test_a_store_that_was_moved_away_is_told_by_its_health_and_a_path_of_no_slash_is_refused(tmp_path: Path) -> None:
    with serving(tmp_path / "store") as server, server.client() as client:
        assert client.get("/health").json() == {"status": "ok"}
        (tmp_path / "store").rename(tmp_path / "elsewhere")
        assert client.get("/health").status_code == 503
        (tmp_path / "elsewhere").rename(tmp_path / "store")
        assert client.get("/health").status_code == 200
        with socket.create_connection(("127.0.0.1", int(server.address.rpartition(":")[2])), 10) as bare:
            bare.sendall(b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert bare.recv(100).startswith(b"HTTP/1.1 4")
        server.end(signal.SIGTERM)
        assert "Traceback" not in server.errors


def test_a_stream_ends_without_a_fault_once_its_token_is_revoked(tmp_path: Path) -> None:
    place = tmp_path / "store"
    trails.open(place, create=True).close()
    token, secret = TokenFile(place / tokens.NAME).make("laptop", "alice", "reader")
    with serving(place) as server, server.client() as client:
        headers = {"Authorization": f"Bearer {secret}"}
        with client.stream("GET", "/api/events", headers=headers) as stream:
            lines = stream.iter_lines()
            assert next(lines) == ": follow"
            TokenFile(place / tokens.NAME).revoke(token.name)
            with pytest.raises(httpx.RemoteProtocolError):
                list(lines)
        assert client.get("/api/sessions", headers=headers).status_code == 401
        server.end(signal.SIGTERM)
        assert "Traceback" not in server.errors


def test_a_client_that_follows_events_does_not_keep_the_server_from_stopping(tmp_path: Path) -> None:
    with serving(tmp_path / "store") as server, server.client() as client:
        with client.stream("GET", "/api/events") as stream:
            lines = stream.iter_lines()
            next(lines)
            began = time.monotonic()
            server.end(signal.SIGTERM)
            assert time.monotonic() - began < 10
            assert list(lines) in ([], [""])
        assert server.process.returncode == 0


def test_the_access_log_has_a_line_of_json_for_each_request(tmp_path: Path) -> None:
    with serving(tmp_path / "store") as server:
        with server.client() as client:
            client.get("/api/sessions/nobody")
            client.get("/health")
        lines = [json.loads(line) for line in server.end(signal.SIGTERM).splitlines()]
    assert [(line["method"], line["path"], line["status"]) for line in lines] == [
        ("GET", "/api/sessions/nobody", 404),
        ("GET", "/health", 200),
    ]


def test_large_answers_are_compressed_and_figures_are_counted(tmp_path: Path) -> None:
    with serving(tmp_path / "store", "--quiet", "--max-body", "1") as server, server.client() as client:
        turns = [{"role": "user", "content": "x" * 2000}]
        client.post("/api/sessions", json={"id": "plan", "turns": turns})
        assert client.get("/api/sessions/plan/turns").headers["content-encoding"] == "gzip"
        plain = client.get("/api/sessions/plan/turns", headers={"Accept-Encoding": "identity"})
        assert "content-encoding" not in plain.headers
        assert client.get("/health").json() == {"status": "ok"}
        figures = client.get("/metrics").text
        counted = 'trails_requests_total{method="GET",route="/api/sessions/{session}/turns",status="200"} 2.0'
        assert counted in figures
        assert "trails_store_commit 1.0" in figures
        large = client.post(
            "/api/sessions", content=b" " * ((1 << 20) + 1), headers={"Content-Type": "application/json"}
        )
        assert (large.status_code, large.headers["content-type"]) == (413, "application/problem+json")
        chunks = client.post("/api/sessions", content=iter([b" " * (1 << 20)] * 2))
        assert chunks.status_code == 413
        assert client.get("/health").status_code == 200


def test_a_head_of_a_request_that_is_too_large_is_refused(tmp_path: Path) -> None:
    with serving(tmp_path / "store", "--quiet") as server, server.client() as client:
        headers = {f"X-{number}": "x" * 1000 for number in range(200)}
        with suppress(httpx.TransportError):  # it was closed while the rest was sent
            assert client.get("/health", headers=headers).status_code == 431
        assert client.get("/health").status_code == 200
