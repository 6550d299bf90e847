"""PROV statements as frozen values: what PROV-DM can say, in the order and by the names of PROV-N.

The places of each kind, and what may stand for a missing one, follow PROV-DM (W3C, 2013) section 5 and Definition 4 of
PROV-CONSTRAINTS, "optional-placeholders".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from trails import vocab

QUALIFIED_NAME: Final = vocab.PROV + "QUALIFIED_NAME"
"""The type of a value that is a name: `Value.text` is its whole IRI."""
NAME_TYPES: Final = frozenset({QUALIFIED_NAME, vocab.XSD + "QName"})
"""The datatypes of literals that are names with prefixes: xsd:QName is what drafts of PROV-N had."""
INTERNATIONALIZED: Final = vocab.PROV + "InternationalizedString"
STRING: Final = vocab.XSD + "string"
BLANK: Final = "_:"
"""How the name of a blank node begins: it stands for something that has no name."""

TYPE: Final = vocab.PROV + "type"
LABEL: Final = vocab.PROV + "label"
LOCATION: Final = vocab.PROV + "location"
ROLE: Final = vocab.PROV + "role"
VALUE: Final = vocab.PROV + "value"
EMPTY: Final = vocab.PROV + "EmptyCollection"
ATTRIBUTES: Final = frozenset({TYPE, LABEL, LOCATION, ROLE, VALUE})
"""The only attributes in PROV's own namespace (PROV-DM 5.7.2)."""

Missing = Literal["refused", "unknown", "none"]
"""What `-` in a place says: nothing may be missing there; something unknown stands there; nothing stands there."""


class Value(NamedTuple):
    """The value of an attribute: its text, the IRI of its type, and its language where it has one."""

    text: str
    type: str = STRING
    language: str = ""


Attribute = tuple[str, Value]


class Place(NamedTuple):
    """One argument of a kind of statement: its name, as in PROV-JSON and PROV-XML, and what it takes."""

    name: str
    missing: Missing = "refused"
    is_time: bool = False


class Kind(NamedTuple):
    """A kind of statement: its name in PROV-N, its class in PROV-O, its places, and whether it may carry an id."""

    name: str
    type: str
    places: tuple[Place, ...]
    identified: bool = True


class Statement(NamedTuple):
    """One PROV statement.

    `id` is the IRI that the statement gives, None for none; `arguments` are IRIs and times (as written) in the order of
    PROV-N without the id of an element, None for `-`. Names of blank nodes begin with `_:`.

    >>> Statement("used", None, ("urn:a", "urn:e", None))
    Statement(kind='used', id=None, arguments=('urn:a', 'urn:e', None), attributes=())
    """

    kind: str
    id: str | None
    arguments: tuple[str | None, ...] = ()
    attributes: tuple[Attribute, ...] = ()

    def to_provn(self) -> str:
        """Return the statement for people, in PROV-N with whole IRIs and without attributes.

        >>> Statement("used", "urn:u", ("urn:a", "urn:e", None)).to_provn()
        'used(urn:u; urn:a, urn:e, -)'
        """
        shown = ", ".join("-" if each is None else each for each in self.arguments)
        if self.kind in ELEMENTS:
            return f"{self.kind}({self.id}{', ' + shown if shown else ''})"
        return f"{self.kind}({self.id + '; ' if self.id else ''}{shown})"


@dataclass(frozen=True, slots=True)
class Bundle:
    """Statements under a name; None names the document's own, outside all bundles."""

    name: str | None
    statements: Sequence[Statement]


@dataclass(frozen=True, slots=True)
class Document:
    """What a PROV file says: its own statements first, then each bundle's, and the prefixes that it declares."""

    bundles: Sequence[Bundle]
    prefixes: Mapping[str, str] = field(default_factory=dict)

    @property
    def statements(self) -> int:
        """How many statements there are in all bundles."""
        return sum(len(bundle.statements) for bundle in self.bundles)


def _place(name: str) -> Place:
    """Return a place: `name` required, `name?` something unknown where it is missing, `name-` nothing; `@name` a time."""
    if name[0] == "@":
        return Place(name[1:], "unknown", is_time=True)
    missing: dict[str, Missing] = {"?": "unknown", "-": "none"}
    return Place(name.rstrip("?-"), missing.get(name[-1], "refused"))


def _kind(name: str, type_: str, places: str, *, identified: bool = True) -> Kind:
    return Kind(name, type_, tuple(_place(each) for each in places.split()), identified)


KINDS: Final[dict[str, Kind]] = {
    kind.name: kind
    for kind in (
        _kind("entity", "Entity", ""),
        _kind("activity", "Activity", "@startTime @endTime"),
        _kind("agent", "Agent", ""),
        _kind("wasGeneratedBy", "Generation", "entity activity? @time"),
        _kind("used", "Usage", "activity entity? @time"),
        _kind("wasInformedBy", "Communication", "informed informant"),
        _kind("wasStartedBy", "Start", "activity trigger? starter? @time"),
        _kind("wasEndedBy", "End", "activity trigger? ender? @time"),
        _kind("wasInvalidatedBy", "Invalidation", "entity activity? @time"),
        # a derivation's generation and usage are unknown where its activity is given, and nothing where it is not
        _kind("wasDerivedFrom", "Derivation", "generatedEntity usedEntity activity- generation? usage?"),
        _kind("wasAttributedTo", "Attribution", "entity agent"),
        _kind("wasAssociatedWith", "Association", "activity agent? plan-"),
        _kind("actedOnBehalfOf", "Delegation", "delegate responsible? activity-"),
        _kind("wasInfluencedBy", "Influence", "influencee influencer"),
        _kind("alternateOf", "Alternate", "alternate1 alternate2", identified=False),
        _kind("specializationOf", "Specialization", "specificEntity generalEntity", identified=False),
        _kind("mentionOf", "Mention", "specificEntity generalEntity bundle", identified=False),
        _kind("hadMember", "Membership", "collection entity", identified=False),
    )
}
"""Every kind of statement that PROV-DM and PROV-LINKS define. No rule is about those of other kinds, which extensions have."""

ELEMENTS: Final = frozenset({"entity", "activity", "agent"})

SUBTYPES: Final = {
    **dict.fromkeys(("Plan", "Bundle", "Collection", "EmptyCollection"), "entity"),
    **dict.fromkeys(("Person", "Organization", "SoftwareAgent"), "agent"),
    **dict.fromkeys(("Revision", "Quotation", "PrimarySource"), "wasDerivedFrom"),
}
"""The types that PROV-DM itself defines, and the kind of statement that each is a type of."""


def name_value(iri: str) -> Value:
    """Return the value that is a name."""
    return Value(iri, QUALIFIED_NAME)


def without_blank_ids(statements: Iterable[Statement]) -> list[Statement]:
    """Return statements whose ids are names of blank nodes without them, but for those that another statement names."""
    found = list(statements)
    named = {value for each in found for value in each.arguments if value is not None and value.startswith(BLANK)}
    return [
        each
        if each.id is None or not each.id.startswith(BLANK) or each.id in named or each.kind in ELEMENTS
        else each._replace(id=None)
        for each in found
    ]
