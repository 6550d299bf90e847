"""The timed profile: the order that statements imply, held against the times that they state."""

from __future__ import annotations

import random

import pytest

from tests.support.histories import History
from tests.support.machines import Size
from trails.errors import InvalidInput
from trails.provenance import Bundle, Document, Statement, Timing, validate
from trails.provenance.constraints import check_constraints


def at(second: int) -> str:
    return f"2026-01-01T00:00:{second:02}Z"


def timing(*statements: Statement, skew: float = 0.0) -> Timing:
    verdict = check_constraints(Document([Bundle(None, statements)]), skew=skew)
    assert verdict.timing is not None
    return verdict.timing


@pytest.mark.parametrize("seed", range(10))
def test_what_happened_in_order_is_in_order(seed: int) -> None:
    found = timing(*History(seed).statements)
    assert list(found.findings) == []
    assert found.kept > 0


def test_a_read_after_a_deletion_is_valid_by_the_w3c_and_found_by_its_times() -> None:
    said = (Statement("used", "u", ("a", "e", at(9))), Statement("wasInvalidatedBy", "i", ("e", "d", at(5))))
    verdict = check_constraints(Document([Bundle(None, said)]), skew=0.0)
    assert verdict.findings == []
    assert not verdict.ok
    assert verdict.timing is not None
    (finding,) = verdict.timing.findings
    assert (finding.constraint, finding.name) == (38, "usage-precedes-invalidation")
    assert set(finding.statements) == set(said)
    assert verdict.timing.verdict == "invalid"


A, B = at(1), at(2)
WRONG = {
    30: [Statement("activity", "a", (B, A))],
    31: [Statement("wasStartedBy", "s", ("a", None, "x", A)), Statement("wasStartedBy", "t", ("a", None, "y", B))],
    32: [Statement("wasEndedBy", "s", ("a", None, "x", A)), Statement("wasEndedBy", "t", ("a", None, "y", B))],
    33: [Statement("activity", "a", (B, None)), Statement("used", None, ("a", "e", A))],
    34: [Statement("activity", "a", (None, A)), Statement("wasGeneratedBy", None, ("e", "a", B))],
    35: [
        Statement("activity", "a", (B, None)),
        Statement("activity", "b", (None, A)),
        Statement("wasInformedBy", None, ("b", "a")),
    ],
    36: [Statement("wasGeneratedBy", None, ("e", None, B)), Statement("wasInvalidatedBy", None, ("e", None, A))],
    37: [Statement("wasGeneratedBy", None, ("e", None, B)), Statement("used", None, ("a", "e", A))],
    38: [Statement("used", None, ("a", "e", B)), Statement("wasInvalidatedBy", None, ("e", None, A))],
    39: [Statement("wasGeneratedBy", "g", ("e", "a", A)), Statement("wasGeneratedBy", "h", ("e", "b", B))],
    40: [Statement("wasInvalidatedBy", "g", ("e", "a", A)), Statement("wasInvalidatedBy", "h", ("e", "b", B))],
    41: [
        Statement("wasDerivedFrom", None, ("e2", "e1", "a", "g", "u")),
        Statement("used", "u", ("a", "e1", B)),
        Statement("wasGeneratedBy", "g", ("e2", "a", A)),
    ],
    42: [
        Statement("wasGeneratedBy", None, ("e1", None, B)),
        Statement("wasGeneratedBy", None, ("e2", None, A)),
        Statement("wasDerivedFrom", None, ("e2", "e1", None, None, None)),
    ],
    43: [Statement("wasGeneratedBy", None, ("e", None, B)), Statement("wasStartedBy", None, ("a", "e", None, A))],
    44: [Statement("wasEndedBy", None, ("a", "e", None, B)), Statement("wasInvalidatedBy", None, ("e", None, A))],
    45: [
        Statement("wasGeneratedBy", None, ("e1", None, B)),
        Statement("wasGeneratedBy", None, ("e2", None, A)),
        Statement("specializationOf", None, ("e2", "e1")),
    ],
    46: [
        Statement("wasInvalidatedBy", None, ("e1", None, A)),
        Statement("wasInvalidatedBy", None, ("e2", None, B)),
        Statement("specializationOf", None, ("e2", "e1")),
    ],
    47: [
        Statement("activity", "a", (B, None)),
        Statement("wasInvalidatedBy", None, ("ag", None, A)),
        Statement("wasAssociatedWith", None, ("a", "ag", None)),
    ],
    48: [
        Statement("wasGeneratedBy", None, ("ag", None, B)),
        Statement("wasGeneratedBy", None, ("e", None, A)),
        Statement("wasAttributedTo", None, ("e", "ag")),
    ],
    49: [
        Statement("wasGeneratedBy", None, ("boss", None, B)),
        Statement("wasInvalidatedBy", None, ("ag", None, A)),
        Statement("actedOnBehalfOf", None, ("ag", "boss", None)),
    ],
}


@pytest.mark.parametrize("rule", WRONG)
def test_each_order_is_compared_by_its_times(rule: int) -> None:
    assert [each.constraint for each in timing(*WRONG[rule]).findings] == [rule]


ROUNDS = {"quick": 4, "all": 40, "long": 1000}


@pytest.mark.parametrize("rule", WRONG)
def test_a_time_planted_against_an_order_is_found_and_named_and_nothing_else_is(rule: int, size: Size) -> None:
    for seed in range(ROUNDS[size]):
        history = History(seed)
        assert list(timing(*history.statements).findings) == [], seed
        mixed = [*history.statements, *WRONG[rule]]
        random.Random(seed).shuffle(mixed)
        (finding,) = timing(*mixed).findings
        assert finding.constraint == rule, seed
        assert set(finding.statements) <= set(WRONG[rule]), seed


@pytest.mark.parametrize("rule", WRONG)
def test_clocks_may_differ_by_the_skew(rule: int) -> None:
    assert timing(*WRONG[rule], skew=1.0).findings == []
    assert len(timing(*WRONG[rule], skew=0.9).findings) == 1


def test_an_order_without_times_stays_open() -> None:
    found = timing(Statement("wasGeneratedBy", None, ("e", None, None)), Statement("used", None, ("a", "e", A)))
    assert (found.verdict, found.kept, found.open) == ("open", 0, 1)


def test_a_missing_time_lets_the_order_through() -> None:
    # e1 at 2, before e2 at no time, before e3 at 1
    made = [Statement("wasGeneratedBy", None, (f"e{n}", None, time)) for n, time in ((1, B), (2, None), (3, A))]
    derived = [Statement("wasDerivedFrom", None, (f"e{n + 1}", f"e{n}", None, None, None)) for n in (1, 2)]
    assert [each.nodes for each in timing(*made, *derived).findings] == [("e1", "e3")]


def test_one_wrong_time_is_told_where_it_is_and_not_of_all_that_follows() -> None:
    times = [at(1), at(50), *[at(second) for second in range(2, 9)]]
    made = [Statement("wasGeneratedBy", None, (f"e{n}", None, time)) for n, time in enumerate(times)]
    derived = [Statement("wasDerivedFrom", None, (f"e{n + 1}", f"e{n}", None, None, None)) for n in range(8)]
    assert [each.nodes for each in timing(*made, *derived).findings] == [("e1", "e2")]


@pytest.mark.parametrize("skew", [-1.0, float("nan"), float("inf")])
def test_a_skew_that_cannot_be_is_refused(skew: float) -> None:
    with pytest.raises(InvalidInput, match="clock skew"):
        validate(b"document endDocument", format="provn", timed=True, skew=skew)
