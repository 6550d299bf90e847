"""The turns that came to a session, as a mirror gets them: read many at once, as text that goes on to a server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyoxigraph as ox

from trails import queries, vocab
from trails.store import tsv
from trails.store.contract import QuadStore

AT_ONCE: Final = 500
"""Turns that are read by one query."""
_FEW: Final = 4
"""Turns up to which looking them up by pattern is quicker than a query, which has to be read and planned first."""
_INDEX: Final = str(vocab.INDEX)


def turns_between(
    store: QuadStore, session: ox.NamedNode, start: int, end: int
) -> Iterator[tuple[list[list[str]], int]]:
    """Give, some turns at a time, all that a session's graph says of its turns from an index to another, up to a first gap.

    Each time these are rows of subject, predicate and object, as `store.tsv` has them, and the index of the turn after
    them. The parts of a turn, whose IRIs begin with its own, are among the subjects. `end` is exclusive.
    """
    while start < end:
        at = range(start, min(start + AT_ONCE, end))
        found = _looked_up(store, session, at) if len(at) <= _FEW else _asked(store, session, at)
        turns = {
            subject: int(value) for subject, predicate, value in found if predicate == _INDEX and value.isdecimal()
        }
        rows = [row for row in found if row[0] in turns]
        for parts in queries.batches(_parts(found, turns)):
            rows += store.table(queries.find("subject_triples").bind(graph=session, subjects=parts))
        have = set(turns.values())
        following = next((index for index in at if index not in have), at.stop)
        if following > start:
            yield rows, following
        if following < at.stop:
            return
        start = following


def _asked(store: QuadStore, session: ox.NamedNode, at: range) -> list[list[str]]:
    return store.table(queries.find("turn_triples").bind(session=session, indices=at))


def _looked_up(store: QuadStore, session: ox.NamedNode, at: range) -> list[list[str]]:
    """Return the same rows as `_asked`."""
    places = [quad for index in at for quad in store.quads((None, vocab.INDEX, vocab.integer(index), session))]
    turns = [quad.subject for quad in places if isinstance(quad.subject, ox.NamedNode)]
    quads = [quad for turn in turns for quad in store.quads((turn, None, None, session))]
    quads += [quad for turn in turns for quad in store.quads((None, None, turn, session))]
    return [[str(quad.subject), str(quad.predicate), _cell(quad.object)] for quad in quads]


def _cell(term: object) -> str:
    return tsv.text(term) if isinstance(term, ox.NamedNode | ox.Literal) else str(term)


def _parts(rows: Sequence[Sequence[str]], turns: dict[str, int]) -> list[ox.NamedNode]:
    """Return what stands below a turn by its IRI, and is its value or has it for a value."""
    linked = [
        other
        for subject, _, value in rows
        for turn, other in ((subject, value), (value, subject))
        if turn in turns and other.startswith(f"{turn[:-1]}/")
    ]
    return [ox.NamedNode(tsv.iri(each)) for each in dict.fromkeys(linked)]
