"""Many reruns of one record: each its own fork with its own tail, one failing alone, and gone on with where they were left."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import trails
from trails import InvalidInput, Playing, Repository, Session
from trails.history.records import activities
from trails.rdf.activity_records import Rerunning


def fill(store: Repository, turns: int = 4) -> Session:
    """Users and a model in turn, the last word the model's."""
    plan = store.create(id="plan")
    for n in range(turns):
        plan.append("user" if n % 2 == 0 else "assistant", f"turn {n}")
    plan.persist()
    return plan


def agent(run: Playing) -> int:
    while run.input():
        run.model()
    return run.number


def last_word(run: Playing) -> str:
    """What was recorded, but for the last answer, which is the rerun's own."""
    index = len(run.turns)
    return f"end {run.number}" if index == 3 else f"turn {index}"


def test_each_rerun_is_a_fork_of_its_own(store: Repository) -> None:
    done = trails.rerun_many(fill(store), agent, 5, name="try", model=last_word)
    assert [each.id for each in done] == [f"plan~try-{n}" for n in range(5)]
    assert [each.result for each in done] == [0, 1, 2, 3, 4]
    assert [each.left_at for each in done] == [3] * 5
    assert [store.load(f"plan~try-{n}")[-1].content for n in range(5)] == [f"end {n}" for n in range(5)]
    assert store.verify().ok


@pytest.mark.slow
def test_fifty_reruns_of_a_thousand_turns_store_fifty_tails_and_no_prefix(memory: Repository) -> None:
    plan = fill(memory, 1000)

    def model(run: Playing) -> str:
        index = len(run.turns)
        return "another end" if index == 999 else f"turn {index}"

    before = memory.verify().turns
    done = trails.rerun_many(plan, agent, 50, model=model)
    assert before == 1000
    assert memory.verify().turns == 1050
    assert {(each.agreed, each.left_at, each.live, len(each.session)) for each in done} == {(999, 999, 500, 1000)}
    assert {record.forked_at_index for record in memory.branches("plan")} == {999}


def test_one_that_fails_fails_alone_and_is_run_again_by_the_next_call(store: Repository) -> None:
    plan, broken = fill(store), [True]

    def sometimes(run: Playing) -> int:
        run.input()
        if run.number == 2 and broken:
            raise ConnectionError("no network")
        run.model()
        return run.number

    first = trails.rerun_many(plan, sometimes, 4, model=last_word)
    assert [each.outcome for each in first] == ["finished", "finished", "failed", "finished"]
    assert isinstance(first[2].error, ConnectionError)
    broken.clear()
    again = trails.rerun_many(plan, sometimes, 4, model=last_word)
    assert [each.id for each in again] == ["plan~rerun-0", "plan~rerun-1", "plan~rerun-2.2", "plan~rerun-3"]
    assert [each.outcome for each in again] == ["finished"] * 4
    assert [each.result for each in again] == [None, None, 2, None]  # what an agent returned is not kept
    assert [each.left_at for each in again] == [2] * 4


def test_what_was_done_is_not_run_again_and_more_are_added(memory: Repository) -> None:
    plan = fill(memory)
    ran: list[int] = []

    def noted(run: Playing) -> None:
        ran.append(run.number)
        agent(run)

    trails.rerun_many(plan, noted, 3)
    found = trails.rerun_many(plan, noted, 5, workers=1)
    assert sorted(ran) == [0, 1, 2, 3, 4]
    assert [each.outcome for each in found] == ["finished"] * 5
    assert [(each.agreed, each.left_at, each.played) for each in found] == [(4, None, 2)] * 5


def test_one_whose_agent_calls_exit_fails_alone_too(memory: Repository) -> None:
    def leaving(run: Playing) -> None:
        run.input()
        if run.number == 1:
            sys.exit(3)

    done = trails.rerun_many(fill(memory), leaving, 3)
    assert [each.outcome for each in done] == ["finished", "failed", "finished"]
    assert isinstance(done[1].error, SystemExit)
    assert len(memory.load("plan~rerun-1")) == 1


def test_one_that_was_deleted_is_run_again_under_a_name_that_is_free(memory: Repository) -> None:
    plan = fill(memory)
    trails.rerun_many(plan, agent, 3)
    memory.delete("plan~rerun-1")
    again = trails.rerun_many(plan, agent, 3)
    assert [each.id for each in again] == ["plan~rerun-0", "plan~rerun-1.2", "plan~rerun-2"]
    memory.delete("plan~rerun-1.2")
    assert trails.rerun_many(plan, agent, 2)[1].id == "plan~rerun-1.3"


def test_a_pool_that_was_cut_short_keeps_what_was_done(memory: Repository) -> None:
    plan = fill(memory)

    def stop(_: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trails.rerun_many(plan, agent, 20, workers=1, progress=stop)
    assert "plan~rerun-0" in memory
    assert len(trails.rerun_many(plan, agent, 20)) == 20
    assert len(memory) == 21


def test_progress_is_told_of_each_rerun_in_the_callers_thread(memory: Repository) -> None:
    told: list[tuple[str, int]] = []
    trails.rerun_many(fill(memory), agent, 3, progress=lambda done: told.append((done.id, threading.get_ident())))
    assert sorted(told) == [(f"plan~rerun-{n}", threading.get_ident()) for n in range(3)]


def test_agents_run_side_by_side(memory: Repository) -> None:
    together = threading.Barrier(3, timeout=20)

    def meeting(run: Playing) -> None:
        together.wait()
        agent(run)

    assert [each.outcome for each in trails.rerun_many(fill(memory), meeting, 3, workers=3)] == ["finished"] * 3


def test_another_session_of_that_name_is_refused_before_anything_is_run(memory: Repository) -> None:
    plan = fill(memory)
    memory.create(id="plan~rerun-1").persist()
    with pytest.raises(InvalidInput, match="no rerun of 'plan'"):
        trails.rerun_many(plan, agent, 2)
    assert len(memory) == 2
    other = memory.create(id="other")
    trails.rerun(other, agent, id="plan~try-0")
    with pytest.raises(InvalidInput, match="'plan~try-0' is there, and no rerun of 'plan'"):
        trails.rerun_many(plan, agent, 1, name="try")


@pytest.mark.parametrize(
    ("count", "options"),
    [
        (-1, {}),
        (2, {"workers": 0}),
        (2, {"workers": 65}),
        (2, {"name": "a b<"}),
        (2, {"upto": 5}),
        (2, {"meta": {"a": object()}}),
        (100_001, {}),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_run(
    memory: Repository, count: int, options: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInput):
        trails.rerun_many(fill(memory), agent, count, **options)
    assert len(memory) == 1


def test_none_are_none(memory: Repository) -> None:
    assert trails.rerun_many(fill(memory), agent, 0) == []


def test_the_options_are_those_of_every_fork(memory: Repository) -> None:
    plan = fill(memory)
    done = trails.rerun_many(plan, agent, 2, principal="bob", meta={"arm": "b"}, by="carol")
    assert [(each.session.principal, each.session.meta) for each in done] == [("bob", {"arm": "b"})] * 2
    by = [
        act.by_iri
        for each in done
        for act in activities.read_activities(memory.store, each.id)
        if isinstance(act, Rerunning)
    ]
    assert by == ["urn:trails:principal:carol"] * 2


KILLED = """
import os, sys, trails
def agent(run):
    if run.number == 3:
        os.kill(os.getpid(), 9)
    while run.input():
        run.model()
with trails.open(sys.argv[1]) as store:
    trails.rerun_many(store.load("plan"), agent, 6, workers=1)
"""


def test_after_a_kill_what_was_done_is_there_and_the_rest_is_run(place: Path) -> None:
    with trails.open(place, create=True) as store:
        fill(store)
    ended = subprocess.run([sys.executable, "-c", KILLED, str(place)], check=False)
    assert ended.returncode == -signal.SIGKILL
    with trails.open(place) as store:
        assert sorted(record.id for record in store.branches("plan")) == [f"plan~rerun-{n}" for n in range(3)]
        assert store.verify().ok
        ran: list[int] = []
        done = trails.rerun_many(store.load("plan"), lambda run: ran.append(run.number), 6)
        assert (sorted(ran), len(done)) == ([3, 4, 5], 6)
        assert store.verify().ok
