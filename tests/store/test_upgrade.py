"""A store that the format before this one was written in is brought up whole, or left as it was."""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

import trails
from tests.support.places import FORMATS
from trails import InvalidInput, StoreFailed, StoreLocked
from trails.store import folders
from trails.store import upgrade as upgrading
from trails.store.upgrade import upgrade

# What the version that wrote these stores said of them: quads, SHA-256 of the sorted quads and of the log's lines, heads.
WRITTEN: dict[str, tuple[int, str, str, str]] = {
    "everything": (
        2583,
        "561b2647c57981f32d00dbf598df030e28adb9d2612f7fc7788cf32ad728f331",
        "2640793290b6479fcd93ee9f434842afdda5f38154a6c599fb01e1ba802cd413",
        "fd72c731ec479e693ebe82ba141014d5184186d257843167ac0797e93b8b8639",
    ),
    "killed": (
        2697,
        "03e520757ddd8b66eea59d98cf4f2bcba2d75e8a90d88d4b1ca9a577e1f06cf8",
        "568c4afd303bcdc85feec31e41b9b90446d038d17f4d2a69f91eefa77d9cfe70",
        "e977f8cb012a20fc42902b3a909e6a2d17456a52840cd51126b5bf0703a33314",
    ),
}


@pytest.fixture(params=WRITTEN)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Stores of format 3 with something of every kind: one that was closed, and one whose process was killed."""
    return unpack(request.param, tmp_path)


def unpack(name: str, folder: Path) -> Path:
    with tarfile.open(FORMATS / f"{name}.tar.xz") as tar:
        tar.extractall(folder, filter="data")
    return folder / name


_DERIVED = re.compile(rb"^<[^>]*> <https://w3id\.org/trails#(?:previousTurn|parent_session_id|forked_at_index)> ")


def facts(place: Path, work: Path) -> tuple[int, str, str, str]:
    with trails.open(place, read_only=True) as store:
        store.maintenance.dump(work / "dump.nq.gz", replace=True)
        heads = sorted((each.id, store.load(each.id).head) for each in store.list(limit=500))
        lines = store.store.log.text()
        assert store.verify().ok
        quads = len(store.store)
    every = gzip.decompress((work / "dump.nq.gz").read_bytes()).splitlines(keepends=True)
    dump = b"".join(
        line for line in every if not _DERIVED.search(line)
    )  # stores of old had no lines of what is derived
    return quads, digest(dump), digest(lines.encode()), digest(repr(heads).encode())


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def tree(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.name not in ("lock", "LOCK"))
    return {f"{path.relative_to(folder)}": path.read_bytes() for path in files}


def test_an_upgraded_store_has_the_same_dump_log_and_heads(old: Path, tmp_path: Path) -> None:
    before = tree(old)
    done = upgrade(old)
    assert (done.before, done.after) == (3, 4)
    assert facts(old, tmp_path) == WRITTEN[old.name]
    assert {path.name for path in old.iterdir()} <= {"trails.db", "index", "locks", "trails.db-wal", "trails.db-shm"}
    assert done.backup is not None
    kept = tree(Path(done.backup))
    assert kept == {name: data for name, data in before.items() if name.split("/")[0] not in ("position", "index")}
    assert upgrade(old).backup is None  # nothing is to be done any more


def test_a_store_of_the_old_format_is_not_opened_and_the_error_names_the_command(old: Path) -> None:
    before = tree(old)
    for options in ({}, {"read_only": True}, {"create": True}):
        with pytest.raises(StoreFailed, match=f"trails store upgrade --store {old}"):
            trails.open(old, **options)  # type: ignore[arg-type] # options of various types
    assert tree(old) == before


def test_what_is_written_after_the_upgrade_goes_on_from_there(old: Path) -> None:
    upgrade(old, backup=old.parent / "kept")
    assert (old.parent / "kept" / "trails.json").is_file()
    with trails.open(old) as store:
        lines = len(store.store.log.lines())
        session = store.create(id="after")
        session.append("user", "Hello")
        session.persist()
        assert len(store.store.log.lines()) > lines
        assert store.verify().ok


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param("everything", marks=pytest.mark.slow), "killed"])
def test_a_kill_anywhere_leaves_the_old_store_or_the_new_one(name: str, tmp_path: Path) -> None:
    """The process is killed before each call that changes a file's name: afterwards an upgrade ends as if nothing had been."""
    code = """
import os, shutil, signal, sys
from pathlib import Path
from trails.store.upgrade import upgrade
left = int(sys.argv[2])
def counted(module, name):
    real = getattr(module, name)
    def call(*args, **kwargs):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **kwargs)
    setattr(module, name, call)
for module, name in ((shutil, "copytree"), (os, "rename"), (Path, "rename"), (shutil, "rmtree"), (Path, "unlink")):
    counted(module, name)
upgrade(Path(sys.argv[1]))
"""
    cuts = 0
    while True:
        folder = tmp_path / f"{cuts}"
        folder.mkdir()
        place = unpack(name, folder)
        done = subprocess.run([sys.executable, "-c", code, str(place), str(cuts)], capture_output=True, check=False)
        if done.returncode != -signal.SIGKILL:
            break
        if not folders.is_old(place):
            assert facts(place, folder) == WRITTEN[name]
        upgrade(place)
        assert facts(place, folder) == WRITTEN[name]
        assert not (place / "trails.json").exists()
        shutil.rmtree(folder)
        cuts += 1
    assert done.returncode == 0, done.stderr
    assert cuts > 10


@pytest.mark.parametrize(
    ("note", "said"),
    [
        ({"format": 1}, "Trails 0.1"),
        ({"format": 5}, "newer version"),
        ({"format": 3}, "cannot be read"),
        ({}, "cannot be read"),
    ],
)
def test_another_format_is_refused_with_what_to_do(tmp_path: Path, note: dict[str, Any], said: str) -> None:
    (tmp_path / "trails.json").write_text(f"{note}".replace("'", '"'))
    with pytest.raises(StoreFailed, match=said):
        upgrade(tmp_path)


def test_a_store_that_is_open_in_an_earlier_version_is_refused(tmp_path: Path) -> None:
    import fcntl

    place = unpack("everything", tmp_path)
    held = os.open(place / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(held, fcntl.LOCK_EX)
    with pytest.raises(StoreLocked):
        upgrade(place)
    os.close(held)
    assert upgrade(place).after == 4


def test_a_damaged_store_is_refused_and_left(tmp_path: Path) -> None:
    place = unpack("killed", tmp_path)
    segment = place / "commits" / "1"
    data = bytearray(segment.read_bytes())
    at = data.index(b"TRr\n") + 100  # amid the first record, after which others were synced
    data[at] ^= 1
    segment.write_bytes(bytes(data))
    before = tree(place)
    with pytest.raises(StoreFailed, match="damaged"):
        upgrade(place)
    assert tree(place) == before


def test_no_store_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no Trails store"):
        upgrade(tmp_path)


def test_what_is_written_is_held_against_what_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = unpack("everything", tmp_path)
    monkeypatch.setattr(upgrading, "_batches", lambda lines: (line for line in list(lines)[1:]))
    before = tree(place)
    with pytest.raises(trails.IntegrityError, match="nothing was changed"):
        upgrade(place)
    assert tree(place) == before
