"""The tutorials are true: their blocks run one after the other, in one folder, and print what stands below them."""

from __future__ import annotations

import contextlib
import doctest
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.documents import run_here
from trails.cli.help import TUTORIALS, read_page

PORT = "8420"
VISIBLE = {
    "transcripts-on-disk": ("plan.html", "Keep the alias and call it 1.4."),
    "python-program": ("trip.html", "take the bus"),
    "compare-arms": ("sums.svg", "<svg"),
    "audit": ("report.html", "<html"),
    "shared-server": ("restored.trails", None),
}
"""The file that each tutorial leaves, and a text in it."""


def blocks(text: str) -> list[tuple[str, str]]:
    """Return the blocks of a page with their languages, in order."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def lacks(excerpt: str, printed: str) -> str | None:
    """Return the first line of an excerpt that was not printed, in its order; `...` stands for any text."""
    rest = iter([" ".join(line.split()) for line in printed.splitlines()])
    for line in excerpt.splitlines():
        pattern = ".*".join(re.escape(" ".join(part.split())) for part in line.split("..."))
        if not any(re.fullmatch(pattern, each) for each in rest):
            return line
    return None


@contextlib.contextmanager
def serving(command: str, port: str) -> Iterator[None]:
    """Run a server until the end of the block."""
    words = [sys.executable, "-m", *shlex.split(command), "--port", port, "--quiet"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as running:
        try:
            assert running.stderr is not None
            assert any("serving" in line for line in running.stderr)
            yield
        finally:
            running.terminate()
            assert running.wait(60) == 0


def free_port() -> str:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return str(listening.getsockname()[1])


def run(text: str, name: str, port: str) -> None:
    """Run a page from its first block to its last."""
    names: dict[str, object] = {}
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    printed = ""
    with contextlib.ExitStack() as servers:
        for language, block in blocks(text.replace(PORT, port)):
            if language == "python":
                example = doctest.DocTestParser().get_doctest(block, names, name, name, 0)
                runner.run(example, out=report.append, clear_globs=False)
                names = example.globs
                assert runner.failures == 0, "".join(report)
            elif language == "console":
                lines = [line.removeprefix("$ ") for line in block.splitlines()]
                for line in [each for each in lines if each.startswith("trails serve")]:
                    servers.enter_context(serving(line, port))
                printed = "".join(run_here(line) for line in lines if not line.startswith("trails serve"))
            else:
                lacking = lacks(block, printed)
                assert lacking is None, f"not printed: {lacking}\n{printed}"


SLOW = {"compare-arms", "shared-server"}
"""These draw with Matplotlib, and start a server."""


@pytest.mark.parametrize(
    "tutorial",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else [])
        for name in (each.rpartition("/")[2] for each in TUTORIALS)
    ],
)
def test_a_tutorial_runs_and_leaves_what_it_shows_at_its_end(
    tutorial: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if tutorial == "compare-arms":
        pytest.importorskip("matplotlib")
        pytest.importorskip("scipy")
    if tutorial in {"audit", "compare-arms"}:
        pytest.importorskip("cryptography")
    if tutorial == "shared-server":
        pytest.importorskip("uvicorn")
        pytest.importorskip("httpx")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRAILS_STORE", raising=False)
    run(read_page(f"tutorials/{tutorial}").text, tutorial, free_port())
    name, text = VISIBLE[tutorial]
    assert (tmp_path / name).exists()
    assert text is None or text in (tmp_path / name).read_text("utf-8")
    assert name in read_page(f"tutorials/{tutorial}").text


def test_an_excerpt_is_held_against_what_was_printed() -> None:
    printed = "one   session\ttwo turns\nok: 3 sessions, 16 turns\n"
    assert lacks("one ... turns\nok: 3 sessions, ...\n", printed) is None
    assert lacks("ok: 3 sessions, ...\none ...\n", printed) == "one ..."
    assert lacks("ok: 4 sessions, ...\n", printed) == "ok: 4 sessions, ..."


def test_a_page_whose_text_is_not_printed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = "```console\n$ trails init\n$ trails verify\n```\n\n```text\nok: 1 sessions ...\n```\n"
    with pytest.raises(AssertionError, match="not printed: ok: 1 sessions"):
        run(page, "page", PORT)
