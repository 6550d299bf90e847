"""Python values of RDF terms, as the engine hands them out or as it writes them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

import pyoxigraph as ox

from trails.rdf import vocab
from trails.store import tsv

Term = ox.NamedNode | ox.Literal | ox.BlankNode | ox.Triple

_JSON: Final = vocab.JSON.value
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
    if kind == _JSON:
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


_ENDS_JSON: Final = f"^^<{_JSON}>"


def _of_written(term: str) -> Any:
    match term[:1]:
        case "":
            return None
        case '"' if term[-1] == '"':
            return tsv.string(term)
        case "<" if term[1] != "<":
            return term[1:-1]
        case "_" | "<":
            return to_python(tsv.parsed(("term",), [[term]])[0][0])
        case _:
            text, kind, language = tsv.literal(term)
            return text if language else _of_literal(text, kind)
