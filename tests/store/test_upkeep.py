"""Vacuum, backup, restore, dump, load, upgrade and doctor: what they promise, also when they are cut short."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import random
import resource
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import threading
import time
import tomllib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pyoxigraph as ox
import pytest

import trails
from tests.support.commands import Run, ok
from tests.support.places import FORMATS, ROOT
from tests.support.tampering import altered
from trails import IntegrityError, InvalidInput, Repository, StoreFailed
from trails.rdf import vocab
from trails.session.store_restore import load_dump, restore_store
from trails.store import doctor as doctor_module
from trails.store.doctor import Check, doctor
from trails.store.index import engine, engine_filling
from trails.store.upgrade import upgrade

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


DERIVED = 2 + 1 + 2
"""The turn before each of the session's later two, and before the fork's one; the fork in two words of Python."""


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
    """The files below a folder that hold a text, whatever they are; records of the log are unpacked."""
    code = f"""
import contextlib, sys
from pathlib import Path
from trails.store.log.sqlite import SqliteHome
folder, text = Path({str(folder)!r}), {text!r}.encode()
for file in folder.rglob("*"):
    with contextlib.suppress(FileNotFoundError):  # an open engine drops files as it goes
        if file.is_file() and text in file.read_bytes():
            print(file.name)
home, after = SqliteHome(folder / "trails.db", is_read_only=True), 0
while rows := home.tail(after):
    for row in rows:
        record = row.unpack().record
        if text in b"".join((*(each.encode() for each in record.leaves + record.drop), record.remove, record.add)):
            print("record", row.number)
    after = rows[-1].number
"""
    # In a process of its own: whoever closes the file in this one frees SQLite's locks on it.
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def tree(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


# --- vacuum


def test_after_a_vacuum_no_file_of_the_store_holds_what_was_deleted_or_redacted(place: Path) -> None:
    assert (holding(place, GONE), holding(place, LOST)) == ([], [])  # it is out of the log at once
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
    assert {entry.name for entry in place.iterdir()} == {"trails.db", "locks"}  # a small index is in memory
    with trails.open(place) as store:
        assert [turn.content for turn in store.load("kept").turns] == [KEPT, "", "and more", "after the vacuum"]
        assert store.verify().findings == ()


def test_a_backup_from_before_a_deletion_still_holds_the_text(place: Path, tmp_path: Path) -> None:
    with trails.open(place) as store:
        store.maintenance.backup(tmp_path / "backup")
        store.redact("kept", 0)
        store.maintenance.vacuum()
    assert holding(tmp_path / "backup", KEPT)
    assert not holding(place, KEPT)


@pytest.mark.slow
def test_a_vacuum_gives_the_space_back_of_what_was_deleted(place: Path) -> None:
    with trails.open(place, create=True, durability="process") as store:
        session = store.create(id="s")
        for number in range(1_500):
            session.append(
                "user", f"{number} of the turns, {number * 7919 % 1500} of the words: " + "plan a trip by train " * 15
            )
            if number % 50 == 49:
                session.persist()
    with trails.open(place) as store:
        assert len(store.load("s")) == 1_500
        store.delete("s")
        report = store.maintenance.vacuum()
    assert report.bytes_after < 0.5 * report.bytes_before


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
        store.store.snapshot()  # type: ignore[attr-defined] # from now on its engine is in files
        monkeypatch.setattr(engine, "_SMALL_FILE", 0)
        monkeypatch.setattr(engine_filling, "copy_quads", full)
        with pytest.raises(StoreFailed, match=r"cannot be vacuumed to its end .*no room for its index"):
            store.maintenance.vacuum()
        monkeypatch.undo()
        assert quads(store) == before
        session = store.load("kept")
        session.append("user", "still here")
        session.persist()
    with trails.open(place) as store:
        assert store.load("kept").turns[-1].content == "still here"


@pytest.mark.slow
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


def test_what_is_no_backup_is_refused_and_leaves_nothing(place: Path, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(InvalidInput, match="no store and no backup"):
        restore_store(tmp_path / "folder", tmp_path / "restored")
    with trails.open(place) as store:
        store.maintenance.backup(tmp_path / "backup")
    (tmp_path / "backup" / "trails.db").write_bytes(b"nonsense\n" * 1000)
    with pytest.raises(StoreFailed, match="is damaged"):
        restore_store(tmp_path / "backup", tmp_path / "restored")
    assert {entry.name for entry in tmp_path.iterdir()} == {"folder", "backup", "store.trails"}


def test_a_restore_of_altered_data_reports_it(place: Path, tmp_path: Path) -> None:
    with trails.open(place) as store:
        store.maintenance.backup(tmp_path / "backup")
    with altered(tmp_path / "backup") as engine:
        engine.remove(next(engine.quads_for_pattern(None, vocab.ROLE, None, None)))
    assert not restore_store(tmp_path / "backup", tmp_path / "restored").ok


# --- dump and load


def test_a_dump_is_sorted_n_quads_and_the_same_bytes_for_the_same_store(place: Path, tmp_path: Path) -> None:
    with trails.open(place) as store:
        count = store.maintenance.dump(tmp_path / "one.nq.gz")
        expected = quads(store)
        store.maintenance.vacuum()
        store.maintenance.dump(tmp_path / "two.nq.gz")
    lines = gzip.decompress((tmp_path / "one.nq.gz").read_bytes()).splitlines(keepends=True)
    assert count == len(lines) == len(expected) + DERIVED
    assert lines == sorted(lines)
    assert set(ox.parse(b"".join(lines), format=ox.RdfFormat.N_QUADS)) > expected
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
        total = len(quads(store)) + DERIVED
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
    assert (tmp_path / "agent.trails" / "trails.db").is_file()


# --- formats


def unpacked(tmp_path: Path, name: str) -> Path:
    """A stored database, unpacked."""
    with tarfile.open(FORMATS / f"{name}.tar.gz") as tar:
        tar.extractall(tmp_path, filter="data")
    return tmp_path / name


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


@pytest.mark.parametrize(("name", "tool", "older"), [("format-2", "planner", 2), ("format-3", "weather", None)])
def test_a_store_of_an_older_format_is_brought_up_with_all_that_was_put_in(
    tmp_path: Path, name: str, tool: str, older: int | None
) -> None:
    stored = unpacked(tmp_path, name)
    lines = (stored / "log").read_text().count("\n")
    report = upgrade(stored)
    assert (report.before, report.after) == (older or 3, 4)
    with trails.open(stored) as store:
        told = store.info().get("older")
        assert told == (None if older is None else {"format": older, "lines": lines, "until": None})
    holds_what_was_put_in(stored, tool=tool)


def test_a_backup_of_an_older_format_is_restored_and_says_what_it_needs(tmp_path: Path) -> None:
    report = restore_store(unpacked(tmp_path, "format-3"), tmp_path / "restored")
    assert [finding.code for finding in report.findings] == ["old-format"]
    upgrade(tmp_path / "restored")
    holds_what_was_put_in(tmp_path / "restored", tool="weather")


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
            "disk",
            "opens",
            "log",
            "extras",
            "processes",
        )
    }
    assert tree(place) == before


def test_an_open_store_can_be_asked_about(place: Path) -> None:
    with trails.open(place) as store:
        store.store.snapshot()  # type: ignore[attr-defined]
        code = f"""
from trails.store.doctor import doctor
print(*(each.message for each in doctor({str(place)!r}) if each.name in ("processes", "log")))
"""
        told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        assert f"open in process {os.getpid()}" in told
        assert "is as it was written" in told
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


@pytest.mark.parametrize(("path", "mode", "remedy"), [(".", 0o755, "chmod 700"), ("trails.db", 0o644, "chmod 600")])
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


def test_a_log_that_was_altered_is_found(place: Path) -> None:
    with contextlib.closing(sqlite3.connect(place / "trails.db")) as file:
        file.execute("DELETE FROM trails_records WHERE number = 2")
        file.commit()
    assert "record 2 is missing" in check(place, "log").message
    (place / "trails.db").write_bytes(b"nonsense" * 1000)
    assert "is damaged" in check(place, "opens").message


def test_an_older_format_is_found(tmp_path: Path) -> None:
    assert "trails store upgrade" in check(unpacked(tmp_path, "format-3"), "format").remedy


def test_an_extra_that_is_not_installed_is_named_and_is_nothing_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor_module, "find_spec", lambda module: None if module in ("scipy", "pyarrow") else module)
    found = check(tmp_path, "extras")
    assert found.ok
    assert found.message == (
        "installed: checkpoint, encryption, timestamps, scitt, pandas, plot, shacl, aio, semantic, zstd, files, postgres, "
        "secrets, prices, langgraph, openai-agents, claude-agent-sdk, google-adk, langchain, pydantic-ai, agent-framework, "
        "opentelemetry, mcp, serve, remote, tui, html; not installed: arrow, stats"
    )


def test_doctor_knows_every_extra_of_the_package() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert set(doctor_module._EXTRAS) == set(declared) - {"all"}


LEFT_OUT_OF_ALL: dict[str, str] = {}
"""The extras that `trails[all]` does not bring, and why."""


def test_the_extra_all_brings_every_extra_but_those_that_are_left_out_for_a_reason() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    brought = [
        extra for names in declared["all"] for extra in names.removeprefix("trails[").removesuffix("]").split(",")
    ]
    assert sorted([*brought, *LEFT_OUT_OF_ALL]) == sorted(declared.keys() - {"all"})
    assert all(LEFT_OUT_OF_ALL.values())


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
    before = tree(place)
    refused = run(*command)
    assert refused.exit_code == 2
    assert f"{what} asks first, and stdin is no terminal; give --yes" in refused.stderr
    assert tree(place) == before


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
    assert "1 session would be deleted" in dry.stderr
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
    from trails.cli.commands.sessions import _size

    assert _size(None, None, text) == expected


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


def test_a_restore_in_which_something_is_found_ends_with_1(run: Run, tmp_path: Path) -> None:
    result = run("store", "restore", str(unpacked(tmp_path, "format-3")), "--store", str(tmp_path / "restored"))
    assert result.exit_code == 1
    assert "trails store upgrade" in result.stdout


def test_upgrade_says_that_there_was_nothing_to_do(run: Run) -> None:
    done = run("store", "upgrade")
    assert ok(done) == ""
    assert "has format 4, the newest" in done.stderr
    assert json.loads(ok(run("store", "upgrade", "--json")))["backup"] is None


def test_doctor_ends_with_1_where_something_is_wrong_and_says_what_to_do(run: Run, place: Path) -> None:
    (place / "trails.db").chmod(0o644)
    result = run("doctor")
    assert result.exit_code == 1
    assert f"-> chmod 600 {place / 'trails.db'}" in result.stdout
    checks: list[dict[str, Any]] = json.loads(run("doctor", "--json").stdout)["checks"]
    assert [each["name"] for each in checks if not each["ok"] and each["name"] not in ("space", "files")] == [
        "permissions"
    ]


def test_a_redaction_shows_in_the_catalog_of_the_store(opened: Repository) -> None:
    rows = opened.store.quads((None, vocab.DELETED_TURN, None, vocab.CATALOG))
    assert len(rows) == 1


def test_a_vacuum_beside_a_reader_names_it_and_the_next_one_removes_the_text(tmp_path: Path) -> None:
    place = tmp_path / "a.trails"
    with trails.open(place, create=True) as store:
        session = store.create(id="plan")
        session.append("user", "the code is swordfish")
        session.persist()
        with trails.open(place, read_only=True) as view:
            assert view.load("plan")[0].content == "the code is swordfish"
            store.redact("plan", 0)
            assert [each.index for each in store.maintenance.vacuum().behind] == ["trails.db"]
        assert store.maintenance.vacuum().behind == ()
        assert not any(b"swordfish" in file.read_bytes() for file in place.rglob("*") if file.is_file())
