"""Sessions of Google's Agent Development Kit in a store: found by app, user and id, with their state.

Each is a session of the store. What an app's sessions share, and what a user's do, is a session of its own, with a turn for each
change. The state after a turn is a payload of it, so a fork has the state of where it was forked.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from typing import Final, NamedTuple, TypeVar

from google.adk.events.event import Event

from trails.adapters import message_turns, opened_store
from trails.adapters.google_adk import event_turns
from trails.adapters.google_adk.event_turns import State
from trails.errors import HeadConflict, InvalidInput, SessionNotFound
from trails.session.repository import Repository
from trails.session.session import Session

APP: Final = "adk_app"
USER: Final = "adk_user"
SESSION: Final = "adk_session"
"""Keys of the metadata by which a session is found."""
_MOST_HELD: Final = 1_000
_TRIES: Final = 200
_BLOCK: Final = 16
_Made = TypeVar("_Made")


class Address(NamedTuple):
    """What the framework calls a session: app, user and id. Without an id it is the state of a user, without a user of an app."""

    app: str
    user: str | None = None
    session: str | None = None

    @property
    def id(self) -> str:
        """The id of the session in the store, before one of that name was deleted."""
        kind = "adk" if self.session is not None else "adk-user" if self.user is not None else "adk-app"
        return opened_store.joined_id(kind, *(part for part in self if part is not None))

    @property
    def meta(self) -> dict[str, str]:
        """The metadata of the session in the store."""
        return {key: part for key, part in zip((APP, USER, SESSION), self, strict=True) if part is not None}


@dataclass(slots=True)
class Held:
    """A session of the store, with its state after its last turn."""

    session: Session
    _state: State = field(default_factory=dict)
    _state_at: str | None = None
    """The head for which the state is known."""

    @property
    def marker(self) -> str:
        """What changes with each turn: the head's digest."""
        return self.session.head

    @property
    def updated(self) -> float:
        """When the session was last added to, or made: seconds since 1970."""
        last = self.session.tail(1)
        time = (last[0].time if last else None) or self.session.record.created
        return 0.0 if time is None else time.timestamp()

    @property
    def state(self) -> State:
        """The state of the session alone; to be copied before it is changed."""
        if self._state_at != self.session.head:
            self.know(self._read_state())
        return self._state

    def know(self, state: State) -> None:
        """Keep in mind what the state after the last turn is."""
        self._state, self._state_at = state, self.session.head

    def _read_state(self) -> State:
        length = len(self.session)
        for end in range(length, 0, -_BLOCK):
            for turn in reversed(self.session[max(0, end - _BLOCK) : end]):
                if event_turns.says_state(turn):
                    payload = message_turns.payload_of(turn, event_turns.STATE_AFTER)
                    return {} if payload is None else dict(json.loads(self.session.payload(payload)))
        return {}

    def events(self, newest: int | None = None) -> list[Event]:
        """Return the events, the oldest first: the `newest` ones, or all."""
        tail, length = self.session.tail, len(self.session)
        if newest is None:
            records = [each for each in message_turns.read_records(self.session.turns) if _is_event(each)]
        else:
            records = message_turns.last_records(tail, length, newest, wanted=_is_event)
        return [self._event(each) for each in records]

    def _event(self, record: message_turns.Record) -> Event:
        if record.exact is None:
            return event_turns.event_of_turns(record.turns)
        return Event.model_validate_json(self.session.payload(record.exact))

    def turns_of(self, events: int) -> int:
        """Return how many turns the first events are; raise `InvalidInput` if there are fewer events."""
        starts = [each.turns[0].index for each in message_turns.read_records(self.session.turns) if _is_event(each)]
        if not 0 <= events <= len(starts):
            raise InvalidInput(f"session {self.session.id!r} has {len(starts)} events, not {events}")
        return [*starts, len(self.session)][events]

    def last_event_id(self) -> str | None:
        """Return the id of the last event, None where there is none."""
        last = self.events(1)
        return last[0].id if last else None


Changes = list[tuple[Address, Held, State]]
"""Sessions that turns were appended to, each with the state after them."""


def _is_event(record: message_turns.Record) -> bool:
    return record.turns[0].role != event_turns.STATE


class StoredSessions:
    """The sessions of all apps in a store. Calls come from one thread at a time."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._held: OrderedDict[Address, Held] = OrderedDict()

    def find(self, address: Address) -> Held | None:
        """Return a session as it is stored by now, or None."""
        held = self._held.get(address)
        if held is not None:
            try:
                held.session.refresh()
            except SessionNotFound:
                del self._held[address]
            else:
                self._held.move_to_end(address)
                return held
        session_id, is_stored = self._place(address)
        return self._keep(address, Held(self._repository.load(session_id, last=1))) if is_stored else None

    def _keep(self, address: Address, held: Held) -> Held:
        self._held[address] = held
        if len(self._held) > _MOST_HELD:
            self._held.popitem(last=False)
        return held

    def _place(self, address: Address) -> tuple[str, bool]:
        """Return the id of a session in the store, and whether it is there: an id that was deleted is never used again."""
        reader = self._repository.reader
        for number in count(1):
            session_id = address.id if number == 1 else f"{address.id}:{number}"
            if session_id in self._repository:
                return session_id, True
            if not reader.is_deleted(session_id):
                return session_id, False
        raise AssertionError  # the loop has no end

    def shared_state(self, app: str, user: str | None = None) -> State:
        """Return what the sessions of an app share, or those of a user of it, without the prefix."""
        held = self.find(Address(app, user))
        return {} if held is None else held.state

    # --- writing

    def create(self, address: Address, deltas: Mapping[str, State], created: datetime | None) -> Held | None:
        """Store a new session with its state, and what it sets of its app's and its user's; None if it is there already."""

        def make() -> tuple[Held | None, Changes]:
            session_id, is_stored = self._place(address)
            if is_stored:
                return None, []
            held = Held(self._new(session_id, address, created))
            changes = [(address, held, dict(deltas["session"]))]
            if deltas["session"]:
                event_turns.append_state(held.session, deltas["session"], deltas["session"], created)
            return held, changes + self._share(address, deltas, created)

        return self._store(make)

    def append(
        self, address: Address, event: Event, deltas: Mapping[str, State], check: Callable[[Held], None]
    ) -> Held:
        """Store an event, and what it changes of the session's, the app's and the user's state, in one commit.

        `check` sees the session as it is stored, and raises if the event must not be added. Raises `SessionNotFound`.
        """

        def make() -> tuple[Held, Changes]:
            held = self.find(address)
            if held is None:
                raise SessionNotFound(f"there is no session {address.session!r} of {address.user!r} in {address.app!r}")
            check(held)
            state = {**held.state, **deltas["session"]}
            changes = [(address, held, state)]
            event_turns.append_event(held.session, event, state)
            return held, changes + self._share(address, deltas, event_turns.moment_of(event.timestamp))

        return self._store(make)

    def _share(self, address: Address, deltas: Mapping[str, State], time: datetime | None) -> Changes:
        """Append what is set of the app's and the user's state to their sessions; return these with their state."""
        changes = []
        for where, delta in (
            (Address(address.app), deltas["app"]),
            (Address(address.app, address.user), deltas["user"]),
        ):
            if delta:
                held = self.find(where) or Held(self._new(self._place(where)[0], where, time))
                state = {**held.state, **delta}
                changes.append((where, held, state))
                event_turns.append_state(held.session, delta, state, time)
        return changes

    def _new(self, session_id: str, address: Address, created: datetime | None) -> Session:
        principal, agent = (name if opened_store.is_name(name) else None for name in (address.user, address.app))
        return self._repository.create(
            id=session_id, created=created, meta=address.meta, principal=principal, agent=agent
        )

    def _store(self, make: Callable[[], tuple[_Made, Changes]]) -> _Made:
        """Store what a function appends to sessions in one commit; do it again if others wrote meanwhile."""
        for _ in range(_TRIES):
            made: Changes = []
            try:
                with self._forgetting():
                    answer, made = make()
                    self._commit([held.session for _, held, _ in made])
            except HeadConflict:
                continue
            except InvalidInput:
                if not any(
                    not held.session.worktree.stored and held.session.id in self._repository for _, held, _ in made
                ):
                    raise
                continue  # another one has made the session meanwhile
            for address, held, state in made:
                self._keep(address, held).know(state)
            return answer
        raise HeadConflict(
            "other writers kept changing the session; nothing was written, try again", expected="", actual=""
        )

    def _commit(self, sessions: Sequence[Session]) -> None:
        with self._repository.commit() as batch:
            for session in sessions:
                batch.add(session)

    @contextmanager
    def _forgetting(self) -> Iterator[None]:
        """Where the block raises, forget what it appended."""
        try:
            yield
        except BaseException:
            for held in self._held.values():
                held.session.discard_pending()
            raise

    def fork(self, address: Address, new: Address, events: int | None) -> Held | None:
        """Store a fork with the first `events` events of a session, or with all; None if its id is in use.

        Raises `SessionNotFound`, and `InvalidInput` for more events than there are.
        """
        held = self.find(address)
        if held is None:
            raise SessionNotFound(f"there is no session {address.session!r} of {address.user!r} in {address.app!r}")
        session_id, is_stored = self._place(new)
        if is_stored:
            return None
        at = len(held.session) if events is None else held.turns_of(events)
        fork = held.session.fork(at=at, id=session_id, meta=new.meta)
        fork.persist()
        return self._keep(new, Held(fork))

    def delete(self, address: Address) -> None:
        """Delete a session, if it is there. Forks of it keep what they share with it."""
        self._held.pop(address, None)
        session_id, is_stored = self._place(address)
        if is_stored:
            self._repository.delete(session_id, children="detach")

    # --- lists

    def list(self, app: str, user: str | None) -> list[tuple[Address, Held]]:
        """Return the sessions of an app, or of one of its users."""
        meta = {APP: app} if user is None else {APP: app, USER: user}
        found, cursor = [], None
        while True:
            page = self._repository.list(meta=meta, limit=1000, cursor=cursor)
            for record in page:
                if SESSION in record.meta:
                    address = Address(*(record.meta[key] for key in (APP, USER, SESSION)))
                    held = self.find(address)
                    if held is not None:
                        found.append((address, held))
            if (cursor := page.cursor) is None:
                return found
