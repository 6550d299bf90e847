"""After a power cut everything acknowledged is there, nothing deleted is back, what was begun is whole or absent, and
`verify` finds nothing: also within the recovery from an earlier cut.

What a cut may leave is told from the system calls that the process made and from nothing else (`disk_model.py`); what
was acknowledged stands in the same trace, in order with them.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import random
import shutil
import sys
import tarfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import trails
from tests.support.disk_model import Call, Disk, record
from tests.support.machines import Size
from tests.support.places import FORMATS
from tests.support.writer import Known, Writer, difference, possible
from trails import Repository
from trails.history.migrations import upgrade
from trails.store import marker

_AGAIN = 3
"""Further cuts that a store may have to go through, each within the work after the one before."""
_JOBS: list[dict[str, Any]] = [
    {"do": "work", "durability": "disk", "writers": 1, "steps": 36, "flushes": 6, "bulk": False},
    {"do": "work", "durability": "disk", "writers": 8, "steps": 15, "flushes": 3, "bulk": False},
    {"do": "work", "durability": "process", "writers": 1, "steps": 36, "flushes": 6, "bulk": False},
    {"do": "work", "durability": "disk", "writers": 1, "steps": 20, "flushes": 3, "bulk": True},
    {"do": "copies", "durability": "disk"},
    {"do": "work", "durability": "process", "writers": 3, "steps": 24, "flushes": 3, "bulk": True},
    {"do": "bring_up", "archive": "format-1"},
    {"do": "copies", "durability": "process"},
    {"do": "bring_up", "archive": "format-1-killed"},
]
_QUICK = (0, 2, 4, 6)
"""One of each kind, and both durabilities: the processes take longer than the cuts."""


Told = list[tuple[int, list[Any]]]
"""What a job told on its output, and when."""


@dataclass
class Stage:
    """A store that a process is to work on: the job, its folder, what its writers know, and how it came to be."""

    job: dict[str, Any]
    folder: Path
    writers: list[Writer]
    story: str
    again: int = 0
    left: tuple[int, int] = 0, 0
    """The cut that left the folder: its moment and the seed of what was kept."""


@dataclass
class Heard:
    """What was acknowledged by some moment."""

    writers: list[Writer]
    past: list[list[dict[str, Known]]]
    """Of each writer, the states that its sessions had since what it did was last brought to disk for sure."""
    copies: dict[str, bool] = field(default_factory=dict)
    """The copies that were begun, and whether they were acknowledged."""


@dataclass
class Cutter:
    """Runs jobs, cuts their power, and holds what is left against what was acknowledged."""

    place: Path
    seed: int
    counts: Counter[str] = field(default_factory=Counter)
    _made: int = 0

    def folder(self) -> Path:
        self._made += 1
        return self.place / str(self._made)

    def stage(self, number: int, job: dict[str, Any]) -> Stage:
        """Return a job with its folder as it is before it starts."""
        folder = self.folder()
        folder.mkdir(parents=True)
        chance = random.Random(f"{self.seed}-{number}")
        if job["do"] == "bring_up":
            _unpack(job["archive"], folder)
        if job["do"] == "work":
            job = job | {"seed": chance.getrandbits(40), "flush_after": chance.choice((150, 600, 20_000))}
        return Stage(job, folder, [Writer() for _ in range(job.get("writers", 1))], f"seed {self.seed}, job {number}")

    def run(self, stages: list[Stage], each: int) -> list[Stage]:
        """Let a process do jobs, cut each at some moments, and check what is left; return stages that go on from there."""
        jobs = [stage.job | {"folder": str(stage.folder)} for stage in stages]
        disks = [Disk(stage.folder) for stage in stages]
        command = [sys.executable, "-m", "tests.support.cut_work"]
        calls = record(command, self.place / "trace", json.dumps(jobs))
        following = []
        for number, (stage, disk) in enumerate(zip(stages, disks, strict=True)):
            disk.replay(calls)
            told = list(_told(calls, number))
            shutil.rmtree(stage.folder)
            chance = random.Random(f"{stage.story}, {stage.again}")
            often = each if stage.job["do"] == "work" else each // 2
            ends = [self._cut(stage, disk, told, chance.getrandbits(60)) for _ in range(often)]
            if stage.again < _AGAIN and stage.job["do"] == "work":
                following.append(self._left_again(chance.choice(ends), disk))
        return following

    def _cut(self, stage: Stage, disk: Disk, told: Told, seed: int) -> Stage:
        chance = random.Random(seed)
        moment = _moment(stage, disk, told, chance)
        heard = listen(stage, told, moment)
        folder = self.folder()
        what = disk.cut(moment, random.Random(seed), folder)
        story = f"{stage.story}; {what} (calls {min(disk.moments)} to {max(disk.moments)})"
        try:
            globals()[f"_check_{stage.job['do']}"](folder, stage, heard, told)
            if stage.job["do"] == "work" and chance.random() < 0.2:
                _goes_on(folder / "store")
        except BaseException as error:
            error.add_note(f"{story}\n{folder}: {stage.job}\n{[writer.unfinished for writer in heard.writers]}")
            raise
        shutil.rmtree(folder)
        self.counts[f"{stage.job['do']} {stage.job.get('durability', '')} {stage.again}"] += 1
        job = dict(stage.job)
        if job["do"] == "work":
            job |= {"seed": chance.getrandbits(40), "steps": chance.choice((0, 0, 8)) * job["writers"], "flushes": 1}
            job["durability"] = chance.choice((job["durability"], job["durability"], "disk"))
        return Stage(job, folder, heard.writers, story, stage.again + 1, (moment, seed))

    def _left_again(self, stage: Stage, disk: Disk) -> Stage:
        """Make what a cut left once more: the first was opened, and so mended, by checking it."""
        moment, seed = stage.left
        disk.cut(moment, random.Random(seed), stage.folder)
        return stage


def _moment(stage: Stage, disk: Disk, told: Told, chance: random.Random) -> int:
    """Choose a moment for a cut: mostly once the engine was flushed three times.

    It comes just after an acknowledgement, or within a call: any one, or one of a kind that is chosen first, so that a
    kind of call that is rare is not passed over.
    """
    moments = list(disk.moments)
    if stage.again == 0 and stage.job["do"] == "work" and chance.random() < 0.85:
        moments = [moment for moment in moments if moment > _flushed_often(told)] or moments
    way = chance.random()
    acknowledged = [moment for moment, what in told if what[0] == "done" and moment >= moments[0]]
    if way < 0.25 and acknowledged:
        return chance.choice(acknowledged) + 1
    if way < 0.8:
        kind = chance.choice(sorted({disk.moments[moment] for moment in moments}))
        moments = [moment for moment in moments if disk.moments[moment] == kind]
    return chance.choice(moments) + 1


def _flushed_often(told: Told) -> int:
    flushing: set[int] = set()
    count = 0
    for moment, what in told:
        if what[0] == "begin" and what[2]["kind"] == "flush":
            flushing.add(what[1])
        if what[0] == "done" and what[1] in flushing:
            flushing.discard(what[1])
            count += 1
            if count == 3:
                return moment
    raise AssertionError(f"the engine was flushed {count} times")


def _told(calls: list[Call], number: int) -> Iterator[tuple[int, list[Any]]]:
    """Give what a job told on its output, each with its moment."""
    job = -1
    for call in calls:
        if call.name != "write" or call.descriptor(0)[0] != 1:
            continue
        what = json.loads(call.text(1))
        if what[0] == "job":
            job = what[1]
        elif job == number:
            yield call.begun, what


def listen(stage: Stage, told: Told, moment: int) -> Heard:
    """Return what was acknowledged by a moment."""
    writers = copy.deepcopy(stage.writers)
    heard = Heard(writers, [[writer.sessions] for writer in writers])
    for when, what in told:
        if when >= moment:
            break
        if what[0] == "begin":
            _, number, step = what
            writers[number].unfinished = step
            if "to" in step:
                heard.copies[step["to"]] = False
            heard.past[number] += possible(writers[number])[1:]
        elif what[0] == "done":
            number = what[1]
            step = writers[number].unfinished or {}
            writers[number].done()
            if "to" in step:
                heard.copies[step["to"]] = True
            heard.past[number].append(writers[number].sessions)
            if step["kind"] in ("flush", "vacuum"):
                heard.past[number] = [writers[number].sessions]
        elif what[0] == "closed":
            heard.past = [[writer.sessions] for writer in writers]
    return heard


# --- what must be there


def _check_work(folder: Path, stage: Stage, heard: Heard, _told: Told) -> None:
    relaxed = stage.job["durability"] == "process"
    for name, acknowledged in heard.copies.items():
        if (folder / name).exists() or acknowledged:
            with trails.open(folder / name) as store:
                _whole(store)
    with trails.open(folder / "store", create=True) as store:
        found = _sessions(store)
        for number, writer in enumerate(heard.writers):
            own = {name: known for name, known in found.items() if name.startswith(f"w{number}-")}
            allowed = heard.past[number] if relaxed else possible(writer)
            assert own in allowed, f"writer {number} in {writer.unfinished}: {difference(own, writer.sessions)}"
            writer.sessions, writer.unfinished = own, None
        _whole(store)


def _sessions(store: Repository) -> dict[str, Known]:
    return {
        record.id: Known(tuple(turn["content"] for turn in store.replay(record.id)), record.parent_session_id)
        for record in store.list(limit=1000)
    }


def _whole(store: Repository) -> None:
    report = store.verify()
    assert report.ok, report.findings


def _goes_on(place: Path) -> None:
    """A store that came through a cut is written to and verified like any other."""
    with trails.open(place) as store:
        for each in store.list():
            session = store.load(each.id)
            session.append("user", "after the cut")
            session.persist()
        _whole(store)
    with trails.open(place) as store:
        _whole(store)


_COPIED = {"first": Known(("one", "two", "")), "fork": Known(("one", "two", "four"), "first")}
_LATER = _COPIED | {"fork": Known(("one", "two", "four", "five"), "first")}


def _check_copies(folder: Path, stage: Stage, heard: Heard, told: Told) -> None:
    for name, acknowledged in heard.copies.items():
        if name == "dump":
            hashes = [what[2] for _, what in told if what[0] == "holds"]
            _check_dump(folder, hashes, acknowledged=acknowledged)
        elif name == "filled":
            _check_filled(folder, acknowledged=acknowledged)
        elif (folder / name).exists() or acknowledged:
            with trails.open(folder / name) as store:
                assert _sessions(store) == _COPIED
                _whole(store)
    if "backup" in heard.copies and stage.job["durability"] == "disk":
        with trails.open(folder / "store") as store:
            assert _sessions(store) in (_COPIED, _LATER)
            _whole(store)
    elif (folder / "store").exists():
        with trails.open(folder / "store", create=True) as store:
            _whole(store)


def _check_dump(folder: Path, hashes: list[str], *, acknowledged: bool) -> None:
    if (folder / "dump").exists() or acknowledged:
        assert hashlib.sha256((folder / "dump").read_bytes()).hexdigest() in hashes


def _check_filled(folder: Path, *, acknowledged: bool) -> None:
    """Loading into a store that is empty: it is empty still, or filled; for a moment both stand beside its place."""
    place = folder / "filled"
    if not place.exists():
        assert not acknowledged
        place = folder / "filled.loaded"
    with trails.open(place) as store:
        assert _sessions(store) in ((_COPIED,) if acknowledged else (_COPIED, {}))
        _whole(store)


def _check_bring_up(folder: Path, stage: Stage, heard: Heard, _told: Told) -> None:
    store = folder / "store"
    acknowledged = bool(heard.past[0]) and not heard.writers[0].unfinished and len(heard.past[0]) > 1
    number = marker.read(store)["format"]
    kept = folder / "store.format-1.backup"
    assert number >= 2 or not acknowledged
    if number >= 2 or kept.exists():
        assert marker.read(kept)["format"] == 1
        upgrade(kept)
        _check_stored(kept, stage)
    upgrade(store)
    _check_stored(store, stage)


def _check_stored(place: Path, stage: Stage) -> None:
    with trails.open(place) as store:
        lengths = {name: len(known.contents) for name, known in _sessions(store).items()}
        assert lengths == _HELD[stage.job["archive"]]
        _whole(store)


_HELD: dict[str, dict[str, int]] = {
    "format-1": {"plan": 4, "dinner": 5, "solo": 3, "flat": 3, "helper": 0},
    "format-1-killed": {"plan": 4, "dinner": 5, "solo": 3, "flat": 3, "helper": 0, "late": 2},
}
"""What the stored databases hold: turns by session. `format-1` is written down in `test_upkeep.py` in full."""


def _unpack(archive: str, folder: Path) -> None:
    with tarfile.open(FORMATS / f"{archive}.tar.gz") as tar:
        tar.extractall(folder, filter="data")
    (made,) = folder.iterdir()
    made.rename(folder / "store")


# --- the tests


@pytest.mark.slow
def test_a_power_cut_loses_nothing_acknowledged_and_brings_nothing_deleted_back(tmp_path: Path, size: Size) -> None:
    if shutil.which("strace") is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(
            "strace is not installed (Debian: apt-get install strace)"
        )
    seed = int(os.environ.get("TRAILS_SEED", "20261122"))
    wanted = int(os.environ.get("TRAILS_CUTS", {"quick": "8", "all": "45", "long": "2000"}[size]))
    counts: Counter[str] = Counter()
    for run in count(seed):
        cutter = Cutter(tmp_path / str(run), run, counts)
        chosen = _QUICK if size == "quick" else range(len(_JOBS))
        stages = [cutter.stage(number, _JOBS[number]) for number in chosen]
        for each in {"quick": (2, 1), "all": (4, 3, 1), "long": (12, 6, 3, 3)}[size]:
            stages = cutter.run(stages, each)
        shutil.rmtree(tmp_path / str(run))
        if counts.total() >= wanted:
            break
    assert {name.split()[0] for name in counts} == {"work", "copies", "bring_up"}
    assert counts["work disk 1"], "no cut was made within what came after a cut"
    print(f"{counts.total()} cuts, seed {seed}: {dict(counts)}")  # noqa: T201 - the figure
