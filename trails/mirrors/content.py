"""What a mirror holds: a store's quads as a server takes them, what stands for what it cannot hold, and digests. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final

import pyoxigraph as ox

from trails import vocab
from trails.mirrors.servers import Server

STATE: Final = ox.NamedNode("urn:trails:mirror")
"""The graph in which a mirror keeps how far it is, and the subject of that."""
CATALOGUE: Final = ox.NamedNode("urn:trails:catalog")
"""The graph that holds the catalogue where it is not the default graph."""
REFERENCE: Final = ox.NamedNode("urn:trails:mirror:reference")
"""The datatype of what stands for a literal that a server cannot hold: its SHA-256 and how many bytes it has."""
_BLANK: Final = "urn:trails:mirror:blank:"
_NUMBERS: Final = frozenset({vocab.DECIMAL, vocab.INTEGER})
_FLOATS: Final = frozenset({vocab.DOUBLE, ox.NamedNode(vocab.XSD + "float")})
Node = ox.NamedNode | ox.BlankNode | ox.Literal | ox.Triple


def as_held(term: Node, server: Server) -> Node:
    """Return what stands for a term in a mirror: itself, or a reference to it where the server cannot hold it.

    >>> from trails.mirrors.servers import SERVERS
    >>> as_held(ox.Literal("a" + chr(0)), SERVERS["virtuoso"]).value.split()[1:]
    ['2', 'bytes']
    """
    if isinstance(term, ox.BlankNode):
        return ox.NamedNode(_BLANK + term.value)
    if not isinstance(term, ox.Literal) or not _is_refused(term, server):
        return term
    held = term.value.encode()
    return ox.Literal(f"sha256:{hashlib.sha256(held).hexdigest()} {len(held)} bytes", datatype=REFERENCE)


def _is_refused(term: ox.Literal, server: Server) -> bool:
    if (
        server.longest is not None
        and len(term.value) * 4 > server.longest
        and len(term.value.encode()) > server.longest
    ):
        return True
    if server.refuses_nul and "\0" in term.value:
        return True
    return (
        server.most_integer is not None
        and term.datatype == vocab.INTEGER
        and abs(int(term.value)) > server.most_integer
    )


def statements(quads: Iterable[ox.Quad], server: Server) -> list[str]:
    """Return quads as the statements of an INSERT DATA, each once, without their graphs."""
    found = dict.fromkeys(
        f"{as_held(quad.subject, server)} {quad.predicate} {as_held(quad.object, server)} ." for quad in quads
    )
    return list(found)


def digest(lines: Iterable[str]) -> str:
    """Return what stands for a set of statements, in whatever order: 32 hex digits of a SHA-256."""
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:32]


def inserts(graph: ox.NamedNode | None, lines: Sequence[str], most: int) -> Iterator[tuple[str, int]]:
    """Give updates that add statements to a graph, None for the default one, each with how many it adds: at most `most`."""
    for start in range(0, len(lines), most):
        part = lines[start : start + most]
        text = "\n".join(part)
        yield f"INSERT DATA {{ {text if graph is None else f'GRAPH {graph} {{ {text} }}'} }}", len(part)


def forget(graph: ox.NamedNode | None, subject: str) -> str:
    """Return the update that takes out all that a graph says of a subject."""
    what = f"{subject} ?p ?o"
    return f"DELETE WHERE {{ {what if graph is None else f'GRAPH {graph} {{ {what} }}'} }}"


def same(term: Node) -> object:
    """Return what two terms have in common that say the same: servers write times and numbers in their own ways.

    >>> same(ox.Literal("1.10", datatype=vocab.DECIMAL)) == same(ox.Literal("1.1", datatype=vocab.DECIMAL))
    True
    """
    if not isinstance(term, ox.Literal):
        return str(term)
    kind, value = term.datatype, term.value
    try:
        if kind == vocab.DATE_TIME:
            made = datetime.fromisoformat(value)
            return "time", made.astimezone(UTC) if made.tzinfo else made
        if kind in _NUMBERS:
            return "number", Decimal(value).normalize()
        if kind in _FLOATS:
            return "float", float(value)
        if kind == vocab.BOOLEAN:
            return "boolean", value in ("true", "1")
    except (ValueError, ArithmeticError):
        pass
    return value, "" if kind == vocab.STRING else str(kind), (term.language or "").lower()
