"""Query results as text: the SPARQL 1.1 result formats (JSON, CSV, TSV), and a table for people.

What could steer a terminal is escaped where the format has escapes, so that values stay equal; CSV, which has none, shows it
as pictures.
"""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any, Final

import pyoxigraph as ox

from trails import vocab
from trails.cli.terminal import clean_csv, escaped, shorten, to_json
from trails.errors import InvalidInput
from trails.tables import inert

if TYPE_CHECKING:
    from rich.table import Table

    from trails.store.contract import Result, Solutions

FORMATS: Final = ("table", "json", "csv", "tsv", "turtle", "ntriples")
_CELL: Final = 400
_NUMBERS: Final = frozenset(
    ox.NamedNode(f"http://www.w3.org/2001/XMLSchema#{name}") for name in ("integer", "decimal", "double", "float")
)
_ARABIC_MARK: Final = "\N{ARABIC LETTER MARK}"
_SHORT: Final = {
    **{iri: f"{name}:" for name, iri in vocab.PREFIXES.items()},
    **{f"urn:trails:{kind}:": f"{kind}:" for kind in ("session", "principal", "agent", "tool", "meta")},
}


def write(result: Result, form: str, *, csv_safe: bool = False) -> str:
    """Return a result in one of the formats (not "table", unless it is a graph, which then is Turtle).

    JSON of a graph is JSON-LD. With `csv_safe`, no text in CSV is a formula for a spreadsheet. Raises `InvalidInput` for a
    format that has no place for this kind of result.
    """
    if isinstance(result, list):
        return escaped(_graph(result, form))
    if isinstance(result, bool):
        return _boolean(result, form)
    if form in ("turtle", "ntriples"):
        raise InvalidInput(f"{form} is for CONSTRUCT and DESCRIBE; this query gives rows: use table, json, csv or tsv")
    if form == "csv":
        return _csv(result, safe=csv_safe)
    return {"json": _json, "tsv": _tsv}[form](result)


def _graph(triples: list[ox.Triple], form: str) -> str:
    formats = {
        "table": ox.RdfFormat.TURTLE,
        "turtle": ox.RdfFormat.TURTLE,
        "ntriples": ox.RdfFormat.N_TRIPLES,
        "json": ox.RdfFormat.JSON_LD,
    }
    if form not in formats:
        raise InvalidInput(f"{form} is for rows; this query gives triples: use turtle, ntriples or json")
    prefixes = None if form == "ntriples" else vocab.PREFIXES
    written = _serialized(triples, formats[form], prefixes)
    # Names with a prefix may hold this one, and there it cannot be escaped.
    return _serialized(triples, formats[form], None) if prefixes and _ARABIC_MARK in written else written


def _serialized(triples: list[ox.Triple], form: ox.RdfFormat, prefixes: dict[str, str] | None) -> str:
    written = ox.serialize(triples, format=form, prefixes=prefixes)
    return "" if written is None else written.decode("utf-8")


def _boolean(answer: bool, form: str) -> str:
    if form == "json":
        return to_json({"head": {}, "boolean": answer}) + "\n"
    if form != "table":
        kind = "rows" if form in ("csv", "tsv") else "CONSTRUCT and DESCRIBE"
        raise InvalidInput(f"{form} is for {kind}; ASK gives yes or no (here: {_yes_or_no(answer)}): use table or json")
    return f"{_yes_or_no(answer)}\n"


def _yes_or_no(answer: bool) -> str:
    return "true" if answer else "false"


def _json(rows: Solutions) -> str:
    bindings = [{name: _term_json(row[name]) for name in rows.variables if row[name] is not None} for row in rows]
    found = {"head": {"vars": list(rows.variables)}, "results": {"bindings": bindings}}
    return to_json(found, ascii_only=True) + "\n"


def _term_json(term: Any) -> dict[str, Any]:
    if isinstance(term, ox.NamedNode):
        return {"type": "uri", "value": term.value}
    if isinstance(term, ox.BlankNode):
        return {"type": "bnode", "value": term.value}
    if isinstance(term, ox.Triple):
        inside = {"subject": term.subject, "predicate": term.predicate, "object": term.object}
        return {"type": "triple", "value": {name: _term_json(part) for name, part in inside.items()}}
    if term.language:
        return {"type": "literal", "value": term.value, "xml:lang": term.language}
    if term.datatype == vocab.STRING:
        return {"type": "literal", "value": term.value}
    return {"type": "literal", "value": term.value, "datatype": term.datatype.value}


def _csv(rows: Solutions, *, safe: bool) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(rows.variables)
    cell = _inert if safe else _plain
    writer.writerows([cell(row[name]) for name in rows.variables] for row in rows)
    return clean_csv(out.getvalue())


def _inert(term: Any) -> str:
    is_number = isinstance(term, ox.Literal) and term.datatype in _NUMBERS
    return _plain(term) if is_number else inert(_plain(term))


def _plain(term: Any) -> str:
    if term is None:
        return ""
    return term.value if isinstance(term, ox.NamedNode | ox.Literal) else str(term)


def _tsv(rows: Solutions) -> str:
    lines = ["\t".join(f"?{name}" for name in rows.variables)]
    lines += ["\t".join("" if row[name] is None else _tsv_term(row[name]) for name in rows.variables) for row in rows]
    return escaped("\n".join(lines) + "\n")


def _tsv_term(term: Any) -> str:
    return str(term).replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


def table(rows: Solutions) -> Table:
    """Return rows as a table: IRIs shortened, long values cut; the other formats give everything."""
    from rich.text import Text

    from trails.cli import render

    numbers = [name for name in rows.variables if all(_is_number(row[name]) for row in rows)]
    made = render.table(*rows.variables, fold=rows.variables, right=numbers)
    for row in rows:
        made.add_row(*(Text(_cell(row[name])) for name in rows.variables))
    return made


def _is_number(term: Any) -> bool:
    return isinstance(term, ox.Literal) and term.datatype in (vocab.INTEGER, vocab.DECIMAL, vocab.DOUBLE)


def _cell(term: Any) -> str:
    if isinstance(term, ox.NamedNode):
        return shorten(short_iri(term.value), _CELL)
    return shorten(_plain(term), _CELL)


def short_iri(iri: str) -> str:
    """Return an IRI with its prefix abbreviated, for people.

    >>> short_iri("http://www.w3.org/ns/prov#value"), short_iri("urn:trails:session:a")
    ('prov:value', 'session:a')
    """
    for start, short in _SHORT.items():
        if iri.startswith(start):
            return short + iri[len(start) :]
    return iri
