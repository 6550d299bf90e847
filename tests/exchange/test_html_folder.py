"""All sessions as a folder of pages: an index, a page for each session, links that hold, and nothing replaced."""

from __future__ import annotations

import base64
import hashlib
import re
import string
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
from pyoxigraph import Literal, NamedNode, Quad

import trails
from tests.exchange.test_page import Read
from tests.exchange.test_page_texts import image
from tests.support.commands import Run, ok, ok_json
from tests.support.pages import HOSTILE, grown
from trails import IndexGap, InvalidInput, Repository
from trails.exchange.exporters.html_folder import export_pages, file_name
from trails.rdf import vocab
from trails.store.contract import Change


def links(file: Path) -> list[str]:
    """The addresses that a page has."""
    found: list[str] = []

    class Links(HTMLParser):
        def handle_starttag(self, _: str, attrs: list[tuple[str, str | None]]) -> None:
            found.extend(str(value) for name, value in attrs if name in ("href", "src"))

    Links().feed(file.read_text("utf-8"))
    return found


def check_links(folder: Path) -> None:
    """Each address leads to a file of the folder, and to an element of it."""
    for file in folder.rglob("*.html"):
        for address in links(file):
            path, _, place = address.partition("#")
            there = (file.parent / unquote(path)).resolve() if path else file
            assert there.is_relative_to(folder.resolve())
            assert there.is_file(), address
            if place:
                assert re.search(f'id="?{place}[ >"\n]', there.read_text("utf-8")), (file.name, address)


def page_of(folder: Path, session_id: str) -> str:
    return (folder / "sessions" / file_name(session_id)).read_text("utf-8")


def test_there_is_a_page_for_each_session_and_every_link_leads_to_one(store: Repository, tmp_path: Path) -> None:
    grown(store)
    report = export_pages(store, tmp_path / "pages")
    assert (report.format, report.sessions, report.turns) == ("html", ("plan", "other", "deep"), 5)
    files = sorted(each.relative_to(tmp_path / "pages").as_posix() for each in (tmp_path / "pages").rglob("*.*"))
    assert files == ["index.html", "page.css", *sorted(f"sessions/{file_name(each)}" for each in report.sessions)]
    check_links(tmp_path / "pages")
    assert Read(page_of(tmp_path / "pages", "plan")).said == {"b0-0": ["a"], "b0-1": ["b"], "b0-2": ["c"]}
    assert Read(page_of(tmp_path / "pages", "deep")).said == {"b1-0": ["a"], "b0-1": ["y"]}
    assert {each.name for each in tmp_path.iterdir()} <= {"pages", "store.trails"}  # no part of it is left beside it


def test_the_index_lists_forks_below_what_they_were_forked_from(memory: Repository, tmp_path: Path) -> None:
    grown(memory)
    lone = memory.create(id="lone", label="<The lone one>")
    lone.append("assistant", "hm", model="m-2")
    lone.persist()
    export_pages(memory, tmp_path / "pages")
    text = (tmp_path / "pages" / "index.html").read_text("utf-8")
    rows = [re.sub("<[^>]*>", " ", row).split() for row in text.split("<tr>")[2:]]
    assert [" ".join(row[:-2]) for row in rows] == [
        "&lt;The lone one&gt; lone m-2 1",
        "a plan 3",
        "fork at 2 of a fork at 2 · other m-1 3",
        "y fork at 1 · deep 2",
    ]
    assert re.findall("<td class=.(d[0-9]+).>", text) == ["d0", "d0", "d1", "d2"]
    assert "4 sessions, 6 turns" in text


def test_a_fork_shows_the_last_twenty_turns_that_it_inherits_and_leads_to_the_others(
    memory: Repository, tmp_path: Path
) -> None:
    plan = memory.create(id="plan")
    for number in range(40):
        plan.append("user", f"turn {number}")
    plan.persist()
    fork = plan.fork(at=30, id="fork")
    fork.append("user", "own")
    fork.persist()
    export_pages(memory, tmp_path / "pages")
    text = page_of(tmp_path / "pages", "fork")
    assert list(Read(text).said) == [*(f"b1-{index}" for index in range(10, 30)), "b0-30"]
    assert f'the page of <a href="{file_name("plan")}">' in text
    assert "from here" in page_of(tmp_path / "pages", "plan").split("<li\nid=b0-29")[1].split("<li\n")[0]


@pytest.mark.parametrize("owner", ["plan", "fork"])
def test_a_transcript_with_a_gap_makes_no_folder(memory: Repository, tmp_path: Path, owner: str) -> None:
    plan = memory.create(id="plan")
    for number in range(3):
        plan.append("user", f"turn {number}")
    plan.persist()
    fork = plan.fork(at=2, id="fork")
    fork.append("user", "own")
    fork.append("user", "more")
    fork.persist()
    turn = memory.load(owner).turns[1 if owner == "plan" else 2]
    gone = memory.store.quads((NamedNode(turn.iri), None, None, NamedNode(memory.record(owner).iri)))
    memory.store.commit(Change(remove=gone))
    with pytest.raises(IndexGap):
        export_pages(memory, tmp_path / "pages")
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_replaced(memory: Repository, tmp_path: Path) -> None:
    grown(memory)
    folder = tmp_path / "pages"
    folder.mkdir()
    export_pages(memory, folder)  # an empty one is filled
    before = {each: each.read_bytes() for each in folder.rglob("*.*")}
    with pytest.raises(InvalidInput, match="is not empty, and nothing in it is replaced; name a new folder"):
        export_pages(memory, folder)
    assert {each: each.read_bytes() for each in folder.rglob("*.*")} == before
    with pytest.raises(InvalidInput, match="is a file; name a folder"):
        export_pages(memory, folder / "index.html")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["pages"]


def test_names_of_files_are_safe_and_differ_where_ids_differ(memory: Repository, tmp_path: Path) -> None:
    ids = [
        "../../x",
        "a/b",
        "A/b",
        "a-b",
        "CON",
        ".",
        "\u00e9" * 200,
        "x" * 200,
        "';--",
        "a&b#c?d%2e",
    ]
    for each in ids:
        memory.create(id=each).persist()
    export_pages(memory, tmp_path / "pages")
    names = [each.name for each in (tmp_path / "pages" / "sessions").iterdir()]
    assert len({name.lower() for name in names}) == len(ids)
    assert {letter for name in names for letter in name} <= {*string.ascii_lowercase, *string.digits, "-", "."}
    assert max(map(len, names)) <= 40 + 1 + 10 + 5
    check_links(tmp_path / "pages")


def test_no_page_has_a_script_and_the_policy_allows_none(memory: Repository, tmp_path: Path) -> None:
    session = memory.create(id="plan", label=HOSTILE[0])
    for text in HOSTILE:
        session.append("user", text)
    session.persist()
    session.fork(id="other", label=HOSTILE[1]).persist()
    export_pages(memory, tmp_path / "pages")
    for file in (tmp_path / "pages").rglob("*.html"):
        read = Read(file.read_text("utf-8"))
        assert [tag for tag, _ in read.tags if tag in ("script", "style", "img", "iframe", "form")] == []
        assert [each for _, told in read.tags for each in told if each.startswith("on") or each == "style"] == []
        (policy,) = [told["content"] for told in read.named("meta") if "http-equiv" in told]
        rules = dict(rule.split(" ", 1) for rule in str(policy).split("; "))
        assert (rules["default-src"], rules["style-src"], "script-src" in rules) == ("'none'", "'self'", False)


def test_a_picture_that_is_too_large_for_a_page_is_a_file_beside_the_pages(memory: Repository, tmp_path: Path) -> None:
    large = b"\x89PNG" + b"\0" * (1 << 20)
    for name in ("plan", "other"):
        session = memory.create(id=name)
        session.append("user", [image(large)])
        session.persist()
    export_pages(memory, tmp_path / "pages")
    file = f"{hashlib.sha256(large).hexdigest()}.png"
    assert [each.name for each in (tmp_path / "pages" / "pictures").iterdir()] == [file]
    assert (tmp_path / "pages" / "pictures" / file).read_bytes() == large
    assert f'src="../pictures/{file}" alt="Picture 1 of turn 0: png, 1,048,580 bytes"' in page_of(
        tmp_path / "pages", "other"
    )
    assert base64.b64encode(large[:300]).decode() not in page_of(tmp_path / "pages", "other")


def test_each_page_has_the_verdict_on_its_own_session_and_the_index_that_on_all(
    memory: Repository, tmp_path: Path
) -> None:
    for name in ("plan", "other"):
        session = memory.create(id=name)
        session.append("user", name)
        session.persist()
    (stored,) = memory.store.quads((None, vocab.VALUE, Literal("other"), None))
    changed = Quad(stored.subject, stored.predicate, Literal("gone"), stored.graph_name)
    memory.store.commit(Change(remove=[stored], add=[changed]))
    export_pages(memory, tmp_path / "pages")
    verdicts = [
        page_of(tmp_path / "pages", "plan"),
        page_of(tmp_path / "pages", "other"),
        (tmp_path / "pages/index.html").read_text(),
    ]
    assert ['<b class="good">Verified</b>' in text for text in verdicts] == [True, False, False]


def test_the_pages_of_an_empty_store_are_an_empty_index(memory: Repository, tmp_path: Path) -> None:
    assert export_pages(memory, tmp_path / "pages").sessions == ()
    assert "0 sessions, 0 turns" in (tmp_path / "pages" / "index.html").read_text()


def test_how_far_it_is_is_told(memory: Repository, tmp_path: Path) -> None:
    grown(memory)
    moves: list[tuple[int, int, str]] = []
    export_pages(memory, tmp_path / "pages", progress=lambda *told: moves.append(told))
    assert moves == [(0, 3, "plan"), (1, 3, "other"), (2, 3, "deep")]


def test_the_command_without_a_session_writes_all_of_them(run: Run, place: Path, tmp_path: Path) -> None:
    with trails.open(place, create=True) as store:
        grown(store)
    told = ok_json(run("export", "--format", "html", "-o", tmp_path / "pages", "--json"))
    assert (told["sessions"], told["turns"]) == (["plan", "other", "deep"], 5)
    check_links(tmp_path / "pages")
    done = run("export", "--format", "html", "-o", tmp_path / "again")
    assert ok(done) == ""
    assert f"wrote 3 sessions with 5 turns to {tmp_path / 'again'}: open index.html there" in done.stderr
    assert "not empty" in run("export", "--format", "html", "-o", tmp_path / "again").stderr
    for wrong, said in (
        (["--format", "html"], "name it with -o FOLDER"),
        (["--format", "html", "-o", tmp_path / "x", "--forks"], "leave --forks and --force out"),
        (["--format", "html", "-o", place / "x"], "lies in the store's own folder"),
        (["--format", "pi", "-o", tmp_path / "x"], "Missing argument 'SESSION'"),
    ):
        refused = run("export", *wrong)
        assert (refused.exit_code, said in refused.stderr) == (2, True), refused.stderr
