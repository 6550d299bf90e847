"""A table that is damaged is named before the engine gets it, and no query over one goes on for ever."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from errno import EACCES, EIO, EMFILE, ENOENT
from pathlib import Path

import pytest

import trails
from tests.support.flipped import flip
from tests.support.places import ROOT
from trails import StoreFailed
from trails.store.doctor import doctor
from trails.store.tables import Tables

_COUNT = "SELECT (COUNT(*) AS ?n) { GRAPH ?g { ?turn prov:value ?said } }"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A store that was closed in good order, without the index that answers in the engine's place."""
    place = tmp_path / "s.trails"
    with trails.open(place, create=True) as store:
        session = store.create(id="plan")
        for number in range(300):
            session.append("user", f"{number} {os.urandom(40).hex()}")
        session.persist()
    shutil.rmtree(place / "index")
    return place


def _tables(place: Path) -> list[Path]:
    return sorted((place / "quads").glob("*.sst"), key=lambda each: each.stat().st_size)


@pytest.mark.parametrize("read_only", [False, True], ids=["to write", "to read"])
def test_one_bit_of_any_table_is_told_when_the_store_is_opened(place: Path, tmp_path: Path, read_only: bool) -> None:
    tables = _tables(place)
    assert len(tables) > 5
    for table in tables:
        at = table.stat().st_size // 3
        flip(table, at)
        with pytest.raises(StoreFailed, match=rf"{table.name} is damaged"):
            trails.open(place, read_only=read_only)
        flip(table, at)  # it has another time, and the bytes that were written
        mended = shutil.copytree(place, tmp_path / table.stem)  # an engine that has a store merges its tables
        with trails.open(mended, read_only=read_only) as store:
            assert len(store.load("plan").turns) == 300


def test_a_damage_that_is_there_when_a_store_was_opened_and_closed_again_is_not_taken_for_what_was_written(
    place: Path,
) -> None:
    damaged = _tables(place)[-1]
    with trails.open(place) as store:
        store.create(id="other").persist()
        when = damaged.stat()
        flip(damaged, when.st_size // 3)
        os.utime(damaged, ns=(when.st_atime_ns, when.st_mtime_ns))
    os.utime(damaged)
    with pytest.raises(StoreFailed, match=rf"{damaged.name} is damaged"):
        trails.open(place)


def test_a_copy_of_a_store_opens_though_all_its_files_are_new(place: Path, tmp_path: Path) -> None:
    shutil.copytree(place, tmp_path / "copy", copy_function=shutil.copyfile)
    with trails.open(tmp_path / "copy") as store:
        assert len(store.load("plan").turns) == 300


def test_of_a_store_whose_process_was_killed_nothing_is_known_so_that_no_table_is_taken_for_an_older_one(
    place: Path,
) -> None:
    program = f"import os, trails; store = trails.open({str(place)!r}); store.store.vacuum(); os._exit(9)"
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False).returncode == 9
    assert not (place / "quads" / "tables.json").exists()
    with trails.open(place) as store:
        assert len(store.load("plan").turns) == 300


def test_doctor_finds_a_damage_too_also_where_the_time_of_the_table_was_put_back(place: Path) -> None:
    table = _tables(place)[-1]
    when = table.stat()
    assert all(check.ok for check in doctor(place) if check.name == "opens")
    flip(table, when.st_size // 3)
    os.utime(table, ns=(when.st_atime_ns, when.st_mtime_ns))
    (opens,) = [check for check in doctor(place) if check.name == "opens"]
    assert not opens.ok
    assert f"{table} is damaged" in opens.message


@pytest.mark.parametrize(("number", "told"), [(EIO, True), (EMFILE, False), (ENOENT, False), (EACCES, False)])
def test_of_a_table_that_cannot_be_read_only_the_disk_is_blamed(
    place: Path, monkeypatch: pytest.MonkeyPatch, number: int, told: bool
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    known = Tables(place / "quads")
    monkeypatch.setattr("trails.store.tables.sum_of", refuse)
    assert ("the disk does not give the table" in str(known.damage())) is told


_ONCE = """
import resource, sys, threading, time, trails
from pathlib import Path
from tests.store.test_tables import _COUNT, _tables
from tests.support.flipped import flip
resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))  # it would take all that there is
store = trails.open(Path(sys.argv[1]))
time.sleep(2)  # the engine puts tables together after it was opened
places = [(table, table.stat().st_size * tenth // 10) for table in _tables(Path(sys.argv[1])) for tenth in range(1, 7)]
for place in places:
    flip(*place)
def come_round():
    time.sleep(0.7)
    for place in places:
        flip(*place)
threading.Thread(target=come_round).start()
store.query(_COUNT)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="what a thread reads is told by Linux alone")
def test_a_query_that_would_never_end_over_a_disk_that_failed_once_ends_with_an_error(place: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _ONCE, str(place)], cwd=ROOT, check=False, capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 1
    assert re.search(r"StoreFailed: .*restore a backup", ended.stderr)


_LATE = """
import contextlib, sys, time, trails
from pathlib import Path
from tests.store.test_tables import _COUNT, _tables
from tests.support.flipped import flip
place = Path(sys.argv[1])
store = trails.open(place, read_only=sys.argv[2] == "to read")
seen = None
while (now := _tables(place)) != seen:  # the engine puts tables together after it was opened
    seen = now
    time.sleep(0.5)
for table in seen:
    with contextlib.suppress(FileNotFoundError):  # the engine has just put others in its place
        for tenth in range(1, 7):
            flip(table, table.stat().st_size * tenth // 10)
store.query(_COUNT)
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["to write", pytest.param("to read", marks=pytest.mark.slow)])
def test_a_query_that_would_never_end_over_a_damage_ends_with_an_error(place: Path, how: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _LATE, str(place), how],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 1
    assert re.search(r"StoreFailed: .*restore a backup", ended.stderr)
