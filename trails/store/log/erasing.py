"""Records of the log without what was erased, and how a record names a property whose text it no longer holds.

A record that is replayed by somebody who has less than all of the log must lead where all records lead. So what is erased
leaves a trace without text in the record that removed it: a property that is dropped, and what is left of it added. If a name
is erased, too, the trace has a digest in its place: whoever is behind finds by it what to remove, and nobody else reads the name
there. Whoever guesses a name can still try it, as long as the line is there. Once everybody is past that record, a vacuum
removes the trace. All of this is pure, over what the store still has.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

import pyoxigraph as ox

from trails.model import iris
from trails.store.log import records
from trails.store.log.records import CommitRecord, Row, parts_of
from trails.store.pattern import Pattern

_MARK: Final = "^"
"""What stands in no IRI."""
_DIGITS: Final = 32
_Left = Callable[[Pattern], Iterable[ox.Quad]]


@dataclass(slots=True)
class Gone:
    """What commits took out: quads, as lines, and whole graphs, by their IRIs."""

    lines: set[bytes] = field(default_factory=set)
    graphs: set[str] = field(default_factory=set)
    names: set[bytes] = field(default_factory=set)
    """IRIs in those quads that hold names, which may be gone with them."""

    def __bool__(self) -> bool:
        return bool(self.lines or self.graphs)

    @property
    def all_graphs(self) -> set[str] | None:
        """The graphs in which any of it may be ("" is the default graph); None if it may be in all, as names may."""
        if self.names:
            return None
        return {getattr(_quad(line).graph_name, "value", "") for line in self.lines} | self.graphs

    def note(self, record: CommitRecord) -> None:
        """Add what a record removes."""
        lines = parts_of(record.remove)
        self.lines.update(lines)
        said = {iri[1:-1] for line in lines for iri in line.split(b" ", 2)[:2]}
        self.names.update(iri for iri in said if iris.kind_of_name(iri.decode()) is not None)
        self.graphs.update(each for each in record.drop if " " not in each)

    def stands_in(self, record: CommitRecord) -> bool:
        """Tell whether a record may hold any of it, or drops something by a name that may be gone with it."""
        body = b"".join((*(each.encode() for each in record.drop), record.remove, record.add))
        return (
            any(line in body for line in self.lines)
            or any(f"<{graph}> .\n".encode() in body for graph in self.graphs)
            or any(name in body for name in self.names)
        )

    def has(self, line: bytes, quad: ox.Quad) -> bool:
        """Tell whether a quad is one of those that went."""
        return line in self.lines or getattr(quad.graph_name, "value", None) in self.graphs


def without(row: Row, gone: Gone | None, left: _Left, reached: int = 0) -> Row | None:
    """Return a row without what is gone, or None where it tells of none of it.

    With None for `gone` that is everything that the store no longer has. `left` gives what the store has now. Traces of names
    leave records up to the number `reached`, which all who go on from where they are have carried out.
    """
    unpacked = row.unpack()
    record = unpacked.record
    if gone is not None and not gone.stands_in(record):
        return None
    kept, lost = [], False
    key = row.commit_id
    for line in parts_of(record.add):
        quad = _quad(line)
        if (gone is None or gone.has(line, quad)) and not _any(left(_only(quad))):
            lost = True
        else:
            kept.append(line)
    removed, dropped = [], dict.fromkeys(_renamed(each, key, left) for each in record.drop)
    again: dict[bytes, None] = {}
    for line in parts_of(record.remove):
        quad = _quad(line)
        if gone is None or gone.has(line, quad):
            named = _named(quad)
            dropped[_renamed(named, key, left)] = None
            again.update(dict.fromkeys(parts_of(records.n_quads(list(left(property_pattern(named)))))))
        else:
            removed.append(line)
    if row.number <= reached:
        dropped = {each: None for each in dropped if not is_blurred(each)}
    if not lost and len(removed) == len(parts_of(record.remove)) and tuple(dropped) == record.drop:
        return None
    add = b"".join(dict.fromkeys([*kept, *again]))
    return records.rewritten(
        unpacked, CommitRecord(record.leaves, tuple(dropped), b"".join(removed), add, record.flags)
    )


def _named(quad: ox.Quad) -> str:
    """Return how a record names the property of a quad that it drops: there are no blank nodes, ever."""
    return property_line(*(getattr(term, "value", "") for term in (quad.graph_name, quad.subject, quad.predicate)))


def _renamed(dropped: str, key: str, left: _Left) -> str:
    """Return what a record drops, with a digest for each name in it that the store has no more."""
    if " " not in dropped or is_blurred(dropped):
        return dropped
    graph, subject, predicate = dropped.split(" ")
    if iris.kind_of_name(subject) and not _any(left((ox.NamedNode(subject), None, None, None))):
        subject = blur_name(subject, key)
    if iris.kind_of_name(predicate) and not _any(left((None, ox.NamedNode(predicate), None, None))):
        predicate = blur_name(predicate, key)
    return property_line(graph, subject, predicate)


def _any(quads: Iterable[ox.Quad]) -> bool:
    return next(iter(quads), None) is not None


def _quad(line: bytes) -> ox.Quad:
    found: ox.Quad = next(iter(ox.parse(line, format=ox.RdfFormat.N_QUADS)))
    return found


def _only(quad: ox.Quad) -> Pattern:
    return quad.subject, quad.predicate, quad.object, quad.graph_name  # type: ignore[return-value] # no blank nodes, ever


def property_line(graph: str, subject: str, predicate: str) -> str:
    """Return how a record names a property that it drops; "" is the default graph."""
    return f"{graph} {subject} {predicate}"


def blur_name(iri: str, key: str) -> str:
    """Return an IRI with a digest in the place of the name in it, by a key that nobody guesses; any other as it is.

    >>> blur_name("urn:trails:principal:ann", "00ff")
    'urn:trails:principal:^00ff.d52e6afb2d36d497480024f0bcc5cfce'
    >>> blur_name("urn:trails:session:plan", "00ff")
    'urn:trails:session:plan'
    """
    kind = iris.kind_of_name(iri)
    return iri if kind is None else f"{kind}{_MARK}{key}.{_digest(iri, key)}"


def is_blurred(dropped: str) -> bool:
    """Tell whether a line has a digest in the place of a name."""
    return _MARK in dropped


def property_pattern(dropped: str) -> Pattern:
    """Return a pattern that all of a property matches; other quads may, too, where `is_blurred`: see `is_of`.

    >>> property_pattern("urn:g urn:trails:tag:^00ff.aa urn:p")
    (None, <NamedNode value=urn:p>, None, <NamedNode value=urn:g>)
    """
    graph, subject, predicate = dropped.split(" ")
    return (
        None if _MARK in subject else ox.NamedNode(subject),
        None if _MARK in predicate else ox.NamedNode(predicate),
        None,
        ox.NamedNode(graph) if graph else ox.DefaultGraph(),
    )


def is_of_property(dropped: str, quad: ox.Quad) -> bool:
    """Tell whether a quad that matches the pattern of a property is of it."""
    _, subject, predicate = dropped.split(" ")
    return _is_meant(subject, getattr(quad.subject, "value", "")) and _is_meant(predicate, quad.predicate.value)


def _is_meant(named: str, iri: str) -> bool:
    kind, mark, rest = named.partition(_MARK)
    if not mark:
        return iri == named
    key, _, digest = rest.partition(".")
    return iri.startswith(kind) and hmac.compare_digest(_digest(iri, key), digest)


def _digest(iri: str, key: str) -> str:
    return hmac.digest(key.encode(), iri.encode(), "sha256").hex()[:_DIGITS]
