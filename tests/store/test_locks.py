"""One process owns a store, whatever happens to its lock file, and a store is whole in its own folder."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import trails
from trails import InvalidInput, StoreFailed, StoreLocked, TrailsError, files
from trails.session import restore
from trails.store import doctor, lockfile, maintenance
from trails.store.lockfile import LockFile, unlocked


@pytest.fixture(scope="module")
def filled_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed store with one turn."""
    path = tmp_path_factory.mktemp("filled") / "store"
    with trails.open(path, create=True, durability="process") as store:
        session = store.create(id="s")
        session.append("user", "hello")
        session.persist()
    return path


def spoil(place: Path, how: str) -> None:
    (place / "lock").unlink()
    if how == "replaced":
        (place / "lock").touch()


@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_a_store_whose_lock_file_goes_away_stays_its_owner_s_and_nothing_of_it_is_touched(
    place: Path, tmp_path: Path, how: str
) -> None:
    with trails.open(place) as store:
        spoil(place, how)
        (place / "quads.new").mkdir()  # as a vacuum that is going on has it
        other = subprocess.run(
            [sys.executable, "-c", "import sys, trails; trails.open(sys.argv[1])", str(place)],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert "StoreLocked" in other.stderr
        assert (place / "quads.new").is_dir()
        for attempt in (lambda: trails.open(place), lambda: restore.restore_store(place, tmp_path / "copy")):
            with pytest.raises(StoreLocked, match="is in use by another process"):
                attempt()
        [lock] = [check for check in doctor.doctor(place) if check.name == "lock"]
        assert not lock.ok
        (place / "quads.new").rmdir()
        assert store.load("s").turns[0].content == "hello"
    with trails.open(place) as store:
        assert store.verify().ok


def test_a_lock_file_that_is_replaced_just_before_it_is_locked_is_not_taken_for_the_one_that_is_there(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock: Any = fcntl.flock
    replaced: list[int] = []

    def replace_first(descriptor: int, kind: int) -> None:
        if not replaced:
            replaced.append(descriptor)
            spoil(place, "replaced")
        flock(descriptor, kind)

    monkeypatch.setattr(fcntl, "flock", replace_first)
    lock = LockFile(place / maintenance.LOCK)
    with pytest.raises(StoreLocked, match=f"process {os.getpid()}"), unlocked(place / maintenance.LOCK):
        pass
    lock.release()
    lock.release()
    with unlocked(place / maintenance.LOCK):
        pass


def test_where_a_folder_cannot_be_locked_the_file_s_lock_is_all_there_is(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock: Any = fcntl.flock

    def no_folders(descriptor: int, kind: int) -> None:
        if os.path.samestat(os.fstat(descriptor), place.stat()):
            raise OSError(9, "Bad file descriptor")
        flock(descriptor, kind)

    monkeypatch.setattr(fcntl, "flock", no_folders)
    with trails.open(place), pytest.raises(StoreLocked):
        trails.open(place)


def test_a_backup_is_read_without_a_lock_file_and_none_is_made(place: Path, tmp_path: Path) -> None:
    (place / "lock").unlink()
    restore.restore_store(place, tmp_path / "copy")
    assert not (place / "lock").exists()


def test_of_many_who_open_a_store_whose_lock_file_is_deleted_again_and_again_one_gets_it(place: Path) -> None:
    holders, most = list[int](), list[int]()
    end = threading.Event()

    def take() -> None:
        for _ in range(100):
            try:
                lock = LockFile(place / maintenance.LOCK)
            except StoreLocked:
                continue
            holders.append(1)
            time.sleep(0.0005)
            most.append(len(holders))
            holders.pop()
            lock.release()

    def delete() -> None:
        while not end.is_set():
            (place / "lock").unlink(missing_ok=True)

    deleting = threading.Thread(target=delete)
    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in (deleting, *threads):
        thread.start()
    for thread in threads:
        thread.join()
    end.set()
    deleting.join()
    assert set(most) == {1}


class Time:
    """A clock that goes on only while somebody sleeps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.pauses = 0.0, list[float]()
        self.events: dict[int, Any] = {}
        monkeypatch.setattr(lockfile, "monotonic", lambda: self.now)
        monkeypatch.setattr(lockfile, "sleep", self.sleep)

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds
        self.events.get(len(self.pauses), lambda: None)()


@pytest.fixture
def time_(monkeypatch: pytest.MonkeyPatch) -> Time:
    return Time(monkeypatch)


def test_a_second_writer_has_the_store_once_the_first_one_closes_it(place: Path, time_: Time) -> None:
    first = trails.open(place)
    time_.events[3] = first.close
    with trails.open(place, timeout=5) as second:
        assert second.load("s").turns[0].content == "hello"
    assert len(time_.pauses) == 3


@pytest.mark.parametrize(("timeout", "waited"), [(5, 5.0), (2.5, 2.5), (0, 0.005)])
def test_a_second_writer_waits_as_long_as_it_says_and_is_then_told_who_has_the_store(
    place: Path, time_: Time, timeout: float, waited: float
) -> None:
    with trails.open(place), pytest.raises(StoreLocked, match=f"process {os.getpid()}") as told:
        trails.open(place, timeout=timeout)
    assert round(time_.now, 6) == waited
    assert min(time_.pauses[:-1], default=0.005) >= 0.005  # it does not keep the processor busy
    assert max(time_.pauses) <= 0.1
    assert ("it was waited for" in str(told.value)) == (timeout > 0)


@pytest.mark.parametrize(("environment", "waited"), [("1.5", 1.5), ("", 5.0), (None, 5.0)])
def test_the_environment_says_how_long_else_it_is_five_seconds(
    place: Path, time_: Time, monkeypatch: pytest.MonkeyPatch, environment: str | None, waited: float
) -> None:
    if environment is None:
        monkeypatch.delenv("TRAILS_TIMEOUT")
    else:
        monkeypatch.setenv("TRAILS_TIMEOUT", environment)
    with trails.open(place), pytest.raises(StoreLocked):
        trails.open(place)
    assert round(time_.now, 6) == waited


def test_ctrl_c_ends_the_wait_and_leaves_nothing_locked(place: Path, time_: Time) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    time_.events[2] = interrupt
    with trails.open(place), pytest.raises(KeyboardInterrupt):
        trails.open(place, timeout=5)
    trails.open(place).close()


@pytest.mark.parametrize("timeout", [-1, float("nan"), float("inf"), "soon", True])
def test_a_timeout_that_is_no_number_of_seconds_is_refused(place: Path, timeout: Any) -> None:
    with pytest.raises(InvalidInput, match="timeout is a number of seconds"):
        trails.open(place, timeout=timeout)


def test_whoever_only_reads_waits_for_nobody(place: Path, time_: Time) -> None:
    with trails.open(place), trails.open(place, read_only=True, timeout=5) as view:
        assert len(view) == 1
    assert time_.now == 0


@pytest.mark.parametrize("name", ["quads", "quads.old"])
def test_a_store_part_of_which_is_a_link_elsewhere_is_refused_before_anything_is_touched(
    place: Path, tmp_path: Path, name: str
) -> None:
    disk = tmp_path / "disk"
    (place / "quads").rename(disk)
    (place / name).symlink_to(disk)
    before = {path: path.read_bytes() for path in disk.iterdir()}
    with pytest.raises(StoreFailed, match=f"its '{name}' is a link to {disk}"):
        trails.open(place)
    assert {path: path.read_bytes() for path in disk.iterdir()} == before
    (place / name).unlink()
    disk.rename(place / "quads")
    place.rename(tmp_path / "elsewhere")
    place.symlink_to(tmp_path / "elsewhere")
    with trails.open(place) as store:  # a link to the whole store is welcome
        store.maintenance.vacuum()
        assert store.verify().ok


def _names(place: Path) -> list[str]:
    with trails.open(place, create=True) as store:
        session = store.create(id="s")
        session.append("user", "Where to?")
        session.persist()
        store.search("Where")
    return sorted(entry.name for entry in place.iterdir())


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("dangling", [False, True])
def test_no_name_in_a_stores_folder_may_be_a_link(tmp_path: Path, read_only: bool, dangling: bool) -> None:
    names = _names(tmp_path / "first")
    assert {"lock", "position", "trails.json"} <= {*names}
    for name in names:
        place, outside = tmp_path / f"store-{name}", tmp_path / f"outside-{name}"
        shutil.copytree(tmp_path / "first", place)
        (place / name).rename(outside)
        kept = {path: path.read_bytes() for path in (outside, *outside.rglob("*")) if path.is_file()}
        target = tmp_path / f"nothing-{name}" if dangling else outside
        (place / name).symlink_to(target)
        with pytest.raises(TrailsError, match=r"is a link to|is no Trails store"):
            trails.open(place, read_only=read_only)
        assert {path: path.read_bytes() for path in kept} == kept
        assert not (tmp_path / f"nothing-{name}").exists(), name


def test_a_link_that_is_put_there_after_the_look_is_not_followed(place: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    for name in ("lock", "position"):
        link = tmp_path / name
        link.symlink_to(outside)
        with pytest.raises(StoreFailed, match=f"its '{name}' is a link to"):
            files.open_own(link, os.O_RDWR | os.O_CREAT)
    assert not outside.exists()
