"""`trails guide`: the pages ship with the program, are found by name, and are laid out where somebody reads them."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import Result

from tests.support.commands import invoke
from tests.support.places import IMPORTED
from trails.cli import main
from trails.cli.help import FOLDER, PAGES, TUTORIALS, error_pages, read_page, with_commands


def guide(*arguments: str) -> Result:
    return invoke("guide", *arguments)


def on_a_terminal(*arguments: str, width: int, cwd: Path) -> str:
    """Return what the program prints on a terminal of its own."""
    ours, theirs = pty.openpty()
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(IMPORTED)}
    environment |= {"TERM": "xterm-256color", "COLUMNS": str(width), "PYTHONUTF8": "1"}
    command = [sys.executable, "-m", "trails", *arguments]
    with subprocess.Popen(command, stdout=theirs, stderr=subprocess.DEVNULL, cwd=cwd, env=environment) as program:
        os.close(theirs)
        pieces = []
        while piece := _read(ours):
            pieces.append(piece)
    os.close(ours)
    assert program.returncode == 0
    return b"".join(pieces).decode().replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # how Linux says that nobody writes to it any more
        return b""


# --- the pages


def test_the_pages_are_those_in_the_folder() -> None:
    assert sorted(PAGES) == sorted(file.stem for file in FOLDER.iterdir() if file.is_file())
    others = {
        "notebooks": {".ipynb"},
        "pictures": {".png", ".svg"},
        "pipeline": {".eval"},
        "deploy": {"", ".yaml", ".service", ".timer"},
    }
    assert {file.suffix for file in FOLDER.rglob("*") if file.is_file() and file.parent.name not in others} == {".md"}
    for name, suffixes in others.items():
        assert {file.suffix for file in (FOLDER / name).iterdir()} == suffixes


@pytest.mark.parametrize("name", [*PAGES, *TUTORIALS, *error_pages()])
def test_a_page_opens_with_a_title_a_line_and_an_example(name: str) -> None:
    title, blank, summary, after, *rest = read_page(name).text.splitlines()
    assert title.startswith("# ")
    assert (blank, after) == ("", "")
    assert summary.endswith(".")
    assert summary[0].isupper()
    assert any(line.startswith("```") for line in rest[:8])


def test_links_to_pages_become_commands() -> None:
    assert with_commands("see [proofs](proofs.md)") == "see `trails guide proofs`"
    assert with_commands("[how to delete](redaction.md).") == "how to delete (`trails guide redaction`)."
    assert with_commands("[keys](../keys.md)") == "`trails guide keys`"
    assert with_commands("[`IndexGap`](errors/index-gap.md)") == "`IndexGap` (`trails guide errors/index-gap`)"
    assert with_commands("[a log](https://example.com)") == "[a log](https://example.com)"


# --- the command


def test_without_a_name_the_pages_are_listed_with_their_first_lines() -> None:
    done = guide()
    rows = [line.rstrip() for line in done.stdout.splitlines()]
    assert done.exit_code == 0
    assert [row.split("\t") for row in rows[1:]] == [[name, read_page(name).summary] for name in PAGES]
    assert "trails guide PAGE" in done.stderr


@pytest.mark.parametrize("name", PAGES)
def test_a_page_comes_out_of_a_pipe_as_it_is(name: str) -> None:
    done = guide(name)
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout == (FOLDER / f"{name}.md").read_text("utf-8")


def test_a_page_is_printed_as_json() -> None:
    text = (FOLDER / "graph.md").read_text("utf-8")
    assert json.loads(guide("graph", "--json").stdout) == {
        "name": "graph",
        "title": "Graph",
        "summary": text.splitlines()[2],
        "text": text,
    }


def test_the_list_is_printed_as_json() -> None:
    pages = json.loads(guide("--json").stdout)["pages"]
    assert [page["name"] for page in pages] == list(PAGES)
    assert {tuple(page) for page in pages} == {("name", "title", "summary")}
    assert pages[2]["title"] == "Command line"


@pytest.mark.parametrize(
    ("given", "nearest"), [("grpah", "graph"), ("Python", "python"), ("command", "command-line"), ("xyz", None)]
)
def test_an_unknown_page_is_refused_with_the_pages_there_are(given: str, nearest: str | None) -> None:
    done = guide(given)
    assert (done.exit_code, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error: the guide has no page {given!r}")
    assert (
        f"its pages are: {', '.join(PAGES)}, and those that `trails guide tutorials` and `trails guide errors` list"
        in line
    )
    assert line.count("did you mean") == (nearest is not None)
    assert nearest is None or f"(did you mean {nearest!r}?)" in line


def test_a_shell_completes_the_names_of_pages() -> None:
    shell = ShellComplete(main, {}, "trails", "_TRAILS_COMPLETE")
    assert [item.value for item in shell.get_completions(["guide"], "pro")] == ["provenance", "proofs"]
    assert [item.value for item in shell.get_completions(["guide"], "")] == [*PAGES, "tutorials", "errors"]
    assert [item.value for item in shell.get_completions(["guide"], "errors/head")] == ["errors/head-conflict"]


def test_the_guide_needs_no_store_and_no_engine(tmp_path: Path) -> None:
    code = (
        "import sys; from trails.cli import main; main(['guide', 'keys'], standalone_mode=False); "
        "sys.exit(str({'rich', 'pyoxigraph', 'pydantic', 'rdflib'} & set(sys.modules)))"
    )
    environment = {**os.environ, "PYTHONPATH": str(IMPORTED)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=False, cwd=tmp_path, env=environment, text=True
    )
    assert done.stderr.strip() == "set()"
    assert list(tmp_path.iterdir()) == []


# --- on a terminal


@pytest.mark.parametrize("width", [60, 100, 200])
def test_a_page_is_laid_out_on_a_terminal(width: int, tmp_path: Path) -> None:
    shown = on_a_terminal("guide", "python", width=width, cwd=tmp_path)
    plain = click.unstyle(shown)
    assert plain != shown
    assert "```" not in plain
    assert "](" not in plain
    assert "trails guide redaction" in " ".join(plain.split())
    assert ">>> import trails" in plain
    assert max(map(len, plain.splitlines())) <= min(width, 120)


def test_the_list_is_wrapped_on_a_terminal(tmp_path: Path) -> None:
    shown = click.unstyle(on_a_terminal("guide", width=60, cwd=tmp_path))
    assert max(map(len, shown.splitlines())) <= 60
    assert " ".join(read_page("graph").summary.split()[-3:]) in " ".join(shown.split())
