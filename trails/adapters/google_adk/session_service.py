"""The session service of Google's Agent Development Kit over a store."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, Self

from google.adk.errors._stale_session_error import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.platform import time as platform_time
from google.adk.platform import uuid as platform_uuid
from google.adk.sessions import _session_util
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig, ListSessionsResponse
from google.adk.sessions.session import Session
from google.adk.sessions.state import State

from trails.adapters.google_adk import event_turns
from trails.adapters.google_adk.held_session import Address, Held, Snapshot
from trails.adapters.google_adk.stored_sessions import StoredSessions
from trails.adapters.opened_store import OpenedStore
from trails.errors import InvalidInput, SessionNotFound
from trails.model import validation
from trails.session.repository import Repository

_STALE = (
    "session {!r} was modified in storage since it was read; nothing was written. Get it again with get_session(), and append to "
    "that"
)


class TrailsSessionService(BaseSessionService):
    """Keep sessions in a Trails store: each event is one turn or several, and a fork of a session copies nothing.

    >>> import asyncio
    >>> from trails.adapters.google_adk import TrailsSessionService
    >>> async def main():
    ...     async with TrailsSessionService(":memory:") as service:
    ...         session = await service.create_session(app_name="travel", user_id="alice", state={"place": "Zermatt"})
    ...         return (await service.get_session(app_name="travel", user_id="alice", session_id=session.id)).state
    >>> asyncio.run(main())
    {'place': 'Zermatt'}
    """

    def __init__(self, store: Repository | str | os.PathLike[str]) -> None:
        """Keep sessions in `store`: an open store, or its location as for `trails.open`, where it is made if there is none."""
        self._store = OpenedStore.of(store)
        self._sessions = StoredSessions(self._store.repository)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the store, if the service opened it."""
        self._store.close()

    @property
    def store(self) -> Repository:
        """The store, to be asked, searched, forked and verified."""
        return self._store.repository

    def trails_id(self, *, app_name: str, user_id: str, session_id: str) -> str | None:
        """Return the id of a session in the store; None if it is not there."""
        held = self._store.call(lambda: self._sessions.find(_address(app_name, user_id, session_id)))
        return None if held is None else held.session.id

    # --- the contract

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        """Store a new session, and return it; raise `AlreadyExistsError` if its id is in use.

        Raises `InvalidInput` for names that are no texts, and for state that JSON cannot carry.
        """
        address = _address(app_name, user_id, "" if session_id is None else session_id)
        if not address.session:
            address = address._replace(session=platform_uuid.new_uuid())
        deltas = _deltas(state)
        created = event_turns.moment_of(platform_time.get_time())

        def create() -> Session:
            held = self._sessions.create(address, deltas, created)
            if held is None:
                raise AlreadyExistsError(f"Session with id {address.session} already exists.")
            return self._whole(address, held.snapshot, [])

        return await self._store.run_fresh(create)

    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        config: GetSessionConfig | None = None,
    ) -> Session | None:
        """Return a session with its events, or with those that `config` asks for; None if it is not there."""
        address = _address(app_name, user_id, session_id)

        def get() -> Session | None:
            held = self._sessions.find(address)
            return None if held is None else self._whole(address, held.snapshot, _events(held, config))

        return await self._store.run_fresh(get)

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """Return the sessions of an app, or of one of its users, with their state: the one that was active last comes last."""
        for name in (app_name,) if user_id is None else (app_name, user_id):
            validation.text(name, "a name of an app or a user")

        def sessions() -> list[Session]:
            listing, found = self._sessions.list(app_name, user_id), []
            shared = _prefixed(State.APP_PREFIX, listing.shared_state(app_name))
            of_users: dict[str | None, bytes] = {}
            for address, snapshot in listing.sessions():
                user = address.user
                if user not in of_users:
                    both = shared | _prefixed(State.USER_PREFIX, listing.shared_state(app_name, user))
                    of_users[user] = json.dumps(both).encode() if both else b""
                copied = json.loads(of_users[user]) if of_users[user] else {}
                found.append(_session(address, snapshot, [], copied))
            return sorted(found, key=lambda each: (each.last_update_time, each.user_id, each.id))

        return ListSessionsResponse(sessions=await self._store.run_fresh(sessions))

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Delete a session, if it is there. Forks of it keep what they share with it."""
        address = _address(app_name, user_id, session_id)
        await self._store.run_fresh(lambda: self._sessions.delete(address))

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Return a copy of what the sessions of a user share, without the prefix `user:`."""
        address = _address(app_name, user_id, "")
        return await self._store.run_fresh(lambda: self._sessions.shared_state(address.app, address.user))

    async def append_event(self, session: Session, event: Event) -> Event:
        """Store an event with all its changes of state, in one commit, and add it to `session`.

        Partial events are not stored. Raises `StaleSessionError` if the stored session was added to since `session` was read,
        `SessionNotFoundError` if it is not there, and `InvalidInput` for what JSON cannot carry.
        """
        if event.partial:
            return event
        address = _address(session.app_name, session.user_id, session.id)
        self._apply_temp_state(session, event)
        event = self._trim_temp_delta_state(event)
        deltas = _deltas(event.actions.state_delta)

        def append() -> None:
            try:
                held = self._sessions.append(address, event, deltas, lambda stored: _refuse_stale(session, stored))
            except SessionNotFound as error:
                raise SessionNotFoundError(f"Session {session.id} not found.") from error
            _, session.last_update_time, session._storage_update_marker = held.snapshot

        await self._store.run_fresh(append)
        return self._commit_event_to_session(session, event)

    # --- what the framework has not

    async def fork_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        new_session_id: str | None = None,
        events: int | None = None,
    ) -> Session:
        """Store a fork of a session, and return it: with its first `events` events, or with all, and the state after them.

        Nothing is copied. What the app's or the user's sessions share stays as it is now. Raises `SessionNotFoundError`,
        `AlreadyExistsError` for an id in use, and `InvalidInput` for more events than there are.
        """
        source = _address(app_name, user_id, session_id)
        new = _address(app_name, user_id, "" if new_session_id is None else new_session_id)
        if not new.session:
            new = new._replace(session=platform_uuid.new_uuid())

        def fork() -> Session:
            try:
                held = self._sessions.fork(source, new, events)
            except SessionNotFound as error:
                raise SessionNotFoundError(f"Session {session_id} not found.") from error
            if held is None:
                raise AlreadyExistsError(f"Session with id {new.session} already exists.")
            return self._whole(new, held.snapshot, held.events())

        return await self._store.run_fresh(fork)

    def _whole(self, address: Address, found: Snapshot, events: list[Event]) -> Session:
        """Return a session as the framework has it, with what it shares with others of its app and of its user."""
        app, user = self._sessions.shared_state(address.app), self._sessions.shared_state(address.app, address.user)
        shared = _prefixed(State.APP_PREFIX, app) | _prefixed(State.USER_PREFIX, user)
        return _session(address, found, events, shared)


def _session(address: Address, found: Snapshot, events: list[Event], shared: dict[str, Any]) -> Session:
    """Return a session as the framework has it; `shared` is a copy of the state that it shares."""
    made = Session(
        app_name=address.app,
        user_id=address.user or "",
        id=address.session or "",
        state=found.state | shared,
        events=events,
        last_update_time=found.updated,
    )
    made._storage_update_marker = found.marker
    return made


def _prefixed(prefix: str, state: dict[str, Any]) -> dict[str, Any]:
    return {prefix + key: value for key, value in state.items()}


def _address(app: str, user: str, session: str) -> Address:
    """Return where a session is; raise `InvalidInput` for names that are no texts."""
    plain = (validation.text(app, "app_name"), validation.text(user, "user_id"), validation.text(session, "session_id"))
    return Address(*plain[:2], plain[2].strip())


def _deltas(state: dict[str, Any] | None) -> dict[str, dict[str, Any]]:
    """Return what state sets of the session's, the user's and the app's; raise `InvalidInput` for what JSON cannot carry."""
    if not state:
        return _session_util.extract_json_safe_state_delta({})
    if not isinstance(state, Mapping):
        raise InvalidInput(f"state must be a mapping, not {type(state).__name__}")
    for key in state:
        validation.text(key, "a key of the state")
    try:
        deltas = _session_util.extract_json_safe_state_delta(state)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"the state cannot be stored as JSON: {error}") from error
    validation.to_json(deltas, "the state")
    return deltas


def _events(held: Held, config: GetSessionConfig | None) -> list[Event]:
    newest = None if config is None else config.num_recent_events
    after = None if config is None else config.after_timestamp
    if newest == 0:
        return []
    if not after:
        return held.events(newest)
    events = [event for event in held.events() if event.timestamp >= after]
    return events if newest is None else events[-newest:]


def _refuse_stale(session: Session, stored: Held) -> None:
    """Raise `StaleSessionError` if what is stored is not what was read."""
    if session._storage_update_marker is not None:
        is_stale = session._storage_update_marker != stored.session.head
    else:  # it was not read from here
        last = session.events[-1].id if session.events else None
        is_stale = stored.snapshot.updated > session.last_update_time and stored.last_event_id() != last
    if is_stale:
        raise StaleSessionError(_STALE.format(session.id))
