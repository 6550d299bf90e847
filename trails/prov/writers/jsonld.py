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
    ELEMENTS,
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
        self._key = lru_cache(maxsize=1024)(lambda name: quoted(_SPECIAL.get(name) or self.names.name(name)))
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
        kind, id_, arguments, attributes = statement
        line, places = self._heads[kind]
        if id_ is not None:
            line += f', "@id": {name(id_)}'
        for value, (key, is_time) in zip(arguments, places, strict=True):
            if value is not None:
                line += f'{key}"{value}"' if is_time else key + name(value)
        if kind in ELEMENTS:
            return f"{line}{self._attributes(attributes, kind == 'entity')}}}"
        # what is said of relations is the same for many, and is made once
        return f"{line}{self._said(attributes, False)}}}" if attributes else line + "}"

    def _attributes(self, attributes: tuple[Attribute, ...], is_entity: bool) -> str:
        grouped: dict[str, str] = {}
        for attribute, value in attributes:
            key = '"value"' if is_entity and attribute == VALUE else self._key(attribute)
            said = self._value(attribute, value)
            grouped[key] = f"{grouped[key]}, {said}" if key in grouped else said
        return "".join([f", {key}: [{said}]" for key, said in grouped.items()])

    def _value(self, attribute: str, value: Value) -> str:
        text, datatype, language = value
        if datatype == STRING:
            return f'{{"@value": {quoted(text)}}}'
        if datatype == QUALIFIED_NAME:
            name = self._name(text)
            return name if attribute in _NAMES else f'{{"@value": {name}, "@type": "xsd:QName"}}'
        if datatype == INTERNATIONALIZED and language:
            return f'{{"@value": {quoted(text)}, "@language": {quoted(language)}}}'
        return f'{{"@value": {quoted(text)}, "@type": {self._name(datatype)}}}'
