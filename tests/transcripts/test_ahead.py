"""An import whose files are parsed in a process beside does what one does that parses them itself."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import trails
from trails import workers
from trails.exchange import formats
from trails.exchange.file_import import import_path

LEAKED = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"


def transcript(name: str, *texts: str) -> str:
    """Return a file in Pi's format: a session of user's turns."""
    lines: list[dict[str, Any]] = [
        {"type": "session", "version": 3, "id": name, "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/w"}
    ]
    for number, text in enumerate(texts):
        message = {"role": "user", "content": text, "timestamp": 1767225600000 + number}
        parent = f"{number - 1:08x}" if number else None
        lines.append(
            {
                "type": "message",
                "id": f"{number:08x}",
                "parentId": parent,
                "timestamp": "2026-01-01T00:00:01.000Z",
                "message": message,
            }
        )
    return "".join(json.dumps(line) + "\n" for line in lines)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Four folders: three with a session each, one of which holds a token, and one with a broken line."""
    place = tmp_path / "tree"
    for number, texts in enumerate((("a", "b"), (f"use {LEAKED}", "plain"), ("c",), ("d",))):
        folder = place / f"f{number}"
        folder.mkdir(parents=True)
        (folder / "s.jsonl").write_text(transcript(f"0000000{number}-0000-4000-8000-000000000000", *texts))
    with (place / "f3" / "s.jsonl").open("a") as file:
        file.write("{not json\n")
    return place


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Any files are many; the list gets how many groups of files a process was given."""
    found: list[int] = []
    each = workers.each

    def counted(begin: str, given: Any, pieces: Any, processes: int, **more: Any) -> Iterator[tuple[Any, Any]]:
        found.append(len(pieces))
        return each(begin, given, pieces, processes, **more)

    monkeypatch.setattr(formats, "PARALLEL_BYTES", 0)
    monkeypatch.setattr(workers, "count", lambda: 2)
    monkeypatch.setattr(workers, "each", counted)
    return found


Imported = tuple[dict[str, Any], dict[str, list[str]]]


@pytest.fixture
def imported(tree: Path) -> Callable[..., Imported]:
    """A function that imports the files into a store of its own and returns the report, and what is stored."""

    def run(**options: Any) -> Imported:
        with trails.open(":memory:") as store:
            report = import_path(store, tree, final=True, **options)
            stored = {each.id: [turn.text for turn in store.load(each.id).turns] for each in store.list()}
            assert store.verify().ok
            return report.to_dict(), stored

    return run


def test_the_report_and_what_is_stored_are_the_same(
    imported: Callable[..., Imported], asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    report, stored = imported()
    assert asked == [4]
    assert sorted(stored.values()) == [["a", "b"], ["c"], ["d"], [f"use {LEAKED}", "plain"]]
    assert len(report["secrets"]) == 1
    assert len(report["problems"]) == 1
    monkeypatch.setattr(formats, "PARALLEL_BYTES", 1 << 60)
    assert imported() == (report, stored)
    assert asked == [4]


def test_secrets_are_taken_out_and_what_holds_none_stays(imported: Callable[..., Imported], asked: list[int]) -> None:
    _, stored = imported(redact_secrets=True)
    assert sorted(stored.values()) == [["a", "b"], ["c"], ["d"], ["use [redacted: github-token]", "plain"]]
    assert asked == [4]


def test_progress_names_each_file_in_order(tree: Path, asked: list[int]) -> None:
    seen: list[tuple[int, int, str]] = []
    with trails.open(":memory:") as store:
        import_path(store, tree, progress=lambda *each: seen.append(each))
    files = [name for _, _, name in seen if name.endswith("s.jsonl")]
    assert list(dict.fromkeys(files)) == [str(tree / f"f{number}" / "s.jsonl") for number in range(4)]
    assert seen[-1] == (4, 4, "")


def test_what_a_process_cannot_do_is_done_here(
    imported: Callable[..., Imported], asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = imported()
    monkeypatch.setattr(workers, "_START", "raise SystemExit(3)")
    assert imported() == whole
    assert asked == [4, 4]


def test_a_file_that_goes_away_meanwhile_is_refused_as_it_was(
    tree: Path, asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    def progress(_: int, __: int, name: str) -> None:
        if not told:
            shutil.rmtree(tree / "f3")
        told.append(name)

    monkeypatch.setattr(workers, "_START", "raise SystemExit(3)")
    with trails.open(":memory:") as store:
        report = import_path(store, tree, progress=progress, final=True)
        assert len(store.list()) == 3
    assert [Path(each.file).parent.name for each in report.problems] == ["f3"]


def test_an_import_that_is_given_up_leaves_no_process(tree: Path, asked: list[int]) -> None:
    def stop(done: int, _: int, __: str) -> None:
        if done >= 1:
            raise KeyboardInterrupt

    before = _children()  # servers of other tests, say
    with trails.open(":memory:") as store, pytest.raises(KeyboardInterrupt):
        import_path(store, tree, progress=stop)
    assert _children() <= before


def _children() -> set[str]:
    """The processes that this one has begun, where the system tells."""
    tasks = Path("/proc/self/task")
    told = [(task / "children").read_text() for task in tasks.iterdir()] if tasks.exists() else []
    return {child for text in told for child in text.split()}
