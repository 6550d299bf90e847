"""A store that a server keeps, as the rest of Trails sees a store."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pyoxigraph as ox

from trails.errors import StoreFailed
from trails.handles import Handle
from trails.store.contract import Change, Committed, PreconditionFailed, Result
from trails.store.leaflog import LeafLog, Leaves
from trails.store.pattern import Pattern, matches
from trails.store.remote import wire
from trails.store.remote.channel import Channel
from trails.store.remote.rows import RemoteConnection
from trails.store.remote.wire import Request

_REMEMBERED: Final = 2_000
"""Answers that are remembered for the commits that follow."""
_SMALL: Final = 1 << 16
"""Characters of quads up to which an answer is remembered."""
_FEW_ROWS: Final = 50
_CHUNK: Final = 5_000
"""Records whose leaves are asked for at once."""


class _Thread(threading.local):
    """What one thread has been told ahead, and whether what it remembers will do."""

    def __init__(self) -> None:
        self.ahead: dict[str, Any] | None = None
        self.recalls = 0


class RemoteStore(Handle):
    """The quads of a store that a server keeps.

    A read is one request. `ahead` asks for all that an operation will read in one. What is read to prepare a commit may come from
    memory (`recalling`, `expected`): the commit checks it, and says what has changed.
    """

    def __init__(self, channel: Channel) -> None:
        """Nothing is asked yet; raises nothing."""
        self._channel = channel
        self._client = uuid4().hex
        self._thread = _Thread()
        self._lock = threading.Lock()
        self._known: OrderedDict[str, Any] = OrderedDict()
        """By request, what was answered last."""
        self._number = 0
        self._token: object = None
        self._closed = False
        self.principal: str | None = None
        """For whom the server takes this client, once it has said so; None for whoever is at its machine."""
        self._log = LeafLog(_RemoteRecords(self))

    @property
    def location(self) -> str:
        return self._channel.location

    @property
    def folder(self) -> Path | None:
        return None

    @property
    def log(self) -> LeafLog:
        self._refuse_closed()
        return self._log

    @property
    def token(self) -> object:
        return self._token

    @property
    def number(self) -> int:
        return self._number

    def _refuse_closed(self) -> None:
        if self._closed:
            raise StoreFailed(f"the store {self.location} is closed; open it again")

    # --- asking

    def ask(self, what: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the server's answer to a request, and take note of where its store is."""
        self._refuse_closed()
        answer: dict[str, Any] = self._channel.ask(what, body)
        number, token, reached = answer["at"]
        with self._lock:
            if number >= self._number:
                self._number, self._token = number, tuple(token)
                self._log.advance(Leaves(*reached))
        return answer

    def read(self, request: Request) -> Any:
        """Return the answer to one thing to be read: told ahead, remembered where that will do, or asked for."""
        key = json.dumps(request)
        thread = self._thread
        if thread.ahead is not None and key in thread.ahead:
            return thread.ahead[key]
        if thread.recalls and (known := self._recalled(request, key)) is not None:
            return known
        (found,) = self.ask("read", {"reads": [request]})["answers"]
        self._remember([(key, found)])
        return found

    def _remember(self, told: Sequence[tuple[str, Any]]) -> None:
        with self._lock:
            for key, answer in told:
                if _is_small(key, answer):
                    self._known[key] = answer
                    self._known.move_to_end(key)
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)

    def _recalled(self, request: Request, key: str) -> Any:
        """Return what is remembered as the answer to a request: its own, or part of what was said of the same subject."""
        if key in self._known or request[0] != "quads":
            return self._known.get(key)
        subject, _, _, graph = request[1]
        every = self._known.get(_quads_key((subject, None, None, graph))) if subject and graph is not None else None
        if every is None:
            return None
        pattern = wire.pattern_in(request[1])
        return wire.quads_out(quad for quad in wire.quads_in(every) if matches(quad, pattern))

    @contextmanager
    def ahead(self, operation: str, *args: Any, **options: Any) -> Iterator[None]:
        """Ask for all that an operation of `Repository` will read, and answer its reads from that until this ends.

        The server does the operation over its own store and tells what that read. What it does not tell is asked for as ever.
        """
        thread = self._thread
        if thread.ahead is not None:
            yield  # within another one, which told of this, too
            return
        answer = self.ask("read", {"ahead": [operation, list(args), options]})
        told = [(json.dumps(request), found) for request, found in answer["told"]]
        self._remember(told)
        self.principal = answer.get("principal")
        thread.ahead = dict(told)
        try:
            yield
        finally:
            thread.ahead = None

    @contextmanager
    def recalling(self) -> Iterator[None]:
        """Read from memory, until this ends, what was read before: of a session that was loaded, as it was then."""
        self._thread.recalls += 1
        try:
            yield
        finally:
            self._thread.recalls -= 1

    def expected(self, pattern: Pattern) -> list[ox.Quad]:
        """Return what matches a pattern as far as this knows, without asking: nothing, where it knows nothing.

        For whoever puts that into a commit's `read`, with which the server holds it against what is there.
        """
        if not self._channel.is_far:
            return self.quads(pattern)
        key = _quads_key(wire.pattern_out(pattern))
        ahead = self._thread.ahead or {}
        return wire.quads_in(ahead.get(key) or self._known.get(key, ""))

    # --- the contract

    def query(
        self, text: str, *, union: bool = False, graph: ox.NamedNode | ox.BlankNode | ox.DefaultGraph | None = None
    ) -> Result:
        return wire.result_in(self.read(["query", wire.query_out(text), union, wire.graph_out(graph)]))

    def outside(
        self,
        text: str,
        bounds: Sequence[float | None] = (None, None, None),
        *,
        union: bool = False,
        graph: ox.NamedNode | ox.BlankNode | None = None,
    ) -> Result:
        """Return the answer of a query from outside, which the server ends if it takes more than it may.

        `bounds` are seconds, rows and MiB; the server has bounds of its own.
        """
        said = ["outside", wire.query_out(text), union, wire.graph_out(graph), list(bounds)]
        (found,) = self.ask("read", {"reads": [said]})["answers"]
        return wire.result_in(found)

    def table(self, text: str) -> list[list[str]]:
        found: list[list[str]] = self.read(["table", wire.query_out(text)])
        return found

    def rows(self, text: str) -> Iterator[list[str]]:
        return iter(self.table(text))

    def quads(self, pattern: Pattern) -> list[ox.Quad]:
        return wire.quads_in(self.read(["quads", wire.pattern_out(pattern)]))

    def rows_connection(self) -> Any:
        """Return what the rows of sessions, turns and calls are read through."""
        self._refuse_closed()
        return RemoteConnection(self.read)

    def commit(self, change: Change) -> Committed:
        commit_id = f"{self._client}-{uuid4().hex}"
        if self._thread.ahead is not None:
            self._thread.ahead = {}  # what was told ahead is as it was before the commit
        try:
            answer = self.ask("commit", wire.change_out(change, commit_id))
        except PreconditionFailed as failure:
            self._forget()
            if failure.is_outdated and change.read:
                self._read_again(change.read)
            raise
        except BaseException:
            self._forget()  # nobody knows what became of it
            raise
        done = Committed(*answer["committed"])
        self._remember(
            [(_quads_key(wire.pattern_out(each)), wire.quads_out(found)) for each, found in (change.read or {}).items()]
        )
        self._apply(change)
        return done

    def _read_again(self, read: Mapping[Pattern, Sequence[ox.Quad]]) -> None:
        """Look at all that a commit was made from once more, in one request: it is made anew from that."""
        requests: list[Request] = [["quads", wire.pattern_out(pattern)] for pattern in read]
        answers = self.ask("read", {"reads": requests})["answers"]
        self._remember([(json.dumps(request), found) for request, found in zip(requests, answers, strict=True)])

    def _forget(self) -> None:
        with self._lock:
            self._known.clear()

    def _apply(self, change: Change) -> None:
        """Bring what is remembered up to a commit of this store's own."""
        removed = {*change.remove, *change.also_remove}
        added = [*change.add, *change.also_add]
        dropped = set(change.drop)
        with self._lock:
            for key, answer in list(self._known.items()):
                kind, asked, *_ = json.loads(key)
                if kind != "quads":
                    if kind != "query" or removed or dropped or not isinstance(asked, list):
                        del self._known[key]
                    continue
                pattern = wire.pattern_in(asked)
                more = [quad for quad in added if matches(quad, pattern)]
                less = any(matches(quad, pattern) for quad in removed)
                if not (more or less or dropped):
                    continue
                kept = [
                    quad
                    for quad in wire.quads_in(answer)
                    if quad not in removed and quad not in more and quad.graph_name not in dropped
                ]
                self._known[key] = wire.quads_out([*kept, *more])

    def act(self, act: str, **options: Any) -> Any:
        """Have the server do what takes text out of its store, which it alone can; return what that gave, as JSON."""
        answer = self.ask("act", {"id": f"{self._client}-{uuid4().hex}", "act": act, "options": options})
        self._forget()
        return answer["done"]

    def sync(self) -> bool:
        """Learn how far the server's store is; return whether somebody committed since this was last told."""
        before = self._number
        self.ask("read", {"reads": []})
        if self._number != before:
            self._forget()
        return self._number != before

    def flush(self) -> None:
        self._refuse_closed()

    def close(self) -> None:
        self._closed = True
        self._channel.close()

    def __len__(self) -> int:
        self._refuse_closed()
        return int(self.read(["count"]))


def _quads_key(pattern: Sequence[str | None]) -> str:
    return json.dumps(["quads", list(pattern)])


def _is_small(key: str, answer: Any) -> bool:
    """Tell whether an answer is remembered: quads that a commit may be made from, and short rows of Trails' own queries."""
    if key.startswith('["quads"'):
        return len(answer) <= _SMALL
    return key.startswith('["query"') and isinstance(answer, dict) and len(answer.get("rows", ())) <= _FEW_ROWS


class _RemoteRecords:
    """What the log of leaves is read from."""

    trouble: str | None = None

    def __init__(self, store: RemoteStore) -> None:
        self._store = store

    def lines(self, number: int) -> int:
        """Return how many lines there are after a record."""
        return int(self._store.read(["lines", number])) if number else 0

    def leaves(self, after: int, until: int, *, backwards: bool = False) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Yield the number of lines after each record between two numbers, with the lines of its leaves."""
        if backwards:
            for low in range(until, after, -_CHUNK):
                yield from self._between(max(after, low - _CHUNK), low)[::-1]
            return
        for low in range(after, until, _CHUNK):
            yield from self._between(low, min(until, low + _CHUNK))

    def _between(self, after: int, until: int) -> list[tuple[int, tuple[str, ...]]]:
        return [(lines, tuple(told)) for lines, told in self._store.read(["leaves", after, until])]
