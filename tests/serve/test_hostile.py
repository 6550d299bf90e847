"""Hostile requests, each kind of them: the server answers as it must, shows nothing it must not, and serves others after it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

import trails
from tests.support.hostile import Listener
from tests.support.hostile_requests import Attack, Lurkers, all_kinds, attack
from tests.support.servers import Client, Server, serving

pytest.importorskip("uvicorn")

pytestmark = pytest.mark.slow
_LURKERS = 60


@pytest.fixture(scope="module")
def listener() -> Listener:
    """A place that nothing may connect to."""
    return Listener()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("hostile")
    with trails.open(folder / "store", create=True) as store:
        session = store.create(id="a")
        for number in range(60):
            session.append("user", f"turn {number}")
        session.persist()
    with serving(folder / "store", folder / "server.log", "--query-timeout", "2") as served:
        yield served


def test_each_kind_of_attack_is_refused_and_others_are_served(server: Server, listener: Listener) -> None:
    wrong = [
        (what.name, outcome.status, what.pieces[0][:200])
        for what in all_kinds(listener.url, "urn:trails:session:hidden")
        if (outcome := attack(server.port, what)).status not in (None, *what.allowed)
        or b"root:" in outcome.answer
        or b"\r\nX-Injected" in outcome.answer
        or b"Traceback" in outcome.answer
    ]
    assert not wrong
    assert listener.connections == 0
    _is_as_before(server)


def test_connections_that_never_end_keep_nobody_else_out(server: Server) -> None:
    lurkers = Lurkers(server.port, _LURKERS)
    try:
        lurkers.drip()
        _is_as_before(server)
    finally:
        lurkers.close()


def test_memory_does_not_grow_by_bodies_without_end(server: Server) -> None:
    before = server.resident()
    head = b"POST /api/sessions HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunk = b"100000\r\n" + b"a" * (1 << 20) + b"\r\n"
    for _ in range(3):
        outcome = attack(server.port, Attack("a body without end", (head, *[chunk] * 200)))
        assert outcome.status in (None, 413)
    assert server.resident() - before < 300 << 20
    _is_as_before(server)


def _is_as_before(server: Server) -> None:
    """Nothing was written, and whoever asks is answered."""
    with closing(Client(server.port)) as client:
        answer = client.last_turns("a", 60)
        assert answer.status == 200, answer
        texts = [turn["content"] for turn in answer.json["turns"]]
        assert texts == [f"turn {number}" for number in range(60)]
        sessions = client.ask("GET", "/api/sessions").json["sessions"]
        assert [each["id"] for each in sessions] == ["a"]
