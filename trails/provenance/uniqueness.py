"""Check uniqueness constraints, by unifying what must be equal.

These are the key and uniqueness constraints of PROV-CONSTRAINTS (22 to 29), by union-find. A term is a constant (an IRI, a
time, or `-` for nothing) or unknown: a blank node, or a number for what a statement leaves open (Definition 4). Two
statements under one key are one, so their terms are equal in pairs; two different constants never are. This is repeated
until nothing more follows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import count
from typing import Any, Final, NamedTuple

from trails.provenance.statements import BLANK, ELEMENTS, INFLUENCES, KINDS, Statement

_NAMES: Final = (
    *("key-object", "key-properties", "unique-generation", "unique-invalidation", "unique-wasStartedBy"),  # from 22
    *("unique-wasEndedBy", "unique-startTime", "unique-endTime"),
    *("start-precedes-end", "start-start-ordering", "end-end-ordering", "usage-within-activity"),  # from 30
    *("generation-within-activity", "wasInformedBy-ordering", "generation-precedes-invalidation"),
    *("generation-precedes-usage", "usage-precedes-invalidation", "generation-generation-ordering"),
    *("invalidation-invalidation-ordering", "derivation-usage-generation-ordering"),  # from 40
    *("derivation-generation-generation-ordering", "wasStartedBy-ordering", "wasEndedBy-ordering"),
    *("specialization-generation-ordering", "specialization-invalidation-ordering", "wasAssociatedWith-ordering"),
    *("wasAttributedTo-ordering", "actedOnBehalfOf-ordering"),
    *("typing", "impossible-unspecified-derivation-generation-use", "impossible-specialization-reflexive"),  # from 50
    *("impossible-property-overlap", "impossible-object-property-overlap", "entity-activity-disjoint"),
    "membership-empty-collection",
)
CONSTRAINT_NAMES: Final[Mapping[int, str]] = {4: "optional-placeholders", **dict(enumerate(_NAMES, 22))}
"""The names that PROV-CONSTRAINTS (W3C, 2013) gives to its constraints, and to its Definition 4."""

ATTRIBUTE_RULE: Final = "reserved-attributes"
"""PROV-DM 5.7.2: in PROV's namespace there are five attributes and no more."""
MENTION_RULE: Final = "unique-mention"
"""PROV-LINKS, Constraint 2: an entity is a mention of one entity in one bundle."""
BUNDLE_RULE: Final = "unique-bundle"
"""PROV-CONSTRAINTS 7.2: no two bundles of a document have the same name."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One violation: the rule by its name, and its number in PROV-CONSTRAINTS if it has one there.

    `nodes` are the IRIs that it is about and `statements` those that clash; for an order that runs in a circle they
    follow the circle, the shortest there is. `bundle` is the name of the bundle, None for the document's own statements.
    """

    constraint: int | None
    name: str
    message: str
    nodes: tuple[str, ...]
    statements: tuple[Statement, ...]
    bundle: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as JSON values, its statements in PROV-N."""
        said = [each.to_provn() for each in self.statements]
        return {**asdict(self), "nodes": list(self.nodes), "statements": said}


def finding_of(rule: int | str, message: str, nodes: Sequence[str], statements: Iterable[Statement]) -> Finding:
    """Return a finding of a rule, by its number or, if it has none, by its name; a statement is told once."""
    number = rule if isinstance(rule, int) else None
    name = CONSTRAINT_NAMES[rule] if isinstance(rule, int) else rule
    return Finding(number, name, message, tuple(nodes), tuple(dict.fromkeys(statements)))


Term = str | int
NOTHING: Final = "-"
"""What stands in a place that nothing fills (an association's plan): a constant of its own."""

_UNIQUE: Final = {
    # what tells two of a kind apart beside their ids, as places
    "wasGeneratedBy": (24, (0, 1)),
    "wasInvalidatedBy": (25, (0, 1)),
    "wasStartedBy": (26, (0, 2)),
    "wasEndedBy": (27, (0, 2)),
}


class _Why(NamedTuple):
    """Why two terms must be the same: the rule, the key that two records share, and the records."""

    rule: int | str
    about: Term
    first: Record
    second: Record


class Record:
    """One or more statements that are one by a key: their id, their terms, and which statements they are."""

    __slots__ = ("id", "sources", "terms")

    def __init__(self, id_: Term, terms: list[Term], sources: list[int]) -> None:
        self.id, self.terms, self.sources = id_, terms, sources


def is_unknown(term: Term) -> bool:
    """Tell whether a term stands for something that is not known."""
    return isinstance(term, int) or term.startswith(BLANK)


def moment(time: str) -> datetime | None:
    """Return the moment that a time names, None for one that the calendar of Python does not hold.

    A time without a zone is taken for one in UTC, as `prov` and most tools write them.
    """
    try:
        value = datetime.fromisoformat(time)
    except ValueError:
        return None
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value


class Unified:
    """The statements of one bundle with everything that must be the same made the same."""

    def __init__(self, statements: Sequence[Statement]) -> None:
        """Read the statements, expand what they leave open, and unify until nothing changes."""
        self.statements = statements
        self.findings: list[Finding] = []
        self.records: dict[str, list[Record]] = defaultdict(list)
        self._parent: dict[Term, Term] = {}
        self._new: Callable[[], int] = count(1).__next__
        self._times: dict[str, str] = {}
        self._clashes: set[tuple[int | str, Term, Term, Term]] = set()
        self._merges = 0
        self._expand()
        self._unify()

    def find(self, term: Term) -> Term:
        """Return the one term that stands for all that are the same: the constant if there is one."""
        parent = self._parent
        if term not in parent:
            return term
        root = term
        while root in parent:
            root = parent[root]
        while parent.get(term, root) != root:
            parent[term], term = root, parent[term]
        return root

    def sources(self, record: Record) -> list[Statement]:
        """Return the statements that a record comes from."""
        return [self.statements[each] for each in record.sources]

    # --- what statements leave open

    def _expand(self) -> None:
        """Make a record of each statement, with an unknown for each thing that it leaves open (Definitions 1 and 4)."""
        for number, statement in enumerate(self.statements):
            kind = KINDS.get(statement.kind)
            if kind is None:
                continue
            open_ = statement.kind == "wasDerivedFrom" and statement.arguments[2] is None
            terms: list[Term] = []
            for value, place in zip(statement.arguments, kind.places, strict=True):
                is_open = value is None and place.missing == "unknown" and not open_
                if value is not None:
                    terms.append(self._time(value) if place.is_time else value)
                else:
                    terms.append(self._new() if is_open else NOTHING)
                if value is None and place.missing == "refused":
                    self._found(4, f"{statement.kind} names no {place.name}", [statement.id], [number])
            id_ = self._new() if statement.id is None else statement.id
            self.records[statement.kind].append(Record(id_, terms, [number]))
            if statement.kind == "wasDerivedFrom" and not open_:
                generated, used, activity, generation, usage = terms
                self.records["used"].append(Record(usage, [activity, used, self._new()], [number]))
                self.records["wasGeneratedBy"].append(Record(generation, [generated, activity, self._new()], [number]))

    def _time(self, text: str) -> str:
        if text not in self._times:
            value = moment(text)
            self._times[text] = text if value is None else value.astimezone(UTC).isoformat()
        return self._times[text]

    # --- what must be the same

    def _unify(self) -> None:
        before = -1
        while self._merges != before:
            before = self._merges
            for kind in list(self.records):
                if KINDS[kind].identified:
                    self.records[kind] = self._by_key(kind)
            for kind, (rule, places) in _UNIQUE.items():
                self._unique(kind, rule, places)
            self._activity_times()
            self._influences()
        self._mentions()

    def _by_key(self, kind: str) -> list[Record]:
        """Make one record of all that have the same id (Constraints 22 and 23)."""
        rule = 22 if kind in ELEMENTS else 23
        kept: dict[Term, Record] = {}
        for record in self.records[kind]:
            id_ = self.find(record.id)
            first = kept.get(id_)
            if first is None:
                kept[id_] = record
                continue
            for mine, other in zip(first.terms, record.terms, strict=True):
                self._same(mine, other, _Why(rule, id_, first, record))
            first.sources = [*first.sources, *(each for each in record.sources if each not in first.sources)]
        return list(kept.values())

    def _unique(self, kind: str, rule: int, places: tuple[int, int]) -> None:
        seen: dict[tuple[Term, Term], Record] = {}
        one, two = places
        find = self.find
        for record in self.records.get(kind, ()):
            key = (find(record.terms[one]), find(record.terms[two]))
            first = seen.setdefault(key, record)
            if first is not record:
                self._same(first.id, record.id, _Why(rule, key[0], first, record))

    def _activity_times(self) -> None:
        """Make an activity's times those of its starts and ends (Constraints 28 and 29)."""
        activities = {self.find(record.id): record for record in self.records.get("activity", ())}
        for kind, rule, place in (("wasStartedBy", 28, 0), ("wasEndedBy", 29, 1)):
            for record in self.records.get(kind, ()):
                activity = activities.get(self.find(record.terms[0]))
                if activity is not None:
                    self._same(activity.terms[place], record.terms[3], _Why(rule, record.terms[0], activity, record))

    def _influences(self) -> None:
        """Hold relations that share an id against the influence that each of them is (Inference 15, Constraint 23)."""
        wide = ("wasInfluencedBy", "wasDerivedFrom")
        named = [each for kind in wide for each in self.records.get(kind, ()) if isinstance(each.id, str)]
        shared = {self.find(each.id): each for each in named}
        for kind in INFLUENCES:
            for record in self.records.get(kind, ()):
                first = shared.get(self.find(record.id))
                if first is not None and first is not record:
                    self._same(first.terms[0], record.terms[0], _Why(23, record.id, first, record))
                    self._same(first.terms[1], record.terms[1], _Why(23, record.id, first, record))

    def _mentions(self) -> None:
        """Hold mentions of one entity against each other (PROV-LINKS, Constraint 2)."""
        seen: dict[Term, Record] = {}
        for record in self.records.get("mentionOf", ()):
            first = seen.setdefault(self.find(record.terms[0]), record)
            if first is not record:
                for mine, other in zip(first.terms[1:], record.terms[1:], strict=True):
                    self._same(mine, other, _Why(MENTION_RULE, record.terms[0], first, record))

    def _same(self, one: Term, two: Term, why: _Why) -> None:
        """Make two terms the same; if they are two different constants, that is a violation of the rule."""
        one, two = self.find(one), self.find(two)
        if one == two:
            return
        if is_unknown(one):
            self._parent[one] = two
        elif is_unknown(two):
            self._parent[two] = one
        else:
            self._clash(one, two, why)
            return
        self._merges += 1

    def _clash(self, one: Term, two: Term, why: _Why) -> None:
        clash = (why.rule, why.about, one, two)
        if clash not in self._clashes:
            self._clashes.add(clash)
            about = why.about if isinstance(why.about, str) else self.find(why.first.terms[0])
            sources = [*why.first.sources, *why.second.sources]
            self._found(why.rule, f"{one} and {two} would be the same", [about, one, two], sources)

    def _found(self, rule: int | str, message: str, nodes: Sequence[Term | None], sources: Sequence[int]) -> None:
        shown = [each for each in nodes if isinstance(each, str) and each != NOTHING and moment(each) is None]
        text = f"{message}{f' (of {shown[0]})' if shown else ''}"
        self.findings.append(finding_of(rule, text, shown, [self.statements[each] for each in sources]))


def each_of(unified: Unified, kind: str) -> Iterator[tuple[Record, list[Term]]]:
    """Yield the records of a kind with the terms that theirs stand for."""
    for record in unified.records.get(kind, ()):
        yield record, [unified.find(term) for term in record.terms]
