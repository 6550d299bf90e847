"""Records of the log without what is gone: pure, over what the store still has.

A record that is replayed by somebody who has less than all of the log must lead where all records lead, so what goes out of
it leaves a trace without text: a property that is dropped, and what is left of it added.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import pyoxigraph as ox

from trails.store import frames
from trails.store.committing import property_of
from trails.store.frames import CommitRecord
from trails.store.pattern import Pattern
from trails.store.postgres import records
from trails.store.postgres.records import Row

_Left = Callable[[Pattern], list[ox.Quad]]


@dataclass(slots=True)
class Gone:
    """What commits took out: quads, as lines, and whole graphs, by their IRIs."""

    lines: set[bytes] = field(default_factory=set)
    graphs: set[str] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.lines or self.graphs)

    def note(self, record: CommitRecord) -> None:
        """Add what a record takes out."""
        self.lines.update(_lines(record.remove))
        self.graphs.update(each for each in record.drop if " " not in each)

    def stands_in(self, body: bytes) -> bool:
        """Tell whether a record's body may tell of any of it."""
        return any(line in body for line in self.lines) or any(
            f"<{graph}> .\n".encode() in body for graph in self.graphs
        )

    def has(self, line: bytes, quad: ox.Quad) -> bool:
        """Tell whether a quad is one of those that went."""
        return line in self.lines or getattr(quad.graph_name, "value", None) in self.graphs


def without(row: Row, gone: Gone | None, left: _Left) -> Row | None:
    """Return a row without what is gone, or None where it tells of none of it.

    With None for `gone` that is everything that the store no longer has. `left` gives what the store has now.
    """
    if gone is not None and not gone.stands_in(zlib.decompress(row.body)):
        return None
    record = replace(row.record(), leaves=())
    kept, lost = [], False
    for line in _lines(record.add):
        quad = _quad(line)
        if (gone is None or gone.has(line, quad)) and not left(_only(quad)):
            lost = True
        else:
            kept.append(line)
    removed, dropped = [], dict.fromkeys(record.drop)
    again: dict[bytes, None] = {}
    for line in _lines(record.remove):
        quad = _quad(line)
        if gone is None or gone.has(line, quad):
            dropped[_named(quad)] = None
            again.update(dict.fromkeys(_lines(frames.n_quads(left(property_of(_named(quad)))))))
        else:
            removed.append(line)
    if not lost and len(dropped) == len(record.drop):
        return None
    add = b"".join(dict.fromkeys([*kept, *again]))
    return records.rewritten(row, CommitRecord((), tuple(dropped), b"".join(removed), add, record.flags))


def _named(quad: ox.Quad) -> str:
    """Return how a record names the property of a quad that it drops: there are no blank nodes, ever."""
    return " ".join(getattr(term, "value", "") for term in (quad.graph_name, quad.subject, quad.predicate))


def _lines(part: bytes) -> Iterable[bytes]:
    return [line + b"\n" for line in part.split(b"\n")[:-1]]


def _quad(line: bytes) -> ox.Quad:
    found: ox.Quad = next(iter(ox.parse(line, format=ox.RdfFormat.N_QUADS)))
    return found


def _only(quad: ox.Quad) -> Pattern:
    return quad.subject, quad.predicate, quad.object, quad.graph_name  # type: ignore[return-value] # no blank nodes, ever
