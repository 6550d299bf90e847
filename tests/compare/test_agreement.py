"""How far two scorers agree: cases that were reckoned by hand."""

from __future__ import annotations

from typing import Any

import pytest

import trails
from tests.support.commands import Run, ok, ok_json
from trails import InvalidInput, Repository
from trails.compare import agreement as agreeing


def fill(store: Repository, *columns: tuple[str, list[Any]], name: str = "x") -> None:
    """A session with a turn for each value, scored by each scorer; None is no score."""
    chat = store.create(id="chat")
    for number in range(len(columns[0][1])):
        chat.append("user", str(number))
    chat.persist()
    for by, values in columns:
        for at, value in enumerate(values):
            if value is not None:
                store.score(("chat", at), name, value, by=by)


def test_kappa_is_what_is_beyond_chance() -> None:
    """20 yes by both, 15 no by both, 5 and 10 apart: seen 0.7, by chance 0.5 * 0.6 + 0.5 * 0.4 = 0.5."""
    pairs = [("y", "y")] * 20 + [("y", "n")] * 5 + [("n", "y")] * 10 + [("n", "n")] * 15
    assert agreeing.kappa(pairs) == pytest.approx(0.4)


def test_kappa_of_three_categories() -> None:
    """Seen 4 of 6; left a 2 b 2 c 2, right a 3 b 1 c 2: by chance (6 + 2 + 4) / 36 = 1/3; (2/3 - 1/3) / (2/3)."""
    pairs = [("a", "a"), ("a", "a"), ("b", "b"), ("b", "a"), ("c", "c"), ("c", "c")]
    assert agreeing.kappa([*pairs[:5], ("c", "c")]) == pytest.approx(0.75)
    pairs[4] = ("c", "b")
    assert agreeing.kappa(pairs) == pytest.approx(0.5)


def test_kappa_is_undefined_where_both_say_one_thing_always() -> None:
    assert agreeing.kappa([("a", "a"), ("a", "a")]) is None
    assert agreeing.nominal_alpha([("a", "a"), ("a", "a")]) is None


def test_krippendorffs_alpha_of_the_binary_example_of_his_primer() -> None:
    """Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011), A: 10 articles, two observers, alpha 0.095."""
    left, right = "0100000010", "1110010000"
    assert agreeing.nominal_alpha(list(zip(left, right, strict=True))) == pytest.approx(0.0952, abs=1e-4)


def test_alpha_of_numbers_weighs_how_far_apart_they_are() -> None:
    """1 2 / 3 3: seen (1 + 0) / 2; of 1, 2, 3, 3 around 2.25 the squares come to 2.75, so expected 2 * 2.75 / 3."""
    assert agreeing.interval_alpha([(1.0, 2.0), (3.0, 3.0)]) == pytest.approx(1 - 0.5 / (5.5 / 3))
    assert agreeing.interval_alpha([(2.0, 2.0), (2.0, 2.0)]) is None


def test_correlations_of_numbers_and_of_their_ranks() -> None:
    """1 2 3 4 5 with 2 1 4 3 5: rank differences 1 1 1 1 0, so rho = 1 - 6 * 4 / (5 * 24) = 0.8; no ties, so r is the same."""
    swapped = [(1.0, 2.0), (2.0, 1.0), (3.0, 4.0), (4.0, 3.0), (5.0, 5.0)]
    assert agreeing.spearman(swapped) == pytest.approx(0.8)
    assert agreeing.pearson(swapped) == pytest.approx(0.8)
    assert agreeing.spearman([(1.0, 1.0), (2.0, 8.0), (3.0, 27.0)]) == pytest.approx(1)
    assert agreeing.pearson([(1.0, 1e200), (2.0, -1e200)]) == pytest.approx(-1)
    # ranks 1 2.5 2.5 and 1 2 3: r = 1.5 / sqrt(1.5 * 2)
    assert agreeing.spearman([(1.0, 1.0), (5.0, 2.0), (5.0, 9.0)]) == pytest.approx(0.8660254)


def test_numbers_that_are_equal_share_their_rank() -> None:
    """1 2 2 3 have the ranks 1 2.5 2.5 4, with 1 2 3 4: 4.5 / sqrt(4.5 * 5)."""
    pairs = [(1.0, 1.0), (2.0, 2.0), (2.0, 3.0), (3.0, 4.0)]
    assert agreeing.spearman(pairs) == pytest.approx(0.9486833)


def test_true_is_not_one(memory: Repository) -> None:
    fill(memory, ("ann", [True, 1]), ("ben", [1, 1]))
    assert memory.agreement("x", "ann", "ben").same == 0.5


def test_numbers_at_the_ends_of_what_a_float_holds_agree_as_others_do(memory: Repository) -> None:
    """As 1 1, -1 1 and 1 -1: seen 8/3, expected 2 * (16/3) / 5; the mean difference is 0."""
    fill(memory, ("ann", [1e308, -1e308, 1e308]), ("ben", [1e308, 1e308, -1e308]))
    found = memory.agreement("x", "ann", "ben")
    assert found.alpha == pytest.approx(1 - (8 / 3) / (2 * (16 / 3) / 5))
    assert found.difference == 0
    assert found.pearson == pytest.approx(-0.5)
    assert agreeing.interval_alpha([(1e-320, 2e-320), (3e-320, 3e-320)]) == pytest.approx(8 / 11, rel=0.01)  # few bits


def test_a_mean_difference_that_no_float_holds_is_none(memory: Repository) -> None:
    fill(memory, ("ann", [1.5e308, 1e308]), ("ben", [-1.5e308, -1e308]))
    found = memory.agreement("x", "ann", "ben")
    assert (found.difference, found.is_of_numbers) == (None, True)
    assert found.pearson == -1
    assert "mean difference undefined" in str(found)


def test_a_turn_and_a_span_that_ends_with_it_are_not_one_thing(memory: Repository) -> None:
    fill(memory, ("ann", ["y", "y", "n"]), ("ben", ["y", "y", None]))
    memory.score("chat#0:3", "x", "n", by="ben")
    found = memory.agreement("x", "ann", "ben")
    assert (found.n, found.only_left, found.only_right) == (2, 1, 1)


def test_the_newest_counts_in_whatever_order_scores_come(memory: Repository) -> None:
    fill(memory, ("ann", [1, 2]), ("ben", [3, 4]))
    memory.score("chat#0", "x", 5, by="ben")
    ann, ben = (memory.scores(by=by, history=True) for by in ("ann", "ben"))
    for order in (ben, ben[::-1]):
        assert agreeing.agreement("x", ("ann", ann), ("ben", order)).pairs == ((1, 5), (2, 4))


def test_a_store_pairs_what_both_scored_and_counts_the_rest(memory: Repository) -> None:
    fill(memory, ("ann", ["y", "y", "n", "n", "y", None]), ("ben", ["y", "n", "n", "n", None, "y"]))
    memory.score("chat#0", "other", "y", by="ben")
    found = memory.agreement("x", "ann", "ben")
    assert (found.n, found.only_left, found.only_right, found.same) == (4, 1, 1, 0.75)
    assert found.kappa == pytest.approx(0.5)
    assert (found.pearson, found.difference, found.is_of_numbers) == (None, None, False)
    assert "4 scored by both (1 by 'ann' alone, 1 by 'ben' alone, left out)" in str(found)
    assert {(row["left"], row["right"]): row["count"] for row in found.table().rows} == {
        ("y", "y"): 1, ("y", "n"): 1, ("n", "n"): 2,
    }  # fmt: skip


def test_the_newest_score_of_each_counts_or_that_of_a_version(memory: Repository) -> None:
    fill(memory, ("ann", [1, 2, 3]), ("ben", [1, 2, 3]))
    memory.score("chat#0", "x", 4, by="ben", version="2")
    assert memory.agreement("x", "ann", "ben").pairs == ((1, 4), (2, 2), (3, 3))
    memory.score("chat#1", "x", 5, by="ben", version="2")
    found = memory.agreement("x", "ben", "ben", left_version="2", right_version="2")
    assert (found.pairs, found.difference, found.left) == (((4, 4), (5, 5)), 0, "ben/2")


def test_a_session_that_went_on_in_between_is_not_the_same(memory: Repository) -> None:
    fill(memory, ("ann", ["y"]))
    memory.score("chat", "x", "y", by="ann")
    chat = memory.load("chat")
    chat.append("user", "more")
    chat.persist()
    memory.score("chat", "x", "y", by="ben")
    with pytest.raises(InvalidInput, match="both scored 0 of the same"):
        memory.agreement("x", "ann", "ben")


def test_texts_and_numbers_are_not_compared_and_truth_is_a_category(memory: Repository) -> None:
    fill(memory, ("ann", [True, False, True]), ("ben", [True, True, True]), ("cid", [1, "a", 2]))
    assert memory.agreement("x", "ann", "ben").is_of_numbers is False
    with pytest.raises(InvalidInput, match="texts for some and numbers for others"):
        memory.agreement("x", "ann", "cid")


def test_only_the_sessions_that_are_asked_for_count(memory: Repository) -> None:
    fill(memory, ("ann", [1, 2]), ("ben", [2, 4]))
    for number in (0, 1):
        other = memory.create(id=f"other-{number}")
        other.append("user", str(number))
        other.persist()
        for by in ("ann", "ben"):
            memory.score(other, "x", 9, by=by)
    assert memory.agreement("x", "ann", "ben").n == 4
    assert memory.agreement("x", "ann", "ben", sessions=["chat"]).pairs == ((1, 2), (2, 4))


def test_the_command_says_how_far_two_scorers_agree(place: object, run: Run) -> None:
    with trails.open(str(place), create=True) as store:
        fill(store, ("ann", ["y", "y", "n", "n"]), ("ben", ["y", "n", "n", "n"]))
    assert ok_json(run("agreement", "x", "ann", "ben", "--json"))["kappa"] == pytest.approx(0.5)
    assert "Cohen's kappa 0.5" in ok(run("agreement", "x", "ann", "ben"))
    assert run("agreement", "x", "ann", "eve").exit_code == 2
