"""Queries of the catalogue that are asked of all sessions, and can have rows of few: which these are, told without the turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from trails.history.workspace import Workspace
from trails.model import iris
from trails.plumbing import called
from trails.plumbing.index.sidefile import SideFile
from trails.rdf import query_files
from trails.rdf.query_files import QueryFile
from trails.store.contract import Result, Solutions

_SESSION: Final = "session"


def narrowed(
    workspace: Workspace, query: QueryFile, values: Mapping[str, Any], ask: Callable[[str], Result]
) -> Solutions | None:
    """Return the rows of a query, asked of those sessions alone that it can have rows of, in its own order: by session.

    `ask` answers a text. None where it must be asked of all: nothing is known of it, it names sessions itself, or the figures
    are not there or far behind.
    """
    candidates = _CANDIDATES.get(query.name)
    if candidates is None or query.folder == "core" or query.terms(**values)[_SESSION] is not None:
        return None
    found = candidates(workspace)
    if found is None:
        return None
    parts = []
    for batch in query_files.batches(sorted(found, key=iris.session)):
        part = ask(query.bind(**{**values, _SESSION: batch}))
        assert isinstance(part, Solutions)  # noqa: S101 - a SELECT
        parts.append(part)
    return Solutions.joined(tuple(column.name for column in query.columns), parts)


def _lacking(workspace: Workspace) -> set[str] | None:
    return _by_figures(
        workspace, "SELECT DISTINCT s.id FROM turns t JOIN sessions s ON s.number = t.session WHERE t.lacks"
    )


def _of_other_agents(workspace: Workspace) -> set[str] | None:
    """Return the sessions in which a turn is by another agent than runs them."""
    if not called.is_near(workspace):
        return None
    return workspace.index.figures(_by_other_agents)


def _by_other_agents(file: SideFile) -> set[str]:
    told = file.each(
        "SELECT DISTINCT s.id, s.agent, t.agent FROM turns t JOIN sessions s ON s.number = t.session WHERE t.agent IS NOT NULL"
    )
    return {session_id for session_id, runs, wrote in told if iris.agent(runs) != wrote}


def _by_figures(workspace: Workspace, text: str) -> set[str] | None:
    if not called.is_near(workspace):
        return None
    return workspace.index.figures(lambda file: {session_id for (session_id,) in file.each(text)})


def _asked_for_a_model(workspace: Workspace) -> set[str]:
    """Return the sessions of which is told which model was asked for: by their entry, a change of that, or their run."""
    return {iris.session_id(row[0].value) for row in workspace.reader.select("asked_models")}


def _broken(workspace: Workspace) -> set[str] | None:
    """Return the sessions whose own turns are not at one place after the other: of few the query looks at each turn."""
    found = {row[0].value for row in workspace.reader.select("broken_places")}
    return set(map(iris.session_id, found)) if all(map(iris.is_session, found)) else None


_CANDIDATES: Final[Mapping[str, Callable[[Workspace], set[str] | None]]] = {
    "another-model-answered": _asked_for_a_model,
    "incomplete-turns": _lacking,
    "index-gaps": _broken,
    "undelegated-turns": _of_other_agents,
}
