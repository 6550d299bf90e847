"""SPARQL results as tab-separated terms (W3C SPARQL 1.1 Query Results TSV): many rows in one step of the engine.

The engine hands out rows one at a time, and beside a thread that computes in Python each may wait for the
interpreter's lock: 1.5 ms a row, measured. As one text, all rows take one such wait.
"""

from __future__ import annotations

import io
import json
import re
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from typing import IO, Any, BinaryIO, Final, cast, overload

import pyoxigraph as ox
from pyoxigraph import (
    BlankNode,
    Literal,
    NamedNode,
    QueryResultsFormat,
    QuerySolution,
    QuerySolutions,
    Store,
    Triple,
    Variable,
    parse_query_results,
)

from trails.rdf import vocab

LONGEST: Final = 512 * 1024
"""Characters of a term up to which `parsed` takes it, beside others of a row."""
_STEP: Final = 64
_ESCAPE: Final = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
_NAMED: Final = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", '"': '"', "'": "'", "\\": "\\"}
_DATE_TIME: Final = f'"^^{vocab.DATE_TIME}'
_JSON: Final = f'"^^{vocab.JSON}'
_REDACTED: Final = f'"^^{vocab.REDACTED}'


def table(data: bytes) -> list[list[str]]:
    """Return the terms of all rows, as they are written; "" where a variable is unbound.

    >>> table(b'?a\\t?b\\n<urn:x>\\t"one"\\n1\\t\\n')
    [['<urn:x>', '"one"'], ['1', '']]
    """
    return [line.split("\t") for line in data.decode().split("\n")[1:-1]]


class Lines(Sequence[list[str]]):
    """The terms of many rows, as `table` returns them, split when they are asked for: in memory is the text alone."""

    def __init__(self, data: bytes | bytearray) -> None:
        """Take what the engine wrote."""
        self._data = data
        self._marks = array("Q")
        """Where each 64th row begins, and the last one ends."""
        self._count = 0
        at = data.find(b"\n") + 1
        while at < len(data):
            self._marks.append(at)
            for _ in range(_STEP):
                at = data.index(b"\n", at) + 1
                self._count += 1
                if at == len(data):
                    break
        self._marks.append(at)

    def __len__(self) -> int:
        return self._count

    def _block(self, number: int) -> list[list[str]]:
        text = self._data[self._marks[number] : self._marks[number + 1]].decode()
        return [line.split("\t") for line in text.split("\n")[:-1]]

    def __iter__(self) -> Iterator[list[str]]:
        for number in range(len(self._marks) - 1):
            yield from self._block(number)

    @overload
    def __getitem__(self, index: int) -> list[str]: ...
    @overload
    def __getitem__(self, index: slice) -> list[list[str]]: ...
    def __getitem__(self, index: int | slice) -> list[str] | list[list[str]]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(self._count))]
        place = index + self._count if index < 0 else index
        if not 0 <= place < self._count:
            raise IndexError(f"there are {self._count} rows, and none at {index}")
        return self._block(place // _STEP)[place % _STEP]


def rows(source: IO[bytes]) -> Iterator[list[str]]:
    """Yield the terms of the rows of a file as `table` returns them, and close it in the end."""
    # in the engine's TSV a line ends in nothing but a newline, and a text's own newlines are escaped
    with io.TextIOWrapper(cast(BinaryIO, source), encoding="utf-8", newline="\n") as lines:
        next(lines, None)
        for line in lines:
            yield line[:-1].split("\t")


def parsed(names: Sequence[str], rows: Sequence[Sequence[str]]) -> list[QuerySolution]:
    """Return the rows of terms as the engine gives them: it alone makes its rows."""
    if any(len(cell) > LONGEST for row in rows for cell in row):
        return [made for row in rows for made in _parsed_long(names, row)]
    lines = ["\t".join(f"?{name}" for name in names), *map("\t".join, rows), ""]
    found = parse_query_results("\n".join(lines).encode(), format=QueryResultsFormat.TSV)
    assert isinstance(found, QuerySolutions)  # noqa: S101 - a table is never a yes or no
    return list(found)


def _parsed_long(names: Sequence[str], row: Sequence[str]) -> list[QuerySolution]:
    """Return a row of which a term may be longer than the engine reads: 16 MiB."""
    if all(len(cell) <= LONGEST for cell in row):
        return parsed(names, [row])
    given: dict[Variable, NamedNode | BlankNode | Literal | Triple] = {
        Variable(name): term(cell) for name, cell in zip(names, row, strict=True) if cell
    }
    made = Store().query(f"SELECT {' '.join('?' + name for name in names)} {{}}", substitutions=given)
    assert isinstance(made, QuerySolutions)  # noqa: S101 - it is a SELECT
    return list(made)


def iri(term: str) -> str:
    """Return the IRI that a term is; raise ValueError for any other term.

    >>> iri("<urn:x>")
    'urn:x'
    """
    if term[:1] != "<":
        raise ValueError(f"{term} is no IRI")
    return term[1:-1]


def integer(term: str) -> int:
    """Return the whole number from 0 that a term is, an xsd:integer; raise ValueError for any other term."""
    if not term.isascii() or not term.isdecimal():
        raise ValueError(f"{term} is no whole number")
    return int(term)


def string(term: str) -> str:
    """Return the text that a plain string is; raise ValueError for any other term, other datatypes too.

    >>> string(r'"a\\tb"'), string('"c"')
    ('a\\tb', 'c')
    """
    if term[:1] != '"' or term[-1] != '"':
        raise ValueError(f"{term} is no plain string")
    return _unescaped(term[1:-1])


def date_time(term: str) -> str | None:
    """Return the lexical form of an xsd:dateTime, None for an unbound variable; raise ValueError for any other term."""
    if not term:
        return None
    if term[:1] != '"' or not term.endswith(_DATE_TIME):
        raise ValueError(f"{term} is no time")
    return _unescaped(term[1 : -len(_DATE_TIME)])


def content(term: str) -> tuple[str, bool, bool]:
    """Return (text, structured, redacted) of a turn's content; raise ValueError for a term that is none."""
    if term[:1] == '"':
        if term[-1] == '"':
            return _unescaped(term[1:-1]), False, False
        if term.endswith(_JSON):
            return _unescaped(term[1 : -len(_JSON)]), True, False
        if term.endswith(_REDACTED):
            return _unescaped(term[1 : -len(_REDACTED)]), False, True
    raise ValueError(f"{term} is no content of a turn")


def term(text: str) -> Literal | NamedNode:
    """Return the IRI or literal that a text stands for; raise ValueError for any other term.

    >>> term('<urn:x>'), term('"a"')
    (<NamedNode value=urn:x>, <Literal value=a datatype=<NamedNode value=http://www.w3.org/2001/XMLSchema#string>>)
    """
    if text[:1] == "<":
        return NamedNode(iri(text))
    if text[:1] == '"' and text[-1] == '"':
        return Literal(_unescaped(text[1:-1]))
    value, kind, language = literal(text)
    return Literal(value, language=language) if language else Literal(value, datatype=_datatype(kind))


def text(term: Literal | NamedNode) -> str:
    """Return an IRI or a literal just as the engine writes it: what `term` reads.

    >>> text(NamedNode("urn:x")), text(Literal('a"')), text(Literal(5)), text(Literal("5", datatype=NamedNode("urn:t")))
    ('<urn:x>', '"a\\\\""', '5', '"5"^^<urn:t>')
    """
    value = term.value
    if isinstance(term, NamedNode):
        return f"<{value}>"
    kind = term.datatype.value
    if kind in _SHORT or (kind == vocab.DECIMAL.value and "." in value and "E" not in value):
        return value
    quoted = f'"{value.translate(_ESCAPES)}"'
    if term.language:
        return f"{quoted}@{term.language}"
    return quoted if kind == vocab.STRING.value else f"{quoted}^^<{kind}>"


_SHORT: Final = frozenset({vocab.INTEGER.value, vocab.BOOLEAN.value})
_ESCAPES: Final = str.maketrans({"\t": "\\t", "\n": "\\n", "\r": "\\r", '"': '\\"', "\\": "\\\\"})


@lru_cache(maxsize=64)
def _datatype(kind: str) -> NamedNode:
    return NamedNode(kind)


def literal(term: str) -> tuple[str, str, str]:
    """Return text, datatype and language of any literal; raise ValueError for another term.

    >>> literal('1'), literal('"a"@en'), literal('"x"^^<urn:t>')
    (('1', 'http://www.w3.org/2001/XMLSchema#integer', ''), ('a', '', 'en'), ('x', 'urn:t', ''))
    """
    if term[:1] != '"':
        if term in ("true", "false"):
            return term, vocab.BOOLEAN.value, ""
        if not term or term[0] not in "+-.0123456789":
            raise ValueError(f"{term} is no literal")
        kind = vocab.DOUBLE if "e" in term or "E" in term else vocab.DECIMAL if "." in term else vocab.INTEGER
        return term, kind.value, ""
    end = term.rindex('"')
    text, rest = _unescaped(term[1:end]), term[end + 1 :]
    if not rest:
        return text, vocab.STRING.value, ""
    return (text, "", rest[1:]) if rest[0] == "@" else (text, rest[3:-1], "")


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(_character, text) if "\\" in text else text


def _character(escape: re.Match[str]) -> str:
    short, long, named = escape.groups()
    return _NAMED[named] if named else chr(int(short or long, 16))


Term = ox.NamedNode | ox.Literal | ox.BlankNode | ox.Triple

_JSON_TYPE: Final = vocab.JSON.value
_STRING: Final = vocab.STRING.value
_BOOLEANS: Final = {"true": True, "false": False}
_READ: Final[Mapping[str, Callable[[str], Any]]] = {
    vocab.INTEGER.value: int,
    vocab.DECIMAL.value: Decimal,
    vocab.DOUBLE.value: float,
    vocab.BOOLEAN.value: _BOOLEANS.__getitem__,
    vocab.DATE_TIME.value: datetime.fromisoformat,
}
"""The datatypes that most literals have, read as rdflib reads them, which takes ten times as long."""


def to_python(term: Term | None) -> Any:
    """Return the Python value of an RDF term: JSON parsed, XSD values as rdflib maps them, text for all else."""
    if isinstance(term, ox.Literal):
        return term.value if term.language else _of_literal(term.value, term.datatype.value)
    return None if term is None else getattr(term, "value", str(term))


def _of_literal(text: str, kind: str) -> Any:
    if kind == _STRING:
        return text
    if kind == _JSON_TYPE:
        return json.loads(text)
    if kind in _READ:
        try:
            return _READ[kind](text)
        except (ValueError, ArithmeticError, KeyError):
            pass  # rdflib says what becomes of it
    from rdflib import Literal as RdfLiteral  # noqa: PLC0415 - rdflib takes 150 ms to import and is needed only here
    from rdflib import URIRef  # noqa: PLC0415

    value = RdfLiteral(text, datatype=URIRef(kind)).toPython()
    return text if isinstance(value, RdfLiteral) else value


class Values(dict[str, Any]):
    """The Python values of terms as TSV has them, each made once; what JSON says is made anew each time.

    >>> values = Values()
    >>> [values[term] for term in ("<urn:x>", '"a"', "1", "", '"[1]"^^<http://www.w3.org/1999/02/22-rdf-syntax-ns#JSON>')]
    ['urn:x', 'a', 1, None, [1]]
    """

    def __missing__(self, term: str) -> Any:
        value = _of_written(term)
        if not term.endswith(_ENDS_JSON):  # lists and mappings, which nobody shares
            self[term] = value
        return value


_ENDS_JSON: Final = f"^^<{_JSON_TYPE}>"


def _of_written(term: str) -> Any:
    match term[:1]:
        case "":
            return None
        case '"' if term[-1] == '"':
            return string(term)
        case "<" if term[1] != "<":
            return term[1:-1]
        case "_" | "<":
            return to_python(parsed(("term",), [[term]])[0][0])
        case _:
            text, kind, language = literal(term)
            return text if language else _of_literal(text, kind)
