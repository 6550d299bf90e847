"""Turns are withheld one at a time: which of them an answer depends on, and what is stored of it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from threading import Barrier
from time import sleep
from typing import Any

import pytest

from trails import InvalidInput, Repository, Session
from trails.replay.withholding import withhold_turns


@pytest.fixture
def plan(memory: Repository) -> Session:
    """A question with a tool call and its answer, and an answer at 4."""
    plan = memory.create(id="plan")
    plan.append("user", "I hate planes.")
    plan.append("assistant", "", tool_calls=[{"id": "c1", "name": "weather", "arguments": {}}])
    plan.append("tool", "Snow", tool_call_id="c1")
    plan.append("user", "How do I go?")
    plan.append("assistant", "By train.")
    plan.persist()
    return plan


def model(messages: Sequence[Any]) -> str:
    return "By train." if "hate" in str(messages) else "By plane."


def test_the_turn_without_which_the_answer_is_another_is_named(plan: Session) -> None:
    found = withhold_turns(plan, 4, model, repeats=2)
    assert [(each.turns, each.effect, each.answers) for each in found.withheld] == [
        ((0,), "changed", ("By plane.", "By plane.")),
        ((1, 2), "unchanged", ("By train.", "By train.")),  # a tool call and its answer are never parted
        ((3,), "unchanged", ("By train.", "By train.")),
    ]
    assert (found.changed, found.baseline.answers) == ([(0,)], ("By train.", "By train."))
    assert "0         changed" in str(found)


def test_each_answer_is_a_fork_with_what_was_shown_as_quotations(memory: Repository, plan: Session) -> None:
    found = withhold_turns(plan, 4, model, groups=[0], repeats=1)
    fork = memory.load(found.withheld[0].sessions[0])
    assert [turn.content for turn in fork][1:] == ["Snow", "How do I go?", "By plane."]
    assert [turn.quoted_from and turn.quoted_from.index for turn in fork] == [1, 2, 3, None]
    assert (fork.record.parent_session_id, dict(fork.record.meta)) == (
        "plan",
        {"withheld": [0], "answer_turn": 4, "repeat": 0},
    )
    assert memory.verify().ok
    rows = memory.select("withheld-turns", source="plan").to_dicts()
    assert [
        (row["session"].rpartition(":")[2], row["answer_turn"], row["withheld"], row["repeat"]) for row in rows
    ] == [
        ("plan~without-0-of-4-0", 4, [0], 0),
        ("plan~without-nothing-of-4-0", 4, [], 0),
    ]


def test_what_was_asked_is_not_asked_again_and_an_error_is(plan: Session) -> None:
    asked = count()

    def failing(messages: Sequence[Any]) -> str:
        next(asked)
        if "hate" not in str(messages):
            raise OSError("no network")
        return model(messages)

    first = withhold_turns(plan, 4, failing, repeats=2, workers=1)
    assert next(asked) == 8  # nothing, and three groups, twice each
    assert [(each.effect, len(each.errors)) for each in first.withheld] == [
        ("failed", 2),
        ("unchanged", 0),
        ("unchanged", 0),
    ]
    second = withhold_turns(plan, 4, lambda messages: [next(asked), model(messages)][1], repeats=2)  # type: ignore[arg-type, return-value] # a text
    assert next(asked) == 11  # the two that failed
    assert second.changed == [(0,)]


def test_an_interrupt_keeps_what_was_answered(memory: Repository, plan: Session) -> None:
    calls = count()

    def interrupted(messages: Sequence[Any]) -> str:
        if next(calls) == 3:
            raise KeyboardInterrupt
        return model(messages)

    with pytest.raises(KeyboardInterrupt):
        withhold_turns(plan, 4, interrupted, repeats=1, workers=1)
    assert len(memory.load("plan").branches()) == 3
    assert withhold_turns(plan, 4, interrupted, repeats=1).changed == [(0,)]
    assert next(calls) == 5  # four, and the one that was interrupted


def test_an_interrupt_waits_for_those_that_are_being_answered(memory: Repository, plan: Session) -> None:
    together, calls = Barrier(4), count()

    def interrupted(messages: Sequence[Any]) -> str:
        number = next(calls)
        together.wait(5)
        if number == 0:
            raise KeyboardInterrupt
        sleep(0.1)
        return model(messages)

    with pytest.raises(KeyboardInterrupt):
        withhold_turns(plan, 4, interrupted, repeats=1, workers=4)
    assert len(memory.load("plan").branches()) == 3


def test_answers_that_vary_anyway_are_within_noise(plan: Session) -> None:
    texts = iter("ABABACCC")  # with all turns A and B, without one of them A once
    found = withhold_turns(plan, 4, lambda messages: next(texts), groups=[3], repeats=4, workers=1)
    assert [each.effect for each in found.withheld] == ["within noise"]


@pytest.mark.parametrize(
    ("lengths", "effect"), [("5566", "changed"), ("1566", "within noise"), ("1212", "within noise")]
)
def test_scores_change_where_they_lie_beyond_all_of_the_others(plan: Session, lengths: str, effect: str) -> None:
    texts = iter("a" * int(length) for length in "1234" + lengths)
    found = withhold_turns(plan, 4, lambda messages: next(texts), groups=[3], repeats=4, score=len, workers=1)
    assert (found.withheld[0].effect, found.chance) == (effect, 2 / 70)


def test_wrong_turns_groups_and_names_are_refused(memory: Repository, plan: Session) -> None:
    for options, complaint in (
        ({"turn": 0}, "no answer at 0"),
        ({"turn": 5}, "give 1 to 4"),
        ({"groups": [4]}, "4 is no earlier turn"),
        ({"groups": [[]]}, "is no earlier turn"),
        ({"repeats": 0}, "repeats is 1 to 100"),
    ):
        arguments: Any = {"turn": 4} | options
        with pytest.raises(InvalidInput, match=complaint):
            withhold_turns(plan, answer=model, **arguments)
    memory.create(id="plan~without-nothing-of-4-0").persist()
    with pytest.raises(InvalidInput, match="keeps no such answer; give another name"):
        withhold_turns(plan, 4, model)


@pytest.mark.parametrize("score", [lambda text: None, lambda text: "x", lambda text: float("nan")])
def test_a_score_that_is_no_number_gives_no_verdict(plan: Session, score: Any) -> None:
    with pytest.raises(InvalidInput, match="`score` returns a number"):
        withhold_turns(plan, 4, model, repeats=2, score=score)


async def late(messages: Sequence[Any]) -> str:
    return "By train."


@pytest.mark.parametrize("answer", [lambda _: None, lambda _: "", lambda _: 5, lambda _: b"x", late])
def test_an_answer_that_is_no_text_is_an_error_of_that_answer(memory: Repository, plan: Session, answer: Any) -> None:
    found = withhold_turns(plan, 4, answer, groups=[0], repeats=1)
    (error,) = found.withheld[0].errors
    assert "returns a text, and returned" in str(error)
    assert (found.withheld[0].effect, [record.id for record in memory.list()]) == ("failed", ["plan"])


def test_groups_are_several(plan: Session) -> None:
    with pytest.raises(InvalidInput, match=r"write \[0\]"):
        withhold_turns(plan, 4, model, groups=0)  # type: ignore[arg-type]
