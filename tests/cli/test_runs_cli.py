"""`trails runs list`: what a person sees of sub-agents' runs."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

import trails
from tests.support.clocks import Clock
from tests.support.commands import Run, invoke, ok_json
from tests.support.runs import MAIN, counter
from trails import Runs, Step


@pytest.fixture(scope="module")
def filled_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with three runs: one announced (id-2), one that failed (id-4), one that waits for its turn (id-6)."""

    def agent(step: Step) -> str:
        if step.run is not None and "fail" in (step.run.task or ""):
            raise RuntimeError("no model")
        return "Two an hour."

    path = tmp_path_factory.mktemp("filled") / "store.trails"
    with trails.open(path, create=True, durability="process") as store:
        runs = Runs(store, agent=agent, announce=lambda word: None, clock=Clock(), new_id=counter())
        runs.spawn(MAIN, "How often do trains go?", origin={"channel": "slack", "to": "C1"})
        runs.spawn(MAIN, "Try to fail\x1b[31m", label="probe")
        runs.work()
        runs.spawn(MAIN, "Look for hotels", run_timeout_seconds=90, cleanup="delete")
    return path


@pytest.fixture
def run(run: Run) -> Run:
    """Any command on that store, on a wide terminal."""
    return partial(run, width=200)


def test_runs_are_listed_oldest_first_or_only_the_active_ones(run: Run) -> None:
    found = ok_json(run("runs", "list", "--json"))["runs"]
    assert [(each["run_id"], each["state"], each["outcome"]) for each in found] == [
        ("id-2", "done", "ok"),
        ("id-4", "done", "error"),
        ("id-6", "running", None),
    ]
    assert [each["run_id"] for each in ok_json(run("runs", "list", "--active", "--json"))["runs"]] == ["id-6"]
    lines = run("runs", "list").stdout.splitlines()
    assert lines[0].split() == ["id", "state", "asked", "for", "by", "started", "(UTC)", "took", "task"]
    assert lines[2].split()[:4] == ["id-2", "done:", "ok", "main"]
    assert "probe" in lines[3]


def test_where_a_table_does_not_fit_each_run_takes_two_lines(run: Run) -> None:
    lines = run("runs", "list", width=40).stdout.splitlines()
    assert lines[:2] == ["id-2  How often do trains go?", "    done: ok  by main  2026-03-01 12:00:00  n/a"]


def test_the_runs_of_a_session_are_found_by_its_key_or_id(run: Run, place: Path) -> None:
    with trails.open(place) as store:
        child = Runs(store).get("id-2").child_session or ""
    assert [each["run_id"] for each in ok_json(run("runs", "list", "--session", child, "--json"))["runs"]] == ["id-2"]
    assert len(ok_json(run("runs", "list", "--session", MAIN, "--json"))["runs"]) == 3
    assert run("runs", "list", "--session", "nobody").exit_code == 2


def test_one_run_is_shown_with_what_happened_around_it(run: Run) -> None:
    found = ok_json(run("runs", "show", "id-2", "--json"))
    assert [(event["what"], event["how"]) for event in found["events"]] == [
        ("task", ""),
        ("exchange", "completed"),
        ("announced", "direct, waits in the inbox"),
    ]
    assert "Two an hour." in found["events"][2]["text"]
    assert (found["task"], found["requester_origin"]) == ("How often do trains go?", {"channel": "slack", "to": "C1"})
    text = run("runs", "show", "id-4").stdout
    for part in ("done error", "RuntimeError: no model", "keep the session", "failed: RuntimeError"):
        assert part in text
    assert "\x1b" not in text


def test_a_run_that_is_not_there_is_an_error_that_says_so(run: Run) -> None:
    result = run("runs", "show", "nobody")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "the run 'nobody' is not in the registry" in result.stderr


def test_a_store_without_runs_says_so(tmp_path: Path) -> None:
    trails.open(tmp_path / "s", create=True).close()
    result = invoke("runs", "list", store=tmp_path / "s")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "no runs\n")


def test_redacting_tells_which_runs_lost_their_task_or_hold_the_text(run: Run, place: Path) -> None:
    with trails.open(place) as store:
        child = Runs(store).get("id-2").child_session or ""
    result = run("redact", child, "0", "--yes")
    assert "task taken out of the run: id-2" in result.stderr
    assert "[taken out]" in run("runs", "list").stdout
