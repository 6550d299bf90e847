"""Queries of the catalogue that are answered from the figures: what each of them needs of the store and of the figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from trails.history.workspace import Workspace
from trails.plumbing import called
from trails.plumbing.index.sidefile import SideFile
from trails.rdf import vocab
from trails.rdf.query_files import QueryFile
from trails.store.contract import Matching, Solutions

Terms = Mapping[str, Sequence[Any] | None]
"""The values that are given for a query's parameters, by name."""
Row = tuple[Any, ...]
"""The terms of a row, in the order of the query's columns; None for what is unbound."""
Question = Callable[[Workspace, Terms], list[Row] | None]
"""Gives the rows of a query, or None where it must be asked of the store."""


def answer(
    workspace: Workspace, query: QueryFile, values: Mapping[str, Any], questions: Mapping[str, Question]
) -> Solutions | None:
    """Return the rows of a query of the catalogue with its parameters as `QueryFile.bind` takes them.

    None where it must be asked of the store: it is none of `questions`, the figures are not there or far behind, or it asks
    for one value twice.
    """
    asked = questions.get(query.name)
    if asked is None or query.folder == "core" or not called.is_near(workspace):
        return None
    given = query.terms(**values)
    if any(each is not None and len(set(each)) < len(each) for each in given.values()):
        return None
    rows = asked(workspace, given)
    return None if rows is None else called.solutions([column.name for column in query.columns], rows)


def has_begun_copies(store: Matching) -> bool:
    """Tell whether there may be copies in a session that are not its turns yet, which the index leaves out."""
    return bool(store.quads((None, vocab.TYPE, vocab.UNFINISHED_COPY, vocab.CATALOG)))


class Session(NamedTuple):
    """What lineages are made of."""

    number: int
    parent: str | None
    starts_at: int


def lineages(file: SideFile) -> dict[str, Session]:
    """Return all sessions by id."""
    return {row[0]: Session(*row[1:]) for row in file.each("SELECT id, number, parent, starts_at FROM sessions")}


def segments(sessions: Mapping[str, Session], session_id: str) -> list[tuple[str, int | None]] | None:
    """Return the owners of a transcript's turns, itself first, each with the index before which its turns belong to it.

    None for a lineage that is not whole: a session is missing, or the chain is a circle.

    >>> forest = {"a": Session(1, None, 0), "b": Session(2, "a", 9), "c": Session(3, "b", 4)}
    >>> segments(forest, "c")
    [('c', None), ('b', 4), ('a', 4)]
    """
    found, end = list[tuple[str, int | None]](), None
    at: str | None = session_id
    while at is not None:
        if at not in sessions or len(found) > len(sessions):
            return None
        found.append((at, end))
        session = sessions[at]
        if session.parent is not None:
            end = session.starts_at if end is None else min(end, session.starts_at)
        at = session.parent
    return found
