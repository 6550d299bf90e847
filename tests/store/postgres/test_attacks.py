"""What was never attacked under the log in PostgreSQL: makers of snapshots, the server, the cache, each ended at any moment."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

import trails
from tests.support.clusters import Cluster
from tests.support.machines import Size
from trails import StoreFailed

_KEEPING = """
import sys
import trails
from trails.store.index import engine
engine._SNAPSHOT_EVERY = 3
with trails.open(sys.argv[1]) as store:
    session = store.create(id=sys.argv[2])
    number = 0
    while True:
        session.append("user", f"turn {number} " + "x" * 300)
        session.persist()
        print(number, flush=True)
        number += 1
"""
_WRITING = """
import sys, time
import trails
url, name = sys.argv[1:]
number = 0
while True:
    try:
        with trails.open(url) as store:
            session = store.load(name)
            while True:
                text = f"{name} {number}" + (" secret" if number % 5 == 0 else "")
                if not any(turn.text == text or turn.redacted and turn.index == number for turn in session.turns[number:]):
                    session.append("user", text)
                    session.persist()
                print(number, flush=True)
                number += 1
    except trails.StoreFailed:
        time.sleep(0.1)
"""


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_four_writers_and_one_who_redacts_lose_nothing_while_the_server_restarts(
    cluster: Cluster, url: str, size: Size, mode: str
) -> None:
    with trails.open(url, create=True) as store:
        for number in range(4):
            store.create(id=f"w{number}").persist()
    writers = [
        subprocess.Popen([sys.executable, "-c", _WRITING, url, f"w{n}"], stdout=subprocess.PIPE, text=True)
        for n in range(4)
    ]
    redacted: set[tuple[str, int]] = set()
    try:
        for each in writers:
            assert each.stdout is not None
            assert each.stdout.readline()
        for _ in range(12 if size == "long" else 3):
            end = time.monotonic() + 1.5
            while time.monotonic() < end:
                redacted |= set(_redact_some(url))
            cluster.stop(mode)
            time.sleep(0.2)
            cluster.start()
            redacted |= set(_redact_some(url))
    finally:
        for each in writers:
            each.kill()
    acknowledged = [len(each.communicate()[0].split()) + 1 for each in writers]
    with trails.open(url) as store:
        assert store.verify().ok
        assert redacted
        for number, count in enumerate(acknowledged):
            turns = store.load(f"w{number}").turns
            assert len(turns) in (count, count + 1)
            assert all(turn.redacted or turn.text.split()[1] == f"{turn.index}" for turn in turns)
        for session, index in redacted:
            assert store.load(session).turns[index].redacted


def _redact_some(url: str) -> Iterator[tuple[str, int]]:
    """Redact turns that are to go, and give those of which that was acknowledged."""
    with suppress(StoreFailed), trails.open(url) as store:
        for number in range(4):
            for turn in store.load(f"w{number}").turns:
                if not turn.redacted and turn.text.endswith("secret"):
                    store.redact(f"w{number}", turn.index)
                    yield f"w{number}", turn.index
                    break
