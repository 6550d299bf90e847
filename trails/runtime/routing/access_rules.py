"""Limit what a sandboxed session sees.

The quads of the visible sessions are copied into an engine in memory, and nothing else is: whatever a query says, there
is nothing there to find. The rows of the catalog cannot be confined otherwise, as those of all sessions are in one graph.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import pyoxigraph as ox
from pyoxigraph import Literal, NamedNode

from trails.errors import InvalidInput
from trails.handles import Handle
from trails.history.lookup import session_quads
from trails.history.records import conversations
from trails.model import iris, validation
from trails.rdf import query_files, query_guard, vocab
from trails.rdf.derived_quads import are_named_in, dump_with_derived
from trails.runtime import keys
from trails.session import Repository, presentation
from trails.store.contract import Result, Solutions
from trails.store.queries import user_queries
from trails.store.queries.query_pool import QueryLimits, Source

_SPAWNED_BY_KEY: Final = vocab.ENTRY_FIELDS["spawnedBy"]


def visible_sessions(repository: Repository, session_id: str) -> list[str]:
    """Return the ids of the sessions that one may see: itself, what it spawned, what that spawned, and so on.

    What earlier sessions of its key spawned is among them, the earlier sessions themselves are not.
    """
    store = repository.store
    records = repository.reader.records([session_id])
    if session_id not in records:
        raise repository.reader.not_found(session_id)
    key = records[session_id].key
    seen = {session_id: None}
    parents = [session_id, *(conversations.sessions_in(store, key) if key is not None else [])]
    asked: set[str] = set()
    while parents:
        parent = parents.pop()
        if parent in asked:
            continue
        asked.add(parent)
        node = NamedNode(iris.session(parent))
        quads = store.quads((None, vocab.SPAWNED_BY, node, vocab.CATALOG))
        for quad in store.quads((node, vocab.KEY, None, vocab.CATALOG)):
            for name in keys.spellings(str(getattr(quad.object, "value", ""))):
                quads += store.quads((None, _SPAWNED_BY_KEY, Literal(name), None))
        children = [iris.session_id(str(getattr(quad.subject, "value", ""))) for quad in quads]
        seen |= dict.fromkeys(children)
        parents += children
    return list(seen)


class View(Handle, public=True):
    """The part of a store that a session may see, as it was when the view was made; nothing can be written to it."""

    def __init__(self, repository: Repository, session_id: str) -> None:
        """Make the view of a session.

        Raise `SessionNotFound` if there is none.
        """
        self._session_id = session_id
        records = repository.reader.records(visible_sessions(repository, session_id))
        self._sessions = tuple(records)
        self._has_encrypted = any(record.encryption is not None for record in records.values())
        self._engine = ox.Store()
        self._engine.extend(
            quad for record in records.values() for quad in session_quads.session_quads(repository.store, record)
        )
        self._graphs = [graph for graph in self._engine.named_graphs() if isinstance(graph, NamedNode)]
        self._limits = repository.limits
        self._sources = {derives: self._source(derives=derives) for derives in (False, True)}

    def _source(self, *, derives: bool) -> Source:
        """Return what queries are asked of, with or without what is derived of what can be seen."""
        engine = self._engine
        dump = partial(dump_with_derived, engine) if derives else partial(engine.dump, format=ox.RdfFormat.N_QUADS)
        return Source(f"the view of {self._session_id}", self, derives, dump=dump)

    def __repr__(self) -> str:
        return f"<View of {self._session_id!r}: {len(self._sessions)} sessions>"

    @property
    def sessions(self) -> tuple[str, ...]:
        """The ids of the sessions that can be seen."""
        return self._sessions

    def __contains__(self, session_id: object) -> bool:
        return session_id in self._sessions

    def query(
        self,
        text: str,
        /,
        *,
        union: bool = True,
        timeout: float | None = None,
        max_rows: int | None = None,
        **parameters: Any,
    ) -> Result:
        """Return the result of a SPARQL query over what can be seen, as `Repository.query` does over everything.

        FROM and FROM NAMED choose among what can be seen; naming anything else finds nothing. Its limits are those too.
        Raises as that does.
        """
        limits = QueryLimits(timeout, max_rows).over(self._limits)
        if query_files.exists(validation.text(text, "the query")):
            bound = query_files.find(text).bind(**parameters)
            if self._has_encrypted:
                query_guard.check_encrypted(bound, is_ours=True)
            return user_queries.of_source(self._sources[False], bound, limits, self._dataset(union=False), is_free=True)
        if text.replace("_", "").replace("-", "").isalnum():
            query_files.find(text)  # raises, naming what there is
        if parameters:
            raise InvalidInput("parameters go with queries of the catalogue; write the values into a text of your own")
        query_guard.check_text(text)
        if self._has_encrypted:
            query_guard.check_encrypted(text)
        return user_queries.of_source(
            self._sources[are_named_in(text)], text, limits, self._dataset(union=union), is_free=True
        )

    def select(self, text: str, /, *, union: bool = True, **options: Any) -> Solutions:
        """Return the rows of a SELECT over what can be seen.

        Raise `InvalidInput` for any other form, naming its method.
        """
        return presentation.solution_rows(self.query(text, union=union, **options))

    def ask(self, text: str, /, *, union: bool = True, **options: Any) -> bool:
        """Return the answer of an ASK over what can be seen.

        Raise `InvalidInput` for any other form.
        """
        return presentation.query_answer(self.query(text, union=union, **options))

    def construct(self, text: str, /, *, union: bool = True, **options: Any) -> list[ox.Triple]:
        """Return the triples of a CONSTRUCT or DESCRIBE over what can be seen.

        Raise `InvalidInput` for any other form.
        """
        return presentation.triple_rows(self.query(text, union=union, **options))

    def _dataset(self, *, union: bool) -> dict[str, Any]:
        """Return which graphs a query is over that names none itself: both lists, since one alone confines nothing."""
        return {"default_graph": [vocab.CATALOG, *(self._graphs if union else [])], "named_graphs": self._graphs}
