"""A process that writes for long stays small, and its store opens quickly after it was killed."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import trails

_TURNS_EACH = 500
_WRITER = """
import json, os, signal, sys, trails

def resident():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS"))

store = trails.open(sys.argv[1], create=True, durability="process")
most = 0.0
for session_number in range(int(sys.argv[2]) // int(sys.argv[3])):
    session = store.create(id=f"s{session_number}")
    for number in range(int(sys.argv[3])):
        session.append("user", f"turn {number} of session {session_number}: " + "some words of a turn " * 18)
        session.persist()
    most = max(most, resident())
print(json.dumps(most), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_memory_stays_small_and_a_killed_store_opens_quickly(tmp_path: Path, long: bool) -> None:
    turns = 100_000 if long else 5_000
    command = [sys.executable, "-c", _WRITER, str(tmp_path / "s"), str(turns), str(_TURNS_EACH)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    megabytes = json.loads(ended.stdout)
    trails.open(":memory:").close()  # what is imported with the first store is not what is measured
    seconds = min(_seconds_to_open(tmp_path / "s", tmp_path / f"copy{number}", turns) for number in range(3))
    measured = f"{turns} turns: at most {megabytes:.0f} MB resident, opened after the kill in {seconds:.2f} s"
    assert megabytes < 150, measured
    if long:
        assert seconds < 0.5, measured
    (tmp_path / "measured.txt").write_text(measured)


def _seconds_to_open(store: Path, copy: Path, turns: int) -> float:
    """Open a copy of a killed store, which a store is only once."""
    shutil.copytree(store, copy)
    start = time.perf_counter()
    opened = trails.open(copy)
    seconds = time.perf_counter() - start
    with opened:
        assert [len(opened.load(name)) for name in ("s0", f"s{turns // _TURNS_EACH - 1}")] == [_TURNS_EACH] * 2
        assert opened.info()["turns"] == turns
    shutil.rmtree(copy)
    return seconds
