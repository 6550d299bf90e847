"""What is reckoned over a group: by hand, by numpy written out here, and by what textbooks print."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trails
from tests.support.commands import Run, ok
from tests.support.machines import examples
from trails import InvalidInput, Repository, TrailsError
from trails.compare.comparison import Comparison
from trails.compare.statistics import Aggregate, bootstrap, is_identifier
from trails.display.tables import PlainTable, to_latex, to_markdown

# Twice fifteen readings; Welch's test gives t = -2.46, 25.0 degrees of freedom and p = 0.021 (Wikipedia's first example).
WELCH = (
    (27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1, 21.9, 22.6, 23.1, 19.6, 19.0, 21.7, 21.4),
    (27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0, 24.8, 20.2, 21.9, 22.1, 22.9, 20.5, 24.4),
)
# Permeability of membranes at term and at 12 to 26 weeks (Hollander and Wolfe 1973, page 69): W = 35, one-sided p = 0.1272.
RANKS = ((0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46), (1.15, 0.88, 0.90, 0.74, 1.21))


def aggregate(*cells: float | None) -> Aggregate:
    found = Aggregate.of(cells)
    assert found is not None
    return found


def lab(store: Repository, tried: dict[str, Sequence[float | None]], **more: Any) -> Comparison:
    """A prompt with a fork for each number, in an arm by label (`ARM number`) and by metadata."""
    root = store.create(id="prompt")
    root.append("user", "Plan a trip")
    root.persist()
    for arm, scores in tried.items():
        for number, score in enumerate(scores):
            meta = {"arm": arm} | ({} if score is None else {"score": score})
            root.fork(id=f"{arm}-{number}", label=f"{arm} {number}", meta=meta).persist()
    return store.compare("prompt", **more)


# --- figures


def test_the_figures_of_a_column_are_those_counted_by_hand() -> None:
    found = aggregate(2, None, 4, 4, 4, 5, 5, 7, 9)  # mean 5, squares 9+1+1+1+0+0+4+16 = 32, over 7
    assert (found.n, found.missing, found.mean, found.median, found.sum) == (8, 1, 5.0, 4.5, 40)
    assert found.sd == pytest.approx((32 / 7) ** 0.5)
    assert (found.min, found.max) == (2, 9)
    assert Aggregate.of([None, None]) is None


def test_the_median_of_great_numbers_lies_between_them() -> None:
    assert aggregate(1.5e308, 1e308).median == pytest.approx(1.25e308)
    assert aggregate(1e308, 1.5e308, 0.0, 1.7e308).median == pytest.approx(1.25e308)


def test_one_number_has_neither_spread_nor_interval() -> None:
    found = aggregate(3)
    assert (found.sd, found.ci, found.ci_low, found.mean) == (None, None, None, 3.0)


def test_an_interval_of_few_numbers_is_the_one_that_can_be_counted() -> None:
    assert bootstrap([0, 1]) == (0.0, 1.0)  # a quarter of the resamples is all 0, a quarter all 1
    assert bootstrap([0, 0, 3]) == (0.0, 3.0)  # 1 of 27 is all 3: more than the 2.5% outside
    assert bootstrap([0, 0, 3], confidence=0.6) == (0.0, 2.0)  # all 0: 8 of 27; two 3s or more: 7 of 27
    assert bootstrap([5, 5, 5]) == (5.0, 5.0)


def test_an_interval_leaves_out_as_many_means_at_each_end_as_it_says() -> None:
    numbers = [1.203, 2.217, 3.101, 4.729, 5.013, 6.997, 7.301, 8.111, 9.907, 11.003, 12.713, 14.009]
    drawn = Random(7)
    means = sorted(np.mean([drawn.choices(numbers, k=12) for _ in range(1000)], axis=1))
    assert means[49] < means[50] - 1e-6
    assert means[949] < means[950] - 1e-6
    assert bootstrap(numbers, confidence=0.9, resamples=1000, seed=7) == pytest.approx(
        (means[50], means[949]), abs=1e-9
    )


def test_an_interval_holds_the_mean_and_depends_on_no_order() -> None:
    numbers = list(WELCH[0])
    low, high = bootstrap(numbers)
    assert low < np.mean(numbers) < high
    assert bootstrap(numbers[::-1]) == (low, high)
    assert bootstrap(numbers, seed=1) != (low, high)
    theory = 1.96 * np.std(numbers, ddof=1) / 15**0.5
    assert high - low == pytest.approx(2 * theory, rel=0.1)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"confidence": 0}, "between 0 and 1"),
        ({"confidence": 95}, "usual one is 0.95"),
        ({"resamples": 10}, "from 100 to 100,000"),
        ({"resamples": 1e3}, "whole number"),
    ],
)
def test_an_interval_that_means_nothing_is_refused(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        aggregate(1, 2).interval(**options)


@given(numbers=st.lists(st.integers(-(10**6), 10**6), min_size=2, max_size=12))
@examples(25)
def test_figures_lie_where_they_must(numbers: list[int]) -> None:
    found = aggregate(*numbers)
    assert found.ci is not None
    assert found.min <= found.ci[0] <= found.ci[1] <= found.max
    assert found.sum == sum(numbers)
    assert found.sd == pytest.approx(np.std(numbers, ddof=1))
    assert found.median == np.median(numbers)


# --- what is averaged, and what the root is


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        *((key, True) for key in ("seed", "run_id", "runId", "random-seed", "RunID", "idx", "id", "task.index")),
        *((key, False) for key in ("temperature", "paid", "seeds_tried", "idle", "grid", "höhe", "7", "_")),
    ],
)
def test_an_identifier_is_told_by_the_last_word_of_its_key(key: str, expected: bool) -> None:
    assert is_identifier(key) is expected


def test_seeds_and_ids_are_not_averaged_unless_the_caller_says_so(memory: Repository) -> None:
    root = memory.create(id="r")
    for number in range(3):
        root.fork(meta={"seed": number, "run_id": number, "score": number}).persist()
    found = memory.compare("r", group_by="state")
    assert [name for name in found.groups[1].aggregates if name.startswith("meta.")] == ["meta.score"]
    other = memory.compare("r", group_by="state", identifiers=["meta.score"])
    assert [name for name in other.groups[1].aggregates if name.startswith("meta.")] == ["meta.run_id", "meta.seed"]
    every = memory.compare("r", group_by="state", identifiers=[])
    assert len([name for name in every.groups[1].aggregates if name.startswith("meta.")]) == 3


def test_the_root_is_a_group_of_its_own_even_where_it_has_the_same_values(memory: Repository) -> None:
    root = memory.create(id="r", principal="alice")
    root.fork().persist()
    found = memory.compare("r", group_by="principal")
    assert [(group.name, len(group)) for group in found.groups] == [("(root)", 1), ("alice", 1)]


def test_arms_are_patterns_of_labels(memory: Repository) -> None:
    found = lab(memory, {"few": [1, 2], "zero": [3]}, arms={"short": "few *", "none": "zero *"})
    assert [(group.name, len(group)) for group in found.groups] == [("(root)", 1), ("none", 1), ("short", 2)]
    assert {row["arm"] for row in found.rows} == {None, "none", "short"}
    again = memory.compare("prompt", arms=["few *", "*"])
    assert [(group.name, len(group)) for group in again.groups] == [("(root)", 1), ("*", 1), ("few *", 2)]


@pytest.mark.parametrize(
    ("arms", "complaint"),
    [
        ([], "at least one arm"),
        ("few-*", "several patterns"),
        ({"a": 3}, "both texts"),
        (["nothing-*"], "no branch's label or id matches 'nothing-"),
    ],
)
def test_arms_that_say_nothing_are_refused(memory: Repository, arms: Any, complaint: str) -> None:
    lab(memory, {"few": [1]})
    with pytest.raises(InvalidInput, match=complaint):
        memory.compare("prompt", arms=arms)


# --- two arms


def test_welch_gives_what_the_textbook_prints(memory: Repository) -> None:
    found = lab(memory, {"a": WELCH[0], "b": WELCH[1]}, group_by="meta.arm").test("meta.score", "a", "b")
    assert (round(found.statistic, 2), round(found.df or 0, 1), round(found.p, 3)) == (-2.46, 25.0, 0.021)
    assert (found.left.n, found.right.n, found.left.missing) == (15, 15, 0)
    one, other = (np.array(side) for side in WELCH)
    pooled = ((14 * one.var(ddof=1) + 14 * other.var(ddof=1)) / 28) ** 0.5
    assert found.effect == pytest.approx((one.mean() - other.mean()) / pooled * (1 - 3 / (4 * 30 - 9)))
    error = (one.var(ddof=1) / 15 + other.var(ddof=1) / 15) ** 0.5
    assert found.difference_ci is not None
    assert found.difference_ci[0] == pytest.approx(found.difference - 2.0595 * error, abs=1e-3)  # t of 25.0 at 97.5%
    assert str(found).splitlines()[1].startswith("Welch's t test: t(25.0) = -2.46, p = 0.021")


def test_mann_whitney_gives_what_the_textbook_prints(memory: Repository) -> None:
    arms = {"term": [*RANKS[0], None], "early": RANKS[1]}
    found = lab(memory, arms, group_by="meta.arm").test("meta.score", "term", "early", method="mann-whitney")
    assert (found.statistic, round(found.p, 4), found.how, found.df) == (35.0, 0.2544, "exact", None)
    assert found.effect == pytest.approx(2 * 35 / 50 - 1)
    assert (found.left.n, found.left.missing) == (10, 1)
    assert "(n = 10, 1 missing) against 'early' (n = 5)" in str(found)


def test_ties_are_tested_by_the_normal_curve_and_said_so(memory: Repository) -> None:
    found = lab(memory, {"a": [1, 1, 2, 2, 3], "b": [2, 3, 3, 4, 4]}, group_by="meta.arm")
    assert found.test("meta.score", "a", "b", method="mann-whitney").how == "asymptotic"


@pytest.mark.parametrize(
    ("arms", "sides", "method", "complaint"),
    [
        (
            {"a": [1, 2], "b": [1, 2, 3]},
            "ab",
            "welch",
            "'a' has 2 numbers in 'meta.score', and a test needs at least 3",
        ),
        ({"a": [None] * 4, "b": [1, 2, 3]}, "ab", "welch", "'a' has 0 numbers"),
        ({"a": [1, 2, 3], "b": [4, 5, 6]}, "ab", "mann-whitney", r"is at least 0\.1"),
        ({"a": [1, 1, 1], "b": [2, 2, 2]}, "ab", "welch", "neither arm varies"),
        ({"a": [1] * 9, "b": [1] * 9}, "ab", "mann-whitney", "all numbers of both arms are the same"),
        ({"a": [1, 2, 3], "b": [1, 2, 4]}, "ac", "welch", r"no group is named 'c'; there are: '\(root\)', 'a', 'b'"),
        ({"a": [1, 2, 3], "b": [1, 2, 4]}, "aa", "welch", "against itself"),
        ({"a": [1, 2, 3], "b": [1, 2, 4]}, "ab", "anova", "there is no test 'anova'; there are: welch, mann-whitney"),
    ],
)
def test_a_test_that_would_tell_nothing_is_refused(
    memory: Repository, arms: dict[str, Any], sides: str, method: Any, complaint: str
) -> None:
    found = lab(memory, arms, group_by="meta.arm")
    with pytest.raises(InvalidInput, match=complaint):
        found.test("meta.score", *sides, method=method)


def test_only_amounts_are_tested_and_only_between_groups(memory: Repository) -> None:
    found = lab(memory, {"a": [1, 2, 3], "b": [1, 2, 4]})
    with pytest.raises(InvalidInput, match="has no groups"):
        found.test("meta.score", "a", "b")
    grouped = found.arranged(group_by="meta.arm")
    for column in ("label", "fork_index", "created"):
        with pytest.raises(InvalidInput, match="no numbers that say how much"):
            grouped.test(column, "a", "b")


def test_without_scipy_the_extra_is_named(memory: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    found = lab(memory, {"a": [1, 2, 3], "b": [1, 2, 4]}, group_by="meta.arm")
    monkeypatch.setitem(sys.modules, "scipy.stats", None)
    with pytest.raises(TrailsError, match=r"`scipy`: pip install 'trails\[stats\]'"):
        found.test("meta.score", "a", "b")


# --- outcomes


def test_branches_that_came_out_the_same_stand_together(memory: Repository) -> None:
    root = memory.create(id="r")
    root.append("user", "How many?")
    root.persist()
    for number, answer in enumerate(("4", "5", "4", "4")):
        fork = root.fork(at=1, id=f"f{number}")
        fork.append("assistant", answer, usage={"output_tokens": number})
        fork.persist()
    found = memory.compare("r").collapsed()
    assert [(group.name.rpartition(", ")[2], len(group)) for group in found.groups[1:]] == [("4", 3), ("5", 1)]
    assert found.groups[1].aggregates["tokens"].sum == 0 + 2 + 3


# --- tables


def test_numbers_are_rounded_to_significant_digits_and_whole_ones_left_alone() -> None:
    table = PlainTable({"x": "number", "n": "integer"}, [{"x": 54.4567, "n": 123456}, {"x": None, "n": None}])
    assert to_markdown(table, digits=3).splitlines()[2:] == ["| 54.5 | 123456 |", "|  |  |"]
    with pytest.raises(InvalidInput, match="1 to 15"):
        to_markdown(table, digits=0)


def test_latex_shows_text_as_it_is() -> None:
    table = PlainTable({"a_b": "text", "x": "number"}, [{"a_b": "5% {of} $x$ & #\\\n--- ~^|<>", "x": -0.12345}])
    assert to_latex(table, digits=2) == (
        "\\begin{tabular}{lr}\n\\toprule\na\\_b & x \\\\\n\\midrule\n"
        "5\\% \\{of\\} \\$x\\$ \\& \\#\\textbackslash{} -{}-{}- \\textasciitilde{}\\textasciicircum{}"
        "\\textbar{}\\textless{}\\textgreater{} & $-$0.12 \\\\\n"
        "\\bottomrule\n\\end{tabular}\n"
    )


def test_latex_with_a_caption_is_a_table_that_floats_and_can_be_referred_to() -> None:
    table = PlainTable({"n": "integer"}, [{"n": 1}])
    assert to_latex(table, caption="5% of a_b", label="tab:a_b") == (
        "\\begin{table}[tbp]\n\\centering\n\\caption{5\\% of a\\_b}\n\\label{tab:a_b}\n"
        "\\begin{tabular}{r}\n\\toprule\nn \\\\\n\\midrule\n1 \\\\\n\\bottomrule\n\\end{tabular}\n\\end{table}\n"
    )
    wrong: list[dict[str, Any]] = [
        {"label": "tab:x"},
        {"caption": "A", "label": "tab:{x}"},
        {"caption": "A", "label": ""},
    ]
    for options in wrong:
        with pytest.raises(InvalidInput, match="can be no label of a table in LaTeX"):
            to_latex(table, **options)


def test_latex_has_the_columns_of_a_paper_unless_others_were_chosen(memory: Repository) -> None:
    found = lab(memory, {"few": [1.0, 2.0], "zero": [None]}, group_by="meta.arm")
    head = found.to_latex().splitlines()[2]
    assert head == r"session & label & meta.arm & meta.score \\"  # no tokens and no cost were reported
    grouped = found.to_latex(groups=True, digits=3).splitlines()
    assert grouped[2] == r"group & count & meta.score.n & meta.score.mean & meta.score.sd \\"
    assert grouped[5] == r"few & 2 & 2 & 1.50 & 0.707 \\"
    assert found.showing("turns").to_latex().splitlines()[2] == r"turns \\"


# --- the command


@pytest.fixture
def scored(place: Any) -> None:
    with trails.open(place, create=True) as store:
        lab(store, {"few": WELCH[0], "zero": WELCH[1]})


@pytest.mark.usefixtures("scored")
def test_the_command_tests_two_arms(run: Run) -> None:
    said = ok(run("compare", "prompt", "--group-by", "meta.arm", "--test", "meta.score"))
    assert "meta.score of 'few' (n = 15) against 'zero' (n = 15), by meta.arm" in said
    assert "t(25.0) = -2.46" in said
    said = ok(run("compare", "prompt", "--arm", "z=zero*", "--arm", "f=few*", "--test", "meta.score", "--json"))
    assert '"method": "welch"' in said
    refused = run("compare", "prompt", "--group-by", "session", "--test", "meta.score")
    assert (refused.exit_code, "--between GROUP GROUP" in refused.stderr) == (2, True)


@pytest.mark.usefixtures("scored")
def test_the_command_writes_rounded_tables_of_groups(run: Run) -> None:
    options = (
        "--group-by",
        "meta.arm",
        "--groups-only",
        "--columns",
        "meta.score",
        "--figures",
        "n,mean",
        "--digits",
        "3",
    )
    assert ok(run("compare", "prompt", *options, "--format", "markdown")).splitlines() == [
        "| group | meta.arm | count | meta.score.n | meta.score.mean |",
        "| --- | --- | ---: | ---: | ---: |",
        "| (root) |  | 1 |  |  |",
        "| few | few | 15 | 15 | 20.8 |",
        "| zero | zero | 15 | 15 | 23.0 |",
    ]
    assert "few & 15 & 15 & 20.8" in ok(run("compare", "prompt", *options, "--format", "latex"))


@pytest.mark.usefixtures("scored")
def test_more_than_sixty_branches_are_put_together_on_a_terminal(
    run: Run, place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with trails.open(place) as store:
        root = store.load("prompt")
        for number in range(70):
            root.fork(id=f"more-{number}").persist()
    whole = run("compare", "prompt")
    assert len(ok(whole).splitlines()) == 1 + 101  # headings, and 101 branches
    monkeypatch.setenv("COLUMNS", "80")
    short = run("compare", "prompt")
    assert len(ok(short).splitlines()) < 10
    assert "2 outcomes of 101 branches" in short.stderr
    by_arm = run("compare", "prompt", "--group-by", "meta.arm")
    assert "4 groups of 101 branches" in by_arm.stderr
    assert len(ok(run("compare", "prompt", "--all")).splitlines()) == 105
    apart = run("compare", "prompt", "--columns", "session", "--group-by", "session")
    assert "the first 40 are shown; --all shows them all" in apart.stderr
