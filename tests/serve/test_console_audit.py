"""The console's pages of comparisons, scores, the audit, the editor and what is done from a page, in one process."""

from __future__ import annotations

import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx")

import hashlib
import io
import json
import re
import zipfile
from collections.abc import Iterator
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pyoxigraph as ox
from starlette.testclient import TestClient

import trails
from trails.audit.report import report_digest
from trails.integrity.signed_notes import new_key
from trails.rdf import query_files
from trails.serve import tokens
from trails.serve.app import create_app
from trails.serve.console.plots import strips
from trails.serve.console.side_by_side import aligned
from trails.serve.sparql.turnstile import Busy, Turnstile
from trails.serve.tokens import TokenFile
from trails.store import Change

HOSTILE = '</div><script>alert(1)</script><img src=x onerror="alert(2)"> & \u202etxt.exe'


class _Markup(HTMLParser):
    """The tags of a page, with their attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def _assert_inert(page: str) -> None:
    """No text of a turn became markup: every script is a file of the console, and nothing has a handler or a style."""
    for tag, attributes in _Markup(page).tags:
        assert tag != "script" or (attributes.get("src") or "").startswith("/static/"), attributes
        assert tag != "img" or (attributes.get("src") or "").startswith("/static/queries/"), attributes
        assert tag not in ("iframe", "object", "style"), (tag, attributes)
        assert not [name for name in attributes if name.startswith("on") or name == "style"], (tag, attributes)
    assert "\u202e" not in page


@pytest.fixture
def store() -> Iterator[trails.Repository]:
    with trails.open(":memory:") as store:
        plan = store.create(id="plan")
        plan.append("user", "Plan a trip to Bern")
        plan.append("assistant", "By train on Friday.")
        plan.persist()
        for name, text in (("bus", "By bus on Friday."), ("none", "Stay at home."), ("same", "By train on Friday.")):
            fork = plan.fork(at=1, id=name)
            fork.append("assistant", text)
            fork.append("user", "Thanks")
            fork.persist()
        yield store


@pytest.fixture
def client(store: trails.Repository) -> Iterator[TestClient]:
    with TestClient(create_app(store), base_url="http://localhost") as client:
        yield client


# --- side by side


def test_two_branches_stand_side_by_side_with_their_words_marked(client: TestClient) -> None:
    page = client.get("/compare", params={"left": "plan", "right": "bus"})
    assert page.status_code == 200
    assert re.findall("<del>(.*?)</del>", page.text) == ["train"]
    assert re.findall("<ins>(.*?)</ins>", page.text) == ["bus"]
    assert "1 turn at the beginning is shared" in page.text
    assert "only right" in page.text


def test_the_same_branch_twice_differs_in_nothing(client: TestClient) -> None:
    assert "nothing differs" in client.get("/compare", params={"left": "bus", "right": "bus"}).text


def test_a_patch_of_two_branches_is_a_file(client: TestClient) -> None:
    answer = client.get("/compare", params={"left": "plan", "right": "bus", "format": "patch"})
    assert answer.headers["content-disposition"] == 'attachment; filename="comparison.diff"'
    assert "-By train on Friday.\n+By bus on Friday.\n" in answer.text


def test_several_branches_stand_beside_the_first(client: TestClient) -> None:
    page = client.get("/compare", params={"of": ["plan", "bus", "same"]})
    assert page.status_code == 200
    assert "3 branches side by side" in page.text
    assert re.findall("<(?:del|ins)>(.*?)<", page.text) == ["train", "bus"]
    assert page.text.count("the same") == 1


def test_rows_of_several_branches_keep_the_order_of_each(store: trails.Repository) -> None:
    rows = aligned([store.diff("plan", name) for name in ("bus", "none", "same")])
    assert [(row.index, [len(cell) for cell in row.cells]) for row in rows] == [(1, [1, 1, 1]), (None, [1, 1, 1])]
    for column, name in enumerate(("bus", "none", "same")):
        cells = [entry.right.content for row in rows for entry in row.cells[column] if entry.right]
        assert cells == [turn.content for turn in store.load(name)][1:]


def test_two_chosen_sessions_are_compared_and_nine_are_too_many(client: TestClient) -> None:
    assert "<del>train</del>" in client.get("/compare", params={"of": ["plan", "bus"]}).text
    answer = client.get("/compare", params={"of": ["plan"] * 9})
    assert answer.status_code == 400
    assert "up to 8 branches" in answer.text


def _pages(client: TestClient, path: str | None) -> int:
    """Follow the links to what comes after, to the end; return how many pages there are."""
    number = 0
    while path is not None:
        page = client.get(path)
        assert page.status_code == 200, path
        assert (">Before</a>" in page.text) is (number > 0)
        after = re.search(r'href="([^"]*)">Go on</a>', page.text)
        path = None if after is None else unescape(after[1])
        number += 1
    return number


@pytest.mark.slow
def test_long_comparisons_and_many_scores_go_on_page_by_page(client: TestClient, store: trails.Repository) -> None:
    for name in ("long", "other", "third"):
        with store.session(name) as session:
            session.extend([{"role": "user", "content": f"{number} by {name}"} for number in range(160)])
    for number in range(210):
        store.score("long", "grade", number, by="bob", version=str(number))
    assert [_pages(client, path) for path in ("/compare?left=long&right=other", "/scores?name=grade")] == [2, 2]
    assert _pages(client, "/compare?of=long&of=other&of=third") == 3
    assert client.get("/scores?start=one").status_code == 400


def test_the_form_names_the_places_where_sessions_were_forked(client: TestClient) -> None:
    page = client.get("/compare").text
    links = [unescape(attributes["href"] or "") for tag, attributes in _Markup(page).tags if tag == "a"]
    assert "/compare?left=plan&right=bus" in links
    assert "/branches?of=plan&at=1" in links


def test_an_unknown_session_is_a_page_in_words(client: TestClient) -> None:
    answer = client.get("/compare", params={"left": "plan", "right": HOSTILE})
    assert answer.status_code in (400, 404)
    _assert_inert(answer.text)


def test_no_text_of_a_turn_becomes_markup_side_by_side(client: TestClient, store: trails.Repository) -> None:
    one = store.load("plan").fork(at=1, id="one")
    one.append("assistant", HOSTILE)
    one.append("assistant", "", tool_calls=[{"id": "c", "name": "run</b>", "arguments": {"</p><b>": HOSTILE}}])
    one.persist()
    two = store.load("plan").fork(at=1, id="two")
    two.append("assistant", HOSTILE + "<u>more</u><script>alert(3)</script>")
    two.append("assistant", "", tool_calls=[{"id": "c", "name": "run</b>", "arguments": {"</p><b>": "<i>"}}])
    two.persist()
    for parameters in ({"left": "one", "right": "two"}, {"of": ["one", "two", "plan"]}):
        page = client.get("/compare", params=parameters)
        assert page.status_code == 200
        assert "<script>alert(1)</script>" in _Markup(page.text).text
        _assert_inert(page.text)


# --- scores and figures


@pytest.fixture
def scored(store: trails.Repository) -> trails.Repository:
    for name, by_bob, by_grader in (("bus", 0.5, 0.25), ("none", 1.0, 0.5), ("same", 0.75, 0.75)):
        store.score(name, "quality", by_bob, by="bob", reason=HOSTILE)
        store.score(name, "quality", by_grader, by="agent:grader", version="2")
        store.score(name, "kept", name != "none", by="bob")
    store.score(("bus", 1), "tone", "<b>warm</b>", by="bob")
    return store


def test_scores_are_pictures_by_name_and_scorer_and_a_table(client: TestClient, scored: trails.Repository) -> None:
    page = client.get("/scores").text
    text = _Markup(page).text
    assert "10 scores" in text
    labels = [attributes.get("aria-label") or "" for tag, attributes in _Markup(page).tags if tag == "svg"]
    assert any(label.startswith("bob: mean 0.75,") and label.endswith("from 0.5 to 1") for label in labels), labels
    assert any(label.startswith("agent:grader/2: mean 0.5,") for label in labels), labels
    assert "66.67 percent" in labels
    assert "33.33 percent" in labels
    _assert_inert(page)


def test_scores_are_limited_by_name_scorer_and_session(client: TestClient, scored: trails.Repository) -> None:
    assert "3 scores" in client.get("/scores", params={"name": "kept"}).text
    assert "3 scores" in client.get("/scores", params={"by": "agent:grader"}).text
    assert "4 scores" in client.get("/scores", params={"of": "bus"}).text


def test_two_scorers_of_one_name_are_held_against_each_other(client: TestClient, scored: trails.Repository) -> None:
    assert "3 scored by both" in client.get("/scores", params={"name": "quality"}).text


def test_scores_are_a_file_of_csv_or_json(client: TestClient, scored: trails.Repository) -> None:
    lines = client.get("/scores", params={"format": "csv", "name": "kept"}).text.splitlines()
    assert len(lines) == 4
    assert lines[0].startswith("session,on,start,end,name,value,by")
    found = client.get("/scores", params={"format": "json", "name": "kept"}).json()
    assert sorted((each["session"], each["value"]) for each in found) == [
        ("bus", True), ("none", False), ("same", True),
    ]  # fmt: skip


def test_figures_of_branches_are_a_table_and_a_picture(client: TestClient, scored: trails.Repository) -> None:
    page = client.get("/branches", params={"of": "plan", "at": "1", "plot": "score.quality@bob"})
    assert page.status_code == 200
    boxes = [attributes["value"] for tag, attributes in _Markup(page.text).tags if attributes.get("name") == "of"]
    assert boxes == ["plan", "bus", "none", "same"]  # the first is that of the form above
    assert 'aria-label="all branches: mean 0.75,' in page.text
    _assert_inert(page.text)


def test_figures_of_branches_are_grouped_and_are_a_file(client: TestClient, store: trails.Repository) -> None:
    for number, kind in enumerate(("a", "a", "b")):
        fork = store.load("plan").fork(at=1, id=f"arm-{number}", meta={"arm": kind, "grade": number})
        fork.persist()
    page = client.get("/branches", params={"of": "plan", "at": "1", "group_by": "meta.arm", "plot": "meta.grade"})
    labels = [attributes.get("aria-label") or "" for tag, attributes in _Markup(page.text).tags if tag == "svg"]
    drawn = [label.partition(",")[0] for label in labels if ": mean" in label]
    assert drawn == ["a: mean 0.5", "b: mean 2"]
    answer = client.get("/branches", params={"of": "plan", "group_by": "meta.arm", "format": "csv", "groups": ""})
    assert answer.text.startswith("group,meta.arm,count,")


def test_two_groups_of_branches_are_tested_against_each_other(client: TestClient, store: trails.Repository) -> None:
    for number, kind in enumerate(("a", "b") * 3):
        store.load("plan").fork(at=1, id=f"arm-{number}", meta={"arm": kind, "grade": number}).persist()
    asked = {"of": "plan", "at": "1", "group_by": "meta.arm", "plot": "meta.grade", "left": "a", "right": "b"}
    told = store.compare("plan", at=1, group_by="meta.arm").test("meta.grade", "a", "b").sentences()
    text = _Markup(client.get("/branches", params=asked).text).text
    for line in told:
        assert " ".join(line.split()) in text
    assert client.get("/branches", params=asked | {"right": "<b>"}).status_code == 400


def test_branches_of_nothing_or_an_unknown_column_are_refused_in_words(client: TestClient) -> None:
    assert client.get("/branches").status_code == 400
    answer = client.get("/branches", params={"of": "plan", "plot": "<b>"})
    assert answer.status_code == 400
    _assert_inert(answer.text)


def test_equal_numbers_and_great_ones_have_a_scale() -> None:
    for numbers in ([3.0, 3.0], [0.0], [1e300, -1e300], [1e-300], [5.0, None], [1e308, -1e308, 1], [1e300, 1e-300]):
        plot = strips({"a": numbers})
        assert plot is not None
        places = [place for row in plot.rows for place, _ in row.marks] + [place for place, _ in plot.ticks]
        assert all(0 <= place <= 100 for place in places), (numbers, places)
    assert strips({"a": [None]}) is None


# --- the audit


def test_every_question_of_the_catalogue_has_a_page_with_its_form(client: TestClient) -> None:
    listed = client.get("/audit").text
    for name, query in query_files.catalogue().items():
        assert f'href="/audit/questions/{name}"' in listed
        page = client.get(f"/audit/questions/{name}")
        assert page.status_code == 200, name
        inputs = {attributes["name"]: attributes for tag, attributes in _Markup(page.text).tags if tag == "input"}
        for parameter in query.parameters:
            assert ("required" in inputs[parameter.name]) is not parameter.optional
        _assert_inert(page.text)


def test_every_theme_has_its_questions_in_order(client: TestClient) -> None:
    headings = re.findall(r'<h3 id="theme-(\w+)">', client.get("/audit").text)
    assert headings == [*query_files.THEMES, "else"]


def test_a_question_is_asked_with_a_label_and_its_answer_links_to_sessions(
    client: TestClient, store: trails.Repository
) -> None:
    store.set_label("plan", "the trip")
    page = client.get("/audit/questions/forks-after", params={"session": "the trip"})
    links = [attributes.get("href") for tag, attributes in _Markup(page.text).tags if tag == "a"]
    assert {"/session?id=bus", "/session?id=none", "/session?id=same"} <= set(links)
    assert "/session?id=plan&turn=0#turn-0" in links
    assert "3 rows" in page.text


def test_a_question_without_what_it_needs_is_not_asked(client: TestClient) -> None:
    page = client.get("/audit/questions/influences", params={"session": "plan"})
    assert page.status_code == 200
    assert " rows" not in page.text
    assert " row<" not in page.text


def test_a_question_is_told_in_plain_words_with_a_picture_of_its_pattern(client: TestClient) -> None:
    page = client.get("/audit/questions/tags")
    assert "What is tagged? The query reads all tags. A row is a tag with its session" in page.text
    pictures = [attributes.get("src") or "" for tag, attributes in _Markup(page.text).tags if tag == "img"]
    assert pictures == ["/static/queries/tags.svg"]
    picture = client.get(pictures[0])
    assert (picture.status_code, picture.headers["content-type"].partition(";")[0]) == (200, "image/svg+xml")
    assert "session (given)" in picture.text


def test_the_files_of_an_answer_have_its_parameters(client: TestClient) -> None:
    page = client.get("/audit/questions/forks-after", params={"session": "plan", "index": "0"})
    file = next(
        attributes["href"] or ""
        for tag, attributes in _Markup(page.text).tags
        if tag == "a" and attributes.get("download") == "forks-after.csv"
    )
    answer = client.get(file)
    assert answer.status_code == 200
    assert len(answer.text.splitlines()) == 4


def test_wrong_values_of_a_question_are_refused_in_words(client: TestClient) -> None:
    for parameters in (
        {"session": "plan", "index": "one"},
        {"session": HOSTILE},
        {"session": "plan", "index": "9" * 30},
    ):
        answer = client.get("/audit/questions/forks-after", params=parameters)
        assert 400 <= answer.status_code < 500, parameters
        _assert_inert(answer.text)
    assert client.get("/audit/questions/no-such").status_code == 404


def test_a_question_that_finds_no_place_is_told_so_in_words(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def crowded(*_: object) -> None:
        raise Busy("as many queries run as may: ask again later")

    monkeypatch.setattr(Turnstile, "run", crowded)
    answer = client.get("/audit/questions/forks-after", params={"session": "plan"})
    assert answer.status_code == 503
    assert "ask again later" in answer.text


def test_texts_in_an_answer_stay_texts(client: TestClient, store: trails.Repository) -> None:
    with store.session("odd") as odd:
        odd.append("user", HOSTILE)
    page = client.get("/audit/questions/transcript", params={"session": "odd"})
    assert "<script>alert(1)</script>" in _Markup(page.text).text
    _assert_inert(page.text)


def test_verify_gives_its_verdict_and_its_findings(client: TestClient, store: trails.Repository) -> None:
    whole = client.get("/audit/verify")
    assert "Nothing is wrong" in whole.text
    assert client.get("/audit/verify", params={"session": "plan", "format": "json"}).json()["turns"] == 2
    turn = store.load("plan")[1]
    quad = next(
        quad
        for quad in store.store.quads((None, None, None, None))
        if getattr(quad.object, "value", "") == turn.content
    )
    other = ox.Quad(quad.subject, quad.predicate, ox.Literal("Another text"), quad.graph_name)
    store.store.commit(Change(add=[other], remove=[quad]))
    broken = client.get("/audit/verify")
    assert "Nothing is wrong" not in broken.text
    assert "finding" in broken.text
    lines = client.get("/audit/verify", params={"format": "csv"}).text.splitlines()
    assert lines[0].startswith("code,")
    assert len(lines) > 1


def test_an_audit_is_a_page_json_or_a_pack_that_verifies_itself(client: TestClient, store: trails.Repository) -> None:
    page = client.post("/audit/report", data={"session": "bus", "output": "page"})
    assert page.status_code == 200
    verdicts = re.findall(r'<a href="#(\w+)">', page.text)
    assert verdicts == ["validity", "completeness", "integrity", "findings"]
    report = client.post("/audit/report", data={"session": "bus", "output": "json"}).json()
    assert report["digest"] == report_digest(report)
    pack = client.post("/audit/report", data={"session": "", "output": "pack"})
    assert pack.headers["content-type"] == "application/zip"
    with zipfile.ZipFile(io.BytesIO(pack.content)) as files:
        manifest = json.loads(files.read("manifest.json"))
        for subject in manifest["subject"]:
            assert hashlib.sha256(files.read(subject["name"])).hexdigest() == subject["digest"]["sha256"]


def test_an_audit_is_held_against_a_checkpoint(client: TestClient, store: trails.Repository) -> None:
    secret, public = new_key("example.com/log")
    note = store.proofs.checkpoint(secret)
    with store.session("later") as later:
        later.append("user", "after it")
    asked = {"session": "", "output": "page", "checkpoint": note.replace("\n", "\r\n"), "keys": public}
    page = client.post("/audit/report", data=asked)
    assert page.status_code == 200
    assert "uncovered-turns" in page.text
    _, other = new_key("example.com/log")
    assert client.post("/audit/report", data={**asked, "keys": other}).status_code >= 400


def test_an_audit_is_never_made_by_a_link(client: TestClient) -> None:
    assert client.get("/audit/report").status_code == 405


# --- the editor


def _query_in(page: str) -> str:
    return unescape(re.findall(r"<textarea[^>]*>(.*?)</textarea>", page, re.DOTALL)[0])


def test_the_editor_begins_with_a_query_that_the_endpoint_answers(client: TestClient) -> None:
    page = client.get("/sparql-editor")
    answer = client.post("/sparql", data={"query": _query_in(page.text)}, headers={"accept": "text/csv"})
    assert answer.status_code == 200
    assert len(answer.text.splitlines()) == 5
    _assert_inert(page.text)


def test_the_editor_takes_a_query_of_the_catalogue_or_of_the_address(client: TestClient) -> None:
    page = client.get("/sparql-editor", params={"name": "forks-after"})
    assert _query_in(page.text).strip() == query_files.find("forks-after").text.strip()
    asked = f"SELECT * {{ ?s ?p '{HOSTILE}</textarea>' }}"
    page = client.get("/sparql-editor", params={"query": asked})
    assert page.text.count("</textarea>") == 1
    assert "<script>alert" not in page.text
    assert client.get("/sparql-editor", params={"name": "no-such"}).status_code in (400, 404, 422)


def test_the_editor_completes_the_terms_of_the_vocabulary(client: TestClient) -> None:
    areas = [attributes for tag, attributes in _Markup(client.get("/sparql-editor").text).tags if tag == "textarea"]
    terms = json.loads(areas[0]["data-terms"] or "")
    assert {"trails:index", "trails:Session", "prov:wasGeneratedBy"} <= set(terms)


def test_the_parts_of_the_editor_come_with_their_licence(client: TestClient) -> None:
    for name in ("yasqe.min.js", "yasqe.min.css", "editor.js", "editor.css", "compare.css", "narrow.js"):
        assert client.get(f"/static/{name}").status_code == 200
    assert "MIT" in client.get("/static/yasqe-LICENSE.txt").text


# --- what is done from a page


def _forms(page: str) -> set[str]:
    return {attributes["action"] or "" for tag, attributes in _Markup(page).tags if tag == "form"}


def test_a_turn_is_forked_tagged_noted_and_scored_by_forms(client: TestClient, store: trails.Repository) -> None:
    assert {"/actions/fork", "/actions/tag", "/actions/note", "/actions/score"} <= _forms(
        client.get("/actions", params={"id": "plan", "turn": "0"}).text
    )
    target = {"session": "plan", "turn": "0"}
    for name, fields in (
        ("tag", {"name": "begin"}),
        ("note", {"text": HOSTILE}),
        ("score", {"name": "clear", "value": "0.5", "reason": "short"}),
    ):
        answer = client.post(f"/actions/{name}", data=target | fields, follow_redirects=False)
        assert answer.status_code == 303, answer.text
        assert answer.headers["location"] == "/session?id=plan&turn=0#turn-0"
    forked = client.post("/actions/fork", data=target | {"label": "anew"}, follow_redirects=False)
    fork = store.load("anew")
    assert forked.headers["location"] == f"/session?id={fork.id.replace('~', '%7E')}".replace("%7E", "~")
    assert (fork.parent_session_id, fork.forked_at_index, len(fork)) == ("plan", 1, 1)
    assert (store.tags.get("begin").session_id, store.tags.get("begin").length) == ("plan", 1)
    assert [note.text for note in store.notes.list("plan", 0)] == [HOSTILE]
    assert [(score.name, score.value, score.reason) for score in store.scores(("plan", 0))] == [("clear", 0.5, "short")]
    _assert_inert(client.get("/session", params={"id": "plan"}).text)


def test_a_session_is_labelled_forked_tagged_and_scored_by_forms(client: TestClient, store: trails.Repository) -> None:
    with store.session("odd/id?x=1&y#3") as odd:
        odd.append("user", "Go")
    target = {"session": odd.id}
    for name, fields in (
        ("label", {"label": "an odd one"}),
        ("tag", {"name": "v1"}),
        ("score", {"name": "ok", "value": "true"}),
        ("fork", {}),
    ):
        answer = client.post(f"/actions/{name}", data=target | fields, follow_redirects=False)
        assert answer.status_code == 303, (name, answer.text)
    assert store.record(odd.id).label == "an odd one"
    assert store.tags.get("v1").length == 1
    assert [score.value for score in store.scores(odd.id)] == [True]
    assert len(store.branches(odd.id)) == 1
    client.post("/actions/label", data=target | {"label": ""})
    assert store.record(odd.id).label is None


def test_what_a_form_lacks_is_told_and_nothing_is_done(client: TestClient, store: trails.Repository) -> None:
    lines = len(store.store.log.lines())
    for name, fields in (
        ("note", {"session": "plan", "turn": "0", "text": "  "}),
        ("note", {"session": "plan", "text": "no turn"}),
        ("note", {"session": "plan", "turn": "99", "text": "no such turn"}),
        ("tag", {"session": "plan", "turn": "x", "name": "t"}),
        ("score", {"session": "plan", "name": "a", "value": ""}),
        ("fork", {"turn": "0"}),
        ("fork", {"session": HOSTILE}),
        ("fork", {"session": "plan", "turn": "99"}),
    ):
        answer = client.post(f"/actions/{name}", data=fields)
        assert 400 <= answer.status_code < 500, (name, fields)
        _assert_inert(answer.text)
        part = client.post(f"/actions/{name}", data=fields, headers={"HX-Request": "true"})
        assert part.status_code == answer.status_code
        assert 'role="alert"' in part.text
        _assert_inert(part.text)
    assert len(store.store.log.lines()) == lines


def test_a_script_gets_what_was_done_as_a_part_of_the_page(client: TestClient) -> None:
    data = {"session": "plan", "turn": "0", "text": "<b>note</b>"}
    part = client.post("/actions/note", data=data, headers={"HX-Request": "true"})
    assert part.status_code == 200
    assert "<html" not in part.text
    assert "the note is on record" in part.text


def test_a_redaction_says_what_it_takes_and_is_done_once_it_is_confirmed(
    client: TestClient, store: trails.Repository
) -> None:
    with store.session("plan") as plan:
        plan.append("user", HOSTILE)
    fork = store.load("plan").fork(id="heir")
    fork.persist()
    store.notes.add("plan", 2, "about it", by="bob")
    page = client.get("/actions/redact", params={"id": "plan", "turn": "2"})
    assert "1 other session" in _Markup(page.text).text
    assert "heir" in page.text
    _assert_inert(page.text)
    target = {"session": "plan", "turn": "2", "reason": "asked for"}
    for confirm in ({}, {"confirm": store.load("plan")[1].digest}):
        assert client.post("/actions/redact", data=target | confirm).status_code >= 400
        assert not store.load("plan")[2].redacted
    done = client.post("/actions/redact", data=target | {"confirm": store.load("plan")[2].digest})
    assert done.status_code == 200
    assert store.load("plan")[2].redacted
    assert store.load("heir")[2].redacted
    assert not store.load("plan")[1].redacted
    assert store.notes.list("plan", 2)[0].id in done.text
    assert "alert(1)" not in client.get("/session", params={"id": "plan"}).text


def test_nothing_is_done_by_a_link_or_by_a_form_of_another_site(client: TestClient, store: trails.Repository) -> None:
    lines = len(store.store.log.lines())
    target = {"session": "plan", "turn": "0", "label": "x", "name": "x", "text": "x", "value": "1", "confirm": ""}
    for name in ("fork", "label", "tag", "note", "score", "redact"):
        client.get(f"/actions/{name}", params=target)
        answer = client.post(f"/actions/{name}", data=target, headers={"Origin": "https://elsewhere.example"})
        assert answer.status_code == 403, name
    assert len(store.store.log.lines()) == lines
    assert not store.load("plan")[0].redacted


# --- what others may see and do


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[trails.Repository, dict[str, TestClient]]]:
    """A store of ann's and ben's sessions, and a client for each role."""
    with trails.open(tmp_path / "store", create=True) as store:
        for principal in ("ann", "ben"):
            session = store.create(id=f"of-{principal}", principal=principal)
            session.append("user", f"secret of {principal}")
            session.fork(id=f"fork-{principal}").persist()
            store.score(session.id, f"score-{principal}", 1, by=principal)
        kept = TokenFile(tmp_path / "store" / tokens.NAME)
        secrets = {
            "reader": kept.make("reader", "ann", "reader")[1],
            "writer": kept.make("writer", "ann", "writer")[1],
            "auditor": kept.make("auditor", "eve", "auditor")[1],
        }
        app = create_app(store)
        clients = {
            name: TestClient(app, base_url="http://localhost", headers={"Authorization": f"Bearer {secret}"})
            for name, secret in secrets.items()
        }
        yield store, clients


def test_a_reader_finds_nothing_of_others_on_any_page(
    served: tuple[trails.Repository, dict[str, TestClient]],
) -> None:
    reader = served[1]["reader"]
    for path in (
        "/compare", "/compare?left=of-ann&right=of-ben", "/compare?of=of-ann&of=fork-ann&of=of-ben", "/scores",
        "/scores?format=csv", "/scores?of=of-ben", "/branches?of=of-ben", "/audit", "/audit/verify",
        "/audit/verify?session=of-ben",
        "/audit/questions/transcript?session=of-ben", "/audit/questions/forest?ask=1", "/audit/questions/scores?ask=1",
        "/actions?id=of-ben", "/sparql-editor",
    ):  # fmt: skip
        page = reader.get(path)
        assert page.status_code < 500, path
        for secret in ("secret of ben", "fork-ben", "score-ben"):
            assert secret not in page.text, (path, secret)
        if "of-ben" not in path:
            assert page.status_code == 200, path
            assert "of-ben" not in page.text, path
    assert "score-ann" in reader.get("/scores").text


def test_only_whoever_sees_all_gets_an_audit_or_a_pack(
    served: tuple[trails.Repository, dict[str, TestClient]],
) -> None:
    clients = served[1]
    for name in ("reader", "writer"):
        assert clients[name].post("/audit/report", data={"session": "of-ann", "output": "pack"}).status_code == 403
        assert "Evidence pack" not in clients[name].get("/audit").text
    pack = clients["auditor"].post("/audit/report", data={"session": "", "output": "pack"})
    assert pack.headers["content-type"] == "application/zip"
    assert "Evidence pack" in clients["auditor"].get("/audit").text


def test_each_role_does_what_it_may_and_to_nothing_else(
    served: tuple[trails.Repository, dict[str, TestClient]],
) -> None:
    store, clients = served
    lines = len(store.store.log.lines())
    own, other = {"session": "of-ann", "turn": "0"}, {"session": "of-ben", "turn": "0"}
    fields = {"name": "x", "text": "x", "value": "1", "label": "x"}
    for act in ("fork", "label", "tag", "note", "score"):
        for name in ("reader", "auditor"):
            assert clients[name].post(f"/actions/{act}", data=own | fields).status_code == 403, (act, name)
        assert clients["writer"].post(f"/actions/{act}", data=other | fields).status_code == 404, act
    confirm = {"confirm": store.load("of-ann")[0].digest}
    for name in ("reader", "auditor", "writer"):
        assert clients[name].post("/actions/redact", data=own | confirm).status_code == 403
    assert len(store.store.log.lines()) == lines
    assert clients["writer"].post("/actions/note", data=own | fields, follow_redirects=False).status_code == 303
    assert [note.author for note in store.notes.list("of-ann")] == ["ann"]


def test_a_fork_point_and_a_session_lead_to_comparisons(client: TestClient) -> None:
    page = client.get("/session", params={"id": "plan"})
    links = {attributes.get("href") for tag, attributes in _Markup(page.text).tags if tag == "a"}
    assert {"/branches?of=plan&at=1", "/branches?of=plan", "/audit/verify?session=plan"} <= links
    assert "3 branches" in client.get("/branches?of=plan&at=1").text
    page = client.get("/session", params={"id": "bus"})
    assert "/compare?left=plan&right=bus" in unescape(page.text)
