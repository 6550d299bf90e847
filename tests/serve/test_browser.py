"""The console in a real browser: the main job of each page."""

from __future__ import annotations

import pytest

pytest.importorskip("starlette")
pytest.importorskip("playwright")

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect, sync_playwright

import trails
from tests.support import browser as chromium

_FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
pytestmark = [pytest.mark.any_store, pytest.mark.slow]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    program = chromium.program()
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=list(_FLAGS))
        yield started
        started.close()


@pytest.fixture
def store() -> Iterator[trails.Repository]:
    with trails.open(":memory:") as store:
        yield store


@pytest.fixture
def page(browser: Any, store: trails.Repository) -> Iterator[Page]:
    """A page signed in to the console of the store, which complains of nothing in the end."""
    console = store.ui()
    context = browser.new_context(base_url=console.address, viewport={"width": 1280, "height": 800})
    page = context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    page.goto(console.link)
    page.wait_for_selector("main h1")
    yield page
    context.close()
    assert not complaints


def add(store: trails.Repository, session_id: str, *texts: str, **options: Any) -> None:
    session = store.create(id=session_id, **options)
    for number, text in enumerate(texts):
        session.append("assistant" if number % 2 else "user", text)
    session.persist()


def test_sessions_are_found_as_one_types_and_rows_stay_live(page: Page, store: trails.Repository) -> None:
    add(store, "wien", "Nach Wien", principal="alice")
    add(store, "prag", "Nach Prag", principal="bob")
    page.goto("/")
    expect(page.locator("tbody tr")).to_have_count(2)
    page.keyboard.press("/")
    page.keyboard.type("prag")
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page).to_have_url(re.compile("text=prag"))
    add(store, "prag-2", "Nach Prag und zurück")
    expect(page.locator("tbody tr")).to_have_count(2, timeout=10_000)
    page.reload()
    expect(page.locator("tbody tr")).to_have_count(2)


def test_sessions_chosen_in_the_list_are_compared_though_a_filter_hides_one(
    page: Page, store: trails.Repository
) -> None:
    add(store, "wien", "Nach Wien")
    add(store, "prag", "Nach Prag")
    page.goto("/")
    page.get_by_label("Choose Nach Wien").check()
    page.get_by_label("Name, prompt or id").fill("prag")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_label("Choose Nach Prag").check()
    page.get_by_label("Name, prompt or id").fill("")
    expect(page.get_by_label("Choose Nach Wien")).to_be_checked()
    page.get_by_label("Name, prompt or id").fill("prag")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_role("button", name="Compare chosen").click()
    expect(page).to_have_url(re.compile(r"/compare\?of=wien&of=prag$"))
    expect(page.locator("main")).to_contain_text("Wien")


def test_a_long_transcript_begins_with_its_last_part_and_fetches_the_rest_as_one_scrolls(
    page: Page, store: trails.Repository
) -> None:
    add(store, "long", *(f"Say {number}. {'words ' * 60}" for number in range(130)))
    page.goto("/session?id=long")
    expect(page.locator(".turn")).to_have_count(40)
    expect(page.locator("#turn-129")).to_be_attached()
    page.locator("#turn-100").scroll_into_view_if_needed()
    page.mouse.move(400, 400)
    for _ in range(60):
        page.mouse.wheel(0, -900)
        page.wait_for_timeout(30)
        if page.locator("#turn-60").count():
            break
    expect(page.locator("#turn-60")).to_be_attached()
    page.goto("/session?id=long&turn=20#turn-20")
    expect(page.locator("#turn-20")).to_be_in_viewport()
    page.locator("#turn-49").scroll_into_view_if_needed()
    page.mouse.wheel(0, 9000)
    expect(page.locator("#turn-80")).to_be_attached()


def test_new_turns_come_as_the_agent_works(page: Page, store: trails.Repository) -> None:
    add(store, "plan", "Plan a trip")
    page.goto("/session?id=plan")
    session = store.load("plan")
    session.append("assistant", "Where to?")
    session.persist()
    expect(page.locator("#turn-1")).to_contain_text("Where to?", timeout=10_000)
    session.append("user", "To Zell")
    session.persist()
    expect(page.locator("#turn-2")).to_contain_text("To Zell", timeout=10_000)


def test_calls_are_folded_until_they_are_opened(page: Page, store: trails.Repository) -> None:
    session = store.create(id="calls")
    call = {"type": "tool_use", "id": "c", "name": "find_trains", "input": {"to": "Zell am See"}}
    session.append("assistant", [{"type": "text", "text": "I look."}, call], model="m-1")
    session.persist()
    page.goto("/session?id=calls")
    inside = page.locator("details.call pre")
    expect(inside).to_be_hidden()
    page.locator("details.call summary").focus()
    page.keyboard.press("Enter")
    expect(inside).to_be_visible()
    page.get_by_role("link", name="Provenance").click()
    expect(page.locator(".picture svg")).to_be_visible()
    expect(page.locator(".picture")).to_contain_text("find_trains")


def test_what_a_compaction_dropped_is_shown_when_asked_for(page: Page, store: trails.Repository) -> None:
    add(store, "plan", "Plan a trip", "Where to?", "To Zell", "By train?")
    store.load("plan").compact(lambda _: "A trip to Zell.", keep_turns=1)
    page.goto("/session?id=plan")
    page.get_by_text("What it dropped").click()
    expect(page.locator(".dropped")).to_contain_text("Plan a trip")


def test_the_forest_draws_what_is_in_view_and_goes_where_the_keys_say(page: Page, store: trails.Repository) -> None:
    root = store.create(id="root")
    root.append("user", "Go")
    root.persist()
    with store.commit():
        for number in range(300):
            fork = root.fork(at=1, id=f"fork-{number:03}")
            fork.append("user", "On")
            fork.persist()
    page.goto("/forest")
    forest = page.locator("#forest")
    expect(forest.locator("a")).not_to_have_count(0)
    assert forest.locator("a").count() < 60
    page.get_by_label("Find a session").fill("fork-250")
    expect(page.locator("#forest-told")).to_contain_text("fork-250")
    expect(forest.locator("a.chosen")).to_be_in_viewport()
    page.get_by_role("button", name="Fit all").click()
    expect(forest.locator("a")).to_have_count(0)
    assert forest.get_attribute("data-drawn") == "301"
    forest.focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowDown")
    expect(page.locator("#forest-told")).to_contain_text("fork-")
    page.keyboard.press("Enter")
    page.wait_for_url("**/session?id=fork-*")


def test_pages_work_on_a_phone_without_sideways_scrolling(browser: Any, store: trails.Repository) -> None:
    add(store, "plan", "Plan a trip " + "x" * 300, "Where to?", label="A label of some length, as people give them")
    console = store.ui()
    context = browser.new_context(base_url=console.address, viewport={"width": 390, "height": 844})
    page = context.new_page()
    page.goto(console.link)
    page.wait_for_selector("main h1")
    for address in ("/", "/session?id=plan", "/turn?id=plan&turn=0", "/forest", "/forest?as=list", "/search?text=trip"):
        page.goto(address)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, address
    context.close()


def test_the_first_stop_of_the_keyboard_skips_to_the_content(page: Page) -> None:
    page.goto("/")
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()


def test_hostile_texts_run_nothing(page: Page, store: trails.Repository, tmp_path: Path) -> None:
    hostile = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
    add(store, "h", hostile, hostile, label="<svg onload=alert(1)>")
    for address in ("/", "/session?id=h", "/turn?id=h&turn=0", "/search?text=onerror", "/forest"):
        page.goto(address)
        page.wait_for_timeout(200)
        assert "owned" not in page.title()
        assert page.locator("main img").count() == 0
