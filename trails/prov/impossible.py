"""What cannot be, by looking it up: the typing and impossibility constraints of PROV-CONSTRAINTS (50 to 56)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from trails import vocab
from trails.prov.cycles import Edges, circles
from trails.prov.findings import ATTRIBUTE, Finding, broken
from trails.prov.statements import ATTRIBUTES, ELEMENTS, EMPTY, QUALIFIED_NAME, TYPE, Statement
from trails.prov.unification import NOTHING, Record, Term, Unified, each_of

_TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    # what stands in each place is an entity, an activity, an agent (Constraint 50); "" where a place says nothing of it
    "wasGeneratedBy": ("entity", "activity"),
    "used": ("activity", "entity"),
    "wasInformedBy": ("activity", "activity"),
    "wasStartedBy": ("activity", "entity", "activity"),
    "wasEndedBy": ("activity", "entity", "activity"),
    "wasInvalidatedBy": ("entity", "activity"),
    "wasDerivedFrom": ("entity", "entity", "activity"),
    "wasAttributedTo": ("entity", "agent"),
    "wasAssociatedWith": ("activity", "agent", "entity"),
    "actedOnBehalfOf": ("agent", "agent", "activity"),
    "alternateOf": ("entity", "entity"),
    "specializationOf": ("entity", "entity"),
    "mentionOf": ("entity", "entity"),
    "hadMember": ("entity", "entity"),
}
_APART: Final = (
    *("used", "wasGeneratedBy", "wasInvalidatedBy", "wasStartedBy", "wasEndedBy", "wasInformedBy"),
    *("wasAttributedTo", "wasAssociatedWith", "actedOnBehalfOf"),
)
"""The relations of which no two share an id (Constraint 53); an influence and a derivation may."""
Specializations = dict[Term, list[tuple[Term, Record]]]
"""What is a specialization of each entity, and the record that says so."""
_RELATIONS: Final = (*_APART, "wasInfluencedBy", "wasDerivedFrom")


def impossible(unified: Unified) -> Iterator[Finding]:
    """Yield what the look-ups find in one bundle."""
    yield from _attributes(unified.statements)
    yield from _derivations(unified.statements)
    yield from _disjoint(unified)
    yield from _overlaps(unified)
    specific = specializations(unified)
    yield from _circles(specific, unified)
    yield from _empty(specific, unified)


def _attributes(statements: Iterable[Statement]) -> Iterator[Finding]:
    for statement in statements:
        for name, _ in statement.attributes:
            if name.startswith(vocab.PROV) and name not in ATTRIBUTES:
                local = name.removeprefix(vocab.PROV)
                said = f"prov:{local} is no attribute of PROV-DM (there are type, label, location, role and value)"
                yield broken(ATTRIBUTE, said, [str(statement.id), name], [statement])


def _derivations(statements: Iterable[Statement]) -> Iterator[Finding]:
    for each in statements:
        if each.kind == "wasDerivedFrom" and each.arguments[2] is None and any(each.arguments[3:]):
            said = "a derivation names a generation or a usage and no activity"
            nodes = [node for node in each.arguments if node is not None]
            yield broken(51, said, nodes, [each])


def _disjoint(unified: Unified) -> Iterator[Finding]:
    """Yield what is an entity by one statement and an activity by another (Constraints 50 and 55)."""
    seen: dict[str, dict[Term, Record]] = {"entity": {}, "activity": {}, "agent": {}}
    for kind in ("entity", "activity"):
        for record in unified.records.get(kind, ()):
            seen[kind].setdefault(unified.find(record.id), record)
    for kind, types in _TYPES.items():
        for record in unified.records.get(kind, ()):
            for term, type_ in zip(record.terms, types, strict=False):
                if term != NOTHING:
                    seen[type_].setdefault(unified.find(term), record)
    activities = seen["activity"]
    for node, entity in seen["entity"].items():
        activity = activities.get(node)
        if activity is not None:
            clash = [*unified.sources(entity), *unified.sources(activity)]
            said = f"{node} is an entity by one statement and an activity by another"
            yield broken(55, said, _named(node), clash)


def _overlaps(unified: Unified) -> Iterator[Finding]:
    """Yield ids that stand for two relations (Constraint 53), or for a relation and a thing (Constraint 54)."""
    relations: dict[Term, tuple[str, Record]] = {}
    for kind in _APART:
        for record in unified.records.get(kind, ()):
            id_ = unified.find(record.id)
            first = relations.setdefault(id_, (kind, record))
            if first[0] != kind:
                said = f"{id_} is the id of {first[0]} and of {kind}"
                clash = [*unified.sources(first[1]), *unified.sources(record)]
                yield broken(53, said, _named(id_), clash)
    things = {
        unified.find(record.id): (kind, record) for kind in sorted(ELEMENTS) for record in unified.records.get(kind, ())
    }
    for kind in _RELATIONS:
        for record in unified.records.get(kind, ()):
            id_ = unified.find(record.id)
            thing = things.get(id_)
            if thing is not None:
                said = f"{id_} is the id of {kind}, and names an {thing[0]} too"
                yield broken(54, said, _named(id_), [*unified.sources(thing[1]), *unified.sources(record)])


def _named(term: Term) -> list[str]:
    return [term] if isinstance(term, str) else []


# --- specializations


def specializations(unified: Unified) -> Specializations:
    """Return what each entity has as its specializations, mentions among them (PROV-LINKS, Inference 1)."""
    found: Specializations = {}
    for kind in ("specializationOf", "mentionOf"):
        for record, terms in each_of(unified, kind):
            if NOTHING not in terms[:2]:
                found.setdefault(terms[1], []).append((terms[0], record))
    return found


def _circles(specific: Specializations, unified: Unified) -> Iterator[Finding]:
    """Yield circles of specializations: by Inference 19 their members specialize themselves (Constraint 52)."""
    numbers: dict[Term, int] = {}
    edges, records = Edges(), []
    for general, found in specific.items():
        for each, record in found:
            edges.sources.append(numbers.setdefault(general, len(numbers)))
            edges.targets.append(numbers.setdefault(each, len(numbers)))
            records.append(record)
    nodes = list(numbers)
    for circle in circles(edges, len(nodes), lambda edge: True):
        members = [nodes[edges.sources[edge]] for edge in circle]
        clash = [each for edge in circle for each in unified.sources(records[edge])]
        said = f"{members[0]} would be a specialization of itself"
        yield broken(52, said, [str(node) for node in members], clash)


def declared(specific: Specializations, first: Iterable[Term]) -> dict[Term, Term]:
    """Return what is stated of entities, and so of all their specializations (Inference 21): each, and whose it was."""
    found: dict[Term, Term] = {each: each for each in first}
    queue = deque(found)
    while queue:
        node = queue.popleft()
        for other, _ in specific.get(node, ()):
            if other not in found:
                found[other] = found[node]
                queue.append(other)
    return found


def _empty(specific: Specializations, unified: Unified) -> Iterator[Finding]:
    """Yield members of empty collections (Constraint 56)."""
    empty = {
        unified.find(str(each.id)): each
        for each in unified.statements
        if each.kind == "entity" and any(_is_empty(name, value) for name, value in each.attributes)
    }
    if not empty:
        return
    known = declared(specific, empty)
    for record, terms in each_of(unified, "hadMember"):
        said_empty = known.get(terms[0])
        if said_empty is not None:
            said = f"{terms[0]} is an empty collection and has the member {terms[1]}"
            clash = [empty[said_empty], *unified.sources(record)]
            yield broken(56, said, [*_named(terms[0]), *_named(terms[1])], clash)


def _is_empty(name: str, value: object) -> bool:
    return name == TYPE and isinstance(value, tuple) and value[:2] == (EMPTY, QUALIFIED_NAME)
