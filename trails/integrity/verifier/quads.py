"""Read an export's N-Quads (W3C, RDF 1.1 N-Quads, section 4), and take values of a subject's properties."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, BinaryIO

TRAILS = "https://w3id.org/trails#"
PROV = "http://www.w3.org/ns/prov#"
XSD = "http://www.w3.org/2001/XMLSchema#"
TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
STRING, BOOLEAN, DATE_TIME = XSD + "string", XSD + "boolean", XSD + "dateTime"
INTEGER, DECIMAL = XSD + "integer", XSD + "decimal"
JSON = "http://www.w3.org/1999/02/22-rdf-syntax-ns#JSON"
REDACTED = TRAILS + "Redacted"


class Unreadable(Exception):
    """The file is no export that can be read."""


Term = tuple[str, str]
"""An IRI as (IRI, ""), a literal as (text, its datatype); that of a text in a language is "@" and the language."""
Properties = dict[str, list[Term]]

_SIGN = r"[^\x00-\x20<>\"{}|^`\\]"
_IRI = rf"<({_SIGN}*(?:\\(?:u[0-9A-Fa-f]{{4}}|U[0-9A-Fa-f]{{8}}){_SIGN}*)*)>"
_LITERAL = r'"([^"\\\n\r]*(?:\\.[^"\\\n\r]*)*)"(?:\^\^' + _IRI + r"|(@[A-Za-z]+(?:-[A-Za-z0-9]+)*))?"
_BLANK = r"[ \t]*"
_LINE = re.compile(
    f"{_BLANK}{_IRI}{_BLANK}{_IRI}{_BLANK}(?:{_IRI}|{_LITERAL}){_BLANK}(?:{_IRI}{_BLANK})?\\.{_BLANK}(?:#.*)?"
)
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
_ESCAPED = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", '"': '"', "'": "'", "\\": "\\"}


def _plain(text: str) -> str:
    if "\\" not in text:
        return text

    def one(found: Any) -> str:
        digits = found[1] or found[2]
        if not digits:
            return _ESCAPED[found[3]]
        if 0xD800 <= int(digits, 16) <= 0xDFFF:
            raise ValueError("half of a surrogate pair")
        return chr(int(digits, 16))

    return _ESCAPE.sub(one, text)


def read_quads(file: BinaryIO) -> Iterator[tuple[str, str, Term, str]]:
    """Yield (subject, predicate, object, graph) of each line; the default graph is "". Raise Unreadable for any other."""
    for number, data in enumerate(file, 1):
        for raw in data.rstrip(b"\n").split(b"\r"):
            try:
                line = raw.decode("utf-8")
                if not line.strip(" \t") or line.lstrip(" \t").startswith("#"):
                    continue
                found = _LINE.fullmatch(line)
                if found is None:
                    raise ValueError("it is no statement of an export")
                subject, predicate, iri, text, datatype, language, graph = found.groups()
                term = (_plain(iri), "") if text is None else (_plain(text), language or _plain(datatype or STRING))
                yield _plain(subject), _plain(predicate), term, _plain(graph or "")
            except (ValueError, KeyError, OverflowError) as error:
                raise Unreadable(f"line {number} cannot be read: {error}") from None


def graphs_of(file: BinaryIO) -> dict[str, dict[str, Properties]]:
    """Return the statements of a file by graph, subject and predicate, each once."""
    graphs: dict[str, dict[str, Properties]] = {}
    for subject, predicate, term, graph in read_quads(file):
        terms = graphs.setdefault(graph, {}).setdefault(subject, {}).setdefault(predicate, [])
        if term not in terms:
            terms.append(term)
    return graphs


_INDEX = re.compile("[0-9]{1,18}")


def index_of(text: str) -> int:
    if not _INDEX.fullmatch(text):
        raise ValueError(f"{text!r} is no number from 0")
    return int(text)


def only_value(properties: Properties, name: str) -> Term:
    values = properties.get(name, [])
    if len(values) != 1:
        raise ValueError(f"it has {len(values)} values for {name}")
    return values[0]


def typed_value(properties: Properties, name: str, wanted: str = STRING) -> str:
    """Return the one text of a property of Trails, which must have a datatype ("" for an IRI)."""
    text, datatype = only_value(properties, TRAILS + name)
    if datatype != wanted:
        raise ValueError(f"its {name} is none that Trails writes")
    return text


def first_value(properties: Properties, name: str) -> str | None:
    values = properties.get(name)
    return values[0][0] if values else None


def first_number(properties: Properties, name: str) -> int | None:
    text = first_value(properties, name)
    return None if text is None else index_of(text)
