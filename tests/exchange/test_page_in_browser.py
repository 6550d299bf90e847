"""The HTML page of sessions in a headless Chromium: with its script and without, by keys, in light and dark."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.browser import Browser, browsing
from tests.support.hostile_markdown import HOSTILE_MARKDOWN
from tests.support.pages import HOSTILE, grown
from trails import Repository
from trails.exchange.exporters.html_folder import export_pages
from trails.exchange.file_import import export_session

PIXEL = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=")
LARGE_PNG = base64.b64encode(PIXEL + b"\0" * (1 << 20)).decode()
"""A picture of one pixel that is too large to stand within a page."""
SHOWN = "[...document.querySelectorAll('main li[id]')].filter(a => a.checkVisibility()).map(a => a.id)"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browsing(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


def written(store: Repository, folder: Path) -> Path:
    file = folder / "page.html"
    with file.open("wb") as out:
        export_session(store, "plan", "html", out, forks=True)
    return file


def test_a_link_to_a_session_shows_it_from_its_first_turn_and_nothing_else(
    memory: Repository, browser: Browser, tmp_path: Path
) -> None:
    grown(memory)
    browser.open(written(memory, tmp_path), part="#b2")
    assert browser.ask(SHOWN) == ["b0-0", "b2-1"]
    forks = "[...document.querySelectorAll('main .k')].filter(e => e.offsetParent).map(e => e.closest('li').id)"
    assert browser.ask(forks) == ["b0-0"]
    browser.ask("document.getElementById('all').click()")
    assert browser.ask(forks) == ["b0-0", "b0-1"]
    assert browser.ask(SHOWN) == ["b0-0", "b0-1", "b0-2", "b1-2", "b2-1"]
    followed = f"new Promise(done => addEventListener('hashchange', () => done({SHOWN})))"
    click = "document.querySelector('nav a[href=\"#b1\"]').click()"
    assert browser.ask(f"(() => {{ const seen = {followed}; {click}; return seen; }})()") == ["b0-0", "b0-1", "b1-2"]


def test_two_sessions_are_compared_from_where_they_part(memory: Repository, browser: Browser, tmp_path: Path) -> None:
    plan = memory.create(id="plan")
    for role, text in (("user", "go"), ("assistant", "by the fast train"), ("user", "yes"), ("tool", "only here")):
        plan.append(role, text)
    plan.persist()
    other = plan.fork(at=1, id="other")
    for role, text in (("assistant", "by the slow train"), ("user", "yes")):
        other.append(role, text)
    other.persist()
    browser.open(written(memory, tmp_path))
    browser.ask("document.getElementById('compare').click()")
    assert browser.ask("document.querySelector('#diff p').textContent") == "1 turn in common, then:"
    row = "r => [r.dataset.kind || '', r.textContent.replace(/\\s+/g, ' ')]"
    rows = f"[...document.querySelectorAll('#diff > div > *')].map({row})"
    assert browser.ask(rows) == [
        ["changed", "1 assistant by the fast train1 assistant by the slow train"],
        ["", "1 equal"],
        ["left", "3 tool only here"],
    ]
    marked = "['del', 'ins'].map(n => [...document.querySelectorAll('#diff ' + n)].map(e => e.textContent))"
    assert browser.ask(marked) == [["fast"], ["slow"]]


def test_a_long_comparison_begins_at_once_and_goes_on_while_the_page_answers(
    memory: Repository, browser: Browser, tmp_path: Path
) -> None:
    plan = memory.create(id="plan")
    for number in range(60):
        plan.append("user", f"left {number}")
    plan.persist()
    for name in ("other", "third"):
        fork = plan.fork(at=0, id=name)
        for number in range(50):
            fork.append("user", f"{name} {number}")
        fork.persist()
    browser.open(written(memory, tmp_path))
    rows = "document.querySelectorAll('#diff > div > *').length"
    busy = "document.querySelector('#diff > div').ariaBusy"
    compare = "document.getElementById('compare').click()"
    begun, told = browser.ask(f"(() => {{ {compare}; return [{rows}, {busy}]; }})()")
    assert (0 < begun <= 20, told) == (True, "true")
    wait = f"while ({busy} === 'true') await new Promise(done => setTimeout(done, 5))"
    assert browser.ask(f"(async () => {{ {wait}; return {rows}; }})()") == 60
    third = f"{compare}; document.getElementById('right').value = 'b2'; {compare}"  # the first of both ends
    said = "[...document.querySelectorAll('#diff ins')].map(e => e.textContent.split(' ')[0])"
    assert browser.ask(f"(async () => {{ {third}; {wait}; return {said}; }})()") == ["third"] * 50


def test_a_search_lists_the_turns_that_say_it_in_any_case(memory: Repository, browser: Browser, tmp_path: Path) -> None:
    session = memory.create(id="plan")
    for text in ("a Train", "a bus", "trains <b>"):
        session.append("user", text)
    session.persist()
    browser.open(written(memory, tmp_path))
    browser.press("/", *"train")
    assert browser.ask("document.getElementById('count').textContent") == "2 turns"
    assert browser.ask("[...document.querySelectorAll('#found a')].map(a => a.hash)") == ["#b0-0", "#b0-2"]
    assert browser.ask("[...document.querySelectorAll('#found mark')].map(a => a.textContent)") == ["Train", "train"]
    browser.press("Escape")
    assert browser.ask("document.getElementById('found').hidden") is True


def test_keys_walk_through_turns_and_sessions(memory: Repository, browser: Browser, tmp_path: Path) -> None:
    grown(memory)
    browser.open(written(memory, tmp_path))
    on = "document.querySelector('li.on').id"
    browser.press("j", "j", "j", "k")
    assert browser.ask(on) == "b0-1"
    browser.press("n", "n")
    assert browser.ask(SHOWN) == ["b0-0", "b0-1", "b1-2"]
    browser.press("a")
    assert len(browser.ask(SHOWN)) == 5
    browser.press("?")
    assert browser.ask("document.getElementById('help').open") is True


def test_hostile_texts_run_nothing_fetch_nothing_and_are_shown_as_they_are(
    memory: Repository, browser: Browser, tmp_path: Path
) -> None:
    session = memory.create(id="plan", label=HOSTILE[0], meta={"x": HOSTILE[1]})
    for text in HOSTILE:
        session.append("user", text)
    session.persist()
    fork = session.fork(at=1, id=HOSTILE[4].replace("\u202e", "").replace("\u2066", "").replace(" ", "-"))
    for text in reversed(HOSTILE):
        fork.append("user", text)
    fork.persist()
    page = written(memory, tmp_path)
    browser.open(page)
    browser.ask("document.getElementById('compare').click()")
    browser.press("/", *"<img")
    assert browser.ask("document.querySelectorAll('#found li').length") == 2
    assert browser.ask("document.querySelectorAll('img, li h1').length") == 0
    assert str(browser.ask("document.title")).startswith("</script><script>")
    said = browser.ask("[...document.querySelectorAll('#b0 li[id] p')].map(p => p.textContent)")
    assert (said[:4], said[6]) == ([*HOSTILE[:4]], HOSTILE[6])
    assert browser.requests() == [page.as_uri()]
    assert browser.complaints() == []


def test_no_hostile_markdown_runs_fetches_restyles_or_leaves_its_turn(
    memory: Repository, browser: Browser, tmp_path: Path
) -> None:
    session = memory.create(id="plan")
    for text in HOSTILE_MARKDOWN:
        session.append("assistant", text)
    session.append("assistant", "the end")
    session.persist()
    trap = browser.call(
        "Page.addScriptToEvaluateOnNewDocument", source="globalThis.owned = () => { globalThis.isOwned = true; };"
    )
    page = written(memory, tmp_path)
    try:
        browser.open(page)
        browser.ask("document.querySelectorAll('details').forEach(e => { e.open = true; })")
    finally:
        browser.call("Page.removeScriptToEvaluateOnNewDocument", identifier=trap["identifier"])
    assert browser.ask("globalThis.isOwned === undefined") is True
    assert browser.requests() == [page.as_uri()]
    assert browser.complaints() == []
    assert browser.ask("document.querySelectorAll('#b0 > ol > li').length") == len(HOSTILE_MARKDOWN) + 1
    assert browser.ask("document.querySelector('#b0 > ol > li:last-child > p').textContent") == "the end"
    within = "document.querySelectorAll('#b0 .M :is(img,script,style,iframe,svg,form,input,object,embed,[style],[id]), #b0 h1')"
    assert browser.ask(f"{within}.length") == 0
    shown = "[...document.querySelectorAll('#b0 .M')].every(e => e.closest('li').checkVisibility())"
    assert browser.ask(shown) is True


def test_a_folder_of_pages_is_read_from_the_disk_by_its_links_alone(
    memory: Repository, browser: Browser, tmp_path: Path
) -> None:
    grown(memory)
    plan = memory.load("plan")
    plan.append("user", [{"type": "image", "source": {"media_type": "image/png", "data": LARGE_PNG}}])
    plan.persist()
    export_pages(memory, tmp_path / "pages")
    for script in (True, False):
        browser.open(tmp_path / "pages" / "index.html", script=script)
        assert browser.ask("getComputedStyle(document.querySelector('header')).borderBottomStyle") == "solid"
        for link, title in (
            ("td a", "a"),
            ("section .k a", "fork at 2 of a"),
            ("section a[href*=plan]", "a"),
            ("header a", "Sessions"),
        ):
            address = browser.ask(f"document.querySelector('{link}').href")
            browser.visit(address)
            assert browser.ask("document.title") == title
            seen = "for (const each of document.images) { each.loading = 'eager'; await each.decode(); }"
            assert browser.ask(f"(async () => {{ {seen} return document.images.length; }})()") == (title == "a")
            assert all(each.startswith((tmp_path / "pages").as_uri()) for each in browser.requests())
            assert browser.complaints() == []


def test_on_paper_all_that_is_folded_is_there_and_the_tools_are_not(
    memory: Repository, browser: Browser, tmp_path: Path
) -> None:
    session = memory.create(id="plan")
    session.append("tool", "\n".join(f"line {number}" for number in range(40)))
    session.persist()
    browser.open(written(memory, tmp_path), script=False)
    shown = "document.querySelector('li details > p').checkVisibility()"
    assert browser.ask(shown) is False
    browser.call("Emulation.setEmulatedMedia", media="print")
    try:
        assert browser.ask(shown) is True
        assert browser.ask("getComputedStyle(document.getElementById('tools')).display") == "none"
        assert browser.ask("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    finally:
        browser.call("Emulation.setEmulatedMedia", media="")


def test_a_script_that_got_into_the_page_would_not_run(memory: Repository, browser: Browser, tmp_path: Path) -> None:
    grown(memory)
    page = written(memory, tmp_path)
    planted = (
        "<script>document.title='owned'</script><img src='https://evil.example/x' onerror=\"document.title='owned'\">"
    )
    page.write_text(page.read_text().replace("<main>", f"<main>{planted}"))
    browser.open(page)
    assert browser.ask("document.title") == "a"
    assert [address for address in browser.requests() if "evil" in address] == []
    assert len(browser.complaints()) >= 2  # the policy is what kept it


def test_without_its_script_all_turns_are_there_to_read(memory: Repository, browser: Browser, tmp_path: Path) -> None:
    grown(memory)
    browser.open(written(memory, tmp_path), script=False)
    assert browser.ask(SHOWN) == ["b0-0", "b0-1", "b0-2", "b1-2", "b2-1"]
    assert browser.ask("document.getElementById('tools').checkVisibility()") is False
    assert "need the page's own script" in browser.ask("document.querySelector('header').innerText")


def test_without_its_script_a_fork_says_where_it_differs(memory: Repository, browser: Browser, tmp_path: Path) -> None:
    grown(memory)
    browser.open(written(memory, tmp_path), script=False)
    assert browser.ask("[...document.querySelectorAll('details.v')].map(e => e.parentElement.id)") == ["b1", "b2"]
    rows = "[...document.querySelectorAll('#b1 .v > div')]"
    assert browser.ask(f"{rows}.filter(e => e.checkVisibility()).length") == 0
    browser.ask("document.querySelectorAll('details.v').forEach(e => { e.open = true; })")
    # Chromium lays a section out once it is about to be seen (content-visibility); until then it has no innerText.
    browser.ask("document.querySelectorAll('section').forEach(e => { e.style.contentVisibility = 'visible'; })")
    assert browser.ask(f"{rows}.filter(e => e.checkVisibility()).map(e => e.innerText.replace(/\\s+/g, ' '))") == [
        "2 user c",
        "2 assistant x",
    ]
    assert browser.ask("[...document.querySelectorAll('#b1 .v a')].map(a => a.hash)") == ["#b0-2", "#b1-2"]


COUNTED = """(() => {
  document.querySelectorAll('section').forEach(e => { e.style.contentVisibility = 'visible'; });
  document.querySelectorAll('details').forEach(e => { e.open = true; });
  const longest = block => {
    const lines = new Map(), range = document.createRange();
    const texts = document.createTreeWalker(block, NodeFilter.SHOW_TEXT);
    for (let text; text = texts.nextNode();) for (let at = 0; at < text.length; at += 1) {
      range.setStart(text, at); range.setEnd(text, at + 1);
      const box = range.getClientRects()[0];
      if (box && box.width) lines.set(Math.round(box.top / 6), (lines.get(Math.round(box.top / 6)) || 0) + 1);
    }
    return Math.max(0, ...lines.values());
  };
  return [...document.querySelectorAll('section .M > p, section .M li, section .M code, section p')].map(longest);
})()"""
"""The characters of the longest line of each text."""


@pytest.mark.parametrize("width", [390, 1440])
def test_no_line_has_more_than_eighty_characters_and_only_tables_scroll(
    memory: Repository, browser: Browser, tmp_path: Path, width: int
) -> None:
    prose = "It is the shared prefix of the fork that the digests of its own turns stand for, in order. " * 5
    session = memory.create(id="plan", label="A label that is not short, and goes on and on, to its very end")
    session.append("user", prose)
    session.append("assistant", f"**{prose.strip()}**\n\n- {prose}\n\n```python\n{'x = ' + '1 + ' * 60}1\n```")
    session.append(
        "assistant",
        [{"type": "thinking", "thinking": prose}, {"type": "text", "text": "|column" * 20 + "|\n" + "|-" * 20 + "|\n"}],
    )
    session.append(
        "assistant", "", tool_calls=[{"id": "1", "name": "run", "arguments": {"command": prose, "why": "w" * 200}}]
    )
    session.append("tool", "y" * 900)
    session.append("tool", "z" * 3000)
    session.persist()
    browser.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
    try:
        browser.open(written(memory, tmp_path))
        counted = browser.ask(COUNTED)
        assert len(counted) >= 10
        assert max(counted) <= 80
        assert width == 390 or max(counted) >= 75  # and lines are not kept short for nothing
        assert browser.ask("document.documentElement.scrollWidth") == width
        table = "document.querySelector('.M .w')"
        assert browser.ask(f"{table}.scrollWidth > {table}.clientWidth") is True
        assert "linear-gradient" in browser.ask(
            f"getComputedStyle({table}).backgroundImage"
        )  # shades say that there is more
        assert browser.ask(f"{table}.tabIndex") == 0
    finally:
        browser.call("Emulation.clearDeviceMetricsOverride")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_texts_stand_out_from_what_is_behind_them(
    memory: Repository, browser: Browser, tmp_path: Path, scheme: str
) -> None:
    plan = memory.create(id="plan", label="trip", meta={"a": 1}, system="*Be* brief")
    plan.append("user", "# a\n\n*b* `c` [d](https://a.example)\n\n> e\n\n|f|\n|-|\n|g|")
    code = "```python\n# a\ndef b(): return 'c' + 1\n```\n\n```diff\n-a\n+b\n```"
    plan.append("assistant", [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": code}])
    plan.append("assistant", "", tool_calls=[{"id": "1", "name": "run", "arguments": {"a": "b" * 100}}])
    plan.append("tool", "x\n" * 20)
    plan.append("summary", "all")
    plan.append("else", "what")
    plan.persist()
    plan.fork(at=1, id="other", label="two").persist()
    memory.notes.add("plan", 0, "a note")
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    browser.open(written(memory, tmp_path))
    browser.ask("document.querySelectorAll('section').forEach(e => { e.style.contentVisibility = 'visible'; })")
    browser.ask("document.querySelectorAll('details').forEach(e => { e.open = true; })")
    pairs = browser.ask(
        """(() => {
      const behind = e => { for (; e; e = e.parentElement) {
        const colour = getComputedStyle(e).backgroundColor; if (!colour.startsWith('rgba')) return colour; } };
      const texts = [...document.querySelectorAll('body *')].filter(e => e.checkVisibility()
        && [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()));
      return texts.map(e => [`${e.tagName}.${e.className}`, getComputedStyle(e).color, behind(e)]);
    })()"""
    )
    assert len({(ink, paper) for _, ink, paper in pairs}) >= 10
    assert [pair for pair in pairs if contrast(pair[1], pair[2]) < 4.5] == []  # WCAG 2.1, 1.4.3


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_stand_out_from_the_paper_in_light_and_dark(
    memory: Repository, browser: Browser, tmp_path: Path, scheme: str
) -> None:
    grown(memory)
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    browser.open(written(memory, tmp_path))
    seen = "['h1', 'main li', 'main li > a', 'nav a', 'small', 'li > p']"
    colours = f"[getComputedStyle(document.body).backgroundColor, ...{seen}.map(s => "
    paper, *inks = browser.ask(colours + "getComputedStyle(document.querySelector(s)).color)]")
    assert all(contrast(ink, paper) >= 4.5 for ink in inks), (paper, inks)  # WCAG 2.1, 1.4.3
    assert (luminance(paper) > 0.5) is (scheme == "light")


@pytest.mark.slow
def test_a_narrow_page_is_never_wider_than_its_window(memory: Repository, browser: Browser, tmp_path: Path) -> None:
    session = memory.create(id="plan", label="l" * 64)
    session.append("user", "w" * 5000)
    session.append("user", "v" * 500)
    session.persist()
    session.fork(id="f" * 100).persist()
    browser.call("Emulation.setDeviceMetricsOverride", width=360, height=700, deviceScaleFactor=1, mobile=False)
    try:
        browser.open(written(memory, tmp_path))
        assert browser.ask("document.documentElement.scrollWidth") <= 360
        cut = "[...document.querySelectorAll('li, li > p, h2, a')].filter(e => e.scrollWidth > e.clientWidth && e.clientWidth)"
        assert browser.ask(f"{cut}.map(e => e.tagName)") == []
    finally:
        browser.call("Emulation.clearDeviceMetricsOverride")


@pytest.mark.slow
def test_five_hundred_branches_are_searched_compared_and_read_one_by_one(
    memory: Repository, browser: Browser, tmp_path: Path
) -> None:
    plan = memory.create(id="plan")
    for number in range(10):
        plan.append("user", f"shared {number}")
    plan.persist()
    for number in range(500):
        fork = plan.fork(at=5, id=f"f{number:03}")
        fork.append("assistant", f"answer {number} of many")
        fork.persist()
    browser.open(written(memory, tmp_path), part="#b500")
    assert browser.ask(SHOWN) == [*(f"b0-{index}" for index in range(5)), "b500-5"]
    browser.press("/", *"answer 49")
    assert browser.ask("document.getElementById('count').textContent") == "11 turns"  # 49, and 490 to 499
    browser.ask("document.getElementById('left').value = 'b499'; document.getElementById('right').value = 'b500'")
    browser.ask("document.getElementById('compare').click()")
    marked = "['del', 'ins'].map(n => [...document.querySelectorAll('#diff ' + n)].map(e => e.textContent))"
    assert browser.ask(marked) == [["498"], ["499"]]


@pytest.mark.slow
def test_long_branches_are_aligned_by_what_they_say_once(memory: Repository, browser: Browser, tmp_path: Path) -> None:
    plan = memory.create(id="plan")
    for number in range(2100):
        plan.append("user", f"t{number}")
    plan.persist()
    other = plan.fork(at=0, id="other")
    for number in range(2100):
        other.append("user", "changed" if number in (0, 2099) else f"t{number}")
        if number == 1000:
            other.append("tool", "put in")
    other.persist()
    browser.open(written(memory, tmp_path))
    browser.ask("document.getElementById('compare').click()")
    rows = "[...document.querySelectorAll('#diff > div > *')].map(r => r.dataset.kind || r.textContent)"
    assert browser.ask(rows) == ["changed", "1000 equal", "right", "1098 equal", "changed"]


def luminance(colour: str) -> float:
    """The relative luminance of `rgb(r, g, b)`, as WCAG 2.1 defines it."""
    parts = [int(part) / 255 for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)
