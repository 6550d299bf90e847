"""Records of the log without what is gone: pure, over what the store still has.

A record that is replayed by somebody who has less than all of the log must lead where all records lead, so what goes out of
it leaves a trace without text: a property that is dropped, and what is left of it added. A name that is gone, too, has a
digest in its place there, and once everybody is behind that record, a vacuum takes the trace out.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import pyoxigraph as ox

from trails.model import iris
from trails.store import frames, properties
from trails.store.frames import CommitRecord
from trails.store.pattern import Pattern
from trails.store.postgres import records
from trails.store.postgres.records import Row

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

    def note(self, record: CommitRecord) -> None:
        """Add what a record takes out."""
        lines = _lines(record.remove)
        self.lines.update(lines)
        said = {iri[1:-1] for line in lines for iri in line.split(b" ", 2)[:2]}
        self.names.update(iri for iri in said if iris.kind_of_name(iri.decode()) is not None)
        self.graphs.update(each for each in record.drop if " " not in each)

    def stands_in(self, body: bytes) -> bool:
        """Tell whether a record's body may tell of any of it, or drops something by a name that may be gone with it."""
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
    if gone is not None and not gone.stands_in(zlib.decompress(row.body)):
        return None
    record = replace(row.record(), leaves=())
    kept, lost = [], False
    key = row.commit_id
    for line in _lines(record.add):
        quad = _quad(line)
        if (gone is None or gone.has(line, quad)) and not _any(left(_only(quad))):
            lost = True
        else:
            kept.append(line)
    removed, dropped = [], dict.fromkeys(_renamed(each, key, left) for each in record.drop)
    again: dict[bytes, None] = {}
    for line in _lines(record.remove):
        quad = _quad(line)
        if gone is None or gone.has(line, quad):
            named = _named(quad)
            dropped[_renamed(named, key, left)] = None
            again.update(dict.fromkeys(_lines(frames.n_quads(list(left(properties.pattern(named)))))))
        else:
            removed.append(line)
    if row.number <= reached:
        dropped = {each: None for each in dropped if not properties.is_blurred(each)}
    if not lost and len(removed) == len(_lines(record.remove)) and tuple(dropped) == record.drop:
        return None
    add = b"".join(dict.fromkeys([*kept, *again]))
    return records.rewritten(row, CommitRecord((), tuple(dropped), b"".join(removed), add, record.flags))


def _named(quad: ox.Quad) -> str:
    """Return how a record names the property of a quad that it drops: there are no blank nodes, ever."""
    return properties.line(*(getattr(term, "value", "") for term in (quad.graph_name, quad.subject, quad.predicate)))


def _renamed(dropped: str, key: str, left: _Left) -> str:
    """Return what a record drops, with a digest for each name in it that the store has no more."""
    if " " not in dropped or properties.is_blurred(dropped):
        return dropped
    graph, subject, predicate = dropped.split(" ")
    if iris.kind_of_name(subject) and not _any(left((ox.NamedNode(subject), None, None, None))):
        subject = properties.blurred(subject, key)
    if iris.kind_of_name(predicate) and not _any(left((None, ox.NamedNode(predicate), None, None))):
        predicate = properties.blurred(predicate, key)
    return properties.line(graph, subject, predicate)


def _any(quads: Iterable[ox.Quad]) -> bool:
    return next(iter(quads), None) is not None


def _lines(part: bytes) -> list[bytes]:
    return [line + b"\n" for line in part.split(b"\n")[:-1]]


def _quad(line: bytes) -> ox.Quad:
    found: ox.Quad = next(iter(ox.parse(line, format=ox.RdfFormat.N_QUADS)))
    return found


def _only(quad: ox.Quad) -> Pattern:
    return quad.subject, quad.predicate, quad.object, quad.graph_name  # type: ignore[return-value] # no blank nodes, ever
