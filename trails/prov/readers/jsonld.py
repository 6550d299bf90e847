"""PROV-JSONLD (W3C member submission, 2024) as statements: its compacted form, which is what PROV tools write.

A context is not fetched: the submission's own is known by its address, and whatever else stands at an address is refused.
"""

from __future__ import annotations

import re
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

_KNOWN_CONTEXT: Final = re.compile(r"https?://(?:www\.)?(?:openprovenance\.org/prov-jsonld|w3\.org/.*prov-jsonld)")
_KINDS: Final = {kind.type: kind for kind in KINDS.values()}
_SPECIAL: Final = {name: vocab.PROV + name for name in ("type", "label", "role", "location", "value")}
_NAMES: Final = frozenset({"type", "role", "location"})
"""The terms whose texts are names by the submission's context."""


def read(data: bytes) -> Document:
    """Return what a PROV-JSONLD document says; raise `InvalidInput`, with the place, for what is none.

    >>> text = b'{"@context": [{"ex": "http://example.org/"}], "@graph": [{"@type": "Entity", "@id": "ex:e"}]}'
    >>> read(text).bundles[0].statements
    [Statement(kind='entity', id='http://example.org/e', arguments=(), attributes=())]
    """
    value = json_object(data, "PROV-JSONLD")
    if "@graph" not in value:
        raise InvalidInput("the PROV-JSONLD document has no @graph")
    scope = _scope(value.get("@context", []), None)
    own: list[Statement] = []
    bundles: list[Bundle] = []
    prefixes = scope.prefixes
    for number, item in enumerate(_items(value["@graph"], "@graph")):
        where = f"@graph {number}"
        if _local(item.get("@type")) != "Bundle":
            own.extend(_statements(item, scope, where))
            continue
        inner = _scope(item.get("@context", []), scope)
        content = _items(item.get("@graph", []), where)
        statements = [
            each for place, part in enumerate(content) for each in _statements(part, inner, f"{where} {place}")
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


def _scope(context: Any, outer: Scope | None) -> Scope:
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
                    prefixes[DEFAULT if prefix == "@vocab" else prefix] = iri
        else:
            raise InvalidInput("the PROV-JSONLD document has a context that is neither an address nor an object")
    return Scope(prefixes, outer)


def _statements(item: Mapping[str, Any], scope: Scope, where: str) -> Iterator[Statement]:
    try:
        kind = _KINDS.get(_local(item.get("@type")))
        if kind is None:
            raise InvalidInput(f"{str(item.get('@type'))[:80]!r} is no statement of PROV-JSONLD")
        yield from _statement(kind, item, scope)
    except InvalidInput as error:
        raise InvalidInput(f"the PROV-JSONLD document cannot be read at {where}: {error}") from error


def _statement(kind: Kind, item: Mapping[str, Any], scope: Scope) -> Iterator[Statement]:
    places = {place.name: place for place in kind.places}
    given: dict[str, Any] = {}
    attributes: list[Attribute] = []
    for key, value in item.items():
        local = _local(key)
        if local in places:
            given[local] = value
        elif key not in ("@type", "@id"):
            attributes += _attributes(key, value, scope)
    id_ = item.get("@id")
    if id_ is None and kind.name in ELEMENTS:
        raise InvalidInput(f"{kind.type} has no @id")
    iri = None if id_ is None or not kind.identified else _iri(id_, scope)
    members = given.get("entity") if kind.name == "hadMember" else None
    for member in members if isinstance(members, list) else [members]:
        values = {**given, "entity": member} if members is not None else given
        arguments = tuple(_argument(values.get(name), scope, is_time=place.is_time) for name, place in places.items())
        yield Statement(kind.name, iri, arguments, tuple(attributes))


def _argument(value: Any, scope: Scope, *, is_time: bool) -> str | None:
    if value is None:
        return None
    if is_time:
        if not isinstance(value, str):
            raise InvalidInput(f"{str(value)[:80]!r} is no time")
        return value
    return _iri(value, scope)


def _iri(value: Any, scope: Scope) -> str:
    if isinstance(value, dict) and set(value) == {"@id"}:
        value = value["@id"]
    if not isinstance(value, str):
        raise InvalidInput(f"{str(value)[:80]!r} is no name")
    return value if value.startswith(BLANK) else scope.iri_or_whole(value)


def _attributes(key: str, value: Any, scope: Scope) -> Iterator[Attribute]:
    local = _local(key)
    name = _SPECIAL.get(local) or scope.iri_or_whole(key)
    for each in value if isinstance(value, list) else [value]:
        yield name, _value(each, scope, is_name=local in _NAMES)


def _value(value: Any, scope: Scope, *, is_name: bool) -> Value:
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
