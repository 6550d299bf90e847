"""Many threads and processes on one ref lose nothing and double nothing; a kill leaves each move done or not done."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import trails
from tests.support.machines import Size
from tests.support.places import ROOT
from tests.support.ref_writers import race, whats_left
from trails import Repository


def _left(store: Repository) -> Counter[str]:
    return Counter(turn.text for turn in store.checkout("main"))


def test_eight_threads_on_one_ref_lose_and_double_nothing(tmp_path: Path, size: Size) -> None:
    steps = {"quick": 6, "all": 30, "long": 200}[size]
    with trails.open(tmp_path / "s.trails", create=True) as store, ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda name: race(store, f"t{name}", steps), range(8)))
        assert sum(len(appended) for appended, _ in results) == 8 * steps
        assert _left(store) == whats_left(results)
        assert store.verify().ok


@pytest.mark.slow
def test_eight_processes_on_one_ref_lose_and_double_nothing(tmp_path: Path, size: Size) -> None:
    steps = {"quick": 4, "all": 20, "long": 200}[size]
    place = str(tmp_path / "s.trails")
    trails.open(place, create=True).close()
    command = [sys.executable, "-m", "tests.support.ref_writers", "race", place, str(tmp_path), str(steps)]
    subprocess.run(command, check=True, cwd=ROOT, timeout=300)
    results = [tuple(json.loads((tmp_path / f"{name}.json").read_text())) for name in range(8)]
    with trails.open(place) as store:
        assert _left(store) == whats_left(results)
        assert store.refs["main"].moves >= 1
        assert store.verify().ok


@pytest.mark.slow
def test_a_move_that_is_killed_happened_or_did_not(tmp_path: Path, size: Size) -> None:
    kills = {"quick": 8, "all": 60, "long": 200}[size]
    place = str(tmp_path / "s.trails")
    command = [sys.executable, "-m", "tests.support.ref_writers", "killed", place, "7"]
    known: list[str] = []
    reached = 0
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for number in range(kills):
            process.stdin.write(f"{number}\n")
            process.stdin.flush()
            begun: list[str] | None = None
            while "killed" not in (told := json.loads(process.stdout.readline())):
                begun = told.get("to be", None)
                known = told.get("is", known)
                reached += "is" in told
            if not Path(place, "trails.db").exists():
                continue
            with trails.open(place) as store:
                found = [turn.text for turn in store.checkout("main")] if "main" in store.refs else []
                assert found in (known, begun)
                known = found
                if number % 20 == 0:
                    assert store.verify().ok
        process.stdin.close()
    assert reached
    with trails.open(place) as store:
        report = store.verify()
        assert (report.ok, report.findings) == (True, ())
