"""A hold wins in every home of a store and through a server, also where the remover has not seen it."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

import trails
from tests.support.served import served
from trails import OnHold
from trails.serve.app import create_app


def _filled(store: trails.Repository) -> None:
    plan = store.create(id="plan", principal="alice")
    plan.append("user", "For Eve")
    plan.persist()


def test_the_api_of_a_server_answers_409_and_names_the_hold(memory: trails.Repository) -> None:
    _filled(memory)
    hold = memory.holds.place("plan", reason="Case 7")
    with TestClient(create_app(memory), base_url="http://localhost") as client:
        answer = client.delete("/api/sessions/plan")
    assert answer.status_code == 409
    assert answer.json()["hold"] == hold.token
    assert "plan" in memory


def test_two_openings_of_a_database_agree_on_a_hold(url: str) -> None:
    with trails.open(url, create=True) as one, trails.open(url) as other:
        _filled(one)
        other.sync()  # it has seen the session, and has not seen the hold
        one.holds.place(principal="alice", reason="Case 7")
        with pytest.raises(OnHold):
            other.delete("plan")
        with pytest.raises(OnHold):
            other.redact("plan", 0)
        assert other.load("plan").turns[0].text == "For Eve"


def test_a_store_that_is_opened_through_a_server_keeps_what_is_held(memory: trails.Repository) -> None:
    _filled(memory)
    memory.holds.place("plan", reason="Case 7")
    with served(memory) as address, trails.open(address) as remote, pytest.raises(OnHold):
        remote.delete("plan")
    assert "plan" in memory
