"""Requests that the API must refuse: values of another type, what is not there, and requests that are sent twice at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx")

from starlette.testclient import TestClient

import trails
from trails import Repository
from trails.serve.app import create_app


@pytest.fixture
def served() -> Iterator[Repository]:
    with trails.open(":memory:") as store:
        session = store.create(id="plan")
        session.append("user", "Where to?")
        session.persist()
        yield store


@pytest.fixture
def client(served: Repository) -> Iterator[TestClient]:
    with TestClient(create_app(served), base_url="http://localhost") as opened:
        yield opened


@pytest.mark.parametrize("index", [False, "0", 0.0, None])
def test_only_a_number_is_an_index_so_that_nothing_is_redacted_by_mistake(
    client: TestClient, served: Repository, index: Any
) -> None:
    assert client.post("/api/sessions/plan/redactions", json={"index": index}).status_code == 400
    assert served.load("plan").turns[0].text == "Where to?"


@pytest.mark.parametrize("moment", [0, 1.5, "0.5", True, "yesterday"])
def test_only_a_written_time_is_a_time(client: TestClient, moment: Any) -> None:
    assert client.post("/api/sessions", json={"created": moment}).status_code == 400
    assert client.get(f"/api/sessions?since={moment}").status_code == 400


@pytest.mark.parametrize("path", ["notes", "refs", "scores", "tags", "sessions"])
def test_what_is_not_there_cannot_be_removed_and_is_a_404(client: TestClient, path: str) -> None:
    answer = client.delete(f"/api/{path}/nothing")
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")


def test_a_session_that_is_asked_for_twice_at_once_with_one_key_is_made_once(
    client: TestClient, served: Repository
) -> None:
    wanted = {"turns": [{"role": "user", "content": "Go"}]}
    begin, answers = threading.Barrier(6), list[tuple[int, str]]()

    def ask(path: str) -> None:
        begin.wait()
        answer = client.post(path, json=wanted, headers={"Idempotency-Key": "k"})
        answers.append((answer.status_code, answer.json().get("id")))

    for path in ("/api/sessions", "/api/sessions/plan/forks"):
        threads = [threading.Thread(target=ask, args=(path,)) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [status for status, _ in answers] == [201] * 12
    assert len({made for _, made in answers}) == 2
    assert len(list(served)) == 3


def test_an_address_that_does_not_exist_is_a_page_for_browsers_and_a_problem_for_programs(client: TestClient) -> None:
    page = client.get("/nowhere", headers={"Accept": "text/html,*/*;q=0.8"})
    assert (page.status_code, page.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert "There is no page at this address." in page.text
    problem = client.get("/nowhere")
    assert (problem.status_code, problem.headers["content-type"]) == (404, "application/problem+json")


def test_addresses_that_clients_make_up_are_counted_as_one(client: TestClient) -> None:
    for number in range(3):
        client.get(f"/made-up-{number}")
        client.get(f"/madeup{number}", headers={"Host": "evil.example"})
        client.post("/health/" + str(number))
    assert "up" not in "".join(line for line in client.get("/metrics").text.splitlines() if "trails_requests" in line)
