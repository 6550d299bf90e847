"""Appends of many clients, written in shared commits: one client's wait is the time in which others' turns gather."""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from trails.errors import HeadConflict, StoreFailed, TrailsError
from trails.model.values import Turn
from trails.session.repository import Repository
from trails.session.session import Session

_MOST: Final = 64
"""Appends that go into one commit at most."""
_HANDLES: Final = 256
_WRITES: Final = 500
"""Turns that a handle is kept for; one that is made anew holds none of them."""
_TRIES: Final = 5


class KeyReused(TrailsError):
    """An idempotency key came with another request than before."""


@dataclass(slots=True)
class Append:
    """Turns that a client appends to a session."""

    session_id: str
    """Any name of the session; its id once it is written."""
    turns: Sequence[Mapping[str, Any]]
    """The arguments of `Session.append`, for each."""
    expected: str | None = None
    """The head that the session must have."""
    key: str | None = None
    """By which the request is known when it is sent again,"""
    digest: str | None = None
    """and the digest of the request, which tells it from another one with its key."""
    stored: list[Turn] = field(default_factory=list)
    is_repeat: bool = False
    error: Exception | None = None


class Appender:
    """Writes appends, one commit after the other, each with all that wait when it begins."""

    def __init__(self, store: Repository, run: Callable[..., Awaitable[Any]]) -> None:
        """`run` calls a function on a worker thread."""
        self._store = store
        self._run = run
        self._waiting: list[tuple[Append, asyncio.Future[None]]] = []
        self._writing: asyncio.Task[None] | None = None
        self._handles: OrderedDict[str, Session] = OrderedDict()
        self._writes: dict[str, int] = {}
        self._token = store.store.token
        self.commits = 0
        """Commits so far that stored appends,"""
        self.appends = 0
        """and how many those were."""

    async def append(self, wanted: Append) -> Append:
        """Store turns, and return them as they are stored; raise what `Session.append` and `persist` do.

        Whoever is cancelled while it waits may have stored its turns.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((wanted, done))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_all())
        await asyncio.shield(done)
        if wanted.error is not None:
            raise wanted.error
        return wanted

    @property
    def waiting(self) -> int:
        """How many appends wait."""
        return len(self._waiting)

    async def finish(self) -> None:
        """Return once nothing waits to be written."""
        while self._writing is not None and not self._writing.done():
            await asyncio.shield(self._writing)

    async def _write_all(self) -> None:
        while self._waiting:
            taken, self._waiting = self._waiting[:_MOST], self._waiting[_MOST:]
            appends = [each for each, _ in taken]
            try:
                await self._run(self._write, appends)
            except BaseException as error:  # each who waits is told
                for each in appends:
                    each.error = each.error or (error if isinstance(error, Exception) else StoreFailed(str(error)))
                if not isinstance(error, Exception):
                    raise
            finally:
                for _, done in taken:
                    if not done.done():
                        done.set_result(None)

    # --- on a worker thread, one at a time

    def _write(self, appends: Sequence[Append]) -> None:
        """Write appends in one commit, or each session's in its own where they cannot go together."""
        self._drop_erased()
        by_session: dict[str, list[Append]] = {}
        for each in appends:
            if self._is_named(each):
                by_session.setdefault(each.session_id, []).append(each)
        ready: dict[str, Session] = {}
        for session_id, own in by_session.items():
            handle = self._prepare(session_id, own)
            if handle is not None and handle.pending:
                ready[session_id] = handle
        if not ready:
            return
        try:
            self._commit(list(ready.values()))
        except TrailsError:
            for session_id, handle in ready.items():
                self._write_alone(session_id, handle, by_session[session_id])
        for session_id in by_session:
            self._retire(session_id)
        self.appends += sum(each.error is None for each in appends)

    def _is_named(self, wanted: Append) -> bool:
        """Give an append the id of its session; where there is none, it has an error."""
        try:
            if wanted.session_id not in self._handles:
                wanted.session_id = self._store.resolve(wanted.session_id)
        except Exception as error:  # noqa: BLE001 - who waits is told
            wanted.error = error
        return wanted.error is None

    def _commit(self, handles: Sequence[Session]) -> None:
        self.commits += 1  # on one thread at a time
        if len(handles) == 1:
            handles[0].persist()
            return
        with self._store.commit() as batch:
            for each in handles:
                batch.add(each)

    def _write_alone(self, session_id: str, handle: Session, appends: Sequence[Append]) -> None:
        """Write the appends to one session; begin anew, with the session as it is now, where others have moved it."""
        current: Session | None = handle
        for attempt in range(_TRIES):
            try:
                if current is not None and current.pending:
                    self._commit([current])
                return
            except HeadConflict as error:
                self._forget(session_id)
                if attempt == _TRIES - 1:
                    _fail(appends, error)
                    return
                self._store.refresh()
                current = self._prepare(session_id, [each for each in appends if each.error is None])
            except Exception as error:  # noqa: BLE001 - each who waits is told
                self._forget(session_id)
                _fail(appends, error)
                return

    def _prepare(self, session_id: str, appends: Sequence[Append]) -> Session | None:
        """Append all that can be to a session's handle; what cannot has its error. None where there is no session."""
        left = list(appends)
        while True:
            try:
                handle = self._handle(session_id)
            except Exception as error:  # noqa: BLE001 - each who waits is told
                _fail(left, error)
                return None
            for each in left:
                try:
                    _append(handle, each)
                except Exception as error:  # noqa: BLE001 - as above
                    each.error = error
                    left.remove(each)
                    handle.discard_pending()
                    break
            else:
                return handle

    def _handle(self, session_id: str) -> Session:
        handle = self._handles.get(session_id)
        if handle is None:
            handle = self._handles[session_id] = self._store.load(session_id, last=0)
        self._handles.move_to_end(session_id)
        while len(self._handles) > _HANDLES:
            self._forget(next(iter(self._handles)))
        return handle

    def _retire(self, session_id: str) -> None:
        """Let go of a handle that holds many turns by now, or that holds what was not written."""
        handle = self._handles.get(session_id)
        self._writes[session_id] = self._writes.get(session_id, 0) + 1
        if handle is not None and (handle.pending or self._writes[session_id] > _WRITES):
            self._forget(session_id)

    def _drop_erased(self) -> None:
        """Let go of all handles once something was removed from the store: they may hold it still."""
        token = self._store.store.token
        if token != self._token:
            self._token = token
            for session_id in list(self._handles):
                self._forget(session_id)

    def _forget(self, session_id: str) -> None:
        handle = self._handles.pop(session_id, None)
        self._writes.pop(session_id, None)
        if handle is not None:
            handle.discard_pending()


def _fail(appends: Sequence[Append], error: Exception) -> None:
    for each in appends:
        each.error = each.error or error


def _append(handle: Session, wanted: Append) -> None:
    """Append a client's turns to a handle; those that a request before has stored by its key stand for themselves."""
    wanted.stored, wanted.is_repeat = [], False
    marks: list[str] = []
    if wanted.key is not None:
        # both name the session: a fork inherits the turns that came to its parent with the same key
        name = _source_of("idempotency", handle.id, wanted.key)
        request = _source_of("request", handle.id, wanted.digest or "")
        if turns := _stored_before(handle, wanted, name, request):
            wanted.stored, wanted.is_repeat = turns, True
            return
        marks = [name, request]
    if wanted.expected not in (None, handle.head) and not handle.pending:
        handle.refresh()  # others may have moved it
    if wanted.expected is not None and wanted.expected != handle.head:
        raise moved_on(handle, wanted.expected)
    for number, turn in enumerate(wanted.turns):
        sources = [turn["source_id"]] if turn.get("source_id") else []
        if marks:
            sources.append(f"{marks[-1]}:{number}")
        stored = handle.append(**{**turn, "source_id": [*sources, *marks[:-1]] or None})
        wanted.stored.append(stored)
        if marks and marks[0] in stored.source_ids:
            del marks[:-1]  # one turn has the key's


def moved_on(session: Session, expected: str) -> HeadConflict:
    """Return the error for a session that has another head than a request expects."""
    return HeadConflict(
        f"session {session.id!r} is not at the head that was expected: it has {len(session)} turns and the head "
        f"{session.head[:16]}, expected {expected[:16]}; nothing was written. Read the turns since, and append there, or fork",
        expected=expected,
        actual=session.head,
    )


def _source_of(kind: str, *parts: str) -> str:
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    return f"{kind}:{digest[:32]}"


def _stored_before(handle: Session, wanted: Append, name: str, request: str) -> list[Turn]:
    """Return the turns that a request with a key stored before; raise `KeyReused` if it was another request.

    If all turns are there by their own source ids, and none by the key, they must be what the request brings.
    """
    find, turns = handle.worktree.turn_of_source, list[Turn]()
    for number, each in enumerate(wanted.turns):
        own, given = find(f"{request}:{number}"), each.get("source_id")
        if own is None and given is not None:
            own = find(given)
        if own is not None:
            turns.append(own)
    first = find(name)
    if first is None and (len(turns) < len(wanted.turns) or all(map(_is_same, turns, wanted.turns))):
        return turns if len(turns) == len(wanted.turns) else []
    if first is not None and any(each.startswith(f"{request}:") for each in first.source_ids):
        return turns
    raise KeyReused(
        f"the Idempotency-Key {wanted.key!r} was used for another request to session {handle.id!r}: turn "
        f"{(first or turns[0]).index} came with it; use a new key for each request"
    )


def _is_same(stored: Turn, wanted: Mapping[str, Any]) -> bool:
    """Tell whether a stored turn is what a request asks for, by what is certain to be kept as it was given."""
    content = wanted.get("content")
    if stored.redacted or not isinstance(content, str) or stored.structured:
        return stored.redacted or stored.structured or not isinstance(content, str)
    return stored.text == content
