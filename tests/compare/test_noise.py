"""What chance does within arms, which arms differ by more, and what repeats can show."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped] # it has no types

import trails
from tests.compare.test_statistics import WELCH, lab
from tests.support.commands import Run, ok
from trails import InvalidInput, Repository
from trails.compare import noise
from trails.compare.noise import NoiseFloor, noise_floor
from trails.compare.statistics import Aggregate

APART: dict[str, Sequence[float]] = {"a": [1.0, 2, 3, 4, 5], "b": [11.0, 12, 13, 14, 16], "c": [1.0, 3, 4, 4, 7]}


def floor_of(arms: Mapping[str, Sequence[float]], **options: Any) -> NoiseFloor:
    return noise_floor("score", ["arm"], [(name, Aggregate.of(numbers)) for name, numbers in arms.items()], **options)


def test_the_spread_is_pooled_over_the_arms() -> None:
    found = floor_of(APART)  # squares from the mean: 10, 14.8 and 18.8, over 12
    assert found.spread == pytest.approx((43.6 / 12) ** 0.5)
    assert found.df == 12


def test_p_is_the_share_of_permutations_that_are_as_far_apart() -> None:
    (pair,) = floor_of({"a": [1, 2, 3, 9], "c": [4, 6, 7, 8]}).pairs
    numbers = (1, 2, 3, 9, 4, 6, 7, 8)

    def studentised(left: Sequence[float], right: Sequence[float]) -> float:
        return abs(float(stats.ttest_ind(left, right, equal_var=False).statistic))

    seen = studentised(numbers[:4], numbers[4:])
    ways = [
        studentised([numbers[n] for n in chosen], [numbers[n] for n in range(8) if n not in chosen])
        for chosen in combinations(range(8), 4)
    ]
    assert pair.p == sum(way >= seen - 1e-9 for way in ways) / 70


def test_arms_that_lie_apart_differ_after_holms_correction() -> None:
    found = floor_of(APART)
    assert [(pair.left, pair.right, pair.differ) for pair in found.pairs] == [
        ("a", "b", True),
        ("a", "c", False),
        ("b", "c", True),
    ]
    assert [pair.p for pair in found.pairs][::2] == [2 / 252, 2 / 252]  # no number of b lies among the others
    # of three, the least is multiplied by 3, the next by 2 and never less than the one before, the last by 1
    assert [pair.p_adjusted for pair in found.pairs][::2] == [6 / 252, 6 / 252]
    assert found.pairs[1].p_adjusted == found.pairs[1].p > 0.5


@pytest.mark.parametrize("seed", range(8))
def test_two_differ_just_where_the_interval_of_their_difference_excludes_0(seed: int) -> None:
    random = np.random.default_rng(seed)
    arms: dict[str, Sequence[float]] = {str(n): list(random.normal(n * seed / 12, size=5)) for n in range(4)}
    for pair in floor_of(arms).pairs:
        assert pair.differ == (pair.p_adjusted <= 0.05)
        if pair.interval is None:
            assert not pair.differ
            continue
        assert pair.differ == (not pair.interval[0] <= 0 <= pair.interval[1])
        assert pair.difference == pytest.approx(sum(pair.interval) / 2)


def test_three_runs_each_never_show_a_difference_and_four_may() -> None:
    (pair,) = floor_of({"a": [1, 2, 3], "b": [101, 102, 103]}).pairs
    assert (pair.p, pair.differ, pair.interval, pair.least_difference) == (2 / 20, False, None, None)
    assert pair.runs_needed == 4  # the least at which 2 of the permutations are fewer than 5%: 2 of 70
    (pair,) = floor_of({"a": [1, 2, 3, 4], "b": [101, 102, 103, 104]}).pairs
    assert (pair.p, pair.differ) == (2 / 70, True)


def test_arms_that_do_not_vary_differ_where_there_are_enough_of_them() -> None:
    found = floor_of({"no": [0] * 4, "yes": [1] * 4})
    assert (found.spread, found.pairs[0].differ, found.pairs[0].interval) == (0, True, (-1, -1))
    (pair,) = floor_of({"one": [1] * 4, "other": [1] * 4}).pairs
    assert (pair.p, pair.differ, pair.runs_needed) == (1, False, None)


def test_what_repeats_can_show_is_what_textbooks_print() -> None:
    # Cohen (1988), table 2.4.1: for d = 0.5 at 5%, two-sided, a power of 0.80 takes 64 in each arm; for 0.8, 26
    reckoned = noise._Power(stats, 1.0, 0.05, 0.8)
    assert (reckoned.runs_needed(0.5), reckoned.runs_needed(-0.8)) == (64, 26)
    assert reckoned.least_difference(64, 64) == pytest.approx(0.5, abs=0.002)
    assert noise._Power(stats, 2.0, 0.05, 0.8).least_difference(64, 64) == pytest.approx(1.0, abs=0.004)
    assert reckoned.runs_needed(1e-9) is None


def test_it_says_so_in_sentences() -> None:
    first, differ, alike, _, left_out = str(floor_of(APART | {"d": [3.0]})).splitlines()
    assert first == "score: chance alone spreads it by 1.91 (standard deviation within 3 arms, 12 degrees of freedom)"
    assert differ.startswith("'a' and 'b' differ: difference -10.2, interval -13.")
    assert alike.startswith("'a' and 'c' are not told apart: difference -0.800, interval ")
    assert "with 5 runs each a difference under " in alike
    assert alike.endswith("(power 0.8); 91 runs each would show this one")
    assert left_out == "left out, with fewer than 2 numbers: 'd'"
    assert "4 repeats" in str(floor_of({"a": [1, 2, 2, 4]}))  # one arm alone: the spread


# --- how often it is wrong, and how often it sees

DRAWS: dict[str, Callable[[np.random.Generator, int], Any]] = {
    "normal": lambda random, n: random.normal(size=n),
    "binary": lambda random, n: random.integers(0, 2, size=n),
    "heavy-tailed": lambda random, n: random.standard_t(2, size=n),
}


@pytest.mark.parametrize("shape", list(DRAWS))
@pytest.mark.parametrize("n", [3, 8, pytest.param(30, marks=pytest.mark.slow)])
def test_equal_arms_are_said_to_differ_in_at_most_one_of_twenty(
    shape: str, n: int, size: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds, arms = (2_000, 4) if size == "long" else (40, 3)
    monkeypatch.setattr(noise, "RESAMPLES", 399)
    monkeypatch.setattr(noise._Power, "least_difference", lambda *_: None)
    monkeypatch.setattr(noise._Power, "runs_needed", lambda *_: None)
    random = np.random.default_rng(n)
    wrong = 0
    for number in range(rounds):
        drawn = {str(arm): [float(value) for value in DRAWS[shape](random, n)] for arm in range(arms)}
        wrong += any(pair.differ for pair in floor_of(drawn, seed=number).pairs)
    assert wrong <= stats.binom.isf(0.001, rounds, 0.05)  # more would come once in a thousand such tests at 5%
    assert n > 3 or wrong == 0


@pytest.mark.parametrize("n", [8, 20])
def test_the_difference_that_repeats_are_said_to_show_is_seen_in_four_of_five(
    n: int, size: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = 2_000 if size == "long" else 100
    monkeypatch.setattr(noise, "RESAMPLES", 399)
    least = noise._Power(stats, 1.0, 0.05, 0.8).least_difference(n, n)
    assert least is not None
    random = np.random.default_rng(n)
    seen = 0
    for number in range(rounds):
        left, right = random.normal(size=n), random.normal(size=n) + least
        seen += noise._permuted(stats, list(left), list(right), number).p <= 0.05
    assert seen / rounds == pytest.approx(0.8, abs=0.04 + 2 * (0.16 / rounds) ** 0.5)


# --- of a store


def test_a_comparison_tells_of_its_groups_without_the_root(memory: Repository) -> None:
    found = lab(memory, {"few": WELCH[0], "zero": WELCH[1], "none": [None]}, group_by="meta.arm").noise("meta.score")
    assert [arm.name for arm in found.arms] == ["few", "zero"]
    assert found.left_out == ("none",)
    assert found.pairs[0].differ  # Welch's test gives p = 0.021
    assert 0.01 < found.pairs[0].p < 0.035
    assert found.to_dict()["pairs"][0]["differ"] is True
    assert found.table().column("verdict") == ["differ"]
    assert "chance alone" in found._repr_html_()


def test_what_is_no_repeat_is_refused(memory: Repository) -> None:
    found = lab(memory, {"few": [1.0], "zero": [2.0]}, group_by="meta.arm")
    for column, options, complaint in (
        ("meta.score", {}, "0 arms have 2 numbers or more in 'meta.score'"),
        ("meta.arm", {}, "'meta.arm' has no numbers that say how much"),
        ("tokens", {"level": 5}, "level lies between 0 and 1, not 5"),
        ("tokens", {"power": 80}, "power lies between 0 and 1, not 80"),
    ):
        options_: Any = options
        with pytest.raises(InvalidInput, match=complaint):
            found.noise(column, **options_)
    with pytest.raises(InvalidInput, match="no groups"):
        memory.compare("prompt").noise("meta.score")
    memory.create(id="other", meta={"arm": "few"}).persist()
    with pytest.raises(InvalidInput, match="the branches are of 2 sessions, which differ themselves"):
        memory.compare(["prompt", "other"], group_by="meta.arm").noise("meta.score")


def test_the_command_tells_of_all_groups(run: Run, place: Path) -> None:
    with trails.open(place, create=True) as store:
        lab(store, {"few": [1, 2, 3, 4, 5], "zero": [11, 12, 13, 14, 16]})
    grouped = ("compare", "prompt", "--group-by", "meta.arm", "--noise", "meta.score")
    assert "'few' and 'zero' differ: difference -10.2" in ok(run(*grouped))
    assert '"differ": true' in ok(run(*grouped, "--json"))
    assert "--noise needs groups" in run("compare", "prompt", "--noise", "meta.score").stderr
    assert "either --noise for all groups" in run(*grouped, "--test", "meta.score").stderr
