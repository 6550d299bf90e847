"""Statements as PROV-JSONLD (W3C member submission, 2024), a statement a line.

`mentionOf`, for which the submission has no term, is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache
from json.encoder import encode_basestring_ascii as quoted
from typing import Final

from trails import vocab
from trails.prov.statements import (
    INTERNATIONALIZED,
    KINDS,
    LABEL,
    LOCATION,
    QUALIFIED_NAME,
    ROLE,
    STRING,
    TYPE,
    VALUE,
    Attribute,
    Statement,
    Value,
)
from trails.prov.writers.base import Writer

CONTEXT: Final = "https://openprovenance.org/prov-jsonld/context.jsonld"
_SPECIAL: Final = {TYPE: "type", LABEL: "label", ROLE: "role", LOCATION: "location"}
_NAMES: Final = frozenset({TYPE, ROLE, LOCATION})
_QNAME: Final = vocab.XSD + "QName"


class JsonLdWriter(Writer):
    """Writes PROV-JSONLD."""

    def begin(self) -> None:
        """Write the context: the document's prefixes, and the submission's by its address."""
        self._name = lru_cache(maxsize=4096)(lambda iri: quoted(self.names.name(iri)))
        self._said = lru_cache(maxsize=1024)(self._attributes)
        self._heads = {
            kind.name: (f'{{"@type": "{kind.type}"', [(f', "{place.name}": ', place.is_time) for place in kind.places])
            for kind in KINDS.values()
        }
        self._first = True
        context = json.dumps([dict(self.names.prefixes), CONTEXT])
        self.out.write(f'{{"@context": {context}, "@graph": [')

    def open(self, bundle: str) -> None:
        """Begin a bundle."""
        self._comma()
        self.out.write(f'{{"@type": "Bundle", "@id": {self._name(bundle)}, "@context": [], "@graph": [')
        self._first = True

    def close(self) -> None:
        """End a bundle."""
        self.out.write("\n]}")
        self._first = False

    def end(self) -> None:
        """End the document."""
        self.out.write("\n]}\n")

    def _comma(self) -> None:
        self.out.write("\n" if self._first else ",\n")
        self._first = False

    def write(self, statements: Iterable[Statement]) -> None:
        """Write statements, each on its line."""
        put, line = self.out.write, self._line
        for statement in statements:
            if statement.kind != "mentionOf":
                put("\n" if self._first else ",\n")
                self._first = False
                put(line(statement))

    def _line(self, statement: Statement) -> str:
        name = self._name
        head, places = self._heads[statement.kind]
        pieces = [head]
        if statement.id is not None:
            pieces += (', "@id": ', name(statement.id))
        for value, (key, is_time) in zip(statement.arguments, places, strict=True):
            if value is not None:
                pieces += (key, f'"{value}"' if is_time else name(value))
        if statement.attributes:
            pieces.append(self._described(statement))
        pieces.append("}")
        return "".join(pieces)

    def _described(self, statement: Statement) -> str:
        """Return attributes as JSON; those of many statements are the same, and are made once."""
        own = statement.attributes
        return self._said(own, statement.kind == "entity")

    def _attributes(self, attributes: tuple[Attribute, ...], is_entity: bool) -> str:
        grouped: dict[str, list[str]] = {}
        for attribute, value in attributes:
            key = _SPECIAL.get(attribute) or ("value" if is_entity and attribute == VALUE else None)
            grouped.setdefault(key or self.names.name(attribute), []).append(self._value(attribute, value))
        return "".join(f", {quoted(key)}: [{', '.join(values)}]" for key, values in grouped.items())

    def _value(self, attribute: str, value: Value) -> str:
        text, datatype, language = value
        if datatype == QUALIFIED_NAME:
            name = self._name(text)
            return name if attribute in _NAMES else f'{{"@value": {name}, "@type": "xsd:QName"}}'
        if datatype == STRING:
            return f'{{"@value": {quoted(text)}}}'
        if datatype == INTERNATIONALIZED and language:
            return f'{{"@value": {quoted(text)}, "@language": {quoted(language)}}}'
        return f'{{"@value": {quoted(text)}, "@type": {self._name(datatype)}}}'
