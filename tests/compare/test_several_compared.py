"""The forks of several sessions side by side: the samples of an evaluation, each run again in two arms."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import trails
from tests.support.commands import Run, ok
from trails import InvalidInput, Repository, SessionNotFound

pytestmark = pytest.mark.any_store

SCORES = {
    "a": {"terse": [0.2, 0.4], "careful": [0.8]},
    "b": {"terse": [0.1], "careful": [0.3]},
    "c": {"terse": [0.5], "careful": [1.0]},
}
"""What each fork of a sample scored, by arm: means of terse 0.3, 0.1, 0.5 and of careful 0.8, 0.3, 1.0."""


def fill(store: Repository) -> None:
    """Three samples of one task and one of another, each a turn long; those of the first have forks in two arms."""
    for sample, arms in SCORES.items():
        session = store.create(id=sample, meta={"task": "sums", "sample": sample})
        session.append("user", f"Add {sample}")
        session.persist()
        for arm, scores in arms.items():
            for number, score in enumerate(scores):
                fork = session.fork(id=f"{sample}-{arm}-{number}", meta={"arm": arm, "score": score})
                fork.append("assistant", f"{arm} {number}", usage={"input_tokens": 1, "output_tokens": 2})
                fork.persist()
    with store.session("other") as other:
        other.append("user", "Else")


@pytest.fixture
def filled(store: Repository) -> Repository:
    fill(store)
    return store


def test_each_session_stands_with_its_own_forks_below_it_in_the_order_given(filled: Repository) -> None:
    found = filled.compare(["b", "a"])
    assert [row["session"] for row in found] == [
        "b",
        "b-terse-0",
        "b-careful-0",
        "a",
        "a-terse-0",
        "a-terse-1",
        "a-careful-0",
    ]
    assert (found.root, found.roots, found.to_dict()["root"], found.to_dict()["roots"]) == (
        None,
        ("b", "a"),
        None,
        ["b", "a"],
    )
    assert [row["tokens"] for row in found] == [None, 3, 3, None, 3, 3, 3]
    assert repr(found).splitlines()[0] == "<Comparison of 2 sessions: 7 branches>"


def test_one_in_a_list_is_one(filled: Repository) -> None:
    assert filled.compare(["a"]).to_dict() == filled.compare("a").to_dict()
    assert filled.compare("a").roots == ("a",)


def test_what_a_list_of_sessions_gives_can_be_compared(filled: Repository) -> None:
    found = filled.compare(filled.list(meta={"task": "sums"}), columns="session", sort_by="session")
    assert [row["session"] for row in found if "-" not in row["session"]] == ["a", "b", "c"]
    assert {row["session"] for row in filled.compare(filled)} == {row["session"] for row in found} | {"other"}


def test_a_session_has_one_row_however_often_it_is_named_or_reached(filled: Repository) -> None:
    found = filled.compare(["a-terse-0", "a", "a", "a-terse-0"])
    assert [row["session"] for row in found] == ["a", "a-terse-0", "a-terse-1", "a-careful-0"]
    assert found.roots == ("a",)


def test_sessions_are_grouped_by_the_values_that_they_have(filled: Repository) -> None:
    assert [
        (group.name, len(group)) for group in filled.compare(["a", "b", "c", "other"], group_by="meta.arm").groups
    ] == [("(root)", 4), ("careful", 3), ("terse", 4)]
    by_task = filled.compare(["a", "b", "other"], group_by="meta.task").groups
    assert [(group.name, len(group)) for group in by_task] == [("(root)", 1), ("sums", 2), ("(missing)", 5)]


def test_arms_may_be_the_sessions_themselves(filled: Repository) -> None:
    found = filled.compare(["a", "other"], arms={"sample": "?", "rest": "o*"})
    assert [(group.name, [row["session"] for row in group.rows]) for group in found.groups][:2] == [
        ("rest", ["other"]),
        ("sample", ["a"]),
    ]


def test_no_session_and_a_fork_point_of_several_are_refused(filled: Repository) -> None:
    with pytest.raises(InvalidInput, match="no session was given"):
        filled.compare([])
    with pytest.raises(InvalidInput, match="a fork point is one session's, and 2 were given"):
        filled.compare(["a", "b"], at=1)
    with pytest.raises(SessionNotFound, match="nobody"):
        filled.compare(["a", "nobody"])
    assert len(filled.compare(["a"], at=1)) == 3


def test_pairs_are_the_means_of_both_arms_in_each_session(filled: Repository) -> None:
    """By hand: differences 0.5, 0.2, 0.5 of careful less terse; mean 0.4, sd 0.1732, t = 0.4 / (0.1732 / sqrt(3)) = 4."""
    found = filled.compare(["a", "b", "c"], group_by="meta.arm").test("meta.score", "careful", "terse", method="paired")
    assert [found.statistic, found.df, found.effect] == pytest.approx([4.0, 2, 0.4 / 0.03**0.5])
    assert [found.left.n, found.left.mean, found.right.mean] == pytest.approx([3, 0.7, 0.3])
    assert found.difference == pytest.approx(0.4)
    assert found.p == pytest.approx(0.0572, abs=1e-4)  # t(2) = 4, two-sided, as tables of Student's t have it
    assert list(found.difference_ci or ()) == pytest.approx([0.4 - 4.3027 * 0.1, 0.4 + 4.3027 * 0.1], abs=1e-4)
    assert str(found).splitlines()[1] == "Paired t test: t(2.00) = 4.00, p = 0.0572, two-sided, over 3 sessions"


def test_a_session_with_one_arm_alone_makes_no_pair(filled: Repository) -> None:
    with filled.session("d") as session:
        session.append("user", "Add d")
    filled.load("d").fork(id="d-terse", meta={"arm": "terse", "score": 9}).persist()
    found = filled.compare(["a", "b", "c", "d"], group_by="meta.arm").test(
        "meta.score", "careful", "terse", method="paired"
    )
    assert (found.right.n, found.how) == (3, "over 3 sessions; 1 with one arm alone left out")


def test_too_few_pairs_and_pairs_that_all_differ_alike_are_refused(filled: Repository) -> None:
    with pytest.raises(InvalidInput, match="2 of the sessions compared have numbers of both 'careful' and 'terse'"):
        filled.compare(["a", "b"], group_by="meta.arm").test("meta.score", "careful", "terse", method="paired")
    with pytest.raises(InvalidInput, match="all pairs differ by the same"):
        filled.compare(["a", "b", "c"], group_by="meta.arm").test("tokens", "careful", "terse", method="paired")


def test_the_command_takes_several_sessions_or_what_is_noted_of_them(run: Run, place: Path) -> None:
    with trails.open(place, create=True) as store:
        fill(store)
    rows = json.loads(ok(run("compare", "a", "b", "--json")))
    assert (rows["roots"], len(rows["rows"])) == (["a", "b"], 7)
    noted = json.loads(ok(run("compare", "--meta", "task=sums", "--json")))
    assert (sorted(noted["roots"]), len(noted["rows"])) == (["a", "b", "c"], 10)
    options = ["--group-by", "meta.arm", "--test", "meta.score", "--between", "careful", "terse", "--method", "paired"]
    assert "Paired t test: t(2.00) = 4.00" in ok(run("compare", "a", "b", "c", *options))


def test_the_command_says_what_is_missing(run: Run, place: Path) -> None:
    with trails.open(place, create=True) as store:
        fill(store)
    for arguments, said in (
        ((), "name a session, or --meta"),
        (("a", "--meta", "task=sums"), "either name the sessions, or give --meta"),
        (("--meta", "task=none"), "no session has task=none"),
    ):
        done = run("compare", *arguments)
        assert (done.exit_code, done.stdout) == (2, "")
        assert said in done.stderr
