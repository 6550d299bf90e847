"""Several processes import the same transcripts into one store: each session and each fork comes in once."""

from __future__ import annotations

import subprocess
import sys

import pytest

import trails
from tests.support.importing import merged_at_once
from tests.support.machines import Size
from trails import StoreFailed
from trails.exchange.merge import merge
from trails.exchange.source_transcript import Piece, SourceSession, SourceTurn, Transcript
from trails.store.log import commit_log

_IMPORTING = """
import sys
import trails
from tests.store.postgres.test_imports import transcript
from trails.exchange.merge import merge
with trails.open(sys.argv[1]) as store:
    print("open", flush=True)
    sys.stdin.readline()
    report = merge(store, transcript(int(sys.argv[2])))
    print(report.turns_added, len(report.problems), flush=True)
"""


def _path(*ids: str) -> tuple[SourceTurn, ...]:
    return tuple(SourceTurn(role="user", pieces=(Piece(each, f"text of {each}"),)) for each in ids)


def transcript(sessions: int, *, but: str = "") -> Transcript:
    """Sessions of 8 turns each in a main path and three branches, without the branch that ends in a turn."""
    paths = [_path("a", "b", "c", "f", "g"), _path("a", "d"), _path("a", "b", "e"), _path("a", "b", "c", "h")]
    kept = tuple(path for path in paths if path[-1].source_ids != (but,))
    return Transcript(sessions=tuple(SourceSession(source="t", id=f"S{n}", paths=kept) for n in range(sessions)))


def test_two_stores_that_import_the_same_at_once_make_each_fork_once(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with trails.open(url, create=True) as first, trails.open(url) as second:
        merge(first, transcript(1, but="d"))
        reports = merged_at_once(monkeypatch, (first, second), transcript(1))
        assert sorted(report.turns_added for report in reports) == [0, 1]
        assert [problem for report in reports for problem in report.problems] == []
        assert len(first.list(fresh=True)) == len(second.list(fresh=True)) == 4
        assert first.verify().ok


def test_an_import_that_another_process_keeps_waiting_says_so_and_writes_nothing(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_log, "_HELD", 0.1)
    with trails.open(url, create=True) as first, trails.open(url) as second:
        with first.workspace.merging("t:S0"):
            report = merge(second, transcript(2))
        assert [problem.reason.partition(";")[0] for problem in report.problems] == [
            f"session 'S0': another process does the same (import t:S0) in {first.store.location}, for more than 0 seconds"
        ]
        assert [record.id.partition("~")[0] for record in second.list()] == ["t:S1"] * 4
        assert merge(second, transcript(2)).turns_added == 8


def test_one_that_fails_lets_the_next_one_in(url: str) -> None:
    with trails.open(url, create=True) as first, trails.open(url) as second:
        with pytest.raises(StoreFailed), first.workspace.merging("t:S0"):
            raise StoreFailed("on purpose")
        with second.workspace.merging("t:S0"):
            pass


@pytest.mark.slow
def test_processes_that_import_the_same_at_once_make_each_session_and_fork_once(url: str, size: Size) -> None:
    trails.open(url, create=True).close()
    sessions, count = (12, 2) if size == "quick" else (40, 4)
    started = [
        subprocess.Popen(
            [sys.executable, "-c", _IMPORTING, url, str(sessions)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(count)
    ]
    for each in started:
        assert each.stdout is not None
        assert each.stdout.readline() == "open\n"
    done = [each.communicate("go\n")[0].split() for each in started]
    assert sum(int(turns) for turns, _ in done) == 8 * sessions
    assert [problems for _, problems in done] == ["0"] * count
    with trails.open(url) as store:
        assert len(store.list(limit=500)) == 4 * sessions
        assert store.verify().ok
