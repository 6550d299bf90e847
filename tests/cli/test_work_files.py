"""The commands that record, list, write and blame the files that a session worked on."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

import trails
from tests.support.commands import Run, ok, ok_json


@pytest.fixture(scope="module")
def filled_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """plan: turn 0 finds a.py, 1 changes its second line and makes it executable; other, a newer session, has b.py alone."""
    folder = tmp_path_factory.mktemp("files")
    with trails.open(folder / "work.trails", create=True) as store:
        with store.session("plan") as plan:
            found = trails.FileVersion(path="src/a.py", data=b"one\ntwo\n", outside=True)
            plan.append("tool", "found", files=[found, found.model_copy(update={"path": "shared.py"})])
            plan.append("tool", "x", files=[trails.FileVersion(path="src/a.py", data=b"one\nTWO\n", mode="executable")])
        with store.session("src/a.py:2") as odd:  # a session's name may look like a line of a file
            odd.append("user", "Hello")
        with store.session("other") as other:
            other.append("assistant", "x", model="m-1", files={"b.py": b"b", "shared.py": b"three\n"})
    return folder / "work.trails"


def test_files_are_listed_with_their_history_and_as_patches(run: Run, tmp_path: Path) -> None:
    files = ok_json(run("files", "plan", "--json"))["files"]
    assert [(each["index"], each["path"], each["outside"]) for each in files] == [
        (0, "shared.py", True),
        (1, "src/a.py", False),
    ]
    assert [each["index"] for each in ok_json(run("files", "plan", "src/a.py", "--history", "--json"))["files"]] == [
        0,
        1,
    ]
    assert [each["index"] for each in ok_json(run("files", "plan@1", "src/a.py", "--json"))["files"]] == [0]
    patch = ok(run("files", "plan", "src/a.py", "--patch"))
    assert "-two\n+TWO" in patch
    subprocess.run(["git", "init", "-q", tmp_path / "git"], check=True)
    for each in patch.split("diff --git ")[1:]:
        subprocess.run(
            ["git", "apply"],
            cwd=tmp_path / "git",
            input=f"diff --git {each}".rstrip("\n") + "\n",
            text=True,
            check=True,
        )
    assert (tmp_path / "git/src/a.py").read_text() == "one\nTWO\n"
    assert (tmp_path / "git/src/a.py").stat().st_mode & 0o100


def test_checkout_writes_the_files_as_they_were(run: Run, tmp_path: Path) -> None:
    result = run("checkout", "plan@1", tmp_path / "then")
    assert (ok(result), result.stderr) == (f"{tmp_path}/then\n", "wrote 2 files\n")
    assert (tmp_path / "then/src/a.py").read_text() == "one\ntwo\n"
    assert ok_json(run("checkout", "plan", tmp_path / "now", "--json")) == {
        "folder": f"{tmp_path}/now",
        "files": 2,
        "missing": [],
    }
    again = run("checkout", "plan", tmp_path / "now")
    assert (again.exit_code, "no empty folder" in again.stderr) == (2, True)


def test_blame_says_which_turn_wrote_a_line_or_that_it_is_unknown(run: Run) -> None:
    (line,) = ok_json(run("blame", "src/a.py:2", "--session", "plan", "--json"))["lines"]
    assert (line["line"], line["text"], line["index"], line["session"]) == (2, "TWO", 1, "plan")
    assert "unknown" in ok(run("blame", "./src/a.py:1"))
    assert [each["index"] for each in ok_json(run("blame", "src/a.py", "--session", "plan@1", "--json"))["lines"]] == [
        None,
        None,
    ]
    beyond = run("blame", "src/a.py:3", "--session", "plan")
    assert (beyond.exit_code, "has 2 lines" in beyond.stderr) == (2, True)


def test_without_a_session_the_newest_that_has_the_file_is_asked(run: Run) -> None:
    assert ok_json(run("blame", "shared.py:1", "--json"))["session"] == "other"
    assert ok_json(run("blame", "b.py", "--json"))["lines"][0]["model"] == "m-1"


def test_what_names_a_session_and_a_line_is_refused_and_all_else_blames_turns_as_before(run: Run) -> None:
    both = run("blame", "src/a.py:2")
    assert (both.exit_code, "--session plan" in both.stderr, "urn:trails:session:src" in both.stderr) == (2, True, True)
    assert [each["index"] for each in ok_json(run("blame", "plan", "--json"))["turns"]] == [0, 1]
    neither = run("blame", "nope.py:3")
    assert (neither.exit_code, "no session" in neither.stderr) == (2, True)
    assert run("blame", "b.py", "--range", "1").exit_code == 2


def test_append_records_what_changed_in_a_folder(run: Run, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a").write_text("1")
    (work / ".gitignore").write_text("*.log")
    (work / "x.log").write_text("")
    ok(run("create", "--id", "new"))
    assert "left out: x.log is ignored by .gitignore" in run("append", "new", "tool", "found", "--files", work).stderr
    (work / "a").write_text("2")
    ok(run("append", "new", "tool", "changed", "--files", work))
    files = json.loads(ok(run("files", "new", "--history", "--json")))["files"]
    assert [(each["index"], each["path"], each["outside"]) for each in files] == [
        (0, ".gitignore", True), (0, "a", True), (1, "a", False),
    ]  # fmt: skip


def test_show_says_what_a_turn_did_to_files_and_lists_the_first_of_many(run: Run, place: Path) -> None:
    shown = ok(run("show", "plan"))
    assert "~ src/a.py was there" in shown
    assert "~ wrote src/a.py" in shown
    with trails.open(place) as store, store.session("many") as many:
        many.append("tool", "x", files={f"{number}.py": None if number == 0 else b"" for number in range(11)})
    shown = ok(run("show", "many"))
    assert "~ deleted 0.py" in shown
    assert "~ wrote 7.py" in shown
    assert "8.py" not in shown
    assert "~ and 3 more files: `trails files many` lists them" in shown
    assert "~ wrote 10.py" in ok(run("show", "many", "--full"))
