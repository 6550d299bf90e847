"""What was committed and waits for the engine is seen by whoever asks, and a commit syncs the disk once."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import trails
from trails.errors import HeadConflict

_WAITING = 80
"""Turns of ten quads: more than wait as quads."""


def test_turns_that_wait_as_text_are_seen_by_queries(tmp_path: Path) -> None:
    with trails.open(tmp_path / "store", create=True) as store:
        session = store.create(id="s")
        store.query("ASK { ?s ?p ?o }")  # the engine is open: it keeps what is committed
        for number in range(_WAITING):
            session.append("user", f"turn {number}")
            session.persist()
        texts = store.select("SELECT ?text { GRAPH ?g { ?turn prov:value ?text } }").to_dicts()
        assert sorted(row["text"] for row in texts) == sorted(f"turn {number}" for number in range(_WAITING))


def test_a_writer_that_fell_behind_is_refused_while_turns_wait_as_text(tmp_path: Path) -> None:
    with trails.open(tmp_path / "store", create=True) as store:
        session = store.create(id="s")
        session.append("user", "first")
        session.persist()
        other = store.load("s")
        other.append("user", "too late")
        later = store.create(id="later")
        later.persist()
        later.append("user", "from now on, its commits look nothing up")
        later.persist()
        store.query("ASK { ?s ?p ?o }")
        session.append("user", "second")
        session.persist()
        for number in range(_WAITING):
            later.append("user", f"turn {number}")
            later.persist()
        with pytest.raises(HeadConflict):
            other.persist()
        other.discard_pending()
        assert [turn.content for turn in store.load("s").turns] == ["first", "second"]


def test_what_is_removed_while_turns_wait_as_text_is_gone(tmp_path: Path) -> None:
    with trails.open(tmp_path / "store", create=True) as store:
        gone = store.create(id="gone", label="old")
        gone.persist()
        store.query("ASK { ?s ?p ?o }")
        session = store.create(id="s")
        for number in range(_WAITING):
            session.append("user", f"turn {number}")
            session.persist()
        store.delete("gone")
        for number in range(_WAITING):
            session.append("user", f"later {number}")
            session.persist()
        assert store.query('ASK { ?s ?p "old" }') is False
        assert len(store.select("SELECT ?turn { GRAPH ?g { ?turn a trails:Turn } }").to_dicts()) == 2 * _WAITING


_COMMITS = """
import sys, trails
with trails.open(sys.argv[1], create=True) as store, store.create(id="s") as session:
    for number in range(int(sys.argv[2])):
        session.append("user", "x"); session.persist()
"""


@pytest.mark.slow
def test_a_commit_syncs_the_disk_once(tmp_path: Path) -> None:
    if (strace := shutil.which("strace")) is None:
        pytest.skip("strace is not installed (on Debian and Ubuntu: apt-get install strace)")

    def syncs(commits: int) -> int:
        trace, store = tmp_path / f"trace-{commits}", tmp_path / f"store-{commits}"
        watched = [strace, "-f", "-o", str(trace), "-e", "trace=fsync,fdatasync,sync_file_range,msync"]
        subprocess.run([*watched, sys.executable, "-c", _COMMITS, str(store), str(commits)], check=True)
        return trace.read_text().count("sync(")

    assert syncs(30) - syncs(10) == 20
