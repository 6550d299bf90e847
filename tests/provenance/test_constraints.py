"""Validity by PROV-CONSTRAINTS: the W3C's cases, violations planted into valid histories, and the rules that are easy to miss."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from tests.support.histories import EX, History
from tests.support.machines import Size
from tests.support.places import SHARED
from tests.support.prov_records import parsed
from trails.errors import InvalidInput
from trails.provenance import Bundle, Document, Finding, Statement, validate
from trails.provenance.constraints import check_constraints

CASES = SHARED / "prov-cases"


def found(*statements: Statement) -> list[Finding]:
    return list(check_constraints(Document([Bundle(None, statements)])).findings)


def names(*statements: Statement) -> list[str]:
    return [finding.name for finding in found(*statements)]


def test_the_verdict_on_every_case_of_the_w3c_is_the_expected_one(shared: Path) -> None:
    if not CASES.is_dir():
        pytest.skip("the W3C's cases are not there")
    expected = json.loads((CASES / "expected.json").read_text("utf-8"))
    assert len(expected) > 100
    wrong = []
    for name, case in expected.items():
        try:
            valid = validate(CASES / name).ok
        except InvalidInput:
            valid = False
        if valid != (case["expected"] == "PASS"):
            wrong.append(name)
    assert wrong == []


# --- planting

ORDER = "derivation-generation-generation-ordering"
DERIVED_FROM_1 = "entity(new:1) entity(new:2) wasDerivedFrom(new:2, new:1) "
"""What no later event of the second entity may come before: the generation of the first."""


def _circle(kind: str, length: int) -> str:
    return " ".join(f"{kind}(new:{number}, new:{(number + 1) % length})" for number in range(length))


PLANTS: dict[str, tuple[str, str, str]] = {
    # the name of the rule that is broken, a node that the finding must name, and what is added to a history
    "an attribution to nobody": ("optional-placeholders", "", "wasAttributedTo(new:id; {entity}, -)"),
    "an activity with two starts": ("key-object", "{activity}", "activity({activity}, 2031-01-01T00:00:00Z, -)"),
    "an id for two associations": ("key-properties", "new:id",
        "wasAssociatedWith(new:id; {activity}, {agent}, -) wasAssociatedWith(new:id; {activity}, {last_agent}, -)"),
    "two generations by one activity": ("unique-generation", "new:1",
        "wasGeneratedBy(new:1; {last_entity}, new:by, -) wasGeneratedBy(new:2; {last_entity}, new:by, -)"),
    "two invalidations by one activity": ("unique-invalidation", "new:1",
        "wasInvalidatedBy(new:1; {last_entity}, new:by, -) wasInvalidatedBy(new:2; {last_entity}, new:by, -)"),
    "two starts by one activity": ("unique-wasStartedBy", "new:1",
        "wasStartedBy(new:1; {last_activity}, -, new:by, -) wasStartedBy(new:2; {last_activity}, -, new:by, -)"),
    "two ends by one activity": ("unique-wasEndedBy", "new:1",
        "wasEndedBy(new:1; {last_activity}, -, new:by, -) wasEndedBy(new:2; {last_activity}, -, new:by, -)"),
    "a start at another time": ("unique-startTime", "new:a",
        "activity(new:a, 2027-01-01T00:00:00Z, 2027-01-02T00:00:00Z) wasStartedBy(new:a, -, -, 2029-09-09T00:00:00Z)"),
    "an end at another time": ("unique-endTime", "new:a",
        "activity(new:a, 2027-01-01T00:00:00Z, 2027-01-02T00:00:00Z) wasEndedBy(new:a, -, -, 2029-09-09T00:00:00Z)"),
    "two entities derived from each other": (ORDER, "new:1", DERIVED_FROM_1 + "wasDerivedFrom(new:1, new:2)"),
    "an entity derived from itself": (ORDER, "{entity}", "wasDerivedFrom({entity}, {entity})"),
    "nine entities derived in a circle": (ORDER, "new:4",
        " ".join(f"entity(new:{number})" for number in range(9)) + _circle(" wasDerivedFrom", 9)),
    "a source made by what its result started": (ORDER, "new:a",
        DERIVED_FROM_1 + "wasStartedBy(new:a, new:2, -, -) wasGeneratedBy(new:1, new:a, -)"),
    # the second starts a; a makes the trigger that starts b (Inference 9); b makes the first, which is before the second
    "the same through a trigger": (ORDER, "new:t",
        DERIVED_FROM_1 + "wasStartedBy(new:a, new:2, -, -) wasStartedBy(new:b, new:t, new:a, -) wasGeneratedBy(new:1, new:b, -)"),
    # over an entity of which nothing else is known: specialization is transitive
    "a source that specializes its result": (ORDER, "new:2",
        ("wasGeneratedBy(new:1, -, -) wasGeneratedBy(new:2, -, -) wasDerivedFrom(new:2, new:1) "
        "specializationOf(new:1, new:between) specializationOf(new:between, new:2)")),
    "a source attributed to its result": (ORDER, "new:1", DERIVED_FROM_1 + "wasAttributedTo(new:1, new:2)"),
    # the usage of the third by an activity that the second started precedes the generation of the first
    "a precise derivation that closes a circle": (ORDER, "new:a",
        DERIVED_FROM_1 + "entity(new:3) wasStartedBy(new:a, new:2, -, -) wasDerivedFrom(new:1, new:3, new:a, new:gen, new:use)"),
    "a generation without its activity": ("impossible-unspecified-derivation-generation-use", "{last_entity}",
        "wasDerivedFrom({last_entity}, {entity}, -, new:gen, -)"),
    "a specialization of itself": ("impossible-specialization-reflexive", "new:0", _circle("specializationOf", 1)),
    "two specializations of each other": ("impossible-specialization-reflexive", "new:1",
        _circle("specializationOf", 2)),
    "five specializations in a circle": ("impossible-specialization-reflexive", "new:4",
        _circle("specializationOf", 5)),
    "an id for two kinds": ("impossible-property-overlap", "new:id",
        "used(new:id; {activity}, {entity}, -) wasInvalidatedBy(new:id; {entity}, {activity}, -)"),
    "an entity that is an id": ("impossible-object-property-overlap", "{entity}",
        "used({entity}; {activity}, {last_entity}, -)"),
    "an activity that is an entity": ("entity-activity-disjoint", "{activity}", "alternateOf({activity}, {entity})"),
    # the attributes of an entity are those of its specializations (Inference 21)
    "a member of an empty collection": ("membership-empty-collection", "new:d",
        "entity(new:c, [prov:type='prov:EmptyCollection']) specializationOf(new:d, new:c) hadMember(new:d, {entity})"),
    "an attribute that PROV lacks": ("reserved-attributes", "new:e", 'entity(new:e, [prov:madeUp="x"])'),
    "two mentions of one entity": ("unique-mention", "new:m",
        "prov:mentionOf(new:m, new:1, new:b) prov:mentionOf(new:m, new:2, new:b)"),
}  # fmt: skip


ROUNDS = {"quick": 4, "all": 40, "long": 1000}


def _names_in(history: History) -> dict[str, str]:
    lists = {"entity": history.entities, "activity": history.activities, "agent": history.agents}
    names_ = {prefix + name: each[at] for name, each in lists.items() for prefix, at in (("", 0), ("last_", -1))}
    return {name: each.replace(EX, "old:") for name, each in names_.items()}


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_violation_is_found_and_named_and_nothing_else_is(name: str, size: Size) -> None:
    for seed in range(ROUNDS[size]):
        history = History(seed)
        assert found(*history.statements) == [], seed
        rule, node, text = (each.format_map(_names_in(history)) for each in PLANTS[name])
        planted, node = parsed(text), node.replace("old:", EX).replace("new:", f"{EX}new/")
        mixed = [*history.statements, *planted]
        random.Random(seed).shuffle(mixed)
        findings = found(*mixed)
        assert {each.name for each in findings} == {rule}, (seed, findings)
        assert any(node in each.nodes for each in findings) or node == "", (seed, findings)
        clashing = {statement for each in findings for statement in each.statements}
        assert clashing & set(planted), (seed, findings)


def test_two_bundles_of_one_name_are_found_among_valid_ones(size: Size) -> None:
    for seed in range(ROUNDS[size]):
        bundles = [Bundle(f"{EX}b{number}", History(seed + number, 20).statements) for number in range(4)]
        assert list(check_constraints(Document(bundles)).findings) == [], seed
        twice = random.Random(seed).randrange(4)
        bundles.append(Bundle(f"{EX}b{twice}", [Statement("entity", f"{EX}e")]))
        random.Random(seed).shuffle(bundles)
        (finding,) = check_constraints(Document(bundles)).findings
        assert (finding.name, finding.bundle) == ("unique-bundle", f"{EX}b{twice}")


def test_a_circle_is_told_as_its_shortest() -> None:
    pairs = [("b", "a"), ("c", "b"), ("d", "c"), ("a", "d"), ("a", "c")]
    derived = " ".join(f"wasDerivedFrom({one}, {two})" for one, two in pairs)
    findings = found(*parsed(f"entity(a) entity(b) entity(c) entity(d) {derived}"))
    assert [len(each.statements) for each in findings] == [3, 4]
    assert set(findings[0].nodes) == {"urn:a", "urn:b", "urn:c"}


# --- rules that are easy to miss

BOTH_WAYS = "wasDerivedFrom(a, b) wasDerivedFrom(b, a) "
DERIVED = "wasDerivedFrom(e2, e1, a, g, u) "
BLANK = "wasGeneratedBy(g; e, _:x, -) wasGeneratedBy(g; e, a, -) "
EASY_TO_MISS = {
    "without generations nothing is ordered": (BOTH_WAYS, []),
    "entities are generated": (BOTH_WAYS + "entity(a) entity(b)", [ORDER]),
    "attribution says that its entity was generated": (
        BOTH_WAYS + "wasAttributedTo(a, g) wasAttributedTo(b, g)", [ORDER]),
    "an association without a plan is not one with a plan": (
        "wasAssociatedWith(i; a, ag, p) wasAssociatedWith(i; a, ag, -)", ["key-properties"]),
    "one without an agent may be anyone's": ("wasAssociatedWith(i; a, ag, -) wasAssociatedWith(i; a, -, -)", []),
    "a delegation in general is not one in an activity": (
        "actedOnBehalfOf(i; x, y, a) actedOnBehalfOf(i; x, y, -)", ["key-properties"]),
    "one to nobody may be to anyone": ("actedOnBehalfOf(i; x, y, a) actedOnBehalfOf(i; x, -, a)", []),
    "an influence and a relation with its id are about the same": ("wasInfluencedBy(i; a, e) used(i; a, e, -)", []),
    "and not about others": ("wasInfluencedBy(i; a, e) used(i; a, f, -)", ["key-properties"]),
    "a derivation by an activity is its generation": (DERIVED + "wasGeneratedBy(g; e2, a, -)", []),
    "which has one id": (DERIVED + "wasGeneratedBy(other; e2, a, -)", ["unique-generation"]),
    "and its usage": (DERIVED + "used(u; a, e3, -)", ["key-properties"]),
    "blank nodes stand for what is not known": (BLANK, []),
    "which is one thing": (BLANK + "wasGeneratedBy(g; e, b, -)", ["key-properties"]),
    "one moment in two time zones is one time": (
        "wasGeneratedBy(g; e, a, 2026-01-01T12:00:00Z) wasGeneratedBy(g; e, a, 2026-01-01T13:00:00.000+01:00)", []),
}  # fmt: skip


@pytest.mark.parametrize("rule", EASY_TO_MISS)
def test_a_rule_that_is_easy_to_miss_is_kept(rule: str) -> None:
    text, broken = EASY_TO_MISS[rule]
    assert names(*parsed(text)) == broken


def test_bundles_are_checked_one_by_one_and_have_different_names() -> None:
    *entities, one, two = parsed(f"entity(a) entity(b) {BOTH_WAYS}")
    apart = [Bundle("urn:1", [*entities, one]), Bundle("urn:2", [*entities, two])]
    assert check_constraints(Document(apart)).ok
    assert [each.name for each in check_constraints(Document([apart[0], apart[0]])).findings] == ["unique-bundle"]
    together = Bundle("urn:3", [*apart[0].statements, two])
    assert [each.bundle for each in check_constraints(Document([together])).findings] == ["urn:3"]


def test_a_long_chain_of_anything_is_checked_without_recursion(size: Size) -> None:
    length = {"quick": 3_000, "all": 20_000, "long": 20_000}[size]
    chain = [
        Statement(kind, None, (f"e{n + 1}", f"e{n}", *rest))
        for n in range(length)
        for kind, rest in (("wasDerivedFrom", (None, None, None)), ("specializationOf", ()))
    ]
    assert names(*chain, Statement("entity", "e0")) == []
    back = Statement("wasDerivedFrom", None, ("e0", f"e{length}", None, None, None))
    assert set(names(*chain, Statement("entity", "e0"), back)) == {ORDER}
