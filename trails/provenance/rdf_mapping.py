"""Map PROV statements to RDF terms and back.

The terms are PROV-O's (W3C, 2013), and every term of Trails that the ontology puts below one of them. A new class or property
of Trails needs no change here: `rdfs:subClassOf` and `rdfs:subPropertyOf` in `ontology/trails.ttl` say what it means.

Facts come from RDF files (Turtle, TriG, N-Triples, N-Quads; a graph is a bundle) or from a store, which is read predicate by
predicate.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Final, NamedTuple, TypeVar

import pyoxigraph as ox

from trails.errors import InvalidInput
from trails.model.validation import decodes
from trails.provenance.statements import (
    BLANK,
    ELEMENTS,
    INTERNATIONALIZED,
    KINDS,
    LABEL,
    LOCATION,
    RELATION_KINDS,
    ROLE,
    SUBTYPES,
    TYPE,
    Attribute,
    Bundle,
    Document,
    Statement,
    Value,
    check_size,
    name_value,
)
from trails.rdf import query_files, vocab
from trails.store import tsv
from trails.store.contract import QuadStore

PROV: Final = vocab.PROV
_Said = TypeVar("_Said")
_SUB_CLASS: Final = ox.NamedNode(vocab.RDFS + "subClassOf")
_SUB_PROPERTY: Final = ox.NamedNode(vocab.RDFS + "subPropertyOf")


class Relation(NamedTuple):
    """A property that is a PROV statement, or leads to a node about one: its kind, the places of the property's subject and
    object, and a type that it says as well.
    """

    kind: str
    subject: int = 0
    object: int = 1
    subtype: str | None = None


class Time(NamedTuple):
    """A property that is the time of a statement about its subject: the kind, and the place of the time."""

    kind: str
    place: int


RELATIONS: Final[Mapping[str, Relation]] = {
    **{PROV + kind.name: Relation(kind.name) for kind in RELATION_KINDS},
    PROV + "generated": Relation("wasGeneratedBy", 1, 0),
    PROV + "invalidated": Relation("wasInvalidatedBy", 1, 0),
    PROV + "influenced": Relation("wasInfluencedBy", 1, 0),
    **{
        PROV + each.name: Relation(each.kind, subtype=type_)
        for type_, each in SUBTYPES.items()
        if each.kind not in ELEMENTS
    },
}
"""PROV-O's properties for statements without an id (PROV-O 3.1 and 3.2)."""

QUALIFIED: Final[Mapping[str, Relation]] = {
    f"{PROV}qualified{name}": Relation(kind.name, subtype=None if name == kind.type else name)
    for kind in RELATION_KINDS
    if kind.identified
    for name in (kind.type, *(type_ for type_, each in SUBTYPES.items() if each.kind == kind.name))
}
"""PROV-O's properties for statements with an id, a time or attributes (PROV-O 3.3)."""
_PARTS: Final = {
    kind.name: {place.predicate: number for number, place in enumerate(kind.places) if place.predicate is not None}
    for kind in RELATION_KINDS
}
"""Which property of the node of a qualified statement fills which place, by the kind of statement."""
INFLUENCERS: Final = tuple(PROV + name for name in ("influencer", "entity", "activity", "agent"))
"""What may stand for the influencing place in any qualified form: they are all below prov:influencer."""

TIMES: Final[Mapping[str, Time]] = {
    **{str(place.predicate): Time("activity", number) for number, place in enumerate(KINDS["activity"].places)},
    PROV + "generatedAtTime": Time("wasGeneratedBy", 2),
    PROV + "invalidatedAtTime": Time("wasInvalidatedBy", 2),
}

BUNDLE_OF_MENTION: Final = PROV + "asInBundle"
RDF_NAMES: Final[Mapping[str, str]] = {
    vocab.RDFS + "label": LABEL,
    PROV + "atLocation": LOCATION,
    PROV + "hadRole": ROLE,
}
"""How PROV-O names what PROV-DM names otherwise."""

CLASSES: Final[Mapping[str, str]] = {
    **{PROV + kind.capitalize(): kind for kind in ELEMENTS},
    **{PROV + name: each.kind for name, each in SUBTYPES.items() if each.kind in ELEMENTS},
}
"""The kind of element that each class of PROV-O is."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What each RDF term says: classes to kinds of elements, properties to statements and to times."""

    classes: Mapping[str, tuple[str, ...]]
    relations: Mapping[str, Relation]
    qualified: Mapping[str, Relation]
    times: Mapping[str, Time]


@cache
def trails_terms() -> Terms:
    """Return the terms of PROV-O and those of Trails, by the ontology that ships with it.

    >>> trails_terms().classes["https://w3id.org/trails#Turn"]
    ('entity',)
    >>> trails_terms().relations["https://w3id.org/trails#answers"]
    Relation(kind='wasGeneratedBy', subject=0, object=1, subtype=None)
    """
    quads = list(
        ox.parse((query_files.folder().parent / "ontology" / "trails.ttl").read_bytes(), format=ox.RdfFormat.TURTLE)
    )
    properties = _below(quads, _SUB_PROPERTY)
    classes = {
        iri: tuple(dict.fromkeys(CLASSES[above] for above in ancestors if above in CLASSES))
        for iri, ancestors in _below(quads, _SUB_CLASS).items()
    }
    return Terms(
        {iri: (kind,) for iri, kind in CLASSES.items()} | {iri: kinds for iri, kinds in classes.items() if kinds},
        {**RELATIONS, **_nearest(properties, RELATIONS)},
        {**QUALIFIED, **_nearest(properties, QUALIFIED)},
        {**TIMES, **_nearest(properties, TIMES)},
    )


def _below(quads: list[ox.Quad], predicate: ox.NamedNode) -> dict[str, list[str]]:
    """Return what each term is below by the ontology, the nearest first."""
    above: dict[str, list[str]] = {}
    for quad in quads:
        lower, upper = quad.subject, quad.object
        if quad.predicate == predicate and isinstance(lower, ox.NamedNode) and isinstance(upper, ox.NamedNode):
            above.setdefault(lower.value, []).append(upper.value)
    ancestors: dict[str, list[str]] = {}
    for term, nearest in above.items():
        reached = list(nearest)
        for each in reached:
            reached += [other for other in above.get(each, ()) if other not in reached]
        ancestors[term] = reached
    return ancestors


def _nearest(properties: Mapping[str, list[str]], known: Mapping[str, _Said]) -> dict[str, _Said]:
    """Return, for each property below a known one, what the nearest known one says."""
    return {
        term: next(known[above] for above in ancestors if above in known)
        for term, ancestors in properties.items()
        if any(above in known for above in ancestors)
    }


Object = str | Value
"""What a fact says of its subject: the IRI of a thing (or the name of a blank node), or a literal."""
Facts = Mapping[str, Iterable[tuple[str, Object]]]
"""Facts by the IRI of their predicate, as pairs of subject and object."""

_RDF_TYPE: Final = vocab.RDF + "type"
_REFERENCES: Final = (PROV + "hadGeneration", PROV + "hadUsage")


def statements_of(facts: Facts) -> list[Statement]:
    """Return what facts say in PROV, with what else they say of its elements and qualified statements.

    A statement that stands in both forms is given once, in its qualified one. A generation's and an invalidation's time
    joins the one statement that it can be about, and is a statement of its own if there are several or none.
    """
    return _Reading(facts).statements()


class _Reading:
    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._terms = terms = trails_terms()
        properties = {*terms.relations, *terms.qualified, *terms.times, BUNDLE_OF_MENTION}
        self._about: dict[str, list[tuple[str, Object]]] = defaultdict(list)
        """What is said of each element and each qualified node beside relations and times."""
        for predicate in (each for each in facts if each not in properties):
            for subject, value in facts[predicate]:
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
        times: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
        for predicate, time in self._of_times("activity"):  # what has one is an activity
            for subject, value in self._facts[predicate]:
                kinds.setdefault(subject, {})["activity"] = None
                times.setdefault(subject, ({}, {}))[time.place][_text(value)] = None
        for subject, names in kinds.items():
            attributes = tuple(self._attributes(subject))
            first = tuple(next(iter(each), None) for each in times.get(subject, ((), ())))
            for kind in names:
                yield Statement(kind, subject, first if kind == "activity" else (), attributes)
        for subject, (starts, ends) in times.items():
            yield from (Statement("activity", subject, (start, None)) for start in list(starts)[1:])
            yield from (Statement("activity", subject, (None, end)) for end in list(ends)[1:])

    def _of_times(self, kind: str) -> Iterator[tuple[str, Time]]:
        for predicate, time in self._terms.times.items():
            if time.kind == kind and predicate in self._facts:
                yield predicate, time

    def _attributes(self, node: str, left_out: frozenset[str] = frozenset()) -> Iterator[Attribute]:
        for predicate, value in self._about.get(node, ()):
            if predicate in left_out:
                continue
            if predicate == _RDF_TYPE:
                if value not in BARE_CLASSES:
                    yield TYPE, _value(value)
            else:
                yield RDF_NAMES.get(predicate, predicate), _value(value)

    # --- relations

    def _relations(self) -> Iterator[Statement]:
        for predicate, relation in self._terms.relations.items():
            pairs = self._facts.get(predicate)
            if not pairs:
                continue
            bundles = dict(self._facts.get(BUNDLE_OF_MENTION, ())) if relation.kind == "mentionOf" else {}
            empty = (None,) * (len(KINDS[relation.kind].places) - 2)
            for subject, value in pairs:
                ends = (subject, _iri(value)) if relation.subject == 0 else (_iri(value), subject)
                rest = (_iri(bundles[subject]),) if subject in bundles else empty
                yield Statement(relation.kind, None, (*ends, *rest), _said(relation))

    def _qualified(self) -> Iterator[Statement]:
        named = {_iri(value) for predicate in _REFERENCES for _, value in self._facts.get(predicate, ())}
        for predicate, form in self._terms.qualified.items():
            for subject, node in self._facts.get(predicate, ()):
                name = _iri(node)
                left_out = frozenset({*_PARTS[form.kind], *INFLUENCERS})
                first, *more = _one_by_one(self._about.get(name, ()), left_out)
                own = [each for each in self._attributes(name, left_out) if each not in _CLASS_NAMES]
                id_ = name if more or not name.startswith(BLANK) or name in named else None
                yield Statement(form.kind, id_, self._arguments(subject, first, form), (*_said(form), *own))
                for about in more:
                    yield Statement(form.kind, id_, self._arguments(subject, about, form), _said(form))

    def _arguments(self, subject: str, about: Mapping[str, Object], form: Relation) -> tuple[str | None, ...]:
        arguments: list[str | None] = [subject, *[None] * (len(KINDS[form.kind].places) - 1)]
        for predicate, place in _PARTS[form.kind].items():
            value = about.get(predicate)
            if value is None and place == 1:
                value = next((about[each] for each in INFLUENCERS if each in about), None)
            if value is not None:
                arguments[place] = _text(value) if KINDS[form.kind].places[place].is_time else _iri(value)
        return tuple(arguments)

    def _with_times(self, statements: list[Statement]) -> list[Statement]:
        for kind in ("wasGeneratedBy", "wasInvalidatedBy"):
            predicates = [predicate for predicate, _ in self._of_times(kind)]
            times = {subject: _text(value) for each in predicates for subject, value in self._facts[each]}
            join_times(statements, kind, times)
        return statements


def join_times(
    statements: list[Statement], kind: str, times: Mapping[str, str], attributes: tuple[Attribute, ...] = ()
) -> None:
    """Put the times of generations, or invalidations, to the one statement that each can be about, or to one of its own."""
    several = Counter(each.arguments[0] for each in statements if each.kind == kind) if times else {}
    joined: set[str] = set()
    for place, each in enumerate(statements if several else ()):
        node = each.arguments[0] if each.kind == kind else None
        if node is not None and node in times and several[node] == 1 and each.arguments[2] is None:
            statements[place] = each._replace(arguments=(*each.arguments[:2], times[node]))
            joined.add(node)
    statements += [
        Statement(kind, None, (node, None, time), attributes) for node, time in times.items() if node not in joined
    ]


BARE_CLASSES: Final = frozenset(iri for iri in CLASSES if iri.removeprefix(PROV).lower() in KINDS)
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


def _said(form: Relation) -> tuple[Attribute, ...]:
    return () if form.subtype is None else ((TYPE, name_value(PROV + form.subtype)),)


def _iri(value: Object) -> str:
    if isinstance(value, Value):
        raise InvalidInput(f"a literal, {value.text[:80]!r}, stands where PROV has a thing")
    return value


def _text(value: Object) -> str:
    return value.text if isinstance(value, Value) else value


def _value(value: Object) -> Value:
    return value if isinstance(value, Value) else name_value(value)


@decodes
def recorded_statements(store: QuadStore) -> Document:
    """Return all that a store holds in PROV, without attributes but for types, as one history.

    The graphs of a store are one history in pieces, a session's own turns in each, and name the same things by the same
    IRIs: read as one, an order that runs in a circle through several of them is found too.
    """
    terms = trails_terms()
    facts: dict[str, list[tuple[str, Object]]] = {}
    parts = chain.from_iterable(_PARTS.values())
    properties = [_RDF_TYPE, *terms.relations, *terms.times, *terms.qualified, *parts, *INFLUENCERS, BUNDLE_OF_MENTION]
    for predicate in dict.fromkeys(properties):
        rows = store.table(query_files.find("prov_pairs").bind(predicate=predicate))
        if rows:
            facts[predicate] = [(_stored_node(subject), _stored_object(value)) for subject, value in rows]
    return Document([Bundle(None, statements_of(facts))], vocab.PREFIXES)


def _stored_node(term: str) -> str:
    return term if term.startswith(BLANK) else tsv.iri(term)


def _stored_object(term: str) -> Object:
    if term[0] == "<" or term.startswith(BLANK):
        return _stored_node(term)
    return Value(tsv.date_time(term) or "", vocab.DATE_TIME.value)


RDF_FORMATS: Final = {
    "turtle": ox.RdfFormat.TURTLE,
    "trig": ox.RdfFormat.TRIG,
    "ntriples": ox.RdfFormat.N_TRIPLES,
    "nquads": ox.RdfFormat.N_QUADS,
}


def read_rdf(data: bytes, format: str) -> Document:  # noqa: A002 - the name of all readers
    """Return what an RDF document says in PROV, by the terms of PROV-O and those of Trails below them.

    RDF cannot tell an argument that is `-` from one that is left open: both are read as left open or as nothing there, as
    PROV-DM has it for the place. Raises `InvalidInput` for what is no RDF.

    >>> text = b"@prefix prov: <http://www.w3.org/ns/prov#> . <urn:e> a prov:Entity ; prov:wasAttributedTo <urn:a> ."
    >>> [each.to_provn() for each in read_rdf(text, "turtle").bundles[0].statements]
    ['entity(urn:e)', 'wasAttributedTo(urn:e, urn:a)']
    """
    check_size(data, "RDF")
    graphs: dict[str | None, dict[str, list[tuple[str, Object]]]] = {None: defaultdict(list)}
    parser = ox.parse(data, format=RDF_FORMATS[format])
    try:
        for quad in parser:
            graph = quad.graph_name
            name = None if isinstance(graph, ox.DefaultGraph) else _node(graph)
            facts = graphs.setdefault(name, defaultdict(list))
            facts[quad.predicate.value].append(fact_of(quad))
    except (SyntaxError, ValueError, MemoryError) as error:
        raise InvalidInput(f"the document is not {RDF_FORMATS[format].name}: {f'{error}'[:300]}") from error
    bundles = [Bundle(name, statements_of(facts)) for name, facts in graphs.items()]
    return Document(bundles, dict(parser.prefixes))


def fact_of(triple: ox.Quad | ox.Triple) -> tuple[str, Object]:
    """Return the subject and the object of a triple; raise `InvalidInput` for one that quotes another."""
    return _node(triple.subject), _object(triple.object)


def _node(term: object) -> str:
    if isinstance(term, ox.NamedNode):
        return term.value
    if isinstance(term, ox.BlankNode):
        return BLANK + term.value
    raise InvalidInput("the RDF document quotes triples, which PROV-O does not have")


def _object(term: object) -> Object:
    if not isinstance(term, ox.Literal):
        return _node(term)
    if term.language:
        return Value(term.value, INTERNATIONALIZED, term.language)
    return Value(term.value, term.datatype.value)
