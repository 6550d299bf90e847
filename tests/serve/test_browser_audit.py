"""The main job of each page of comparisons, scores, the audit and the editor, in a real browser."""

from __future__ import annotations

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("playwright")

import shutil
import threading
import time
from collections.abc import Iterator
from typing import Any

import uvicorn
from playwright import sync_api

import trails
from tests.support.browser import NAMES, program
from trails.serve.app import create_app

HOSTILE = '<script>document.title = "broken"</script><img src=x onerror="document.title=1">'
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def store() -> Iterator[trails.Repository]:
    with trails.open(":memory:") as store:
        plan = store.create(id="plan", label="the trip")
        plan.append("user", "Plan a trip to Bern")
        plan.append("assistant", "By train on Friday.")
        plan.persist()
        for number, text in enumerate(("By bus on Friday.", "Stay at home.", HOSTILE)):
            fork = plan.fork(at=1, id=f"try-{number}", meta={"arm": "ab"[number % 2]})
            fork.append("assistant", text)
            fork.persist()
            store.score(fork.id, "quality", number / 2, by="bob", reason=HOSTILE)
        yield store


@pytest.fixture(scope="module")
def address(store: trails.Repository) -> Iterator[str]:
    server = uvicorn.Server(uvicorn.Config(create_app(store), port=0, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    deadline = time.monotonic() + 20
    while not server.started and time.monotonic() < deadline:
        time.sleep(0.02)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(20)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    program()
    path = next(filter(None, map(shutil.which, NAMES)))
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    """A page, on which nothing may go wrong: no error of a script, nothing that the policy had to stop."""
    wrong: list[str] = []
    with browser.new_context(base_url=address) as context:
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda said: wrong.append(said.text) if "Content Security Policy" in said.text else None)
        yield page
    assert wrong == []


def test_two_branches_are_chosen_and_stand_side_by_side(page: Any) -> None:
    page.goto("/compare")
    page.fill("[name=left]", "plan")
    page.fill("[name=right]", "try-0")
    page.press("[name=right]", "Enter")
    assert page.inner_text("del") == "train"
    assert page.inner_text("ins") == "bus"
    left, right = (page.locator(".half").nth(number).bounding_box() for number in (0, 1))
    assert left["y"] == right["y"]
    assert left["x"] < right["x"]
    page.set_viewport_size({"width": 390, "height": 844})
    left, right = (page.locator(".half").nth(number).bounding_box() for number in (0, 1))
    assert left["y"] < right["y"]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_branches_are_chosen_by_their_figures_and_compared(page: Any) -> None:
    page.goto("/branches?of=plan")
    page.select_option("[name=group_by]", "meta.arm")
    page.select_option("[name=plot]", "score.quality")
    page.click("text=Show")
    assert page.locator(".plot tbody th").all_inner_texts() == ["a", "b"]
    for name in ("plan", "try-0", "try-2"):
        page.check(f"[value='{name}'][type=checkbox]")
    page.click("text=Compare those chosen")
    assert page.inner_text("h1") == "3 branches side by side"
    assert HOSTILE in page.inner_text(".many")
    assert page.title() == "3 branches · Trails"


def test_scores_are_drawn_and_their_reasons_stay_texts(page: Any) -> None:
    page.goto("/scores")
    assert page.locator(".plot .mark").count() == 3
    assert HOSTILE in page.inner_text("main")
    with page.expect_download() as csv:
        page.click("text=CSV")
    assert csv.value.suggested_filename == "scores.csv"


def test_a_question_is_found_asked_and_leads_to_a_session(page: Any) -> None:
    page.goto("/audit")
    page.fill(".narrow input", "forks right after")
    assert page.locator(".question:visible").count() == 1
    page.click(".question:visible a")
    page.fill("[name=session]", "the trip")
    page.click("text=Ask")
    assert page.locator("tbody tr").count() == 3
    assert page.locator("tbody a").first.get_attribute("href").startswith("/session?id=")


def test_the_store_is_verified_and_audited(page: Any) -> None:
    page.goto("/audit")
    page.click("text=Verify")
    assert "Nothing is wrong" in page.inner_text("main")
    page.goto("/audit")
    page.click("button:text-is('Audit')")
    words = page.locator(".verdicts strong").all_inner_texts()
    assert words == ["✓ valid", "✗ incomplete", "✓ holds", "✓ none"]  # no model's call is noted of the answers
    with page.expect_download() as pack:
        page.click("text=Evidence pack")
    assert pack.value.suggested_filename == "evidence-pack.zip"


def test_a_query_is_typed_completed_asked_and_its_errors_are_told(page: Any) -> None:
    page.goto("/sparql-editor")
    page.click(".CodeMirror")
    page.keyboard.press("Control+A")
    page.keyboard.type("SELECT ?text { ?turn prov:value ?text ; trails:ind")
    page.keyboard.press("Control+Space")
    page.wait_for_function(
        "document.querySelector('.CodeMirror').CodeMirror.getValue().includes('trails:index') "
        "|| document.querySelector('.CodeMirror-hint')"
    )
    page.keyboard.press("Escape")
    page.keyboard.press("Control+A")
    page.keyboard.type("SELECT ?text { ?turn prov:value ?text ; trails:index 1 }")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#answer table")
    assert page.locator("#answer tbody tr").count() == 4
    assert HOSTILE in page.inner_text("#answer")
    assert page.title() == "SPARQL · Trails"
    assert "query=SELECT" in page.url
    page.keyboard.press("Control+A")
    page.keyboard.type("SELEC")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#answer [role=alert]")
    assert "not valid SPARQL" in page.inner_text("#answer")


def test_a_turn_is_noted_and_redacted_from_its_page(page: Any, store: trails.Repository) -> None:
    with store.session("diary") as diary:
        diary.append("user", "a secret")
    page.goto("/session?id=diary")
    page.click("#turn-0 .act summary")
    note = page.locator("#turn-0 form[action='/actions/note']")
    note.locator("[name=text]").fill(HOSTILE)
    note.locator("button").click()
    page.wait_for_selector("#turn-0 .outcome .good")
    assert [each.text for each in store.notes.list("diary", 0)] == [HOSTILE]
    tag = page.locator("#turn-0 form[action='/actions/tag']")
    tag.locator("[name=name]").fill("plan")
    tag.locator("button").click()
    page.wait_for_selector("#turn-0 .outcome [role=alert]")
    page.click("#turn-0 a.danger")
    page.click("button:text-is('Redact')")
    assert "/actions/redact?" in page.url  # it asks first
    page.check("[name=confirm]")
    page.click("button:text-is('Redact')")
    assert page.inner_text("h1") == "Turn 0 was redacted"
    assert store.load("diary")[0].redacted


def test_a_turn_is_forked_without_any_script(browser: Any, address: str, store: trails.Repository) -> None:
    with browser.new_context(base_url=address, java_script_enabled=False) as context:
        page = context.new_page()
        page.goto("/actions?id=plan&turn=0")
        page.fill("form[action='/actions/fork'] [name=label]", "by hand")
        page.click("button:text-is('Fork')")
        assert page.url.startswith(f"{address}/session?id=")
        assert (store.load("by hand").parent_session_id, len(store.load("by hand"))) == ("plan", 1)
        page.goto("/sparql-editor")
        page.select_option("[name=format]", "csv")
        assert page.is_visible("textarea")
