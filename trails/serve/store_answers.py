"""What the server answers to the store protocol: reads one by one or by operation, commits, and removals of text."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final, NoReturn, cast
from uuid import uuid4

from pyoxigraph import Quad

from trails.errors import InvalidInput, TrailsError
from trails.model import iris
from trails.model.validation import DECODING_ERRORS
from trails.rdf import activity_records, vocab
from trails.rdf.codec import term_text
from trails.rdf.query_files import BoundQuery
from trails.rows import row_schema
from trails.serve.callers import Caller, Forbidden
from trails.serve.service import Settings
from trails.session import remote
from trails.session.repository import Repository
from trails.store.contract import Change, Committed, QuadStore, Result
from trails.store.embedded import EmbeddedStore
from trails.store.queries import user_queries
from trails.store.queries.query_pool import QueryLimits
from trails.store.remote import wire
from trails.store.remote.store import RemoteStore

_MOST: Final = 10_000
"""Things that one request may read."""
_KEPT: Final = 10_000
"""Outcomes of commits and acts that are kept for a client that asks again."""
_DOERS: Final = frozenset({vocab.ATTRIBUTED_TO, vocab.ASSOCIATED_WITH, vocab.FORKED_BY})
"""The properties by which the catalogue says who did something."""
_STEPS: Final = 10_000
"""Steps of SQLite after which it is looked whether a SELECT took too long."""


class StoreAnswers:
    """Answers the requests of clients over one store."""

    def __init__(self, repository: Repository, settings: Settings) -> None:
        """Answer over a store; whoever opened it closes it."""
        self._repository = repository
        self._settings = settings
        self._epoch = uuid4().hex
        """Stands for this process: what a client was told by another one says nothing here."""
        self._outcomes = Outcomes()
        self._kinds: dict[str, Callable[..., Any]] = {
            "quads": self._quads,
            "query": self._query,
            "outside": self._outside,
            "table": self._table,
            "sql": self._sql,
            "lines": self._lines,
            "leaves": self._leaves,
            "count": lambda: len(self._repository.store),
        }

    def _at(self) -> list[Any]:
        """Return how far the store is: the number of its last record, its token, and the end of its log."""
        store = self._repository.store
        number = store.poll() if isinstance(store, EmbeddedStore) else store.number
        return [number, [self._epoch, store.token], list(store.log.reached)]

    # --- reading

    def read(self, caller: Caller, body: Mapping[str, Any]) -> dict[str, Any]:
        """Answer reads, or do an operation and tell what it read, and for whom."""
        at = self._at()
        if (asked := body.get("ahead")) is not None:
            return {"at": at, "told": self._told(caller, *asked), "principal": caller.principal}
        reads = body.get("reads", [])
        if not isinstance(reads, list) or len(reads) > _MOST:
            raise InvalidInput(f"one request reads at most {_MOST:,} things")
        return {"at": at, "answers": [self.answer(each) for each in reads]}

    def answer(self, request: wire.Request) -> Any:
        """Return the answer to one thing to be read."""
        try:
            kind, *given = request
            return self._kinds[kind](*given)
        except TrailsError:
            raise
        except (KeyError, *DECODING_ERRORS) as error:
            raise InvalidInput(f"a request of the store protocol cannot be read ({type(error).__name__})") from error

    def _told(self, caller: Caller, operation: str, args: list[Any], options: dict[str, Any]) -> list[list[Any]]:
        """Return what an operation reads, each with its answer; what it raises, the client raises when it does the same."""
        channel = _Recorder(self)
        actor = activity_records.named_actor(caller.principal)
        with suppress(TrailsError), remote.RemoteRepository(RemoteStore(channel), actor=actor) as repository:
            if operation != "open":
                channel.told.clear()
            remote.perform(repository, operation, args, options)
        return channel.told

    def _quads(self, pattern: list[str | None]) -> str:
        return wire.quads_out(self._repository.store.quads(wire.pattern_in(pattern)))

    def _query(self, query: Any, union: bool, graph: str | None) -> Any:
        text = wire.query_in(query)
        if not isinstance(text, BoundQuery):
            return wire.result_out(self._asked(text, union, graph, QueryLimits()))
        return wire.result_out(
            self._repository.store.query(text, union=union, graph=wire.graph_in(graph) if graph is not None else None)
        )

    def _outside(self, query: Any, union: bool, graph: str | None, limits: list[Any]) -> Any:
        text, bounds = wire.query_in(query), QueryLimits(*limits)
        if isinstance(text, BoundQuery) and not bounds.is_set:
            values: dict[str, Any] = {name: terms for name, terms in text.terms.items() if terms is not None}
            return wire.result_out(self._repository.query(text.name, **values))
        return wire.result_out(self._asked(text, union, graph, bounds))

    def _asked(self, text: str, union: bool, graph: str | None, limits: QueryLimits) -> Result:
        """Return the answer of a query from outside, which takes no more than the server's settings allow."""
        most = self._settings
        bounds = QueryLimits(
            min(most.query_timeout, limits.timeout or most.query_timeout),
            min(most.query_max_rows, limits.max_rows or most.query_max_rows),
            min(most.query_memory, limits.memory or most.query_memory),
        )
        named = None if graph is None else wire.graph_in(graph)
        return user_queries.answer(
            self._repository.store, text, bounds, union=union, graph=named, is_ours=isinstance(text, BoundQuery)
        )

    def _table(self, query: Any) -> list[list[str]]:
        text = wire.query_in(query)
        if isinstance(text, BoundQuery):
            return self._repository.store.table(text)
        found = wire.result_out(self._asked(text, False, None, QueryLimits()))
        return cast("list[list[str]]", found["rows"])

    def _lines(self, number: int) -> int:
        return self._repository.store.log.records.lines(number)

    def _leaves(self, after: int, until: int) -> list[list[Any]]:
        return [[lines, list(told)] for lines, told in self._repository.store.log.records.leaves(after, until)]

    def _sql(self, text: str, values: Any) -> dict[str, Any]:
        """Return the rows of a SELECT over the tables of the rows, and of nothing else."""
        if isinstance(values, dict):
            given: Any = {name: wire.value_in(value) for name, value in values.items()}
        else:
            given = [wire.value_in(value) for value in values]
        with self._repository.workspace.rows.reading() as connection:
            row_schema.create_functions(connection)
            with _guarded(connection, self._settings.query_timeout):
                cursor = connection.execute(text, given)
                found = cursor.fetchall()
                names = [each[0] for each in cursor.description or ()]
        return {"names": names, "rows": [[wire.value_out(value) for value in row] for row in found]}

    # --- writing

    def commit(self, caller: Caller, body: Mapping[str, Any]) -> dict[str, Any]:
        """Do a commit, or tell what became of it where it was done already."""
        change = _change(body)
        if caller.role != "admin":
            _refuse_removal(change)
            self._check_authors(caller, change)
        done = self._outcomes.once(body.get("id"), lambda: self._committed(change, is_repeat=bool(body.get("again"))))
        return {"at": self._at(), "committed": done}

    def _committed(self, change: Change, *, is_repeat: bool) -> list[Any]:
        """Do a commit; one that is sent again, maybe to a server that was started anew, is not written if the store holds it."""
        store = self._repository.store
        if is_repeat and _is_there(store, change):
            return wire.committed_out(Committed(False, store.number, store.log.reached.link))
        return wire.committed_out(store.commit(change))

    def act(self, caller: Caller, body: Mapping[str, Any]) -> dict[str, Any]:
        """Do what the server alone can, or tell what that gave if it was done already; text is taken out for an admin."""
        name, options = str(body.get("act")), _options(body)
        if name in remote.REMOVALS and caller.role != "admin":
            raise Forbidden(
                f"the role {caller.role!r} takes no text out of the store: ask for a token with the role admin"
            )
        options["by"] = caller.by(options.get("by"))
        done = self._outcomes.once(body.get("id"), lambda: remote.act(self._repository, name, options))
        return {"at": self._at(), "done": done}

    def _check_authors(self, caller: Caller, change: Change) -> None:
        """Raise `Forbidden` if a commit says of somebody else that they did something, which the store does not say yet.

        Who wrote a turn is part of its text, and for whom a session runs is said by whoever makes it.
        """
        own = activity_records.named_actor(caller.principal)
        for quad in (*change.add, *change.also_add):
            if own is None or not _says_who(quad) or term_text(quad.object) == own:
                continue
            if not self._repository.store.quads((quad.subject, quad.predicate, quad.object, vocab.CATALOG)):  # type: ignore[arg-type] # an IRI
                caller.by(term_text(quad.object))


def _says_who(quad: Quad) -> bool:
    """Tell whether a quad says who did something: not of a turn, nor for whom a session runs."""
    is_owner = quad.predicate == vocab.ATTRIBUTED_TO and iris.is_session(term_text(quad.subject))
    return quad.graph_name == vocab.CATALOG and quad.predicate in _DOERS and not is_owner


def _options(body: Mapping[str, Any]) -> dict[str, Any]:
    given = body.get("options") or {}
    if not isinstance(given, dict):
        raise InvalidInput("the options of an act are a JSON object")
    return dict(given)


def _change(body: Mapping[str, Any]) -> Change:
    try:
        return wire.change_in(body)
    except TrailsError:
        raise
    except (SyntaxError, *DECODING_ERRORS) as error:
        raise InvalidInput(
            f"the commit cannot be read ({type(error).__name__}: {error!s:.200}); nothing was written"
        ) from error


def _is_there(store: QuadStore, change: Change) -> bool:
    """Tell whether a store is as a commit leaves it: each commit has quads that no other one has, or changes nothing."""
    asked: Callable[[Quad], list[Quad]] = lambda quad: store.quads(tuple(quad))  # noqa: E731
    is_whole = all(map(asked, change.add)) and not any(map(asked, change.remove))
    return bool(change.add or change.remove) and is_whole and not change.drop


def _refuse_removal(change: Change) -> None:
    """Raise `Forbidden` for a commit that takes turns out of the store: only an admin does."""
    removed = [*change.remove, *change.also_remove]
    if change.drop or any(quad.graph_name != vocab.CATALOG for quad in removed):
        raise Forbidden("this commit takes turns out of the store, for which a token with the role admin is needed")


_DENIED: Final = frozenset(
    {sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH, sqlite3.SQLITE_TRANSACTION, sqlite3.SQLITE_SAVEPOINT}
)
_HARMFUL: Final = frozenset({"load_extension", "fts3_tokenizer", "readfile", "writefile", "randomblob", "zeroblob"})


@contextmanager
def _guarded(connection: sqlite3.Connection, seconds: float) -> Iterator[None]:
    """Let a connection do nothing but read the tables of the rows, for so many seconds; say in words what it refuses."""
    end = time.monotonic() + seconds
    (before,) = connection.execute("PRAGMA query_only").fetchone()
    connection.execute("PRAGMA query_only = 1")
    connection.set_authorizer(_is_allowed)
    connection.set_progress_handler(lambda: time.monotonic() > end, _STEPS)
    try:
        yield
    except (sqlite3.Error, sqlite3.Warning) as error:
        raise InvalidInput(f"the rows of the store cannot be asked that: {error!s:.200}") from error
    finally:
        connection.set_progress_handler(None, 0)
        connection.set_authorizer(None)
        connection.execute(f"PRAGMA query_only = {int(before)}")


def _is_allowed(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    """Tell SQLite whether a statement may do something. Nothing is written in any case: the connection only reads."""
    if action == sqlite3.SQLITE_PRAGMA:
        return sqlite3.SQLITE_OK if first == "data_version" else sqlite3.SQLITE_DENY  # the full-text index asks that
    if action == sqlite3.SQLITE_READ and (first or "").startswith("trails_"):
        return sqlite3.SQLITE_DENY
    if action in _DENIED or (action == sqlite3.SQLITE_FUNCTION and second in _HARMFUL):
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


class Outcomes:
    """What became of the latest commits and acts: one that is asked for twice happens once."""

    def __init__(self) -> None:
        """Nothing is known yet."""
        self._lock = threading.Lock()
        self._known: OrderedDict[str, _Outcome] = OrderedDict()

    def once(self, key: object, work: Callable[[], Any]) -> Any:
        """Return what a piece of work gives; if it is done or going on under the same key, what that gave."""
        if not isinstance(key, str) or not 0 < len(key) <= 200:
            raise InvalidInput("a commit and an act have an id, a text of up to 200 characters")
        with self._lock:
            outcome = self._known.setdefault(key, _Outcome())
            self._known.move_to_end(key)
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)
        with outcome.lock:
            if not outcome.is_there:
                outcome.value = work()
                outcome.is_there = True
            return outcome.value


class _Outcome:
    __slots__ = ("is_there", "lock", "value")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.is_there = False
        self.value: Any = None


class _Recorder:
    """The way from an operation in the server to its own store, which notes what was read."""

    is_far = False

    def __init__(self, answers: StoreAnswers) -> None:
        self._answers = answers
        self.told: list[list[Any]] = []

    @property
    def location(self) -> str:
        return self._answers._repository.store.location

    def ask(self, what: str, body: Mapping[str, Any]) -> Any:
        """Answer reads; nothing is written while an operation is done for what it reads."""
        at = self._answers._at()
        if what != "read":
            self._refuse()
        if "ahead" in body:
            return {"at": at, "told": []}
        found = [[request, self._answers.answer(request)] for request in body["reads"]]
        self.told += found
        return {"at": at, "answers": [answer for _, answer in found]}

    def _refuse(self) -> NoReturn:
        raise Forbidden("an operation that is asked for ahead writes nothing")

    def close(self) -> None:
        """There is nothing to let go of."""
