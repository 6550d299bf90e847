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
_INDEX: Final = str(vocab.INDEX)


def turns_from(store: QuadStore, session: ox.NamedNode, start: int) -> Iterator[tuple[list[list[str]], int]]:
    """Give, some turns at a time, all that a session's graph says of its turns from an index on, up to the first gap.

    Each time these are rows of subject, predicate and object, as `store.tsv` has them, and the index of the turn after
    them. The parts of a turn, whose IRIs begin with its own, are among the subjects.
    """
    while True:
        at = range(start, start + AT_ONCE)
        found = store.table(queries.find("turn_triples").bind(session=session, indices=at))
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


def _parts(rows: Sequence[Sequence[str]], turns: dict[str, int]) -> list[ox.NamedNode]:
    """Return what stands below a turn by its IRI, and is its value or has it for a value."""
    linked = [
        other
        for subject, _, value in rows
        for turn, other in ((subject, value), (value, subject))
        if turn in turns and other.startswith(f"{turn[:-1]}/")
    ]
    return [ox.NamedNode(tsv.iri(each)) for each in dict.fromkeys(linked)]
