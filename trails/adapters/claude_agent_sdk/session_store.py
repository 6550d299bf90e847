"""The session store of the Claude Agent SDK over a Trails store: the protocol. The codec is in `entry_codec`."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, TypeVar
from urllib.parse import quote
from uuid import uuid4

from anyio import to_thread
from claude_agent_sdk import fold_session_summary
from claude_agent_sdk.types import (
    SessionKey,
    SessionListSubkeysKey,
    SessionStore,
    SessionStoreEntry,
    SessionStoreListEntry,
    SessionSummaryEntry,
)

from trails.adapters.claude_agent_sdk import entry_codec
from trails.adapters.opened_store import OpenedStore
from trails.errors import HeadConflict, InvalidInput, SessionExists, SessionNotFound
from trails.exchange.coding_agents import claude_code
from trails.exchange.merge import imported_id
from trails.exchange.source_values import valid_name
from trails.model import iris, validation
from trails.model.values import SessionRecord
from trails.session import Repository, Session
from trails.store.embedded import EmbeddedStore

_PROJECT: Final = "claudeProject"
_SESSION: Final = "claudeSession"
_SUBPATH: Final = "claudeSubpath"
"""The metadata keys of a key's parts."""
_SOURCE: Final = "claude"
_TRIES: Final = 100
_MOST_KEPT: Final = 32
"""Transcripts that are kept in memory."""
_PAGE: Final = 1000
_Result = TypeVar("_Result")


_State = tuple[int, object] | None


@dataclass(slots=True)
class _Transcript:
    """A transcript as it was read, with the `uuid`s of all its entries."""

    session: Session
    ids: set[str]
    state: _State
    """The number of the store's last commit when this was last looked at, and the token of its last removal; None: unknown."""


class TrailsSessionStore(SessionStore):
    """Keep the transcripts of the Claude Agent SDK as sessions of a store: `ClaudeAgentOptions(session_store=...)`.

    Each transcript is a session, with a turn for each message; that of a sub-agent is spawned by its main session. Entries come
    back exactly as they were. One object may be used by several threads and event loops, and one store by several processes.

    >>> import asyncio, trails
    >>> key = {"project_key": "p", "session_id": "s"}
    >>> with trails.open(":memory:") as store:
    ...     sessions = TrailsSessionStore(store)
    ...     asyncio.run(sessions.append(key, [{"type": "user", "uuid": "u", "message": {"role": "user", "content": "Hi"}}]))
    ...     [turn.content for turn in store.load(sessions.trails_id(key))], asyncio.run(sessions.load(key))[0]["uuid"]
    (['Hi'], 'u')
    """

    def __init__(self, store: Repository | str | os.PathLike[str]) -> None:
        """Use an open store, or open the one at a location, which is made if there is none; `close` closes that."""
        self._opened = OpenedStore.of(store)
        self._store = self._opened.repository
        self._lock = threading.RLock()
        self._transcripts: dict[str, _Transcript] = {}
        """Those that were used last, by the names of their keys."""
        self._summaries: dict[str, tuple[int, str, SessionSummaryEntry]] = {}
        """The summaries of main sessions by their ids here: of how many turns, the head, and the summary."""

    # --- the protocol

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Store entries behind those there are, in one commit; one whose `uuid` is there already is left out."""
        _check_key(key)
        entry_codec.check_entries(entries)
        if entries:
            await self._run(self._append, key, entries)

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Return all entries of a transcript, or None for one that was never written."""
        _check_key(key)
        return await self._run(self._load, key)

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """Return the main sessions of a project, with the times at which they were last stored."""
        validation.text(project_key, "the project's key")
        return await self._run(self._list, project_key)

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """Return the SDK's summaries of a project's main sessions."""
        validation.text(project_key, "the project's key")
        return await self._run(self._list_summaries, project_key)

    async def delete(self, key: SessionKey) -> None:
        """Delete a transcript; that of a main session with those of its sub-agents. Forks that were made in Trails stay."""
        _check_key(key)
        await self._run(self._delete, key)

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """Return the subpaths of a main session: its sub-agents."""
        _check_key(key)
        return await self._run(self._list_subkeys, key)

    # --- what Trails adds

    async def fork(self, key: SessionKey, *, up_to_message_id: str | None = None) -> SessionKey:
        """Return the key of a new session that shares a session's turns, through that of one message, and copies none.

        Its entries are those of the other with its own `session_id`. Raises `SessionNotFound`, or `InvalidInput` if no entry has
        that `uuid`.
        """
        _check_key(key)
        return await self._run(self._fork, key, up_to_message_id)

    def close(self) -> None:
        """Close the store if it was opened here."""
        self._opened.close()

    def trails_id(self, key: SessionKey) -> str:
        """Return the id of the session in which a transcript is, for all that Trails can do with it; raise `SessionNotFound`."""
        _check_key(key)
        record = self._find(key)
        if record is None:
            raise SessionNotFound(f"the store {self._store.store.location} holds no transcript {_name(key)!r}")
        return record.id

    async def _run(self, work: Callable[..., _Result], *args: Any) -> _Result:
        return await to_thread.run_sync(partial(self._locked, work, *args))

    def _locked(self, work: Callable[..., _Result], *args: Any) -> _Result:
        with self._lock:
            self._store.workspace.catch_up()
            return work(*args)

    # --- the same, on a worker thread

    def _append(self, key: SessionKey, entries: Sequence[SessionStoreEntry]) -> None:
        for attempt in range(1, _TRIES + 1):
            try:
                transcript = self._writable(key)
                self._keep(key, transcript)
                self._append_new(transcript, key, entries)
            except (HeadConflict, SessionNotFound, SessionExists):
                self._transcripts.pop(_name(key), None)
                if attempt == _TRIES:
                    raise
            else:
                return

    def _append_new(self, transcript: _Transcript, key: SessionKey, entries: Iterable[Mapping[str, Any]]) -> None:
        new: dict[object, Mapping[str, Any]] = {}
        for entry in entries:
            uuid = entry_codec.uuid_of(entry)
            if uuid not in transcript.ids:
                new.setdefault(uuid or object(), entry)
        if not new:
            return
        session = transcript.session
        drafts = entry_codec.drafts_of(
            list(new.values()),
            session_id=key["session_id"],
            stored=datetime.now(UTC),
            start=len(session),
            before=session.tail(entry_codec.RECENT),
        )
        try:
            for draft in drafts:
                session.worktree.append(draft)
            session.persist()
        except BaseException:
            session.discard_pending()
            raise
        transcript.ids.update(each for each in new if isinstance(each, str))
        state = self._state()
        if (
            state is not None and transcript.state is not None and state[0] == transcript.state[0] + 1
        ):  # this commit alone
            transcript.state = state

    def _keep(self, key: SessionKey, transcript: _Transcript) -> None:
        self._transcripts.pop(_name(key), None)
        self._transcripts[_name(key)] = transcript
        if len(self._transcripts) > _MOST_KEPT:
            self._transcripts.pop(next(iter(self._transcripts)))

    def _stored(self, key: SessionKey, *, is_read: bool) -> _Transcript | None:
        """Return a transcript as it is stored; None if there is none. One that `is_read` has no text that was removed."""
        known, state = self._transcripts.get(_name(key)), self._state()
        if known is not None and known.session.worktree.stored:
            if state is not None and state == known.state:  # nothing was committed since
                return known
            is_whole = state is not None and known.state is not None and state[1] == known.state[1]
            if (is_whole or not is_read) and self._is_current(known):
                known.state = state if is_whole else None
                return known
        if (record := self._find(key)) is None:
            return None
        session = self._store.load(record.iri)
        return _Transcript(session, {each for turn in session.turns for each in turn.source_ids}, state)

    def _is_current(self, known: _Transcript) -> bool:
        """Bring in what others appended to a transcript; return False if its session was deleted."""
        try:
            came = known.session.refresh()
        except SessionNotFound:
            return False
        known.ids.update(each for turn in known.session.tail(came) for each in turn.source_ids)
        return True

    def _state(self) -> _State:
        store = self._store.store
        return (store.poll(), store.token) if isinstance(store, EmbeddedStore) else None

    def _writable(self, key: SessionKey) -> _Transcript:
        """Return the transcript of a key to append to, a new one where there is none."""
        if (stored := self._stored(key, is_read=False)) is not None:
            return stored
        subpath = key.get("subpath")
        spawner = None if subpath is None else self._main(key)
        agent = claude_code.SOURCE if subpath is None else valid_name(subpath.rpartition("/")[2]) or "agent"
        session = self._store.create(id=self._free_id(key), agent=agent, meta=_meta(key), spawned_by=spawner)
        return _Transcript(session, set(), self._state())

    def _main(self, key: SessionKey) -> str:
        """Return the id of the main session of a sub-agent's; it is made, without turns, where it is not there."""
        main: SessionKey = {"project_key": key["project_key"], "session_id": key["session_id"]}
        if (record := self._find(main)) is not None:
            return record.id
        try:
            session = self._writable(main).session
            session.persist()
        except SessionExists:  # another writer made it meanwhile
            return self._main(key)
        return session.id

    def _find(self, key: SessionKey) -> SessionRecord | None:
        """Return the row of a transcript's session."""
        for session_id in self._ids(key):
            found = self._store.reader.records([session_id])
            if session_id in found:
                return found[session_id]
            if not self._store.reader.is_deleted(session_id):
                return None
        return None

    def _free_id(self, key: SessionKey) -> str:
        return next(each for each in self._ids(key) if not self._store.reader.is_deleted(each))

    def _ids(self, key: SessionKey) -> Iterable[str]:
        """Yield the ids that a transcript may have here: a deleted session's id is not used again."""
        name = _name(key)
        yield imported_id(_SOURCE, name)
        for number in range(2, 1_000_000):
            yield imported_id(_SOURCE, f"{number}//{name}")

    def _load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        transcript = self._stored(key, is_read=True)
        if transcript is None:
            return None
        self._keep(key, transcript)
        session = transcript.session
        found: Any = entry_codec.entries_of(session.turns, key["session_id"], session.id)
        return found or None

    def _list(self, project_key: str) -> list[SessionStoreListEntry]:
        return [
            {"session_id": session_id, "mtime": entry_codec.stored_at(session.tail(entry_codec.RECENT))}
            for session_id, session in self._mains(project_key)
        ]

    def _mains(self, project_key: str) -> Iterable[tuple[str, Session]]:
        """Yield the main sessions of a project that have turns, with Claude's ids."""
        for record in self._records({_PROJECT: project_key}):
            if _SUBPATH not in record.meta and _SESSION in record.meta:
                session = self._store.load(record.iri, last=1)
                if len(session):
                    yield str(record.meta[_SESSION]), session

    def _records(self, meta: Mapping[str, Any]) -> Iterable[SessionRecord]:
        cursor = None
        while True:
            page = self._store.list(meta=meta, limit=_PAGE, cursor=cursor)
            yield from (each for each in page if all(each.meta.get(name) == value for name, value in meta.items()))
            cursor = page.cursor
            if cursor is None:
                return

    def _list_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        return [
            self._summary({"project_key": project_key, "session_id": session_id}, session)
            for session_id, session in self._mains(project_key)
        ]

    def _summary(self, key: SessionKey, session: Session) -> SessionSummaryEntry:
        """Return the summary of a session, made of the one before and the turns since."""
        length, head, summary = self._summaries.get(session.id, (0, "", None))
        if length > len(session) or (length and session[length - 1].digest != head):
            length, summary = 0, None
        entries: Any = entry_codec.entries_of(session.turns[length:], key["session_id"], session.id)
        if entries or summary is None:
            summary = fold_session_summary(summary, key, entries)
        summary = {**summary, "mtime": entry_codec.stored_at(session.tail(entry_codec.RECENT))}
        self._summaries[session.id] = len(session), session.head, summary
        return {**summary, "data": dict(summary["data"])}

    def _list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        return sorted(str(record.meta[_SUBPATH]) for record in self._subs(key))

    def _subs(self, key: SessionKey | SessionListSubkeysKey) -> list[SessionRecord]:
        found = self._records({_PROJECT: key["project_key"], _SESSION: key["session_id"]})
        return [record for record in found if _SUBPATH in record.meta]

    def _delete(self, key: SessionKey) -> None:
        record = self._find(key)
        if record is None:
            return
        gone = [record.id] if key.get("subpath") else [*self._subagents(record.id), record.id]
        for each in gone:
            self._store.delete(iris.session(each), children="detach")
            self._summaries.pop(each, None)
        kept = self._transcripts.items()
        self._transcripts = {name: each for name, each in kept if each.session.id not in gone}

    def _subagents(self, main: str) -> list[str]:
        """Return the ids of a main session's sub-agents here, also where a redaction erased parts of their keys."""
        ids = [twig.node.id for twig in self._store.forest(iris.session(main)) if twig.node.id != main]
        records = self._store.reader.records(ids).values()
        return [record.id for record in records if record.spawned_by == main and _SUBPATH in record.meta]

    def _fork(self, key: SessionKey, up_to_message_id: str | None) -> SessionKey:
        session = self._store.load(iris.session(self.trails_id(key)))
        at = len(session)
        if up_to_message_id is not None:
            holders = [turn.index for turn in session if up_to_message_id in turn.source_ids]
            if not holders:
                raise InvalidInput(
                    f"the transcript {_name(key)!r} has no entry {up_to_message_id!r} to be forked after"
                )
            at = holders[0] + 1
        fork: SessionKey = {"project_key": key["project_key"], "session_id": str(uuid4())}
        session.fork(at, id=self._free_id(fork), meta=_meta(fork)).persist()
        return fork


def _meta(key: SessionKey) -> dict[str, str]:
    meta = {_PROJECT: key["project_key"], _SESSION: key["session_id"]}
    return meta | ({_SUBPATH: subpath} if (subpath := key.get("subpath")) else {})


def _check_key(key: object) -> None:
    """Raise `InvalidInput` for what is no key of the SDK."""
    if not isinstance(key, Mapping):
        raise InvalidInput(f"a key is a mapping with project_key and session_id, not {type(key).__name__}")
    for part in ("project_key", "session_id"):
        validation.text(key.get(part), f"the key's {part}")
    if key.get("subpath") is not None:
        validation.text(key["subpath"], "the key's subpath")


def _name(key: SessionKey) -> str:
    """Return a key as text: no two have the same."""
    parts = [quote(key["project_key"], safe=""), quote(key["session_id"], safe=""), key.get("subpath") or ""]
    return "/".join(parts).removesuffix("/")
