"""A disk that fails or is full is reported as `StoreFailed`, loses nothing acknowledged, and opening again goes on.

The faults are real: the kernel's own answer to the call (strace injects it), and a real file system that is full.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import trails
from tests.support.machines import Size
from trails import StoreFailed

_WRITER = """
import json, sys, trails
trails.open(":memory:").close()

def tell(*what):
    print(json.dumps(what), flush=True)

try:
    with trails.open(sys.argv[1]) as store:
        session = store.load("s")
        for number in range(len(session), len(session) + int(sys.argv[2])):
            session.append("user", f"turn {number}" + "x" * int(sys.argv[3]))
            session.persist()
            tell("acknowledged", number)
            if number % 7 == 3:
                store.store.flush()
    tell("closed")
except trails.StoreFailed as error:
    tell("StoreFailed", str(error))
"""


def _missing(reason: str) -> None:
    """Skip for a reason, or fail where nothing may be left out."""
    if os.environ.get("CI"):
        pytest.fail(f"{reason}, and CI must have it")
    pytest.skip(reason)


def _new_store(folder: Path) -> None:
    with trails.open(folder, create=True) as store:
        store.create(id="s").persist()


def _write(store: Path, turns: int, size: int, *, under: tuple[str, ...] = ()) -> list[list[object]]:
    """Write turns in another process and return what it told; it may only end as it means to."""
    command = [*under, sys.executable, "-c", _WRITER, str(store), str(turns), str(size)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]
    return [json.loads(line) for line in ended.stdout.splitlines()]


def _check(folder: Path, told: list[list[object]], size: int) -> None:
    """What was acknowledged is there, at most one turn more, and going on by what is there loses and doubles nothing."""
    acknowledged = [what[1] for what in told if what[0] == "acknowledged"]
    with trails.open(folder) as store:
        session = store.load("s")
        assert len(session) - len(acknowledged) in (0, 1)
        assert store.verify().ok, store.verify().findings
        wanted = [f"turn {number}" + "x" * size for number in range(len(acknowledged) + 2)]
        for content in wanted[len(session) :]:
            session.append("user", content)
        session.persist()
        assert [turn.content for turn in store.load("s").turns] == wanted
        assert store.verify().ok
    with trails.open(folder) as store:
        assert store.verify().ok


@pytest.fixture
def strace() -> str:
    found = shutil.which("strace")
    if found is None:
        _missing("strace is not installed (on Debian and Ubuntu: apt-get install strace)")
    assert found is not None
    return found


@pytest.mark.slow
def test_a_failing_sync_is_reported_whichever_sync_it_is(tmp_path: Path, strace: str, size: Size) -> None:
    """Each sync of a run fails once: the fifth, say, of the calls to fdatasync (SQLite's) or to fsync (the engine's).

    SQLite ignores the failure of one of its own: that of the folder, when its log is new.
    """
    failed = 0
    turns, of_ours, of_all, at_least = {"quick": (10, 3, 1, 2), "all": (10, 15, 6, 14), "long": (40, 40, 30, 35)}[size]
    for call, last in (("fdatasync", of_ours), ("fsync", of_all)):
        for when in range(1, last + 1):
            store = tmp_path / f"{call}{when}"
            _new_store(store)
            rule = f"inject={call}:error=EIO:when={when}"
            told = _write(
                store, turns, 10, under=(strace, "-f", "-qq", "-o", os.devnull, "-e", f"trace={call}", "-e", rule)
            )
            last_word = told[-1][0]
            assert last_word in ("StoreFailed", "closed"), (call, when, told)
            if last_word == "StoreFailed":
                failed += 1
            else:  # nothing was lost by the time that nothing more was asked for
                assert len(told) == turns + 1, (call, when, told)
            _check(store, told, 10)
            shutil.rmtree(store)
    assert failed >= at_least


def test_a_commit_whose_sync_failed_is_refused_and_the_next_one_writes_it_with_its_own(
    tmp_path: Path, strace: str
) -> None:
    """SQLite writes the pages of the log again that the system may have forgotten, and syncs them."""
    _new_store(tmp_path / "s")
    code = """
import sys, trails
store = trails.open(sys.argv[1])
session = store.load("s")
for text in ("one", "two"):
    session.append("user", text)
    try:
        session.persist()
        print("acknowledged")
    except trails.StoreFailed:
        print("refused")
store.close()
"""
    rule = "inject=fdatasync:error=EIO:when=1"
    log = ("-P", str(tmp_path / "s" / "trails.db-wal"))
    command = [strace, "-f", "-qq", "-o", os.devnull, *log, "-e", "trace=fdatasync", "-e", rule]
    ended = subprocess.run(
        [*command, sys.executable, "-c", code, str(tmp_path / "s")], capture_output=True, text=True, check=True
    )
    assert ended.stdout.split() == ["refused", "acknowledged"]
    with trails.open(tmp_path / "s") as store:
        assert [turn.content for turn in store.load("s").turns] == ["one", "two"]
        assert store.verify().ok


_CALLS = """
import os, sys, trails
with trails.open(sys.argv[1], durability=sys.argv[2]) as store:
    session = store.load("s")
    for number in range(20):
        session.append("user", f"turn {number}")
        session.persist()
        os.write(1, b"acknowledged\\n")
"""


@pytest.mark.parametrize(("durability", "is_synced"), [("disk", True), ("process", False)])
def test_what_is_acknowledged_is_synced_before(tmp_path: Path, strace: str, durability: str, is_synced: bool) -> None:
    """The order of system calls: each write to SQLite's log is followed by a sync before the commit is acknowledged."""
    _new_store(tmp_path / "s")
    trace = tmp_path / "trace"
    command = [strace, "-f", "-y", "-qq", "-o", str(trace), "-e", "trace=pwrite64,write,fdatasync,fsync"]
    subprocess.run(
        [*command, sys.executable, "-c", _CALLS, str(tmp_path / "s"), durability], check=True, capture_output=True
    )
    acknowledged = written = unsynced = 0
    for line in trace.read_text().splitlines():
        if "trails.db-wal>" in line and "write" in line:
            written, unsynced = written + 1, unsynced + 1
        elif "trails.db-wal>" in line and "sync(" in line:
            unsynced = 0
        elif "write(1<" in line and "acknowledged" in line:
            acknowledged += 1
            assert written >= acknowledged
            assert (unsynced == 0) is is_synced, line
    assert acknowledged == 20


def test_a_new_store_is_synced_with_its_folder_and_the_folder_above(tmp_path: Path, strace: str) -> None:
    code = "import sys, trails; trails.open(sys.argv[1], create=True).close()"
    trace = tmp_path / "trace"
    command = [strace, "-f", "-y", "-qq", "-o", str(trace), "-e", "trace=fsync,fdatasync"]
    subprocess.run([*command, sys.executable, "-c", code, str(tmp_path / "s")], check=True)
    synced = {line.partition("<")[2].partition(">")[0] for line in trace.read_text().splitlines() if "sync(" in line}
    assert {str(tmp_path), str(tmp_path / "s"), str(tmp_path / "s" / "trails.db")} <= synced


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        _missing("mounting a small file system needs root")
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "none", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        _missing(f"a small file system cannot be mounted here ({mounted.stderr.decode().strip()})")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.slow
def test_a_full_disk_is_reported_and_once_there_is_room_the_store_goes_on(small_disk: Path) -> None:
    store, size = small_disk / "store", 20_000
    _new_store(store)
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(6_000_000))  # once it is gone there is room for the index of what was written, too
    told = _write(store, 1000, size)
    assert told[-1][0] == "StoreFailed"
    assert 10 < len(told) < 1000
    assert "its disk is full" in str(told[-1][1])
    again = _write(store, 1000, size)
    assert again[-1][0] == "StoreFailed"  # still full: refused, also where it is only noticed on opening
    ballast.unlink()
    _check(store, [*told, *again], size)


def _fill(session: trails.Session) -> None:
    for number in range(1000):
        session.append("user", f"turn {number}" + "x" * 20_000)
        session.persist()


def test_a_turn_that_a_full_disk_refused_is_written_by_the_same_handle_once_there_is_room(small_disk: Path) -> None:
    _new_store(small_disk / "store")
    with trails.open(small_disk / "store") as store:
        session = store.load("s")
        (small_disk / "ballast").write_bytes(bytes(7_000_000))
        with pytest.raises(StoreFailed, match="its disk is full"):
            _fill(session)
        stored = len(store.load("s"))
        assert (session.pending, len(session)) == (1, stored + 1)
        with pytest.raises(StoreFailed, match="its disk is full"):
            session.persist()
        (small_disk / "ballast").unlink()
        assert session.persist() == 1
        assert len(store.load("s")) == stored + 1
    with trails.open(small_disk / "store") as store:
        assert len(store.load("s")) == stored + 1
        assert store.verify().ok
