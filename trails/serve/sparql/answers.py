"""Ask a query of a store and keep its whole answer, so that what is sent is never cut."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any, Final

from trails.errors import QueryEnded, QueryTimeout, QueryTooLarge
from trails.rdf import query_files
from trails.serve.service import Settings
from trails.session.repository import Repository
from trails.store.queries import user_queries
from trails.store.queries.query_pool import Answer, QueryLimits
from trails.store.queries.user_queries import Graphs
from trails.store.queries.written_answers import Formats

IN_MEMORY: Final = 1 << 18
"""Bytes of an answer that are kept in memory; a longer one is kept in a file without a name."""


@dataclass(frozen=True, slots=True)
class Question:
    """A query, over what, and how its answer is written."""

    text: str
    formats: Formats
    graphs: Graphs | None = None
    union: bool = True
    """Whether the default graph is all graphs, where neither the query nor the request names any."""
    base: str | None = None
    """What relative IRIs are relative to."""
    seconds: float | None = None
    """How long it may take; the server's limit counts too."""
    is_ours: bool = False


@dataclass(frozen=True, slots=True)
class Written:
    """A whole answer, in a file that whoever reads it closes."""

    media_type: str | None
    """None where the form of the answer has no format that was asked for: then nothing was written."""
    file: IO[bytes]
    size: int


class LimitExceeded(QueryTooLarge):
    """A query takes more than the server allows: `limit` is the name of the setting, `allowed` its value."""

    def __init__(self, message: str, *, limit: str, allowed: float) -> None:
        super().__init__(message)
        self.limit = limit
        self.allowed = allowed


def limits_of(settings: Settings, seconds: float | None) -> QueryLimits:
    """Return what a query may take."""
    longest = settings.query_timeout
    return QueryLimits(min(seconds or longest, longest), settings.query_max_rows, settings.query_memory)


def written(view: Repository, question: Question, settings: Settings, on_begin: Callable[[], object]) -> Written:
    """Return the answer of a query, whole. It blocks, and calls a function once the query runs.

    Raises `LimitExceeded`, and what is wrong with the query.
    """
    limits = limits_of(settings, question.seconds)
    file: IO[bytes] = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 - it is closed once it was sent
    try:
        answer = user_queries.written(
            view.store,
            question.text,
            limits,
            question.formats,
            union=question.union,
            graphs=question.graphs,
            base=question.base,
            on_begin=on_begin,
            is_ours=question.is_ours,
        )
        size = _keep(answer, file, settings)
    except BaseException as error:
        file.close()
        if isinstance(error, QueryEnded):
            raise _named(error, settings, limits) from None
        raise
    file.seek(0)
    rows, triples = question.formats
    return Written(triples if answer.form is None else rows, file, size)


def of_graph(
    view: Repository, question: Question, settings: Settings, on_begin: Callable[[], object]
) -> Written | None:
    """Return the triples of a graph; None where there is no such graph. It blocks, and raises as `written` does."""
    if question.graphs is not None:
        exists, limits = query_files.find("graph_exists").bind(), limits_of(settings, question.seconds)
        if not user_queries.answer(view.store, exists, limits, graph=question.graphs[0][0], is_ours=True):
            return None
    return written(view, question, settings, on_begin)


def _keep(answer: Answer, file: IO[bytes], settings: Settings) -> int:
    """Write an answer into a file and return its size; raise `LimitExceeded` where it is too long."""
    size = 0
    for part in answer.parts():
        size += len(part)
        if size > settings.query_max_bytes:
            answer.close()
            raise LimitExceeded(
                f"the answer has more than {settings.query_max_bytes:,} bytes: ask for fewer columns, or add a LIMIT",
                limit="query_max_bytes",
                allowed=settings.query_max_bytes,
            )
        file.write(part)
    if answer.more:
        raise LimitExceeded(
            f"the answer has more than {settings.query_max_rows:,} rows: add a LIMIT, and page with ORDER BY and OFFSET",
            limit="query_max_rows",
            allowed=settings.query_max_rows,
        )
    return size


def _named(error: QueryEnded, settings: Settings, limits: QueryLimits) -> QueryEnded:
    """Return an error of a query that took too much as one that names the setting of the server."""
    if isinstance(error, LimitExceeded):
        return error
    if isinstance(error, QueryTooLarge):
        return LimitExceeded(
            f"the query took more than {settings.query_memory} MiB of memory and was ended: sort and group less, or "
            "name more in it (a session's graph, a type)",
            limit="query_memory",
            allowed=settings.query_memory,
        )
    if isinstance(error, QueryTimeout):
        return TimeExceeded(
            f"the query was ended after {limits.seconds:g} seconds, the longest that it may take here: name more in it "
            "(a session's graph, a type), or add a LIMIT within the part that is large",
            allowed=limits.seconds,
        )
    return error


class TimeExceeded(QueryTimeout):
    """A query took longer than the server, or the request, allows."""

    def __init__(self, message: str, *, allowed: float) -> None:
        super().__init__(message)
        self.limit = "query_timeout"
        self.allowed = allowed


def figures(
    view: Repository, text: str, settings: Settings, seconds: float, on_begin: Callable[[], object]
) -> list[dict[str, Any]]:
    """Return the rows of a query of ours. It blocks. Raises `QueryEnded` where it takes too long."""
    on_begin()
    found = user_queries.answer(view.store, text, limits_of(settings, seconds), is_ours=True)
    return found.to_dicts()  # type: ignore[union-attr] # a SELECT
