"""What others store shows in no answer to a reader: two stores that differ in it alone answer alike."""

from __future__ import annotations

import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx")

import asyncio
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

import trails
from trails.serve import tokens
from trails.serve.api import events
from trails.serve.app import create_app
from trails.serve.tokens import TokenFile

UNSEEN = ("secret-plan", "secret-label", "secret-tag", "secret-ref", "secret-fork", "secret-child")
SEEN = ("plan", "trip", "fork")
NOWHERE = "no-such"
PAGES = (
    "/", "/sessions/rows", "/sessions/figures", "/forest", "/forest/lanes", "/compare", "/scores", "/audit", "/sparql-editor",
    "/queries", "/sparql", "/graphs?default", "/metrics", "/health", "/audit/verify", "/actions",
)  # fmt: skip
OF_SESSION = (
    "/session?id={}", "/session/part?id={}", "/session/dropped?id={}", "/turn?id={}&turn=0", "/branches?of={}",
    "/audit/verify?session={}", "/compare?left=plan&right={}", "/search?text={}", "/scores?session={}", "/actions?session={}",
    "/graphs?graph=urn:trails:session:{}", "/actions/redact?session={}&turn=0", "/?text={}", "/?principal={}",
)  # fmt: skip
PARAMETERS = ("at", "cursor", "session", "root", "left", "right", "columns", "label", "sort", "kinds", "text", "since")
QUERIES = (
    "SELECT * { ?s ?p ?o }",
    "SELECT * { GRAPH ?g { ?s ?p ?o } }",
    "SELECT (COUNT(*) AS ?n) { ?s ?p ?o }",
    "DESCRIBE <urn:trails:session:{}>",
    "SELECT * FROM <urn:trails:session:{}> { ?s ?p ?o }",
    "SELECT '{}' {{",
)
RANDOM = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(Z|\+00:00)|\d+(\.\d+)? (ms|seconds ago|minutes ago)")
RANDOM_ID = re.compile(r"\b[0-9a-f]{8,64}\b|'content-length', '\d+'")  # random ids are compressed to random lengths


@pytest.fixture
def clients(tmp_path: Path) -> Iterator[tuple[TestClient, TestClient]]:
    """Clients of alice, at a store that has her sessions alone, and at one in which others work beside her."""
    alone, crowded = tmp_path / "alone", tmp_path / "crowded"
    with trails.open(alone, create=True) as store:
        plan = store.create(id="plan", principal="alice", agent="planner", label="trip")
        plan.append("user", "Plan a trip")
        plan.append("assistant", "Where to?", model="m-1", usage={"input_tokens": 30, "output_tokens": 6})
        plan.persist()
        fork = plan.fork(at=1, id="fork")
        fork.append("assistant", "By train?")
        fork.persist()
        store.notes.add("plan", 0, "mine", by="alice")
        store.score("plan", "good", 1, by="alice")
        _, secret = TokenFile(alone / tokens.NAME).make("laptop", "alice", "writer")
    shutil.copytree(alone, crowded)
    with trails.open(crowded) as store:
        others = store.create(id="secret-plan", principal="bob", agent="secret-agent", label="secret-label")
        others.append("user", "Plan a secret trip")
        others.append("assistant", "Where to?", model="secret-model", usage={"input_tokens": 7, "output_tokens": 3})
        others.persist()
        for session, at, name in ((store.load("plan"), 1, "secret-fork"), (others, 1, "secret-fork-2")):
            made = session.fork(at=at, id=name, principal="bob")
            made.append("assistant", "Elsewhere")
            made.persist()
        child = store.create(id="secret-child", principal="bob", spawned_by="plan")
        child.append("user", "Look")
        child.persist()
        store.tags.add("secret-tag", "secret-plan")
        store.refs.set("secret-ref", "secret-plan")
        store.notes.add("secret-plan", 0, "a secret note", by="bob")
        store.score("secret-plan", "secret-score", 1, by="bob")
    with trails.open(alone) as one, trails.open(crowded) as two:
        options: Any = {
            "base_url": "http://localhost",
            "headers": {"Authorization": f"Bearer {secret}"},
            "follow_redirects": False,
        }
        yield TestClient(create_app(one), **options), TestClient(create_app(two), **options)


def paths(client: TestClient) -> Iterator[str]:
    """Yield every path that reads, with sessions that are seen, that are not, and that are nowhere."""
    yield from PAGES
    names = (*SEEN, *UNSEEN, NOWHERE)
    yield from (path.format(name) for path in OF_SESSION for name in names)
    for path, operations in client.get("/api").json()["paths"].items():
        if "get" not in operations or path.endswith("/events"):
            continue
        for name in names:
            place = re.sub(r"\{[^}]*\}", name, path)
            yield place
            if "{" not in path or name in ("plan", NOWHERE):
                yield from (f"{place}?{each}={value}" for each in PARAMETERS for value in (name, "secret-plan", "x"))
            yield f"{place}?left=plan&right={name}"
    for query in json.loads(client.get("/queries", headers={"Accept": "application/json"}).text)["queries"]:
        yield f"/queries/{query['name']}"
        yield from (f"/queries/{query['name']}?session={name}&index=0" for name in ("plan", "secret-plan", NOWHERE))
        yield f"/queries/{query['name']}?text=secret"
    for query in QUERIES:
        yield from (f"/sparql?query={query.replace('{}', name)}" for name in ("plan", "secret-plan", NOWHERE))


def answer(client: TestClient, method: str, path: str, **options: Any) -> tuple[int, str, list[tuple[str, str]]]:
    found = client.request(method, path, **options)
    headers = sorted((name, value) for name, value in found.headers.items() if name not in ("date", "server-timing"))
    text = RANDOM.sub("", found.text)
    if "results" in found.headers.get("content-type", "") or "turtle" in found.headers.get("content-type", ""):
        text = "\n".join(sorted(re.split(r"[,\n]", text)))
    return found.status_code, text, headers


@pytest.mark.slow
def test_each_answer_that_reads_is_as_if_others_had_stored_nothing(clients: tuple[TestClient, TestClient]) -> None:
    alone, crowded = clients
    asked = list(dict.fromkeys(paths(alone)))
    assert len(asked) > 1000
    different = [path for path in asked if answer(alone, "GET", path) != answer(crowded, "GET", path)]
    assert different == []


def bodies(name: str) -> Iterator[Any]:
    yield from ({}, {"turns": [{"role": "user", "content": name}]}, {"at": 1}, {"text": name, "index": 0}, {"index": 0})
    yield from (
        {"session": name, "at": 0},
        {"session": name, "name": "s", "value": 1, "by": "alice"},
        {"by": name},
        {"colour": name},
    )


@pytest.mark.slow
def test_each_write_to_what_is_not_seen_is_refused_as_if_it_were_not_there(
    clients: tuple[TestClient, TestClient],
) -> None:
    different = []
    for path, operations in clients[0].get("/api").json()["paths"].items():
        for method in set(operations) - {"get"}:
            for name in ("secret-plan", "secret-fork", NOWHERE):
                place = re.sub(r"\{[^}]*\}", name, path)
                if place == path:
                    continue  # what takes a new name is told that the name is taken
                for body in bodies(name):
                    one, two = (answer(client, method, place, json=body) for client in clients)
                    if one != two:
                        different.append((method, place, body, one[:2], two[:2]))
                    assert one[0] >= 400
    assert different == []


def test_a_note_that_is_not_seen_is_not_there(clients: tuple[TestClient, TestClient]) -> None:
    store = clients[1].app.state.service.store  # type: ignore[attr-defined]
    (note,) = store.notes.list("secret-plan")
    refused, missing = (clients[1].delete(f"/api/notes/{each}") for each in (note.id, "0" * 12))
    assert refused.status_code == missing.status_code == 404
    assert refused.json()["detail"].replace(note.id, "") == missing.json()["detail"].replace("0" * 12, "")
    assert store.notes.get(note.id) == note


def test_an_event_that_is_named_in_a_header_is_refused_alike_whatever_it_names(
    clients: tuple[TestClient, TestClient],
) -> None:
    for name in ("secret-plan", '"secret-plan"', "urn:trails:session:secret-plan", NOWHERE):
        one, two = (answer(client, "GET", "/api/events", headers={"Last-Event-ID": name}) for client in clients)
        assert one == two
        assert one[0] == 400
        assert "..." not in one[1]


def test_a_stream_beats_alike_whether_others_commit_or_not(
    clients: tuple[TestClient, TestClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "_BEAT", 0.4)
    service = clients[1].app.state.service  # type: ignore[attr-defined]

    async def is_wanted(event: Any) -> bool:
        return False

    async def commit_without_end() -> None:
        for number in range(1000):
            service.store.tags.add(f"busy-{number}", "secret-plan")
            await asyncio.sleep(0.05)

    async def first_lines() -> list[bytes]:
        service.feed.follow()
        others = asyncio.ensure_future(commit_without_end())
        stream = events._stream(service, service.feed.end(), is_wanted, False)
        try:
            return [await asyncio.wait_for(anext(stream), 5) for _ in range(3)]
        finally:
            others.cancel()
            await stream.aclose()  # type: ignore[attr-defined] # it is a generator
            service.feed.close()

    assert asyncio.run(first_lines()) == [b": follow\n\n", b": beat\n\n", b": beat\n\n"]


def test_a_write_and_what_is_read_after_it_are_answered_as_if_others_had_stored_nothing(
    clients: tuple[TestClient, TestClient],
) -> None:
    turns = [{"role": "user", "content": "hi"}]
    requests: tuple[tuple[str, str, Any, int], ...] = (
        ("POST", "/api/sessions", {"turns": turns}, 201),
        ("POST", "/api/sessions/plan/turns", {"turns": turns}, 201),
        ("POST", "/api/sessions/plan/forks", {"at": 1, "turns": turns}, 201),
        ("PUT", "/api/sessions/plan/label", {"label": "later"}, 200),
        ("POST", "/api/sessions/plan/notes", {"index": 0, "text": "n"}, 201),
        ("POST", "/api/scores", {"ref": "plan", "name": "s", "value": 1}, 201),
        ("PUT", "/api/tags/t", {"ref": "plan"}, 200),
        ("PUT", "/api/refs/r", {"session": "plan"}, 200),
        *(("GET", f"/api/{what}", None, 200) for what in ("verification", "comparison?root=plan", "refs", "tags")),
    )
    for method, path, body, status in requests:
        one, two = (answer(client, method, path, json=body) for client in clients)
        assert (one[0], two[0]) == (status, status)
        assert RANDOM_ID.sub("ID", str(one[1:])) == RANDOM_ID.sub("ID", str(two[1:]))
