"""Files of many sessions come in a part at a time: in little memory, and the same as if they were read at once."""

from __future__ import annotations

import json
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import trails
from trails import Repository
from trails.exchange.file_import import import_path
from trails.exchange.source_transcript import ImportReport
from trails.store.index import engine

_SESSIONS = 50
"""More than are read together."""


def record(number: int, length: int = 10) -> str:
    text = f"{number} ".ljust(length, "x")
    return json.dumps({"messages": [{"role": "user", "content": text}, {"role": "assistant", "content": text}]}) + "\n"


def conversations(file: Path, count: int, length: int = 10) -> Path:
    file.write_text("".join(record(number, length) for number in range(count)))
    return file


def samples(file: Path, count: int, length: int = 10) -> Path:
    with zipfile.ZipFile(file, "w") as opened:
        for number in range(count):
            said = [{"id": "m", "role": "user", "content": f"{number} ".ljust(length, "x")}]
            opened.writestr(f"samples/{number}_epoch_1.json", json.dumps({"id": number, "epoch": 1, "messages": said}))
        opened.writestr("header.json", json.dumps({"version": 2, "eval": {"eval_id": "e", "task": "t"}}))
    return file


def while_merging(act: Callable[[], object]) -> Callable[[int, int, str], None]:
    """Return what is called with how far an import is, and does something once the first session comes in."""
    left = [act]

    def tell(done: int, total: int, what: str) -> None:
        if " of " in what and left:
            left.pop()()

    return tell


def turns(store: Repository) -> dict[str, list[str]]:
    return {record.id: [turn.text for turn in store.load(record.id).turns] for record in store}


def test_the_record_of_each_session_counts_the_lines_of_the_whole_file_that_were_refused(
    memory: Repository, tmp_path: Path
) -> None:
    file = tmp_path / "m.jsonl"
    file.write_text("".join(record(number) for number in range(_SESSIONS)) + "no JSON\n" + record(_SESSIONS) + "[1]\n")
    report = import_path(memory, file)
    assert [problem.line for problem in report.problems] == [51, 53]
    rows = memory.query("imported-sessions").to_dicts()  # type: ignore[union-attr] # a SELECT
    assert [row["refused"] for row in rows] == [2] * 51


def test_records_that_say_the_same_are_sessions_of_their_own_however_far_apart(
    memory: Repository, tmp_path: Path
) -> None:
    file = tmp_path / "m.jsonl"
    file.write_text("".join(record(number) for number in [*range(_SESSIONS), 0, 3, 0]))
    report = import_path(memory, file)
    assert len(report.sessions_created) == 53
    assert report.notes == ["3 record(s) say the same as one before, and are sessions of their own"]
    assert import_path(memory, file).turns_added == 0


def test_what_is_written_behind_a_file_while_it_is_read_comes_with_the_next_import(
    memory: Repository, tmp_path: Path
) -> None:
    file = conversations(tmp_path / "m.jsonl", _SESSIONS)

    def grow() -> None:
        with file.open("a") as opened:
            opened.write(record(_SESSIONS))

    report = import_path(memory, file, progress=while_merging(grow))
    assert (len(report.sessions_created), report.problems) == (50, [])
    assert len(import_path(memory, file).sessions_created) == 1


@pytest.mark.parametrize("make", [conversations, samples])
@pytest.mark.parametrize("how", ["cut", "written anew"])
@pytest.mark.sample(1)
def test_a_file_that_is_changed_while_it_is_read_is_named_and_the_next_import_brings_the_rest(
    memory: Repository, tmp_path: Path, make: Callable[[Path, int, int], Path], how: str
) -> None:
    file = make(tmp_path / "file.jsonl", _SESSIONS, 10_000)  # more than is read at once
    whole = file.read_bytes()

    def change() -> None:
        with file.open("r+b") as opened:
            opened.truncate(len(whole) // 2)
            if how == "written anew":
                opened.seek(0)
                opened.write(b"\0" * len(whole))

    report = import_path(memory, file, progress=while_merging(change))
    assert {problem.file for problem in report.problems} == {str(file)}
    assert report.problems[-1].reason.startswith("was changed while it was read")
    assert 0 < len(report.sessions_created) < _SESSIONS
    file.write_bytes(whole)
    again = import_path(memory, file)
    assert again.problems == []
    assert len(again.sessions_created) == _SESSIONS - len(report.sessions_created)
    with trails.open(":memory:") as undisturbed:
        import_path(undisturbed, file)
        assert turns(memory) == turns(undisturbed)
        assert len(turns(memory)) == _SESSIONS


@pytest.mark.slow
@pytest.mark.parametrize("make", [conversations, samples])
def test_what_an_import_holds_in_memory_does_not_grow_with_the_file(
    place: Path, tmp_path: Path, make: Callable[[Path, int, int], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_MOST", 5_000)  # what may wait to be brought into the engine

    def peak(count: int) -> int:
        file = make(tmp_path / str(count), count, 40_000)
        with trails.open(place / str(count), create=True) as store:
            tracemalloc.start()
            try:
                report: ImportReport = import_path(store, file)
                return tracemalloc.get_traced_memory()[1] * (len(report.sessions_created) == count)
            finally:
                tracemalloc.stop()

    place.mkdir()
    peak(1)  # what is made once
    assert 0 < peak(300) < peak(100) + 3_000_000  # of 8 MB or 16 MB that are more in the file
