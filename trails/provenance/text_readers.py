"""Read PROV-N and PROV-XML (W3C, 2013).

The reader of PROV-N is for the whole grammar and keeps every literal as it was written. The package `prov` reads PROV-N too,
but rewrites numbers and times, and refuses extensions, blank nodes, years before 1 and two bundles of one name. Arguments
that are left out, or written `-` where PROV-DM wants something, are read as missing: validation names them.

PROV-XML is read as a stream of elements: no document type, no entities, nothing fetched.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from xml.parsers import expat

from trails.errors import InvalidInput
from trails.provenance.statements import (
    DEFAULT_PREFIX,
    ELEMENTS,
    INTERNATIONALIZED,
    KINDS,
    MAX_DEPTH,
    NAME_TYPES,
    STRING,
    SUBTYPES,
    TYPE,
    Attribute,
    Bundle,
    Document,
    Kind,
    Namespaces,
    Statement,
    Value,
    check_size,
    decode_text,
    make_statements,
    name_value,
    without_blank_ids,
)
from trails.rdf import vocab

_LETTER: Final = (
    r"A-Za-z\u00C0-\u00D6\u00D8-\u00F6\u00F8-\u02FF\u0370-\u037D\u037F-\u1FFF\u200C\u200D"
    r"\u2070-\u218F\u2C00-\u2FEF\u3001-\uD7FF\uF900-\uFDCF\uFDF0-\uFFFD\U00010000-\U000EFFFF"
)
_CHARACTER: Final = rf"[{_LETTER}_0-9\u00B7\u0300-\u036F\u203F\u2040\-]"
_OTHER: Final = r"[/@~&+*?#$!]|%[0-9A-Fa-f]{2}|\\[='(),\-:;\[\].\"]"
_PREFIX: Final = rf"[{_LETTER}](?:(?:{_CHARACTER}|\.)*{_CHARACTER})?"
_LOCAL: Final = rf"(?:[{_LETTER}_0-9:]|{_OTHER})(?:(?:{_CHARACTER}|[.:]|{_OTHER})*(?:{_CHARACTER}|:|{_OTHER}))?"
_QUALIFIED_NAME: Final = rf"(?:{_PREFIX}:(?:{_LOCAL})?|_:{_LOCAL}|{_LOCAL})"
_TIME: Final = r"-?\d{4,}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)?"
_TOKEN: Final = re.compile(
    rf"""(?P<space>\s+|//[^\n\r]*|/\*.*?\*/)
    |(?P<iri><[^<>"{{}}|^`\\\x00-\x20]*>)
    |(?P<long>\"\"\"(?:[^"\\]|\\.|"(?!""))*\"\"\")
    |(?P<text>"(?:[^"\\\n\r]|\\.)*")
    |(?P<time>{_TIME})
    |(?P<quoted>'{_QUALIFIED_NAME}')
    |(?P<type>%%)
    |(?P<language>@[a-zA-Z]+(?:-[a-zA-Z0-9]+)*)
    |(?P<integer>-?\d+(?![\w:]))
    |(?P<name>{_QUALIFIED_NAME})
    |(?P<mark>-)
    |(?P<sign>[(),;=\[\]{{}}])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPED: Final = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
_NAMED_ESCAPES: Final = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f"}
_NAME_ESCAPE: Final = re.compile(r"\\(.)")
_INTEGER: Final = vocab.XSD + "int"


class _Token(NamedTuple):
    kind: str
    text: str
    place: int


def read_provn(data: bytes) -> Document:
    """Return what a PROV-N document says; raise `InvalidInput`, with the line, for what is none.

    >>> document = read_provn(b"document prefix ex <http://example.org/> entity(ex:e) endDocument")
    >>> document.bundles[0].statements
    [Statement(kind='entity', id='http://example.org/e', arguments=(), attributes=())]
    """
    return _ProvNParser(decode_text(data, "PROV-N")).document()


class _ProvNParser:
    """One pass over the tokens of a document."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._cut()
        self._next = 0

    def _cut(self) -> list[_Token]:
        tokens: list[_Token] = []
        place = 0
        for hit in _TOKEN.finditer(self._text):
            if hit.start() != place:
                break
            if hit.lastgroup != "space":
                tokens.append(_Token(str(hit.lastgroup), hit.group(), hit.start()))
            place = hit.end()
        if place < len(self._text):
            raise self._refused(place, f"{self._text[place : place + 20]!r} is no PROV-N")
        return [*tokens, _Token("end", "the end", place)]

    def _refused(self, place: int, reason: str) -> InvalidInput:
        line = self._text.count("\n", 0, place) + 1
        return InvalidInput(f"the PROV-N document cannot be read at line {line}: {reason}")

    # --- tokens

    def _is(self, text: str) -> bool:
        token = self._tokens[self._next]
        return token.text == text and token.kind in ("sign", "name", "mark")

    def _take(self, text: str) -> bool:
        taken = self._is(text)
        self._next += taken
        return taken

    def _want(self, text: str) -> None:
        if not self._take(text):
            token = self._tokens[self._next]
            raise self._refused(token.place, f"{text!r} is wanted where {token.text[:40]!r} stands")

    def _step(self) -> _Token:
        self._next += 1
        return self._tokens[self._next - 1]

    def _of(self, kind: str, what: str) -> str:
        token = self._tokens[self._next]
        if token.kind != kind:
            raise self._refused(token.place, f"{what} is wanted where {token.text[:40]!r} stands")
        return self._step().text

    # --- documents and bundles

    def document(self) -> Document:
        self._want("document")
        scope = self._declared(Namespaces())
        own: list[Statement] = []
        bundles: list[Bundle] = []
        prefixes = scope.prefixes
        while not self._take("endDocument"):
            if not self._take("bundle"):
                own.append(self._statement(scope))  # examples of the Recommendation go on after a bundle
                continue
            place = self._tokens[self._next].place
            name = self._of("name", "the name of a bundle")
            inner = self._declared(Namespaces(outer=scope))
            statements: list[Statement] = []
            while not self._take("endBundle"):
                statements.append(self._statement(inner))
            bundles.append(Bundle(self._iri(name, inner, place), statements))
            prefixes = {**inner.prefixes, **prefixes}
        if (token := self._tokens[self._next]).kind != "end":
            raise self._refused(token.place, f"{token.text[:40]!r} stands after the document's end")
        return Document([Bundle(None, own), *bundles], prefixes)

    def _declared(self, scope: Namespaces) -> Namespaces:
        """Take the declarations of prefixes at the beginning of a document or a bundle."""
        while (is_default := self._take("default")) or self._take("prefix"):
            prefix = DEFAULT_PREFIX if is_default else self._of("name", "a prefix")
            scope.declare(prefix, self._of("iri", "a namespace in angle brackets")[1:-1])
        return scope

    # --- statements

    def _statement(self, scope: Namespaces) -> Statement:
        place = self._tokens[self._next].place
        name = self._of("name", "a statement")
        kind = self._kind(name, scope, place)
        self._want("(")
        if kind not in KINDS:
            return self._extension(kind, scope)
        first = self._argument(scope)
        id_, arguments = (first, []) if self._take(";") else (None, [first])
        if not arguments and not self._is(")") and not self._is("["):
            arguments.append(self._argument(scope))
        while self._take(",") and not self._is("["):
            arguments.append(self._argument(scope))
        attributes = self._attributes(scope) if self._is("[") else ()
        self._want(")")
        return self._made(kind, id_, arguments, attributes, place)

    def _kind(self, name: str, scope: Namespaces, place: int) -> str:
        if name in KINDS:
            return name
        if ":" not in name:
            raise self._refused(place, f"{name[:40]!r} is no statement of PROV")
        iri = self._iri(name, scope, place)
        local = iri.removeprefix(vocab.PROV)
        return local if local in KINDS else iri

    def _made(
        self, kind: str, id_: str | None, arguments: list[str | None], attributes: tuple[Attribute, ...], place: int
    ) -> Statement:
        kind_form = KINDS[kind]
        if kind in ELEMENTS:
            if not arguments or arguments[0] is None:
                raise self._refused(place, f"{kind} names nothing")
            id_, arguments = arguments[0], arguments[1:]
        elif id_ is not None and not kind_form.identified:
            raise self._refused(place, f"{kind} takes no id")
        if len(arguments) > len(kind_form.places):
            raise self._refused(place, f"{kind} takes {len(kind_form.places)} arguments at most, not {len(arguments)}")
        filled = (*arguments, *[None] * (len(kind_form.places) - len(arguments)))
        for value, where in zip(filled, kind_form.places, strict=True):
            if value is not None and where.is_time != bool(re.fullmatch(_TIME, value)):
                wanted = "a time" if where.is_time else "a name"
                raise self._refused(place, f"the {where.name} of {kind} is {value[:40]!r}, not {wanted}")
        return Statement(kind, id_, filled, attributes)

    def _extension(self, kind: str, scope: Namespaces) -> Statement:
        """Take an extension's statement to its closing parenthesis: its arguments are names or whatever its authors chose."""
        arguments: list[str | None] = []
        depth = 1
        while depth:
            token = self._step()
            if token.kind == "end":
                raise self._refused(token.place, "a statement is not closed")
            depth += (token.text in ("(", "{", "[")) - (token.text in (")", "}", "]")) if token.kind == "sign" else 0
            if depth == 1 and token.kind != "sign":
                arguments.append(self._iri(token.text, scope, token.place) if token.kind == "name" else token.text)
        return Statement(kind, None, tuple(arguments))

    def _argument(self, scope: Namespaces) -> str | None:
        token = self._step()
        if token.kind == "mark":
            return None
        if token.kind == "name":
            return self._iri(token.text, scope, token.place)
        if token.kind in ("time", "integer", "text", "long"):
            return token.text
        raise self._refused(token.place, f"a name, a time or - is wanted where {token.text[:40]!r} stands")

    def _attributes(self, scope: Namespaces) -> tuple[Attribute, ...]:
        self._want("[")
        attributes: list[Attribute] = []
        while not self._take("]"):
            if attributes:
                self._want(",")
            place = self._tokens[self._next].place
            name = self._iri(self._of("name", "the name of an attribute"), scope, place)
            self._want("=")
            attributes.append((name, self._value(scope)))
        return tuple(attributes)

    def _value(self, scope: Namespaces) -> Value:
        token = self._step()
        if token.kind == "integer":
            return Value(token.text, _INTEGER)
        if token.kind == "quoted":
            return name_value(self._iri(token.text[1:-1], scope, token.place))
        if token.kind not in ("text", "long"):
            raise self._refused(token.place, f"a value is wanted where {token.text[:40]!r} stands")
        text = self._unescaped(token.text[3:-3] if token.kind == "long" else token.text[1:-1], token.place)
        after = self._tokens[self._next]
        if after.kind == "language":
            return Value(text, INTERNATIONALIZED, self._step().text[1:])
        if after.kind != "type":
            return Value(text)
        self._step()
        if self._tokens[self._next].kind == "iri":
            datatype = self._of("iri", "a datatype")[1:-1]
        else:
            datatype = self._iri(self._of("name", "a datatype"), scope, after.place)
        return name_value(self._iri(text, scope, token.place)) if datatype in NAME_TYPES else Value(text, datatype)

    def _unescaped(self, text: str, place: int) -> str:
        if "\\" not in text:
            return text

        def character(escape: re.Match[str]) -> str:
            short, long, named = escape.groups()
            return _NAMED_ESCAPES.get(named, named) if named else chr(int(short or long, 16))

        try:
            plain = _ESCAPED.sub(character, text)
            plain.encode()
        except (ValueError, OverflowError) as error:
            raise self._refused(place, "a text escapes what is no character") from error
        return plain

    def _iri(self, name: str, scope: Namespaces, place: int) -> str:
        try:
            return scope.iri(_NAME_ESCAPE.sub(r"\1", name) if "\\" in name else name)
        except InvalidInput as error:
            raise self._refused(place, f"{error}") from error


_XSD: Final = "http://www.w3.org/2001/XMLSchema"
_XSI_TYPE: Final = "http://www.w3.org/2001/XMLSchema-instance type"
_LANGUAGE: Final = "http://www.w3.org/XML/1998/namespace lang"
_ID: Final = f"{vocab.PROV} id"
_REF: Final = f"{vocab.PROV} ref"
_DOCUMENT: Final = vocab.PROV + "document"
_BUNDLE: Final = vocab.PROV + "bundleContent"
_XML_NAMES: Final[Mapping[str, tuple[Kind, list[Attribute]]]] = {
    **{vocab.PROV + name: (kind, []) for name, kind in KINDS.items()},
    **{
        vocab.PROV + subtype.name: (KINDS[subtype.kind], [(TYPE, name_value(vocab.PROV + type_))])
        for type_, subtype in SUBTYPES.items()
    },
}
"""The kind of statement that each element is, and the type that its name says."""


@dataclass(slots=True)
class _Element:
    """An element while it is open: a statement, or an argument or attribute of one."""

    iri: str
    attributes: Mapping[str, str]
    scope: Namespaces
    text: str = ""
    children: list[_Element] = field(default_factory=list)


def read_provxml(data: bytes) -> Document:
    """Read a PROV-XML document; raise `InvalidInput`, with the line, for what is none.

    >>> text = b'<prov:document xmlns:prov="http://www.w3.org/ns/prov#" xmlns:ex="http://example.org/">'
    >>> read_provxml(text + b'<prov:entity prov:id="ex:e"/></prov:document>').bundles[0].statements
    [Statement(kind='entity', id='http://example.org/e', arguments=(), attributes=())]
    """
    check_size(data, "PROV-XML")
    reader = _ProvXmlReader()
    try:
        reader.parser.Parse(data, True)
    except expat.ExpatError as error:
        reason = expat.errors.messages.get(error.code, str(error))
        raise InvalidInput(
            f"the document is not XML at line {error.lineno}, column {error.offset}: {reason}"
        ) from error
    except (InvalidInput, ValueError, LookupError) as error:  # LookupError: an encoding that Python does not know
        line = reader.parser.CurrentLineNumber
        raise InvalidInput(f"the PROV-XML document cannot be read at line {line}: {error}") from error
    return Document(
        [Bundle(name, without_blank_ids(statements)) for name, statements in reader.bundles], reader.prefixes
    )


class _ProvXmlReader:
    """Takes the elements of a document one by one; one statement is all that it keeps of them at a time."""

    def __init__(self) -> None:
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        self.parser.StartNamespaceDeclHandler = self._declare
        self.parser.StartDoctypeDeclHandler = self._no_doctype
        self.bundles: list[tuple[str | None, list[Statement]]] = [(None, [])]
        self.prefixes: dict[str, str] = {}
        self._open: list[_Element] = []
        self._declared: dict[str, str] = {}

    def _no_doctype(self, *_: object) -> None:
        raise InvalidInput("it has a document type, which may define entities; take it out")

    def _declare(self, prefix: str | None, namespace: str | None) -> None:
        # XML names the datatypes of XML Schema without the # that all else has
        self._declared[prefix or DEFAULT_PREFIX] = _XSD + "#" if namespace == _XSD else namespace or ""

    def _is_container(self) -> bool:
        """Tell whether the innermost open element holds statements: the document, or a bundle in it."""
        return len(self._open) == 1 or (len(self._open) == 2 and self._open[1].iri == _BUNDLE)

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        scope = self._open[-1].scope if self._open else Namespaces()
        if self._declared:
            scope = Namespaces(self._declared, scope)
            self.prefixes = {**scope.prefixes, **self.prefixes}
            self._declared = {}
        element = _Element(tag.replace(" ", ""), attributes, scope)
        if not self._open and element.iri != _DOCUMENT:
            raise InvalidInput(f"its root is {tag.rpartition(' ')[2][:80]!r}, not prov:document")
        if self._is_container() and element.iri == _BUNDLE:
            if len(self._open) > 1 or _ID not in attributes:
                raise InvalidInput("a bundle stands in a bundle, or has no prov:id")
            self.bundles.append((scope.iri(attributes[_ID]), []))
        self._open.append(element)
        if len(self._open) >= MAX_DEPTH:
            raise InvalidInput(f"it is nested deeper than {MAX_DEPTH}")

    def _text(self, text: str) -> None:
        if not self._is_container():
            self._open[-1].text += text
        elif text.strip():
            raise InvalidInput(f"the text {text.strip()[:40]!r} stands where PROV-XML has none")

    def _end(self, tag: str) -> None:
        is_bundle = len(self._open) == 2 and self._is_container()
        element = self._open.pop()
        if self._open and not self._is_container():
            self._open[-1].children.append(element)
        elif self._open and not is_bundle and element.iri != vocab.PROV + "other":
            self.bundles[-1 if len(self._open) == 2 else 0][1].extend(_xml_statements(element))


def _xml_statements(element: _Element) -> Iterator[Statement]:
    """Yield what an element says: a statement, or one for each member of a membership."""
    if element.iri not in _XML_NAMES:
        raise InvalidInput(f"{element.iri[:120]!r} is no statement of PROV-XML")
    if element.text.strip():
        raise InvalidInput(f"the text {element.text.strip()[:40]!r} stands where PROV-XML has none")
    kind, attributes = _XML_NAMES[element.iri][0], list(_XML_NAMES[element.iri][1])
    places = {vocab.PROV + place.name: place for place in kind.places}
    arguments: dict[str, list[str | None]] = defaultdict(list)
    for child in element.children:
        place, reference = places.get(child.iri), child.attributes.get(_REF)
        if child.children:
            raise InvalidInput(f"there is an element {child.children[0].iri[:80]!r} within a value")
        if place is not None and (place.is_time or reference is not None):
            arguments[place.name].append(child.text.strip() if place.is_time else child.scope.iri(reference or ""))
            if len(arguments[place.name]) > 1 and (kind.name, place.name) != ("hadMember", "entity"):
                raise InvalidInput(f"{kind.name} has several elements prov:{place.name}, and may have one")
        else:
            value = _xml_value(child) if reference is None else name_value(child.scope.iri(reference))
            attributes.append((child.iri, value))
    id_ = element.attributes.get(_ID)
    yield from make_statements(kind, None if id_ is None else element.scope.iri(id_), arguments, attributes)


def _xml_value(element: _Element) -> Value:
    text, language, named = element.text, element.attributes.get(_LANGUAGE), element.attributes.get(_XSI_TYPE)
    if language is not None:
        return Value(text, INTERNATIONALIZED, language)
    datatype = STRING if named is None else element.scope.iri(named)
    if datatype not in NAME_TYPES:
        return Value(text, datatype)
    if ":" not in text and DEFAULT_PREFIX not in element.scope.prefixes:
        return Value(text.strip(), datatype)  # in no namespace, as the Recommendation's own examples have it
    return name_value(element.scope.iri(text.strip()))
