"""PROV-N (W3C, 2013) as statements: a reader of our own for the whole grammar.

What the grammar has no place for is refused with its line. Arguments that are left out at the end, or written `-` where
PROV-DM wants something, are read as missing: that is for validation to name.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from trails import vocab
from trails.errors import InvalidInput
from trails.prov.names import DEFAULT, Scope
from trails.prov.readers.bounds import decoded
from trails.prov.statements import (
    ELEMENTS,
    INTERNATIONALIZED,
    KINDS,
    NAME_TYPES,
    Attribute,
    Bundle,
    Document,
    Statement,
    Value,
    name_value,
)

_LETTER: Final = (
    r"A-Za-z\u00C0-\u00D6\u00D8-\u00F6\u00F8-\u02FF\u0370-\u037D\u037F-\u1FFF\u200C\u200D"
    r"\u2070-\u218F\u2C00-\u2FEF\u3001-\uD7FF\uF900-\uFDCF\uFDF0-\uFFFD\U00010000-\U000EFFFF"
)
_CHARACTER: Final = rf"[{_LETTER}_0-9\u00B7\u0300-\u036F\u203F\u2040\-]"
_OTHER: Final = r"[/@~&+*?#$!]|%[0-9A-Fa-f]{2}|\\[='(),\-:;\[\].\"]"
_PREFIX: Final = rf"[{_LETTER}](?:(?:{_CHARACTER}|\.)*{_CHARACTER})?"
_LOCAL: Final = rf"(?:[{_LETTER}_0-9:]|{_OTHER})(?:(?:{_CHARACTER}|[.:]|{_OTHER})*(?:{_CHARACTER}|:|{_OTHER}))?"
_NAME: Final = rf"(?:{_PREFIX}:(?:{_LOCAL})?|_:{_LOCAL}|{_LOCAL})"
_TIME: Final = r"-?\d{4,}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)?"
_TOKEN: Final = re.compile(
    rf"""(?P<space>\s+|//[^\n\r]*|/\*.*?\*/)
    |(?P<iri><[^<>"{{}}|^`\\\x00-\x20]*>)
    |(?P<long>\"\"\"(?:[^"\\]|\\.|"(?!""))*\"\"\")
    |(?P<text>"(?:[^"\\\n\r]|\\.)*")
    |(?P<time>{_TIME})
    |(?P<quoted>'{_NAME}')
    |(?P<type>%%)
    |(?P<language>@[a-zA-Z]+(?:-[a-zA-Z0-9]+)*)
    |(?P<integer>-?\d+(?![\w:]))
    |(?P<name>{_NAME})
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


def read(data: bytes) -> Document:
    """Return what a PROV-N document says; raise `InvalidInput`, with the line, for what is none.

    >>> document = read(b"document prefix ex <http://example.org/> entity(ex:e) endDocument")
    >>> document.bundles[0].statements
    [Statement(kind='entity', id='http://example.org/e', arguments=(), attributes=())]
    """
    text = decoded(data, "PROV-N")
    return _Parser(text).document()


class _Parser:
    """One pass over the tokens of a document."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._cut()
        self._next = 0

    def _cut(self) -> list[_Token]:
        found: list[_Token] = []
        place, end = 0, len(self._text)
        match = _TOKEN.match
        while place < end:
            hit = match(self._text, place)
            if hit is None:
                raise self._refused(place, f"{self._text[place : place + 20]!r} is no PROV-N")
            if hit.lastgroup != "space":
                found.append(_Token(str(hit.lastgroup), hit.group(), place))
            place = hit.end()
        found.append(_Token("end", "the end", end))
        return found

    def _refused(self, place: int, reason: str) -> InvalidInput:
        return InvalidInput(
            f"the PROV-N document cannot be read at line {self._text.count(chr(10), 0, place) + 1}: {reason}"
        )

    # --- tokens

    def _is(self, text: str) -> bool:
        token = self._tokens[self._next]
        return token.text == text and token.kind in ("sign", "name", "mark")

    def _take(self, text: str) -> bool:
        if self._is(text):
            self._next += 1
            return True
        return False

    def _want(self, text: str) -> None:
        if not self._take(text):
            token = self._tokens[self._next]
            raise self._refused(token.place, f"{text!r} is wanted where {token.text[:40]!r} stands")

    def _of(self, kind: str, what: str) -> str:
        token = self._tokens[self._next]
        if token.kind != kind:
            raise self._refused(token.place, f"{what} is wanted where {token.text[:40]!r} stands")
        self._next += 1
        return token.text

    # --- documents and bundles

    def document(self) -> Document:
        self._want("document")
        scope = self._declared(Scope())
        ends = ("bundle", "endDocument")
        own = self._statements(scope, ends)
        bundles = [Bundle(None, own)]
        prefixes = scope.prefixes
        while self._take("bundle"):
            name = self._of("name", "the name of a bundle")
            place = self._tokens[self._next - 1].place
            inner = self._declared(Scope(outer=scope))
            statements = self._statements(inner, ("endBundle",))
            bundles.append(Bundle(self._iri(name, inner, place), statements))
            prefixes = {**inner.prefixes, **prefixes}
            self._want("endBundle")
            own += self._statements(scope, ends)  # examples of the Recommendation go on after a bundle
        self._want("endDocument")
        if (token := self._tokens[self._next]).kind != "end":
            raise self._refused(token.place, f"{token.text[:40]!r} stands after the document's end")
        return Document(bundles, prefixes)

    def _declared(self, scope: Scope) -> Scope:
        """Take the declarations of prefixes at the beginning of a document or a bundle."""
        while True:
            if self._take("default"):
                scope.declare(DEFAULT, self._of("iri", "a namespace in angle brackets")[1:-1])
            elif self._take("prefix"):
                prefix = self._of("name", "a prefix")
                scope.declare(prefix, self._of("iri", "a namespace in angle brackets")[1:-1])
            else:
                return scope

    def _statements(self, scope: Scope, ends: tuple[str, ...]) -> list[Statement]:
        found: list[Statement] = []
        while not any(self._is(end) for end in ends):
            found.append(self._statement(scope))
        return found

    # --- statements

    def _statement(self, scope: Scope) -> Statement:
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
        attributes: tuple[Attribute, ...] = ()
        while self._take(","):
            if self._is("["):
                attributes = self._attributes(scope)
                break
            arguments.append(self._argument(scope))
        if self._is("["):
            attributes = self._attributes(scope)
        self._want(")")
        return self._made(kind, id_, arguments, attributes, place)

    def _kind(self, name: str, scope: Scope, place: int) -> str:
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
        known = KINDS[kind]
        if kind in ELEMENTS:
            if not arguments or arguments[0] is None:
                raise self._refused(place, f"{kind} names nothing")
            id_, arguments = arguments[0], arguments[1:]
        elif id_ is not None and not known.identified:
            raise self._refused(place, f"{kind} takes no id")
        if len(arguments) > len(known.places):
            raise self._refused(place, f"{kind} takes {len(known.places)} arguments at most, not {len(arguments)}")
        filled = (*arguments, *[None] * (len(known.places) - len(arguments)))
        for value, where in zip(filled, known.places, strict=True):
            if value is not None and where.is_time != bool(re.fullmatch(_TIME, value)):
                wanted = "a time" if where.is_time else "a name"
                raise self._refused(place, f"the {where.name} of {kind} is {value[:40]!r}, not {wanted}")
        return Statement(kind, id_, filled, attributes)

    def _extension(self, kind: str, scope: Scope) -> Statement:
        """Take an extension's statement to its closing parenthesis: its arguments are names or whatever its authors chose."""
        arguments: list[str | None] = []
        depth = 1
        while depth:
            token = self._tokens[self._next]
            if token.kind == "end":
                raise self._refused(token.place, "a statement is not closed")
            self._next += 1
            depth += (token.text in ("(", "{", "[")) - (token.text in (")", "}", "]")) if token.kind == "sign" else 0
            if depth == 1 and token.kind != "sign":
                arguments.append(self._iri(token.text, scope, token.place) if token.kind == "name" else token.text)
        return Statement(kind, None, tuple(arguments))

    def _argument(self, scope: Scope) -> str | None:
        token = self._tokens[self._next]
        self._next += 1
        if token.kind == "mark":
            return None
        if token.kind == "name":
            return self._iri(token.text, scope, token.place)
        if token.kind in ("time", "integer", "text", "long"):
            return token.text
        raise self._refused(token.place, f"a name, a time or - is wanted where {token.text[:40]!r} stands")

    def _attributes(self, scope: Scope) -> tuple[Attribute, ...]:
        self._want("[")
        found: list[Attribute] = []
        while not self._take("]"):
            if found:
                self._want(",")
            place = self._tokens[self._next].place
            name = self._iri(self._of("name", "the name of an attribute"), scope, place)
            self._want("=")
            found.append((name, self._value(scope)))
        return tuple(found)

    def _value(self, scope: Scope) -> Value:
        token = self._tokens[self._next]
        self._next += 1
        if token.kind == "integer":
            return Value(token.text, _INTEGER)
        if token.kind == "quoted":
            return name_value(self._iri(token.text[1:-1], scope, token.place))
        if token.kind not in ("text", "long"):
            raise self._refused(token.place, f"a value is wanted where {token.text[:40]!r} stands")
        text = self._unescaped(token.text[3:-3] if token.kind == "long" else token.text[1:-1], token.place)
        after = self._tokens[self._next]
        if after.kind == "language":
            self._next += 1
            return Value(text, INTERNATIONALIZED, after.text[1:])
        if after.kind != "type":
            return Value(text)
        self._next += 1
        datatype = self._datatype(scope)
        return name_value(self._iri(text, scope, token.place)) if datatype in NAME_TYPES else Value(text, datatype)

    def _datatype(self, scope: Scope) -> str:
        token = self._tokens[self._next]
        if token.kind == "iri":
            return self._of("iri", "a datatype")[1:-1]
        return self._iri(self._of("name", "a datatype"), scope, token.place)

    def _unescaped(self, text: str, place: int) -> str:
        if "\\" not in text:
            return text

        def character(escape: re.Match[str]) -> str:
            short, long, named = escape.groups()
            if named:
                return _NAMED_ESCAPES.get(named, named)
            return chr(int(short or long, 16))

        try:
            made = _ESCAPED.sub(character, text)
            made.encode()
        except (ValueError, OverflowError) as error:
            raise self._refused(place, "a text escapes what is no character") from error
        return made

    def _iri(self, name: str, scope: Scope, place: int) -> str:
        try:
            return scope.iri(_NAME_ESCAPE.sub(r"\1", name) if "\\" in name else name)
        except InvalidInput as error:
            raise self._refused(place, f"{error}") from error
