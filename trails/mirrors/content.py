"""What a mirror holds: a store's quads as a server takes them, what stands for what it cannot hold, and digests. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final

import pyoxigraph as ox

from trails import vocab
from trails.mirrors.servers import Server
from trails.store import tsv
from trails.usage import EXACT

STATE: Final = ox.NamedNode("urn:trails:mirror")
"""The graph in which a mirror keeps how far it is, and the subject of that."""
HAS_CATALOGUE: Final = ox.NamedNode(f"{STATE.value}:catalog")
"""The predicate by which it notes which graph has the catalogue: "default" or "named"."""
CATALOGUE: Final = ox.NamedNode("urn:trails:catalog")
"""The graph that holds the catalogue where it is not the default graph."""
REFERENCE: Final = ox.NamedNode("urn:trails:mirror:reference")
"""The datatype of what stands for a literal that a server cannot hold: its SHA-256 and how many bytes it has."""
_BLANK: Final = "urn:trails:mirror:blank:"
_NUMBERS: Final = frozenset({vocab.DECIMAL, vocab.INTEGER})
_FLOATS: Final = frozenset({vocab.DOUBLE, ox.NamedNode(vocab.XSD + "float")})
_LONG_INTEGER: Final = 19
"""Characters from which on a whole number may be above what a server takes: 63 bits are at most 19 digits."""
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


def written(rows: Iterable[Sequence[str]], server: Server) -> list[str]:
    """Return rows of subject, predicate and object, as `store.tsv` has them, as the statements of an INSERT DATA, each once.

    >>> from trails.mirrors.servers import SERVERS
    >>> written([("<urn:a>", "<urn:b>", "1"), ("<urn:a>", "<urn:b>", "1")], SERVERS["oxigraph"])
    ['<urn:a> <urn:b> 1 .']
    """
    found = dict.fromkeys(
        f"{subject} {predicate} {value} ."
        if subject[0] == "<" and not _is_doubtful(value, server)
        else f"{_term_held(subject, server)} {predicate} {_term_held(value, server)} ."
        for subject, predicate, value in rows
    )
    return list(found)


def _is_doubtful(text: str, server: Server) -> bool:
    """Tell whether a term may have to be written in another way for a server, by a quick look at how it is written.

    Numbers with a point or an exponent, and truth values, get their datatypes: some servers read them in ways of their own.
    """
    if text[0] not in '<"':
        return len(text) >= _LONG_INTEGER or not text.isdecimal()
    return (server.longest is not None and len(text) * 4 > server.longest) or (server.refuses_nul and "\0" in text)


def _term_held(text: str, server: Server) -> str:
    return str(as_held(ox.BlankNode(text[2:]) if text[:2] == "_:" else tsv.term(text), server))


def digest(lines: Iterable[str]) -> str:
    """Return what stands for a set of statements, in whatever order: 32 hex digits of a SHA-256."""
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:32]


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
            return "number", EXACT.normalize(Decimal(value))
        if kind in _FLOATS:
            return "float", float(value)
        if kind == vocab.BOOLEAN:
            return "boolean", value in ("true", "1")
    except (ValueError, ArithmeticError):
        pass
    return value, "" if kind == vocab.STRING else str(kind), (term.language or "").lower()
