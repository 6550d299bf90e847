"""PROV-XML (W3C, 2013) as statements, read as a stream of elements: no document type, no entities, nothing fetched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final
from xml.parsers import expat

from trails import vocab
from trails.errors import InvalidInput
from trails.prov.names import DEFAULT, Scope
from trails.prov.readers.bounds import MAX_BYTES, MAX_DEPTH
from trails.prov.statements import (
    BLANK,
    ELEMENTS,
    INTERNATIONALIZED,
    KINDS,
    NAME_TYPES,
    STRING,
    SUBTYPES,
    TYPE,
    Attribute,
    Bundle,
    Document,
    Kind,
    Statement,
    Value,
    name_value,
    without_blank_ids,
)

_SEPARATOR: Final = " "
_XSD: Final = "http://www.w3.org/2001/XMLSchema"
_XSI: Final = "http://www.w3.org/2001/XMLSchema-instance type"
_LANGUAGE: Final = "http://www.w3.org/XML/1998/namespace lang"
_ID: Final = f"{vocab.PROV} id"
_REF: Final = f"{vocab.PROV} ref"
_RELATIONS: Final = {"Revision": "wasRevisionOf", "Quotation": "wasQuotedFrom", "PrimarySource": "hadPrimarySource"}
_NAMED: Final[Mapping[str, tuple[Kind, str | None]]] = {
    **{name: (kind, None) for name, kind in KINDS.items()},
    **{
        _RELATIONS.get(subtype, subtype[0].lower() + subtype[1:]): (KINDS[kind], subtype)
        for subtype, kind in SUBTYPES.items()
    },
}
"""What each element is a statement of, and the type that it says by its name."""


@dataclass(slots=True)
class _Record:
    """A statement while its element is open."""

    kind: Kind
    id: str | None
    arguments: dict[str, list[str]] = field(default_factory=dict)
    attributes: list[Attribute] = field(default_factory=list)


@dataclass(slots=True)
class _Part:
    """An argument or attribute of a statement while its element is open."""

    name: str
    attributes: Mapping[str, str]
    scope: Scope
    text: list[str] = field(default_factory=list)


def read(data: bytes) -> Document:
    """Return what a PROV-XML document says; raise `InvalidInput`, with the line, for what is none.

    >>> text = b'<prov:document xmlns:prov="http://www.w3.org/ns/prov#" xmlns:ex="http://example.org/">'
    >>> read(text + b'<prov:entity prov:id="ex:e"/></prov:document>').bundles[0].statements
    [Statement(kind='entity', id='http://example.org/e', arguments=(), attributes=())]
    """
    if len(data) > MAX_BYTES:
        raise InvalidInput(
            f"the PROV-XML document has {len(data):,} bytes, and {MAX_BYTES:,} at most are read; split it"
        )
    reader = _Reader()
    try:
        reader.parser.Parse(data, True)
    except expat.ExpatError as error:
        said = expat.errors.messages.get(error.code, str(error))
        raise InvalidInput(f"the document is not XML at line {error.lineno}, column {error.offset}: {said}") from error
    except (InvalidInput, ValueError, LookupError) as error:  # LookupError: an encoding that Python does not know
        line = reader.parser.CurrentLineNumber
        raise InvalidInput(f"the PROV-XML document cannot be read at line {line}: {error}") from error
    bundles = [replace(bundle, statements=without_blank_ids(bundle.statements)) for bundle in reader.bundles]
    return Document(bundles, reader.prefixes)


class _Reader:
    """Takes the elements of a document one by one; a record is all that is kept of it at a time."""

    def __init__(self) -> None:
        self.parser = expat.ParserCreate(namespace_separator=_SEPARATOR)
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        self.parser.StartNamespaceDeclHandler = self._declare
        self.parser.StartDoctypeDeclHandler = self._no_doctype
        self.bundles: list[Bundle] = [Bundle(None, [])]
        self.prefixes: dict[str, str] = {}
        self._statements: list[Statement] = []
        self.bundles = [Bundle(None, self._statements)]
        self._own = self._statements
        self._scopes: list[Scope] = [Scope()]
        self._declared: dict[str, str] = {}
        self._record: _Record | None = None
        self._part: _Part | None = None
        self._skipping = 0

    def _no_doctype(self, *_: object) -> None:
        raise InvalidInput("it has a document type, which may define entities; take it out")

    def _declare(self, prefix: str | None, namespace: str | None) -> None:
        # XML names the datatypes of XML Schema without the # that all else has
        self._declared[prefix or DEFAULT] = _XSD + "#" if namespace == _XSD else namespace or ""

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        scope = self._scopes[-1]
        if self._declared:
            scope = Scope(self._declared, scope)
            self.prefixes = {**scope.prefixes, **self.prefixes}
            self._declared = {}
        self._scopes.append(scope)
        if len(self._scopes) > MAX_DEPTH:
            raise InvalidInput(f"it is nested deeper than {MAX_DEPTH}")
        namespace, _, local = tag.rpartition(_SEPARATOR)
        if self._skipping:
            self._skipping += 1
        elif self._part is not None:
            raise InvalidInput(f"there is an element {local[:80]!r} within a value, which PROV-XML does not have")
        elif self._record is not None:
            self._part = _Part(namespace + local, attributes, scope)
        elif namespace == vocab.PROV:
            self._open(local, attributes, scope)
        else:
            raise InvalidInput(f"there is an element {tag[:120]!r} where PROV-XML has a statement")

    def _open(self, local: str, attributes: Mapping[str, str], scope: Scope) -> None:
        if local == "document" and len(self._scopes) == 2:
            return
        if len(self._scopes) == 2:
            raise InvalidInput(f"its root is {local[:80]!r}, not prov:document")
        id_ = attributes.get(_ID)
        if local == "other":
            self._skipping = 1
        elif local == "bundleContent":
            if self._statements is not self._own or id_ is None:
                raise InvalidInput("a bundle stands in a bundle, or has no prov:id")
            self._statements = []
            self.bundles.append(Bundle(scope.iri(id_), self._statements))
        elif local in _NAMED:
            kind, subtype = _NAMED[local]
            self._record = _Record(kind, None if id_ is None else id_ if id_.startswith(BLANK) else scope.iri(id_))
            if subtype is not None:
                self._record.attributes.append((TYPE, name_value(vocab.PROV + subtype)))
        else:
            raise InvalidInput(f"prov:{local[:80]} is no statement of PROV-XML")

    def _text(self, text: str) -> None:
        if self._part is not None:
            self._part.text.append(text)
        elif text.strip() and not self._skipping:
            raise InvalidInput(f"the text {text.strip()[:40]!r} stands where PROV-XML has none")

    def _end(self, tag: str) -> None:
        self._scopes.pop()
        if self._skipping:
            self._skipping -= 1
        elif self._part is not None and self._record is not None:
            self._close_part(self._record, self._part)
            self._part = None
        elif self._record is not None:
            self._statements.extend(_made(self._record))
            self._record = None
        elif tag.endswith(_SEPARATOR + "bundleContent"):
            self._statements = self._own

    def _close_part(self, record: _Record, part: _Part) -> None:
        text = "".join(part.text)
        reference = part.attributes.get(_REF)
        place = next((each for each in record.kind.places if vocab.PROV + each.name == part.name), None)
        if place is not None and (place.is_time or reference is not None):
            value = text.strip() if place.is_time else _iri(reference or "", part.scope)
            record.arguments.setdefault(place.name, []).append(value)
        elif reference is not None:
            record.attributes.append((part.name, name_value(_iri(reference, part.scope))))
        else:
            record.attributes.append((part.name, _value(text, part)))


def _iri(name: str, scope: Scope) -> str:
    return name if name.startswith(BLANK) else scope.iri(name)


def _value(text: str, part: _Part) -> Value:
    language = part.attributes.get(_LANGUAGE)
    if language is not None:
        return Value(text, INTERNATIONALIZED, language)
    named = part.attributes.get(_XSI)
    datatype = STRING if named is None else part.scope.iri(named)
    if datatype not in NAME_TYPES:
        return Value(text, datatype)
    if ":" not in text and DEFAULT not in part.scope.prefixes:
        return Value(text.strip(), datatype)  # in no namespace, as the Recommendation's own examples have it
    return name_value(part.scope.iri(text.strip()))


def _made(record: _Record) -> list[Statement]:
    """Return what an element says: a statement, or one for each member of a membership."""
    kind = record.kind
    if record.id is None and kind.name in ELEMENTS:
        raise InvalidInput(f"an element {kind.name} has no prov:id")
    several = (kind.name == "hadMember" and len(record.arguments.get("entity", ()))) or 1
    made = []
    for number in range(several):
        arguments: list[str | None] = []
        for place in kind.places:
            values = record.arguments.get(place.name, [])
            if len(values) > 1 and (kind.name, place.name) != ("hadMember", "entity"):
                raise InvalidInput(f"{kind.name} has {len(values)} elements prov:{place.name}, and may have one")
            arguments.append(values[min(number, len(values) - 1)] if values else None)
        id_ = record.id if kind.identified else None
        made.append(Statement(kind.name, id_, tuple(arguments), tuple(record.attributes)))
    return made
