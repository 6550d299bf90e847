"""Name the sessions that a query's rows name, for those who act on them: holds and retention rules."""

from __future__ import annotations

from pyoxigraph import NamedNode

from trails.errors import InvalidInput
from trails.history import encryption
from trails.history.workspace import Workspace
from trails.model import iris, validation
from trails.rdf import query_files
from trails.store.contract import Solutions
from trails.store.queries import user_queries
from trails.store.queries.query_pool import QueryLimits

_COLUMN = "session"


def check_query(text: str) -> str:
    """Return the text of a query, or the name of one of the catalogue; raise `InvalidInput` for one that names no sessions."""
    query = validation.text(text, "the query").strip()
    if not query:
        raise InvalidInput(f"a query has a column {_COLUMN}, or is the name of one of the catalogue; this one is empty")
    return query


def sessions_of_query(workspace: Workspace, text: str) -> list[str]:
    """Return the ids of the stored sessions that the column `session` of a query's rows names, in order, each once.

    `text` is a SELECT, or the name of a query of the catalogue that needs no parameters. Raises `InvalidInput` where it has no
    such column, or names there what is no session.
    """
    is_ours = query_files.exists(text)
    bound = query_files.find(text).bind() if is_ours else text
    encryption.check_query(workspace.store, bound, is_ours=is_ours)
    rows = user_queries.answer(workspace.store, bound, QueryLimits(), union=not is_ours, is_ours=is_ours)
    if not isinstance(rows, Solutions) or _COLUMN not in rows.variables:
        raise InvalidInput(
            f"the query has no column {_COLUMN}, which names the sessions: SELECT ?{_COLUMN} WHERE {{ ... }}"
        )
    if rows.truncated:
        raise InvalidInput("the query's answer was cut, so some sessions are missing; ask for less, or allow more rows")
    every = workspace.reader.ids()
    there = set(every)
    found: dict[str, None] = {}
    for row in rows:
        node = row[_COLUMN]
        if not isinstance(node, NamedNode) or not iris.is_session(node.value):
            raise InvalidInput(f"the query's column {_COLUMN} holds {str(node)[:80]}, which is no session's IRI")
        if iris.session_id(node.value) in there:
            found[iris.session_id(node.value)] = None
    return list(found)
