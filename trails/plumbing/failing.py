"""The query `failed-tool-calls` of the catalogue, answered from the figures: they say which answers, and these are read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyoxigraph as ox

from trails.history.workspace import Workspace
from trails.model import iris
from trails.plumbing import figured
from trails.plumbing.figured import Row, Terms
from trails.plumbing.index import brevity, figures
from trails.plumbing.index.sidefile import SideFile
from trails.rdf import vocab
from trails.store.contract import Matching


class _Failed(NamedTuple):
    """An answer that says that the call failed, and what is known of the call."""

    session: str
    place: int
    turn: str
    """Where the answering turn is as a rule; a copy's digest is that of its first turn."""
    call: str | None
    name: str | None


def failed_calls(workspace: Workspace, given: Terms) -> list[Row] | None:
    """Return the rows of `failed-tool-calls`; None where it is asked of some sessions, which is quick."""
    if given["session"] is not None or figured.has_begun_copies(workspace.store):
        return None
    found = workspace.index.figures(_failed)
    if found is None:
        return None
    rows = [row for each in found for row in _rows(workspace.store, each)]
    return sorted(rows, key=lambda row: (row[0].value, int(row[1].value), "" if row[2] is None else row[2].value))


def _failed(file: SideFile) -> list[_Failed] | None:
    """Return all answers that say so; None where the figures do not know how a tool is called."""
    own = {number: iris.session(session_id) for number, session_id in file.ask("SELECT number, id FROM sessions")}
    answered: dict[tuple[Any, ...], list[str | None]] = defaultdict(list)
    for number, place, digest, call_id, call in file.each(_ANSWERS):
        answered[number, place, digest, call_id].append(None if call is None else figures.whole(own[number], call))
    wanted = {call for calls in answered.values() for call in calls}
    asked = ((figures.whole(own[number], call), name) for number, name, call in file.each(_NAMES))
    names: dict[str | None, str | None] = {call: name for call, name in asked if call in wanted}
    if None in names.values():
        return None
    found = list[_Failed]()
    for (number, place, digest, _), calls in answered.items():
        session = own[number]
        turn = iris.turn(session, place, brevity.whole(digest))
        found += (_Failed(session, place, turn, call, names.get(call)) for call in _known(calls, names))
    return found


def _known(calls: Sequence[str | None], names: Mapping[str | None, str | None]) -> Iterator[str | None]:
    """Yield the calls that a turn's answers to one id are of: those that are known or, of each answer, none.

    A copy answers the call that was made and the copy of it, of which the first may be gone.
    """
    each = list(dict.fromkeys(calls))
    known = [call for call in each if call in names] or [None]
    for _ in range(len(calls) // len(each)):
        yield from known


_NAMES: Final = "SELECT session, name, call FROM tool_calls"
_ANSWERS: Final = "SELECT session, place, digest, id, call FROM tool_answers WHERE failed"


def _rows(store: Matching, failed: _Failed) -> Iterator[Row]:
    graph, index = ox.NamedNode(failed.session), vocab.integer(failed.place)
    for turn, content in _contents(store, graph, index, ox.NamedNode(failed.turn)):
        for name, arguments, asked in _asked(store, failed):
            yield graph, index, name, arguments, content, turn, asked


def _contents(store: Matching, graph: ox.NamedNode, index: ox.Literal, expected: ox.NamedNode) -> list[tuple[Any, Any]]:
    """Return the turn at a place with its content: the one expected there, else any."""
    told = store.quads((expected, vocab.VALUE, None, graph))
    if not told:
        turns: list[Any] = [quad.subject for quad in store.quads((None, vocab.INDEX, index, graph))]
        told = [quad for turn in turns for quad in store.quads((turn, vocab.VALUE, None, graph))]
    return [(quad.subject, quad.object) for quad in told]


def _asked(store: Matching, failed: _Failed) -> list[tuple[Any, Any, Any]]:
    """Return name, arguments and turn of the call; a row of nothing where it is not known."""
    if failed.call is None or failed.name is None:
        return [(None, None, None)]
    name, asked = ox.Literal(failed.name), ox.NamedNode(iris.turn_of(failed.call))
    graph = ox.NamedNode(asked.value.partition("/")[0])
    told = store.quads((ox.NamedNode(failed.call), vocab.ARGUMENTS, None, graph))
    return [(name, quad.object, asked) for quad in told] or [(None, None, None)]


QUERIES: Final[Mapping[str, figured.Question]] = {"failed-tool-calls": failed_calls}
