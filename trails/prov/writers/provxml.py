"""Statements as PROV-XML (W3C, 2013), an element a line.

The schema has the arguments first, then prov:label, location, role, type and value, then all else. A text with a character
that XML 1.0 cannot hold loses that character to U+FFFD.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from trails import vocab
from trails.errors import InvalidInput
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
)
from trails.prov.writers.base import Writer

_ORDER: Final = {name: place for place, name in enumerate((LABEL, LOCATION, ROLE, TYPE, VALUE))}
_TYPED: Final = frozenset({TYPE, LOCATION, VALUE, ROLE})
_NOT_XML: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LOCAL: Final = re.compile(r"[A-Za-z_][\w.\-]*\Z")
_AS_REFERENCES: Final = {"\r": "&#13;", "\x7f": "&#127;"}
_LAST: Final = len(_ORDER)


class ProvXmlWriter(Writer):
    """Writes PROV-XML."""

    def begin(self) -> None:
        """Write the root with all namespaces; XML names the datatypes of XML Schema without the # that all else has."""
        declared = {**self.names.prefixes, "xsd": vocab.XSD[:-1], "xsi": vocab.XSD[:-1] + "-instance"}
        said = " ".join(f"xmlns:{prefix}={quoteattr(iri)}" for prefix, iri in declared.items())
        self.out.write(f'<?xml version="1.0" encoding="UTF-8"?>\n<prov:document {said}>\n')

    def open(self, bundle: str) -> None:
        """Begin a bundle."""
        self.out.write(f"<prov:bundleContent prov:id={quoteattr(self.names.name(bundle))}>\n")

    def close(self) -> None:
        """End a bundle."""
        self.out.write("</prov:bundleContent>\n")

    def end(self) -> None:
        """End the document."""
        self.out.write("</prov:document>\n")

    def write(self, statements: Iterable[Statement]) -> None:
        """Write statements, each on its line."""
        # what is not ASCII as references to characters: the same to a reader, and nothing that steers a terminal
        for statement in statements:
            self.out.write(self._line(statement).encode("ascii", "xmlcharrefreplace").decode())

    def _line(self, statement: Statement) -> str:
        name = self.names.name
        id_ = "" if statement.id is None else f" prov:id={quoteattr(name(statement.id))}"
        pieces = [f"<prov:{statement.kind}{id_}>"]
        for value, place in zip(statement.arguments, KINDS[statement.kind].places, strict=True):
            if value is None:
                continue
            if place.is_time:
                pieces.append(f"<prov:{place.name}>{escape(value)}</prov:{place.name}>")
            else:
                pieces.append(f"<prov:{place.name} prov:ref={quoteattr(name(value))}/>")
        pieces += map(self._attribute, sorted(statement.attributes, key=lambda each: _ORDER.get(each[0], _LAST)))
        pieces.append(f"</prov:{statement.kind}>\n")
        return "".join(pieces)

    def _attribute(self, attribute: Attribute) -> str:
        name, declared = self._tag(attribute[0])
        text, datatype, language = attribute[1]
        said, kind = text, ""
        if datatype == QUALIFIED_NAME:
            said, kind = self.names.name(text), ' xsi:type="xsd:QName"'
        elif datatype == INTERNATIONALIZED and language:
            kind = f" xml:lang={quoteattr(language)}"
        elif datatype != STRING or attribute[0] in _TYPED:
            kind = f" xsi:type={quoteattr(self.names.name(datatype))}"
        return f"<{name}{declared}{kind}>{escape(_NOT_XML.sub(chr(0xFFFD), said), _AS_REFERENCES)}</{name}>"

    def _tag(self, attribute: str) -> tuple[str, str]:
        """Return the name of an attribute's element, and the namespace that it declares where no prefix fits XML's names."""
        name = self.names.name(attribute)
        if _LOCAL.match(name.partition(":")[2]):
            return name, ""
        local = _LOCAL.search(attribute)
        if local is None:
            raise InvalidInput(f"PROV-XML cannot name the attribute {attribute[:200]!r}: it ends in no name")
        return f"own:{local.group()}", f" xmlns:own={quoteattr(attribute[: local.start()])}"
