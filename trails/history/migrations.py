"""Recount the usage of model calls that an earlier version counted otherwise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path
from typing import Final

from pyoxigraph import NamedNode, Quad

from trails.errors import TrailsError
from trails.history.transaction import Transaction
from trails.model import iris
from trails.model.validation import stored_object
from trails.model.values import Turn
from trails.rdf import vocab
from trails.rdf.turn_quads import Recount, find_recounts
from trails.store.contract import Matching, PreconditionFailed, QuadStore
from trails.store.doctor import Check
from trails.store.embedded import ViewStore
from trails.usage import figures_of, older_figures_of, source_of

_MOST: Final = 10_000
"""Calls after which doctor counts no further."""
_REMEDY: Final = (
    "`trails import` of the same files counts them anew, `trails store vacuum` all; `trails cost` and `trails stats` have "
    "them right already, queries of the graph do not"
)


def recount_changes(store: Matching, turns: Iterable[Turn]) -> tuple[list[Quad], list[Quad]]:
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
        for each in find_recounts((quad.subject, quad.predicate, quad.object) for quad in quads):
            gone += [Quad(node, prop, value, graph) for prop, value in each.stored]
            come += [Quad(node, prop, value, graph) for prop, value in each.right]
    return gone, come


def recount_usage(store: QuadStore, session_ids: Iterable[str]) -> None:
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
    usage = stored_object(usage_json)
    return figures_of(usage) != older_figures_of(usage)


def find_miscounted(folder: Path) -> Check:
    """Return what doctor says of how the store in a folder counts usage; nothing is changed."""
    try:
        with closing(ViewStore(folder)) as store:
            sources = Counter(source_of(stored_object(each.usage)) for each in islice(_older(store), _MOST))
    except (OSError, RuntimeError, TrailsError, ValueError) as error:
        return Check("usage", True, f"not looked at: {error}")
    if not sources:
        return Check("usage", True, "tokens are counted as this version counts them")
    named = ", ".join(f"{source} ({number:,})" for source, number in sorted(sources.items()))
    calls = sources.total()
    said = f"{calls:,}{' or more' if calls == _MOST else ''} model calls were counted otherwise by an earlier version"
    return Check("usage", False, f"{said}: {named}", _REMEDY)


def _older(store: Matching) -> Iterator[Recount]:
    for quad in store.quads((None, vocab.USAGE, None, None)):
        if _may_be_older(quad):
            of_call = store.quads((quad.subject, None, None, quad.graph_name))  # type: ignore[arg-type] # a call's IRI
            yield from find_recounts((each.subject, each.predicate, each.object) for each in of_call)


def _may_be_older(quad: Quad) -> bool:
    try:
        return _is_counted_otherwise(str(getattr(quad.object, "value", "")))
    except (TrailsError, ValueError, TypeError):  # no usage that Trails writes
        return False
