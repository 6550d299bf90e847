"""Write PROV statements in each format, a statement at a time.

- PROV-JSONLD (W3C member submission, 2024): `mentionOf`, for which the submission has no term, is left out.
- PROV-JSON (W3C member submission, 2013) has all statements of a kind together, which a stream has not: they go to a temporary
  database, and from there into the document when the bundle ends. What has no id gets the name of a blank node,
  which the format needs as a key; statements of a kind with the same id are a list under it.
- PROV-XML (W3C, 2013): the schema has the arguments first, then prov:label, location, role, type and value, then all else. A
  character that XML 1.0 cannot hold becomes U+FFFD.
- PROV-O in Turtle and TriG: a statement with an id, a time, a further argument or attributes is written both ways, as PROV-O's
  property between its two things and as a qualified node, which has the rest.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, TextIO
from xml.sax.saxutils import escape, quoteattr

import pyoxigraph as ox

from trails.errors import InvalidInput
from trails.provenance.rdf_mapping import BUNDLE_OF_MENTION, PROV, RDF_NAMES, RELATIONS
from trails.provenance.statements import (
    BLANK,
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
from trails.rdf import vocab

PREFIXES: Final[Mapping[str, str]] = {
    "prov": vocab.PROV,
    "xsd": vocab.XSD,
    "rdf": vocab.RDF,
    "rdfs": vocab.RDFS,
    "trails": vocab.TRAILS,
    "session": "urn:trails:session:",
    "principal": "urn:trails:principal:",
    "agent": "urn:trails:agent:",
    "tool": "urn:trails:tool:",
    "urn": "urn:",
    "http": "http:",
    "https": "https:",
}
"""The prefixes that an export declares; the last three stand for whatever the others do not cover."""


class PrefixNames:
    """IRIs as names with prefixes, the longest namespace first."""

    def __init__(self, prefixes: Mapping[str, str]) -> None:
        """Take the prefixes of a document and, beside them, those of every export."""
        every = {
            **PREFIXES,
            **{prefix: iri for prefix, iri in prefixes.items() if prefix and prefix not in PREFIXES},
        }
        self.prefixes = every
        self._prefix_of = {iri: prefix for prefix, iri in reversed(every.items())}
        longest = sorted(self._prefix_of, key=len, reverse=True)
        self._namespace = re.compile("|".join(map(re.escape, longest))).match
        self.split = lru_cache(maxsize=4096)(self._split)
        self.name = lru_cache(maxsize=4096)(self._name)

    def _split(self, iri: str) -> tuple[str, str]:
        """Return prefix and local part of an IRI; raise `InvalidInput` for one that no prefix covers."""
        if iri.startswith(BLANK):
            return "_", iri[2:]
        namespace = self._namespace(iri)
        if namespace is None:
            raise InvalidInput(f"no prefix of the document covers {iri[:200]!r}; declare one for it")
        return self._prefix_of[namespace.group()], iri[namespace.end() :]

    def _name(self, iri: str) -> str:
        return ":".join(self._split(iri))


class Writer:
    """Writes one document: `begin`, then statements, each bundle's between `open` and `close`, then `end`."""

    opening = closing = ending = ""
    """What begins a bundle, given its name, what ends one, and what ends the document."""

    def __init__(self, out: TextIO, prefixes: Mapping[str, str] | None = None) -> None:
        """Nothing is written yet."""
        self.out = out
        self.names = PrefixNames(prefixes or {})

    def begin(self) -> None:
        """Write what comes before all statements."""

    def bundle_name(self, bundle: str) -> str:
        """Return a bundle's name as the format writes it."""
        return self.names.name(bundle)

    def open(self, bundle: str) -> None:
        """Begin a bundle."""
        self.out.write(self.opening.format(self.bundle_name(bundle)))

    def close(self) -> None:
        """End a bundle."""
        self.out.write(self.closing)

    def end(self) -> None:
        """End the document."""
        self.out.write(self.ending)

    def line(self, statement: Statement) -> str:
        """Return a statement as the format writes it."""
        raise NotImplementedError

    def write(self, statements: Iterable[Statement]) -> None:
        """Write statements where the document is."""
        for statement in statements:
            self.out.write(self.line(statement))


CONTEXT: Final = "https://openprovenance.org/prov-jsonld/context.jsonld"
_SPECIAL: Final = {TYPE: "type", LABEL: "label", ROLE: "role", LOCATION: "location"}
_JSONLD_NAMES: Final = frozenset({TYPE, ROLE, LOCATION})
_BY_KEY: Final = """SELECT key, text FROM (
    SELECT key, text, rowid AS place, min(rowid) OVER (PARTITION BY key) AS first FROM record WHERE kind = ?
) ORDER BY first, place"""


class JsonLdWriter(Writer):
    """Writes PROV-JSONLD."""

    closing, ending = "\n]}", "\n]}\n"

    def begin(self) -> None:
        """Write the context: the document's prefixes, and the submission's by its address."""
        self._joint = "\n"
        context = json.dumps([dict(self.names.prefixes), CONTEXT])
        self.out.write(f'{{"@context": {context}, "@graph": [')

    def open(self, bundle: str) -> None:
        """Begin a bundle."""
        name = json.dumps(self.names.name(bundle))
        self.out.write(f'{self._joint}{{"@type": "Bundle", "@id": {name}, "@context": [], "@graph": [')
        self._joint = "\n"

    def close(self) -> None:
        """End a bundle."""
        super().close()
        self._joint = ",\n"

    def write(self, statements: Iterable[Statement]) -> None:
        """Write statements, each on its line."""
        for statement in statements:
            if statement.kind != "mentionOf":
                self.out.write(self._joint + self.line(statement))
                self._joint = ",\n"

    def line(self, statement: Statement) -> str:
        """Return a statement as the format writes it."""
        name, kind = self.names.name, KINDS[statement.kind]
        fields: dict[str, Any] = {"@type": kind.type}
        if statement.id is not None:
            fields["@id"] = name(statement.id)
        for value, place in zip(statement.arguments, kind.places, strict=True):
            if value is not None:
                fields[place.name] = value if place.is_time else name(value)
        for attribute, said in statement.attributes:
            is_value = attribute == VALUE and statement.kind == "entity"
            key = "value" if is_value else _SPECIAL.get(attribute) or name(attribute)
            fields.setdefault(key, []).append(self._value(attribute, said))
        return json.dumps(fields)

    def _value(self, attribute: str, value: Value) -> object:
        text, datatype, language = value
        if datatype == STRING:
            return {"@value": text}
        if datatype == QUALIFIED_NAME:
            name = self.names.name(text)
            return name if attribute in _JSONLD_NAMES else {"@value": name, "@type": "xsd:QName"}
        if datatype == INTERNATIONALIZED and language:
            return {"@value": text, "@language": language}
        return {"@value": text, "@type": self.names.name(datatype)}


class ProvJsonWriter(Writer):
    """Writes PROV-JSON."""

    def begin(self) -> None:
        """Write the prefixes."""
        self._bundles = self._count = 0
        self._records = sqlite3.connect("")  # a temporary file: a document may have very many statements
        self._records.execute("CREATE TABLE record (kind, key, text)")
        self.out.write(f'{{"prefix": {json.dumps(dict(self.names.prefixes))}')

    def open(self, bundle: str) -> None:
        """Begin a bundle; the document's own statements are over with the first."""
        self._flush(", ")
        self.out.write(', "bundle": {\n' if not self._bundles else ",\n")
        self._bundles += 1
        self.out.write(f"{json.dumps(self.names.name(bundle))}: {{")

    def close(self) -> None:
        """End a bundle."""
        self._flush("")
        self.out.write("}")

    def end(self) -> None:
        """End the document."""
        if self._bundles:
            self.out.write("}")
        else:
            self._flush(", ")
        self.out.write("}\n")
        self._records.close()

    def _flush(self, joint: str) -> None:
        """Write the records that were kept: a kind after the other, those of one key in a list."""
        kinds = self._records.execute("SELECT kind FROM record GROUP BY kind ORDER BY min(rowid)").fetchall()
        for kind in kinds:
            self.out.write(f'{joint}\n"{kind[0]}": {{')
            joint, between = ", ", "\n"
            for key, rows in groupby(self._records.execute(_BY_KEY, kind), itemgetter(0)):
                first, *more = (text for _, text in rows)
                self.out.write(f"{between}{key}: " + (f"[{', '.join([first, *more])}]" if more else first))
                between = ",\n"
            self.out.write("}")
        self._records.execute("DELETE FROM record")

    def write(self, statements: Iterable[Statement]) -> None:
        """Keep statements until all of their kind are there."""
        self._records.executemany("INSERT INTO record VALUES (?, ?, ?)", map(self._record, statements))

    def _record(self, statement: Statement) -> tuple[str, str, str]:
        self._count += statement.id is None
        key = f"_:n{self._count}" if statement.id is None else self.names.name(statement.id)
        return statement.kind, json.dumps(key), self.line(statement)

    def line(self, statement: Statement) -> str:
        """Return a statement without its key."""
        name = self.names.name
        arguments = {
            f"prov:{place.name}": value if place.is_time else name(value)
            for value, place in zip(statement.arguments, KINDS[statement.kind].places, strict=True)
            if value is not None
        }
        grouped: dict[str, list[object]] = {}
        for attribute, value in statement.attributes:
            grouped.setdefault(name(attribute), []).append(self._value(value))
        return json.dumps(arguments | {key: each[0] if len(each) == 1 else each for key, each in grouped.items()})

    def _value(self, value: Value) -> object:
        text, datatype, language = value
        if datatype == QUALIFIED_NAME:
            return {"$": self.names.name(text), "type": "prov:QUALIFIED_NAME"}
        if datatype == STRING:
            return text
        if datatype == INTERNATIONALIZED and language:
            return {"$": text, "lang": language}
        return {"$": text, "type": self.names.name(datatype)}


_ESCAPED: Final = re.compile(r"""[='(),:;\[\]"]|^[-.]|\.$""")
_TEXT: Final = str.maketrans(
    {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}
)
_PREDECLARED: Final = ("prov", "xsd")


class ProvNWriter(Writer):
    """Writes PROV-N, a statement a line."""

    opening, closing, ending = "bundle {}\n", "endBundle\n", "endDocument\n"

    def begin(self) -> None:
        """Write the prefixes; prov and xsd hold without."""
        self.bundle_name = self._name = lru_cache(maxsize=4096)(self._escaped)  # type: ignore[method-assign] # with a memory
        self.out.write("document\n")
        for prefix, iri in self.names.prefixes.items():
            if prefix not in _PREDECLARED:
                self.out.write(f"prefix {prefix} <{iri}>\n")

    def _escaped(self, iri: str) -> str:
        prefix, local = self.names.split(iri)
        return prefix + ":" + _ESCAPED.sub(r"\\\g<0>", local)

    def line(self, statement: Statement) -> str:
        """Return a statement as the format writes it."""
        places = KINDS[statement.kind].places
        arguments = [
            "-" if value is None else value if place.is_time else self._name(value)
            for value, place in zip(statement.arguments, places, strict=True)
        ]
        id_ = "" if statement.id is None else self._name(statement.id)
        if statement.kind in ELEMENTS:
            arguments, id_ = [id_, *arguments], ""
        if statement.attributes:
            attributes = ", ".join(f"{self._name(name)}={self._value(value)}" for name, value in statement.attributes)
            arguments.append(f"[{attributes}]")
        return f"{statement.kind}({id_}{'; ' if id_ else ''}{', '.join(arguments)})\n"

    def _value(self, value: Value) -> str:
        text, datatype, language = value
        if datatype == QUALIFIED_NAME:
            return f"'{self._name(text)}'"
        quoted = f'"{text.translate(_TEXT)}"'
        if datatype == STRING:
            return quoted
        if datatype == INTERNATIONALIZED and language:
            return f"{quoted}@{language}"
        return f"{quoted} %% {self._name(datatype)}"


_ORDER: Final = {name: place for place, name in enumerate((LABEL, LOCATION, ROLE, TYPE, VALUE))}
_TYPED: Final = frozenset({TYPE, LOCATION, VALUE, ROLE})
_NOT_XML: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LOCAL: Final = re.compile(r"[A-Za-z_][\w.\-]*\Z")
_AS_REFERENCES: Final = {"\r": "&#13;", "\x7f": "&#127;"}
_LAST: Final = len(_ORDER)


class ProvXmlWriter(Writer):
    """Writes PROV-XML."""

    opening, closing, ending = "<prov:bundleContent prov:id={}>\n", "</prov:bundleContent>\n", "</prov:document>\n"

    def bundle_name(self, bundle: str) -> str:
        """Return a bundle's name as an attribute."""
        return quoteattr(self.names.name(bundle))

    def begin(self) -> None:
        """Write the root with all namespaces; XML names the datatypes of XML Schema without the # that all else has."""
        declared = {**self.names.prefixes, "xsd": vocab.XSD[:-1], "xsi": vocab.XSD[:-1] + "-instance"}
        declarations = " ".join(f"xmlns:{prefix}={quoteattr(iri)}" for prefix, iri in declared.items())
        self.out.write(f'<?xml version="1.0" encoding="UTF-8"?>\n<prov:document {declarations}>\n')

    def line(self, statement: Statement) -> str:
        """Return a statement as the format writes it."""
        name = self.names.name
        id_ = "" if statement.id is None else f" prov:id={quoteattr(name(statement.id))}"
        pieces = [f"<prov:{statement.kind}{id_}>"]
        for value, place in zip(statement.arguments, KINDS[statement.kind].places, strict=True):
            if value is not None and place.is_time:
                pieces.append(f"<prov:{place.name}>{escape(value)}</prov:{place.name}>")
            elif value is not None:
                pieces.append(f"<prov:{place.name} prov:ref={quoteattr(name(value))}/>")
        pieces += map(self._attribute, sorted(statement.attributes, key=lambda each: _ORDER.get(each[0], _LAST)))
        pieces.append(f"</prov:{statement.kind}>\n")
        # what is not ASCII as references to characters: the same to a reader, and nothing that steers a terminal
        return "".join(pieces).encode("ascii", "xmlcharrefreplace").decode()

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


_SHORT: Final = re.compile(r"[A-Za-z_0-9](?:[A-Za-z_0-9\-]*)\Z")
_RDF_NAMES: Final = {name: iri for iri, name in RDF_NAMES.items()} | {TYPE: vocab.RDF + "type"}
_SUBTYPES: Final = {
    (relation.kind, PROV + relation.subtype): iri for iri, relation in RELATIONS.items() if relation.subtype is not None
}
_TIME: Final = '"{}"^^xsd:dateTime'


class TurtleWriter(Writer):
    """Writes Turtle, which has no bundles."""

    def begin(self) -> None:
        """Write the prefixes."""
        self._count = 0
        self.bundle_name = self._node = lru_cache(maxsize=4096)(self._made)  # type: ignore[method-assign] # with a memory
        for prefix, iri in self.names.prefixes.items():
            self.out.write(f"@prefix {prefix}: <{iri}> .\n")

    def line(self, statement: Statement) -> str:
        """Return a statement with its predicates."""
        return self._element(statement) if statement.kind in ELEMENTS else "".join(self._relation(statement))

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
        return f"{self._node(str(statement.id))} {self._parts(statement)} .\n"

    def _parts(self, statement: Statement) -> str:
        """Return what is said of an element, or of the node of a relation."""
        kind = KINDS[statement.kind]
        parts = [f"a prov:{kind.type}"]
        for value, place in zip(statement.arguments, kind.places, strict=False):
            if value is not None and place.predicate is not None:
                parts.append(
                    f"{self._node(place.predicate)} {_TIME.format(value) if place.is_time else self._node(value)}"
                )
        parts += [
            f"{self._node(_RDF_NAMES.get(name, name))} {self._value(value)}" for name, value in statement.attributes
        ]
        return " ; ".join(parts)

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
        name = PROV + statement.kind
        types = [value.text for attribute, value in statement.attributes if attribute == TYPE]
        name = next((_SUBTYPES[statement.kind, each] for each in types if (statement.kind, each) in _SUBTYPES), name)
        if other is not None:
            yield f"{self._node(subject)} {self._node(name)} {self._node(other)} .\n"
        if statement.kind == "mentionOf" and statement.arguments[2] is not None:
            yield f"{self._node(subject)} {self._node(BUNDLE_OF_MENTION)} {self._node(statement.arguments[2])} .\n"
        kind = KINDS[statement.kind]
        is_plain = not (statement.id or statement.attributes or any(statement.arguments[2:])) and other is not None
        if is_plain or not kind.identified:
            return
        node = statement.id
        if node is None:
            self._count += 1
            node = f"_:q{self._count}"
        yield f"{self._node(subject)} {self._node(f'{PROV}qualified{kind.type}')} {self._node(node)} .\n"
        yield f"{self._node(node)} {self._parts(statement)} .\n"


class TrigWriter(TurtleWriter):
    """Writes TriG, a graph for each bundle."""

    opening, closing = "{} {{\n", "}\n"
