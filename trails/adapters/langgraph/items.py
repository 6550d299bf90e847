"""The items of one namespace of a LangGraph store, as turns of a session: each value that was put is one, the last one counts.

An item that is deleted has its turns redacted, the oldest first, so none of its values is left, nor its key.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from trails.adapters.langgraph.messages import KEY
from trails.adapters.langgraph.records import MARK, ROLE, record_of
from trails.errors import InvalidInput
from trails.model.iris import UNNAMED
from trails.model.values import Turn
from trails.session.session import Session

Namespace = tuple[str, ...]
NAMESPACE: Final = "langgraph_items"
"""The key of a session's metadata that names the namespace of its items, as JSON."""
STORE: Final = {"langgraph": "items"}
"""What the metadata of all sessions with items says."""


class StoredItem(NamedTuple):
    """An item as its turns keep it."""

    key: str
    value: dict[str, Any]
    created: datetime
    updated: datetime
    ttl: float | None
    """Minutes that it is kept after it was last put or read; None: for ever."""
    used: datetime
    fields: list[str] | bool | None
    """Which fields are embedded, as `put` was told."""
    turns: tuple[tuple[str, int], ...]
    """Its turns, by session and index, the oldest first."""

    def is_expired(self, now: datetime) -> bool:
        """Tell whether its time is over."""
        return self.ttl is not None and now - self.used >= timedelta(minutes=self.ttl)


def namespace_meta(namespace: Namespace) -> dict[str, str]:
    """Return the metadata of the session of a namespace."""
    return STORE | {NAMESPACE: json.dumps(namespace, ensure_ascii=False)}


def namespace_of(meta: Mapping[str, Any]) -> Namespace | None:
    """Return the namespace that a session's metadata names; None if a redaction took its name."""
    try:
        names = json.loads(str(meta[NAMESPACE]))
    except (KeyError, ValueError):
        return None
    return tuple(names) if isinstance(names, list) and all(isinstance(name, str) for name in names) else None


def check_item(key: object, value: object, ttl: object) -> None:
    """Raise `InvalidInput` for a key that is no text, a value that is no mapping, or a time to live that has no end."""
    if not isinstance(key, str):
        raise InvalidInput(f"the key of an item is a text, not {key!r:.80}")
    if not isinstance(value, Mapping):
        raise InvalidInput(f"the value of an item is a mapping, not {value!r:.80}")
    if ttl is None:
        return
    try:
        datetime.now(UTC) + timedelta(minutes=ttl)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(f"ttl is a number of minutes, at most some thousand years, not {ttl!r:.80}") from error


def item_record(key: str, created: datetime, ttl: float | None, fields: list[str] | bool | None) -> dict[str, Any]:
    """Return what the turn of a value says of its item. Names have one letter: `redact_matching` finds two or more."""
    record: dict[str, Any] = {"k": key, "c": created.isoformat()}
    given = {"t": ttl, "f": fields}
    return record | {name: value for name, value in given.items() if value is not None}


def append_value(session: Session, record: dict[str, Any], value: dict[str, Any]) -> Turn:
    """Append a value of an item; raise `InvalidInput` for one that is no JSON."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        key = record["k"]
        raise InvalidInput(f"the value of the item {key!r:.80} is no JSON, which a store keeps: {error}") from error
    return session.append(ROLE, text, meta={KEY: {"i": record}})


def append_use(session: Session, key: str) -> Turn:
    """Append that an item was read, from which its time to live is counted."""
    return session.append(ROLE, MARK, meta={KEY: {"u": key}})


class Shelf:
    """The items of one namespace, in memory, read up to a place in each of its sessions."""

    def __init__(self, namespace: Namespace) -> None:
        """Begin without a session."""
        self.namespace = namespace
        self.sessions: dict[str, Session] = {}
        self.items: dict[str, StoredItem] = {}
        self._ends: dict[str, int] = {}

    def read(self) -> set[str]:
        """Read the turns that were not read yet; return the keys of the items that they change."""
        turns = sorted(self._unread(), key=lambda turn: turn.time or datetime.min.replace(tzinfo=UTC))
        return {key for turn in turns if (key := self.take(turn)) is not None}

    def _unread(self) -> Iterator[Turn]:
        for session_id, session in self.sessions.items():
            yield from session.turns[self._ends.get(session_id, 0) :]
            self._ends[session_id] = len(session)

    def take(self, turn: Turn) -> str | None:
        """Take in one turn; return the key of the item that it changes."""
        said, place = record_of(turn.meta), (turn.session_id, turn.index)
        now = turn.time or datetime.now(UTC)
        if "u" in said and (item := self.items.get(said["u"])) is not None:
            self.items[item.key] = item._replace(used=now, turns=(*item.turns, place))
            return item.key
        about = said.get("i")
        if not isinstance(about, dict) or not isinstance(about.get("k"), str) or turn.content is None:
            return None  # deleted, or redacted
        key: str = about["k"]
        before = self.items.get(key)
        ttl, fields = about.get("t"), about.get("f")
        self.items[key] = StoredItem(
            key,
            _value(turn.content),
            _time(about.get("c"), now),
            now,
            ttl if isinstance(ttl, int | float) else None,
            now,
            fields if isinstance(fields, list | bool) else None,
            (*(before.turns if before else ()), place),
        )
        return key

    def session(self) -> Session | None:
        """Return the session that values are appended to; None if there is none yet."""
        return next(iter(self.sessions.values()), None)

    def note_appended(self, session: Session) -> None:
        """Take what was appended to a session and is stored now for read."""
        self.sessions[session.id] = session
        for turn in session.turns[self._ends.get(session.id, 0) :]:
            self.take(turn)
        self._ends[session.id] = len(session)


def _value(content: Any) -> dict[str, Any]:
    """Return the value that a turn's content says; a redacted one has the key `redacted` alone."""
    try:
        value = json.loads(content)
    except (TypeError, ValueError):
        value = content
    return value if isinstance(value, dict) else {UNNAMED: UNNAMED}


def _time(said: object, otherwise: datetime) -> datetime:
    """Return the time that a record says; another one if that was redacted."""
    try:
        return datetime.fromisoformat(said)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return otherwise
