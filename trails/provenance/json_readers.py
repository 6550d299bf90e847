"""Read PROV-JSON and PROV-JSONLD (W3C member submissions, 2013 and 2024).

PROV-JSONLD is read in its compacted form, which is what PROV tools write. A context is not fetched: the submission's own is
known by its address, and any other address is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from trails.errors import InvalidInput
from trails.provenance.statements import (
    DEFAULT_PREFIX,
    INTERNATIONALIZED,
    KINDS,
    NAME_TYPES,
    STRING,
    Attribute,
    Bundle,
    Document,
    Kind,
    Namespaces,
    Place,
    Statement,
    Value,
    make_statements,
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
_FETCH: Final = "which would have to be fetched, and nothing is: write it into the file"


def _list_of(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _argument(value: Any, place: Place, key: str, resolve: Callable[[str], str]) -> str | None:
    """Return the time or the IRI that an argument is; `key` leads to the name in an object."""
    if isinstance(value, dict) and set(value) <= {key, "type"}:
        value = value.get(key)
    if value is not None and not isinstance(value, str):
        raise InvalidInput(f"{str(value)[:80]!r} is no {'time' if place.is_time else 'name'}")
    return value if value is None or place.is_time else resolve(value)


# --- PROV-JSONLD


def read_jsonld(data: bytes) -> Document:
    """Read a PROV-JSONLD document; raise `InvalidInput`, with the place, for what is none.

    >>> text = b'{"@context": [{"ex": "http://example.org/"}], "@graph": [{"@type": "Entity", "@id": "ex:e"}]}'
    >>> read_jsonld(text).bundles[0].statements
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
        parts = enumerate(_items(item.get("@graph", []), where))
        statements = [each for place, part in parts for each in _jsonld_statements(part, inner, f"{where} {place}")]
        bundles.append(Bundle(inner.iri_or_whole(str(item.get("@id"))), without_blank_ids(statements)))
        prefixes = {**inner.prefixes, **prefixes}
    return Document([Bundle(None, without_blank_ids(own)), *bundles], prefixes)


def _items(value: Any, where: str) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise InvalidInput(f"the PROV-JSONLD document has no list of objects at {where!r}")
    return value


def _local(term: Any) -> str:
    return term.removeprefix("prov:") if isinstance(term, str) else ""


def _jsonld_scope(context: Any, outer: Namespaces | None) -> Namespaces:
    """Return the prefixes of a context; raise `InvalidInput` for one that would have to be fetched."""
    prefixes: dict[str, str] = {}
    for item in _list_of(context):
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
        places = {place.name: place for place in kind.places} | {"@id": Place("id")}
        arguments: dict[str, list[str | None]] = {}
        attributes: list[Attribute] = []
        for key, value in item.items():
            local = _local(key)
            if local in places:
                several = _list_of(value) if (kind.name, local) == ("hadMember", "entity") else [value]
                arguments[local] = [_argument(each, places[local], "@id", scope.iri_or_whole) for each in several]
            elif key != "@type":
                name = _SPECIAL.get(local) or scope.iri_or_whole(key)
                attributes += [(name, _jsonld_value(each, scope, local in _NAMES)) for each in _list_of(value)]
        yield from make_statements(kind, arguments.pop("@id", [None])[0], arguments, attributes)
    except InvalidInput as error:
        raise InvalidInput(f"the PROV-JSONLD document cannot be read at {where}: {error}") from error


def _jsonld_value(value: Any, scope: Namespaces, is_name: bool) -> Value:
    if isinstance(value, str):
        return name_value(scope.iri_or_whole(value)) if is_name else Value(value)
    if not isinstance(value, dict):
        raise InvalidInput(f"{str(value)[:80]!r} is no value")
    text = value.get("@id", value.get("@value"))
    if not isinstance(text, str):
        raise InvalidInput(f"{str(value)[:80]!r} has no text as its @value")
    if "@language" in value:
        return Value(text, INTERNATIONALIZED, str(value["@language"]))
    datatype = scope.iri_or_whole(str(value["@type"])) if "@type" in value else STRING
    is_name = "@id" in value or datatype in NAME_TYPES
    return name_value(scope.iri_or_whole(text)) if is_name else Value(text, datatype)


# --- PROV-JSON


def read_provjson(data: bytes) -> Document:
    """Read a PROV-JSON document; raise `InvalidInput`, with the place, for what is none.

    >>> text = b'{"prefix": {"ex": "http://example.org/"}, "used": {"_:u": {"prov:activity": "ex:a", "prov:entity": "ex:e"}}}'
    >>> read_provjson(text).bundles[0].statements[0].to_provn()
    'used(http://example.org/a, http://example.org/e, -)'
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
            where = f"{name} {id_}"
            for each in _list_of(content):
                yield from _provjson_statements(kind, id_, _object(each, where), scope, where)


def _provjson_statements(
    kind: Kind, id_: str, content: Mapping[str, Any], scope: Namespaces, where: str
) -> Iterator[Statement]:
    try:
        fields = {scope.iri(name): _list_of(value) for name, value in content.items()}
        arguments = {
            place.name: [_argument(each, place, "$", scope.iri) for each in fields.pop(vocab.PROV + place.name)]
            for place in kind.places
            if vocab.PROV + place.name in fields
        }
        attributes = [(name, _provjson_value(each, scope)) for name, values in fields.items() for each in values]
        yield from make_statements(kind, scope.iri(id_) if kind.identified else None, arguments, attributes)
    except InvalidInput as error:
        raise InvalidInput(f"the PROV-JSON document cannot be read at {where[:160]!r}: {error}") from error


def _provjson_value(value: Any, scope: Namespaces) -> Value:
    typed = value if isinstance(value, dict) and "$" in value else {"$": value}
    match typed["$"]:
        case bool(flag):
            text, datatype = "true" if flag else "false", vocab.XSD + "boolean"
        case int(number):
            text, datatype = str(number), vocab.XSD + "int"
        case float(number):
            text, datatype = repr(number), vocab.XSD + "double"
        case str(text):
            datatype = STRING
        case other:
            raise InvalidInput(f"{str(other)[:80]!r} is no value")
    if "lang" in typed:
        return Value(text, INTERNATIONALIZED, str(typed["lang"]))
    if typed is value:
        datatype = scope.iri(str(value["type"])) if "type" in value else STRING
    return name_value(scope.iri(text)) if datatype in NAME_TYPES else Value(text, datatype)
