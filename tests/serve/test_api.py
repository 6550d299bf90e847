"""The API: sessions, turns, forks and what is asked of them, over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

import trails

pytest.importorskip("starlette")
pytest.importorskip("httpx")

from starlette.testclient import TestClient

from trails.serve.app import create_app

pytestmark = pytest.mark.any_store


@pytest.fixture
def client(store: trails.Repository) -> Iterator[TestClient]:
    with TestClient(create_app(store), base_url="http://localhost") as client:
        yield client


def said(*texts: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text} for text in texts]


def create(client: TestClient, session_id: str, *texts: str, **fields: Any) -> Any:
    made = client.post("/api/sessions", json={"id": session_id, "turns": said(*texts)} | fields)
    assert made.status_code == 201, made.text
    return made


def contents(client: TestClient, session_id: str, query: str = "") -> list[Any]:
    page = client.get(f"/api/sessions/{session_id}/turns{query}")
    assert page.status_code == 200, page.text
    return [turn["content"] for turn in page.json()["turns"]]


# --- sessions and turns


def test_a_session_is_created_with_its_turns_and_read_back(client: TestClient, store: trails.Repository) -> None:
    made = create(client, "plan", "Go", "Stay", principal="alice", meta={"topic": "trips"})
    assert made.headers["location"] == "/api/sessions/plan"
    assert made.headers["etag"] == f'"{store.load("plan").head}"'
    found = client.get("/api/sessions/plan").json()
    assert (found["principal"], found["meta"], found["length"]) == ("alice", {"topic": "trips"}, 2)
    assert found["head"] == store.load("plan").head
    assert contents(client, "plan") == ["Go", "Stay"]


def test_an_append_moves_the_head_and_says_where_it_is(client: TestClient, store: trails.Repository) -> None:
    create(client, "plan", "Go")
    done = client.post("/api/sessions/plan/turns", json={"turns": said("Stay", "Wait")})
    assert (done.status_code, done.json()["length"]) == (201, 3)
    assert [turn["index"] for turn in done.json()["turns"]] == [1, 2]
    assert done.headers["etag"] == f'"{done.json()["head"]}"' == f'"{store.load("plan").head}"'


def test_an_append_on_another_head_is_refused_with_both_heads(client: TestClient, store: trails.Repository) -> None:
    first = create(client, "plan", "Go").headers["etag"]
    second = client.post("/api/sessions/plan/turns", json={"turns": said("Stay")}, headers={"If-Match": first})
    assert second.status_code == 201
    late = client.post("/api/sessions/plan/turns", json={"turns": said("Late")}, headers={"If-Match": first})
    assert late.status_code == 409
    assert late.headers["content-type"] == "application/problem+json"
    problem = late.json()
    assert (f'"{problem["expected"]}"', f'"{problem["actual"]}"') == (first, second.headers["etag"])
    assert contents(client, "plan") == ["Go", "Stay"]


def test_an_append_sees_what_another_handle_stored(client: TestClient, store: trails.Repository) -> None:
    create(client, "plan", "Go")
    client.post("/api/sessions/plan/turns", json={"turns": said("one")})
    other = store.load("plan")
    other.append("user", "two")
    other.persist()
    kept = client.post(
        "/api/sessions/plan/turns", json={"turns": said("three")}, headers={"If-Match": f'"{other.head}"'}
    )
    assert kept.status_code == 201
    other.refresh()
    other.append("user", "four")
    other.persist()
    assert client.post("/api/sessions/plan/turns", json={"turns": said("five")}).status_code == 201
    assert contents(client, "plan") == ["Go", "one", "two", "three", "four", "five"]


def test_a_request_with_a_key_is_answered_again_and_writes_once(client: TestClient, store: trails.Repository) -> None:
    key = {"Idempotency-Key": "k1"}
    create(client, "plan", "Go")
    first = client.post("/api/sessions/plan/turns", json={"turns": said("Stay", "Stay")}, headers=key)
    client.post("/api/sessions/plan/turns", json={"turns": said("Later")})
    again = client.post(
        "/api/sessions/plan/turns", json={"turns": said("Stay", "Stay")}, headers=key | {"If-Match": '"00"'}
    )
    assert (again.status_code, again.json()) == (first.status_code, first.json())
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    with TestClient(create_app(store), base_url="http://localhost") as other:  # a server that was started anew
        assert (
            other.post("/api/sessions/plan/turns", json={"turns": said("Stay", "Stay")}, headers=key).json()
            == first.json()
        )
    assert contents(client, "plan") == ["Go", "Stay", "Stay", "Later"]


def test_a_key_is_refused_for_another_request(client: TestClient) -> None:
    create(client, "plan", "Go")
    key = {"Idempotency-Key": "k1"}
    assert client.post("/api/sessions/plan/turns", json={"turns": said("Stay")}, headers=key).status_code == 201
    other = client.post("/api/sessions/plan/turns", json={"turns": said("Leave")}, headers=key)
    assert (other.status_code, other.json()["title"]) == (422, "KeyReused")
    assert contents(client, "plan") == ["Go", "Stay"]


def test_a_session_and_a_fork_are_made_once_for_a_key(client: TestClient, store: trails.Repository) -> None:
    key = {"Idempotency-Key": "k1"}
    body = {"principal": "alice", "turns": said("Go")}
    first, again = (client.post("/api/sessions", json=body, headers=key) for _ in range(2))
    assert (first.status_code, again.status_code, first.json()) == (201, 201, again.json())
    plan = first.json()["id"]
    fork = {"at": 1, "turns": said("Stay")}
    one, two = (client.post(f"/api/sessions/{plan}/forks", json=fork, headers=key) for _ in range(2))
    assert (one.status_code, two.status_code, one.json()) == (201, 201, two.json())
    assert len(store) == 2
    other = client.post("/api/sessions", json={"turns": said("Leave")}, headers=key)
    assert other.status_code == 422


_TURN: dict[str, Any] = {"role": "user", "content": "Stay"}
_CREATED: dict[str, Any] = {"turns": [_TURN]}
_FORKED: dict[str, Any] = {"at": 1, "turns": [_TURN]}
_OTHER_TURNS: list[dict[str, Any]] = [
    {"role": "assistant"}, {"content": "Leave"}, {"content": ["Stay"]}, {"author": "zoe"}, {"model": "m"},
    {"usage": {"input_tokens": 1}}, {"stop_reason": "x"}, {"time": "2020-01-01T00:00:00Z"}, {"meta": {"k": 1}},
    {"as_content": True}, {"source_id": "s1"},
]  # fmt: skip
_OTHER_SESSIONS: list[dict[str, Any]] = [
    {"label": "x"}, {"meta": {"k": 1}}, {"system": "Be brief"}, {"agent": "a"}, {"kind": "eval"}, {"id": "own"},
    {"created": "2020-01-01T00:00:00Z"}, {"spawned_by": "plan"}, {"principal": "bob"}, {"turns": [_TURN, _TURN]},
    {"turns": []}, {"turns": [_TURN | {"author": "zoe"}]},
]  # fmt: skip
_OTHER_FORKS: list[dict[str, Any]] = [
    {"label": "x"}, {"meta": {"k": 1}}, {"agent": "a"}, {"kind": "eval"}, {"id": "own"}, {"at": 2}, {"by": "zoe"},
    {"principal": "bob"}, {"turns": []}, {"turns": [_TURN | {"model": "m"}]},
]  # fmt: skip
_REQUESTS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    *(("/api/sessions/plan/turns", {"turns": [_TURN]}, {"turns": [_TURN | field]}) for field in _OTHER_TURNS),
    ("/api/sessions/plan/turns", {"turns": [_TURN | {"source_id": "s1"}]}, {"turns": [_TURN | {"source_id": "s2"}]}),
    ("/api/sessions/plan/turns", {"turns": [_TURN]}, {"turns": [_TURN, _TURN]}),
    *(("/api/sessions", _CREATED, _CREATED | field) for field in _OTHER_SESSIONS),
    ("/api/sessions", {}, {"label": "x"}),
    *(("/api/sessions/plan/forks", _FORKED, _FORKED | field) for field in _OTHER_FORKS),
]


@pytest.mark.parametrize("is_turned", [False, True])
def test_each_field_tells_a_request_from_another_one_with_its_key_after_a_restart(
    store: trails.Repository, *, is_turned: bool
) -> None:
    """A wrong answer lists the requests that were taken for a repeat, or whose repeat was taken for another one."""
    wrong, asked = [], []
    with TestClient(create_app(store), base_url="http://localhost") as client:
        create(client, "plan", "Go", "On")
        for number, (place, *bodies) in enumerate(_REQUESTS):
            one, other = reversed(bodies) if is_turned else bodies
            path, key = place.replace("plan/turns", f"s{number}/turns"), {"Idempotency-Key": f"k{number}"}
            if path != place:
                create(client, f"s{number}")
            one = {name: f"{value}{number}" if name in ("label", "id") else value for name, value in one.items()}
            first = client.post(path, json=one, headers=key)
            assert first.status_code == 201, first.text
            asked.append((path, key, one, other, first.json()))
    count = len(store)
    with TestClient(create_app(store), base_url="http://localhost") as anew:  # a server that was started anew
        for path, key, one, other, answer in asked:
            refused, again = anew.post(path, json=other, headers=key), anew.post(path, json=one, headers=key)
            if (refused.status_code, again.status_code, again.json()) != (422, 201, answer):
                wrong.append((path, one, other, refused.status_code, again.text))
    assert len(store) == count
    assert wrong == []
    assert store.verify().ok


def test_a_session_that_was_labelled_or_redacted_since_is_answered_again(
    client: TestClient, store: trails.Repository
) -> None:
    key = {"Idempotency-Key": "k1"}
    body = {
        "label": "trip",
        "meta": {"k": 1},
        "system": "Be brief",
        "turns": [{"role": "user", "content": "secret"}] * 2,
    }
    first = client.post("/api/sessions", json=body, headers=key).json()
    store.redact(first["id"], 0)
    store.redact(first["id"], 1)
    store.set_label(first["id"], "other")
    again = client.post("/api/sessions", json=body, headers=key)
    assert (again.status_code, again.json()["id"], again.json()["length"]) == (201, first["id"], 2)
    assert "secret" not in again.text
    assert client.post("/api/sessions", json=body | {"label": "other"}, headers=key).status_code == 422
    turns = {"turns": [{"role": "user", "content": "hidden", "source_id": "hidden"}, *said("hidden", "more")]}
    path = f"/api/sessions/{first['id']}/turns"
    assert client.post(path, json=turns, headers=key).json()["length"] == 5
    store.redact(first["id"], 2)
    again = client.post(path, json=turns, headers=key)
    assert (again.status_code, again.json()["length"], len(store.load(first["id"]))) == (201, 5, 5)
    assert "hidden" not in json.dumps([turn["content"] for turn in again.json()["turns"][:1]])


def test_a_message_that_is_there_by_its_source_id_may_come_with_any_key(client: TestClient) -> None:
    create(client, "plan")
    one, two = ({"role": "user", "content": text, "source_id": text} for text in ("Go", "Stay"))
    path = "/api/sessions/plan/turns"
    assert client.post(path, json={"turns": [one]}, headers={"Idempotency-Key": "k1"}).status_code == 201
    assert client.post(path, json={"turns": [one]}, headers={"Idempotency-Key": "k2"}).status_code == 201
    both = [client.post(path, json={"turns": [one, two]}, headers={"Idempotency-Key": "k3"}) for _ in range(2)]
    assert [each.json()["length"] for each in both] == [2, 2]
    assert both[1].headers["idempotent-replayed"] == "true"
    other = client.post(path, json={"turns": [one | {"content": "No"}]}, headers={"Idempotency-Key": "k4"})
    assert other.status_code == 422
    assert contents(client, "plan") == ["Go", "Stay"]


@pytest.mark.parametrize(
    ("path", "body", "other"),
    [
        ("/api/sessions/plan/notes", {"index": 0, "text": "why?"}, {"index": 0, "text": "why not?"}),
        (
            "/api/sessions/plan/notes",
            {"index": 0, "text": "why?", "by": "ann"},
            {"index": 1, "text": "why?", "by": "ann"},
        ),
        ("/api/scores", {"ref": "plan", "name": "tone", "value": 1}, {"ref": "plan", "name": "tone", "value": True}),
        (
            "/api/scores",
            {"ref": "plan#0:2", "name": "tone", "value": 1},
            {"ref": "plan#0:1", "name": "tone", "value": 1},
        ),
    ],
)
def test_a_note_and_a_score_are_stored_once_for_a_key(
    client: TestClient, store: trails.Repository, path: str, body: dict[str, Any], other: dict[str, Any]
) -> None:
    key = {"Idempotency-Key": "k1"}
    create(client, "plan", "Go", "Stay")
    first = client.post(path, json=body, headers=key)
    assert (first.status_code, "idempotent-replayed" in first.headers) == (201, False)
    client.post("/api/sessions/plan/turns", json={"turns": said("Later")})
    with TestClient(create_app(store), base_url="http://localhost") as anew:  # a server that was started anew
        again = anew.post(path, json=body, headers=key)
    assert (again.status_code, again.json(), again.headers["idempotent-replayed"]) == (201, first.json(), "true")
    refused = client.post(path, json=other, headers=key)
    assert (refused.status_code, refused.json()["title"]) == (422, "KeyReused")
    assert client.post(path, json=body, headers={"Idempotency-Key": "k2"}).json()["id"] != first.json()["id"]
    assert len(store.notes.list("plan")) + len(store.scores(history=True)) == 2
    kind = "notes" if "text" in body else "scores"
    assert client.delete(f"/api/{kind}/{first.json()['id']}").status_code == 200
    assert client.post(path, json=body, headers=key).status_code == 422
    assert store.verify().ok


def test_a_redaction_that_is_sent_again_writes_nothing(client: TestClient, store: trails.Repository) -> None:
    create(client, "plan", "Go")
    key = {"Idempotency-Key": "k1"}
    assert client.post("/api/sessions/plan/redactions", json={"index": 0}, headers=key).status_code == 200
    number = store.store.number
    assert client.post("/api/sessions/plan/redactions", json={"index": 0}, headers=key).status_code == 200
    assert store.store.number == number


def test_a_key_of_the_parent_says_nothing_in_its_fork(client: TestClient) -> None:
    key = {"Idempotency-Key": "k1"}
    create(client, "plan")
    client.post("/api/sessions/plan/turns", json={"turns": said("Go")}, headers=key)
    client.post("/api/sessions/plan/forks", json={"id": "trip"})
    client.post("/api/sessions/trip/turns", json={"turns": said("Go")}, headers=key)
    assert (contents(client, "plan"), contents(client, "trip")) == (["Go"], ["Go", "Go"])


def test_pages_of_turns_are_the_last_ones_or_a_range(client: TestClient) -> None:
    create(client, "plan", *map(str, range(60)))
    assert contents(client, "plan") == list(map(str, range(10, 60)))
    assert contents(client, "plan", "?last=2") == ["58", "59"]
    assert contents(client, "plan", "?from=58") == ["58", "59"]
    assert contents(client, "plan", "?from=3&to=5") == ["3", "4"]
    assert contents(client, "plan", "?last=0") == []
    assert client.get("/api/sessions/plan/turns?last=1&from=2").status_code == 400
    assert client.get("/api/sessions/plan/turns?from=3&to=2").status_code == 400


def test_a_long_range_says_where_it_goes_on(client: TestClient, store: trails.Repository) -> None:
    with store.session("long") as long:
        long.extend({"role": "user", "content": str(number)} for number in range(1500))
    first = client.get("/api/sessions/long/turns?from=200").json()
    assert (len(first["turns"]), first["next"]) == (1000, 1200)
    rest = client.get("/api/sessions/long/turns?from=1200").json()
    assert (len(rest["turns"]), rest["next"]) == (300, None)
    assert client.get("/api/sessions/long/turns?from=0&to=1000").json()["next"] is None


def test_a_page_that_is_kept_follows_appends_and_redactions(client: TestClient, store: trails.Repository) -> None:
    first = create(client, "plan", "secret", "Stay").headers["etag"]
    create(client, "other", "Hello")
    page = client.get("/api/sessions/plan/turns")
    assert page.headers["etag"] == first
    assert client.get("/api/sessions/plan/turns", headers={"If-None-Match": first}).status_code == 304
    assert client.get("/api/sessions/plan/turns").text == page.text
    with store.session("plan") as plan:  # past the API
        plan.append("user", "More")
    assert contents(client, "plan") == ["secret", "Stay", "More"]
    head = client.get("/api/sessions/plan/turns").headers["etag"]
    store.redact("plan", 0)
    again = client.get("/api/sessions/plan/turns", headers={"If-None-Match": head})
    assert again.status_code == 200
    assert "secret" not in again.text
    assert again.headers["etag"].startswith(head[:-1])


def test_a_repeat_never_tells_what_was_redacted_since(client: TestClient, store: trails.Repository) -> None:
    create(client, "plan", "Go")
    key = {"Idempotency-Key": "k1"}
    client.post("/api/sessions/plan/turns", json={"turns": said("secret")}, headers=key)
    store.redact("plan", 1)
    again = client.post("/api/sessions/plan/turns", json={"turns": said("secret")}, headers=key)
    assert again.status_code == 201
    assert "secret" not in again.text
    assert len(store.load("plan")) == 2


def test_a_fork_shares_the_prefix_and_has_turns_of_its_own(client: TestClient, store: trails.Repository) -> None:
    head = create(client, "plan", "Go", "Stay").headers["etag"]
    made = client.post(
        "/api/sessions/plan/forks", json={"id": "trip/2", "at": 1, "turns": said("Leave")}, headers={"If-Match": head}
    )
    assert (made.status_code, made.headers["location"]) == (201, "/api/sessions/trip%2F2")
    assert contents(client, "trip%2F2") == ["Go", "Leave"]
    found = client.get("/api/sessions/trip%2F2").json()
    assert (found["parent_session_id"], found["forked_at_index"]) == ("plan", 1)
    assert [each["id"] for each in client.get("/api/sessions/plan/branches").json()["sessions"]] == ["trip/2"]
    late = client.post("/api/sessions/plan/forks", json={}, headers={"If-Match": '"00"'})
    assert late.status_code == 409
    assert len(store) == 2


def test_sessions_are_listed_by_what_they_are_in_pages(client: TestClient) -> None:
    for number in range(3):
        create(client, f"s{number}", "Go", principal="alice", meta={"run": str(number % 2)})
    create(client, "other", principal="bob")
    first = client.get("/api/sessions?principal=alice&limit=2").json()
    rest = client.get(f"/api/sessions?principal=alice&limit=2&cursor={first['cursor']}").json()
    assert [each["id"] for each in (*first["sessions"], *rest["sessions"])] == ["s2", "s1", "s0"]
    assert rest["cursor"] is None
    ids = [each["id"] for each in client.get("/api/sessions?meta=run%3D0&order=oldest").json()["sessions"]]
    assert ids == ["s0", "s2"]


# --- what is asked


def test_sessions_are_compared_searched_and_replayed(client: TestClient) -> None:
    create(client, "plan", "Go to the Alps", "Stay")
    client.post("/api/sessions/plan/forks", json={"id": "trip", "at": 1, "turns": said("Leave")})
    assert [node["id"] for node in client.get("/api/forest").json()["nodes"]] == ["plan", "trip"]
    diff = client.get("/api/diff?left=plan&right=trip").json()
    assert (diff["differs"], diff["ancestor"]["turns"]) == (True, 1)
    rows = client.get("/api/comparison?root=plan&columns=session&columns=turns").json()["rows"]
    assert [(row["session"], row["turns"]) for row in rows] == [("plan", 2), ("trip", 2)]
    assert [hit["session"] for hit in client.get("/api/search?text=alps").json()["hits"]] == ["plan"]
    assert client.get("/api/sessions/trip/replay?to=1").json()["turns"] == [
        {"role": "user", "content": "Go to the Alps", "index": 0, "branch": "main"}
    ]
    shown = client.get("/api/sessions/plan/context?form=openai&query=Now").json()["messages"]
    assert [message["content"] for message in shown] == ["Go to the Alps", "Stay", "Now"]
    assert client.get("/api/verification").json()["ok"] is True


def test_a_session_is_read_as_it_was(client: TestClient, store: trails.Repository) -> None:
    create(client, "plan", "Go")
    mark = client.get("/api/comparison?root=plan").json()["as_of"]
    client.post("/api/sessions/plan/turns", json={"turns": said("Stay")})
    create(client, "later", "Go")
    assert contents(client, "plan", f"?at={mark}") == ["Go"]
    assert [each["id"] for each in client.get(f"/api/sessions?at={mark}").json()["sessions"]] == ["plan"]
    assert client.get(f"/api/sessions/later?at={mark}").status_code == 404
    assert client.get("/api/sessions?at=yesterday").status_code == 400


def test_scores_tags_refs_labels_and_notes_are_written_and_read(client: TestClient) -> None:
    create(client, "plan", "Go", "Stay")
    score = client.post("/api/scores", json={"ref": "plan#1", "name": "tone", "value": 0.5, "by": "ann"})
    assert score.status_code == 201
    assert [(each["value"], each["by"]) for each in client.get("/api/scores?ref=plan").json()["scores"]] == [
        (0.5, "ann")
    ]
    assert client.delete(f"/api/scores/{score.json()['id']}").status_code == 200
    assert client.get("/api/scores").json()["scores"] == []
    assert client.put("/api/tags/v1", json={"ref": "plan@1"}).json()["length"] == 1
    assert [tag["name"] for tag in client.get("/api/tags").json()["tags"]] == ["v1"]
    assert client.delete("/api/tags/v1").status_code == 200
    assert client.put("/api/refs/main", json={"session": "plan", "at": 1, "expected": None}).status_code == 200
    assert client.put("/api/refs/main", json={"session": "plan", "at": 2, "expected": None}).status_code == 409
    assert client.put("/api/refs/main", json={"session": "plan", "at": 2, "expected": "plan@1"}).json()["at"] == 2
    assert client.delete("/api/refs/main").status_code == 200
    assert client.get("/api/refs").json()["refs"] == []
    assert client.put("/api/sessions/plan/label", json={"label": "trip"}).json()["label"] == "trip"
    note = client.post("/api/sessions/plan/notes", json={"index": 0, "text": "Why?"}).json()
    assert [each["text"] for each in client.get("/api/sessions/trip/notes").json()["notes"]] == ["Why?"]
    assert client.delete(f"/api/notes/{note['id']}").status_code == 200


def test_a_session_with_forks_is_deleted_only_as_asked(client: TestClient, store: trails.Repository) -> None:
    create(client, "plan", "Go")
    client.post("/api/sessions/plan/forks", json={"id": "trip"})
    assert client.delete("/api/sessions/plan").status_code == 409
    gone = client.delete("/api/sessions/plan?children=cascade&reason=old").json()["deleted"]
    assert sorted(gone) == ["plan", "trip"]
    assert client.get("/api/sessions/plan").status_code == 404
    assert client.post("/api/sessions/plan/turns", json={"turns": said("Go")}).status_code == 404


# --- what is refused


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/api/sessions/nobody", None, 404),
        ("GET", "/api/sessions?limit=0", None, 400),
        ("GET", "/api/sessions?limit=5&limit=6", None, 400),
        ("GET", "/api/sessions?colour=red", None, 400),
        ("GET", "/api/sessions/plan/notes?colour=red", None, 400),
        ("GET", "/api/nothing", None, 404),
        ("PATCH", "/api/sessions", b"{}", 405),
        ("POST", "/api/sessions", b"{", 400),
        ("POST", "/api/sessions", b'{"meta": {"n": NaN}}', 400),
        ("POST", "/api/sessions", b"[" * 100_000, 400),
        ("POST", "/api/sessions", b'{"colour": "red"}', 400),
        ("POST", "/api/sessions", b'{"id": "plan"}', 400),
        ("POST", "/api/sessions/plan/turns", b'{"turns": []}', 400),
        ("POST", "/api/sessions/plan/turns", b'{"turns": [{"role": "usr", "content": "Go"}]}', 400),
        ("POST", "/api/sessions/plan/turns", b'{"turns": [{"role": "user", "content": "\\ud800"}]}', 400),
    ],
)
def test_what_is_wrong_is_refused_in_a_problem_document(  # noqa: PLR0917 - the table's columns
    client: TestClient, store: trails.Repository, method: str, path: str, body: bytes | None, status: int
) -> None:
    create(client, "plan", "Go")
    answer = client.request(
        method, path, content=body, headers={} if body is None else {"Content-Type": "application/json"}
    )
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json"), answer.text
    assert answer.json()["status"] == status
    assert (len(store), len(store.load("plan"))) == (1, 1)


def test_one_turn_that_cannot_be_kept_keeps_all_of_its_request_out(client: TestClient) -> None:
    create(client, "plan", "Go")
    bad = client.post("/api/sessions/plan/turns", json={"turns": [*said("Stay"), {"role": "user", "content": ""}]})
    assert bad.status_code == 400
    assert client.post("/api/sessions/plan/turns", json={"turns": said("Leave")}).status_code == 201
    assert contents(client, "plan") == ["Go", "Leave"]


# --- the description


def test_every_operation_is_described_and_every_description_is_there(client: TestClient) -> None:
    document = client.get("/api").json()
    assert document["openapi"] == "3.1.0"
    assert set(document["paths"]["/api/sessions/{session}/turns"]) == {"get", "post"}
    for path, operations in document["paths"].items():
        methods = client.request("PATCH", path.replace("{", "").replace("}", "")).headers["allow"]
        assert {method.upper() for method in operations} == set(methods.split(", ")) - {"HEAD"}


def test_big_numbers_come_back_exactly(client: TestClient) -> None:
    part = {"type": "data", "value": 123456789012345678901234567890}
    create(client, "plan")
    client.post("/api/sessions/plan/turns", json={"turns": [{"role": "user", "content": [part], "as_content": True}]})
    assert contents(client, "plan") == [[part]]


@pytest.mark.parametrize("label", ["theirs", "urn:trails:session:theirs"])
def test_no_session_is_called_by_the_id_of_another_one_nor_has_anothers_label_as_its_id(
    client: TestClient, store: trails.Repository, label: str
) -> None:
    store.create(id="theirs", principal="bob", label="plans").persist()
    store.create(id="mine").persist()
    refused = [
        client.post("/api/sessions", json={"id": "trap", "label": label}),
        client.post("/api/sessions", json={"id": "plans"}),
        client.post("/api/sessions/mine/forks", json={"label": label}),
        client.post("/api/sessions/mine/forks", json={"id": "plans"}),
        client.put("/api/sessions/mine/label", json={"label": label}),
    ]
    assert [each.status_code for each in refused] == [400] * 5
    assert sorted(each.id for each in store.list()) == ["mine", "theirs"]
    assert client.put("/api/sessions/mine/label", json={"label": "mine"}).status_code == 200
    assert store.resolve("theirs") == store.resolve("plans") == "theirs"
