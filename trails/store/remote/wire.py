"""What client and server say to each other, as JSON: terms, patterns, quads, commits, results and errors.

Everything here is pure. A term is its N-Triples text, the default graph an empty text, "anything" in a pattern null; quads are
N-Quads in one text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

import pyoxigraph as ox

from trails import errors
from trails.errors import StoreFailed, TrailsError
from trails.integrity.leaves import Leaf
from trails.rdf import query_files
from trails.rdf.query_files import BoundQuery
from trails.store.contract import Change, Committed, PreconditionFailed, Result, Solutions, Triples
from trails.store.pattern import Pattern

VERSION: Final = 1
"""The version of the protocol: client and server must have the same one."""
HEADER: Final = "Trails-Store-Protocol"
"""The header of each request and each answer that says the version."""
Request = list[Any]
"""One thing to be read: its kind, and what it is asked with."""


def _term(text: str) -> ox.NamedNode | ox.BlankNode | ox.Literal:
    """Return the term that a text says."""
    if text.startswith("<"):
        return ox.NamedNode(text[1:-1])
    if text.startswith("_:"):
        return ox.BlankNode(text[2:])
    (triple,) = ox.parse(f"<urn:s> <urn:p> {text} .".encode(), format=ox.RdfFormat.N_TRIPLES)
    return cast("ox.Literal", triple.object)


def pattern_out(pattern: Pattern) -> list[str | None]:
    """Return a pattern as JSON.

    >>> pattern_out((None, ox.NamedNode("urn:p"), None, ox.DefaultGraph()))
    [None, '<urn:p>', None, '']
    """
    return [None if each is None else "" if isinstance(each, ox.DefaultGraph) else str(each) for each in pattern]


def pattern_in(given: Sequence[str | None]) -> Pattern:
    """Return the pattern that JSON says."""
    if len(given) != 4:
        raise ValueError("a pattern has a subject, a predicate, an object and a graph")
    return cast(Pattern, tuple(None if each is None else graph_in(each) for each in given))


def graph_out(graph: ox.NamedNode | ox.BlankNode | ox.DefaultGraph | None) -> str | None:
    """Return the name of a graph as JSON."""
    return None if graph is None else "" if isinstance(graph, ox.DefaultGraph) else str(graph)


def graph_in(given: str) -> Any:
    """Return the term that JSON says, or the default graph."""
    return _term(given) if given else ox.DefaultGraph()


def quads_out(quads: Iterable[ox.Quad]) -> str:
    """Return quads as N-Quads."""
    return "".join(f"{quad} .\n" for quad in quads)


def quads_in(text: str) -> list[ox.Quad]:
    """Return the quads that N-Quads say."""
    return list(ox.parse(text.encode(), format=ox.RdfFormat.N_QUADS)) if text else []


# --- commits


def change_out(change: Change, commit_id: str) -> dict[str, Any]:
    """Return a commit as JSON; what only its own process can tell (`seen`, `writer`) is left out."""
    said: dict[str, Any] = {
        "id": commit_id,
        "add": quads_out(change.add),
        "remove": quads_out(change.remove),
        "require": quads_out(change.require),
        "forbid": [pattern_out(each) for each in change.forbid],
        "drop": [each.value for each in change.drop],
        "leaves": [[each.kind, each.session_iri, each.count, each.digest] for each in change.leaves],
        "also_add": quads_out(change.also_add),
        "also_remove": quads_out(change.also_remove),
        "as_of": change.as_of,
    }
    read = change.read
    said["read"] = None if read is None else [[pattern_out(each), quads_out(found)] for each, found in read.items()]
    return {name: value for name, value in said.items() if value not in ("", []) or name == "read"}


def change_in(said: Mapping[str, Any]) -> Change:
    """Return the commit that JSON says."""
    read = said.get("read")
    return Change(
        add=quads_in(said.get("add", "")),
        remove=quads_in(said.get("remove", "")),
        require=quads_in(said.get("require", "")),
        forbid=[pattern_in(each) for each in said.get("forbid", ())],
        drop=[ox.NamedNode(each) for each in said.get("drop", ())],
        leaves=[Leaf(*each) for each in said.get("leaves", ())],
        also_add=quads_in(said.get("also_add", "")),
        also_remove=quads_in(said.get("also_remove", "")),
        read=None if read is None else {pattern_in(each): quads_in(found) for each, found in read},
        as_of=said.get("as_of"),
    )


def committed_out(done: Committed) -> list[Any]:
    """Return what became of a commit as JSON."""
    return [done.written, done.number, done.link]


# --- queries and their results


def query_out(text: str) -> Any:
    """Return a query as JSON: one of Trails' own as its name and what it is bound to, any other as its text."""
    if not isinstance(text, BoundQuery):
        return text
    return [text.name, {name: _terms_out(terms) for name, terms in text.terms.items()}]


def _terms_out(terms: Sequence[ox.NamedNode | ox.Literal] | None) -> list[str] | None:
    return None if terms is None else [str(each) for each in terms]


def query_in(said: Any) -> str:
    """Return the query that JSON says; a `BoundQuery` is one of Trails' own."""
    if isinstance(said, str):
        return said
    name, terms = said
    values = {key: [_term(each) for each in given] for key, given in terms.items() if given is not None}
    return query_files.find(name).bind(**values)


def result_out(result: Result) -> Any:
    """Return the result of a query as JSON."""
    if isinstance(result, bool):
        return result
    if isinstance(result, Solutions):
        rows = [["" if term is None else str(term) for term in row] for row in result]
        return {"names": list(result.variables), "rows": rows, "truncated": result.truncated}
    lines = "".join(f"{triple} .\n" for triple in result)
    return {"triples": lines, "truncated": getattr(result, "truncated", False)}


def result_in(said: Any) -> Result:
    """Return the result that JSON says."""
    if isinstance(said, bool):
        return said
    if "names" in said:
        return Solutions(tuple(said["names"]), written=said["rows"], truncated=said["truncated"])
    parsed = ox.parse(said["triples"].encode(), format=ox.RdfFormat.N_TRIPLES)
    found = Triples(quad.triple for quad in parsed)
    found.truncated = said["truncated"]
    return found


# --- rows of SQL


def value_out(value: Any) -> Any:
    """Return a value of SQLite as JSON: bytes as an object with their hex digits."""
    return {"x": value.hex()} if isinstance(value, bytes) else value


def value_in(said: Any) -> Any:
    """Return the value of SQLite that JSON says."""
    return bytes.fromhex(said["x"]) if isinstance(said, dict) else said


# --- errors


def error_out(error: TrailsError) -> dict[str, Any]:
    """Return an error as JSON: its class, its text, and its fields."""
    if isinstance(error, PreconditionFailed):
        missing = "" if error.missing is None else quads_out([error.missing])
        fields = {"missing": missing, "matched": quads_out(error.matched), "is_outdated": error.is_outdated}
    else:
        fields = {name: value for name, value in vars(error).items() if name[:1] != "_" and _is_plain(value)}
    return {"class": type(error).__name__, "message": error.message, "fields": fields}


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, str | int | float | bool)


def error_in(said: Mapping[str, Any]) -> TrailsError:
    """Return the error that JSON says; one of a class that is not public here is a `StoreFailed`."""
    fields = dict(said["fields"])
    if said["class"] == PreconditionFailed.__name__:
        missing = quads_in(fields["missing"])
        matched, is_outdated = quads_in(fields["matched"]), bool(fields["is_outdated"])
        return PreconditionFailed(missing=missing[0] if missing else None, matched=matched, is_outdated=is_outdated)
    kind = getattr(errors, str(said["class"]), None)
    if not (isinstance(kind, type) and issubclass(kind, TrailsError)):
        return StoreFailed(str(said["message"]))
    made = kind.__new__(kind, said["message"])
    made.args = (said["message"],)
    for name, value in fields.items():
        setattr(made, name, value)
    return made
