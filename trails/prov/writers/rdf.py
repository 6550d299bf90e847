"""Statements as PROV-O in Turtle, or in TriG with a graph for each bundle.

A statement with an id, a time, a further argument or attributes is written both ways: as PROV-O's property between its two
things, and as a qualified node, which has the rest. Turtle has no bundles: all statements stand together there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

import pyoxigraph as ox

from trails import vocab
from trails.errors import InvalidInput
from trails.prov.mapping import BUNDLE_OF_MENTION, NAMES, PROV, QUALIFIED, RELATIONS
from trails.prov.statements import (
    BLANK,
    ELEMENTS,
    INTERNATIONALIZED,
    KINDS,
    QUALIFIED_NAME,
    STRING,
    TYPE,
    Attribute,
    Statement,
    Value,
)
from trails.prov.writers.base import Pieces, Writer

_SHORT: Final = re.compile(r"[A-Za-z_0-9](?:[A-Za-z_0-9\-]*)\Z")
_FORMS: Final = {form.kind: (iri, form) for iri, form in QUALIFIED.items() if form.subtype is None}
_RDF_NAMES: Final = {name: iri for iri, name in NAMES.items()} | {TYPE: vocab.RDF + "type"}
_SUBTYPES: Final = {
    (relation.kind, PROV + relation.subtype): iri for iri, relation in RELATIONS.items() if relation.subtype is not None
}
_ELEMENT_TIMES: Final = (PROV + "startedAtTime", PROV + "endedAtTime")


class RdfWriter(Writer):
    """Writes Turtle, or TriG where bundles are to stay apart."""

    def __init__(self, out: Pieces, prefixes: Mapping[str, str] | None = None, *, graphs: bool) -> None:
        """Write a graph for each bundle where `graphs` says so."""
        super().__init__(out, prefixes)
        self._graphs = graphs
        self._count = 0
        self._node = lru_cache(maxsize=4096)(self._made)

    def begin(self) -> None:
        """Write the prefixes."""
        for prefix, iri in self.names.prefixes.items():
            self.out.write(f"@prefix {prefix}: <{iri}> .\n")

    def open(self, bundle: str) -> None:
        """Begin a graph."""
        if self._graphs:
            self.out.write(f"{self._node(bundle)} {{\n")

    def close(self) -> None:
        """End a graph."""
        if self._graphs:
            self.out.write("}\n")

    def end(self) -> None:
        """Nothing ends the document."""

    def write(self, statements: Iterable[Statement]) -> None:
        """Write statements, each with its predicates on its line."""
        for statement in statements:
            if statement.kind in ELEMENTS:
                self.out.write(self._element(statement))
            else:
                self.out.write("".join(self._relation(statement)))

    def _made(self, iri: str) -> str:
        """Return an IRI with its prefix where Turtle takes the local part as it is, else whole; blank nodes by their names."""
        if iri.startswith(BLANK):
            return iri
        try:
            prefix, local = self.names.split(iri)
        except InvalidInput:
            return f"<{iri}>"
        return f"{prefix}:{local}" if _SHORT.match(local) else f"<{iri}>"

    def _element(self, statement: Statement) -> str:
        said = [f"a prov:{KINDS[statement.kind].type}"]
        for time, name in zip(statement.arguments, _ELEMENT_TIMES, strict=False):
            if time is not None:
                said.append(f"{self._node(name)} {_time(time)}")
        said += self._attributes(statement.attributes)
        return f"{self._node(str(statement.id))} {' ; '.join(said)} .\n"

    def _attributes(self, attributes: Iterable[Attribute]) -> Iterable[str]:
        return [f"{self._node(_RDF_NAMES.get(name, name))} {self._value(value)}" for name, value in attributes]

    def _value(self, value: Value) -> str:
        text, datatype, language = value
        if datatype == QUALIFIED_NAME:
            return self._node(text)
        if datatype == STRING:
            return str(ox.Literal(text))
        if datatype == INTERNATIONALIZED and language:
            return str(ox.Literal(text, language=language))
        return f"{ox.Literal(text)}^^{self._node(datatype)}"

    def _relation(self, statement: Statement) -> Iterable[str]:
        subject, other = statement.arguments[:2]
        if subject is None:
            raise InvalidInput(f"RDF cannot say {statement.to_provn()}: what it is about is missing")
        form = _FORMS.get(statement.kind)
        name = PROV + statement.kind
        types = [value.text for attribute, value in statement.attributes if attribute == TYPE]
        name = next((_SUBTYPES[statement.kind, each] for each in types if (statement.kind, each) in _SUBTYPES), name)
        if other is not None:
            yield f"{self._node(subject)} {self._node(name)} {self._node(other)} .\n"
        if statement.kind == "mentionOf" and statement.arguments[2] is not None:
            yield f"{self._node(subject)} {self._node(BUNDLE_OF_MENTION)} {self._node(statement.arguments[2])} .\n"
        if form is None or not (statement.id or statement.attributes or any(statement.arguments[2:]) or other is None):
            return
        property_, places = form[0], form[1].places
        node = statement.id
        if node is None:
            self._count += 1
            node = f"_:q{self._count}"
        said = [f"a prov:{KINDS[statement.kind].type}"]
        for predicate, place in places.items():
            value = statement.arguments[place]
            if value is not None:
                is_time = KINDS[statement.kind].places[place].is_time
                said.append(f"{self._node(predicate)} {_time(value) if is_time else self._node(value)}")
        said += self._attributes(statement.attributes)
        yield f"{self._node(subject)} {self._node(property_)} {self._node(node)} .\n"
        yield f"{self._node(node)} {' ; '.join(said)} .\n"


def _time(text: str) -> str:
    return f'"{text}"^^xsd:dateTime'
