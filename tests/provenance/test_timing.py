"""The timed profile: the order that statements imply, held against the times that they state."""

from __future__ import annotations

import random

import pytest

from tests.support.histories import History
from tests.support.machines import Size
from tests.support.prov_records import parsed
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
    number: parsed(text)
    for number, text in {
        30: f"activity(a, {B}, {A})",
        31: f"wasStartedBy(s; a, -, x, {A}) wasStartedBy(t; a, -, y, {B})",
        32: f"wasEndedBy(s; a, -, x, {A}) wasEndedBy(t; a, -, y, {B})",
        33: f"activity(a, {B}, -) used(a, e, {A})",
        34: f"activity(a, -, {A}) wasGeneratedBy(e, a, {B})",
        35: f"activity(a, {B}, -) activity(b, -, {A}) wasInformedBy(b, a)",
        36: f"wasGeneratedBy(e, -, {B}) wasInvalidatedBy(e, -, {A})",
        37: f"wasGeneratedBy(e, -, {B}) used(a, e, {A})",
        38: f"used(a, e, {B}) wasInvalidatedBy(e, -, {A})",
        39: f"wasGeneratedBy(g; e, a, {A}) wasGeneratedBy(h; e, b, {B})",
        40: f"wasInvalidatedBy(g; e, a, {A}) wasInvalidatedBy(h; e, b, {B})",
        41: f"wasDerivedFrom(e2, e1, a, g, u) used(u; a, e1, {B}) wasGeneratedBy(g; e2, a, {A})",
        42: f"wasGeneratedBy(e1, -, {B}) wasGeneratedBy(e2, -, {A}) wasDerivedFrom(e2, e1)",
        43: f"wasGeneratedBy(e, -, {B}) wasStartedBy(a, e, -, {A})",
        44: f"wasEndedBy(a, e, -, {B}) wasInvalidatedBy(e, -, {A})",
        45: f"wasGeneratedBy(e1, -, {B}) wasGeneratedBy(e2, -, {A}) specializationOf(e2, e1)",
        46: f"wasInvalidatedBy(e1, -, {A}) wasInvalidatedBy(e2, -, {B}) specializationOf(e2, e1)",
        47: f"activity(a, {B}, -) wasInvalidatedBy(ag, -, {A}) wasAssociatedWith(a, ag, -)",
        48: f"wasGeneratedBy(ag, -, {B}) wasGeneratedBy(e, -, {A}) wasAttributedTo(e, ag)",
        49: f"wasGeneratedBy(boss, -, {B}) wasInvalidatedBy(ag, -, {A}) actedOnBehalfOf(ag, boss, -)",
    }.items()
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
