"""PROV-JSON (W3C member submission, 2013) as statements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from trails import vocab
from trails.errors import InvalidInput
from trails.prov.names import DEFAULT, Scope
from trails.prov.readers.bounds import json_object
from trails.prov.statements import (
    BLANK,
    ELEMENTS,
    INTERNATIONALIZED,
    KINDS,
    NAME_TYPES,
    STRING,
    Attribute,
    Bundle,
    Document,
    Kind,
    Statement,
    Value,
    name_value,
    without_blank_ids,
)

_MEMBERS: Final = "hadMember"
_INTEGER: Final = vocab.XSD + "int"
_DOUBLE: Final = vocab.XSD + "double"
_BOOLEAN: Final = vocab.XSD + "boolean"


def read(data: bytes) -> Document:
    """Return what a PROV-JSON document says; raise `InvalidInput`, with the place, for what is none.

    >>> read(b'{"prefix": {"ex": "http://example.org/"}, "entity": {"ex:e": {}}}').bundles[0].statements
    [Statement(kind='entity', id='http://example.org/e', arguments=(), attributes=())]
    """
    value = json_object(data, "PROV-JSON")
    scope = _scope(value, None)
    bundles = [Bundle(None, without_blank_ids(_container(value, scope)))]
    prefixes = scope.prefixes
    for name, content in _object(value.get("bundle", {}), "bundle").items():
        inner = _scope(_object(content, f"bundle {name}"), scope)
        bundles.append(Bundle(inner.iri(name), without_blank_ids(_container(content, inner))))
        prefixes = {**inner.prefixes, **prefixes}
    return Document(bundles, prefixes)


def _object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidInput(f"the PROV-JSON document has no object at {where[:120]!r}")
    return value


def _scope(container: Mapping[str, Any], outer: Scope | None) -> Scope:
    declared = _object(container.get("prefix", {}), "prefix")
    prefixes = {DEFAULT if prefix == "default" else prefix: iri for prefix, iri in declared.items()}
    if not all(isinstance(iri, str) for iri in prefixes.values()):
        raise InvalidInput("the PROV-JSON document declares a prefix that stands for no text")
    return Scope(prefixes, outer)


def _container(container: Mapping[str, Any], scope: Scope) -> Iterator[Statement]:
    for name, records in container.items():
        if name in ("prefix", "bundle"):
            continue
        kind = KINDS.get(name)
        if kind is None:
            raise InvalidInput(f"{name[:80]!r} is no statement of PROV-JSON")
        for id_, content in _object(records, name).items():
            for each in content if isinstance(content, list) else [content]:
                where = f"{name} {id_}"
                yield from _statements(kind, id_, _object(each, where), scope, where)


def _statements(kind: Kind, id_: str, content: Mapping[str, Any], scope: Scope, where: str) -> Iterator[Statement]:
    """Yield what one record says: a statement, or one for each member where a membership names several."""
    try:
        given = {scope.iri(name): value for name, value in content.items()}
        places = {vocab.PROV + place.name: place for place in kind.places}
        arguments: dict[str, Any] = {
            iri: given.pop(iri, None) if place.is_time else _names(given.pop(iri, None), scope)
            for iri, place in places.items()
        }
        attributes = tuple(_attributes(given, scope))
        blank = id_.startswith(BLANK) and kind.name not in ELEMENTS
        iri = None if not kind.identified else id_ if blank else scope.iri(id_)
        for member in _each(arguments):
            yield Statement(kind.name, iri, member, attributes)
    except InvalidInput as error:
        raise InvalidInput(f"the PROV-JSON document cannot be read at {where[:160]!r}: {error}") from error


def _names(value: Any, scope: Scope) -> Any:
    if isinstance(value, list):
        return [_names(each, scope) for each in value]
    if isinstance(value, dict) and isinstance(value.get("$"), str):
        value = value["$"]
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidInput(f"{str(value)[:80]!r} is no name")
    return scope.iri(value)


def _each(arguments: Mapping[str, Any]) -> Iterator[tuple[str | None, ...]]:
    """Yield the arguments of each statement: a list in one place, as memberships have it, makes one statement a member."""
    lists = [iri for iri, value in arguments.items() if isinstance(value, list)]
    if len(lists) > 1:
        raise InvalidInput("two of its arguments are lists")
    several = arguments[lists[0]] if lists else [None]
    for one in several:
        values = tuple(one if iri in lists else value for iri, value in arguments.items())
        if not all(value is None or isinstance(value, str) for value in values):
            raise InvalidInput("an argument is no text")
        yield values


def _attributes(given: Mapping[str, Any], scope: Scope) -> Iterator[Attribute]:
    for name, value in given.items():
        for each in value if isinstance(value, list) else [value]:
            yield name, _value(each, scope)


def _value(value: Any, scope: Scope) -> Value:
    if isinstance(value, str):
        return Value(value)
    if isinstance(value, bool):
        return Value("true" if value else "false", _BOOLEAN)
    if isinstance(value, int):
        return Value(str(value), _INTEGER)
    if isinstance(value, float):
        return Value(repr(value), _DOUBLE)
    if not isinstance(value, dict) or "$" not in value:
        raise InvalidInput(f"{str(value)[:80]!r} is no value")
    text = _text(value["$"])
    if "lang" in value:
        return Value(text, INTERNATIONALIZED, str(value["lang"]))
    datatype = scope.iri(str(value["type"])) if "type" in value else STRING
    return name_value(scope.iri(text)) if datatype in NAME_TYPES else Value(text, datatype)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise InvalidInput(f"{str(value)[:80]!r} is no text")
