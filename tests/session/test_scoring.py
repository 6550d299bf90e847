"""Scoring many sessions: by a pool, going on where it stopped, one failing alone."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import trails
from trails import InvalidInput, Repository, Session, SessionNotFound, StoreReadOnly


def fill(store: Repository, count: int = 5) -> list[str]:
    """Sessions s0, s1, ...: s0 has one turn, s1 two, and so on."""
    for number in range(count):
        made = store.create(id=f"s{number}")
        for turn in range(number + 1):
            made.append("user", f"turn {turn}")
        made.persist()
    return [f"s{number}" for number in range(count)]


def length(session: Session) -> int:
    return len(session)


@pytest.mark.parametrize("workers", [1, 4])
def test_every_session_gets_the_score_of_the_function_in_order(store: Repository, workers: int) -> None:
    ids = fill(store)
    seen: list[tuple[int, int]] = []
    found = store.score_all(
        ids, length, version="1", workers=workers, progress=lambda done, total, _: seen.append((done, total))
    )
    assert [(score.session_id, score.name, score.value, score.by, score.version) for score in found.scores] == [
        (f"s{number}", "length", number + 1, "length", "1") for number in range(5)
    ]
    assert (found.skipped, found.unscored, found.failed) == ((), (), ())
    assert seen == [(1, 5), (2, 5), (3, 5), (4, 5), (5, 5)]
    assert len(store.scores()) == 5
    assert store.verify().findings == ()


def test_one_that_fails_does_so_alone_and_is_tried_again_by_the_next_call(memory: Repository) -> None:
    ids = fill(memory)
    broken = {"s1", "s3"}

    def rater(session: Session) -> Any:
        if session.id in broken:
            raise ValueError("no answer")
        return "odd" if len(session) % 2 else "even"

    first = memory.score_all(ids, rater, workers=3)
    assert [(each.session_id, each.error) for each in first.failed] == [
        ("s1", "ValueError: no answer"), ("s3", "ValueError: no answer"),
    ]  # fmt: skip
    assert [score.session_id for score in first.scores] == ["s0", "s2", "s4"]
    broken.clear()
    second = memory.score_all(ids, rater, workers=3)
    assert [score.session_id for score in second.scores] == ["s1", "s3"]
    assert second.skipped == ("s0", "s2", "s4")


def test_a_session_that_went_on_a_new_version_and_another_name_are_scored_anew(memory: Repository) -> None:
    ids = fill(memory, 2)
    memory.score_all(ids, length, version="1")
    chat = memory.load("s0")
    chat.append("user", "more")
    chat.persist()
    assert [score.value for score in memory.score_all(ids, length, version="1").scores] == [2]
    assert len(memory.score_all(ids, length, version="2").scores) == 2
    assert len(memory.score_all(ids, length, version="2", name="size").scores) == 2
    assert len(memory.score_all(ids, length, version="2", by="bob").scores) == 2
    assert memory.score_all(ids, length, version="2").skipped == ("s0", "s1")
    assert len(memory.score_all(ids, length, version="2", again=True).scores) == 2


def test_what_was_done_when_it_was_cut_short_is_kept(memory: Repository) -> None:
    ids = fill(memory)

    def rater(session: Session) -> int:
        if session.id == "s2":
            raise KeyboardInterrupt
        return 1

    with pytest.raises(KeyboardInterrupt):
        memory.score_all(ids, rater)
    before = {score.session_id for score in memory.scores()}
    assert {"s0", "s1"} <= before < {"s0", "s1", "s2", "s3", "s4"}
    found = memory.score_all(ids, lambda session: 1, name="rater", by="agent:rater")
    assert set(found.skipped) == before


def test_several_scores_by_name_reasons_and_none(memory: Repository) -> None:
    ids = fill(memory, 3)

    def judge(session: Session) -> Any:
        return [None, {"tone": ("warm", "it asks"), "ok": True, "left": None}, (0.5, "half")][len(session) - 1]

    found = memory.score_all(ids, judge)
    assert found.unscored == ("s0",)
    assert [(score.session_id, score.name, score.value, score.reason) for score in found.scores] == [
        ("s1", "judge.tone", "warm", "it asks"), ("s1", "judge.ok", True, None), ("s2", "judge", 0.5, "half"),
    ]  # fmt: skip
    assert memory.score_all(ids, judge).skipped == ("s1", "s2")
    assert [row["value"] for row in found.table().rows] == ["warm", True, 0.5]


@pytest.mark.parametrize("workers", [1, 3])
def test_a_scorer_that_calls_exit_fails_on_that_session_alone(memory: Repository, workers: int) -> None:
    def leaving(session: Session) -> int:
        return len(session) if session.id != "s1" else sys.exit("no such file")

    found = memory.score_all(fill(memory, 3), leaving, workers=workers)
    assert [score.session_id for score in found.scores] == ["s0", "s2"]
    assert [(each.session_id, each.error) for each in found.failed] == [("s1", "SystemExit: no such file")]


@pytest.mark.parametrize("wrong", [float("nan"), [1], (1, 2, 3), (1, 2), {"": 1}, {1: {}}, b"x", {"a": 1, "b": []}])
def test_what_is_no_score_fails_that_session_and_stores_nothing_of_it(memory: Repository, wrong: Any) -> None:
    fill(memory, 2)
    found = memory.score_all(["s0", "s1"], lambda s: wrong if s.id == "s0" else 1, name="x", by="bob")
    assert [each.session_id for each in found.failed] == ["s0"]
    assert [score.session_id for score in memory.scores()] == ["s1"]


def test_a_score_is_of_the_transcript_that_the_scorer_was_shown(memory: Repository) -> None:
    fill(memory, 1)

    def slow(session: Session) -> int:
        other = memory.load("s0")
        other.append("user", "meanwhile")
        other.persist()
        session.append("user", "mine, and never stored")
        return len(session)

    found = memory.score_all(["s0"], slow)
    assert [(score.end, score.value) for score in found.scores] == [(1, 2)]
    assert len(memory.load("s0")) == 2
    assert memory.verify().findings == ()


def test_as_many_are_scored_at_a_time_as_there_are_workers(memory: Repository) -> None:
    ids = fill(memory, 4)
    together = threading.Barrier(4)

    def meet(session: Session) -> int:
        return together.wait(timeout=30)

    assert memory.score_all(ids, meet, workers=4).failed == ()


def test_a_session_that_is_deleted_meanwhile_fails_alone(memory: Repository) -> None:
    ids = fill(memory, 3)

    def rater(session: Session) -> int:
        if session.id == "s1":
            memory.delete("s1")
        return 1

    found = memory.score_all(ids, rater)
    assert [each.session_id for each in found.failed] == ["s1"]
    assert [score.session_id for score in found.scores] == ["s0", "s2"]


def test_no_scorer_is_called_on_a_store_that_is_only_read(place: Path) -> None:
    with trails.open(place, create=True) as store:
        fill(store)
    asked: list[str] = []

    def rater(session: Session) -> int:
        asked.append(session.id)
        return 1

    with trails.open(place, read_only=True) as view, pytest.raises(StoreReadOnly):
        view.score_all(["s0", "s1", "s2", "s3", "s4"], rater)
    assert asked == []


def test_what_cannot_be_scored_at_all_is_refused_before_anything_is(memory: Repository) -> None:
    fill(memory, 2)
    asked: list[str] = []

    def rater(session: Session) -> int:
        asked.append(session.id)
        return 1

    async def later(session: Session) -> int:
        return 1

    with pytest.raises(SessionNotFound):
        memory.score_all(["s0", "nobody"], rater)
    wrong: list[tuple[Any, Any, dict[str, Any]]] = [
        ("s0", rater, {}), (["s0"], "length", {}), (["s0"], later, {}), (["s0"], lambda s: 1, {}),
        (["s0"], rater, {"workers": 0}), (["s0"], rater, {"name": ""}), (["s0"], lambda s: 1, {"name": "x"}),
    ]  # fmt: skip
    for sessions, scorer, options in wrong:
        with pytest.raises(InvalidInput):
            memory.score_all(sessions, scorer, **options)
    assert asked == []


def test_a_fork_is_scored_apart_from_its_parent(memory: Repository) -> None:
    fill(memory, 2)
    memory.load("s1").fork(id="f").persist()  # it has the turns of s1, and none of its own
    assert len(memory.score_all(["s1", "f", "s1"], length).scores) == 2
    assert len(trails.aio.AsyncRepository.score_all.__doc__ or "") > 100
