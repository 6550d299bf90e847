"""The catalogue's queries that are told without asking the engine for every turn: by which module each of them is."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from trails.history.workspace import Workspace
from trails.plumbing import backwards, branched, called, failing, figured, narrowing, tooled, uses, worded
from trails.plumbing.figured import Question
from trails.plumbing.index.untrue import as_damaged
from trails.rdf.query_files import QueryFile
from trails.store.contract import Result, Solutions

_QUESTIONS: Final[Mapping[str, Question]] = {**uses.QUERIES, **tooled.QUERIES, **branched.QUERIES, **failing.QUERIES}


def answer(
    workspace: Workspace, query: QueryFile, values: Mapping[str, Any], ask: Callable[[str], Result]
) -> Solutions | None:
    """Return the rows of a query of the catalogue with its parameters as `QueryFile.bind` takes them: those over the turns.

    `ask` answers a text. None where the query must be asked of the whole store.
    """
    for known in (called.answer, _figured, backwards.answer, worded.answer):
        with suppress(sqlite3.Error), as_damaged():  # figures that were altered, which `verify` tells
            if (told := known(workspace, query, values)) is not None:
                return told
    return narrowing.narrowed(workspace, query, values, ask)


def _figured(workspace: Workspace, query: QueryFile, values: Mapping[str, Any]) -> Solutions | None:
    return figured.answer(workspace, query, values, _QUESTIONS)
