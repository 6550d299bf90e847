"""RDF facts as PROV statements: what a file in RDF and what the rows of a store are both read by."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from trails import vocab
from trails.errors import InvalidInput
from trails.prov.mapping import BUNDLE_OF_MENTION, CLASSES, INFLUENCERS, NAMES, PROV, Qualified, Relation, Terms, Time
from trails.prov.statements import BLANK, EMPTY, KINDS, TYPE, Attribute, Statement, Value, name_value

Object = str | Value
"""What a fact says of its subject: the IRI of a thing (or the name of a blank node), or a literal."""
Facts = Mapping[str, Iterable[tuple[str, Object]]]
"""Facts by the IRI of their predicate, as pairs of subject and object."""

_RDF_TYPE: Final = vocab.RDF + "type"
_REFERENCES: Final = (PROV + "hadGeneration", PROV + "hadUsage")


def statements(facts: Facts, terms: Terms, *, attributes: bool = True) -> list[Statement]:
    """Return what facts say in PROV; with `attributes` also what else they say of its elements and qualified statements.

    A statement that stands in both forms is given once, in its qualified one. A generation's and an invalidation's time
    joins the one statement that it can be about, and is a statement of its own where there are several or none.
    """
    return _Reading(facts, terms, attributes=attributes).statements()


class _Reading:
    def __init__(self, facts: Facts, terms: Terms, *, attributes: bool) -> None:
        self._facts = facts
        self._terms = terms
        self._nodes = {node: found for found in terms.qualified for _, node in facts.get(found, ())}
        self._wanted = attributes
        self._about: dict[str, list[tuple[str, Object]]] = defaultdict(list)
        if attributes or self._nodes:
            self._collect()

    def _collect(self) -> None:
        """Collect what is said of each element and each qualified node beside relations and times."""
        terms = self._terms
        known = {*terms.relations, *terms.qualified, *terms.times, BUNDLE_OF_MENTION}
        for predicate, pairs in self._facts.items():
            if predicate not in known:
                for subject, value in pairs:
                    if self._wanted or subject in self._nodes:
                        self._about[subject].append((predicate, value))

    def statements(self) -> list[Statement]:
        qualified = list(self._qualified())
        covered = {(each.kind, each.arguments[0], each.arguments[1]) for each in qualified}
        relations = [each for each in self._relations() if (each.kind, *each.arguments[:2]) not in covered]
        return [*self._elements(), *self._with_times([*relations, *qualified])]

    # --- elements

    def _elements(self) -> Iterator[Statement]:
        classes = self._terms.classes
        kinds: dict[str, dict[str, None]] = {}
        for subject, type_ in self._facts.get(_RDF_TYPE, ()):
            for kind in classes.get(str(type_), ()) if isinstance(type_, str) else ():
                kinds.setdefault(subject, {})[kind] = None
        times, more = self._activity_times(kinds)
        empty = {subject for subject, type_ in self._facts.get(_RDF_TYPE, ()) if type_ == EMPTY}
        for subject, found in kinds.items():
            types = ((TYPE, name_value(EMPTY)),) if subject in empty else ()
            attributes = tuple(self._attributes(subject)) if self._wanted else types
            for kind in found:
                yield Statement(
                    kind, subject, times.get(subject, (None, None)) if kind == "activity" else (), attributes
                )
        yield from more

    def _activity_times(
        self, kinds: dict[str, dict[str, None]]
    ) -> tuple[dict[str, tuple[str | None, str | None]], list[Statement]]:
        """Return the times of activities, and a statement for each further time; what has one is an activity."""
        found: dict[str, list[str | None]] = {}
        more: list[Statement] = []
        for predicate, time in self._of_times("activity"):
            for subject, value in self._facts[predicate]:
                kinds.setdefault(subject, {})["activity"] = None
                times = found.setdefault(subject, [None, None])
                if times[time.place] is None:
                    times[time.place] = _text(value)
                elif times[time.place] != _text(value):
                    ends = (_text(value), None) if time.place == 0 else (None, _text(value))
                    more.append(Statement("activity", subject, ends))
        return {subject: (times[0], times[1]) for subject, times in found.items()}, list(dict.fromkeys(more))

    def _of_times(self, kind: str) -> Iterator[tuple[str, Time]]:
        for predicate, time in self._terms.times.items():
            if time.kind == kind and predicate in self._facts:
                yield predicate, time

    def _attributes(self, node: str, left_out: frozenset[str] = frozenset()) -> Iterator[Attribute]:
        for predicate, value in self._about.get(node, ()):
            if predicate in left_out:
                continue
            if predicate == _RDF_TYPE:
                if value not in _BARE:
                    yield TYPE, _value(value)
            else:
                yield NAMES.get(predicate, predicate), _value(value)

    # --- relations

    def _relations(self) -> Iterator[Statement]:
        for predicate, relation in self._terms.relations.items():
            pairs = self._facts.get(predicate)
            if not pairs:
                continue
            if relation.kind == "mentionOf":
                yield from self._mentions(pairs)
                continue
            count = len(KINDS[relation.kind].places)
            attributes = _said(relation)
            rest = (None,) * (count - 2)
            for subject, value in pairs:
                ends = (subject, _iri(value)) if relation.subject == 0 else (_iri(value), subject)
                yield Statement(relation.kind, None, (*ends, *rest), attributes)

    def _mentions(self, pairs: Iterable[tuple[str, Object]]) -> Iterator[Statement]:
        bundles = dict(self._facts.get(BUNDLE_OF_MENTION, ()))
        for subject, value in pairs:
            bundle = bundles.get(subject)
            yield Statement("mentionOf", None, (subject, _iri(value), None if bundle is None else _iri(bundle)))

    def _qualified(self) -> Iterator[Statement]:
        named = {_iri(value) for predicate in _REFERENCES for _, value in self._facts.get(predicate, ())}
        for predicate, form in self._terms.qualified.items():
            for subject, node in self._facts.get(predicate, ()):
                name = _iri(node)
                left_out = frozenset({*form.places, *INFLUENCERS})
                first, *more = _one_by_one(self._about.get(name, ()), left_out)
                own = [each for each in self._attributes(name, left_out) if each not in _CLASS_NAMES]
                id_ = name if more or not name.startswith(BLANK) or name in named else None
                yield Statement(form.kind, id_, self._arguments(subject, first, form), (*_said(form), *own))
                for about in more:
                    yield Statement(form.kind, id_, self._arguments(subject, about, form), _said(form))

    def _arguments(self, subject: str, about: Mapping[str, Object], form: Qualified) -> tuple[str | None, ...]:
        arguments: list[str | None] = [subject, *[None] * (len(KINDS[form.kind].places) - 1)]
        for predicate, place in form.places.items():
            value = about.get(predicate)
            if value is None and place == 1:
                value = next((about[each] for each in INFLUENCERS if each in about), None)
            if value is not None:
                arguments[place] = _text(value) if KINDS[form.kind].places[place].is_time else _iri(value)
        return tuple(arguments)

    def _with_times(self, found: list[Statement]) -> list[Statement]:
        """Put the times of generations and invalidations to the statements that they are about."""
        for kind in ("wasGeneratedBy", "wasInvalidatedBy"):
            times = {
                subject: _text(value)
                for predicate, _ in self._of_times(kind)
                for subject, value in self._facts[predicate]
            }
            if not times:
                continue
            several: dict[str | None, int] = defaultdict(int)
            for each in found:
                if each.kind == kind:
                    several[each.arguments[0]] += 1
            joined: set[str] = set()
            for place, each in enumerate(found):
                node = each.arguments[0] if each.kind == kind else None
                if node is not None and node in times and several[node] == 1 and each.arguments[2] is None:
                    found[place] = each._replace(arguments=(*each.arguments[:2], times[node]))
                    joined.add(node)
            found += [Statement(kind, None, (node, None, time)) for node, time in times.items() if node not in joined]
        return found


_BARE: Final = frozenset(iri for iri in CLASSES if iri.removeprefix(PROV).lower() in KINDS)
"""The classes that a statement's kind says already."""
_CLASS_NAMES: Final = frozenset((TYPE, name_value(PROV + kind.type)) for kind in KINDS.values())


def _one_by_one(said: Iterable[tuple[str, Object]], places: Collection[str]) -> Iterator[dict[str, Object]]:
    """Yield what is said of a qualified node with one value for each place: as often as some place has several.

    One statement can't have two of anything. As several of one id they clash, as PROV-CONSTRAINTS (22 to 29) has it.
    """
    first: dict[str, Object] = {}
    more: list[dict[str, Object]] = []
    for predicate, value in said:
        if predicate not in places or first.setdefault(predicate, value) == value:
            continue
        more.append({predicate: value})
    yield first
    yield from ({**first, **other} for other in more)


def _said(form: Relation | Qualified) -> tuple[Attribute, ...]:
    return () if form.subtype is None else ((TYPE, name_value(PROV + form.subtype)),)


def _iri(value: Object) -> str:
    if isinstance(value, Value):
        raise InvalidInput(f"a literal, {value.text[:80]!r}, stands where PROV has a thing")
    return value


def _text(value: Object) -> str:
    return value.text if isinstance(value, Value) else value


def _value(value: Object) -> Value:
    return value if isinstance(value, Value) else name_value(value)
