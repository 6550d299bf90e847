"""Branches over the API: forks, the forest, differences, comparisons, search, and what a model is shown."""

from __future__ import annotations

from typing import Any, Final

from trails.serve.api import shapes
from trails.serve.api.operations import Asked, Operation


def list_branches(asked: Asked) -> dict[str, Any]:
    """Return a session's direct forks."""
    return {"sessions": [each.to_dict() for each in asked.view.branches(asked.session)]}


def read_forest(asked: Asked) -> dict[str, Any]:
    """Return the forest of forks and spawned sessions."""
    return {"nodes": [each.to_dict() for each in asked.view.forest(asked.query.session)]}


def read_diff(asked: Asked) -> dict[str, Any]:
    """Return what differs between two sessions."""
    return asked.view.diff(asked.query.left, asked.query.right).to_dict()


def read_comparison(asked: Asked) -> dict[str, Any]:
    """Return sessions and all their forks side by side."""
    query = asked.query
    root = query.root[0] if len(query.root) == 1 else list(query.root)
    found = asked.view.compare(
        root,
        at=query.fork_point,
        columns=query.columns or None,
        group_by=query.group_by or None,
        sort_by=query.sort_by or None,
        descending=query.descending,
    )
    return found.to_dict()


def read_context(asked: Asked) -> dict[str, Any]:
    """Return what a model is shown of a session."""
    query = asked.query
    found = asked.view.context(
        asked.session, query.query, max_tokens=query.max_tokens, pinned_count=query.pinned_count, cut=query.cut
    )
    if query.form == "openai":
        return {"messages": found.openai()}
    if query.form == "anthropic":
        return dict(found.anthropic())
    return dict(found.responses()) if query.form == "responses" else found.to_dict()


def search(asked: Asked) -> dict[str, Any]:
    """Return a page of turns that hold a text."""
    page = asked.view.search(**asked.query.model_dump(exclude={"at"}, exclude_none=True))
    return {"hits": [each.to_dict() for each in page], "cursor": page.cursor}


OPERATIONS: Final = (
    Operation(
        "GET", "/sessions/{session}/branches", "listBranches", "List a session's direct forks, oldest first.",
        list_branches, shapes.Records, query=shapes.AsOf,
    ),
    Operation(
        "GET", "/sessions/{session}/context", "readContext", "Read what a model is shown of a session.", read_context,
        shapes.Plain, query=shapes.ReadContext,
    ),
    Operation(
        "GET", "/forest", "readForest", "Read the forest of forks and spawned sessions.", read_forest, shapes.Nodes,
        query=shapes.ForestOf,
    ),
    Operation(
        "GET", "/diff", "readDiff", "Read what differs between two sessions.", read_diff, shapes.Plain, query=shapes.Two,
    ),
    Operation(
        "GET", "/comparison", "readComparison", "Compare sessions and all their forks, a row a branch.", read_comparison,
        shapes.Plain, query=shapes.Compare,
    ),
    Operation(
        "GET", "/search", "searchTurns", "Find turns by what they say.", search, shapes.Hits, query=shapes.Search,
    ),
)  # fmt: skip
