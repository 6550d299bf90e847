"""The commands that bring sessions from one store to another."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import trails
from tests.support.commands import Run


@pytest.fixture
def other(tmp_path: Path) -> Path:
    return tmp_path / "other.trails"


@pytest.fixture(autouse=True)
def plan(place: Path) -> None:
    with trails.open(place, create=True) as store:
        plan = store.create(id="plan", label="trip")
        plan.append("user", "Go")
        plan.persist()


def append(place: Path, text: str) -> None:
    with trails.open(place) as store:
        plan = store.load("plan")
        plan.append("user", text)
        plan.persist()


def test_push_says_what_became_of_each_session(run: Run, other: Path) -> None:
    done = run("push", "trip", "--to", str(other), "--create")
    assert done.exit_code == 0
    assert done.stdout.split() == ["1", "turn", "plan", "new", "there"]
    again = run("push", "plan", "--to", str(other))
    assert again.stdout.split() == ["0", "turns", "plan", "nothing", "to", "do"]


def test_push_names_the_fork_that_gets_the_tail_where_both_went_on(run: Run, place: Path, other: Path) -> None:
    run("push", "plan", "--to", str(other), "--create")
    append(place, "By train")
    append(other, "By bus")
    said = json.loads(run("push", "plan", "--to", str(other), "--json").stdout)
    [moved] = said["sessions"]
    assert (moved["outcome"], moved["at"], said["ok"]) == ("forked", 1, True)
    with trails.open(other) as store:
        assert [turn.content for turn in store.load(moved["there"])] == ["Go", "By train"]
        assert [turn.content for turn in store.load("plan")] == ["Go", "By bus"]


def test_pull_brings_all_sessions_of_another_store(run: Run, place: Path, other: Path) -> None:
    with trails.open(other, create=True) as store:
        for name in ("a", "b"):
            store.create(id=name).persist()
    assert run("pull", "--all", "--from", str(other)).exit_code == 0
    with trails.open(place) as store:
        assert sorted(record.id for record in store.list()) == ["a", "b", "plan"]


def test_a_dry_run_makes_no_store_and_writes_nothing(run: Run, place: Path, other: Path) -> None:
    run("push", "plan", "--to", str(other), "--create")
    append(place, "By train")
    done = run("push", "plan", "--to", str(other), "--dry-run")
    assert "went on there" in done.stdout
    assert "would bring 1 turn" in done.stderr
    with trails.open(other) as store:
        assert len(store.load("plan")) == 1


def test_a_session_that_was_deleted_there_ends_the_command_with_1(run: Run, other: Path) -> None:
    run("push", "plan", "--to", str(other), "--create")
    with trails.open(other) as store:
        store.delete("plan")
    done = run("push", "plan", "--to", str(other))
    assert done.exit_code == 1
    assert "--restore brings it back" in done.stdout
    assert run("push", "plan", "--to", str(other), "--restore").exit_code == 0


def test_a_store_that_is_not_there_is_not_made_by_the_way(run: Run, other: Path) -> None:
    done = run("push", "plan", "--to", str(other))
    assert done.exit_code == 2
    assert str(other) in done.stderr
    assert not other.exists()


def test_sessions_are_named_or_all_are_meant(run: Run, other: Path) -> None:
    assert run("push", "--to", str(other)).exit_code == 2
    assert run("push", "plan", "--all", "--to", str(other)).exit_code == 2
