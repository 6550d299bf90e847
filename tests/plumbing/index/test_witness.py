"""A great file of the index is not read whole to be believed, and whatever was done to it shows all the same."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import trails
from tests.support.flipped import flip
from tests.support.sessions import introduce, introduced
from trails.files import sum_of
from trails.plumbing.index import sidefile
from trails.plumbing.index.keeper import FIGURES, PARTS, TEXTS, Part
from trails.store import maintenance


@pytest.fixture(autouse=True)
def great(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file counts as a great one."""
    monkeypatch.setattr(sidefile, "READ_WHOLE", 0)


@pytest.fixture
def summed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are read whole, as they are."""
    names: list[str] = []
    plain = sum_of

    def noted(path: Path) -> tuple[int, int]:
        names.append(path.name)
        return plain(path)

    monkeypatch.setattr(sidefile, "sum_of", noted)
    return names


def fill(place: Path, *names: str) -> None:
    with trails.open(place, create=True, durability="process") as store:
        introduce(store, *names)


def told(place: Path, *, read_only: bool) -> Any:
    with trails.open(place, read_only=read_only) as store:
        return introduced(store)


def index_of(place: Path) -> Path:
    return place / maintenance.INDEX


def test_who_opens_or_reads_what_nobody_touched_reads_no_file_whole(place: Path, summed: list[str]) -> None:
    fill(place, "a", "b")
    summed.clear()
    assert told(place, read_only=True) == told(place, read_only=False) == (["b", "a"], ["b", "a"])
    assert summed == []


def test_a_search_by_the_program_reads_no_file_whole(place: Path, summed: list[str], run: Any) -> None:
    fill(place, "a", "b")
    summed.clear()
    assert "b" in run("search", "I am b").stdout
    assert summed == []


# --- attacks, after each of which all times of the file that anybody can put back are put back


FORGED = {FIGURES: "DELETE FROM sessions WHERE id = 'a'", TEXTS: "UPDATE sessions SET id = 'z' WHERE id = 'a'"}
"""What makes a file lie, that is otherwise as the store's log would have it."""


def forged(file: Path, part: Part, place: Path) -> Path:
    """Return a copy of a file that lies, as long as it."""
    shutil.copy2(file, place)
    with closing(sqlite3.connect(place)) as other:
        other.execute(FORGED[part])
        other.commit()
    assert place.stat().st_size == file.stat().st_size
    return place


def _copied_over(file: Path, other: Path) -> None:
    with file.open("r+b") as opened:
        opened.write(other.read_bytes())


def _in_its_place(file: Path, other: Path) -> None:
    other.replace(file)


def _cut_and_written_again(file: Path, other: Path) -> None:
    os.truncate(file, 0)
    file.write_bytes(other.read_bytes())


def _linked(file: Path, other: Path) -> None:
    file.unlink()
    os.link(other, file)


ATTACKS: dict[str, Callable[[Path, Path], None]] = {
    "other bytes in the same file": _copied_over,
    "another file in its place": _in_its_place,
    "the same file, cut and written again": _cut_and_written_again,
    "a link to another file": _linked,
}


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize("attack", ATTACKS, ids=str)
def test_what_was_done_to_a_file_shows_though_its_times_were_put_back(
    place: Path, attack: str, read_only: bool
) -> None:
    fill(place, "a", "b")
    for part in PARTS:
        file = index_of(place) / part.name
        before = file.stat()
        ATTACKS[attack](file, forged(file, part, index_of(place) / "other"))
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert told(place, read_only=read_only) == (["b", "a"], ["b", "a"])


def test_a_file_that_was_cut_is_made_anew(place: Path) -> None:
    fill(place, "a", "b")
    for part in PARTS:
        file = index_of(place) / part.name
        os.truncate(file, file.stat().st_size // 2)
    assert told(place, read_only=True) == told(place, read_only=False) == (["b", "a"], ["b", "a"])


def test_an_older_file_with_an_older_seal_is_brought_up_to_date(place: Path, tmp_path: Path) -> None:
    fill(place, "a")
    index_of(place).rename(tmp_path / "older")  # which changes none of its files
    fill(place, "b")
    shutil.rmtree(index_of(place))
    (tmp_path / "older").rename(index_of(place))
    assert told(place, read_only=True) == told(place, read_only=False) == (["b", "a"], ["b", "a"])


def test_a_file_has_a_witness_only_where_the_clock_moved_on_since_its_last_change(
    place: Path, monkeypatch: pytest.MonkeyPatch, summed: list[str]
) -> None:
    monkeypatch.setattr(sidefile, "_now_by", lambda _: 0)  # a file system whose clock stands still
    fill(place, "a")
    summed.clear()
    told(place, read_only=True)
    assert sorted(summed) == [part.name for part in PARTS]


# --- copies


def test_a_copy_is_read_whole_until_its_owner_opens_it(place: Path, tmp_path: Path, summed: list[str]) -> None:
    fill(place, "a", "b")
    copy = tmp_path / "copy"
    shutil.copytree(place, copy)  # which gives each file its times
    for read_only, expected in (
        (True, [part.name for part in PARTS]),
        (True, [part.name for part in PARTS]),
        (False, sorted([part.name for part in PARTS] * 2)),  # and once more, from when its clock has moved on
        (True, []),
        (False, []),
    ):
        summed.clear()
        assert told(copy, read_only=read_only) == (["b", "a"], ["b", "a"])
        assert sorted(summed) == expected


def test_a_file_is_on_disk_before_it_is_said_to_be_what_was_summed_up(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(place, "a")
    done: list[tuple[str, str]] = []
    plain = Path.rename

    def renamed(path: Path, to: Path) -> Path:
        done.append(("sealed", to.stem))
        return plain(path, to)

    monkeypatch.setattr(sidefile, "_synced", lambda path: done.append(("synced", path.name)))
    monkeypatch.setattr(Path, "rename", renamed)
    fill(place, "b")
    for part in PARTS:
        last = max(at for at, each in enumerate(done) if each == ("sealed", Path(part.name).stem))
        assert ("synced", part.name) in done[:last]


# --- what only reading it shows


def _flipped_by_the_disk(file: Path, at: int | None = None) -> None:
    """Change a byte as a disk does that fails: the file system knows of nothing, as a seal tells that has the new times."""
    flip(file, file.stat().st_size // 2 if at is None else at)
    seal = file.with_suffix(".seal")
    said, now = json.loads(seal.read_text()), file.stat()
    seal.write_text(json.dumps([*said[:6], now.st_ino, now.st_mtime_ns, now.st_ctime_ns]))


def test_the_doctor_reads_all_of_a_file(place: Path, run: Any) -> None:
    fill(place, "a")
    _flipped_by_the_disk(index_of(place) / TEXTS.name)
    checks = {check["name"]: check["message"] for check in json.loads(run("doctor", "--json").stdout)["checks"]}
    assert checks["index"].startswith("texts.db of the index is not as it was sealed")


@pytest.mark.parametrize("read_only", [True, False])
def test_verify_reads_all_of_a_file_tells_of_what_the_disk_flipped_and_goes_by_it_no_more(
    place: Path, read_only: bool
) -> None:
    fill(place, "a", "b")
    for part in PARTS:
        _flipped_by_the_disk(index_of(place) / part.name)
    with trails.open(place, read_only=read_only) as store:
        assert [finding.code for finding in store.verify().findings] == ["index-damaged"] * 2
        assert store.verify().ok
        assert introduced(store) == (["b", "a"], ["b", "a"])
    assert read_only or all(sidefile.is_sealed(index_of(place) / part.name) for part in PARTS)


@pytest.mark.parametrize("read_only", [True, False])
def test_what_turns_say_has_a_checksum_of_its_own(place: Path, read_only: bool) -> None:
    fill(place, "a", "b")
    file = index_of(place) / TEXTS.name
    with closing(sqlite3.connect(file)) as database:
        packed = [turns for (turns,) in database.execute("SELECT turns FROM runs")]
    for turns in packed:
        _flipped_by_the_disk(file, file.read_bytes().index(turns) + len(turns) // 2)
    assert told(place, read_only=read_only) == (["b", "a"], ["b", "a"])


def test_a_search_by_the_program_shows_nothing_of_what_the_disk_flipped(place: Path, run: Any) -> None:
    fill(place, "a")
    file = index_of(place) / TEXTS.name
    with closing(sqlite3.connect(file)) as database:
        ((turns,),) = database.execute("SELECT turns FROM runs")
    _flipped_by_the_disk(file, file.read_bytes().index(turns) + len(turns) // 2)
    assert "I am a" in run("search", "I am").stdout
