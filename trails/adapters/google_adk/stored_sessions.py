"""Sessions of Google's Agent Development Kit in a store: found by app, user and id, with their state.

Each is a session of the store. What an app's sessions share, and what a user's do, is a session of its own, with a turn for each
change. The state after a turn is a payload of it, so a fork has the state of where it was forked.
"""

from __future__ import annotations

import json
import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from itertools import count
from typing import Final, NamedTuple, TypeVar

from google.adk.events.event import Event

from trails.adapters import message_turns, opened_store
from trails.adapters.google_adk import event_turns
from trails.adapters.google_adk.event_turns import State
from trails.adapters.google_adk.held_session import APP, SESSION, USER, Address, Held, Snapshot
from trails.errors import HeadConflict, SessionExists, SessionNotFound
from trails.history import encryption
from trails.history.transaction import is_stored
from trails.integrity import digests
from trails.rows import row_codec, session_lists, transcript_rows
from trails.rows.session_lists import LastTurn
from trails.session.repository import Repository
from trails.session.session import Session
from trails.store.embedded import holds

_MOST_HELD: Final = 128
_MOST_LISTED: Final = 10_000
_TRIES: Final = 200
_Made = TypeVar("_Made")


class Listing(NamedTuple):
    """Sessions without their events, and those that keep what they share."""

    snapshots: dict[Address, Snapshot]

    def sessions(self) -> list[tuple[Address, Snapshot]]:
        """Return the sessions alone."""
        return [(address, snapshot) for address, snapshot in self.snapshots.items() if address.session is not None]

    def shared_state(self, app: str, user: str | None = None) -> State:
        """Return what the sessions of an app share, or those of a user of it, without the prefix; a fresh copy each time."""
        found = self.snapshots.get(Address(app, user))
        return {} if found is None else found.state


class StoredSessions:
    """The sessions of all apps in a store. Calls come from one thread at a time."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._held: OrderedDict[Address, Held] = OrderedDict()
        self._token = repository.store.token
        """What changes when something is taken out of the store, as by a redaction: nothing read before is used after that."""
        self._listed: dict[str, Snapshot] = {}
        """What lists have shown, by the digest of the last turn."""
        self._addresses: dict[str, Address] = {}
        """Where the sessions are that lists have shown, by id."""
        self._changes: list[tuple[Address, Held, bytes]] = []
        """Sessions that turns are appended to for the next commit, each with the state after them."""

    def find(self, address: Address) -> Held | None:
        """Return a session as it is stored by now, or None."""
        held = self._held.get(address)
        if held is not None and self._is_there_still(held):
            self._held.move_to_end(address)
            return held
        self._held.pop(address, None)
        session_id, is_there = self._place(address)
        return self._keep(address, Held(self._repository.load(session_id, last=1))) if is_there else None

    def _is_there_still(self, held: Held) -> bool:
        """See what was appended to a session meanwhile; return False if it is gone, or something was taken out of it."""
        tree, store = held.session.worktree, self._repository.store
        if not self._is_there(tree.id) or self._forget_removed():
            return False
        if store.quads(tree.next_turn):
            held.session.refresh()
        return True

    def _forget_removed(self) -> bool:
        """Forget all that was read, and return True, if something was taken out of the store since."""
        if self._token == self._repository.store.token:
            return False
        self._token = self._repository.store.token
        self._held.clear()
        self._listed.clear()
        return True

    def _is_there(self, session_id: str) -> bool:
        return all(holds(self._repository.store, [is_stored(session_id)]))

    def _keep(self, address: Address, held: Held) -> Held:
        self._held[address] = held
        if len(self._held) > _MOST_HELD:
            self._held.popitem(last=False)
        return held

    def _place(self, address: Address) -> tuple[str, bool]:
        """Return the id of a session in the store, and whether it is there: an id that was deleted is never used again."""
        for number in count(1):
            session_id = address.id if number == 1 else f"{address.id}:{number}"
            if self._is_there(session_id):
                return session_id, True
            if not self._repository.reader.is_deleted(session_id):
                return session_id, False
        raise AssertionError  # the loop has no end

    def shared_state(self, app: str, user: str | None = None) -> State:
        """Return what the sessions of an app share, or those of a user of it, without the prefix; a fresh copy each time."""
        held = self.find(Address(app, user))
        return {} if held is None else dict(json.loads(held.state_json))

    def _found(self, address: Address) -> Held:
        held = self.find(address)
        if held is None:
            raise SessionNotFound(f"there is no session {address.session!r} of {address.user!r} in {address.app!r}")
        return held

    # --- writing

    def create(self, address: Address, deltas: Mapping[str, State], created: datetime | None) -> Held | None:
        """Store a new session with its state, and what it sets of its app's and its user's; None if it is there already."""

        def make() -> Held | None:
            session_id, is_there = self._place(address)
            if is_there:
                return None
            held = Held(self._new(session_id, address, created))
            own = deltas["session"]
            state_json = self._change(address, held, own)
            if own:
                event_turns.append_state(held.session, own, state_json, created)
            self._share(address, deltas, created)
            return held

        return self._store(make)

    def append(
        self, address: Address, event: Event, deltas: Mapping[str, State], check: Callable[[Held], None]
    ) -> Held:
        """Store an event, and what it changes of the session's, the app's and the user's state, in one commit.

        `check` sees the session as it is stored, and raises if the event must not be added. Raises
        `SessionNotFound`.
        """

        def make() -> Held:
            held = self._found(address)
            check(held)
            event_turns.append_event(held.session, event, self._change(address, held, deltas["session"]))
            self._share(address, deltas, event_turns.moment_of(event.timestamp))
            return held

        return self._store(make)

    def _change(self, address: Address, held: Held, delta: State) -> bytes:
        """Have a session in the next commit; return its state once a change was made to it, as JSON."""
        state_json = held.state_json
        if delta:
            state_json = json.dumps(json.loads(state_json) | delta, ensure_ascii=False).encode()
        self._changes.append((address, held, state_json))
        return state_json

    def _share(self, address: Address, deltas: Mapping[str, State], time: datetime | None) -> None:
        """Append what is set of the app's and the user's state to their sessions."""
        places = (Address(address.app), deltas["app"]), (Address(address.app, address.user), deltas["user"])
        for where, delta in places:
            if delta:
                held = self.find(where) or Held(self._new(self._place(where)[0], where, time))
                event_turns.append_state(held.session, delta, self._change(where, held, delta), time)

    def _new(self, session_id: str, address: Address, created: datetime | None) -> Session:
        principal, agent = (name if opened_store.is_name(name) else None for name in (address.user, address.app))
        return self._repository.create(
            id=session_id, created=created, meta=address.meta, principal=principal, agent=agent
        )

    def _store(self, make: Callable[[], _Made]) -> _Made:
        """Store what a function appends to sessions in one commit; do it again if others wrote meanwhile."""
        for _ in range(_TRIES):
            with self._forgetting():
                try:
                    answer = make()
                    self._commit()
                except (HeadConflict, SessionExists):
                    continue
                for address, held, state_json in self._changes:
                    self._keep(address, held).know(state_json)
                return answer
        raise HeadConflict(
            "other writers kept changing the session; nothing was written, try again", expected="", actual=""
        )

    def _commit(self) -> None:
        sessions = [held.session for _, held, _ in self._changes]
        if len(sessions) == 1:
            sessions[0].persist()
        elif sessions:
            with self._repository.commit() as batch:
                for session in sessions:
                    batch.add(session)

    @contextmanager
    def _forgetting(self) -> Iterator[None]:
        """At the end of the block, forget what it appended and did not store."""
        try:
            yield
        finally:
            for _, held, _ in self._changes:
                if held.session.pending or not held.session.worktree.stored:
                    held.session.discard_pending()
            self._changes = []

    def fork(self, address: Address, new: Address, events: int | None) -> Held | None:
        """Store a fork with the first `events` events of a session, or with all; None if its id is in use.

        Raises `SessionNotFound`, and `InvalidInput` for more events than there are.
        """
        held = self._found(address)
        session_id, is_there = self._place(new)
        if is_there:
            return None
        at = len(held.session) if events is None else held.turns_of(events)
        fork = held.session.fork(at=at, id=session_id, meta=new.meta)
        fork.persist()
        return self._keep(new, Held(fork))

    def delete(self, address: Address) -> None:
        """Delete a session, if it is there. Forks of it keep what they share with it."""
        self._held.pop(address, None)
        session_id, is_there = self._place(address)
        if is_there:
            self._repository.delete(session_id, children="detach")

    # --- lists

    def list(self, app: str, user: str | None) -> Listing:
        """Return the sessions of an app, or of one of its users, without their events, and what they share."""
        wanted = {APP: app} if user is None else {APP: app, USER: user}
        found = []
        encryption.refuse_any_encrypted(
            self._repository.store,
            "this adapter lists sessions by metadata in plain",
            "open a store without keys for it",
        )
        with self._repository.workspace.rows.reading() as rows:
            self._forget_removed()
            for last in session_lists.last_turns(rows, wanted, (USER, SESSION), _id_starts(app, user)):
                address = self._addresses.get(last.session_id) or _address(app, last)
                if address is None or address.app != app or user not in (None, address.user):
                    continue
                known = self._listed.get(last.digest or "")
                if known is None and (known := _snapshot(self._repository, rows, last)) is not None and last.digest:
                    self._listed[last.digest] = known
                self._addresses[last.session_id] = address
                found.append((address, known))
        if len(self._listed) > _MOST_LISTED:
            self._listed.clear()
            self._addresses.clear()
        whole = ((address, known or self._looked_up(address)) for address, known in found)
        listing = Listing({address: snapshot for address, snapshot in whole if snapshot is not None})
        if user is not None and (held := self.find(Address(app))) is not None:
            listing.snapshots[Address(app)] = held.snapshot
        return listing

    def _looked_up(self, address: Address) -> Snapshot | None:
        held = self.find(address)
        return None if held is None else held.snapshot


def _id_starts(app: str, user: str | None) -> list[str]:
    """Return how the ids of the sessions of an app, or of one of its users, start: a redaction leaves ids, and not metadata."""
    if user is None:
        return [opened_store.joined_id("adk", app, ""), opened_store.joined_id("adk-user", app, ""), Address(app).id]
    return [Address(app, user, "").id, Address(app, user).id]


def _address(app: str, last: LastTurn) -> Address | None:
    """Return where a session is: by its metadata, or by its id if a redaction took some of that; None if neither tells."""
    user, session = (None if text is None else json.loads(text) for text in last.values)
    address = Address(app, user, session)
    if user is not None and session is not None:
        return address
    return Address.of_id(last.session_id) or (address if address.id == last.session_id else None)


def _snapshot(repository: Repository, rows: sqlite3.Connection, last: LastTurn) -> Snapshot | None:
    """Return a session as its last turn tells of it; None if that was inherited, or does not tell the state."""
    if last.length == 0 and last.created is not None:
        return Snapshot(b"{}", row_codec.moment(last.created).timestamp(), digests.GENESIS)
    if last.digest is None:
        return None
    turns = transcript_rows.read_run(rows, last.session_id, last.length - 1, last.length).turns(0, 1)
    if not turns or turns[0].time is None or not event_turns.says_state(turns[0]):
        return None
    payload = message_turns.payload_of(turns[0], event_turns.STATE_AFTER)
    state_json = b"{}" if payload is None else repository.payload(payload)
    return Snapshot(state_json, turns[0].time.timestamp(), last.digest)
