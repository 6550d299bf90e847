"""Read PROV-JSON and PROV-JSONLD.

PROV-JSONLD (W3C member submission, 2024) as statements: its compacted form, which is what PROV tools write.

A context is not fetched: the submission's own is known by its address, and whatever else stands at an address is refused.

PROV-JSON (W3C member submission, 2013) as statements.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from trails.errors import InvalidInput
from trails.provenance.statements import (
    BLANK,
    DEFAULT_PREFIX,
    ELEMENTS,
    INTERNATIONALIZED,
    KINDS,
    NAME_TYPES,
    STRING,
    Attribute,
    Bundle,
    Document,
    Kind,
    Namespaces,
    Statement,
    Value,
    name_value,
    read_json_object,
    without_blank_ids,
)
from trails.rdf import vocab

_KNOWN_CONTEXT: Final = re.compile(r"https?://(?:www\.)?(?:openprovenance\.org/prov-jsonld|w3\.org/.*prov-jsonld)")
_KINDS: Final = {kind.type: kind for kind in KINDS.values()}
_SPECIAL: Final = {name: vocab.PROV + name for name in ("type", "label", "role", "location", "value")}
_NAMES: Final = frozenset({"type", "role", "location"})
"""The terms whose texts are names by the submission's context."""


def read_jsonld(data: bytes) -> Document:
    """Return what a PROV-JSONLD document says; raise `InvalidInput`, with the place, for what is none.

    >>> text = b'{"@context": [{"ex": "http://example.org/"}], "@graph": [{"@type": "Entity", "@id": "ex:e"}]}'
    >>> read(text).bundles[0].statements
    [Statement(kind='entity', id='http://example.org/e', arguments=(), attributes=())]
    """
    value = read_json_object(data, "PROV-JSONLD")
    if "@graph" not in value:
        raise InvalidInput("the PROV-JSONLD document has no @graph")
    scope = _jsonld_scope(value.get("@context", []), None)
    own: list[Statement] = []
    bundles: list[Bundle] = []
    prefixes = scope.prefixes
    for number, item in enumerate(_items(value["@graph"], "@graph")):
        where = f"@graph {number}"
        if _local(item.get("@type")) != "Bundle":
            own.extend(_jsonld_statements(item, scope, where))
            continue
        inner = _jsonld_scope(item.get("@context", []), scope)
        content = _items(item.get("@graph", []), where)
        statements = [
            each for place, part in enumerate(content) for each in _jsonld_statements(part, inner, f"{where} {place}")
        ]
        bundles.append(Bundle(inner.iri_or_whole(str(item.get("@id"))), without_blank_ids(statements)))
        prefixes = {**inner.prefixes, **prefixes}
    return Document([Bundle(None, without_blank_ids(own)), *bundles], prefixes)


def _items(value: Any, where: str) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise InvalidInput(f"the PROV-JSONLD document has no list of objects at {where!r}")
    return value


def _local(term: Any) -> str:
    return term.removeprefix("prov:") if isinstance(term, str) else ""


_FETCH: Final = "which would have to be fetched, and nothing is: write it into the file"


def _jsonld_scope(context: Any, outer: Namespaces | None) -> Namespaces:
    prefixes: dict[str, str] = {}
    for item in context if isinstance(context, list) else [context]:
        if isinstance(item, str):
            if not _KNOWN_CONTEXT.match(item):
                raise InvalidInput(f"the context is at {item[:200]!r}, {_FETCH}")
        elif isinstance(item, dict):
            if "@import" in item:
                raise InvalidInput(f"the context imports {str(item['@import'])[:200]!r}, {_FETCH}")
            for prefix, iri in item.items():
                if isinstance(iri, str) and (prefix == "@vocab" or prefix[:1] != "@"):
                    prefixes[DEFAULT_PREFIX if prefix == "@vocab" else prefix] = iri
        else:
            raise InvalidInput("the PROV-JSONLD document has a context that is neither an address nor an object")
    return Namespaces(prefixes, outer)


def _jsonld_statements(item: Mapping[str, Any], scope: Namespaces, where: str) -> Iterator[Statement]:
    try:
        kind = _KINDS.get(_local(item.get("@type")))
        if kind is None:
            raise InvalidInput(f"{str(item.get('@type'))[:80]!r} is no statement of PROV-JSONLD")
        yield from _statement(kind, item, scope)
    except InvalidInput as error:
        raise InvalidInput(f"the PROV-JSONLD document cannot be read at {where}: {error}") from error


def _statement(kind: Kind, item: Mapping[str, Any], scope: Namespaces) -> Iterator[Statement]:
    places = {place.name: place for place in kind.places}
    given: dict[str, Any] = {}
    attributes: list[Attribute] = []
    for key, value in item.items():
        local = _local(key)
        if local in places:
            given[local] = value
        elif key not in ("@type", "@id"):
            attributes += _jsonld_attributes(key, value, scope)
    id_ = item.get("@id")
    if id_ is None and kind.name in ELEMENTS:
        raise InvalidInput(f"{kind.type} has no @id")
    iri = None if id_ is None or not kind.identified else _iri(id_, scope)
    members = given.get("entity") if kind.name == "hadMember" else None
    for member in members if isinstance(members, list) else [members]:
        values = {**given, "entity": member} if members is not None else given
        arguments = tuple(_argument(values.get(name), scope, is_time=place.is_time) for name, place in places.items())
        yield Statement(kind.name, iri, arguments, tuple(attributes))


def _argument(value: Any, scope: Namespaces, *, is_time: bool) -> str | None:
    if value is None:
        return None
    if is_time:
        if not isinstance(value, str):
            raise InvalidInput(f"{str(value)[:80]!r} is no time")
        return value
    return _iri(value, scope)


def _iri(value: Any, scope: Namespaces) -> str:
    if isinstance(value, dict) and set(value) == {"@id"}:
        value = value["@id"]
    if not isinstance(value, str):
        raise InvalidInput(f"{str(value)[:80]!r} is no name")
    return value if value.startswith(BLANK) else scope.iri_or_whole(value)


def _jsonld_attributes(key: str, value: Any, scope: Namespaces) -> Iterator[Attribute]:
    local = _local(key)
    name = _SPECIAL.get(local) or scope.iri_or_whole(key)
    for each in value if isinstance(value, list) else [value]:
        yield name, _jsonld_value(each, scope, is_name=local in _NAMES)


def _jsonld_value(value: Any, scope: Namespaces, *, is_name: bool) -> Value:
    if isinstance(value, str):
        return name_value(scope.iri_or_whole(value)) if is_name else Value(value)
    if not isinstance(value, dict):
        raise InvalidInput(f"{str(value)[:80]!r} is no value")
    if "@id" in value:
        return name_value(_iri(value, scope))
    text = value.get("@value")
    if not isinstance(text, str):
        raise InvalidInput(f"{str(value)[:80]!r} has no text as its @value")
    if "@language" in value:
        return Value(text, INTERNATIONALIZED, str(value["@language"]))
    datatype = scope.iri_or_whole(str(value["@type"])) if "@type" in value else STRING
    return name_value(scope.iri_or_whole(text)) if datatype in NAME_TYPES else Value(text, datatype)


_MEMBERS: Final = "hadMember"
_INTEGER: Final = vocab.XSD + "int"
_DOUBLE: Final = vocab.XSD + "double"
_BOOLEAN: Final = vocab.XSD + "boolean"


def read_provjson(data: bytes) -> Document:
    """Return what a PROV-JSON document says; raise `InvalidInput`, with the place, for what is none.

    >>> read(b'{"prefix": {"ex": "http://example.org/"}, "entity": {"ex:e": {}}}').bundles[0].statements
    [Statement(kind='entity', id='http://example.org/e', arguments=(), attributes=())]
    """
    value = read_json_object(data, "PROV-JSON")
    scope = _provjson_scope(value, None)
    bundles = [Bundle(None, without_blank_ids(_container(value, scope)))]
    prefixes = scope.prefixes
    for name, content in _object(value.get("bundle", {}), "bundle").items():
        inner = _provjson_scope(_object(content, f"bundle {name}"), scope)
        bundles.append(Bundle(inner.iri(name), without_blank_ids(_container(content, inner))))
        prefixes = {**inner.prefixes, **prefixes}
    return Document(bundles, prefixes)


def _object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidInput(f"the PROV-JSON document has no object at {where[:120]!r}")
    return value


def _provjson_scope(container: Mapping[str, Any], outer: Namespaces | None) -> Namespaces:
    declared = _object(container.get("prefix", {}), "prefix")
    prefixes = {DEFAULT_PREFIX if prefix == "default" else prefix: iri for prefix, iri in declared.items()}
    if not all(isinstance(iri, str) for iri in prefixes.values()):
        raise InvalidInput("the PROV-JSON document declares a prefix that stands for no text")
    return Namespaces(prefixes, outer)


def _container(container: Mapping[str, Any], scope: Namespaces) -> Iterator[Statement]:
    for name, records in container.items():
        if name in ("prefix", "bundle"):
            continue
        kind = KINDS.get(name)
        if kind is None:
            raise InvalidInput(f"{name[:80]!r} is no statement of PROV-JSON")
        for id_, content in _object(records, name).items():
            for each in content if isinstance(content, list) else [content]:
                where = f"{name} {id_}"
                yield from _provjson_statements(kind, id_, _object(each, where), scope, where)


def _provjson_statements(
    kind: Kind, id_: str, content: Mapping[str, Any], scope: Namespaces, where: str
) -> Iterator[Statement]:
    """Yield what one record says: a statement, or one for each member where a membership names several."""
    try:
        given = {scope.iri(name): value for name, value in content.items()}
        places = {vocab.PROV + place.name: place for place in kind.places}
        arguments: dict[str, Any] = {
            iri: given.pop(iri, None) if place.is_time else _names(given.pop(iri, None), scope)
            for iri, place in places.items()
        }
        attributes = tuple(_provjson_attributes(given, scope))
        blank = id_.startswith(BLANK) and kind.name not in ELEMENTS
        iri = None if not kind.identified else id_ if blank else scope.iri(id_)
        for member in _each(arguments):
            yield Statement(kind.name, iri, member, attributes)
    except InvalidInput as error:
        raise InvalidInput(f"the PROV-JSON document cannot be read at {where[:160]!r}: {error}") from error


def _names(value: Any, scope: Namespaces) -> Any:
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


def _provjson_attributes(given: Mapping[str, Any], scope: Namespaces) -> Iterator[Attribute]:
    for name, value in given.items():
        for each in value if isinstance(value, list) else [value]:
            yield name, _provjson_value(each, scope)


def _provjson_value(value: Any, scope: Namespaces) -> Value:
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
