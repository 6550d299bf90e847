"""What users write type-checks as strictly as they may ask: each page's Python examples as one program, and short programs."""

from __future__ import annotations

import ast
import json
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.support import typed_programs

PROGRAMS: Final = sorted(
    each for each in (typed_programs.ROOT / "tests" / "programs").glob("*.py") if each.stem != "__init__"
)
"""Short programs as users write them; each docstring ends with what the program prints."""


def test_a_page_becomes_a_program_that_prints_what_it_shows() -> None:
    page = "```python\n>>> import trails\n>>> x = 1\n>>> x\n1\n>>> trails.open('a')\n```\ntext\n```console\n$ ls\n```\n"
    assert typed_programs.program(page) == "import trails\nx = 1\nprint(x)\ntrails.open('a')\n"


@pytest.mark.parametrize("page", typed_programs.PAGES, ids=lambda page: str(page.stem))
def test_every_page_is_a_program(page: Path) -> None:
    ast.parse(typed_programs.program(page.read_text("utf-8")))


@pytest.mark.slow
def test_the_programs_of_all_pages_pass_mypy_strict(tmp_path: Path) -> None:
    files = typed_programs.write(tmp_path / "examples")
    assert len(files) > 10
    found = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", *map(str, files)],
        cwd=typed_programs.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    own = [line for line in found.stdout.splitlines() if "page_" in line]
    assert not own, found.stdout


# --- short programs


def test_there_are_twenty_short_programs_and_more() -> None:
    assert len(PROGRAMS) > 20


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: str(program.stem))
def test_a_short_program_prints_what_its_docstring_says(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(program), run_name="__main__")
    _, _, printed = (ast.get_docstring(ast.parse(program.read_text("utf-8"))) or "").partition("Prints:\n")
    assert printed
    assert capsys.readouterr().out == f"{printed}\n"


WRONG: Final = """
import trails


async def main() -> None:
    async with trails.aio.open(":memory:") as store, store.session("chat") as chat:
        chat.append("user", 3)
        print((await store.load("chat")).turns[0].rolle)
        print(store.list()[0])


with trails.open(3) as opened:
    opened.create("chat")
"""
"""A program with five mistakes that a type checker is to find: none of the types that they are about is `Any`."""


def _faults(checker: str, output: str) -> set[tuple[str, int]]:
    """Return the name of the file and the line of each error that a checker reports."""
    if checker == "mypy":
        errors = [line.split(":") for line in output.splitlines() if ": error: " in line]
        return {(Path(file).name, int(line)) for file, line, *_ in errors}
    found = json.loads(output)["generalDiagnostics"]
    return {(Path(each["file"]).name, each["range"]["start"]["line"] + 1) for each in found}


@pytest.mark.slow
@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_the_short_programs_pass_strict_type_checkers_which_find_the_mistakes_in_a_wrong_one(
    tmp_path: Path, checker: str
) -> None:
    pytest.importorskip(checker)
    wrong, settings = tmp_path / "wrong.py", tmp_path / "pyrightconfig.json"
    wrong.write_text(WRONG, "utf-8")
    settings.write_text(json.dumps({"typeCheckingMode": "strict"}), "utf-8")
    options = {
        "mypy": ["mypy", "--strict", "--no-warn-unused-configs"],
        "pyright": ["pyright", "--project", str(settings), "--pythonpath", sys.executable, "--outputjson"],
    }[checker]
    done = subprocess.run(
        [sys.executable, "-m", *options, *map(str, [*PROGRAMS, wrong])],
        cwd=typed_programs.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert _faults(checker, done.stdout) == {("wrong.py", line) for line in (7, 8, 9, 12, 13)}, done.stdout
