"""PROV statements, their names, values and bounds.

The places of each kind, and what may stand for a missing one, follow PROV-DM (W3C, 2013) section 5 and Definition 4 of
PROV-CONSTRAINTS, "optional-placeholders". A document is read whole, so one that is too large or nested too deep is refused.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Final, Literal, NamedTuple

from trails.errors import InvalidInput
from trails.rdf import vocab

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
    """The value of an attribute: its text, the IRI of its type, and its language if it has one."""

    text: str
    type: str = STRING
    language: str = ""


Attribute = tuple[str, Value]


class Place(NamedTuple):
    """One argument of a kind of statement: its name, as in PROV-JSON and PROV-XML, and what it takes."""

    name: str
    missing: Missing = "refused"
    is_time: bool = False
    predicate: str | None = None
    """The property of PROV-O that fills it: of the qualified node of a relation, or of an activity itself."""

    @property
    def element(self) -> str:
        """The kind of element that stands there (Constraint 50); "" if the place does not say."""
        return _ELEMENT_OF.get(self.name, "")


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


_ELEMENT_OF: Final = {
    **dict.fromkeys(("entity", "trigger", "generatedEntity", "usedEntity", "plan", "collection"), "entity"),
    **dict.fromkeys(("alternate1", "alternate2", "specificEntity", "generalEntity"), "entity"),
    **dict.fromkeys(("activity", "informed", "informant", "starter", "ender"), "activity"),
    **dict.fromkeys(("agent", "delegate", "responsible"), "agent"),
}
UNATTRIBUTED: Final = frozenset({"alternateOf", "specializationOf", "mentionOf", "hadMember"})
"""The kinds that PROV-DM gives neither id nor attributes: what they rest on cannot be said."""


def _place(text: str) -> Place:
    """Return a place: `name` required, `name?` something unknown if it is missing, `name-` nothing; `@name` a time."""
    name, _, predicate = text.partition("=")
    iri = vocab.PROV + predicate if predicate else None
    if name[0] == "@":
        return Place(name[1:], "unknown", True, iri)
    missing: dict[str, Missing] = {"?": "unknown", "-": "none"}
    return Place(name.rstrip("?-"), missing.get(name[-1], "refused"), False, iri)


_ROWS: Final = """
entity Entity
activity Activity @startTime=startedAtTime @endTime=endedAtTime
agent Agent
wasGeneratedBy Generation entity activity?=activity @time=atTime
used Usage activity entity?=entity @time=atTime
wasInformedBy Communication informed informant=activity
wasStartedBy Start activity trigger?=entity starter?=hadActivity @time=atTime
wasEndedBy End activity trigger?=entity ender?=hadActivity @time=atTime
wasInvalidatedBy Invalidation entity activity?=activity @time=atTime
wasDerivedFrom Derivation generatedEntity usedEntity=entity activity-=hadActivity generation?=hadGeneration usage?=hadUsage
wasAttributedTo Attribution entity agent=agent
wasAssociatedWith Association activity agent?=agent plan-=hadPlan
actedOnBehalfOf Delegation delegate responsible?=agent activity-=hadActivity
wasInfluencedBy Influence influencee influencer=influencer
alternateOf Alternate alternate1 alternate2
specializationOf Specialization specificEntity generalEntity
mentionOf Mention specificEntity generalEntity bundle
hadMember Membership collection entity
"""
KINDS: Final[dict[str, Kind]] = {
    name: Kind(name, type_, tuple(map(_place, places)), name not in UNATTRIBUTED)
    for name, type_, *places in map(str.split, _ROWS.strip().splitlines())
}
"""Every kind of statement that PROV-DM and PROV-LINKS define. No rule is about those of other kinds, which extensions have.

A row has the kind in PROV-N, its class in PROV-O, and its places, each with the property of PROV-O that fills it. A
derivation's generation and usage are unknown if its activity is given, and nothing if it is not.
"""

ELEMENTS: Final = frozenset({"entity", "activity", "agent"})
RELATION_KINDS: Final = tuple(kind for kind in KINDS.values() if kind.name not in ELEMENTS)
INFLUENCES: Final = tuple(kind.name for kind in RELATION_KINDS if kind.identified)
"""The relations that are influences (Inference 15): the first place of each is influenced by the second."""


class Subtype(NamedTuple):
    """A type that PROV-DM itself defines: the kind of statement that it is a type of, and its name in PROV-XML."""

    kind: str
    name: str


SUBTYPES: Final[Mapping[str, Subtype]] = {
    "Plan": Subtype("entity", "plan"),
    "Bundle": Subtype("entity", "bundle"),
    "Collection": Subtype("entity", "collection"),
    "EmptyCollection": Subtype("entity", "emptyCollection"),
    "Person": Subtype("agent", "person"),
    "Organization": Subtype("agent", "organization"),
    "SoftwareAgent": Subtype("agent", "softwareAgent"),
    "Revision": Subtype("wasDerivedFrom", "wasRevisionOf"),
    "Quotation": Subtype("wasDerivedFrom", "wasQuotedFrom"),
    "PrimarySource": Subtype("wasDerivedFrom", "hadPrimarySource"),
}
"""The types by their names in PROV-O; what PROV-XML calls a type of a relation is PROV-O's property too."""


def name_value(iri: str) -> Value:
    """Return the value that is a name."""
    return Value(iri, QUALIFIED_NAME)


def make_statements(
    kind: Kind, id_: str | None, arguments: Mapping[str, Sequence[str | None]], attributes: Iterable[Attribute]
) -> Iterator[Statement]:
    """Yield a statement for each value of the one argument that may have several, as a membership's `entity` has.

    Raises `InvalidInput` for an element without an id, and for two arguments with several values.
    """
    if id_ is None and kind.name in ELEMENTS:
        raise InvalidInput(f"an element {kind.name} has no id")
    if sum(len(values) > 1 for values in arguments.values()) > 1:
        raise InvalidInput("two of its arguments are lists")
    pairs = tuple(attributes)
    for values in product(*(arguments.get(place.name, (None,)) for place in kind.places)):
        yield Statement(kind.name, id_ if kind.identified else None, values, pairs)


def without_blank_ids(statements: Iterable[Statement]) -> list[Statement]:
    """Return statements whose ids are names of blank nodes without them, but for those that another statement names."""
    records = list(statements)
    named = {value for each in records for value in each.arguments if value is not None and value.startswith(BLANK)}
    return [
        each
        if each.id is None or not each.id.startswith(BLANK) or each.id in named or each.kind in ELEMENTS
        else each._replace(id=None)
        for each in records
    ]


EVIDENCE: Final = vocab.EVIDENCE.value
SOURCE: Final = vocab.EVIDENCE_SOURCE.value
FILE: Final = vocab.EVIDENCE_FILE.value
RULE: Final = vocab.EVIDENCE_RULE.value

RECORDED: Final[tuple[Attribute, ...]] = ((EVIDENCE, Value("recorded")),)


def imported_evidence(source: str, files: Sequence[str] = ()) -> tuple[Attribute, ...]:
    """Return the attributes of what came from a record of another system, given the IRIs of the files that it stood in."""
    return ((EVIDENCE, Value("imported")), (SOURCE, Value(source)), *((FILE, Value(each)) for each in files))


def derived_evidence(rule: str) -> tuple[Attribute, ...]:
    """Return the attributes of what follows by a rule, the name of a query file."""
    return ((EVIDENCE, Value("derived")), (RULE, Value(rule)))


DEFAULT_PREFIX: Final = ""
"""The prefix of names that are written without one."""
PREDECLARED: Final = {"prov": vocab.PROV, "xsd": vocab.XSD, "rdf": vocab.RDF, "rdfs": vocab.RDFS}
"""Prefixes that hold in every document: PROV-N declares prov and xsd; the other two are what everybody means by them."""


class Namespaces:
    """The prefixes in scope at a place of a document; those of a bundle come over those around it."""

    def __init__(self, prefixes: Mapping[str, str] | None = None, outer: Namespaces | None = None) -> None:
        """Begin with the prefixes around it, which nothing here changes."""
        around = PREDECLARED if outer is None else outer.prefixes
        self._prefixes: dict[str, str] = {**around, **(prefixes or {})}

    @property
    def prefixes(self) -> dict[str, str]:
        """All prefixes in scope, and the namespaces that they stand for."""
        return dict(self._prefixes)

    def declare(self, prefix: str, namespace: str) -> None:
        """Let a prefix stand for a namespace from here on."""
        self._prefixes[prefix] = namespace

    def iri(self, name: str) -> str:
        """Return the IRI that a name stands for; names of blank nodes stay as they are.

        Raises `InvalidInput` for a prefix that nothing declares.

        >>> Namespaces({"ex": "http://example.org/"}).iri("ex:a")
        'http://example.org/a'
        """
        prefix, colon, local = name.partition(":")
        if name.startswith(BLANK):
            return name
        if colon and prefix in self._prefixes:
            return self._prefixes[prefix] + local
        if not colon and DEFAULT_PREFIX in self._prefixes:
            return self._prefixes[DEFAULT_PREFIX] + name
        if colon:
            raise InvalidInput(f"the prefix {prefix[:80]!r} of {name[:120]!r} is declared nowhere")
        raise InvalidInput(f"{name[:120]!r} has no prefix, and no default namespace is declared")

    def iri_or_whole(self, name: str) -> str:
        """Return the IRI that a name stands for, or the name itself if it is a whole IRI (as JSON-LD has them)."""
        prefix, colon, rest = name.partition(":")
        if colon and prefix not in self._prefixes and (rest.startswith("//") or prefix == "urn"):
            return name
        return self.iri(name)


MAX_BYTES: Final = 512 << 20
"""Bytes of one document."""
MAX_DEPTH: Final = 64
"""How deep JSON and XML may be nested; PROV's own formats need six levels."""


def check_size(data: bytes, what: str) -> None:
    """Raise `InvalidInput` for a document that is too large to be read."""
    if len(data) > MAX_BYTES:
        raise InvalidInput(f"the {what} document has {len(data):,} bytes, and {MAX_BYTES:,} at most are read; split it")


def decode_text(data: bytes, what: str) -> str:
    """Return the text of a document, UTF-8 with or without a byte order mark; raise `InvalidInput` for what is none."""
    check_size(data, what)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"the {what} document is not UTF-8 at byte {error.start:,}; convert it first") from error


def read_json_object(data: bytes, what: str) -> dict[str, Any]:
    """Return the JSON object that a document is.

    Raises `InvalidInput` for other JSON, for a key that an object has twice (one of the two would be lost) and for what
    is nested too deep.
    """
    text = decode_text(data, what)

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = Counter(key for key, _ in pairs)
        if len(keys) < len(pairs):
            twice = keys.most_common(1)[0][0]
            raise InvalidInput(f"the {what} document has the key {twice[:120]!r} twice in an object; keep one")
        return dict(pairs)

    def no_constant(name: str) -> Any:
        raise InvalidInput(f"the document holds {name}, which is no JSON")

    try:
        value = json.loads(text, object_pairs_hook=unique, parse_constant=no_constant)
    except InvalidInput:
        raise
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise InvalidInput(f"the document is not JSON at {place}: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"the {what} document cannot be read: {f'{error}'[:200]}") from error
    if not isinstance(value, dict):
        raise InvalidInput(f"the {what} document is no JSON object")
    return value
