"""Convert values to RDF terms and back, by a table for each class.

A table has a row for each field: the property under which it is stored, and the codec of its values. What does not fit a row (a
text that can be redacted, a type that depends on a field) stays with the class. Fields are written and read in the order of
the rows: of two wrong values the first is named.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, NamedTuple, get_args

from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Quad, Triple

from trails.errors import IntegrityError
from trails.model import iris, validation
from trails.model.validation import decodes
from trails.model.values import Value
from trails.rdf import vocab as v

Term = NamedNode | Literal | BlankNode | Triple
Graph = NamedNode | DefaultGraph | BlankNode
Row = tuple[NamedNode, NamedNode, NamedNode | Literal]
"""Subject, property and object, before the graph is known."""


@lru_cache(maxsize=4096)
def short_literal(text: str) -> Literal:
    """Return a text that comes again and again, as one and the same string literal."""
    return Literal(text)


@lru_cache(maxsize=4096)
def known_node(iri: str) -> NamedNode:
    """Return an IRI that comes again and again, as one and the same node."""
    return NamedNode(iri)


def time_literal(time: datetime) -> Literal:
    """Return a time as xsd:dateTime in the engine's own canonical form: UTC, `Z`, no trailing zeros."""
    plain = (time if time.tzinfo is UTC else time.astimezone(UTC)).isoformat(timespec="microseconds")
    return Literal(plain[:-6].rstrip("0").rstrip(".") + "Z", datatype=v.DATE_TIME)


def parse_time(lexical: str) -> datetime:
    """Return the aware UTC time that an xsd:dateTime stands for; raise `IntegrityError` for what Trails never writes."""
    try:
        time = datetime.fromisoformat(lexical)
        return time if time.tzinfo is UTC else validation.time(time)
    except ValueError as error:
        raise IntegrityError(f"{lexical!r} is stored as a time and is none in UTC: the store was altered") from error


def meta_literal(value: Any) -> Literal:
    """Return a metadata value as a typed literal: string, boolean, integer, double, or rdf:JSON for anything nested."""
    if isinstance(value, int) and not isinstance(value, bool):
        return v.integer(value)
    if isinstance(value, str | bool | float):
        return Literal(value)
    return Literal(validation.to_json(value, "meta"), datatype=v.JSON)


@decodes
def meta_value(literal: Literal) -> Any:
    """Return the Python value of a metadata literal."""
    match literal.datatype:
        case v.BOOLEAN:
            return literal.value == "true"
        case v.INTEGER:
            return int(literal.value)
        case v.DOUBLE:
            return float(literal.value)
        case v.JSON:
            return json.loads(literal.value)
        case _:
            return literal.value


Node = NamedNode | Literal
_NODES: Final = (NamedNode, Literal)
Properties = Mapping[NamedNode, list[Node]]


class Codec(NamedTuple):
    """How a kind of value is written, and read back."""

    write: Callable[..., Node]
    """Make a term of a value."""
    read: Callable[[str], Any] | None = None
    """Make a value of a term's text; None: the text is the value."""
    order: Callable[[Any], Any] | None = None
    """Where a field holds any number of values: what they are sorted by once they are read."""
    of_record: bool = False
    """Whether `write` is given the record too, after the value."""


class Kept(NamedTuple):
    """Where a field is stored: an annotation of it. None and no values are not written."""

    predicate: NamedNode
    codec: Codec | None = None
    """By default the one for the field's type."""
    absent: str | None = None
    """The text that is read where nothing is stored; None: the field has its default."""
    when: Callable[[Any], bool] | None = None
    """Which records it is written for. Of two places of one field, the first with a value is read."""
    required: bool | None = None
    """Whether it is an error if nothing is stored; None: if the field has no default."""


class Table:
    """How one class is stored: the types that it has in the graph, and its fields."""

    def __init__(self, types: tuple[NamedNode, ...], fields: Iterable[tuple[str, Kept]]) -> None:
        self._types = types
        rows = [(name, each._replace(codec=each.codec or TEXT)) for name, each in fields]
        # plain tuples: they are unpacked much faster than named ones, for every field of every record
        self._rows = tuple((name, each.predicate, *(each.codec or TEXT), each.absent, each.when) for name, each in rows)
        self._required = {name: each.predicate for name, each in rows if each.required and each.absent is None}

    @classmethod
    def of(cls, kept: type[Value], *types: NamedNode) -> Table:
        """Return the table of a class whose fields are annotated with `Kept`."""
        return cls(
            types,
            [
                (
                    name,
                    each._replace(
                        codec=each.codec or _codec_of(field.annotation),
                        required=field.is_required() if each.required is None else each.required,
                    ),
                )
                for name, field in kept.model_fields.items()
                for each in field.metadata
                if isinstance(each, Kept)
            ],
        )

    def quads(self, record: Any, node: NamedNode, graph: Graph) -> list[Quad]:
        """Return the quads of a record, given its node and the graph that it stands in."""
        made = [Quad(node, v.TYPE, each, graph) for each in self._types]
        for name, predicate, write, _, order, of_record, _, when in self._rows:
            value = getattr(record, name)
            if value is None or (when is not None and not when(record)):
                continue
            if of_record or order is not None:
                values = (value,) if order is None else value
                made += [
                    Quad(node, predicate, write(each, record) if of_record else write(each), graph) for each in values
                ]
            else:
                made.append(Quad(node, predicate, write(value), graph))
        return made

    def values(self, properties: Properties) -> dict[str, Any]:
        """Return the fields that are stored, by name; raise `IntegrityError` where one that has one value has two."""
        found: dict[str, Any] = {}
        get = properties.get
        for name, predicate, _, read, order, _, absent, when in self._rows:
            if when is not None and found.get(name) not in (None, ()):
                continue
            terms = get(predicate)
            if order is not None:
                texts = [each.value for each in terms or ()]
                found[name] = tuple(sorted(texts if read is None else map(read, texts), key=order))
            elif terms:
                text = terms[0].value if len(terms) == 1 else one(properties, predicate)
                found[name] = text if read is None or text is None else read(text)
            elif absent is not None:
                found[name] = absent if read is None else read(absent)
        if lacking := self._required.keys() - found.keys():
            raise IntegrityError(f"it lacks {self._required[min(lacking)].value}")
        return found

    def row(self, subject: str, quads: Iterable[Quad]) -> Properties:
        """Return what quads with one subject say, for `values`; raise `IntegrityError` for two values of any property,
        or none of one that is required.
        """
        found: dict[NamedNode, list[Node]] = {}
        for quad in quads:
            if quad.predicate in found:
                raise IntegrityError(f"<{subject}> says two things of {quad.predicate}: the store was altered")
            term = quad.object
            found[quad.predicate] = [term if isinstance(term, _NODES) else Literal(str(getattr(term, "value", term)))]
        for predicate in self._required.values():
            if predicate not in found:
                raise IntegrityError(f"<{subject}> lacks {predicate}: the store was altered; restore it from a backup")
        return found


def term_text(term: object) -> str:
    """Return an IRI, or the text of a literal."""
    return str(getattr(term, "value", term))


def subject_of(quad: Quad) -> str:
    """Return the IRI that a quad is about."""
    return term_text(quad.subject)


def value_of(quads: Iterable[Quad], predicate: NamedNode) -> str:
    """Return the first value of a property among quads, as text; "" for none."""
    return next((term_text(quad.object) for quad in quads if quad.predicate == predicate), "")


def one(properties: Properties, predicate: NamedNode) -> str | None:
    """Return the one value of a property, or None; raise `IntegrityError` for two."""
    values = properties.get(predicate)
    if not values:
        return None
    if len(values) > 1:
        both = ", ".join(sorted(value.value for value in values if isinstance(value, NamedNode)))
        raise IntegrityError(f"it has {len(values)} values for {predicate.value}{both and f': {both}'}")
    return values[0].value


# --- codecs


def _entry(number: int, record: Any) -> NamedNode:
    return NamedNode(iris.ledger_entry(iris.session(record.session_id), number))


def _is_set(text: str) -> bool:
    return text == "true"


def _turn_place(turn_iri: str) -> tuple[int, str]:
    return iris.turn_index(turn_iri), turn_iri


TEXT = Codec(Literal)
NUMBER = Codec(v.integer, int)
FLAG = Codec(Literal, _is_set)
TIME = Codec(time_literal, parse_time)
IRI = Codec(NamedNode)
_BY_TYPE: Final[Mapping[Any, Codec]] = {int: NUMBER, bool: FLAG, datetime: TIME}


def _codec_of(annotation: Any) -> Codec:
    """Return the codec for a type, which may be optional: texts are what is no number, flag or time."""
    return next((_BY_TYPE[each] for each in (annotation, *get_args(annotation)) if each in _BY_TYPE), TEXT)


def _who(name: str) -> NamedNode:
    return NamedNode(name if iris.is_author(name) else iris.agent(name))


def _name_of(who: str) -> str:
    return iris.author_name(who) if iris.is_agent(who) else who


WHO = Codec(_who, _name_of)
"""An agent by its name, or a principal by its IRI."""
AGENT = Codec(lambda name: NamedNode(iris.agent(name)), iris.author_name)
SESSION = Codec(lambda session_id: NamedNode(iris.session(session_id)), iris.session_id)
ENTRY = Codec(_entry, iris.entry_number, of_record=True)
"""Another entry of the same ledger, by its number."""
ENTRIES = Codec(_entry, lambda iri: iris.entry_number(iri) or 0, order=int, of_record=True)
TEXTS = Codec(Literal, order=str)
TURNS = Codec(NamedNode, order=_turn_place)
"""The IRIs of turns, by their places."""
