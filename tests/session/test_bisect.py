"""Bisect finds the turn with which an outcome flips, in as few tries as it takes, and never takes the ends on trust."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from math import ceil, log2
from pathlib import Path

import pytest
from click.testing import Result
from hypothesis import assume, example, given
from hypothesis import strategies as st

import trails
from tests.support.commands import Run, invoke
from trails import InvalidInput, Repository, Session, Turn
from trails.session.blame import narrowed


def filled(store: Repository, count: int, bad: int) -> Session:
    """A session of `count` turns, of which the one at `bad` says "oops"."""
    session = store.create(id="s", label="work")
    for number in range(count):
        session.append("user", "oops" if number == bad else f"turn {number}")
    session.persist()
    return session


def is_good(prefix: Sequence[Turn]) -> bool:
    return all(turn.content != "oops" for turn in prefix)


@given(st.integers(1, 60), st.data())
def test_the_turn_is_found_in_a_number_of_tries_that_grows_with_the_logarithm(count: int, data: st.DataObject) -> None:
    bad = data.draw(st.integers(0, count - 1))
    with trails.open(":memory:") as store:
        found = filled(store, count, bad).bisect(is_good)
        assert found.turn is not None
        assert (found.turn.index, found.turn.content) == (bad, "oops")
        assert (found.good, found.bad, found.candidates) == (bad, bad + 1, (found.turn,))
        assert len(found.tried) <= 2 + ceil(log2(count) if count > 1 else 0)


def test_the_ends_are_tried_first_and_the_predicate_gets_the_first_turns(store: Repository) -> None:
    session = filled(store, 8, 5)
    seen: list[list[str]] = []

    def ask(prefix: Sequence[Turn]) -> bool:
        seen.append([turn.content for turn in prefix])
        return is_good(prefix)

    found = session.bisect(ask)
    assert [len(prefix) for prefix in seen] == [0, 8, 4, 6, 5]
    assert seen[2] == ["turn 0", "turn 1", "turn 2", "turn 3"]
    assert found.tried == ((0, True), (8, False), (4, True), (6, False), (5, True))


def test_other_ends_can_be_given(store: Repository) -> None:
    session = filled(store, 8, 5)
    found = session.bisect(is_good, good=5, bad=6)
    assert found.tried == ((5, True), (6, False))
    assert found.turn is not None
    assert found.turn.index == 5


@pytest.mark.parametrize(
    ("good", "bad", "what"),
    [
        (6, 8, "the first 6 turns were said to be good, and they are not"),
        (0, 5, "the first 5 turns were said to be bad, and they are not"),
    ],
)
def test_ends_that_are_not_what_they_are_said_to_be_are_refused(
    store: Repository, good: int, bad: int, what: str
) -> None:
    with pytest.raises(InvalidInput, match=what):
        filled(store, 8, 5).bisect(is_good, good=good, bad=bad)


@pytest.mark.parametrize(("good", "bad"), [(5, 5), (6, 5), (0, 9), (-1, 5), (0, 0)])
def test_ends_that_are_out_of_order_or_range_are_refused_without_a_try(store: Repository, good: int, bad: int) -> None:
    def never(prefix: Sequence[Turn]) -> bool:
        raise AssertionError(f"was asked about {len(prefix)}")

    with pytest.raises(InvalidInput):
        filled(store, 8, 5).bisect(never, good=good, bad=bad)


def test_an_end_that_cannot_be_told_or_an_answer_of_another_kind_is_refused(store: Repository) -> None:
    session = filled(store, 4, 2)
    with pytest.raises(InvalidInput, match="could not be told"):
        session.bisect(lambda prefix: None)
    with pytest.raises(InvalidInput, match="must give True"):
        session.bisect(lambda prefix: "yes")  # type: ignore[arg-type,return-value] # what is refused


def test_what_the_predicate_raises_comes_through(store: Repository) -> None:
    def broken(prefix: Sequence[Turn]) -> bool:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        filled(store, 4, 2).bisect(broken)


# --- skips


def test_skipped_prefixes_leave_the_turns_between_as_candidates(store: Repository) -> None:
    session = filled(store, 8, 5)
    found = session.bisect(lambda prefix: None if len(prefix) in (5, 6) else is_good(prefix))
    assert found.turn is None
    assert (found.good, found.bad) == (4, 7)
    assert [turn.index for turn in found.candidates] == [4, 5, 6]


@given(st.integers(2, 120), st.data())
@example(100, None)
def test_skips_never_give_a_wrong_turn_and_nothing_is_asked_twice(count: int, data: st.DataObject | None) -> None:
    flip = 50 if data is None else data.draw(st.integers(1, count))
    skips = set(range(30, 90)) if data is None else data.draw(st.sets(st.integers(1, count - 1)))
    asked: list[int] = []

    def ask(length: int) -> bool | None:
        asked.append(length)
        return None if length in skips else length < flip

    assume(0 < flip <= count)
    good, bad = narrowed(0, count, ask)
    assert good < flip <= bad
    assert len(asked) == len(set(asked))
    assert set(range(good + 1, bad)) <= skips


def test_a_long_run_of_skips_is_left_soon() -> None:
    asked: list[int] = []

    def ask(length: int) -> bool | None:
        asked.append(length)
        return None if 400 <= length < 600 else length < 900

    assert narrowed(0, 1000, ask) == (899, 900)
    assert len(asked) < 20  # and not a hundred times beside the first


# --- the command line


@pytest.fixture
def run(tmp_path: Path) -> Run:
    place = str(tmp_path / "store")
    with trails.open(place, create=True, durability="process") as store:
        filled(store, 8, 5)

    def call(script: str, *options: str) -> Result:
        line = ["bisect", "work", *options, "--store", place, "--", sys.executable, "-c", script]
        return invoke(*line)

    return call


READ = "import json, sys; turns = [json.loads(line) for line in sys.stdin]; "


def test_the_command_gets_the_turns_as_lines_of_json_and_its_exit_code_decides(run: Run) -> None:
    result = run(READ + "sys.exit(any(turn['content'] == 'oops' for turn in turns))", "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert (found["session"], found["turn"]["index"], found["turn"]["content"]) == ("s", 5, "oops")
    assert [try_["turns"] for try_ in found["tried"]] == [0, 8, 4, 6, 5]
    assert "the first 4 turns: good" in result.stderr


@pytest.mark.parametrize("code", [1, 2, 124, 126, 127])
def test_every_code_below_128_but_125_is_bad(run: Run, code: int) -> None:
    result = run(READ + f"sys.exit({code} if len(turns) > 5 else 0)")
    assert result.exit_code == 0, result.stderr
    assert "oops" in result.stdout


def test_code_125_skips_and_several_candidates_are_a_negative_result(run: Run) -> None:
    result = run(READ + "sys.exit(125 if len(turns) in (5, 6) else len(turns) > 5)", "--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert found["turn"] is None
    assert [turn["index"] for turn in found["candidates"]] == [4, 5, 6]


@pytest.mark.parametrize(
    ("script", "ended"),
    [("import sys; sys.exit(130)", "exit code 130"), ("import os; os.kill(os.getpid(), 9)", "signal 9")],
)
def test_a_command_that_breaks_off_stops_the_bisection(run: Run, script: str, ended: str) -> None:
    result = run(script)
    assert (result.exit_code, result.stdout) == (1, "")
    assert ended in result.stderr


def test_a_command_that_reads_nothing_or_is_not_there(run: Run, tmp_path: Path) -> None:
    assert run("import sys; sys.exit(0)").exit_code == 2  # the whole is good too, which was said to be bad
    result = invoke("bisect", "work", "--store", tmp_path / "store", "--", "/no/such/thing")
    assert result.exit_code == 2
    assert "cannot be run" in result.stderr


def test_ends_and_a_reference_limit_what_is_tried(run: Run, tmp_path: Path) -> None:
    result = run(READ + "sys.exit(len(turns) > 5)", "--good", "5", "--bad", "7", "--json")
    assert [try_["turns"] for try_ in json.loads(result.stdout)["tried"]] == [5, 7, 6]
    line = ["bisect", "work@6", "--store", str(tmp_path / "store"), "--json", "--"]
    script = [sys.executable, "-c", READ + "sys.exit(len(turns) > 5)"]
    found = json.loads(invoke(*line, *script).stdout)
    assert [try_["turns"] for try_ in found["tried"]] == [0, 6, 3, 5]


def test_the_command_may_use_the_store_itself(run: Run, tmp_path: Path) -> None:
    script = f"import sys, trails; store = trails.open({str(tmp_path / 'store')!r}); store.close(); " + READ
    assert run(script + "sys.exit(len(turns) > 5)", "--good", "5", "--bad", "6").exit_code == 0
