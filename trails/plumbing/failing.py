"""The query `failed-tool-calls` of the catalogue, answered from the figures: they say which answers, and these are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import pyoxigraph as ox

from trails import iris, vocab
from trails.plumbing import figured
from trails.plumbing.figured import Row, Terms
from trails.plumbing.index import brevity, figures
from trails.plumbing.index.sidefile import SideFile
from trails.plumbing.workspace import Workspace
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
    found = list[_Failed]()
    for number, place, digest, call in file.each(_ANSWERS):
        session = own[number]
        asked = None if call is None else figures.whole(session, call)
        found.append(_Failed(session, place, iris.turn(session, place, brevity.whole(digest)), asked, None))
    wanted = {each.call for each in found}
    calls = ((figures.whole(own[number], call), name) for number, name, call in file.each(_NAMES))
    names: dict[str | None, str | None] = {call: name for call, name in calls if call in wanted}
    if None in names.values():
        return None
    return [each._replace(name=names.get(each.call)) for each in found]


_NAMES: Final = "SELECT session, name, call FROM tool_calls"
_ANSWERS: Final = "SELECT session, place, digest, call FROM tool_answers WHERE failed"


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
