"""The guide's notebooks run as they stand, from top to bottom, in a kernel of their own, and ship without outputs."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.support.places import IMPORTED
from trails.cli.help import FOLDER

NOTEBOOKS = sorted((FOLDER / "notebooks").glob("*.ipynb"))
# What a cell shows, by the notebook: texts that must be in its HTML, or in its plain text.
SHOWN = {
    "an-agents-sessions": [
        "session <bdi>trip (plan)",
        "forked here",
        "line-through",
        "1 tree, 2 sessions",
        "of 60</bdi>",
        "left out",
    ],
    "an-audit": ["verified: nothing is wrong", "5 of 5", "urn:trails:principal:alice", "(redacted)"],
    "fifty-branches": ["51 branches", "Welch&#x27;s t test", "Mann-Whitney U test", "<svg", "few-shot × 25", "tabular"],
}


def run(path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return what all cells of a notebook show, run in a folder of its own on this checkout."""
    tempfile.gettempdir()  # this process keeps what it finds first, and the folder below goes
    monkeypatch.setenv("PYTHONPATH", str(IMPORTED))
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setenv("IPYTHONDIR", str(folder / "ipython"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(folder / "runtime"))
    notebook: Any = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call] # it carries no types
    NotebookClient(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": folder}}).execute()
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


@pytest.mark.filterwarnings("ignore")  # of the kernel's machinery
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.slow
def test_a_notebook_runs_and_shows_what_it_says(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = run(path, tmp_path, monkeypatch)
    shown = "".join(str(output.get("data", output.get("text", ""))) for output in outputs)
    assert [text for text in SHOWN[path.stem] if text not in shown] == []
    assert "it cannot be shown" not in shown


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_valid_small_and_without_outputs(path: Path) -> None:
    whole = json.loads(path.read_text("utf-8"))
    nbformat.validate(whole)
    assert path.stat().st_size < 10_000
    code = [cell for cell in whole["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    assert all(len(line.rstrip("\n")) <= 100 for cell in code for line in cell["source"])


def test_every_notebook_is_known_here_and_named_in_the_guide() -> None:
    assert {path.stem for path in NOTEBOOKS} == set(SHOWN)
    page = (FOLDER / "notebooks.md").read_text("utf-8")
    assert [path.name for path in NOTEBOOKS if path.name not in page] == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_cells_of_a_notebook_run_without_a_kernel(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The quick stand-in for the kernel: the same cells, one after the other, in this process."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    names: dict[str, Any] = {"__name__": "__main__"}
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)  # noqa: S102 - the guide's own
