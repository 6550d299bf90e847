"""Validity by PROV-CONSTRAINTS: the W3C's cases, violations planted into valid histories, and the rules that are easy to miss."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.histories import EX, History
from tests.support.machines import Size
from tests.support.places import SHARED
from trails.errors import InvalidInput
from trails.provenance import Bundle, Document, Finding, Statement, Value, validate
from trails.provenance.constraints import check_constraints
from trails.provenance.statements import EMPTY, QUALIFIED_NAME

CASES = SHARED / "prov-cases"
PROV = "http://www.w3.org/ns/prov#"


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

Planted = tuple[list[Statement], str, str]
"""What is added to a history, the name of the rule that it breaks, and a node that the finding must name."""


def _missing(history: History) -> Planted:
    entity = history.entities[0]
    return [Statement("wasAttributedTo", history.fresh("attr"), (entity, None))], "optional-placeholders", ""


def _two_starts(history: History) -> Planted:
    activity = history.activities[0]
    return [Statement("activity", activity, ("2031-01-01T00:00:00Z", None))], "key-object", activity


def _one_id_for_two(history: History) -> Planted:
    id_ = history.fresh("assoc")
    pairs = [(history.activities[0], history.agents[0], None), (history.activities[0], history.agents[1], None)]
    return [Statement("wasAssociatedWith", id_, pair) for pair in pairs], "key-properties", id_


def _two_ids(kind: str, rule: str, rest: tuple[str | None, ...]) -> Callable[[History], Planted]:
    def plant(history: History) -> Planted:
        about = history.entities[-1] if len(rest) == 1 else history.activities[-1]
        by = history.fresh("by")
        arguments = (about, by, None) if len(rest) == 1 else (about, None, by, None)
        ids = history.fresh("one"), history.fresh("two")
        return [Statement(kind, id_, arguments) for id_ in ids], rule, ids[0]

    return plant


def _other_time(kind: str, rule: str) -> Callable[[History], Planted]:
    def plant(history: History) -> Planted:
        activity = history.fresh("a")
        times = ("2027-01-01T00:00:00Z", "2027-01-02T00:00:00Z")
        stated = Statement(kind, None, (activity, None, None, "2029-09-09T00:00:00Z"))
        return [Statement("activity", activity, times), stated], rule, activity

    return plant


def _strict(history: History) -> tuple[str, str, Statement]:
    """Return two new entities and the statement that the second was derived from the first."""
    first, second = history.fresh("e"), history.fresh("e")
    return first, second, Statement("wasDerivedFrom", None, (second, first, None, None, None))


ORDER = "derivation-generation-generation-ordering"


def _entities(*names_: str) -> list[Statement]:
    return [Statement("entity", name) for name in names_]


def _derived_both_ways(history: History) -> Planted:
    first, second, derived = _strict(history)
    back = Statement("wasDerivedFrom", None, (first, second, None, None, None))
    return [*_entities(first, second), derived, back], ORDER, first


def _derived_from_itself(history: History) -> Planted:
    entity = history.entities[0]
    return [Statement("wasDerivedFrom", None, (entity, entity, None, None, None))], ORDER, entity


def _derived_in_a_long_circle(history: History) -> Planted:
    circle = [history.fresh("e") for _ in range(9)]
    pairs = zip(circle, [*circle[1:], circle[0]], strict=True)
    said = [Statement("wasDerivedFrom", None, (one, two, None, None, None)) for one, two in pairs]
    return [*_entities(*circle), *said], ORDER, circle[4]


def _generated_before_its_source_started_it(history: History) -> Planted:
    first, second, derived = _strict(history)
    activity = history.fresh("a")
    started = Statement("wasStartedBy", None, (activity, second, None, None))
    made = Statement("wasGeneratedBy", None, (first, activity, None))
    return [*_entities(first, second), derived, started, made], ORDER, activity


def _started_through_another(history: History) -> Planted:
    # second starts one; one makes the trigger that starts two (Inference 9); two makes first, which is before second
    first, second, derived = _strict(history)
    one, two, trigger = history.fresh("a"), history.fresh("a"), history.fresh("e")
    return (
        [
            *_entities(first, second),
            derived,
            Statement("wasStartedBy", None, (one, second, None, None)),
            Statement("wasStartedBy", None, (two, trigger, one, None)),
            Statement("wasGeneratedBy", None, (first, two, None)),
        ],
        ORDER,
        trigger,
    )


def _specialized_backwards(history: History) -> Planted:
    # over an entity of which nothing else is known: specialization is transitive
    first, second, derived = _strict(history)
    between = history.fresh("e")
    first_made, second_made = (Statement("wasGeneratedBy", None, (each, None, None)) for each in (first, second))
    chain = [Statement("specializationOf", None, pair) for pair in ((first, between), (between, second))]
    return [first_made, second_made, derived, *chain], ORDER, second


def _attributed_to_the_later(history: History) -> Planted:
    first, second, derived = _strict(history)
    made = Statement("wasAttributedTo", None, (first, second))
    return [*_entities(first, second), derived, made], ORDER, first


def _used_before_it_was_there(history: History) -> Planted:
    # a precise derivation: the usage of first by an activity that second started precedes the generation of first's source
    first, second, derived = _strict(history)
    activity, use, gen, other = history.fresh("a"), history.fresh("use"), history.fresh("gen"), history.fresh("e")
    return (
        [
            *_entities(first, second, other),
            derived,
            Statement("wasStartedBy", None, (activity, second, None, None)),
            Statement("wasDerivedFrom", None, (first, other, activity, gen, use)),
        ],
        ORDER,
        activity,
    )


def _generation_without_activity(history: History) -> Planted:
    pair = (history.entities[-1], history.entities[0])
    return (
        [Statement("wasDerivedFrom", None, (*pair, None, history.fresh("gen"), None))],
        "impossible-unspecified-derivation-generation-use",
        pair[0],
    )


def _specialization_of_itself(length: int) -> Callable[[History], Planted]:
    def plant(history: History) -> Planted:
        circle = [history.fresh("e") for _ in range(length)]
        pairs = zip(circle, [*circle[1:], circle[0]], strict=True)
        said = [Statement("specializationOf", None, pair) for pair in pairs]
        return said, "impossible-specialization-reflexive", circle[-1]

    return plant


def _one_id_for_two_kinds(history: History) -> Planted:
    id_ = history.fresh("id")
    two = [
        Statement("used", id_, (history.activities[0], history.entities[0], None)),
        Statement("wasInvalidatedBy", id_, (history.entities[0], history.activities[0], None)),
    ]
    return two, "impossible-property-overlap", id_


def _an_entity_as_an_id(history: History) -> Planted:
    entity = history.entities[0]
    used = Statement("used", entity, (history.activities[0], history.entities[-1], None))
    return [used], "impossible-object-property-overlap", entity


def _an_activity_as_an_entity(history: History) -> Planted:
    activity = history.activities[0]
    return [Statement("alternateOf", None, (activity, history.entities[0]))], "entity-activity-disjoint", activity


def _a_member_of_nothing(history: History) -> Planted:
    collection, special = history.fresh("c"), history.fresh("c")
    empty = Statement("entity", collection, (), ((PROV + "type", Value(EMPTY, QUALIFIED_NAME)),))
    # the attributes of an entity are those of its specializations (Inference 21)
    below = Statement("specializationOf", None, (special, collection))
    return (
        [empty, below, Statement("hadMember", None, (special, history.entities[0]))],
        "membership-empty-collection",
        special,
    )


def _a_made_up_attribute(history: History) -> Planted:
    name = history.fresh("e")
    return [Statement("entity", name, (), ((PROV + "madeUp", Value("x")),))], "reserved-attributes", name


def _two_mentions(history: History) -> Planted:
    general = [history.fresh("e"), history.fresh("e")]
    mention = history.fresh("m")
    said = [Statement("mentionOf", None, (mention, each, f"{EX}b")) for each in general]
    return said, "unique-mention", mention


PLANTS: dict[str, Callable[[History], Planted]] = {
    "an attribution to nobody": _missing,
    "an activity with two starts": _two_starts,
    "an id for two associations": _one_id_for_two,
    "two generations by one activity": _two_ids("wasGeneratedBy", "unique-generation", (None,)),
    "two invalidations by one activity": _two_ids("wasInvalidatedBy", "unique-invalidation", (None,)),
    "two starts by one activity": _two_ids("wasStartedBy", "unique-wasStartedBy", (None, None)),
    "two ends by one activity": _two_ids("wasEndedBy", "unique-wasEndedBy", (None, None)),
    "a start at another time": _other_time("wasStartedBy", "unique-startTime"),
    "an end at another time": _other_time("wasEndedBy", "unique-endTime"),
    "two entities derived from each other": _derived_both_ways,
    "an entity derived from itself": _derived_from_itself,
    "nine entities derived in a circle": _derived_in_a_long_circle,
    "a source made by what its result started": _generated_before_its_source_started_it,
    "the same through a trigger": _started_through_another,
    "a source that specializes its result": _specialized_backwards,
    "a source attributed to its result": _attributed_to_the_later,
    "a precise derivation that closes a circle": _used_before_it_was_there,
    "a generation without its activity": _generation_without_activity,
    "a specialization of itself": _specialization_of_itself(1),
    "two specializations of each other": _specialization_of_itself(2),
    "five specializations in a circle": _specialization_of_itself(5),
    "an id for two kinds": _one_id_for_two_kinds,
    "an entity that is an id": _an_entity_as_an_id,
    "an activity that is an entity": _an_activity_as_an_entity,
    "a member of an empty collection": _a_member_of_nothing,
    "an attribute that PROV lacks": _a_made_up_attribute,
    "two mentions of one entity": _two_mentions,
}
ROUNDS = {"quick": 4, "all": 40, "long": 1000}


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_violation_is_found_and_named_and_nothing_else_is(name: str, size: Size) -> None:
    for seed in range(ROUNDS[size]):
        history = History(seed)
        assert found(*history.statements) == [], seed
        planted, rule, node = PLANTS[name](history)
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
    said = [Statement("wasDerivedFrom", None, (one, two, None, None, None)) for one, two in pairs]
    findings = found(*_entities("a", "b", "c", "d"), *said)
    assert [len(each.statements) for each in findings] == [3, 4]
    assert set(findings[0].nodes) == {"a", "b", "c"}


# --- rules that are easy to miss


def test_without_generations_nothing_is_ordered() -> None:
    both = [Statement("wasDerivedFrom", None, (*pair, None, None, None)) for pair in (("a", "b"), ("b", "a"))]
    assert names(*both) == []
    assert names(*both, *_entities("a", "b")) == [ORDER]


def test_attribution_says_that_its_entity_was_generated() -> None:
    both = [Statement("wasDerivedFrom", None, (*pair, None, None, None)) for pair in (("a", "b"), ("b", "a"))]
    attributed = [Statement("wasAttributedTo", None, (each, "ag")) for each in "ab"]
    assert names(*both, *attributed) == [ORDER]


def test_an_association_without_a_plan_is_not_one_with_a_plan_and_one_without_an_agent_may_be_anyones() -> None:
    assert names(*(Statement("wasAssociatedWith", "i", ("a", "ag", plan)) for plan in ("p", None))) == [
        "key-properties"
    ]
    assert names(*(Statement("wasAssociatedWith", "i", ("a", agent, None)) for agent in ("ag", None))) == []


def test_a_delegation_in_general_is_not_one_in_an_activity() -> None:
    assert names(*(Statement("actedOnBehalfOf", "i", ("x", "y", a)) for a in ("a", None))) == ["key-properties"]
    assert names(*(Statement("actedOnBehalfOf", "i", ("x", y, "a")) for y in ("y", None))) == []


def test_an_influence_and_a_relation_with_its_id_are_about_the_same_things() -> None:
    influence = Statement("wasInfluencedBy", "i", ("a", "e"))
    assert names(influence, Statement("used", "i", ("a", "e", None))) == []
    assert names(influence, Statement("used", "i", ("a", "f", None))) == ["key-properties"]


def test_a_derivation_by_an_activity_is_its_usage_and_its_generation() -> None:
    derived = Statement("wasDerivedFrom", None, ("e2", "e1", "a", "g", "u"))
    assert names(derived, Statement("wasGeneratedBy", "g", ("e2", "a", None))) == []
    assert names(derived, Statement("wasGeneratedBy", "other", ("e2", "a", None))) == ["unique-generation"]
    assert names(derived, Statement("used", "u", ("a", "e3", None))) == ["key-properties"]


def test_blank_nodes_stand_for_what_is_not_known() -> None:
    two = [Statement("wasGeneratedBy", "g", ("e", activity, None)) for activity in ("_:x", "a")]
    assert names(*two) == []
    assert names(*two, Statement("wasGeneratedBy", "g", ("e", "b", None))) == ["key-properties"]


def test_one_moment_in_two_time_zones_is_one_time() -> None:
    times = ("2026-01-01T12:00:00Z", "2026-01-01T13:00:00.000+01:00")
    assert names(*(Statement("wasGeneratedBy", "g", ("e", "a", time)) for time in times)) == []


def test_bundles_are_checked_one_by_one_and_have_different_names() -> None:
    one, two = (Statement("wasDerivedFrom", None, (*pair, None, None, None)) for pair in (("a", "b"), ("b", "a")))
    apart = [Bundle("urn:1", [*_entities("a", "b"), one]), Bundle("urn:2", [*_entities("a", "b"), two])]
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
