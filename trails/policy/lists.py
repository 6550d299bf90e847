"""Which sessions a list shows, in which order and under which names."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal, Self

from trails.errors import InvalidInput
from trails.keys.canonical import store_key_of_agent
from trails.keys.configuration import only, section
from trails.keys.groups import group_display_name
from trails.keys.ids import normalize_agent_id
from trails.keys.parsing import classify_key, parse_agent_key, parse_group_key
from trails.keys.script import first_units, is_number, lower, single_spaced, trim, units
from trails.keys.settings import KeySettings
from trails.model import Value
from trails.policy.entry_fields import total_tokens
from trails.policy.times import Moment, from_ms, to_ms

Entries = Mapping[str, Mapping[str, Any]]
TITLE_UNITS: Final = 60
"""The length of a title, in UTF-16 code units."""
_MINUTE: Final = 60_000


class ListQuery(Value):
    """What a list of sessions is to show; by default all but the global and the unknown session."""

    include_global: bool = False
    include_unknown: bool = False
    spawned_by: str | None = None
    label: str | None = None
    agent_id: str | None = None
    search: str | None = None
    """A part of the name, label, subject, id or key, in any case."""
    active_minutes: float | None = None
    limit: float | None = None

    @classmethod
    def from_json(cls, value: Mapping[str, Any] | None) -> Self:
        """Read the parameters of `sessions.list`; others, and those of the wrong kind, raise `InvalidInput`."""
        fields = section(value, "sessions.list")
        only(fields, "sessions.list", _LIST_FIELDS)
        for name, found in fields.items():
            if not isinstance(found, _LIST_FIELDS[name]) or (
                isinstance(found, bool) and _LIST_FIELDS[name] is not bool
            ):
                raise InvalidInput(f"sessions.list.{name} is of the wrong kind: {found!r}")
        return cls(**{_LIST_NAMES[name]: found for name, found in fields.items() if name in _LIST_NAMES})


_LIST_FIELDS: Final[Mapping[str, Any]] = {
    "includeGlobal": bool,
    "includeUnknown": bool,
    "includeDerivedTitles": bool,
    "includeLastMessage": bool,
    "spawnedBy": str,
    "label": str,
    "agentId": str,
    "search": str,
    "activeMinutes": (int, float),
    "limit": (int, float),
}
_LIST_NAMES: Final = {
    "includeGlobal": "include_global",
    "includeUnknown": "include_unknown",
    "spawnedBy": "spawned_by",
    "label": "label",
    "agentId": "agent_id",
    "search": "search",
    "activeMinutes": "active_minutes",
    "limit": "limit",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionRow:
    """One session of a list: its key, its entry as stored, and what is derived of both."""

    key: str
    entry: Mapping[str, Any]
    kind: Literal["global", "unknown", "group", "direct"]
    display_name: str | None = None
    channel: str | None = None
    updated_at: int | None = None
    total_tokens: int = 0

    @property
    def session_id(self) -> str | None:
        """The id of the session."""
        return self.entry.get("sessionId")

    @property
    def label(self) -> str | None:
        """The session's label."""
        return self.entry.get("label")


def combined_entries(entries: Entries, settings: KeySettings | None = None) -> dict[str, Mapping[str, Any]]:
    """Return entries under keys of one form: one without an agent is the default agent's. The newer of two entries wins.

    >>> list(combined_entries({"main": {"sessionId": "s"}, "global": {"sessionId": "g"}}))
    ['agent:main:main', 'global']
    """
    agent = (settings or KeySettings()).default_agent
    found: dict[str, Mapping[str, Any]] = {}
    for key, entry in entries.items():
        whole = store_key_of_agent(key, agent)
        known = found.get(whole)
        merged = dict(entry) if known is None else _newest_over(known, entry)
        spawner = trim(merged.get("spawnedBy"))
        if spawner:
            merged["spawnedBy"] = store_key_of_agent(spawner, agent)
        found[whole] = merged
    return found


def _newest_over(known: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    older, newer = (entry, known) if (last_update(known) or 0) > (last_update(entry) or 0) else (known, entry)
    return {**older, **newer}


def last_update(entry: Mapping[str, Any]) -> int | None:
    """Return when an entry was last updated, in milliseconds since 1970, if it says so."""
    value: Any = entry.get("updatedAt")
    return int(value) if is_number(value) else None


def list_sessions(
    entries: Entries, query: ListQuery | None = None, *, now: Moment, settings: KeySettings | None = None
) -> list[SessionRow]:
    """Return the sessions that a query asks for, the latest updated first.

    >>> entries = {"agent:main:main": {"updatedAt": 5}, "agent:main:slack:group:dev": {"updatedAt": 9, "subject": "Dev"}}
    >>> [(row.key, row.display_name) for row in list_sessions(entries, now=10)]
    [('agent:main:slack:group:dev', 'slack:g-dev'), ('agent:main:main', None)]
    """
    asked = query or ListQuery()
    combined = combined_entries(entries, settings)
    rows = [_row(key, entry) for key, entry in combined.items() if is_asked(key, entry, asked)]
    rows.sort(key=lambda row: row.updated_at or 0, reverse=True)
    if needle := lower(asked.search):
        rows = [row for row in rows if any(needle in text.lower() for text in _searched(row))]
    if asked.active_minutes is not None and math.isfinite(asked.active_minutes):
        since = to_ms(now) - max(1, math.floor(asked.active_minutes)) * _MINUTE
        rows = [row for row in rows if (row.updated_at or 0) >= since]
    if asked.limit is not None and math.isfinite(asked.limit):
        rows = rows[: max(1, math.floor(asked.limit))]
    return rows


def is_asked(key: str, entry: Mapping[str, Any], asked: ListQuery) -> bool:
    """Tell whether a query asks for a session, by all but its search, its time and its limit."""
    alone = key in ("global", "unknown")
    if (key == "global" and not asked.include_global) or (key == "unknown" and not asked.include_unknown):
        return False
    if asked.agent_id is not None and (alone or not is_of_agent(key, asked.agent_id)):
        return False
    if asked.spawned_by and (alone or entry.get("spawnedBy") != asked.spawned_by):
        return False
    label = trim(asked.label)
    return not label or entry.get("label") == label


def is_of_agent(key: str, agent_id: str) -> bool:
    """Tell whether a key belongs to an agent."""
    parsed = parse_agent_key(key)
    return parsed is not None and normalize_agent_id(parsed.agent_id) == normalize_agent_id(agent_id)


def _row(key: str, entry: Mapping[str, Any]) -> SessionRow:
    group = parse_group_key(key)
    channel = entry.get("channel") or (group.channel if group else None)
    return SessionRow(
        key=key,
        entry=entry,
        kind=classify_key(key, entry),
        display_name=_display_name(key, entry, channel, group.id if group else None),
        channel=channel,
        updated_at=last_update(entry),
        total_tokens=total_tokens(entry),
    )


def _display_name(key: str, entry: Mapping[str, Any], channel: str | None, group_id: str | None) -> str | None:
    if entry.get("displayName") is not None:
        return str(entry["displayName"])
    if channel:
        return group_display_name(
            key=key,
            provider=channel,
            subject=entry.get("subject"),
            group_channel=entry.get("groupChannel"),
            space=entry.get("space"),
            group_id=group_id,
        )
    return entry.get("label") or (entry.get("origin") or {}).get("label")


def _searched(row: SessionRow) -> Iterator[str]:
    for text in (row.display_name, row.label, row.entry.get("subject"), row.session_id, row.key):
        if isinstance(text, str):
            yield text


def session_title(entry: Mapping[str, Any] | None, first_user_message: str | None = None) -> str | None:
    """Return how a list entitles a session: its name, its subject, the start of its first message, or its id and day.

    A message is cut after 60 UTF-16 code units, at a space where one is near, and no character is split.

    >>> session_title({"sessionId": "abc123"}, "Hello,  how are you?")
    'Hello, how are you?'
    >>> session_title({"sessionId": "abcd1234-5678", "updatedAt": 1710498600000})
    'abcd1234 (2024-03-15)'
    """
    if entry is None:
        return None
    for name in ("displayName", "subject"):
        told = entry.get(name)
        if isinstance(told, str) and trim(told):
            return trim(told)
    if message := single_spaced(first_user_message or ""):
        return _cut(message)
    session = entry.get("sessionId")
    return _id_and_day(session, entry.get("updatedAt")) if isinstance(session, str) and session else None


def _cut(text: str) -> str:
    if units(text) <= TITLE_UNITS:
        return text
    cut = first_units(text, TITLE_UNITS - 1)
    space = cut.rfind(" ")
    return f"{cut[:space] if units(cut[: max(space, 0)]) > TITLE_UNITS * 0.6 else cut}…"


def _id_and_day(name: str, updated: Any) -> str:
    if isinstance(updated, str):
        try:
            updated = datetime.fromisoformat(updated)
        except ValueError:
            raise InvalidInput(f"updatedAt of session {name!r} is no time: {updated!r}") from None
    moment = updated.replace(tzinfo=updated.tzinfo or UTC) if isinstance(updated, datetime) else updated
    milliseconds = to_ms(moment) if isinstance(moment, datetime) else int(moment) if is_number(moment) else 0
    start = first_units(name, 8)
    return f"{start} ({from_ms(milliseconds).date().isoformat()})" if milliseconds > 0 else start
