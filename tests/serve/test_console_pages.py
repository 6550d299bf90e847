"""The console's pages, in one process with the tests."""

from __future__ import annotations

import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx")

from collections.abc import Iterator

from starlette.testclient import TestClient

import trails
from trails.serve.app import create_app


@pytest.fixture
def store() -> Iterator[trails.Repository]:
    with trails.open(":memory:") as store:
        yield store


@pytest.fixture
def client(store: trails.Repository) -> Iterator[TestClient]:
    with TestClient(create_app(store), base_url="http://localhost") as client:
        yield client


def test_every_page_has_the_layout_and_a_policy_without_inline_code(client: TestClient) -> None:
    answer = client.get("/")
    assert answer.status_code == 200
    policy = answer.headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert '<main id="main"' in answer.text
    assert "<style" not in answer.text
    assert "style=" not in answer.text


def test_the_files_of_the_console_are_served_by_itself(client: TestClient) -> None:
    for name in ("console.css", "console.js", "htmx.min.js", "icon.svg"):
        assert client.get(f"/static/{name}").status_code == 200
