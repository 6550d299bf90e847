"""`trails diff`: what it prints in each format, and how it ends."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import trails
from tests.support.commands import Run
from tests.support.terminals import on_terminal
from trails.compare import diff
from trails.compare.diff_documents import markdown, page, patch
from trails.compare.session_diff import readable_blocks
from trails.display.terminal_text import clean

HOSTILE = '</pre><script>alert(1)</script> & "quotes" \x1b[31m `ticks` ```` | a\u202eb'


@pytest.fixture(scope="module")
def filled_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with `trip` (5 turns) and `other`, forked after the first: one turn changed, one equal, two only there."""
    path = tmp_path_factory.mktemp("filled") / "store.trails"
    with trails.open(path, create=True, durability="process") as store:
        plan = store.create(id="plan", label="trip")
        plan.append("user", "Plan a trip")
        ask = {"id": "c1", "name": "weather", "arguments": {"place": "Bern"}}
        plan.append("assistant", "I look.", tool_calls=[ask], model="m", usage={"input_tokens": 5, "cost": 0.5})
        plan.append("tool", "Snow", tool_call_id="c1")
        plan.append("assistant", "Take the train to Bern.\nIt is warm.")
        plan.append("user", "Thanks")
        plan.persist()
        other = plan.fork(at=1, id="o1", label="other")
        again = {"id": "x1", "name": "weather", "arguments": {"place": "Basel"}}
        other.append("assistant", "I look.", tool_calls=[again], model="m", usage={"input_tokens": 7})
        other.append("tool", "Snow", tool_call_id="x1")
        other.append("assistant", "Take the bus to Bern.\nIt is warm.")
        other.append("user", HOSTILE)
        other.append("assistant", "What?")
        other.persist()
    return path


@pytest.fixture
def run(run: Run) -> Run:
    """`trails diff ...` on that store."""
    return partial(run, "diff")


def test_the_text_shows_counts_and_every_turn_that_differs(run: Run) -> None:
    done = run("trip", "other")
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert re.fullmatch(r"--- trip \(5 turns, [0-9a-f]{8}\)", lines[0])
    assert re.fullmatch(r"they share 1 turn by lineage; the last is turn 0 of plan, [0-9a-f]{8}", lines[2])
    assert lines[3] == "after that: 1 equal, 3 changed, 1 only right"
    counts = [line.split() for line in lines if line.startswith(("turns", "input", "cost", "calls"))]
    assert counts == [
        ["turns", "4", "5"],
        ["input", "tokens", "5", "7"],
        ["cost", "0.5", "-"],
        ["calls", "weather", "1", "1"],
    ]
    assert "    calls weather $.place" in lines
    assert '      [-"Bern"-]{+"Basel"+}' in lines or "      [-Bern-]{+Basel+}" in lines
    assert "    Take the [-train-]{+bus+} to Bern." in lines
    assert "+ 5  assistant  only right" in lines
    assert "\x1b" not in done.stdout
    assert "\u202e" not in done.stdout


def test_long_equal_texts_are_shortened_unless_asked_for(run: Run, place: Path) -> None:
    with trails.open(place) as store:
        for name, word in (("long-1", "one"), ("long-2", "two")):
            session = store.create(id=name)
            session.append("user", "same " * 200 + word)
            session.persist()
    short, full = run("long-1", "long-2").stdout, run("long-1", "long-2", "--full").stdout
    assert (" … " in short, " … " in full) == (True, False)
    assert full.count("same") == 200


def test_side_by_side_has_each_side_in_a_column(run: Run) -> None:
    done = run("trip", "other", "--side-by-side")
    (row,) = [line for line in done.stdout.splitlines() if "Take the" in line]
    assert re.search(r"Take the \[-train-\] to Bern\.\s{5,}Take the \{\+bus\+\} to Bern\.", row)


@pytest.mark.parametrize("how", [("--full",), pytest.param(("--side-by-side",), marks=pytest.mark.slow)])
def test_a_terminal_without_colours_has_marks_where_words_differ(run: Run, place: Path, how: tuple[str]) -> None:
    dumb = on_terminal(place, "diff", "trip", "other", *how, TERM="dumb")[1]
    assert "[-train-]" in dumb
    assert "{+bus+}" in dumb
    assert "\x1b" not in dumb
    coloured = on_terminal(place, "diff", "trip", "other", *how)[1]
    assert "[-train-]" not in coloured


def test_equal_turns_far_from_any_difference_are_counted_only(run: Run, place: Path) -> None:
    with trails.open(place) as store:
        for name in ("one", "two"):
            session = store.create(id=name)
            for number in range(20):
                session.append("user", f"same {number}")
            session.append("user", name)
            session.persist()
    out = run("one", "two").stdout
    assert "… 17 equal turns" in out
    assert "same 16" not in out
    assert "same 17" in out


def test_json_is_the_whole_diff(run: Run) -> None:
    plain = json.loads(run("trip", "other", "--json").stdout)
    assert plain["differs"] is True
    assert plain["ancestor"]["turns"] == 1
    assert [entry["kind"] for entry in plain["entries"]] == ["changed", "equal", "changed", "changed", "right"]
    assert plain["entries"][0]["detail"]["calls"][0]["edits"] == [
        {"kind": "changed", "path": "$.place", "left": "Bern", "right": "Basel"}
    ]
    assert plain["right"]["tail"] == {
        "turns": 5,
        "calls": 1,
        "calls_without_usage": 0,
        "input_tokens": 7,
        "output_tokens": None,
        "cost": None,
        "tools": {"weather": 1},
    }


def test_markdown_fences_what_was_said(run: Run) -> None:
    text = run("trip", "other", "--format", "markdown").stdout
    assert text.startswith("# trip and other\n")
    assert "| turns | 4 | 5 |" in text
    assert "### 3 assistant: changed" in text
    fences = re.findall(r"^`{3,}", text, re.MULTILINE)
    assert len(fences) % 2 == 0
    assert "`" * 5 in fences
    assert "Take the [-train-]{+bus+} to Bern." in text
    assert re.search(r"^```diff\n\+What\?\n```$", text, re.MULTILINE)


class Page(HTMLParser):
    """Takes a page apart: its tags, and whether all of them are closed."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_and_takes_nothing_from_elsewhere(run: Run, tmp_path: Path) -> None:
    done = run("trip", "other", "--format", "html", "-o", str(tmp_path / "diff.html"))
    assert (done.exit_code, done.stdout) == (0, "")
    text = (tmp_path / "diff.html").read_text("utf-8")
    page = Page()
    page.feed(text)
    assert page.open == []
    assert page.tags.isdisjoint({"script", "link", "img", "iframe", "object", "a", "base"})
    assert page.attributes <= {"lang", "charset", "name", "content", "class"}
    assert "url(" not in text
    assert "@import" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "<del>train</del>" in text
    assert "<ins>bus</ins>" in text
    assert "\x1b" not in text
    assert "prefers-color-scheme: dark" in text


def test_names_and_roles_and_paths_are_escaped_too(place: Path) -> None:
    with trails.open(place) as store:
        for number in (1, 2):
            session = store.create(id=f"h{number}", label=f"<s>|{number}")
            session.append("<i>", [{"type": "x", "<u>`|": number}])
            session.persist()
        found = store.diff("<s>|1", "<s>|2")
    assert not re.search("<(s|i|u)>", page(found).partition("<body>")[2])
    assert not re.search(r"(?<!\\)<(s|i|u)>", re.sub(r"(?ms)^```.*?^```", "", markdown(found)))


def test_a_patch_makes_the_text_of_one_tail_into_that_of_the_other(run: Run, place: Path) -> None:
    text = run("trip", "other", "--format", "patch").stdout
    assert text.splitlines()[0] == "diff --trails trip other"
    with trails.open(place) as store:
        found = store.diff("trip", "other")
    left = "".join(f"{line}\n" for line in written(found, "left"))
    right = "".join(f"{line}\n" for line in written(found, "right"))
    assert applied(text, left) == right
    if shutil.which("patch"):
        folder = place.parent / "patched"
        folder.mkdir()
        (folder / "left").write_text(left, "utf-8")
        (folder / "diff").write_text(text, "utf-8")
        subprocess.run(["patch", "-s", "left", "diff"], cwd=folder, check=True)
        assert (folder / "left").read_text("utf-8") == right


def written(found: Any, side: str) -> list[str]:
    lines: list[str] = []
    for entry in found.entries:
        turn = getattr(entry, side)
        if turn is not None:
            shown = clean(readable_blocks(turn)).split("\n")
            lines += [f"[{turn.role}]", *shown, ""]
    return lines


def applied(text: str, left: str) -> str:
    """Apply a unified patch by the book."""
    lines, at = left.splitlines(keepends=True), 0
    made: list[str] = []
    for line in text.splitlines(keepends=True)[4:]:
        if found := re.match(r"@@ -(\d+),(\d+) \+(\d+),(\d+) @@", line):
            start = int(found[1]) - (1 if int(found[2]) else 0)
            made += lines[at:start]
            at = start
            assert len(made) == int(found[3]) - (1 if int(found[4]) else 0)
        elif line[0] == "+":
            made.append(line[1:])
        else:
            assert lines[at] == line[1:]
            at += 1
            made += [line[1:]] if line[0] == " " else []
    return "".join(made + lines[at:])


def test_a_patch_of_distant_differences_has_a_hunk_for_each(place: Path) -> None:
    with trails.open(place) as store:
        for name in ("one", "two"):
            session = store.create(id=name)
            for number in range(30):
                session.append("user", f"{name} {number}" if number in (3, 20) else f"same {number}")
            session.persist()
        found = store.diff("one", "two")
    text = patch(found)
    assert text.count("@@ -") == 2
    left, right = ("".join(f"{line}\n" for line in written(found, side)) for side in ("left", "right"))
    assert applied(f"common\n{text}", left) == right


def test_a_patch_of_nothing_is_empty(place: Path, run: Run) -> None:
    assert run("trip", "trip", "--format", "patch").stdout == ""
    assert patch(diff([], [])) == ""
    assert "nothing differs" in run("trip", "trip").stdout


def test_the_exit_code_tells_only_where_it_is_asked_for(run: Run) -> None:
    assert run("trip", "other").exit_code == 0
    assert run("trip", "other", "--exit-code").exit_code == 1
    assert run("trip", "other", "--exit-code", "--json").exit_code == 1
    assert run("trip", "plan@5", "--exit-code").exit_code == 0


def test_what_is_asked_for_wrongly_is_refused_before_anything_is_written(run: Run, tmp_path: Path) -> None:
    there = tmp_path / "there.html"
    there.write_text("mine")
    for arguments in (
        ("trip", "other", "--json", "--format", "html"),
        ("trip", "other", "--side-by-side", "--format", "patch"),
        ("trip", "other", "-o", str(tmp_path / "x")),
        ("trip", "other", "--format", "html", "-o", str(there)),
        ("trip",),
        ("trip", "other", "--format", "pdf"),
    ):
        assert isinstance(run(*arguments).exception, SystemExit | Exception), arguments
    assert there.read_text() == "mine"
    assert not (tmp_path / "x").exists()
    assert run("trip", "other", "--format", "html", "-o", str(there), "--force").exit_code == 0
    assert there.read_text().startswith("<!doctype html>")


def test_every_format_can_go_to_a_file(run: Run, tmp_path: Path) -> None:
    for form in ("markdown", "html", "patch", "json"):
        path = tmp_path / form
        assert run("trip", "other", "--format", form, "-o", str(path)).exit_code == 0
        assert path.read_bytes().decode("utf-8") == run("trip", "other", "--format", form).stdout
