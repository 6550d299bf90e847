"""Scores in a comparison: columns, statistics of groups, tests between arms, and colours."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import trails
from tests.support.commands import Run, ok, ok_json
from trails import InvalidInput, Repository
from trails.compare.comparison import Scored, score_columns


def fill(store: Repository) -> None:
    """A prompt and six forks of it, three in an arm: accuracies 1, 2, 3 (few) and 2, 4, 6 (many), one turn each."""
    prompt = store.create(id="prompt")
    prompt.append("user", "Plan a trip")
    prompt.persist()
    for arm, values in (("few", (1, 2, 3)), ("many", (2, 4, 6))):
        for number, value in enumerate(values):
            fork = prompt.fork(id=f"{arm}-{number}", meta={"arm": arm})
            fork.append("assistant", "By train.")
            fork.persist()
            store.score(fork, "accuracy", value, by="agent:grader", version="1")
            store.score(fork, "passed", value > 2, by="bob")
            store.score(fork, "grade", "good" if value > 3 else "poor", by="bob")


@pytest.fixture(scope="module")
def scored() -> Iterator[Repository]:
    with trails.open(":memory:") as store:
        fill(store)
        yield store


def column(store: Repository, name: str, root: str = "prompt") -> dict[str, object]:
    return {row["session"]: row[name] for row in store.compare(root)}


def test_each_name_has_a_column_and_a_truth_value_is_a_number_there(scored: Repository) -> None:
    assert column(scored, "score.accuracy") == {
        "prompt": None, "few-0": 1, "few-1": 2, "few-2": 3, "many-0": 2, "many-1": 4, "many-2": 6,
    }  # fmt: skip
    assert list(column(scored, "score.passed").values()) == [None, 0, 0, 1, 0, 1, 1]
    assert set(column(scored, "score.grade").values()) == {None, "good", "poor"}
    kinds = scored.compare("prompt").kinds
    assert {name: kind for name, kind in kinds.items() if name.startswith("score.")} == {
        "score.accuracy": "integer", "score.grade": "text", "score.passed": "integer",
    }  # fmt: skip


def test_groups_have_statistics_of_scores_and_two_are_tested(scored: Repository) -> None:
    found = scored.compare("prompt", group_by="meta.arm")
    few, many = found.group("few").aggregates, found.group("many").aggregates
    assert (few["score.accuracy"].mean, many["score.accuracy"].mean, many["score.accuracy"].sd) == (2.0, 4.0, 2.0)
    assert few["score.passed"].mean == pytest.approx(1 / 3)
    assert many["score.passed"].n == 3
    tested = found.test("score.accuracy", "few", "many")
    # t = (2 - 4) / sqrt(1/3 + 4/3)
    assert tested.difference == -2.0
    assert tested.statistic == pytest.approx(-1.5491933)
    with pytest.raises(InvalidInput, match="no numbers"):
        found.test("score.grade", "few", "many")


def test_branches_are_grouped_and_coloured_by_a_score(scored: Repository) -> None:
    found = scored.compare("prompt", group_by="score.grade")
    assert [(group.name, len(group)) for group in found.groups] == [("(root)", 1), ("good", 2), ("poor", 4)]
    assert "score.accuracy" in found.plot(color_by="score.accuracy").svg
    assert "poor" in found.plot(color_by="score.grade").svg


def test_the_newest_score_of_a_scorer_stands_in_the_column_and_scores_of_turns_in_none(memory: Repository) -> None:
    fill(memory)
    memory.score("few-0", "accuracy", 9, by="agent:grader", version="1")
    memory.score("few-0#1", "accuracy", 50, by="agent:grader", version="1")
    memory.score("few-0#1", "alone", 50, by="agent:grader", version="1")
    assert column(memory, "score.accuracy")["few-0"] == 9
    assert "score.alone" not in memory.compare("prompt").kinds


def test_what_several_scorers_or_versions_gave_never_shares_a_column(memory: Repository) -> None:
    fill(memory)
    memory.score("few-0", "accuracy", 0.5, by="bob")
    memory.score("few-1", "accuracy", 7, by="agent:grader", version="2")
    kinds = memory.compare("prompt").kinds
    assert [name for name in kinds if name.startswith("score.accuracy")] == [
        "score.accuracy@agent:grader/1", "score.accuracy@agent:grader/2", "score.accuracy@bob",
    ]  # fmt: skip
    assert column(memory, "score.accuracy@agent:grader/1")["few-1"] == 2
    assert column(memory, "score.accuracy@agent:grader/2")["few-1"] == 7
    with pytest.raises(InvalidInput, match=r"score\.accuracy@bob"):
        memory.compare("prompt", columns="score.accuracy")


def test_two_scorers_never_get_one_column_whatever_they_are_called() -> None:
    odd = [Scored("x", "urn:trails:agent:a", "b/c"), Scored("x", "urn:trails:agent:a%2Fb", "c")]
    assert len(set(score_columns(odd).values())) == 2
    bob, eve = "urn:trails:principal:bob", "urn:trails:principal:eve"
    names = score_columns([Scored("x@bob", eve, None), Scored("x", bob, None), Scored("x", eve, None)])
    assert len(set(names.values())) == 3


def test_the_command_has_the_columns_and_the_test(place: object, run: Run) -> None:
    with trails.open(str(place), create=True) as store:
        fill(store)
    shown = ok_json(run("compare", "prompt", "--columns", "session,score.accuracy", "--json"))
    assert shown["rows"][-1] == {"session": "many-2", "score.accuracy": 6}
    said = ok(run("compare", "prompt", "--group-by", "meta.arm", "--test", "score.accuracy"))
    assert "score.accuracy of 'few' (n = 3) against 'many' (n = 3)" in said
