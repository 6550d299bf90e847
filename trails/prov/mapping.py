"""Which RDF term says which PROV statement: PROV-O's own, and by the ontology every term of Trails below one of PROV-O's.

A new class or property of Trails needs no change here: what `rdfs:subClassOf` and `rdfs:subPropertyOf` in
`ontology/trails.ttl` say of it is what it is read and written as.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import pyoxigraph as ox

from trails import vocab
from trails.prov.statements import ELEMENTS, LABEL, LOCATION, ROLE, SUBTYPES

PROV: Final = vocab.PROV
_Said = TypeVar("_Said")
_SUB_CLASS: Final = ox.NamedNode(vocab.RDFS + "subClassOf")
_SUB_PROPERTY: Final = ox.NamedNode(vocab.RDFS + "subPropertyOf")


class Relation(NamedTuple):
    """A property that is a PROV statement: its kind, the places of subject and object, and a type that it says as well."""

    kind: str
    subject: int = 0
    object: int = 1
    subtype: str | None = None


class Qualified(NamedTuple):
    """A property that leads to a node about a statement: its kind, and which property of the node fills which place."""

    kind: str
    places: Mapping[str, int]
    subtype: str | None = None


class Time(NamedTuple):
    """A property that is the time of a statement about its subject: the kind, and the place of the time."""

    kind: str
    place: int


def _qualified(kind: str, places: str, subtype: str | None = None) -> Qualified:
    return Qualified(kind, {PROV + name: place for place, name in enumerate(places.split(), 1) if name != "-"}, subtype)


_SIMPLE: Final = (
    *("wasGeneratedBy", "used", "wasInformedBy", "wasStartedBy", "wasEndedBy", "wasInvalidatedBy", "wasDerivedFrom"),
    *("wasAttributedTo", "wasAssociatedWith", "actedOnBehalfOf", "wasInfluencedBy"),
    *("alternateOf", "specializationOf", "mentionOf", "hadMember"),
)
RELATIONS: Final[Mapping[str, Relation]] = {
    **{PROV + kind: Relation(kind) for kind in _SIMPLE},
    PROV + "generated": Relation("wasGeneratedBy", 1, 0),
    PROV + "invalidated": Relation("wasInvalidatedBy", 1, 0),
    PROV + "influenced": Relation("wasInfluencedBy", 1, 0),
    PROV + "wasRevisionOf": Relation("wasDerivedFrom", subtype="Revision"),
    PROV + "wasQuotedFrom": Relation("wasDerivedFrom", subtype="Quotation"),
    PROV + "hadPrimarySource": Relation("wasDerivedFrom", subtype="PrimarySource"),
}
"""PROV-O's properties for statements without an id (PROV-O 3.1 and 3.2)."""

_DERIVED: Final = "entity hadActivity hadGeneration hadUsage"
QUALIFIED: Final[Mapping[str, Qualified]] = {
    PROV + "qualifiedGeneration": _qualified("wasGeneratedBy", "activity atTime"),
    PROV + "qualifiedUsage": _qualified("used", "entity atTime"),
    PROV + "qualifiedCommunication": _qualified("wasInformedBy", "activity"),
    PROV + "qualifiedStart": _qualified("wasStartedBy", "entity hadActivity atTime"),
    PROV + "qualifiedEnd": _qualified("wasEndedBy", "entity hadActivity atTime"),
    PROV + "qualifiedInvalidation": _qualified("wasInvalidatedBy", "activity atTime"),
    PROV + "qualifiedDerivation": _qualified("wasDerivedFrom", _DERIVED),
    PROV + "qualifiedRevision": _qualified("wasDerivedFrom", _DERIVED, "Revision"),
    PROV + "qualifiedQuotation": _qualified("wasDerivedFrom", _DERIVED, "Quotation"),
    PROV + "qualifiedPrimarySource": _qualified("wasDerivedFrom", _DERIVED, "PrimarySource"),
    PROV + "qualifiedAttribution": _qualified("wasAttributedTo", "agent"),
    PROV + "qualifiedAssociation": _qualified("wasAssociatedWith", "agent hadPlan"),
    PROV + "qualifiedDelegation": _qualified("actedOnBehalfOf", "agent hadActivity"),
    PROV + "qualifiedInfluence": _qualified("wasInfluencedBy", "influencer"),
}
"""PROV-O's properties for statements with an id, a time or attributes (PROV-O 3.3)."""
INFLUENCERS: Final = tuple(PROV + name for name in ("influencer", "entity", "activity", "agent"))
"""What may stand for the influencing place in any qualified form: they are all below prov:influencer."""

TIMES: Final[Mapping[str, Time]] = {
    PROV + "startedAtTime": Time("activity", 0),
    PROV + "endedAtTime": Time("activity", 1),
    PROV + "generatedAtTime": Time("wasGeneratedBy", 2),
    PROV + "invalidatedAtTime": Time("wasInvalidatedBy", 2),
}

BUNDLE_OF_MENTION: Final = PROV + "asInBundle"
NAMES: Final[Mapping[str, str]] = {
    vocab.RDFS + "label": LABEL,
    PROV + "atLocation": LOCATION,
    PROV + "hadRole": ROLE,
}
"""How PROV-O names what PROV-DM names otherwise."""

CLASSES: Final[Mapping[str, str]] = {
    **{PROV + kind.capitalize(): kind for kind in ELEMENTS},
    **{PROV + name: kind for name, kind in SUBTYPES.items() if kind in ELEMENTS},
}
"""The kind of element that each class of PROV-O is."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What each RDF term says: classes to kinds of elements, properties to statements and to times."""

    classes: Mapping[str, tuple[str, ...]]
    relations: Mapping[str, Relation]
    qualified: Mapping[str, Qualified]
    times: Mapping[str, Time]


@cache
def plain_terms() -> Terms:
    """Return the terms of PROV-O alone."""
    return Terms({iri: (kind,) for iri, kind in CLASSES.items()}, RELATIONS, QUALIFIED, TIMES)


@cache
def trails_terms() -> Terms:
    """Return the terms of PROV-O and those of Trails, by the ontology that ships with it.

    >>> trails_terms().classes["https://w3id.org/trails#Turn"]
    ('entity',)
    >>> trails_terms().relations["https://w3id.org/trails#answers"]
    Relation(kind='wasGeneratedBy', subject=0, object=1, subtype=None)
    """
    quads = list(ox.parse(_ontology().read_bytes(), format=ox.RdfFormat.TURTLE))
    classes = _below(quads, _SUB_CLASS)
    properties = _below(quads, _SUB_PROPERTY)
    plain = plain_terms()
    kinds = {
        iri: tuple(dict.fromkeys(kind for above in found if above in CLASSES for kind in plain.classes[above]))
        for iri, found in classes.items()
    }
    return Terms(
        {**plain.classes, **{iri: found for iri, found in kinds.items() if found}},
        {**RELATIONS, **_nearest(properties, RELATIONS)},
        {**QUALIFIED, **_nearest(properties, QUALIFIED)},
        {**TIMES, **_nearest(properties, TIMES)},
    )


def _ontology() -> Path:
    """Return the ontology's file, in a source tree or an installed package."""
    package = Path(__file__).resolve().parent.parent
    return next(
        path
        for path in (package / "_data" / "ontology" / "trails.ttl", package.parent / "ontology" / "trails.ttl")
        if path.is_file()
    )


def _below(quads: list[ox.Quad], predicate: ox.NamedNode) -> dict[str, list[str]]:
    """Return what each term is below by the ontology, the nearest first."""
    above: dict[str, list[str]] = {}
    for quad in quads:
        if (
            quad.predicate == predicate
            and isinstance(quad.subject, ox.NamedNode)
            and isinstance(quad.object, ox.NamedNode)
        ):
            above.setdefault(quad.subject.value, []).append(quad.object.value)
    found: dict[str, list[str]] = {}
    for term, nearest in above.items():
        reached = list(nearest)
        for each in reached:
            reached += [other for other in above.get(each, ()) if other not in reached]
        found[term] = reached
    return found


def _nearest(properties: Mapping[str, list[str]], known: Mapping[str, _Said]) -> dict[str, _Said]:
    """Return, for each property below a known one, what the nearest known one says."""
    return {
        term: next(known[above] for above in found if above in known)
        for term, found in properties.items()
        if any(above in known for above in found)
    }
