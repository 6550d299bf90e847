"""Vacuum, backup, restore, dump, load, upgrade and doctor: what they promise, also when they are cut short."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tarfile
import threading
import time
import tomllib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import pyoxigraph as ox
import pytest

import trails
from tests.support.commands import Run, ok
from tests.support.machines import Size
from tests.support.places import FORMATS, ROOT
from trails import IntegrityError, InvalidInput, Repository, StoreFailed, StoreLocked
from trails.history.migrations import MIGRATIONS, upgrade
from trails.rdf import vocab
from trails.session.restore import load_dump, restore_store
from trails.store import doctor as doctor_module
from trails.store import maintenance, marker
from trails.store.contract import QuadStore
from trails.store.doctor import Check, doctor
from trails.store.upgrade import Migration

GONE = "a text that was deleted"
LOST = "a text that was redacted"
KEPT = "Rhubarb & Zwieback, 7731 of them"  # unlike the others: no file holds it compressed into their words


def fill(store: Repository) -> None:
    """A session that stays with one turn redacted, its fork, and a session that was deleted."""
    kept = store.create(id="kept", principal="alice", label="the one", system="Be brief")
    kept.append("user", KEPT)
    kept.append("assistant", LOST, model="m-1", meta={"about": LOST})
    kept.append("user", "and more")
    kept.persist()
    fork = kept.fork(at=2, id="fork")
    fork.append("user", "elsewhere")
    fork.persist()
    gone = store.create(id="gone")
    gone.append("user", GONE)
    gone.persist()
    store.store.flush()
    store.delete("gone")
    store.redact("kept", 1)


@pytest.fixture(scope="module")
def filled_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a store that was filled as above and closed."""
    path = tmp_path_factory.mktemp("filled") / "store.trails"
    with trails.open(path, create=True) as store:
        fill(store)
    return path


def quads(store: Repository) -> set[ox.Quad]:
    return set(store.store.quads((None, None, None, None)))


def holding(folder: Path, text: str) -> list[str]:
    """The files below a folder that hold a text, whatever they are."""
    found = []
    for file in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # an open engine drops files as it goes
            if file.is_file() and text.encode() in file.read_bytes():
                found.append(file.name)
    return found


def tree(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


# --- vacuum


def test_after_a_vacuum_no_file_of_the_store_holds_what_was_deleted_or_redacted(place: Path) -> None:
    assert holding(place, GONE)  # what the test is for: deleting alone leaves it there
    assert holding(place, LOST)
    with trails.open(place) as store:
        before = quads(store)
        report = store.maintenance.vacuum()
        assert (holding(place, GONE), holding(place, LOST)) == ([], [])
        assert report.quads == len(before)
        assert quads(store) == before
        assert store.verify().findings == ()
        session = store.load("kept")
        session.append("user", "after the vacuum")
        session.persist()
    assert (holding(place, GONE), holding(place, LOST)) == ([], [])
    assert holding(place, KEPT)
    assert {entry.name for entry in place.iterdir()} == {
        *("commits", "index", "lock", "log", "position", "quads", "trails.json")
    }
    with trails.open(place) as store:
        assert [turn.content for turn in store.load("kept").turns] == [KEPT, "", "and more", "after the vacuum"]
        assert store.verify().findings == ()


def test_a_backup_from_before_a_vacuum_still_holds_the_text(place: Path, tmp_path: Path) -> None:
    with trails.open(place) as store:
        store.maintenance.backup(tmp_path / "backup")
        store.maintenance.vacuum()
    assert holding(tmp_path / "backup", GONE)


def test_a_vacuum_makes_the_tables_of_a_store_smaller_that_grew_commit_by_commit(place: Path) -> None:
    with trails.open(place, create=True, durability="process") as store:
        session = store.create(id="s")
        for number in range(1_500):
            session.append(
                "user", f"{number} of the turns, {number * 7919 % 1500} of the words: " + "plan a trip by train " * 15
            )
            if number % 50 == 49:
                session.persist()
    with trails.open(place) as store:
        before = _bytes_of_tables(place)
        store.maintenance.vacuum()
    assert _bytes_of_tables(place) < 0.7 * before
    with trails.open(place) as store:
        assert len(store.load("s")) == 1_500


def _bytes_of_tables(place: Path) -> int:
    return sum(path.stat().st_size for path in (place / "quads").glob("*.sst"))


def test_a_vacuum_in_memory_has_nothing_to_do(memory: Repository) -> None:
    fill(memory)
    before = quads(memory)
    assert memory.maintenance.vacuum().bytes_after == 0
    assert quads(memory) == before


def test_a_vacuum_sweeps_what_a_cut_short_deletion_left(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from trails.history.removal import deletion

    with trails.open(place) as store:
        with monkeypatch.context() as patched:
            patched.setattr(deletion, "sweep_pending", lambda _: 0)
            store.delete("fork")
        assert store.store.quads((None, None, None, ox.NamedNode("urn:trails:session:fork")))
        store.maintenance.vacuum()
        assert holding(place, "elsewhere") == []


class Cut(Exception):
    """What stands for a crash."""


def cut(*_: object) -> NoReturn:
    raise Cut


def crashed_copy(place: Path, at: str) -> Path:
    """Return a copy of a store's files as a process killed at a step of vacuum leaves them."""
    copy = place.with_name(f"crashed-{at}")
    shutil.copytree(place, copy)
    new, old, now = copy / "quads.new", copy / "quads.old", copy / "quads"
    if at == "half rebuilt":
        new.mkdir()
        (new / "000009.sst").write_bytes(b"half a file")
        return copy
    engine = ox.Store(str(now))
    maintenance.rebuild(engine, copy)
    del engine
    if at == "between the renames":
        now.rename(old)
    elif at == "old not removed":
        maintenance.swap(copy)
    elif at == "old half removed":
        maintenance.swap(copy)
        next(old.glob("*.sst")).unlink()
    elif at == "new lost":
        now.rename(old)
        shutil.rmtree(new)
    else:
        assert at == "rebuilt"
    return copy


@pytest.mark.parametrize(
    "at", ["half rebuilt", "rebuilt", "between the renames", "old not removed", "old half removed", "new lost"]
)
def test_a_vacuum_that_is_cut_short_at_any_step_leaves_a_whole_store(place: Path, at: str) -> None:
    with trails.open(place) as store:
        expected = quads(store)
    copy = crashed_copy(place, at)
    with trails.open(copy) as store:
        assert quads(store) == expected
        assert store.verify().findings == ()
        assert not (copy / "quads.new").exists()
        assert not (copy / "quads.old").exists()
        session = store.load("kept")
        session.append("user", "on we go")
        session.persist()


def test_a_vacuum_goes_through_after_one_that_was_interrupted_before_the_old_files_were_gone(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with trails.open(place) as store:
        expected = quads(store)

        def interrupted(folder: Path) -> NoReturn:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(maintenance, "drop_old", interrupted)
            with pytest.raises(KeyboardInterrupt):
                store.maintenance.vacuum()
        assert (place / "quads.old").is_dir()
        store.maintenance.vacuum()
        assert not (place / "quads.old").exists()
        assert quads(store) == expected
        assert store.verify().findings == ()


@pytest.mark.slow
def test_a_process_that_is_killed_while_it_vacuums_loses_nothing(place: Path) -> None:
    with trails.open(place) as store:
        expected = quads(store)
    code = f"import trails\nwith trails.open({str(place)!r}) as s:\n print(flush=True)\n while True: s.maintenance.vacuum()"
    chance = random.Random(20261121)
    for _ in range(6):
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            child.stdout.readline()
            time.sleep(chance.uniform(0, 0.3))
            child.kill()
        with trails.open(place) as store:
            assert quads(store) == expected
            assert store.verify().findings == ()


def test_a_rebuild_that_fails_leaves_the_store_in_use(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with trails.open(place) as store:
        before = quads(store)
        monkeypatch.setattr(maintenance, "_copy_quads", full)
        with pytest.raises(StoreFailed, match=r"No space left on device.*left as it was"):
            store.maintenance.vacuum()
        monkeypatch.setattr(maintenance, "_copy_quads", lambda *_: 1)
        with pytest.raises(StoreFailed, match="with 1 quads instead of"):
            store.maintenance.vacuum()
        assert quads(store) == before
        assert not (place / "quads.new").exists()
        session = store.load("kept")
        session.append("user", "still here")
        session.persist()
    with trails.open(place) as store:
        assert store.load("kept").turns[-1].content == "still here"


def test_a_file_that_the_engine_drops_while_the_sizes_are_added_up_counts_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("1.sst", "2.sst"):
        (tmp_path / name).write_bytes(b"12345")
    listed = Path.rglob

    def dropped_meanwhile(folder: Path, pattern: str) -> list[Path]:
        found = list(listed(folder, pattern))
        (tmp_path / "1.sst").unlink()
        return found

    monkeypatch.setattr(Path, "rglob", dropped_meanwhile)
    assert maintenance.size_of(tmp_path) == 5


@pytest.mark.parametrize("renamed", [False, True])
def test_a_swap_that_fails_closes_the_store_and_the_next_opening_has_everything(
    place: Path, monkeypatch: pytest.MonkeyPatch, renamed: bool
) -> None:
    def swap(folder: Path) -> None:
        if renamed:
            (folder / "quads").rename(folder / "quads.old")
        raise Cut

    with trails.open(place) as store:
        before = quads(store)
        monkeypatch.setattr(maintenance, "swap", swap)
        with pytest.raises(Cut):
            store.maintenance.vacuum()
        with pytest.raises(StoreFailed, match="failed while writing"):
            quads(store)
    with trails.open(place) as store:
        assert quads(store) == before
        assert store.verify().findings == ()


@pytest.mark.parametrize(
    "read",
    [
        lambda store: store.query("ASK {}"),
        lambda store: store.table("SELECT ?s { ?s ?p ?o }"),
        lambda store: store.quads((None, None, None, None)),
        len,
        lambda store: store.dump(io.BytesIO()),
    ],
    ids=["query", "table", "quads", "len", "dump"],
)
def test_whoever_begins_to_read_while_a_vacuum_exchanges_the_files_waits(
    place: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[QuadStore], object]
) -> None:
    failures: list[Exception] = []
    swap = maintenance.swap

    def asked(store: QuadStore) -> None:
        try:
            read(store)
        except trails.TrailsError as error:
            failures.append(error)

    with trails.open(place) as store:
        reader = threading.Thread(target=asked, args=[store.store])

        def meanwhile(folder: Path) -> None:
            reader.start()
            reader.join(0.2)
            assert reader.is_alive() or failures
            swap(folder)

        monkeypatch.setattr(maintenance, "swap", meanwhile)
        store.maintenance.vacuum()
        reader.join()
    assert failures == []


def test_threads_read_and_write_on_through_vacuums(tmp_path: Path) -> None:
    with trails.open(tmp_path / "s", create=True, durability="disk") as store:
        session = store.create(id="s")
        session.persist()
        stop, errors, written, reads = threading.Event(), [], [0], [0]

        def guarded(step: Callable[[], None]) -> Callable[[], None]:
            def run() -> None:
                try:
                    while not stop.is_set():
                        step()
                except Exception as error:  # noqa: BLE001 - the test fails on any
                    errors.append(error)

            return run

        def write() -> None:
            session.append("user", f"turn {written[0]}")
            session.persist()
            written[0] += 1

        def read() -> None:
            found = [turn.content for turn in store.load("s").turns]
            assert found == [f"turn {number}" for number in range(len(found))]
            reads[0] += 1

        threads = [threading.Thread(target=guarded(step)) for step in (write, read, read)]
        for thread in threads:
            thread.start()
        for _ in range(5):
            time.sleep(0.05)
            store.maintenance.vacuum()
        stop.set()
        for thread in threads:
            thread.join()
        assert errors == []
        assert written[0] > 5
        assert reads[0] > 5
    with trails.open(tmp_path / "s") as store:
        assert len(store.load("s")) == written[0]
        assert store.verify().findings == ()


# --- a store whose files are not all there


@pytest.mark.parametrize("missing", ["quads", "quads/CURRENT"])
def test_a_store_without_its_files_is_refused_and_not_begun_anew(place: Path, missing: str) -> None:
    target = place / missing
    if target.is_dir():
        shutil.rmtree(target)
    else:
        target.unlink()
    left = tree(place)
    with pytest.raises(StoreFailed, match=r"is missing.*restore a backup"):
        trails.open(place)
    assert {name: data for name, data in tree(place).items() if name != "lock"} == {
        name: data for name, data in left.items() if name != "lock"
    }


# --- backup and restore


def test_a_backup_is_restored_with_everything_and_stays_as_it_was(place: Path, tmp_path: Path) -> None:
    with trails.open(place) as store:
        expected, lines = quads(store), store.store.log.lines()
        store.maintenance.backup(tmp_path / "backup")
        session = store.load("kept")
        session.append("user", "after the backup")
        session.persist()
    before = tree(tmp_path / "backup")
    report = restore_store(tmp_path / "backup", tmp_path / "restored")
    assert (report.ok, report.sessions, report.turns) == (True, 2, 4)
    assert tree(tmp_path / "backup") == before
    with trails.open(tmp_path / "restored") as store:
        assert quads(store) == expected
        assert store.store.log.lines()[: len(lines)] == lines
    assert (tmp_path / "backup").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "restored").stat().st_mode & 0o777 == 0o700


def test_a_backup_is_a_store_that_can_be_opened_where_it_stands_and_shares_nothing(place: Path, tmp_path: Path) -> None:
    with trails.open(place) as store:
        store.maintenance.backup(tmp_path / "backup")
    expected = tree(place)
    with trails.open(tmp_path / "backup") as copy:
        copy.delete("kept", children="cascade")
        copy.maintenance.vacuum()
    assert tree(place) == expected


def test_backups_under_load_are_whole(tmp_path: Path) -> None:
    with trails.open(tmp_path / "s", create=True) as store:
        session = store.create(id="s")
        session.persist()
        stop = threading.Event()

        def write() -> None:
            while not stop.wait(0.002):  # no more of them on a quick disk than on a slow one
                for number in range(3):  # three turns a commit: a backup holds all of them or none
                    session.append("user", f"turn {len(session)} ({number})", meta={"n": number})
                session.persist()

        writer = threading.Thread(target=write)
        writer.start()
        lengths = []
        for number in range(6):
            time.sleep(0.05)
            store.maintenance.backup(tmp_path / f"backup-{number}")
            lengths.append(len(store.load("s")))
        stop.set()
        writer.join()
    found = []
    for number in range(6):
        assert restore_store(tmp_path / f"backup-{number}", tmp_path / f"restored-{number}").findings == ()
        with trails.open(tmp_path / f"restored-{number}") as restored:
            found.append(len(restored.load("s")))
    assert all(length % 3 == 0 for length in found)
    assert found == sorted(found)
    assert 0 < found[-1] <= lengths[-1]
    assert found[0] < found[-1]


def test_a_backup_to_another_device_is_copied(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "stage_for", lambda folder, part: folder / maintenance.STAGE)
    with trails.open(place) as store:
        store.maintenance.backup(tmp_path / "backup")
        assert not (place / maintenance.STAGE).exists()
    assert restore_store(tmp_path / "backup", tmp_path / "restored").ok
    assert all(file.stat().st_nlink == 1 for file in (tmp_path / "backup").rglob("*") if file.is_file())


def test_a_backup_or_restore_never_goes_over_something(place: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "notes.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "empty").mkdir()
    with trails.open(place) as store:
        for taken in ("taken", "file", "store.trails"):
            with pytest.raises(InvalidInput, match=r"is there already|is inside the store"):
                store.maintenance.backup(tmp_path / taken)
        with pytest.raises(InvalidInput, match="is inside the store"):
            store.maintenance.backup(place / "backup")
        store.maintenance.backup(tmp_path / "empty")
    for taken in ("taken", "file", "store.trails"):
        with pytest.raises(InvalidInput, match="is there already"):
            restore_store(tmp_path / "empty", tmp_path / taken)
    assert {entry.name for entry in tmp_path.iterdir()} == {"taken", "file", "empty", "store.trails"}
    assert (tmp_path / "taken" / "notes.txt").read_text() == "mine"


def test_a_store_in_memory_cannot_be_backed_up_and_says_what_can(memory: Repository, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="dump it"):
        memory.maintenance.backup(tmp_path / "backup")


def test_a_store_that_is_open_is_no_backup_to_restore(place: Path, tmp_path: Path) -> None:
    with trails.open(place), pytest.raises(StoreLocked, match="in use by process"):
        restore_store(place, tmp_path / "restored")
    assert restore_store(place, tmp_path / "restored").ok  # closed, it is as good as a backup


def test_what_is_no_backup_is_refused_and_leaves_nothing(place: Path, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(InvalidInput, match="no store and no backup"):
        restore_store(tmp_path / "folder", tmp_path / "restored")
    with trails.open(place) as store:
        store.maintenance.backup(tmp_path / "backup")
    (tmp_path / "backup" / "quads" / "CURRENT").write_text("nonsense\n")
    with pytest.raises(StoreFailed, match="cannot be opened"):
        restore_store(tmp_path / "backup", tmp_path / "restored")
    assert {entry.name for entry in tmp_path.iterdir()} == {"folder", "backup", "store.trails"}


def test_a_restore_of_altered_data_reports_it(place: Path, tmp_path: Path) -> None:
    with trails.open(place) as store:
        store.maintenance.backup(tmp_path / "backup")
    log = tmp_path / "backup" / "log"
    log.write_text("".join(log.read_text().splitlines(keepends=True)[1:]))
    assert "bad-log" in {finding.code for finding in restore_store(tmp_path / "backup", tmp_path / "restored").findings}


# --- dump and load


def test_a_dump_is_sorted_n_quads_and_the_same_bytes_for_the_same_store(place: Path, tmp_path: Path) -> None:
    with trails.open(place) as store:
        count = store.maintenance.dump(tmp_path / "one.nq.gz")
        expected = quads(store)
        store.maintenance.vacuum()
        store.maintenance.dump(tmp_path / "two.nq.gz")
    lines = gzip.decompress((tmp_path / "one.nq.gz").read_bytes()).splitlines(keepends=True)
    assert count == len(lines) == len(expected)
    assert lines == sorted(lines)
    assert set(ox.parse(b"".join(lines), format=ox.RdfFormat.N_QUADS)) == expected
    assert (tmp_path / "one.nq.gz").read_bytes() == (tmp_path / "two.nq.gz").read_bytes()
    assert (tmp_path / "one.nq.gz").stat().st_mode & 0o777 == 0o600


def test_a_dump_is_loaded_into_an_equal_store(opener: Callable[[str], Repository], tmp_path: Path) -> None:
    with opener("source") as store:
        fill(store)
        hostile = store.create(id="hostile")
        for text in ("line\nbreaks\r\n\u2028", "NUL \0", 'quote " \\', "\U0001f9ed e\u0301", "\x0b\x0c\x1c\x85"):
            hostile.append("user", text)
        hostile.persist()
        expected, turns = quads(store), [turn.content for turn in hostile.turns]
        store.maintenance.dump(tmp_path / "dump.nq.gz")
    report = load_dump(tmp_path / "dump.nq.gz", tmp_path / "loaded")
    assert (report.findings, report.sessions, report.turns) == ((), 3, 9)
    with trails.open(tmp_path / "loaded") as store:
        assert quads(store) == expected
        assert [turn.content for turn in store.load("hostile").turns] == turns
        assert store.load("kept").turns[1].redacted
        store.maintenance.dump(tmp_path / "again.nq.gz")
    assert (tmp_path / "again.nq.gz").read_bytes() == (tmp_path / "dump.nq.gz").read_bytes()


def test_dumps_of_any_size_are_sorted_in_runs(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with trails.open(place) as store:
        store.maintenance.dump(tmp_path / "one.nq.gz")
        monkeypatch.setattr("trails.store.dumping._CHUNK", 300)
        seen: list[tuple[int, int, str]] = []
        store.maintenance.dump(tmp_path / "two.nq.gz", progress=lambda *step: seen.append(step))
        total = len(quads(store))
    assert (tmp_path / "one.nq.gz").read_bytes() == (tmp_path / "two.nq.gz").read_bytes()
    assert (total, total, "sorting") in seen
    assert seen[-1] == (total, total, "writing")
    assert {entry.name for entry in tmp_path.iterdir()} == {"store.trails", "one.nq.gz", "two.nq.gz"}


def test_dumps_under_load_are_whole(tmp_path: Path) -> None:
    with trails.open(tmp_path / "s", create=True, durability="process") as store:
        session = store.create(id="s")
        session.persist()
        stop = threading.Event()

        def write() -> None:
            while not stop.wait(0.002):
                for _ in range(3):
                    session.append("user", f"turn {len(session)}", meta={"k": 1})
                session.persist()

        writer = threading.Thread(target=write)
        writer.start()
        for number in range(5):
            time.sleep(0.05)
            store.maintenance.dump(tmp_path / f"{number}.nq.gz")
        stop.set()
        writer.join()
    for number in range(5):
        report = load_dump(tmp_path / f"{number}.nq.gz", tmp_path / f"loaded-{number}")
        assert report.findings == ()
        assert report.turns % 3 == 0


def test_a_dump_never_goes_over_a_file_unless_told_to(place: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    with trails.open(place) as store:
        with pytest.raises(InvalidInput, match="is there already"):
            store.maintenance.dump(tmp_path / "taken")
        assert (tmp_path / "taken").read_text() == "mine"
        store.maintenance.dump(tmp_path / "taken", replace=True)
    assert (tmp_path / "taken").read_bytes()[:2] == b"\x1f\x8b"


def test_a_dump_may_be_loaded_unpacked_and_into_an_empty_store_or_folder(place: Path, tmp_path: Path) -> None:
    with trails.open(place) as store:
        store.maintenance.dump(tmp_path / "dump.nq.gz")
    (tmp_path / "dump.nq").write_bytes(gzip.decompress((tmp_path / "dump.nq.gz").read_bytes()))
    trails.open(tmp_path / "empty store", create=True).close()
    (tmp_path / "empty folder").mkdir()
    for name in ("empty store", "empty folder", "new"):
        assert load_dump(tmp_path / "dump.nq", tmp_path / name).ok
        with trails.open(tmp_path / name) as store:
            assert store.load("kept").turns[0].content == KEPT
    names = {"store.trails", "dump.nq", "dump.nq.gz", "empty store", "empty folder", "new"}
    assert {entry.name for entry in tmp_path.iterdir()} == names


def test_a_dump_is_not_loaded_over_anything(place: Path, tmp_path: Path) -> None:
    with trails.open(place) as store:
        store.maintenance.dump(tmp_path / "dump.nq.gz")
    with pytest.raises(InvalidInput, match="is not empty; load into a new one"):
        load_dump(tmp_path / "dump.nq.gz", place)
    with trails.open(place), pytest.raises(StoreLocked):
        load_dump(tmp_path / "dump.nq.gz", place)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "notes.txt").write_text("mine")
    with pytest.raises(InvalidInput, match="is there already"):
        load_dump(tmp_path / "dump.nq.gz", tmp_path / "folder")
    with trails.open(place) as store:
        assert store.load("kept").turns[0].content == KEPT
    assert (tmp_path / "folder" / "notes.txt").read_text() == "mine"


def _cut_in_half(data: bytes) -> bytes:
    return data[: len(data) // 2]


def _other_text(data: bytes) -> bytes:
    return gzip.compress(gzip.decompress(data).replace(KEPT.encode(), b"a text that was put there"))


def _one_line_less(data: bytes) -> bytes:
    lines = gzip.decompress(data).splitlines(keepends=True)
    return gzip.compress(b"".join(line for line in lines if b"#role>" not in line))


def _no_record_of_the_redaction(data: bytes) -> bytes:
    lines = gzip.decompress(data).splitlines(keepends=True)
    return gzip.compress(b"".join(line for line in lines if b"deletion>" not in line))


def _not_rdf(_: bytes) -> bytes:
    return b"What is this?\n"


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (_cut_in_half, InvalidInput),
        (_not_rdf, InvalidInput),
        (_other_text, IntegrityError),
        (_one_line_less, IntegrityError),
        (_no_record_of_the_redaction, IntegrityError),
    ],
)
def test_a_dump_that_is_spoilt_leaves_nothing(
    place: Path, tmp_path: Path, spoil: Callable[[bytes], bytes], error: type[Exception]
) -> None:
    with trails.open(place) as store:
        store.maintenance.dump(tmp_path / "dump.nq.gz")
    spoilt = tmp_path / "spoilt.nq.gz"
    spoilt.write_bytes(spoil((tmp_path / "dump.nq.gz").read_bytes()))
    trails.open(tmp_path / "empty", create=True).close()
    for name in ("new", "empty"):
        with pytest.raises(error, match="nothing was loaded"):
            load_dump(spoilt, tmp_path / name)
    names = {"store.trails", "dump.nq.gz", "spoilt.nq.gz", "empty"}
    assert {entry.name for entry in tmp_path.iterdir()} == names


# --- where a store is


def test_a_store_that_was_named_by_a_relative_path_stays_where_it_is_when_the_working_folder_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine follows a relative path into the other folder: vacuum, flush and backup destroyed the store there."""
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        with trails.open(tmp_path / name / "store", create=True) as store:
            session = store.create(id=name)
            session.append("user", f"kept {name}")
            session.persist()
    monkeypatch.chdir(tmp_path / "here")
    with trails.open("store") as store:
        assert store.store.location == str(tmp_path / "here" / "store")
        monkeypatch.chdir(tmp_path / "there")
        store.maintenance.vacuum()
        store.store.flush()
        store.maintenance.backup("copy")
        session = store.load("here")
        session.append("user", "more")
        session.persist()
    for name, count in (("here", 2), ("there", 1)):
        with trails.open(tmp_path / name / "store") as store:
            assert len(store.load(name)) == count
            assert store.verify().ok
    with trails.open(tmp_path / "there" / "copy") as copy:
        assert [record.id for record in copy.list()] == ["here"]


def test_a_tilde_at_the_start_of_a_path_is_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    trails.open("~/agent.trails", create=True).close()
    assert (tmp_path / "agent.trails" / "trails.json").is_file()


# --- formats


def unpacked(tmp_path: Path, name: str) -> Path:
    """A stored database, unpacked."""
    with tarfile.open(FORMATS / f"{name}.tar.gz") as tar:
        tar.extractall(tmp_path, filter="data")
    return tmp_path / name


def test_there_is_a_stored_database_of_every_format() -> None:
    assert {path.name for path in FORMATS.glob("*.tar.gz")} >= {
        f"format-{n}.tar.gz" for n in range(1, marker.FORMAT + 1)
    }


def test_a_store_of_format_1_is_brought_up_and_has_all_that_was_put_in(tmp_path: Path) -> None:
    stored = unpacked(tmp_path, "format-1")
    before = (stored / "log").read_text()
    with pytest.raises(StoreFailed, match=r"has format 1, .*trails store upgrade --store"):
        trails.open(stored)
    report = upgrade(stored)
    assert (report.before, report.after, report.notes) == (1, 3, ())
    assert (stored / "log").read_text() == before  # checkpoints of it hold on
    holds_what_was_put_in(stored)


def test_a_store_of_format_2_opens_with_all_that_was_put_in(tmp_path: Path) -> None:
    holds_what_was_put_in(unpacked(tmp_path, "format-2"))


def test_a_store_of_format_3_opens_with_all_that_was_put_in(tmp_path: Path) -> None:
    stored = unpacked(tmp_path, "format-3")
    with trails.open(stored) as store:
        assert "older" not in store.info()
    holds_what_was_put_in(stored, tool="weather")


def test_a_store_of_format_2_stays_one_while_it_is_only_read_and_then_says_how_far_it_was(tmp_path: Path) -> None:
    stored = unpacked(tmp_path, "format-2")
    lines = (stored / "log").read_text().count("\n")
    with trails.open(stored) as store:
        assert store.verify().ok
        assert [turn.content for turn in store.load("plan").turns][:1] == ["Plan a trip"]
        assert store.info()["older"] == {"format": 2, "lines": lines, "until": None}
    assert marker.read(stored)["format"] == 2
    with trails.open(stored) as store:
        store.load("flat").detach()  # a root: nothing is written
        assert marker.read(stored)["format"] == 2
        more = store.load("plan")
        more.append("user", "More")
        more.persist()
        older = store.info()["older"]
    assert marker.read(stored)["format"] == 3
    assert (older["format"], older["lines"]) == (2, lines)
    with trails.open(stored) as store:
        assert store.verify().ok
        assert store.info()["older"] == older


def test_a_store_of_format_2_is_brought_up_after_a_backup_and_says_how_far_it_was(tmp_path: Path) -> None:
    stored = unpacked(tmp_path, "format-2")
    lines = (stored / "log").read_text().count("\n")
    report = upgrade(stored)
    assert (report.before, report.after, report.notes) == (2, 3, ())
    assert report.backup is not None
    assert marker.read(Path(report.backup))["format"] == 2
    with trails.open(stored) as store:
        assert (store.info()["older"]["format"], store.info()["older"]["lines"]) == (2, lines)
    holds_what_was_put_in(stored)


def test_a_store_of_format_1_that_was_killed_is_taken_as_it_is_found_which_the_upgrade_says(tmp_path: Path) -> None:
    """Its last turn, and then its label, were written when the process was killed, and not yet in its log."""
    stored = unpacked(tmp_path, "format-1-killed")
    report = upgrade(stored)
    assert report.notes == (
        "the store was not closed well, and 2 commits that its log lacked were taken as they were found",
    )
    with trails.open(stored) as store:
        assert store.verify().findings == ()
        late = store.load("late")
        assert ([turn.content for turn in late.turns], late.label) == (["Just in time", "Indeed"], "last")
        late.append("user", "On we go")
        late.persist()
        store.delete("late")
    holds_what_was_put_in(stored, deleted=2)


@pytest.mark.slow
def test_an_upgrade_from_format_1_that_is_killed_anywhere_leaves_the_store_as_it_was_or_brought_up(
    tmp_path: Path, size: Size
) -> None:
    code = "import sys; from pathlib import Path; from trails.history.migrations import upgrade; upgrade(Path(sys.argv[1]))"
    for name in ("format-1", "format-1-killed"):
        counted = unpacked(tmp_path / "counted", name)
        calls = "trace=rename,renameat,renameat2,fsync,fdatasync,pwrite64"
        trace = ["strace", "-f", "-qq", "-o", str(tmp_path / "trace"), "-e", calls]
        subprocess.run([*trace, sys.executable, "-c", code, str(counted)], check=True)
        count = len((tmp_path / "trace").read_text().splitlines())
        shutil.rmtree(tmp_path / "counted")
        for when in range(1, count, {"quick": count // 2, "all": count // 8, "long": 1}[size]):
            stored = unpacked(tmp_path / "killed", name)
            rule = f"inject={calls.partition('=')[2]}:signal=KILL:when={when}"
            killed = [*trace, "-e", rule, sys.executable, "-c", code, str(stored)]
            subprocess.run(killed, check=False)
            if json.loads((stored / "trails.json").read_text())["format"] == 1:
                upgrade(stored)
            holds_what_was_put_in(stored, late=name == "format-1-killed")
            shutil.rmtree(tmp_path / "killed")


def holds_what_was_put_in(stored: Path, *, deleted: int = 1, late: bool = False, tool: str = "planner") -> None:
    """Hold a store against what `tests/support/formats/make.py` puts into one, and go on with it.

    Up to format 2 a tool's answer was the agent's.
    """
    start = datetime(2026, 1, 1, 12, tzinfo=UTC)
    with trails.open(stored) as store:
        assert store.verify().findings == ()
        if late:
            store.delete("late")
            deleted += 1
        info = store.info()
        assert (info["sessions"], info["forks"], info["deleted"], info["turns"]) == (5, 1, deleted, 4 + 2 + 3 + 3)
        plan = store.load("plan")
        assert (plan.principal, plan.record.agent, plan.label, plan.system) == ("alice", "planner", "trip", "Be brief")
        assert (plan.record.meta, plan.record.created) == ({"project": "alps", "people": 2}, start)
        assert [turn.role for turn in plan.turns] == ["user", "assistant", "tool", "user"]
        assert [turn.time for turn in plan.turns] == [start + timedelta(seconds=n) for n in range(4)]
        assert [turn.author for turn in plan.turns] == ["alice", "planner", tool, "alice"]
        assert plan.turns[0].content == "Plan a trip"
        looked = plan.turns[1]
        assert looked.content[0] == {"type": "text", "text": "I look."}
        assert (looked.model, looked.usage) == ("m-1", {"input_tokens": 10, "output_tokens": 5, "cost": 0.01})
        assert [(c.id, c.name, c.input) for c in looked.tool_calls] == [("c1", "weather", {"place": "Zermatt"})]
        assert [(r.call_id, r.is_error) for r in plan.turns[2].tool_results] == [("c1", False)]
        assert (plan.turns[3].redacted, plan.turns[3].content, plan.turns[3].meta) == (True, "", {})
        dinner = store.load("dinner")
        assert (dinner.principal, dinner.parent_session_id, dinner.forked_at_index) == ("bob", "plan", 3)
        assert [turn.content for turn in dinner.turns[3:]] == ["Plan a dinner \u2014 für zwei", "A trip, a dinner"]
        assert dinner.turns[3].time == start + timedelta(days=1, microseconds=123456)
        assert (dinner.turns[4].time, dinner.turns[4].compaction) == (None, trails.Compaction(summarised_through=2))
        solo, flat = store.load("solo"), store.load("flat")
        assert (solo.parent_session_id, flat.parent_session_id) == (None, None)
        assert [turn.content for turn in solo.turns][0::2] == ["Plan a trip", "Just me"]
        assert solo.head == flat.head
        assert store.record("helper").spawned_by == "plan"
        with pytest.raises(trails.SessionNotFound, match="was deleted"):
            store.load("gone")
        plan.append("user", "On we go")
        plan.persist()
    with trails.open(stored) as store:
        assert len(store.load("plan")) == 5
        assert store.verify().findings == ()


def older(place: Path, number: int = 0) -> None:
    """Make a store say that it has an older format."""
    note = json.loads((place / "trails.json").read_text())
    (place / "trails.json").write_text(json.dumps(note | {"format": number}))


def test_a_store_of_an_older_format_is_refused_with_the_remedy(place: Path) -> None:
    older(place)
    with pytest.raises(StoreFailed, match=r"has format 0, .*trails store upgrade --store"):
        trails.open(place)


@pytest.mark.parametrize("note", ["", "[]", "{}", '{"format": "1"}', '{"format": true}', "\xff"])
def test_a_marker_that_says_no_format_is_an_error(place: Path, note: str) -> None:
    (place / "trails.json").write_bytes(note.encode("latin-1"))
    with pytest.raises(StoreFailed, match=r"trails\.json cannot be read"):
        trails.open(place)


def _rename(old: str, new: str) -> Migration:
    """A migration that gives a file beside the store another name; run again, it finds nothing to do."""

    def run(folder: Path) -> str:
        if (folder / old).exists():
            (folder / old).rename(folder / new)
        return f"{old} was renamed" if old == "a" else ""

    return Migration(f"{old} becomes {new}", run)


NOTHING = Migration("nothing", lambda _: "")


def test_an_upgrade_makes_a_backup_and_runs_the_migrations_in_order(place: Path) -> None:
    older(place, 0)
    (place / "a").write_text("data")
    before = tree(place)
    report = upgrade(place, migrations={1: _rename("b", "c"), 0: _rename("a", "b"), 2: NOTHING})
    assert (report.before, report.after, report.steps) == (0, 3, ("a becomes b", "b becomes c", "nothing"))
    assert report.notes == ("a was renamed",)
    assert (place / "c").read_text() == "data"
    assert report.backup == str(place.with_name("store.trails.format-0.backup"))
    kept = tree(Path(report.backup))
    assert kept == {
        name: data for name, data in before.items() if not name.startswith(("lock", "position", "quads/LOCK", "index"))
    }
    assert json.loads((place / "trails.json").read_text())["format"] == 3
    assert set(json.loads((place / "trails.json").read_text())) == {"format", "id", "created"}
    with trails.open(place) as store:
        assert store.verify().findings == ()
    assert upgrade(place, migrations={}).backup is None


def test_an_upgrade_that_is_cut_short_goes_on_and_keeps_its_first_backup(place: Path) -> None:
    older(place, 0)
    (place / "a").write_text("data")
    broken = {0: _rename("a", "b"), 1: Migration("breaks", cut), 2: NOTHING}
    with pytest.raises(Cut):
        upgrade(place, migrations=broken)
    with pytest.raises(StoreFailed, match="has format 1"):
        trails.open(place)
    report = upgrade(place, migrations={1: _rename("b", "c"), 2: NOTHING})
    assert (report.before, report.after) == (1, 3)
    assert report.backup is not None
    assert (Path(report.backup) / "a").read_text() == "data"
    assert [path.name for path in place.parent.glob("*.backup*")] == [Path(report.backup).name]


def test_an_upgrade_finds_a_free_place_for_its_backup(place: Path) -> None:
    place.with_name("store.trails.format-1.backup").mkdir()
    older(place, 1)
    report = upgrade(place, migrations={1: NOTHING, 2: NOTHING})
    assert report.backup == str(place.with_name("store.trails.format-1.backup-2"))


def test_a_format_without_a_way_up_or_from_the_future_is_refused(place: Path, tmp_path: Path) -> None:
    assert set(MIGRATIONS) == {1, 2}  # format 1 is the first
    older(place)
    with pytest.raises(StoreFailed, match="no migration leads from format 0 on"):
        upgrade(place)
    older(place, 4)
    with pytest.raises(StoreFailed, match="knows formats up to 3"):
        upgrade(place)
    with pytest.raises(InvalidInput, match="no Trails store"):
        upgrade(tmp_path / "nowhere")
    assert [path.name for path in tmp_path.iterdir()] == ["store.trails"]


def test_a_store_that_is_open_cannot_be_upgraded(place: Path) -> None:
    with trails.open(place), pytest.raises(StoreLocked):
        upgrade(place)


def test_a_backup_of_an_older_format_is_restored_and_says_what_it_needs(place: Path, tmp_path: Path) -> None:
    older(place, 1)
    report = restore_store(place, tmp_path / "restored")
    assert [finding.code for finding in report.findings] == ["old-format"]
    upgrade(tmp_path / "restored", migrations={1: NOTHING, 2: NOTHING})
    trails.open(tmp_path / "restored").close()


# --- doctor


def found(checks: list[Check]) -> dict[str, bool]:
    return {check.name: check.ok for check in checks}


def check(place: Path, name: str) -> Check:
    return next(each for each in doctor(place) if each.name == name)


def test_a_healthy_store_has_nothing_wrong_and_is_not_touched(place: Path) -> None:
    before = tree(place)
    checks = doctor(place)
    assert [each for each in checks if not each.ok and each.name not in ("space", "files")] == []
    assert set(found(checks)) == {
        *(
            "python",
            "engine",
            "files",
            "format",
            "space",
            "permissions",
            "leftovers",
            "lock",
            "opens",
            "log",
            "extras",
            "readers",
        )
    }
    assert tree(place) == before


def test_an_open_store_can_be_asked_about_and_its_holder_is_named(place: Path) -> None:
    with trails.open(place) as store:
        checks = doctor(place)
        assert not found(checks)["lock"]
        assert "opens" not in found(checks)  # the engine of a store that is open elsewhere is left alone
        assert f"process {os.getpid()}" in check(place, "lock").message
        code = f"import trails; trails.open({str(place)!r})"
        other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert "StoreLocked" in other.stderr  # asking did not free the lock
        engine = f"import pyoxigraph; pyoxigraph.Store({str(place / 'quads')!r})"
        other = subprocess.run([sys.executable, "-c", engine], capture_output=True, text=True, check=False)
        assert "lock" in other.stderr.lower()  # nor the engine's own
        session = store.load("kept")
        session.append("user", "x")  # it takes commits
        assert session.persist() == 1


class Usage(NamedTuple):
    total: int
    used: int
    free: int


@pytest.mark.parametrize(
    ("total", "free", "ok"),
    [(10**12, 10**11, True), (10**12, 4 * 10**10, False), (10**9, 4 * 10**8, False), (10**10, 6 * 10**8, True)],
)
def test_a_disk_that_is_nearly_full_is_found(
    place: Path, monkeypatch: pytest.MonkeyPatch, total: int, free: int, ok: bool
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(total, total - free, free))
    assert check(place, "space").ok is ok


@pytest.mark.parametrize(("soft", "ok"), [(256, False), (1023, False), (1024, True), (resource.RLIM_INFINITY, True)])
def test_a_low_limit_of_open_files_is_found(place: Path, monkeypatch: pytest.MonkeyPatch, soft: int, ok: bool) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, 4096))
    assert check(place, "files").ok is ok
    assert ok or check(place, "files").remedy.startswith("ulimit -n 4096")


@pytest.mark.parametrize(("path", "mode", "remedy"), [(".", 0o755, "chmod 700"), ("log", 0o644, "chmod 600")])
def test_files_that_others_may_read_are_found(place: Path, path: str, mode: int, remedy: str) -> None:
    (place / path).chmod(mode)
    assert not check(place, "permissions").ok
    assert remedy in check(place, "permissions").remedy


@pytest.mark.parametrize(
    ("version", "ok"), [("0.5.13", True), ("0.5.20", True), ("0.5.12", False), ("0.6.0", False), ("1.0.0", False)]
)
def test_an_engine_that_was_not_tested_is_found(
    place: Path, monkeypatch: pytest.MonkeyPatch, version: str, ok: bool
) -> None:
    monkeypatch.setattr(doctor_module, "version", lambda _: version)
    assert check(place, "engine").ok is ok


def test_a_store_that_was_not_closed_in_good_order_is_found_until_it_is_opened_again(place: Path) -> None:
    code = (
        f"import os, trails; s = trails.open({str(place)!r}); t = s.load('kept'); t.append('user', 'x'); t.persist(); "
        "os._exit(1)"
    )
    subprocess.run([sys.executable, "-c", code], check=False)
    assert not check(place, "log").ok
    assert "not closed in good order" in check(place, "log").message
    trails.open(place).close()
    assert check(place, "log").ok


def test_a_log_that_was_altered_is_found(place: Path) -> None:
    lines = (place / "log").read_text().splitlines(keepends=True)
    (place / "log").write_text("".join([lines[0], *lines[2:]]))
    assert "line 2 of the log" in check(place, "log").message


def test_a_store_that_cannot_be_opened_is_found(place: Path) -> None:
    (place / "quads" / "CURRENT").write_text("nonsense\n")
    assert not check(place, "opens").ok
    (place / "quads" / "CURRENT").unlink()
    assert "CURRENT is missing" in check(place, "opens").message


def test_a_vacuum_that_was_cut_short_is_found(place: Path) -> None:
    (place / "quads.new").mkdir()
    assert "quads.new" in check(place, "leftovers").message
    trails.open(place).close()
    assert check(place, "leftovers").ok


def test_an_older_format_is_found(place: Path) -> None:
    older(place)
    assert "trails store upgrade" in check(place, "format").message


def test_an_extra_that_is_not_installed_is_named_and_is_nothing_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor_module, "find_spec", lambda module: None if module in ("scipy", "pyarrow") else module)
    found = check(tmp_path, "extras")
    assert found.ok
    assert found.message == (
        "installed: checkpoint, timestamps, pandas, plot, shacl, aio, zstd, postgres, secrets, prices; "
        "not installed: arrow, stats"
    )


def test_doctor_knows_every_extra_of_the_package() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert set(doctor_module._EXTRAS) == set(declared)


def test_where_there_is_no_store_doctor_says_so(tmp_path: Path) -> None:
    assert not check(tmp_path, "store").ok
    assert list(tmp_path.iterdir()) == []


# --- the commands


@pytest.fixture
def opened(place: Path) -> Iterator[Repository]:
    with trails.open(place) as store:
        yield store


def test_redact_prints_the_turns_and_says_where_the_text_still_is(run: Run) -> None:
    done = run("redact", "the one", "0", "--yes", "--reason", "asked for")
    assert ok(done) == "kept 0\n"
    assert "until `trails store vacuum`; older backups, dumps and exports still hold it" in done.stderr
    again = run("redact", "kept", "0", "--yes", "--json")
    assert json.loads(ok(again))["turns"] == []
    assert "(redacted)" in ok(run("show", "kept"))
    ok(run("verify"))


@pytest.mark.parametrize(
    ("command", "what"), [(("redact", "kept", "0"), "redacting"), (("prune", "--keep-count", "0"), "pruning")]
)
def test_what_destroys_asks_first(run: Run, place: Path, command: tuple[str, ...], what: str) -> None:
    before = tree(place)["log"]
    refused = run(*command)
    assert refused.exit_code == 2
    assert f"{what} asks first, and stdin is no terminal; give --yes" in refused.stderr
    lines = tree(place)["log"].decode().splitlines()
    assert [
        line.split()[0] for line in lines[len(before.splitlines()) :] if line.split()[0] not in ("sync", "close")
    ] == []


def test_vacuum_says_what_older_backups_hold(run: Run, place: Path) -> None:
    done = run("store", "vacuum")
    assert "bytes before" in ok(done)
    assert "older backups, dumps and exports still hold it" in done.stderr
    assert holding(place, GONE) == []
    told = json.loads(ok(run("store", "vacuum", "--json")))
    assert set(told) == {"quads", "bytes_before", "bytes_after", "behind"}
    assert told["behind"] == []


def test_prune_prints_what_went_and_dry_runs(run: Run) -> None:
    dry = run("store", "prune", "--keep-count", "1", "--dry-run")
    assert ok(dry) == "fork\n"
    assert "1 session would go" in dry.stderr
    assert ok(run("store", "prune", "--keep-count", "1", "--yes")) == "fork\n"
    assert (
        json.loads(ok(run("store", "prune", "--older-than", "1d", "--keep-size", "2kB", "--json", "--yes")))["sessions"]
        == []
    )
    assert json.loads(ok(run("list", "--json")))["sessions"][0]["id"] == "kept"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "say what may go"),
        (["--older-than", "soon"], "is no age; write 90d"),
        (["--older-than", "-1d"], "is no age"),
        (["--older-than", "999999w"], "before the year 1"),
        (["--keep-size", "1 GB"], "is no size; write 500MB"),
        (["--keep-size", "1XB"], "is no size"),
        (["--keep-count", "-1"], "-1"),
    ],
)
def test_prune_refuses_limits_that_are_none(run: Run, options: list[str], message: str) -> None:
    refused = run("store", "prune", "--yes", *options)
    assert refused.exit_code == 2
    assert message in refused.stderr


@pytest.mark.parametrize(
    ("text", "expected"), [("5", 5), ("5B", 5), ("2kB", 2000), ("3MB", 3_000_000), ("1GiB", 2**30), ("1tb", 10**12)]
)
def test_sizes_are_read_as_people_write_them(text: str, expected: int) -> None:
    from trails.cli.commands.sessions import _parse_size

    assert _parse_size(None, None, text) == expected  # type: ignore[arg-type] # used only to complain


def test_backup_restore_dump_and_load_go_there_and_back(run: Run, place: Path, tmp_path: Path) -> None:
    ok(run("store", "backup", str(tmp_path / "backup")))
    ok(run("store", "dump", str(tmp_path / "dump.nq.gz")))
    restored, loaded = str(tmp_path / "restored"), str(tmp_path / "loaded")
    report = json.loads(ok(run("store", "restore", str(tmp_path / "backup"), "--store", restored, "--json")))
    assert (report["ok"], report["sessions"], report["turns"]) == (True, 2, 4)
    ok(run("store", "load", str(tmp_path / "dump.nq.gz"), "--store", loaded))
    for store in (restored, loaded):
        assert json.loads(ok(run("list", "--json", "--store", store))) == json.loads(ok(run("list", "--json")))
    for refused in (
        run("store", "backup", str(tmp_path / "backup")),
        run("store", "restore", str(tmp_path / "backup")),
        run("store", "dump", str(tmp_path / "dump.nq.gz")),
        run("store", "load", str(tmp_path / "dump.nq.gz")),
    ):
        assert refused.exit_code == 2
        assert "error: " in refused.stderr
    ok(run("store", "dump", str(tmp_path / "dump.nq.gz"), "--force"))


def test_a_restore_in_which_something_is_found_ends_with_1(run: Run, place: Path, tmp_path: Path) -> None:
    older(place)
    result = run("store", "restore", str(place), "--store", str(tmp_path / "restored"))
    assert result.exit_code == 1
    assert "trails store upgrade" in result.stdout


def test_upgrade_says_that_there_was_nothing_to_do(run: Run) -> None:
    done = run("store", "upgrade")
    assert ok(done) == ""
    assert "has format 3, the newest" in done.stderr
    assert json.loads(ok(run("store", "upgrade", "--json")))["backup"] is None


def test_doctor_ends_with_1_where_something_is_wrong_and_says_what_to_do(run: Run, place: Path) -> None:
    (place / "log").chmod(0o644)
    result = run("doctor")
    assert result.exit_code == 1
    assert f"-> chmod 600 {place / 'log'}" in result.stdout
    checks: list[dict[str, Any]] = json.loads(run("doctor", "--json").stdout)["checks"]
    assert [each["name"] for each in checks if not each["ok"] and each["name"] not in ("space", "files")] == [
        "permissions"
    ]


def test_a_redaction_shows_in_the_catalog_of_the_store(opened: Repository) -> None:
    rows = opened.store.quads((None, vocab.DELETED_TURN, None, vocab.CATALOG))
    assert len(rows) == 1
