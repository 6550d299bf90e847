"""Figures of model calls that an earlier version counted otherwise: found for doctor, and put right by an import or a vacuum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import Final

import pyoxigraph as ox
from pyoxigraph import NamedNode, Quad

from trails import iris, vocab
from trails.decoding import json_object
from trails.errors import TrailsError
from trails.model import Turn
from trails.older_usage import older_figures_of
from trails.plumbing.transaction import Transaction
from trails.records.recounting import Recount, recounts
from trails.store import maintenance
from trails.store.contract import Matching, PreconditionFailed, QuadStore
from trails.store.doctor import Check
from trails.usage import figures_of, source_of

_MOST: Final = 10_000
"""Calls after which doctor counts no further."""
_REMEDY: Final = (
    "`trails import` of the same files counts them anew, `trails store vacuum` all; `trails cost` and `trails stats` have "
    "them right already, queries of the graph do not"
)


def changes(store: Matching, turns: Iterable[Turn]) -> tuple[list[Quad], list[Quad]]:
    """Return the quads that go and those that come so that the model calls of some turns are counted as they are now."""
    calls = ((turn, turn.facts.model_call) for turn in turns)
    older = [turn for turn, call in calls if call and call.usage_json and _is_counted_otherwise(call.usage_json)]
    return _changes(
        store, ((NamedNode(iris.model_call(turn.iri)), NamedNode(iris.session(turn.session_id))) for turn in older)
    )


def _changes(store: Matching, calls: Iterable[tuple[NamedNode, NamedNode]]) -> tuple[list[Quad], list[Quad]]:
    gone, come = list[Quad](), list[Quad]()
    for node, graph in calls:
        quads = store.quads((node, None, None, graph))
        for each in recounts((quad.subject, quad.predicate, quad.object) for quad in quads):
            gone += [Quad(node, prop, value, graph) for prop, value in each.stored]
            come += [Quad(node, prop, value, graph) for prop, value in each.right]
    return gone, come


def count_anew(store: QuadStore, session_ids: Iterable[str]) -> None:
    """Count the model calls of sessions as this version counts them, a commit for each session that needs it."""
    for session_id in session_ids:
        graph = NamedNode(iris.session(session_id))
        usages = store.quads((None, vocab.USAGE, None, graph))
        calls = [(quad.subject, graph) for quad in usages if _may_be_older(quad)]
        gone, come = _changes(store, calls)  # type: ignore[arg-type] # calls' IRIs
        if come:
            tx = Transaction()
            tx.take(gone)
            tx.add(come)
            with suppress(PreconditionFailed):  # it was deleted, or counted anew, meanwhile
                tx.commit(store)


def _is_counted_otherwise(usage_json: str) -> bool:
    usage = json_object(usage_json)
    return figures_of(usage) != older_figures_of(usage)


def look(folder: Path) -> Check:
    """Return what doctor says of how the store in a folder, which nobody has open, counts usage; nothing is changed."""
    try:
        store = ox.Store.read_only(str(folder / maintenance.QUADS))
        sources = Counter(source_of(json_object(each.usage)) for each in islice(_older(store), _MOST))
    except (OSError, RuntimeError, TrailsError, ValueError) as error:
        return Check("usage", True, f"not looked at: {error}")
    if not sources:
        return Check("usage", True, "tokens are counted as this version counts them")
    named = ", ".join(f"{source} ({number:,})" for source, number in sorted(sources.items()))
    calls = sources.total()
    said = f"{calls:,}{' or more' if calls == _MOST else ''} model calls were counted otherwise by an earlier version"
    return Check("usage", False, f"{said}: {named}", _REMEDY)


def _older(store: ox.Store) -> Iterator[Recount]:
    usages = (quad for quad in store.quads_for_pattern(None, vocab.USAGE, None) if _may_be_older(quad))
    of_calls = (store.quads_for_pattern(quad.subject, None, None, quad.graph_name) for quad in usages)
    return chain.from_iterable(
        recounts((quad.subject, quad.predicate, quad.object) for quad in quads) for quads in of_calls
    )


def _may_be_older(quad: Quad) -> bool:
    try:
        return _is_counted_otherwise(str(getattr(quad.object, "value", "")))
    except (TrailsError, ValueError, TypeError):  # no usage that Trails writes
        return False
