"""A session of Google's Agent Development Kit as it is stored: where it is, its state, and its events."""

from __future__ import annotations

import json
from typing import Final, NamedTuple, Self
from urllib.parse import unquote

from google.adk.events.event import Event

from trails.adapters import message_turns, opened_store
from trails.adapters.google_adk import event_turns
from trails.adapters.google_adk.event_turns import State
from trails.errors import InvalidInput
from trails.model import validation
from trails.session.session import Session

APP: Final = "adk_app"
USER: Final = "adk_user"
SESSION: Final = "adk_session"
"""Keys of the metadata by which a session is found."""
_BLOCK: Final = 16


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

    @classmethod
    def of_id(cls, session_id: str) -> Self | None:
        """Return the address of a session by its id in the store; None if the id does not tell it: a long one is a digest."""
        kind, *parts = session_id.split(":")
        names = {"adk": 3, "adk-user": 2, "adk-app": 1}.get(kind, 0)
        if not names or len(parts) not in (names, names + 1):  # a number follows if the id was deleted before
            return None
        return cls(*map(unquote, parts[:names]))

    @property
    def meta(self) -> dict[str, str]:
        """The metadata of the session in the store."""
        return {key: part for key, part in zip((APP, USER, SESSION), self, strict=True) if part is not None}


class Snapshot(NamedTuple):
    """A session without its events."""

    state_json: bytes
    """Its own state, without what its user's and its app's sessions share."""
    updated: float
    """When it was last added to, or made: seconds since 1970."""
    marker: str
    """What changes with each turn: the head's digest."""

    @property
    def state(self) -> State:
        """Its own state, a fresh copy each time."""
        return dict(json.loads(self.state_json))


class Held:
    """A session of the store, with its state after its last turn."""

    __slots__ = ("_state_at", "_state_json", "session")

    def __init__(self, session: Session) -> None:
        self.session = session
        self._state_json = b"{}"
        self._state_at: str | None = None
        """The head for which the state is known."""

    @property
    def snapshot(self) -> Snapshot:
        """The session as it is now."""
        last = self.session.tail(1)
        time = (last[0].time if last else None) or self.session.record.created
        return Snapshot(self.state_json, 0.0 if time is None else time.timestamp(), self.session.head)

    @property
    def state_json(self) -> bytes:
        """The state of the session alone, as JSON."""
        if self._state_at != self.session.head:
            self.know(self._read_state())
        return self._state_json

    def know(self, state_json: bytes) -> None:
        """Keep in mind what the state after the last turn is."""
        self._state_json, self._state_at = state_json, self.session.head

    def _read_state(self) -> bytes:
        length = len(self.session)
        for end in range(length, 0, -_BLOCK):
            for turn in reversed(self.session[max(0, end - _BLOCK) : end]):
                if event_turns.says_state(turn):
                    payload = message_turns.payload_of(turn, event_turns.STATE_AFTER)
                    return b"{}" if payload is None else self.session.payload(payload)
        return b"{}"

    def events(self, newest: int | None = None) -> list[Event]:
        """Return the events, the oldest first: the `newest` ones, or all."""
        if newest is None:
            records = [each for each in message_turns.read_records(self.session.turns) if _is_event(each)]
        else:
            records = message_turns.last_records(self.session.tail, len(self.session), newest, wanted=_is_event)
        return [self._event(each) for each in records]

    def _event(self, record: message_turns.Record) -> Event:
        if record.exact is None:
            return event_turns.event_of_turns(record.turns)
        return event_turns.read_event(record.turns, self.session.payload(record.exact))

    def turns_of(self, events: int) -> int:
        """Return how many turns the first events are; raise `InvalidInput` if there are fewer events."""
        validation.index(events, "events")
        starts = [each.turns[0].index for each in message_turns.read_records(self.session.turns) if _is_event(each)]
        if not 0 <= events <= len(starts):
            raise InvalidInput(f"session {self.session.id!r} has {len(starts)} events, not {events}")
        return [*starts, len(self.session)][events]

    def last_event_id(self) -> str | None:
        """Return the id of the last event, None where there is none."""
        last = self.events(1)
        return last[0].id if last else None


def _is_event(record: message_turns.Record) -> bool:
    return not event_turns.sets_state(record.turns[0])
