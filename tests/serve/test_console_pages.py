"""The console's pages, in one process with the tests."""

from __future__ import annotations

import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx")

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
from starlette.testclient import TestClient

import trails
from tests.support.hostile_markdown import HOSTILE_MARKDOWN
from trails.cli import main
from trails.history.lookup.forest import ForestNode, Twig
from trails.serve import tokens
from trails.serve.app import create_app
from trails.serve.console.forest_page import place_lanes
from trails.serve.tokens import TokenFile


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
    for name in ("theme.css", "console.css", "console.js", "htmx.min.js", "icon.svg"):
        assert client.get(f"/static/{name}").status_code == 200


HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>{{ 7 * 7 }}\u202e\x1b[31m"
"""What would be markup, a template, or what steers a screen."""


def is_harmless(page: str) -> bool:
    return "<script>alert" not in page and "<img src=x" not in page and "\u202e" not in page and "\x1b" not in page


def make_trip(store: trails.Repository) -> None:
    """Store a session of six turns, the last one a summary of the first three, and a fork of its first two turns."""
    trip = store.create(id="trip", principal="alice", agent="planner", label="Alps", system="Be brief.")
    trip.append("user", "Plan a trip")
    call = {"type": "tool_use", "id": "c1", "name": "find_trains", "input": {"to": "Zell"}}
    usage = {"input_tokens": 1200, "output_tokens": 30, "cost": 0.25}
    parts = [{"type": "thinking", "thinking": "Trains first."}, {"type": "text", "text": "I look."}, call]
    trip.append("assistant", parts, model="m-1", usage=usage)
    trip.append("tool", [{"type": "tool_result", "tool_use_id": "c1", "content": "RJX 19:32"}])
    trip.append("assistant", "Take the RJX.", model="m-1")
    trip.append("user", "And back?")
    trip.persist()
    trip.compact(lambda _: "They go to Zell.", keep_turns=2)
    fork = trip.fork(at=2, id="by-bus")
    fork.append("user", "By bus, please")
    fork.persist()


def test_the_list_shows_each_session_with_its_figures(store: trails.Repository, client: TestClient) -> None:
    make_trip(store)
    page = client.get("/").text
    assert 'href="/session?id=trip"' in page
    assert "1,200 / 30" in page
    assert "$0.2500" in page
    assert "fork of trip" in page
    assert "2 sessions · 7 turns" in client.get("/sessions/figures").text


@pytest.mark.parametrize(
    ("question", "ids"),
    [
        ("principal=bob", ["b"]),
        ("agent=coder", ["b"]),
        ("model=m-2", ["b"]),
        ("label=First", ["a"]),
        ("text=PRAG", ["b"]),
        ("text=first", ["a"]),
        ("since=2999-01-01", []),
        ("until=2000-01-01", []),
        ("sort=turns", ["b", "a"]),
        ("sort=turns&order=oldest", ["a", "b"]),
        ("text=&principal=&since=", ["b", "a"]),
    ],
)
def test_filters_and_order_choose_the_rows(
    store: trails.Repository, client: TestClient, question: str, ids: list[str]
) -> None:
    one = store.create(id="a", principal="alice", agent="planner", label="First")
    one.append("user", "Wien")
    one.persist()
    two = store.create(id="b", principal="bob", agent="coder")
    two.append("user", "Nach Prag")
    two.append("assistant", "Gut", model="m-2")
    two.persist()
    page = client.get(f"/?{question}").text
    assert [row.split('"')[0] for row in page.split('<tr id="row-')[1:]] == ids


def test_both_dates_of_a_filter_are_inclusive(store: trails.Repository, client: TestClient) -> None:
    moment = datetime(2026, 3, 1, 12, tzinfo=UTC)
    session = store.create(id="march", created=moment)
    session.append("user", "Hello", time=moment)
    session.persist()
    shown = {
        question: "row-march" in client.get(f"/?{question}").text
        for question in ("since=2026-03-01", "until=2026-03-01", "since=2026-03-02", "until=2026-02-28")
    }
    assert list(shown.values()) == [True, True, False, False]


def test_a_filter_that_cannot_be_is_refused_in_words(client: TestClient) -> None:
    for question in ("since=yesterday", "sort=colour", "order=up", "cursor=xyz"):
        answer = client.get(f"/?{question}")
        assert answer.status_code == 400
        assert "Bad Request" in answer.text


def test_pages_of_rows_go_on_where_the_last_one_ended(store: trails.Repository, client: TestClient) -> None:
    with store.commit():
        for number in range(110):
            session = store.create(id=f"s{number:03}")
            session.persist()
    first = client.get("/").text
    more = first.split('hx-get="/sessions/rows?cursor=')[1].split('"')[0]
    second = client.get(f"/sessions/rows?cursor={more}").text
    assert (first.count('<tr id="row-'), second.count('<tr id="row-')) == (60, 50)
    assert "cursor=" not in second


def test_rows_that_the_reader_has_are_not_sent_again(store: trails.Repository, client: TestClient) -> None:
    make_trip(store)
    live = client.get("/").text.split('data-live hx-get="')[1].split('"')[0].replace("&amp;", "&")
    assert client.get(live).status_code == 204
    store.load("by-bus").append("user", "Or by bike")
    session = store.load("trip")
    session.append("user", "More")
    session.persist()
    assert client.get(live).status_code == 200


def test_a_session_shows_calls_folded_reasoning_usage_forks_and_what_a_compaction_dropped(
    store: trails.Repository, client: TestClient
) -> None:
    make_trip(store)
    page = client.get("/session?id=trip").text
    assert page.count('<article id="turn-') == 6
    assert '<details class="call">' in page
    assert "Trains first." in page
    assert "1,200 in, 30 out" in page
    assert "1 fork from here:" in page
    assert "the model is not shown turns 0 to " in page
    dropped = client.get("/session/dropped?id=trip&turn=5").text
    assert "Plan a trip" in dropped
    assert "And back?" not in dropped


def test_a_long_session_shows_its_last_part_and_the_rest_on_request(
    store: trails.Repository, client: TestClient
) -> None:
    long = store.create(id="long")
    for number in range(100):
        long.append("user", f"Say {number}.")
    long.persist()
    page = client.get("/session?id=long").text
    assert [page.count(f'id="turn-{number}"') for number in (59, 60, 99)] == [0, 1, 1]
    before = client.get("/session/part?id=long&end=60").text
    assert [before.count(f'id="turn-{number}"') for number in (19, 20, 59, 60)] == [0, 1, 1, 0]
    around = client.get("/session?id=long&turn=30").text
    assert [around.count(f'id="turn-{number}"') for number in (19, 20, 59, 60)] == [0, 1, 1, 0]
    assert "sought" in around
    assert client.get("/session/part?id=long&start=100").status_code == 204
    long.append("user", "News")
    long.persist()
    assert "News" in client.get("/session/part?id=long&start=100").text
    assert client.get("/session?id=long&turn=500").status_code == 404
    assert client.get("/session?id=nobody").status_code == 404
    assert client.get("/session?id=long&turn=-1").status_code == 400


def test_the_page_of_a_turn_tells_and_draws_its_provenance(store: trails.Repository, client: TestClient) -> None:
    make_trip(store)
    page = client.get("/turn?id=trip&turn=1").text
    assert "<svg" in page
    assert "<?xml" not in page
    assert "wasGeneratedBy" in page
    assert "find_trains" in page
    assert 'answered by <a href="/turn?id=trip&amp;turn=2">' in page
    after = store.load("trip")
    after.append("assistant", "Back with the RJX.", model="m-2")
    after.persist()
    later = client.get("/turn?id=trip&turn=6").text
    assert 'the summary at <a href="/turn?id=trip&amp;turn=5">' in later
    assert "3 to 4" in "".join(later.split("</a>")).replace(
        '<a href="/session?id=trip&amp;turn=3#turn-3">', ""
    ).replace('<a href="/session?id=trip&amp;turn=4#turn-4">', "")


def test_no_text_of_a_store_becomes_markup(store: trails.Repository, client: TestClient) -> None:
    session = store.create(id="h", label="<b>bold</b>", meta={"title": HOSTILE.replace("\x1b", "")}, system=HOSTILE)
    session.append("user", HOSTILE)
    parts = [
        {"type": "thinking", "thinking": HOSTILE},
        {"type": "tool_use", "id": "c", "name": "<i>tool</i>", "input": {"x": HOSTILE}},
        {"type": "image_url", "image_url": {"url": "javascript:alert(1)"}},
        {"type": HOSTILE, "x": HOSTILE},
    ]
    session.append("assistant", parts, model="<u>m</u>")
    session.append("tool", [{"type": "tool_result", "tool_use_id": "c", "content": HOSTILE, "is_error": True}])
    session.persist()
    store.notes.add("h", 0, HOSTILE)
    store.score("h#1", "<em>", HOSTILE, reason=HOSTILE)
    addresses = ["/", "/session?id=h", "/search?text=alert", *(f"/turn?id=h&turn={number}" for number in range(3))]
    for address in addresses:
        answer = client.get(address)
        assert answer.status_code == 200
        assert is_harmless(answer.text), address
        assert "<b>bold" not in answer.text
        assert "<i>tool" not in answer.text
        assert "<u>m" not in answer.text
        assert 'href="javascript:' not in answer.text


def test_markdown_is_laid_out_as_on_exported_pages_and_what_tools_say_is_not(
    store: trails.Repository, client: TestClient
) -> None:
    session = store.create(id="m")
    for role in ("user", "assistant", "tool"):
        session.append(role, f"**{role}** [a](javascript:x())")
    session.persist()
    text = client.get("/session?id=m").text
    for role in ("user", "assistant"):
        laid_out = f"<p><strong>{role}</strong> [a](javascript:x())</p>\n"
        assert f'<div class="said M" dir="auto">{laid_out}</div>' in text
    assert '<p class="said" dir="auto">**tool** [a](javascript:x())</p>' in text


@pytest.mark.parametrize("part", range(3))
def test_no_hostile_markdown_becomes_more_than_text_and_links_to_the_web(
    store: trails.Repository, client: TestClient, part: int
) -> None:
    session = store.create(id="h")
    texts = HOSTILE_MARKDOWN[part::3]
    for text in texts:
        session.append("assistant", text)
    session.persist()
    answer = client.get("/session?id=h&start=0").text.split('<div id="transcript"')[1]
    assert answer.count("<article ") == len(texts)
    for mark in ("<script>owned", "<img src", "<svg", "<style", "<iframe", 'javascript:owned()"', "\u202e", "\x1b"):
        assert mark not in answer


def test_pictures_are_served_as_pictures_and_nothing_else_is(store: trails.Repository, client: TestClient) -> None:
    session = store.create(id="p")
    svg = "PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciPjxzY3JpcHQ+YWxlcnQoMSk8L3NjcmlwdD48L3N2Zz4="
    png = "iVBORw0KGgo="
    parts = [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": png}},
        {"type": "image_url", "image_url": {"url": f"data:image/svg+xml;base64,{svg}"}},
        {"type": "image", "source": {"type": "base64", "media_type": "text/html", "data": svg}},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
    ]
    session.append("user", parts)
    session.persist()
    picture = client.get("/image?id=p&turn=0&number=0")
    assert (picture.headers["content-type"], picture.content) == ("image/png", b"\x89PNG\r\n\x1a\n")
    for number in (1, 2):
        other = client.get(f"/image?id=p&turn=0&number={number}")
        assert other.headers["content-type"] == "application/octet-stream"
        assert other.headers["content-disposition"].startswith("attachment")
        assert "sandbox" in other.headers["content-security-policy"]
    assert client.get("/image?id=p&turn=0&number=3").status_code == 404
    assert 'src="https://' not in client.get("/session?id=p").text


def test_ids_with_signs_of_addresses_can_be_opened(store: trails.Repository, client: TestClient) -> None:
    for session_id in ("a/b?c=d&e#f", ".."):
        session = store.create(id=session_id)
        session.append("user", "Hello")
        session.persist()
    page = client.get("/").text
    links = {row.split('href="')[1].split('"')[0].replace("&amp;", "&") for row in page.split('<tr id="row-')[1:]}
    assert len(links) == 2
    for link in links:
        assert "Hello" in client.get(link).text


def test_a_search_leads_to_the_turn(store: trails.Repository, client: TestClient) -> None:
    make_trip(store)
    page = client.get("/search?text=rjx").text
    assert "/session?id=trip&amp;turn=3#turn-3" in page
    assert "<mark>RJX</mark>" in page
    assert "No turn holds this." in client.get("/search?text=zzz").text


def test_the_forest_has_a_lane_for_each_session_and_a_list_of_the_same(
    store: trails.Repository, client: TestClient
) -> None:
    make_trip(store)
    lanes = client.get("/forest/lanes").json()
    assert lanes["id"] == ["trip", "by-bus"]
    assert lanes["origin"] == [-1, 0]
    assert (lanes["start"], lanes["end"]) == ([0, 2], [6, 3])
    assert lanes["kind"] == ["root", "fork"]
    assert client.get("/forest/lanes?id=by-bus").json() == lanes | {"chosen": "by-bus"}
    store.create(id="alone").persist()
    assert client.get("/forest/lanes").json()["id"] == ["trip", "by-bus", "alone"]
    store.delete("alone")
    page = client.get("/forest?as=list").text
    assert page.count('<li class="depth-') == 2
    assert "1 tree, 2 sessions" in page


def test_the_forest_is_shown_where_nothing_is_stored_and_where_a_parent_is_gone(
    store: trails.Repository, client: TestClient
) -> None:
    assert client.get("/forest/lanes").json() == {"id": []}
    assert client.get("/forest").status_code == 200
    make_trip(store)
    store.delete("trip", children="detach")
    assert client.get("/forest/lanes").json()["id"] == ["by-bus"]


def test_a_spawned_session_hangs_on_its_spawner() -> None:
    nodes = [ForestNode("main", own_turns=5), ForestNode("helper", spawner="main", own_turns=3)]
    layout = place_lanes([Twig(nodes[0]), Twig(nodes[1], 1)]).layout
    assert [(lane.stem.id, lane.origin, lane.stem.start) for lane in layout.lanes] == [
        ("main", None, 0),
        ("helper", 0, 0),
    ]


def test_a_lineage_in_a_circle_is_drawn_all_the_same() -> None:
    nodes = [ForestNode("a", parent="b", forked_at=1), ForestNode("b", parent="a", forked_at=1)]
    assert len(place_lanes([Twig(node) for node in nodes]).layout.lanes) == 2


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[TestClient]:
    """A client that reads as alice in a store with a session of hers and one of bob's."""
    with trails.open(tmp_path / "store", create=True) as store:
        for principal in ("alice", "bob"):
            session = store.create(id=f"of-{principal}", principal=principal)
            session.append("user", f"A word of {principal}")
            session.persist()
        assert store.store.folder is not None
        _, secret = TokenFile(store.store.folder / tokens.NAME).make("laptop", "alice", "reader")
        with TestClient(create_app(store), base_url="http://localhost") as client:
            client.headers["authorization"] = f"Bearer {secret}"
            yield client


def test_a_readers_console_shows_nothing_of_others(reader: TestClient) -> None:
    for address in (
        "/",
        "/sessions/rows",
        "/search?text=word",
        "/forest?as=list",
        "/forest/lanes",
        "/session?id=of-alice",
    ):
        page = reader.get(address).text
        assert "of-alice" in page, address
        assert "bob" not in page, address
    assert "1 session" in reader.get("/sessions/figures").text
    for address in ("/session", "/session/part", "/turn", "/image", "/payload", "/session/dropped", "/forest/lanes"):
        assert reader.get(f"{address}?id=of-bob&turn=0").status_code == 404, address
    assert "of-bob" not in reader.get("/?text=bob").text


def test_whoever_has_no_token_is_sent_to_sign_in(reader: TestClient) -> None:
    del reader.headers["authorization"]
    for address in ("/", "/session?id=of-alice", "/forest"):
        answer = reader.get(address, headers={"accept": "text/html"}, follow_redirects=False)
        assert answer.status_code == 303
        assert answer.headers["location"].startswith("/login")


def test_a_programs_console_signs_in_by_its_link_and_ends_with_the_store(tmp_path: Path) -> None:
    with trails.open(tmp_path / "store", create=True) as store:
        console = store.ui()
        assert store.ui() is console
        assert console.link.startswith(f"{console.address}/login#once_")
        assert f'href="{console.address}/login#' in console._repr_html_()
        assert httpx.get(f"{console.address}/health").status_code == 200
    assert console.is_closed
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{console.address}/")


@pytest.mark.slow
def test_trails_ui_prints_a_link_that_works_once_and_ends_when_it_is_told_to(tmp_path: Path) -> None:
    trails.open(tmp_path / "store", create=True).close()
    command = [sys.executable, "-m", "trails", "ui", str(tmp_path / "store"), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address, _, secret = process.stdout.readline().strip().partition("/login#")
            form = {"token": secret, "next": "/"}
            origin = {"origin": address}
            with httpx.Client(base_url=address) as client:
                assert client.get("/", headers={"accept": "text/html"}).status_code == 303
                assert client.post("/login", data=form, headers=origin).status_code == 303
                assert client.get("/").status_code == 200
            assert httpx.post(f"{address}/login", data=form, headers=origin).status_code in (401, 403)
            process.terminate()
            assert process.wait(30) == 0
        finally:
            process.kill()


def test_trails_ui_starts_the_browser_with_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trails.open(tmp_path / "store", create=True).close()
    opened = []

    def open_page(address: str) -> bool:
        page = Path(address.removeprefix("file://"))
        opened.append((address, page.read_text("utf-8"), page.parent.stat().st_mode & 0o777))
        return True

    monkeypatch.setattr("webbrowser.open", open_page)
    monkeypatch.setattr(
        "trails.serve.ui.run_console", lambda store, port, show: show("http://127.0.0.1:1/login#SECRET")
    )
    main(["ui", str(tmp_path / "store")], standalone_mode=False)
    ((address, page, mode),) = opened
    assert "SECRET" not in address
    assert 'url=http://127.0.0.1:1/login#SECRET"' in page
    assert mode == 0o700
