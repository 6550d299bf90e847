"""Each page's Python examples type-check as one program, as strictly as a user may ask."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import typed_programs


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
