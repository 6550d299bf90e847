"""After a power cut everything acknowledged is there, whatever became of the bytes that were written and not yet synced.

The writes are real; the cut is made on a copy of the store, taken just before (or between) the writer's own syncs: of
each log, what lies beyond the size that was last synced is kept, cut off, zeroed, garbled or made to have a hole.
"""

from __future__ import annotations

import contextlib
import copy
import os
import random
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import trails
from tests.writer import RandomWork, Writer, check
from trails.integrity.leaves import Leaf
from trails.store.leaflog import LeafLog

_PAGE = 4096


@dataclass
class Cut:
    """A copy of a store's folder, how much of each log in it was synced, and what its writers knew by then."""

    folder: Path
    synced: dict[str, int]
    writers: list[Writer]


@dataclass
class Camera:
    """Takes copies of a store while it is written, in the very moment before something is synced."""

    store: Path
    album: Path
    chance: random.Random
    writers: list[Writer]
    likelihood: float
    cuts: list[Cut] = field(default_factory=list)
    synced: dict[str, int] = field(default_factory=dict)
    gate: Any = field(default_factory=threading.RLock)
    fdatasync: Callable[[int], None] = os.fdatasync

    def sync(self, descriptor: int) -> None:
        """Stand in for `os.fdatasync`: do it, and note how much of which file is on disk."""
        name = str(Path(f"/proc/self/fd/{descriptor}").readlink())
        if name.startswith(str(self.store)):
            self.perhaps_take()
        size = os.fstat(descriptor).st_size
        self.fdatasync(descriptor)
        self.synced[name] = max(size, self.synced.get(name, 0))

    def tell(self, what: str, number: int, step: dict[str, Any] | None = None) -> None:
        """Note what a writer does; no step begins or ends while a copy is made."""
        with self.gate:
            if what == "begin":
                self.writers[number].unfinished = step
            else:
                self.writers[number].done()
                if self.chance.random() < 0.1:
                    self.perhaps_take()

    def perhaps_take(self) -> None:
        with self.gate:
            if self.chance.random() >= self.likelihood:
                return
            folder = self.album / str(len(self.cuts))
            synced = _copy_of_one_moment(self.store, folder, self.synced)
            relative = {
                str(Path(name).relative_to(self.store)): size
                for name, size in synced.items()
                if _below(name, self.store)
            }
            self.cuts.append(Cut(folder, relative, copy.deepcopy(self.writers)))


def _copy_of_one_moment(store: Path, folder: Path, synced: dict[str, int]) -> dict[str, int]:
    """Copy a store's folder and return how much of each file was synced; only logs may grow while they are copied.

    It is done again if the engine tidied its files meanwhile. Another thread's commit may end meanwhile too: its quads
    are synced before its leaf is written, so the log is copied first, then what is synced is noted, then the quads.
    """
    while True:
        before = _settled_files(store)
        try:
            folder.mkdir(parents=True)
            if (store / "log").exists():
                shutil.copy(store / "log", folder)
            noted = dict(synced)
            shutil.copy(store / "trails.json", folder)
            shutil.copytree(
                store / "quads", folder / "quads", ignore=shutil.ignore_patterns("LOG*", "*.tmp", "*.dbtmp")
            )
        except shutil.Error:
            pass
        else:
            if _settled_files(store) == before:
                return noted
        shutil.rmtree(folder)


def _settled_files(store: Path) -> dict[str, int]:
    sizes = {}
    for file in (store / "quads").iterdir():
        if file.suffix != ".log" and not file.name.startswith("LOG"):
            with contextlib.suppress(FileNotFoundError):
                sizes[file.name] = file.stat().st_size
    return sizes


def _below(name: str, folder: Path) -> bool:
    return Path(name).is_relative_to(folder)


def write(
    folder: Path, chance: random.Random, monkeypatch: pytest.MonkeyPatch, *, writers: int, likelihood: float
) -> Camera:
    """Write to a new store, closing and opening it in between, and return the copies that were taken."""
    folder.mkdir()
    camera = Camera(folder / "store", folder / "album", chance, [Writer() for _ in range(writers)], likelihood)
    monkeypatch.setattr(os, "fdatasync", camera.sync)
    for _ in range(3):
        camera.synced = {name: size for name, size in camera.synced.items() if name == str(camera.store / "log")}
        with trails.open(camera.store, create=True) as store:
            work = [
                # Flushing moves files, and a copy made meanwhile would be of no moment: with one writer it cannot happen.
                RandomWork(store, number, chance.getrandbits(40), camera.tell, flush=writers == 1)
                for number in range(writers)
            ]
            with ThreadPoolExecutor(writers) as pool:
                counts = [chance.randint(3, 20) for _ in work]
                list(pool.map(_steps, work, counts))
            assert all(writer.unfinished is None for writer in camera.writers)
    monkeypatch.undo()
    return camera


def _steps(work: RandomWork, count: int) -> None:
    for _ in range(count):
        work.step()


def damage(folder: Path, synced: dict[str, int], chance: random.Random) -> str:
    """Do to the unsynced end of every log what a power cut may do; return what was done."""
    done = []
    for file in [folder / "log", *sorted((folder / "quads").glob("*.log"))]:
        if not file.exists():
            continue
        name = str(file.relative_to(folder))
        size = file.stat().st_size
        safe = min(synced.get(name, 0), size)  # the engine may use a number of a file that is gone again
        how = chance.choice(("keep", "cut", "zero", "garble", "hole"))
        start = chance.randint(safe, size)
        with file.open("r+b") as opened:
            opened.seek(start)
            if how == "cut":
                opened.truncate(start)
            elif how == "zero":
                opened.write(bytes(size - start + chance.choice((0, 1, _PAGE))))
            elif how == "garble":
                opened.write(chance.randbytes(size - start))
            elif how == "hole":
                opened.write(bytes(chance.randint(0, size - start)))
        done.append(f"{name}: {how} at {start} of {size}, {safe} synced")
    return "; ".join(done)


def test_a_power_cut_loses_nothing_acknowledged_and_raises_no_false_alarm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, long: bool
) -> None:
    seed = int(os.environ.get("TRAILS_SEED", "20260729"))
    chance = random.Random(seed)
    wanted, done, run = (2000 if long else 200), 0, 0
    while done < wanted:
        run += 1
        camera = write(tmp_path / str(run), chance, monkeypatch, writers=1 + run % 2 * 2, likelihood=0.35)
        for cut in camera.cuts:
            what = damage(cut.folder, cut.synced, chance)
            try:
                check(cut.folder, cut.writers)
                _goes_on(cut.folder, chance)
            except BaseException as error:
                error.add_note(f"seed {seed}, run {run}, cut {done}: {what}")
                raise
            shutil.rmtree(cut.folder)
            done += 1
    assert run > 1


def _goes_on(folder: Path, chance: random.Random) -> None:
    """A store that came through a cut is written to and verified like any other."""
    if chance.random() < 0.8:
        return
    with trails.open(folder) as store:
        for record in store.list():
            session = store.load(record.id)
            session.append("user", "after the cut")
            session.persist()
        assert store.verify().ok
    with trails.open(folder) as store:
        assert store.verify().ok
        assert store.caught_up == 0


def test_a_store_rolled_back_to_before_its_last_synced_leaf_is_caught_also_after_a_crash(tmp_path: Path) -> None:
    for closed in (True, False):
        store = trails.open(tmp_path / f"store{closed}", create=True)
        session = store.create(id="s")
        session.append("user", "kept")
        session.persist()
        store.close()
        shutil.copytree(tmp_path / f"store{closed}" / "quads", tmp_path / f"old{closed}")
        store = trails.open(tmp_path / f"store{closed}")
        session = store.load("s")
        session.append("user", "gone")
        session.persist()
        store.store.flush()
        if closed:
            store.close()
            folder = tmp_path / f"store{closed}"
            shutil.rmtree(folder / "quads")
        else:
            folder = tmp_path / "crashed"
            # Without the engine's own files, which it goes on tidying while they are copied; older ones take their place.
            shutil.copytree(tmp_path / f"store{closed}", folder, ignore=shutil.ignore_patterns("quads"))
            store.close()
        shutil.copytree(tmp_path / f"old{closed}", folder / "quads")
        with trails.open(folder) as rolled_back:
            assert {(f.code, f.session_id, f.index) for f in rolled_back.verify().findings} == {("rolled-back", "s", 1)}


def test_of_a_log_whose_unsynced_end_has_a_hole_all_behind_the_hole_is_cut_and_nothing_before(tmp_path: Path) -> None:
    log = LeafLog(tmp_path / "log")
    log.append([Leaf("create", "urn:trails:session:a")])
    log.sync()
    log.append([Leaf("change", f"urn:trails:session:{n}") for n in range(5)])
    before = log.lines()
    log.close(in_good_order=False)
    data = (tmp_path / "log").read_bytes()
    hole = data.index(before[4].encode())
    (tmp_path / "log").write_bytes(data[:hole] + bytes(20) + data[hole + 20 :])
    assert LeafLog(tmp_path / "log").lines() == before[:4]


def test_a_synced_line_of_the_log_that_was_altered_stays_for_verify_to_find(tmp_path: Path) -> None:
    log = LeafLog(tmp_path / "log")
    log.append([Leaf("create", "urn:trails:session:a"), Leaf("change", "urn:trails:session:a")])
    log.sync()
    log.append([Leaf("change", "urn:trails:session:b")])
    log.close(in_good_order=False)
    data = (tmp_path / "log").read_bytes()
    (tmp_path / "log").write_bytes(data.replace(b"session:a", b"session:x", 1))
    assert len(LeafLog(tmp_path / "log").lines()) == 4
