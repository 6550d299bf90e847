"""What a killed process leaves of backups, restores, loads and dumps: it is named and cleared, and no store is ever missing."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import trails
from trails import InvalidInput
from trails.session import store_restore
from trails.store import dumping
from trails.store.embedded import EmbeddedStore
from trails.store.log import log_maintenance

TEXT = "remember the milk"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A closed store with one turn, in a folder of its own; beside it there are a backup and a dump of it."""
    folder = tmp_path / "in" / "store"
    with trails.open(folder, create=True, durability="process") as store:
        session = store.create(id="s")
        session.append("user", TEXT)
        session.persist()
        store.maintenance.backup(tmp_path / "backup")
        store.maintenance.dump(tmp_path / "dump.gz")
    return folder


def turns(place: Path) -> list[Any]:
    """Return the texts of all turns of a store that must be whole."""
    with trails.open(place) as store:
        assert store.verify().ok
        return [turn["content"] for record in store.list() for turn in store.replay(record.id)]


# Each ends a process in the middle: once the function that is named has returned.
KILLED = """
import os, signal, sys
from pathlib import Path
import trails
from trails.session import store_restore
from trails.store import dumping
from trails.store.log import log_maintenance
top, to, cut = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[4]
owner = {"log_maintenance": log_maintenance, "dumping": dumping}[sys.argv[3]]
method = getattr(owner, cut)
def die(*args, **kwargs):
    method(*args, **kwargs)
    os.kill(os.getpid(), signal.SIGKILL)
setattr(owner, cut, die)
"""
WORK = {
    "a backup": ("log_maintenance", "sync_tree", "trails.open(top / 'in' / 'store').maintenance.backup(to)"),
    "a restore": ("log_maintenance", "sync_tree", "store_restore.restore_store(top / 'backup', to)"),
    "a load": ("log_maintenance", "sync_tree", "store_restore.load_dump(top / 'dump.gz', to)"),
    "a dump": ("dumping", "write_lines", "trails.open(top / 'in' / 'store').maintenance.dump(to)"),
}


@pytest.mark.parametrize("what", WORK)
@pytest.mark.usefixtures("place")
def test_what_a_killed_process_has_left_is_named_and_goes_with_the_next_command_there(
    tmp_path: Path, what: str
) -> None:
    owner, name, code = WORK[what]
    out = tmp_path / "out"
    killed = subprocess.run(
        [sys.executable, "-c", KILLED + code, str(tmp_path), str(out / "one"), owner, name], check=False, timeout=120
    )
    assert killed.returncode == -signal.SIGKILL
    [left] = list(out.iterdir())
    assert log_maintenance.abandoned(out) == [left]
    assert left.exists()  # it was only looked at
    store_restore.restore_store(tmp_path / "backup", out / "two")
    assert [entry.name for entry in out.iterdir()] == ["two"]
    assert log_maintenance.abandoned(out) == []


def test_the_runs_that_a_dump_sorts_have_no_names_while_it_goes_on(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dumping, "_CHUNK", 500)
    (tmp_path / "out").mkdir()
    seen: list[list[str]] = []

    def look(done: int, total: int, what: str) -> None:
        if what == "sorting":
            seen.append([entry.name for folder in (tmp_path / "out").iterdir() for entry in folder.iterdir()])

    with trails.open(place) as store:
        assert store.maintenance.dump(tmp_path / "out" / "dump", progress=look) == len(store.store)
    assert seen
    assert {name for names in seen for name in names} <= {"dump"}


@contextmanager
def living(place: Path) -> Iterator[Path]:
    """A folder that another process makes something in, and goes on to."""
    ready, go_on = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        with log_maintenance.scratch(place) as folder:
            (folder / "copy").write_text(TEXT)
            os.write(ready[1], str(folder).encode())
            os.read(go_on[0], 1)
        os._exit(0)  # it never opened a store
    try:
        yield Path(os.read(ready[0], 1000).decode())
    finally:
        os.write(go_on[1], b".")
        os.waitpid(child, 0)
        for end in (*ready, *go_on):
            os.close(end)


def test_what_a_living_process_makes_is_never_cleared_nor_named(place: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with living(out / "one") as folder:
        assert log_maintenance.abandoned(out) == []
        with trails.open(place) as store:
            store.maintenance.backup(out / "one")
        assert (folder / "copy").read_text() == TEXT
    assert [entry.name for entry in out.iterdir()] == ["one"]


def test_a_user_s_own_files_and_links_are_never_cleared(place: Path, tmp_path: Path) -> None:
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    for folder in (out / ".mine.part", elsewhere):
        folder.mkdir(parents=True)
        (folder / "file").write_text("mine")
    (out / f".link{log_maintenance.SUFFIX}").symlink_to(elsewhere)
    store_restore.restore_store(tmp_path / "backup", out / "new")
    assert {entry.name for entry in out.iterdir()} == {".mine.part", f".link{log_maintenance.SUFFIX}", "new"}
    assert (elsewhere / "file").read_text() == "mine"


@pytest.mark.slow
@pytest.mark.usefixtures("place")
def test_a_load_into_an_empty_store_is_done_or_not_begun_wherever_it_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty, cuts = tmp_path / "out" / "empty", list[Path]()
    trails.open(empty, create=True).close()

    def cutting(method: Callable[..., Any]) -> Callable[..., Any]:
        def cut() -> None:
            cuts.append(tmp_path / f"cut-{len(cuts)}")
            shutil.copytree(empty.parent, cuts[-1])  # what a kill here would leave; nobody has an engine open

        def both(*args: Any) -> Any:
            cut()
            found = method(*args)
            cut()
            return found

        return both

    for name in ("sync_tree", "exchange", "sync_folder"):
        monkeypatch.setattr(log_maintenance, name, cutting(getattr(log_maintenance, name)))
    store_restore.load_dump(tmp_path / "dump.gz", empty)
    monkeypatch.undo()
    found = [turns(cut / "empty") for cut in cuts]
    assert sorted(found) == found
    assert (found[0], found[-1]) == ([], [TEXT])
    for cut in cuts:
        store_restore.restore_store(tmp_path / "backup", cut / "new")
        assert sorted(entry.name for entry in cut.iterdir()) == ["empty", "new"]


@pytest.mark.usefixtures("place")
def test_where_folders_cannot_change_places_in_one_step_a_load_into_an_empty_store_works_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trails.open(tmp_path / "out" / "empty", create=True).close()
    monkeypatch.setattr(log_maintenance, "exchange", lambda *_: False)
    store_restore.load_dump(tmp_path / "dump.gz", tmp_path / "out" / "empty")
    assert turns(tmp_path / "out" / "empty") == [TEXT]
    assert [entry.name for entry in (tmp_path / "out").iterdir()] == ["empty"]


def test_a_store_that_is_not_empty_any_more_is_not_replaced(place: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    trails.open(empty, create=True).close()

    def write_meanwhile(done: int, total: int, what: str) -> None:
        if not turns(empty):
            with trails.open(empty) as store:
                session = store.create(id="mine")
                session.append("user", "mine")
                session.persist()

    with pytest.raises(InvalidInput, match="is not empty any more"):
        store_restore.load_dump(tmp_path / "dump.gz", empty, write_meanwhile)
    assert turns(empty) == ["mine"]
    assert log_maintenance.abandoned(tmp_path) == []
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["backup", "dump.gz", "empty", "in"]


@pytest.mark.parametrize("what", ["no quads", ""])
def test_a_load_that_is_refused_leaves_the_empty_store_as_it_was(place: Path, tmp_path: Path, what: str) -> None:
    empty, bad = tmp_path / "out" / "empty", tmp_path / "bad"
    trails.open(empty, create=True).close()
    bad.write_text(what)
    with pytest.raises(InvalidInput, match="no whole dump"):
        store_restore.load_dump(bad, empty)
    assert [entry.name for entry in empty.parent.iterdir()] == ["empty"]
    assert turns(empty) == []
    EmbeddedStore(empty).close()
